#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module: NMIs of another origin than an overflow, at each place where they could disturb the
# module. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
nmis=$BUILD/modules/$(uname -r)/nmis.ko
control=0x38f # IA32_PERF_GLOBAL_CTRL

# start PLACE OPTION...: NMIs there, from now on
start_nmis() {
	local place=$1
	shift
	insmod "$nmis" symbol="$place" "$@" || exit
}
parameter() {
	cat "/sys/module/nmis/parameters/$1"
}

sysctl -q kernel.nmi_watchdog=0
vendor=amd
if grep -q GenuineIntel /proc/cpuinfo; then
	vendor=intel
	modprobe msr
	# Whenever an event of its comes or goes, host perf lets all counters count, whatever each of them does.
	all=$(msr $control)
fi

# A guest's counter is started and stopped: at each instruction of that
places="${vendor}_start ${vendor}_stop"
# Intel's, unless it is part of the former
[ $vendor = amd ] || ! grep -q ' set_modes.*\[kvm_vpmu\]' /proc/kallsyms || places+=" kvm_vpmu:set_modes"
for place in $places; do
	start_nmis "$place" within=Y
	name="NMIs within ${place#*:}"
	relay "$BUILD/kvm/nmis" "$name" starts
	within "$name" "$(parameter came)" 500 1000000
	within "$name: instructions that they came at" "$(parameter places)" 10 1000
	rmmod nmis
done

# AMD: a guest's overflow status is in hardware, in guest mode and around it. NMIs are held there, so that they come
# in guest mode, where they make the guest exit.
if [ "$vendor" = amd ]; then
	for place in kvm_wait_lapic_expire vpmu_fast_exit; do
		start_nmis $place every=3
		relay "$BUILD/kvm/nmis" "NMIs at $place"
		within "NMIs at $place" "$(parameter came)" 500 1000000
		rmmod nmis
	done
	# The watchdog's counter is lent for stays in guest mode: the same, and around lending.
	sysctl -q kernel.nmi_watchdog=1
	for place in kvm_wait_lapic_expire vpmu_fast_exit vpmu_borrow_to_open vpmu_give_back; do
		name="NMIs at $place, beside the watchdog"
		start_nmis $place every=3
		relay "$BUILD/kvm/watched" "$name"
		within "$name" "$(parameter came)" 500 1000000
		rmmod nmis
	done
	for place in vpmu_borrow_to_open vpmu_give_back; do
		name="NMIs within $place, beside the watchdog"
		start_nmis $place within=Y
		relay "$BUILD/kvm/watched" "$name"
		within "$name" "$(parameter came)" 500 1000000
		within "$name: instructions that they came at" "$(parameter places)" 10 1000
		rmmod nmis
	done
	finish
fi

# A guest borrows counters of the host's: before it does, while it does, when host perf has told KVM which counters
# count in guest mode, and while it gives them back. Not at each VM entry, or the guest gets nowhere.
# lend NAME PLACE OPTION...
lend() {
	local name=$1 place=$2
	shift 2
	start_nmis "$place" every=3 look=vmx_handle_exit_irqoff msr=$((control)) wanted="$all" "$@"
	relay "$BUILD/kvm/nmis" "$name"
	within "$name" "$(parameter came)" 500 1000000
	within "$name: looks at the host's counters behind VM exits" "$(parameter looks)" 1500 1000000
	is "$name: looks that found some of them off" "$(parameter missing)" 0
}
for place in vpmu_borrow intel_borrow intel_release_nmis kvm_wait_lapic_expire \
	vpmu_give_back intel_give_back intel_returned; do
	lend "NMIs at $place" $place
	rmmod nmis
done

# The same at each instruction of where the module keeps handlers of NMIs away from the counters, and of where that ends
for place in intel_hold_nmis intel_release_nmis; do
	lend "NMIs within $place" $place within=Y
	within "NMIs within $place: instructions that they came at" "$(parameter places)" 10 1000
	rmmod nmis
done
sysctl -q kernel.nmi_watchdog=1

# The module tries out what host perf tells KVM, and the handler of an NMI would go by what is tried. It does
# nothing unless the host has an event, the watchdog's.
rmmod kvm_vpmu
start_nmis perf_guest_get_msrs
insmod "$BUILD/module/$(uname -r)/kvm_vpmu.ko" || exit
within "NMIs while the module is loaded" "$(parameter came)" 2 10
is "NMIs while the module is loaded: the host's counters that count" "$(msr $control)" "$all"
rmmod nmis
finish
