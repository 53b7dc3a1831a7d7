#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: the module is loaded and unloaded while VMs come, go and are killed: loads.sh N. A VM that is
# there keeps the module, and one that was made without the module keeps KVM's own vPMU. Needs BUILD and PROGRAMS.

cd "$(dirname "$0")" || exit
. ../tap.sh
rawvm=$PROGRAMS/rawvm
module=$BUILD/module/$(uname -r)/kvm_vpmu.ko
loads=$1

# Now and then there must be no VM, or the module would never be unloaded.
pause() {
	sleep 0.$((RANDOM % 500 + 100))
}

# Each of these until it is killed, with its VMs
count_on() {
	while :; do
		"$rawvm" --rounds $((RANDOM % 4 + 1)) count $((RANDOM * 4)) >/dev/null
		pause
	done
}

hold_on() {
	while :; do
		timeout -s KILL 0.0$((RANDOM % 90 + 10)) "$rawvm" hold >/dev/null <&5
		pause
	done
}

unload() {
	local tries
	for ((tries = 0; tries < 2000; tries++)); do
		! rmmod kvm_vpmu 2>/dev/null || return 0
		sleep 0.01
	done
	return 1
}

# An input that never ends
mkfifo /tmp/none
exec 5<>/tmp/none
set -m
count_on &
hold_on 2>/dev/null &
exact=0
busy=0
for ((i = 0; i < loads; i++)); do
	insmod "$module" || break
	[ "$("$rawvm" count 1000)" != 2004 ] || exact=$((exact + 1))
	rmmod kvm_vpmu 2>/dev/null && continue
	busy=$((busy + 1))
	unload || break
	[ $((busy % 10)) -ne 0 ] || echo "# $i loads, $SECONDS s"
done
for job in $(jobs -p); do
	kill -KILL -- "-$job"
done
wait
is "loads and unloads" $i "$loads"
is "exact after each load" "$exact" "$loads"
within "unloads that found a VM" $busy 1 "$loads"
is "the module is gone" "$(grep -c '^kvm_vpmu ' /proc/modules)" 0
finish
