#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): savevm and loadvm. A guest that knows by itself
# whether its counters go on exactly (the bare-metal suite's "steady") goes back to a snapshot while it
# counts, and in a new QEMU; two TSCs that a virtual TSC let drift apart stay so. Needs BUILD and PROGRAMS;
# the argument says how often.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"

times=${1:-20}

# goes_on NAME
goes_on() {
	advances "$1" || not_ok "$1: the guest goes on"
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

start_clocks -drive "$(disk clocks)"
saved=$(lines clocks) was=$(tsc clocks "$(lines clocks)" 1)
snapshot clocks savevm
qmp clocks cont >/dev/null
until_line clocks $((saved + 20))
qmp clocks stop >/dev/null
last=$(lines clocks)
snapshot clocks loadvm
qmp clocks cont >/dev/null
until_line clocks $((last + 2))
first=$(tsc clocks $((last + 2)) 1)
within "clocks: the first one went back by" $(($(tsc clocks "$last" 1) - first)) $((apart / 2)) 1000000000
within "clocks: and is where it was" "$first" "$was" $((was + apart / 2))
within "clocks: the second one is as far behind" $((first - $(tsc clocks $((last + 2)) 2))) \
	$((apart / 2)) $((apart * 3 / 2))
end_qemu clocks

rm -rf "$dir"
finish
