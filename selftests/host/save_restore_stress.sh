#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): a guest that knows by itself whether its counters
# go on exactly (the bare-metal suite's "steady") is saved to a file and restored by a new QEMU, again
# and again. Needs BUILD and PROGRAMS; the argument says how often.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"

times=${1:-100}
guest=(-cpu "host,-svm" -m 64 -kernel "$BUILD/bare/pmu.elf" -append steady)

start_qemu 0 "${guest[@]}"
wait_for "$dir/0.out" 'each round' || not_ok "the guest knows what a round takes"
for ((i = 1; i <= times; i++)); do
	# Wherever it is then
	sleep "0.$((i % 10))"
	if ! save_qemu $((i - 1)) "$dir/state"; then
		not_ok "save $i"
		break
	fi
	start_qemu $i "${guest[@]}" -incoming "file:$dir/state"
	if ! wait_for "$dir/$i.out" '\.\.'; then
		not_ok "restore $i: the guest goes on"
		break
	fi
	rm -f "$dir/state"
done
is "saved and restored, times" $((i - 1)) "$times"
is "wrong rounds" "$(cat "$dir"/*.out | grep -c wrong)" 0
grep -h wrong "$dir"/*.out | sed -n '1,10s/^/# /p'
within "rounds in all" "$(cat "$dir"/*.out | tr -cd . | wc -c)" $((times * 2)) 100000000
end_qemu $((i - 1))

finish
