#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with x-pmu-oracle=on: what a stock guest lives through besides running. Guests of
# each kernel, CPUs that come and go, a reset and a kexec in the middle of counting. perf is exact
# after each, and agrees with the oracle's reference. Needs BUILD and PROGRAMS. Arguments select tests by
# name.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
guest=$PWD/../guest
kernel=$(uname -r)

modprobe msr

# passes NAME COUNT VPMU-GUEST'S ARGUMENT...: a guest in which COUNT tests pass, and no other
passes() {
	local name=$1 count=$2 status
	shift 2
	start
	vpmu-guest "$@" >/tmp/guest-out 2>&1
	status=$?
	is "$name: tests that passed" "$(grep -c '^ok' /tmp/guest-out)" "$count"
	is "$name: status" "$status" 0
	[ $status = 0 ] || sed 's/^/# /' /tmp/guest-out
}

exact="env PROGRAMS=$PROGRAMS $guest/perf_exact.sh"

# Those that the bench has, but for flavours
oldest_and_newest() {
	with_guests "$(kernels | grep -v -e - | sed -n '1p;$p')"
}

guests() {
	with_guests "$(kernels)"
}

kernels() {
	printf '%s\n' /run/lower/lib/modules/*-amd64 |
		sed -E 's|.*/||; s/^([0-9]+\.[0-9]+)\.[^-]*(-[0-9]+)?/\1/; s/-amd64$//' | sort -V
}

with_guests() {
	local other
	for other in $1; do
		# shellcheck disable=SC2086 # several words
		passes "a guest with Linux $other" 16 --kernel $other -- $exact
		agree "a guest with Linux $other"
	done
}

on_and_off() {
	passes "CPUs that come and go" 17 --smp 2 -- env PROGRAMS="$PROGRAMS" "$guest/cpu_hotplug.sh"
	agree "CPUs that come and go"
}

# The next two leave counters running, and come back to the same command. At a reset, Debian 13's QEMU
# leaves AMD's registers alone: the booting kernel's first read of a counter finds what was there
# before, where the reference has 0. So these reads aren't compared.
reset() {
	passes "a reset" 16 --guest-arg -action --guest-arg reboot=reset -- sh -c "
		[ -e /run/vpmu/again ] && exec $exact
		perf stat -a -e instructions,branches,cycles sleep 1000 &
		perf record -q -a -c 100000 -e instructions -o /tmp/perf.data sleep 1000 &
		sleep 2
		touch /run/vpmu/again
		echo b >/proc/sysrq-trigger"
}

kexec() {
	passes "kexec" 16 --guest-arg -virtfs \
		--guest-arg local,path=/run/vpmu/initramfs,mount_tag=initramfs,security_model=none,readonly=on -- sh -c "
		[ -e /run/vpmu/again ] && exec $exact
		mount -t 9p -o trans=virtio,version=9p2000.L initramfs /mnt
		kexec -c -l /run/lower/boot/vmlinuz-$kernel --initrd=/mnt/$kernel --reuse-cmdline
		perf stat -a -e instructions,branches,cycles sleep 1000 &
		perf record -q -a -c 100000 -e instructions -o /tmp/perf.data sleep 1000 &
		sleep 2
		touch /run/vpmu/again
		kexec -e"
	agree "kexec"
}

[ $# -gt 0 ] || set -- guests on_and_off reset kexec
for test; do
	case $test in
	guests) guests ;;
	oldest_and_newest) oldest_and_newest ;;
	on_and_off) on_and_off ;;
	reset) reset ;;
	kexec) kexec ;;
	*) not_ok "no test $test" ;;
	esac
done
finish
