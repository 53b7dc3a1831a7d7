#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""For serve.sh: a client of HTTP, a parser of OpenMetrics, and what systemd does before it starts a service.

serve.py ask PORT METHOD PATH [BODY]    print status, headers and body
serve.py idle PORT N SECONDS            open N connections that say nothing; print after how many whole
                                        seconds each was closed, or "open"
serve.py many PORT N                    N requests at once; print how many were answered
serve.py hurry PORT SECONDS             make requests, one after another; print how many there were
serve.py parse                          print each sample of stdin, as Prometheus' own library has it
serve.py listen KIND COUNT COMMAND...   run COMMAND with COUNT sockets in LISTEN_FDS, of KIND tcp, unix:PATH
                                        or udp
"""
import http.client
import os
import select
import socket
import sys
import threading
import time


def ask(port, method, path, body=None):
    if port.startswith("unix:"):
        connection = http.client.HTTPConnection("localhost", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(port[len("unix:"):])
    else:
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    connection.request(method, path, body)
    response = connection.getresponse()
    return response, response.read()


def command_ask(port, method, path, body=None):
    response, content = ask(port, method, path, body)
    print(response.status)
    for name, value in response.getheaders():
        if name != "Date":
            print(f"{name}: {value}")
    print()
    sys.stdout.flush()
    sys.stdout.buffer.write(content)


def command_idle(port, n, seconds):
    start = time.monotonic()
    sockets = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(int(n))]
    closed = {}
    while len(closed) < len(sockets) and time.monotonic() < start + float(seconds):
        left = [s for s in sockets if s not in closed]
        for s in select.select(left, [], [], 0.1)[0]:
            closed[s] = int(time.monotonic() - start)
    print(*(closed.get(s, "open") for s in sockets))


def command_many(port, n):
    answered = []

    def one():
        try:
            if ask(port, "GET", "/metrics")[1].endswith(b"# EOF\n"):
                answered.append(1)
        except OSError:
            pass

    threads = [threading.Thread(target=one) for _ in range(int(n))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(answered))


def command_hurry(port, seconds):
    n, end = 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        ask(port, "GET", "/metrics")
        n += 1
    print(n)


def command_parse():
    from prometheus_client.openmetrics import parser

    for family in parser.text_string_to_metric_families(sys.stdin.read()):
        for sample in family.samples:
            print(family.type, family.unit or "-", sample.name, sample.labels, sample.value)


def command_listen(kind, count, *command):
    sockets = []
    for i in range(int(count)):
        s = socket.socket(socket.AF_UNIX if kind.startswith("unix:") else socket.AF_INET,
                          socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
        s.bind(kind[len("unix:"):] if kind.startswith("unix:") else ("127.0.0.1", 0))
        if kind != "udp":
            s.listen()
        if kind == "tcp":
            print(f"listening at http://127.0.0.1:{s.getsockname()[1]}/metrics", file=sys.stderr, flush=True)
        os.dup2(s.fileno(), 3 + i)
        os.set_inheritable(3 + i, True)
        sockets.append(s)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = count
    os.execv(command[0], command)


try:
    globals()["command_" + sys.argv[1]](*sys.argv[2:])
except OSError as error:
    sys.exit(f"serve.py {sys.argv[1]}: {error}")
