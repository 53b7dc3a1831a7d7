/* SPDX-License-Identifier: GPL-2.0 */
/* VM entries, and instructions that KVM emulates. */
#ifndef VPMU_EMUL_H
#define VPMU_EMUL_H

#include "vpmu.h"

/**
 * vpmu_entry() - the guest is about to be entered, with running counters
 * @vv: the vCPU; interrupts are off
 *
 * Called by stubs.S where VM entries count.
 *
 * Return: 0 if there is nothing to do behind the VM exit.  Otherwise counters were borrowed or the
 * entry is measured, for vpmu_exit(); or fast.c looks at the exit.
 */
u32 __noendbr vpmu_entry(struct vpmu_vcpu *vv);

/* The same where VM entries don't count, called if vpmu_hot.slow or .pending isn't 0. */
u32 __noendbr vpmu_entry_uncounted(struct vpmu_vcpu *vv);

/* Behind the VM exit, if counters were borrowed or the entry is measured */
void vpmu_exit(struct vpmu_vcpu *vv);

/*
 * A VM exit behind an overflow's interrupt or an access, and KVM enters the guest again: counters
 * whose overflow is to interrupt the guest are armed exactly then.
 */
void vpmu_align_later(struct vpmu_vcpu *vv);

/*
 * KVM has emulated an instruction of the guest, or has found that the instruction was a branch
 * (@class).  For cases where a note isn't enough, as the coming entry may not make up for it.
 */
void vpmu_emulated(struct vpmu_vcpu *vv, enum vpmu_class class);

/* The same of an instruction, while VM exits are looked at: as in stubs.S, a note if possible */
static inline void vpmu_note_instruction(struct vpmu_vcpu *vv)
{
	vv->hot.emulated++;
	if (vv->hot.slow || vv->hot.pending || (!vpmu_hw->entry_counts && --vv->hot.margin < 0))
		vpmu_emulated(vv, VPMU_INSTRUCTION);
	else
		vv->hot.pending = BIT(VPMU_INSTRUCTION);
}

/*
 * The guest's privilege level is about to change without an instruction of its own: a nested guest
 * is entered or left, or an SMI or INIT comes.  Instructions that KVM emulated before belong to the
 * old level, for which the coming entry doesn't make up.
 */
void vpmu_level_changes(struct vpmu_vcpu *vv);

/* The guest will execute, once more, the instruction that KVM is about to complete. */
void vpmu_instruction_repeats(struct vpmu_vcpu *vv);

#endif
