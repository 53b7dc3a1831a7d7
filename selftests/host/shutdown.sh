#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host of two CPUs with the module: the host ends while one vCPU runs on and borrows counters, and
# another one has running counters: shutdown.sh reboot|kexec|panic (reboot). Needs BUILD and PROGRAMS.
#
#   reboot  KVM has switched virtualization off before (kvm_shutdown()). The bench ends the machine there
#   kexec   the next kernel runs this script again, and counts
#   panic   by sysrq, and the machine ends
#
# More than that the host was fit to end can be said by the bench only, which looks whether the kernel complained.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
how=${1:-reboot}
second=/run/vpmu/second

borrowed() {
	figures borrowed
}

# done_here: what there was to test was tested; nobody else will write this command's status
done_here() {
	echo "1..$tap_n"
	sleep 1
	echo $tap_failed >/run/vpmu/status
	sync
}

if [ -e "$second" ]; then
	is "the next kernel: exact" "$("$PROGRAMS/rawvm" count 1000)" 2004
	finish
fi

"$BUILD/kvm/borrow" forever &
coproc "$PROGRAMS/rawvm" hold
# shellcheck disable=SC2154 # by coproc
read -r _ <&"${COPROC[0]}"
sleep 1
before=$(borrowed)
sleep 1
within "a vCPU borrows counters" $(($(borrowed) - before)) 10 1000000000
case $how in
reboot)
	done_here
	exec /run/bed/busybox reboot -f
	;;
kexec)
	: >"$second"
	kexec -l "/run/lower/boot/vmlinuz-$(uname -r)" --initrd="/run/vpmu/initramfs/$(uname -r)" --reuse-cmdline
	sync
	kexec -e
	;;
panic)
	done_here
	echo c >/proc/sysrq-trigger
	;;
esac
not_ok "$how: no end of this host"
finish
