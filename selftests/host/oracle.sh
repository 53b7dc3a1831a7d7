#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with x-pmu-oracle=on: what guests' perf says against what the emulator knows
# of them (docs/emulated-pmu.md, "Reference for virtual PMUs"). Needs BUILD and PROGRAMS. With several host
# CPUs, guests have as many, and their threads move about. Arguments select tests by name.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh

signature=0xc0de0000

# What perf says of the whole guest for a while: instructions, branches; then the NMIs that it had. $1: events
# before them, each with a comma, so that those that are compared get what counters are left
cat >/tmp/whole <<'E2'
sysctl -q kernel.nmi_watchdog=0
perf stat -a -x, -o /tmp/o -e ${MORE}instructions,branches -- \
	sh -c "sleep 1; \"$PROGRAMS/exact\" cpuid 00000800; \"$PROGRAMS/profile\" 300"
awk -F, '$3 ~ /^(instructions|branches)(:|$)/ && $5 == "100.00" { printf "%s ", $1 }' /tmp/o
awk '$1 == "NMI:" { for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i; print n + 0 }' /proc/interrupts
E2
whole() {
	vpmu-guest --smp "${smp:-$(nproc)}" -- bash -c "PROGRAMS='$PROGRAMS' MORE='${1:-}'; $(cat /tmp/whole)"
}

modprobe msr
is "the oracle is there" "$(printf %x "$(msr $signature)")" 554d50565f4d564b

alone() {
	local i b
	start
	read -r i b _ <<<"$(whole)"
	is "a whole guest: instructions" "$i" $(($(msr "$instructions") - before_i))
	is "a whole guest: branches" "$b" $(($(msr "$branches") - before_b))
	agree "a whole guest"
}

storm() {
	local i b
	start
	"$PROGRAMS/timer_storm" 1000 &
	read -r i b _ <<<"$(whole)"
	kill $!
	is "in a storm of interrupts: instructions" "$i" $(($(msr "$instructions") - before_i))
	is "in a storm of interrupts: branches" "$b" $(($(msr "$branches") - before_b))
	agree "in a storm of interrupts"
}

# The host's: at the bottom, and on Intel's CPUs on the fixed counter of cycles
watchdog() {
	if grep -q GenuineIntel /proc/cpuinfo; then
		msr 0x30a
	else
		msr 0xc0010201
	fi
}

# The host's watchdog holds one of the physical counters, so a guest that runs as many borrows it.
borrowed() {
	local i b now ticked more=cycles,cache-references,cache-misses,branch-misses, counters borrowed=0
	# "registers" of 6.1 and 6.12, "counters" of 7.2, which lists a "bitmap" too
	counters=$(dmesg | sed -n 's/.*\.\.\. generic \(registers\|counters\): *//p')
	# Cycles and instructions have fixed ones on Intel's CPUs.
	! grep -q GenuineIntel /proc/cpuinfo || counters=$((counters + 2))
	for ((i = 6; i < counters; i++)); do
		more=${more}branch-misses,
	done
	start
	whole "$more" >/tmp/first &
	while [ -n "$(jobs -rp)" ]; do
		read -r now <<<"$(sed -n 's/.* borrowed \([0-9]*\) .*/\1/p' <("$BUILD/programs/figures" vcpus))"
		[ "${now:-0}" -le "$borrowed" ] || borrowed=$now
		sleep 0.5
	done
	read -r i b _ </tmp/first
	is "as many counters as the CPU has: instructions" "$i" $(($(msr "$instructions") - before_i))
	is "as many counters as the CPU has: branches" "$b" $(($(msr "$branches") - before_b))
	within "as many counters as the CPU has: VM entries with a borrowed one" "$borrowed" 10 1000000000
	agree "as many counters as the CPU has"
	ticked=$(watchdog)
	if [ "$(watchdog)" != "$ticked" ]; then
		ok "the host's watchdog counts on"
	else
		not_ok "the host's watchdog counts on"
	fi
}

two_guests() {
	local i1 b1 i2 b2
	start
	whole >/tmp/first &
	whole >/tmp/second
	wait $!
	read -r i1 b1 _ </tmp/first
	read -r i2 b2 _ </tmp/second
	note "the first guest: $i1 and $b1, the second: $i2 and $b2"
	is "two guests on one CPU: sum of instructions" $((i1 + i2)) \
		$(($(msr "$instructions") - before_i))
	is "two guests on one CPU: sum of branches" $((b1 + b2)) $(($(msr "$branches") - before_b))
	agree "two guests on one CPU"
}

# Each counts on its own; they share the host's CPU, if it has one only.
two_vcpus() {
	local i b smp=2
	start
	read -r i b _ <<<"$(whole)"
	is "a guest of two vCPUs: instructions" "$i" $(($(msr "$instructions") - before_i))
	is "a guest of two vCPUs: branches" "$b" $(($(msr "$branches") - before_b))
	agree "a guest of two vCPUs"
}

# The host samples the guest, with call graphs: the guest notices nothing. recorded [FILE]: and another one that runs
# this test
recorded() {
	local another=${1:-} i b nmis recorder
	# shellcheck source=selftests/host/recordings.sh
	. ./recordings.sh
	"$BUILD/vpmu/vpmu" record -g -c 200003 -o /tmp/recorded 2>/tmp/recorder &
	recorder=$!
	start
	read -r i b nmis <<<"$(whole)"
	is "while the host records: instructions" "$i" $(($(msr "$instructions") - before_i))
	is "while the host records: branches" "$b" $(($(msr "$branches") - before_b))
	is "while the host records: the guest's NMIs" "$nmis" 0
	agree "while the host records"
	[ -z "$another" ] || relay vpmu-guest --smp 1 -- env PROGRAMS="$PROGRAMS" "$another"
	kill -TERM $recorder
	wait $recorder
	is "record: status" $? 0
	sed 's/^/# /' /tmp/recorder
	"$BUILD/vpmu/vpmu" --json report -i /tmp/recorded >/tmp/report.json
	within "while the host records: samples of guests" \
		"$(cd /tmp && json "sum(w['samples'] for w in d['who'] if w['where'].startswith('guest'))")" 1000 1000000000
}

[ $# -gt 0 ] || set -- alone storm borrowed two_guests two_vcpus recorded
for test; do
	case $test in
	alone) alone ;;
	storm) storm ;;
	borrowed) borrowed ;;
	two_guests) two_guests ;;
	two_vcpus) two_vcpus ;;
	recorded) recorded "$PWD/../guest/perf_exact.sh" ;;
	recorded_whole) recorded ;;
	*) not_ok "no test $test" ;;
	esac
done
finish
