# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests of what the module says where it can't work: source it after tap.sh.

# KVM's module for this CPU
kvm=kvm_amd
! grep -q GenuineIntel /proc/cpuinfo || kvm=kvm_intel

# refused NAME ERRNO-TEXT MESSAGE MODULE [PARAMETER...]: insmod fails with that errno and one line in dmesg
refused() {
	local said line
	dmesg -C
	if said=$(insmod "${@:4}" 2>&1); then
		not_ok "$1: refused"
		rmmod kvm_vpmu
		return
	fi
	line=$(dmesg | grep 'kvm_vpmu:' | grep -v 'loading out-of-tree\|verification failed\|taints')
	is "$1: errno" "${said##*: }" "$2"
	is "$1: one line" "$(grep -c . <<<"$line")" 1
	[ "$(grep -c . <<<"$line")" = 1 ] || note "$line"
	case $line in
	*"$3"*) ok "$1: it says '$3'" ;;
	*) not_ok "$1: it says '$3'"; note "got '$line'" ;;
	esac
	is "$1: no function hooked" "$(grep -c 'kvm_vpmu' /sys/kernel/tracing/enabled_functions)" 0
	is "$1: no device" "$([ -e /dev/kvm-vpmu ] && echo left)" ""
	is "$1: $kvm not held" "$(sed -n "s/^$kvm [0-9]* \([0-9]*\) .*/\1/p" /proc/modules)" \
		"${kvm_users-0}"
}
