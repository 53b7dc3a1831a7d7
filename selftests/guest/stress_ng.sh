#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: stress-ng --perf. Needs deterministic time (--icount), as multiplex.sh.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./count.sh
cd /tmp || exit

log=$(mktemp)
sysctl -q kernel.nmi_watchdog=0

# stressed OPS: sets m to the instructions by stress-ng's own account, and p and u to those by perf, all and
# in user mode
stressed() {
	stress-ng --perf --nop 1 --nop-ops "$1" >"$log" 2>&1
	m=$(awk '$5 == "Instructions" { print $4 }' "$log")
	perf stat -x, -o "$out" -e instructions,instructions:u -- \
		stress-ng --nop 1 --nop-ops "$1" >/dev/null 2>&1
	p=$(counted instructions) u=$(counted instructions:u)
}

# stress-ng asks for more events than there are counters. So its counts are scaled, and those of kernel
# mode have the work of the turns in them: 250 interrupts a second, each of which takes all events off
# and puts others on. perf gets a counter for each of its own. What both have done before and after is the same.
stressed 2000
m0=$m p0=$p u0=$u
stressed 8000
if are_numbers "stress-ng" "$m0" "$p0" "$u0" "$m" "$p" "$u"; then
	note "stress-ng: $m0, $m; perf: $p0, $p; in user mode $u0, $u"
	within "6000 times nop: instructions" $((m - m0)) $(((u - u0) * 99 / 100)) $(((p - p0) * 105 / 100))
fi
for event in "CPU Cycles" "Branch Instructions" "Branch Misses" "Cache References" "Cache L1D Read"; do
	within "stress-ng: $event" "$(sed -n "s/.* \([0-9][0-9]*\) $event  .*/\1/p" "$log")" 1 1000000000000
done

rm -f "$log" "$out"
finish
