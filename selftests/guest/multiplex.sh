#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: more events than counters. Needs PROGRAMS, and deterministic time (--icount), in
# which a loop has the same speed throughout.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./count.sh

total=$((0x06000000)) program=("$PROGRAMS/exact" loop 06000000)
six() {
	echo "$1,$1,$1,$1,$1,$1"
}
if grep -q perfctr_core /proc/cpuinfo; then
	counters=6
else
	counters=4
fi
# The guest's watchdog would take one.
sysctl -q kernel.nmi_watchdog=0

# exact_now NAME: not multiplexed
exact_now() {
	exactly "$1" 1000000 3 1 -- "$PROGRAMS/exact" loop
}

exact_now "before"

# Twelve by turns. perf scales what an event counted by the time that it was there. That is wrong by
# as much as the program counts at another rate meanwhile: at its start and end, when the kernel
# works for it, which takes the whole of a run with an empty loop; and perf switches at a timer's
# interrupt, so an event may have been there for one turn more or less than its share of the loop.
# Between its turns, the loop's rate is always the same.
perf stat -x, -o "$out" -e "$(six instructions:u)" -- "$PROGRAMS/exact" loop 00000000
read -r overhead <<<"$(awk -F, '$3 == "instructions:u" { print $4; exit }' "$out")"
turn=$(($(cat /sys/bus/event_source/devices/cpu/perf_event_mux_interval_ms) * 1000000))
perf stat -x, -o "$out" -e "$(six instructions:u),$(six branches:u)" -- "${program[@]}"
sed 's/^/# /' "$out"
events=0
while IFS=, read -r count _ event running share _; do
	case $event in
	instructions:u) truth=$((3 * total)) ;;
	branches:u) truth=$total ;;
	*) continue ;;
	esac
	events=$((events + 1))
	are_numbers "event $events of 12" "$count" "$running" "${share%.*}" || continue
	bound=$((truth * (overhead + turn) / running))
	within "event $events of 12, $event" "$count" $((truth - bound)) $((truth + bound))
	within "event $events of 12: percent of the time" "${share%.*}" \
		$((counters * 100 / 12 - 10)) $((counters * 100 / 12 + 10))
done < <(grep -v '^#' "$out")
is "events" "$events" 12

exact_now "after it"

# Pinned ones don't take turns: what isn't there from the first doesn't count, and says so.
perf stat -x, -o "$out" -e "$(six instructions:uD),$(six instructions:uD)" -- "${program[@]}"
is "pinned: different counts" "$(counted instructions:uD | head -n $counters | sort -u | wc -l)" 1
within "pinned: instructions" "$(counted instructions:uD | head -n 1)" $((3 * total)) $((3 * total + 1000))
is "pinned: not counted" "$(counted instructions:uD | grep -c '<not counted>')" $((12 - counters))

# Groups are there as a whole, or not at all.
group() {
	perf stat -x, -o "$out" -e "{$1}" -- "${program[@]}"
}
full=$(six instructions:u)
full=${full:0:$((15 * counters - 1))}
group "$full"
is "a group of as many as counters: different counts" "$(counted instructions:u | sort -u | wc -l)" 1
is "a group of as many as counters: not counted" "$(grep -c '<not' "$out")" 0
group "$full,instructions:u"
is "a group of one more: counted" "$(counted instructions:u | grep -vc '<not')" 0

# By turns, and not scaled: at each moment as many events as there are counters are on the CPU, so
# together they saw all of the program, that many times.
perf_stat -- "${program[@]}"
truth_i=$i truth_b=$b
raw() {
	perf stat -x, -o "$out" --no-scale "$@" -- "${program[@]}"
}
# sum EVENT
sum() {
	awk -F, -v event="$1" '$3 == event { s += $1 } END { printf "%.0f", s }' "$out"
}
twelve=$(six instructions:u),$(six instructions:u)
raw -e "$twelve"
is "12 events: their sum" "$(sum instructions:u)" $((counters * truth_i))
within "12 events: different counts" "$(counted instructions:u | sort -u | wc -l)" 2 12

# Groups likewise: two that don't fit together
group="{instructions:u,branches:u,instructions:u,branches:u}"
raw -e "$group" -e "$group"
is "two groups by turns: instructions, their sum" "$(sum instructions:u)" $((2 * truth_i))
is "two groups by turns: branches, their sum" "$(sum branches:u)" $((2 * truth_b))
is "two groups by turns: different counts" "$(counted instructions:u | sort -u | wc -l)" 2

exact_now "after all that"

rm -f "$out"
finish
