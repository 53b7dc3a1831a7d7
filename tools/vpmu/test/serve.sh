#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Figures for Prometheus, of a device that is only made up (fake_open.c): what Prometheus' own library makes of
# them, and the server. Argument: the tool.

cd "$(dirname "$0")" || exit
. ../../../selftests/tap.sh
vpmu=$1
tmp=$(mktemp -d) || exit
trap 'rm -r "$tmp"' EXIT
ask=(python3 serve.py ask)

# has NAME TEXT PART
has() {
	case $2 in
	*"$3"*) ok "$1" ;;
	*)
		not_ok "$1"
		note "no '$3' in: $(head -c 1000 <<<"$2")"
		;;
	esac
}

# The format: a name with all that has to be escaped, and what has to be no more than text
mkfifo "$tmp/fifo"
sh -c 'read -r _; :' qemu -name $'guest=a"b\\c\nd,,e="f"} 1 # EOF,debug-threads=on' <>"$tmp/fifo" &
named=$!
export VPMU_FAKE="5:$named:2 7:4194303:1"
"$vpmu" stat --openmetrics >"$tmp/all"
is "stat --openmetrics: status" $? 0
python3 serve.py parse <"$tmp/all" >"$tmp/parsed" 2>&1
is "a parser takes it" $? 0
tail -n 3 "$tmp/parsed" | sed 's/^/# /'
is "samples" "$(wc -l <"$tmp/parsed")" $((6 + 2 + 3 * (16 + 2 * 3)))
has "the name" "$(cat "$tmp/parsed")" \
	"kvm_vpmu_vm_info {'vm': '5', 'name': 'a\"b\\\\c?d,e=\"f\"} 1 # EOF', 'pid': '$named', 'freeze': 'hybrid', 'tsc': 'wall'} 1"
has "a counter" "$(cat "$tmp/parsed")" "counter - kvm_vpmu_vcpu_exits_total {'vm': '5', 'vcpu': '2'} 1000001"
has "a time and its unit" "$(cat "$tmp/parsed")" \
	"counter seconds kvm_vpmu_counter_running_seconds_total {'vm': '7', 'vcpu': '0', 'counter': '1'} 0.001"
is "the last line" "$(tail -n 1 "$tmp/all")" "# EOF"
"$vpmu" stat -o '#7' | python3 serve.py parse >"$tmp/parsed" 2>&1
is "one VM: its samples, and the host's" "$(grep -c "'vm': '7'" "$tmp/parsed"),$(grep -vc "'vm': '7'" "$tmp/parsed")" \
	"$((1 + 16 + 2 * 3)),6"
VPMU_FAKE=none "$vpmu" stat -o | python3 serve.py parse >"$tmp/parsed" 2>&1
is "no VMs: the host's samples" "$(cut -d' ' -f3 "$tmp/parsed" | tr '\n' ' ')" \
	"kvm_vpmu_module_info kvm_vpmu_physical_counters kvm_vpmu_vms kvm_vpmu_register_accesses_total kvm_vpmu_register_accesses_total kvm_vpmu_register_accesses_total "
"$vpmu" stat -o '#6' >"$tmp/parsed" 2>&1
is "no such VM: status" $? 3
VPMU_FAKE=broken "$vpmu" stat -o >"$tmp/parsed" 2>&1
is "the device fails: status" $? 1

# serve [COMMAND...]: start a server, leaves $server and $port
serve() {
	local i
	: >"$tmp/said"
	"$@" "$vpmu" serve "${options[@]}" 2>"$tmp/said" </dev/null &
	server=$!
	for ((i = 0; i < 100; i++)); do
		if grep -q "^vpmu: listening" "$tmp/said"; then
			port=$(sed -n 's|.*listening at http://.*:\([0-9]*\)/metrics$|\1|p' "$tmp/said")
			return
		fi
		sleep 0.1
	done
	not_ok "the server starts"
	sed 's/^/# /' "$tmp/said"
}

# stop NAME [SIGNAL]
stop() {
	kill -"${2:-TERM}" $server
	wait $server
	is "$1: status" $? 0
}

# get METHOD PATH [BODY]: leaves $status, $headers and the body in $tmp/body
get() {
	"${ask[@]}" "$port" "$@" >"$tmp/answer" 2>"$tmp/error"
	status=$(head -n 1 "$tmp/answer")
	headers=$(sed '1d; /^$/q' "$tmp/answer")
	sed '1,/^$/d' "$tmp/answer" >"$tmp/body"
}

# answers STATUS METHOD PATH [BODY]
answers() {
	local want=$1
	shift
	get "$@"
	is "$1 $2${3:+ with a body}" "$status" "$want"
	[ "$status" = "$want" ] || sed 's/^/# /' "$tmp/error"
}

# fresh: until figures are too old for the server
fresh() {
	sleep 1.1
}

echo "$VPMU_FAKE" >"$tmp/fake"
VPMU_FAKE="@$tmp/fake"
options=(--listen 0)
serve
answers 200 GET /metrics
is "as stat prints it" "$(cmp "$tmp/body" "$tmp/all" 2>&1)" ""
is "headers" "$(grep -v '^Content-Length' <<<"$headers" | sort | tr '\n' ';')" \
	"Connection: close;Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8;"
