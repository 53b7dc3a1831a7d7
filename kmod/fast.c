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

static void skip_instruction(struct vpmu_vcpu *vv)
{
	if (!vpmu_compat_skip_instruction(vv->hot.vcpu))
		vpmu_note_instruction(vv);
}

/* Return: false if the access is KVM's to complete; nothing has happened then */
static bool complete_access(struct vpmu_vcpu *vv)
{
	struct kvm_vcpu *vcpu = vv->hot.vcpu;
	unsigned long *regs = vcpu->arch.regs;
	u32 index = regs[VCPU_REGS_RCX];
	u64 data;

	switch (vpmu_compat_access(vcpu, &vv->filter)) {
	case COMPAT_RDPMC:
		if (!vpmu_rdpmc_fast(vv, index, &data))
			return false;
		break;
	case COMPAT_RDMSR:
		if (!vpmu_msr_read_fast(vv, index, &data))
			return false;
		break;
	case COMPAT_WRMSR:
		data = (u32)regs[VCPU_REGS_RAX] | (u64)regs[VCPU_REGS_RDX] << 32;
		if (!vpmu_msr_write_fast(vv, index, data))
			return false;
		skip_instruction(vv);
		return true;
	case COMPAT_NO_ACCESS:
		return false;
	}
	regs[VCPU_REGS_RAX] = (u32)data;
	regs[VCPU_REGS_RDX] = data >> 32;
	skip_instruction(vv);
	return true;
}

fastpath_t vpmu_fast_exit(struct vpmu_vcpu *vv, fastpath_t result)
{
	if (result == EXIT_FASTPATH_NONE && complete_access(vv)) {
		vpmu_watch(vv, VPMU_WATCHED_EXITS);
		vv->stats.fast++;
		return EXIT_FASTPATH_REENTER_GUEST;
	}
	vpmu_align_later(vv);
	vv->hot.watch--;
	if (!vpmu_watching(vv))
		vpmu_sched_unwatch(vv);
	return result;
}
