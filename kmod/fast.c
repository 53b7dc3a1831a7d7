// SPDX-License-Identifier: GPL-2.0
/*
 * Accesses to PMU registers by the guest, completed behind the VM exit with interrupts off: KVM
 * enters the guest again at once (vcpu_enter_guest() of arch/x86/kvm/x86.c).  What KVM does
 * otherwise between a VM exit and the next entry costs twice as much as the access.
 *
 * Nothing here may sleep or touch guest memory.  Whether KVM would do no more than that with the
 * instruction is up to vpmu_compat_access().  An access that is #GP is left to KVM, too.
 *
 * The first of several accesses goes through KVM, as all VM exits would have to be looked at
 * otherwise.
 */
#include "compat/compat.h"
#include "emul.h"
#include "fast.h"
#include "msr.h"
#include "sched.h"

/* Apart, so that a write needs no stack */
static noinline bool complete_read(struct vpmu_vcpu *vv, bool rdpmc)
{
	unsigned long *regs = vv->hot.vcpu->arch.regs;
	u32 index = regs[VCPU_REGS_RCX];
	u64 data;

	if (!(rdpmc ? vpmu_rdpmc_fast(vv, index, &data) : vpmu_msr_read_fast(vv, index, &data)))
		return false;
	regs[VCPU_REGS_RAX] = (u32)data;
	regs[VCPU_REGS_RDX] = data >> 32;
	return true;
}

static __always_inline bool complete_write(struct vpmu_vcpu *vv)
{
	const unsigned long *regs = vv->hot.vcpu->arch.regs;
	u64 data = (u32)regs[VCPU_REGS_RAX] | (u64)regs[VCPU_REGS_RDX] << 32;

	return vpmu_msr_write_fast(vv, regs[VCPU_REGS_RCX], data);
}

static __always_inline bool is_allowed(struct vpmu_vcpu *vv, bool write)
{
	struct kvm_vcpu *vcpu = vv->hot.vcpu;

	return vpmu_compat_msr_allowed(vcpu, &vv->filter, vcpu->arch.regs[VCPU_REGS_RCX], write);
}

/* Return: false if the access is KVM's to complete; nothing has happened then */
static __always_inline bool complete_access(struct vpmu_vcpu *vv)
{
	switch (vpmu_compat_access(vv->hot.vcpu)) {
	case COMPAT_WRMSR:
		if (!is_allowed(vv, true) || !complete_write(vv))
			return false;
		break;
	case COMPAT_RDMSR:
		if (!is_allowed(vv, false) || !complete_read(vv, false))
			return false;
		break;
	case COMPAT_RDPMC:
		if (!complete_read(vv, true))
			return false;
		break;
	case COMPAT_NO_ACCESS:
		return false;
	}
	if (!vpmu_compat_skip_instruction(vv->hot.vcpu))
		vpmu_note_instruction(vv);
	return true;
}

static noinline fastpath_t other_exit(struct vpmu_vcpu *vv, fastpath_t result)
{
	u32 step = vpmu_align_later(vv) ? 1 : VPMU_WATCH_UNALIGNED;

	if (vpmu_watching(vv) > step)
		vv->hot.watch -= step;
	else
		vpmu_sched_unwatch(vv);
	return result;
}

fastpath_t vpmu_fast_exit(struct vpmu_vcpu *vv, fastpath_t result)
{
	if (result != EXIT_FASTPATH_NONE)
		return other_exit(vv, result);
	if (!complete_access(vv))
		return other_exit(vv, EXIT_FASTPATH_NONE);
	vpmu_watch(vv, VPMU_WATCH_ACCESS);
	vv->stats.fast++;
	return EXIT_FASTPATH_REENTER_GUEST;
}
