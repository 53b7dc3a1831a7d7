#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): a stock guest under perf stat and perf record
# moves from one QEMU to the next, live. Needs BUILD and PROGRAMS; arguments: how often perf runs in the
# guest, and how often it has to move meanwhile.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/qemu.sh"
. "$(dirname "$0")/stock_guest.sh"

runs=${1:-40} moves=${2:-20}

begin_guest "$runs"
n=0 here=guest-00
# Not at its end: it powers off by itself.
while [ $n -lt "$moves" ] && ! said | grep -q '# end'; do
	there=guest-$(printf %02d $((n + 1)))
	start_guest "$there" -incoming defer || break
	speed_up "$here"
	if ! move "$here" "$there" || ! migrated "$here"; then
		not_ok "migration $((n + 1))"
		sed 's/^/# /' "$dir/$there.log"
		break
	fi
	end_qemu "$here"
	n=$((n + 1)) here=$there
	note "migration $n: $(said | tail -n 1)"
done
is "live migrations" $n "$moves"
wait "$(cat "$dir/$here.pid")"
relay said

rm -rf "$dir"
finish
