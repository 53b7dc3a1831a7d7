#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On one of two emulated hosts with a network between them, with the patched QEMU (BUILD/vmm): a stock guest
# under perf stat and perf record goes to and fro, live (selftests/between_hosts starts both). Needs BUILD
# and PROGRAMS. Arguments: this host's number, 1 or 2; a folder that both see; how often perf runs in the
# guest; how often it has to move meanwhile. Host 1 begins; the one that it ends on tells.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/qemu.sh"
. "$(dirname "$0")/stock_guest.sh"

me=$1 taps=$2 runs=$3 moves=$4
other=$((3 - me)) port=4444

# exists FILE: in the folder, within five minutes
exists() {
	local n
	for ((n = 0; n < 3000; n++)); do
		[ ! -e "$taps/$1" ] || return 0
		[ ! -e "$taps/failed" ] || return 1
		sleep 0.1
	done
	return 1
}

# fail WHAT QEMU: the other one needs not wait
fail() {
	: >"$taps/failed"
	not_ok "$1"
	sed 's/^/# /' "$dir/$2".{log,console}
	finish
}

modprobe virtio_net
for nic in /sys/class/net/e*; do
	ip address add "192.0.2.$me/24" dev "${nic##*/}"
	ip link set "${nic##*/}" up
done

n=0 here=guest-00
if [ "$me" = 1 ]; then
	begin_guest "$runs" || fail "the guest begins" "$here"
else
	prepare_guest "$runs"
fi
while :; do
	n=$((n + 1)) there=guest-$(printf %02d $n)
	if [ $((n % 2)) = $((me % 2)) ]; then
		exists "ready-$n" || fail "host $other is ready for migration $n" "$here"
		# Not at its end: it powers off by itself.
		if [ $n -gt "$moves" ] || said | grep -q '# end'; then
			: >"$taps/ended"
			break
		fi
		speed_up "$here"
		if ! qmp "$here" migrate "{\"uri\": \"tcp:192.0.2.$other:$port\"}" >/dev/null ||
			! migrated "$here"; then
			fail "migration $n" "$here"
		fi
		end_qemu "$here"
		: >"$taps/moved-$n"
	else
		if ! start_guest "$there" -incoming defer ||
			! qmp "$there" migrate-incoming "{\"uri\": \"tcp:192.0.2.$me:$port\"}" >/dev/null; then
			fail "host $me starts QEMU" "$there"
		fi
		here=$there
		: >"$taps/ready-$n"
		until [ -e "$taps/moved-$n" ] || [ -e "$taps/ended" ]; do
			kill -0 "$(cat "$dir/$here.pid")" 2>/dev/null || fail "migration $n: QEMU goes on" "$here"
			[ ! -e "$taps/failed" ] || fail "migration $n: host $other goes on" "$here"
			sleep 0.1
		done
		if [ -e "$taps/ended" ]; then
			end_qemu "$here"
			finish
		fi
		note "migration $n: $(said | tail -n 1)"
	fi
done
is "live migrations between hosts" $((n - 1)) "$moves"
wait "$(cat "$dir/$here.pid")"
relay said

rm -rf "$dir"
finish
