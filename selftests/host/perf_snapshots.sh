#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): a stock guest under perf stat and perf record goes
# back to snapshots of itself, savevm and loadvm. Needs BUILD and PROGRAMS; arguments: how often perf runs in
# the guest, and how often it goes back meanwhile.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/qemu.sh"
. "$(dirname "$0")/stock_guest.sh"

runs=${1:-10} times=${2:-10}

begin_guest "$runs" -drive "$(disk guest)"
n=0
# Not at its end: it powers off by itself.
while [ $n -lt "$times" ] && ! said | grep -q '# end'; do
	n=$((n + 1))
	# Wherever it is then
	sleep "$((n % 3)).$((n * 37 % 10))"
	snapshot guest-00 savevm
	sleep "$((n % 2 + 1)).$((n * 73 % 10))"
	snapshot guest-00 loadvm
	note "back $n: $(said | tail -n 1)"
done
is "snapshots that it went back to" $n "$times"
wait "$(cat "$dir/guest-00.pid")"
relay said

rm -rf "$dir"
finish