length=$(grep '^Content-Length' <<<"$headers")
is "its length" "$length" "Content-Length: $(wc -c <"$tmp/all")"
answers 200 GET '/metrics?name=value'
answers 200 GET /metrics "a body of a GET"
answers 200 HEAD /metrics
is "HEAD: no body" "$(wc -c <"$tmp/body")" 0
is "HEAD: the length" "$(grep '^Content-Length' <<<"$headers")" "$length"
answers 200 GET /
has "/ names the path" "$(cat "$tmp/body")" /metrics
for path in /metric /metrics/ /metrics/x //metrics /../metrics /favicon.ico '*'; do
	answers 404 GET "$path"
done
answers 404 HEAD /nothing
for method in POST PUT DELETE OPTIONS PATCH NOTHING; do
	answers 405 $method /metrics
done
has "405: what is allowed" "$headers" "Allow: GET, HEAD"
answers 405 POST /metrics "a body"

# The device comes and goes; nobody keeps it.
files=$(find /proc/$server/fd | wc -l)
for what in absent denied others old broken; do
	echo $what >"$tmp/fake"
	fresh
	answers 503 GET /metrics
	case $what in
	absent) reason="is kvm_vpmu loaded?" ;;
	denied) reason="group kvm" ;;
	others) reason="needs CAP_PERFMON" ;;
	old) reason="version 0" ;;
	broken) reason="Input/output error" ;;
	esac
	has "503 $what: the reason" "$(cat "$tmp/body")" "$reason"
	has "503 $what: text" "$headers" "Content-Type: text/plain"
	answers 503 HEAD /metrics
	answers 200 GET /
	fresh
	answers 503 GET /metrics
	is "503 $what: the log has it once" "$(grep -c "no figures: .*$reason" "$tmp/said")" 1
	echo none >"$tmp/fake"
	fresh
	answers 200 GET /metrics
	has "figures again" "$(cat "$tmp/body")" "kvm_vpmu_vms 0"
done
is "the log: each return" "$(grep -c 'figures again' "$tmp/said")" 5
is "no file is left open" "$(find /proc/$server/fd | wc -l)" "$files"

# Who is in a hurry gets the same figures again; what was looked at is told by the fake's own number of VMs.
for _ in {1..20}; do
	echo "1:1:1" >"$tmp/fake"
	fresh
	get GET /metrics
	looked=${EPOCHREALTIME//[!0-9]/}
	echo "1:1:1 2:2:1" >"$tmp/fake"
	python3 serve.py hurry "$port" 0.3 >"$tmp/hurry"
	get GET /metrics
	# Unless this machine is so busy that the figures are too old by now
	[ $((${EPOCHREALTIME//[!0-9]/} - looked)) -gt 900000 ] || break
done
within "requests in a third of a second" "$(cat "$tmp/hurry")" 2 100000
is "the same figures again" "$(grep '^kvm_vpmu_vms ' "$tmp/body")" "kvm_vpmu_vms 1"
fresh
get GET /metrics
is "others when they are too old" "$(grep '^kvm_vpmu_vms ' "$tmp/body")" "kvm_vpmu_vms 2"

# Limits
is "50 at once, all are answered" "$(python3 serve.py many "$port" 50)" 50
within "threads" "$(find /proc/$server/task -maxdepth 1 -mindepth 1 | wc -l)" 1 1
python3 serve.py idle "$port" 8 15 >"$tmp/idle" &
idle=$!
sleep 1
is "connections at once" "$(find /proc/$server/fd | wc -l)" $((files + 8))
answers 200 GET /metrics
wait $idle
note "closed after seconds: $(cat "$tmp/idle")"
is "those who say nothing are sent away after 10 s" \
	"$(tr ' ' '\n' <"$tmp/idle" | awk '$1 >= 9 && $1 <= 12 { n++ } END { print n }')" 8
python3 serve.py idle "$port" 8 5 >"$tmp/idle" &
idle=$!
sleep 1
stop "SIGTERM while there are connections"
wait $idle

serve
is "loopback only" "$(sed -n 's|.*http://\(.*\):[0-9]*/metrics|\1|p' "$tmp/said")" 127.0.0.1
"$vpmu" serve -l "$port" 2>"$tmp/error"
is "a port that is taken: status" $? 1
has "a port that is taken: message" "$(cat "$tmp/error")" "Address already in use"
answers 200 GET /metrics
stop SIGINT INT
# At once, while the last connection's other end still waits
options=(--listen "127.0.0.1:$port")
serve
answers 200 GET /metrics
stop "again at once"
options=(--listen '[::1]:0')
serve
has "IPv6" "$(cat "$tmp/said")" "listening at http://[::1]:$port/metrics"
stop IPv6

# systemd's socket
options=()
serve python3 serve.py listen tcp 1
answers 200 GET /metrics
has "systemd's socket" "$(cat "$tmp/said")" "listening on systemd's socket"
stop "systemd's socket"
serve python3 serve.py listen "unix:$tmp/socket" 1
port=unix:$tmp/socket
answers 200 GET /metrics
stop "systemd's socket, of AF_UNIX"
for wrong in "tcp 2" "udp 1" "tcp 0"; do
	# shellcheck disable=SC2086 # two words
	python3 serve.py listen $wrong "$vpmu" serve 2>"$tmp/error"
	is "LISTEN_FDS, $wrong: status" $? 2
	has "LISTEN_FDS, $wrong: message" "$(cat "$tmp/error")" LISTEN_FDS
done
options=(--listen 0)
serve env LISTEN_FDS=1 LISTEN_PID=1
answers 200 GET /metrics
stop "another process' LISTEN_FDS"

kill $named
wait $named 2>/dev/null
finish
