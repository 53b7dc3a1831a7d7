#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module: a hostile guest: hostile.sh [OPTION]..., options as selftests/kvm/hostile takes them. An
# honest guest beside it counts exactly all the time. Needs BUILD and PROGRAMS.
#
# hostile.sh oracle [OPTION]... compares all that the guest reads with the emulator's reference. That doesn't know what
# userspace writes to registers, filters and freeze modes, and loses an access that an SMI follows at once. So these
# aren't among what disturbs.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
rawvm=$PROGRAMS/rawvm

if [ "$1" = oracle ]; then
	shift
	modprobe msr
	start
	relay "$BUILD/kvm/hostile" --disturb perf,device,hotplug "$@"
	agree "the hostile guest"
	finish
fi

count_on() {
	local right=0 wrong=0
	while [ ! -e /tmp/hostile.ended ]; do
		if [ "$(nice "$BUILD/vpmu/vpmu" run --on "$rawvm" count 5000)" = 10004 ]; then
			right=$((right + 1))
		else
			wrong=$((wrong + 1))
		fi
	done
	echo "$right $wrong" >/tmp/honest
}

# Linux since 6.12 has a deadline entity on each CPU that runs other tasks when real-time ones don't let them. The
# scheduler loses track of its bandwidth now and then among CPUs that go offline, and the debug kernel warns
# (sub_running_bw() in kernel/sched/deadline.c, from inactive_task_timer()).
for server in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do
	[ ! -e "$server" ] || echo 0 >"$server"
done
rm -f /tmp/hostile.ended
count_on &
relay "$BUILD/kvm/hostile" "$@"
: >/tmp/hostile.ended
wait
read -r right wrong </tmp/honest
is "an honest guest: wrong counts" "$wrong" 0
within "an honest guest: exact counts" "$right" 1 1000000000
rmmod kvm_vpmu
is "the module can be unloaded" "$(grep -c '^kvm_vpmu ' /proc/modules)" 0
finish
