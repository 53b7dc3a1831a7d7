#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): savevm and loadvm. A guest that knows by itself
# whether its counters go on exactly (the bare-metal suite's "steady") goes back to a snapshot while it
# counts, and in a new QEMU; two TSCs that a virtual TSC let drift apart stay so. Needs BUILD and PROGRAMS;
# the argument says how often.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/qemu.sh"

times=${1:-20}

# dots NAME, goes_on NAME: rounds in its output; two more
dots() {
	# 0 while it isn't there yet
	{ tr -cd . <"$dir/$1.out" | wc -c; } 2>/dev/null
}
goes_on() {
	local before n
	before=$(dots "$1")
	for ((n = 0; n < 300; n++)); do
		[ "$(dots "$1")" -le $((before + 1)) ] || return 0
		sleep 0.1
	done
	not_ok "$1: the guest goes on"
}

guest=(-cpu "host,-svm" -m 64 -kernel "$BUILD/bare/pmu.elf" -append steady -drive "$(disk steady)")
start_qemu steady-0 "${guest[@]}"
wait_for "$dir/steady-0.out" 'each round' || not_ok "the guest knows what a round takes"
for ((i = 1; i <= times; i++)); do
	from=steady-$((i - 1)) to=steady-$i
	# Wherever it is then
	sleep "0.$((i % 10))"
	snapshot $from savevm
	goes_on $from
	snapshot $from loadvm
	goes_on $from
	end_qemu $from
	start_qemu $to "${guest[@]}" -loadvm s
	goes_on $to
done
end_qemu "$to"
is "wrong rounds" "$(cat "$dir"/steady-*.out | grep -c wrong)" 0
grep -h wrong "$dir"/steady-*.out | sed -n '1,10s/^/# /p'

# lines: whole ones that the guest wrote. tsc LINE 1|2: of that vCPU
lines() {
	echo $(($(grep -c '^tsc' "$dir/clocks.out") - 1))
}
tsc() {
	grep '^tsc' "$dir/clocks.out" | awk -v line="$1" -v n="$2" 'NR == line { print $(n + 1) }'
}
# until_line LINE: it was written
until_line() {
	local n
	for ((n = 0; n < 600; n++)); do
		[ "$(lines)" -lt "$1" ] || return 0
		sleep 0.1
	done
	not_ok "clocks: the guest goes on"
}
start_qemu clocks -m 64 -smp 2 -kernel "$BUILD/bare/pmu.elf" -append clocks -drive "$(disk clocks)" \
	-cpu host,-svm,vpmu-tsc=vcpu
# KVM takes TSCs for the same that are less than a second apart, some 2,000,000 thousands of ticks here.
wait_for "$dir/clocks.out" '^tsc' || not_ok "clocks: the guest begins"
qmp clocks stop >/dev/null
saved=$(lines)
snapshot clocks savevm
qmp clocks cont >/dev/null
apart=$(($(tsc "$saved" 1) - $(tsc "$saved" 2)))
within "clocks: thousands of ticks that the second one is behind" $apart 300000 1900000
until_line $((saved + 40))
snapshot clocks loadvm
last=$(lines)
until_line $((last + 2))
first=$(tsc $((last + 2)) 1)
within "clocks: the first one went back by" $(($(tsc "$last" 1) - first)) $((apart / 2)) 1000000000
within "clocks: and is where it was" "$first" "$(tsc "$saved" 1)" $(($(tsc "$saved" 1) + apart / 2))
within "clocks: the second one is as far behind" $((first - $(tsc $((last + 2)) 2))) \
	$((apart * 9 / 10)) $((apart * 3 / 2))
end_qemu clocks

rm -rf "$dir"
finish
