#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Of an emulator's log of each executed instruction (QEMU's "exec"): the way between two stays in a
small guest (its code is below 1 MB) that occurred most often, as functions with their instructions, in
order and in all.

paths.py SYMBOLS LOG [FUNCTION]: SYMBOLS as in /proc/kallsyms; only ways that pass FUNCTION
"""
import bisect
import collections
import itertools
import re
import sys

GUEST_END = 0x100000
KERNEL = 0xffff800000000000


def read_symbols(name):
    with open(name, encoding="ascii") as lines:
        symbols = [(int(address, 16), symbol) for address, kind, symbol in
                   (line.split()[:3] for line in lines) if kind in "tTwW"]
    symbols.sort()
    return [a for a, _ in symbols], [s for _, s in symbols]


def read_ways(name, addresses, names):
    def function(pc):
        i = bisect.bisect_right(addresses, pc) - 1
        return names[i] if pc >= KERNEL and i >= 0 else "(user)"

    known, way = {}, []
    with open(name, encoding="ascii", errors="replace") as lines:
        for line in lines:
            match = re.match(r"Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", line)
            if not match:
                continue
            pc = int(match.group(1), 16)
            if pc >= GUEST_END:
                if pc not in known:
                    known[pc] = function(pc)
                way.append(known[pc])
            elif way:
                yield tuple(way)
                way = []


def main():
    ways = read_ways(sys.argv[2], *read_symbols(sys.argv[1]))
    if len(sys.argv) > 3:
        ways = (way for way in ways if sys.argv[3] in way)
    ways = collections.Counter(ways)
    if not ways:
        sys.exit("no guest was entered so while the log was written")
    way, times = ways.most_common(1)[0]
    print("%d instructions; %d of %d ways were like this" % (len(way), times, sum(ways.values())))
    print("\nin order:")
    for name, group in itertools.groupby(way):
        print("%6d %s" % (len(list(group)), name))
    print("\nin all:")
    for name, instructions in collections.Counter(way).most_common():
        print("%6d %s" % (instructions, name))


main()
