#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with x-pmu-oracle=on, without the module: what a VM exit costs, and what the
# guest's counters see of it in each freeze mode. The guest does nothing but CPUID, and
# counts with all counters that the host's NMI watchdog leaves. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
kvm=kvm_amd instructions=0x4300c0 cycles=0x430076 branches=0x4300c2 conditional=0x4300d1
entries=vmruns # that count as instructions of the guest
# Intel's have four general counters at least, and no event of conditional branches on all models.
if grep -q GenuineIntel /proc/cpuinfo; then
	kvm=kvm_intel cycles=0x43003c branches=0x4300c4 conditional='' entries=0
fi

# measure OPTION... SELECT...: sets each value that it prints, in hundredths
measure() {
	local out name value
	out=$(./exit_cost "$@") || note "exits $* failed"
	while read -r name value; do
		printf -v "$name" %d "$((10#${value/./}))"
	done <<<"$out"
}

modprobe $kvm
modprobe msr
measure --no-pmu
before=${host_instructions:?}
note "host instructions for a VM exit without the module: $((before / 100))"
insmod "$BUILD/module/$(uname -r)/kvm_vpmu.ko" || exit

measure --no-pmu
within "a guest without a PMU: instructions more" $(((host_instructions - before) / 100)) 0 20

for mode in hybrid guest vcpu; do
	# shellcheck disable=SC2086 # perhaps none
	measure --freeze $mode $instructions $cycles $branches $cycles $conditional
	# shellcheck disable=SC2154 # measure sets them
	{
		is "$mode: VM exits" "$exits" 100
		is "$mode: RDMSR, WRMSR, RDPMC" "$rdmsr $wrmsr $rdpmc" "0 0 0"
		within "$mode: instructions more" $(((host_instructions - before) / 100)) -1000 40
		seen=$guest_cycles
		[ $mode = guest ] || seen=$((seen + host_cycles))
		within "$mode: cycles, of $seen" "$counter1" $((seen * 98 / 100)) $((seen * 102 / 100))
		is "$mode: the same by another counter" "$counter3" "$counter1"
		if [ $mode = vcpu ]; then
			# Hundredths of an iteration. Of the 50 together five instructions more were seen: what
			# KVM_RUN does outside of the time that the vCPU is loaded isn't always the same.
			expected=$((guest_instructions + entries + host_instructions))
			within "$mode: instructions, of $expected" "$counter0" $((expected - 20)) $((expected + 20))
		else
			is "$mode: instructions" "$counter0" $((guest_instructions + emulated))
			is "$mode: branches" "$counter2" 100
			[ -z "$conditional" ] || is "$mode: conditional branches" "$counter4" 100
		fi
		note "$mode: $((counter0 * 1000 / counter1)) thousandths of an instruction per cycle"
	}
done

finish
