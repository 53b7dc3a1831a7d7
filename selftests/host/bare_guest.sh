#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: the bare-metal suite of the emulated PMU as a guest under
# KVM. So each counted sequence, and each overflow at each instruction, is the module's. Needs
# BUILD; arguments select tests.

# Not for guests: cycles, TLB, caches and predictors are physical, and a VM exit changes them; the
# oracle is the host's; interrupts taken include the host's while it works for the guest; event selects
# have no bits for hosts and guests; INV counts cycles; KVM injects no NMI in an interrupt shadow
# (irq_flag).
not="-cycles -tlb -mispredict -cache -oracle -interrupts -select_bits -ctl/inv -kernel/NMI/irq_flag"
# Intel: KVM skips INT1 without saying so; QEMU's MISC_ENABLE; reference cycles go on in KVM; nothing is
# frozen on a PMI; no VMX in the guest. Its interrupts come without skid, but they are the module's.
! grep -q GenuineIntel /proc/cpuinfo ||
	not="$not -mode_changes/int1 -intel/cpuid -intel/fixed -freeze -vmx/ -overflow/skid"
# AMD, from Linux 7.3 on: KVM completes INT1, and taken branches that KVM completes aren't counted.
! grep -q icebp_interception /proc/kallsyms || not="$not -mode_changes/int1"
log=$(mktemp)
qemu-system-x86_64 -machine q35,accel=kvm -cpu host,-svm,-vmx -m 256 -nodefaults -display none \
	-no-reboot -debugcon file:"$log" -device isa-debug-exit,iobase=0xf4,iosize=4 \
	-kernel "$BUILD/bare/pmu.elf" \
	-append "${*:-$not}"
status=$?
cat "$log"
"$BUILD/programs/figures" | sed "s/^/# /"
# isa-debug-exit makes 0 a 1
[ $status -eq 1 ]
