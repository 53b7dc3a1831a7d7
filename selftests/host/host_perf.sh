#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with x-pmu-oracle=on and its NMI watchdog: perf of the host beside guests that
# count, both against the truth. Needs BUILD and PROGRAMS.
#
#	host_perf.sh [program [icount]]
#
# "program": only what selftests/kvm/host_perf.c tests, which on a host of several CPUs is more; "icount":
# with deterministic time.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
dir=$(mktemp -d)

modprobe msr
is "the NMI watchdog is on" "$(cat /proc/sys/kernel/nmi_watchdog)" 1
relay "$BUILD/kvm/host_perf" "${@:2}"
[ "${1:-}" != program ] || finish

# ---- the host's own perf, beside a stock guest under its perf

# For a process: instructions and branches of a loop, and samples of it
for_a_process() {
	local n=$((1000 * (RANDOM % 900 + 100))) name=$1 i0 b0 i b
	perf stat -x, -o "$dir/none" -e instructions:u,branches:u -- "$PROGRAMS/exact" loop 00000000
	perf stat -x, -o "$dir/many" -e instructions:u,branches:u -- \
		"$PROGRAMS/exact" loop "$(printf %08x $n)"
	i0=$(counted "$dir/none" instructions) b0=$(counted "$dir/none" branches)
	i=$(counted "$dir/many" instructions) b=$(counted "$dir/many" branches)
	is "$name: instructions and branches of a process" \
		"$((${i:-0} - ${i0:-0})) $((${b:-0} - ${b0:-0}))" "$((3 * n)) $n"
	perf record -q -o "$dir/data" -c 10007 -e instructions:u -- \
		"$PROGRAMS/exact" loop "$(printf %08x $n)" 2>/dev/null
	within "$name: samples of a process" "$(events "$dir/data" SAMPLE)" $((i / 10007 - 1)) \
		$((i / 10007 + 1))
	is "$name: samples lost" "$(events "$dir/data" LOST)" ""
}

# Of the whole machine: samples, as many events as there are counters, more of them
for_all() {
	local name=$1
	perf record -q -a -o "$dir/data" -c 200003 -e instructions -- sleep 0.5 2>/dev/null
	within "$name: samples of all" "$(events "$dir/data" SAMPLE)" 10 1000000
	is "$name: samples lost" "$(events "$dir/data" LOST)" ""

	perf stat -a -x, -o "$dir/five" -e "{$(printf 'instructions:u,%.0s' 1 2 3 4)instructions:u}" -- \
		"$PROGRAMS/profile" 500
	# A group starts and ends at once, and events of user mode lose nothing by lending.
	is "$name: events for all counters" "$(awk -F, '/instructions/ { print $1 }' "$dir/five" | sort |
		uniq -c | awk '{ print $1 }')" 5

	# Long enough for each to have several turns, and something to count in each
	perf stat -a -x, -o "$dir/ten" -e "$(printf 'instructions:u,%.0s' 1 2 3 4 5 6 7 8 9)instructions:u" -- \
		"$PROGRAMS/profile" 3000
	is "$name: twice as many, which took turns" \
		"$(awk -F, '/instructions/ && $1 > 0 && $5 > 10 && $5 < 95 { n++ } END { print n }' "$dir/ten")" 10
}

# An emulated CPU takes long for each interrupt, by the wall clock; don't let perf sample less then.
sysctl -q kernel.perf_cpu_time_max_percent=0
for_a_process "before the guest"
for_all "before the guest"

# guest EVENTS: its own perf counts the whole of it, by as many counters as $1 has, and two
cat >"$dir/guest" <<'E2'
sysctl -q kernel.nmi_watchdog=0 kernel.perf_cpu_time_max_percent=0
perf stat -a -x, -o /tmp/o -e ${MORE}instructions,branches -- sh -c "
	perf record -q -o /tmp/data -c 10007 -e r00d1:u -- '$PROGRAMS/exact' loop 00100000 2>/dev/null
	for i in 1 2 3 4; do '$PROGRAMS/exact' cpuid 00002000; '$PROGRAMS/profile' 3000; sleep 0.5; done"
awk -F, '$3 ~ /^(instructions|branches)(:|$)/ && $5 == "100.00" { printf "%s ", $1 }' /tmp/o
perf report -i /tmp/data --stats 2>/dev/null | awk '
	$2 == "events:" { v[$1] = $3 } END { print v["SAMPLE"], v["LOST"] }'
E2

# beside NAME EVENTS
beside() {
	local name=$1 guest i b samples lost round=0 got=0 evicted borrowed overflows pmis anomalies
	start
	vpmu-guest -- bash -c "PROGRAMS='$PROGRAMS' MORE='$2'; $(cat "$dir/guest")" >"$dir/result" &
	guest=$!
	# until the guest counts
	while kill -0 $guest 2>/dev/null && [ "$(msr $compared)" = "$before" ]; do
		sleep 0.5
	done
	while kill -0 $guest 2>/dev/null; do
		round=$((round + 1))
		for_a_process "$name $round"
		for_all "$name $round"
		read -r evicted borrowed overflows pmis anomalies <<<"$(figures evicted borrowed overflows pmis anomalies)"
		[ "$borrowed" = 0 ] ||
			got="$borrowed borrowed, $evicted evicted, $overflows overflows, $pmis interrupts, $anomalies anomalies"
	done
	wait $guest
	read -r i b samples lost <"$dir/result"
	is "$name: instructions of the guest" "$i" $(($(msr $instructions) - before_i))
	is "$name: branches of the guest" "$b" $(($(msr $branches) - before_b))
	# 0x100000 of the loop, and a few before it. Another event than those of the whole guest: the
	# oracle's sums are of all counters.
	is "$name: samples in the guest" "$samples" $((0x100000 / 10007))
	is "$name: samples lost in the guest" "$lost" ""
	agree "$name"
	note "$name: $got"
	case $got in
	*' 0 anomalies') ok "$name: figures" ;;
	*) not_ok "$name: figures: $got" ;;
	esac
}
beside "beside a guest" ""
beside "beside a guest that counts with all counters" cycles,cycles,cache-misses,
for_a_process "after the guest"
for_all "after the guest"
rm -r "$dir"
finish
