/* SPDX-License-Identifier: GPL-2.0 */
/* VM entries, and instructions that KVM emulates. */
#ifndef VPMU_EMUL_H
#define VPMU_EMUL_H

#include "vpmu.h"

/* A VM entry at @level, which counts, and makes up for pending events */
static __always_inline void vpmu_note_entry(struct vpmu_vcpu *vv, int level)
{
	u32 pending = vv->hot.pending;

	vv->hot.pending = 0;
	if (!(pending & BIT(VPMU_INSTRUCTION)))
		vv->tally.surplus[VPMU_INSTRUCTION][level]++;
	if (!(pending & BIT(VPMU_BRANCH)))
		vv->tally.surplus[VPMU_BRANCH][level]++;
}

/*
 * The guest is about to be entered by the hot vCPU, whose vpmu_hot.slow is 0; interrupts are off.
 * Called by stubs.S where VM entries count.
 */
void __noendbr vpmu_entry(struct vpmu_vcpu *vv);

/* The same where VM entries don't count, if vpmu_hot.pending isn't 0 */
void __noendbr vpmu_entry_uncounted(struct vpmu_vcpu *vv);

/* The same if vpmu_hot.slow isn't 0.  Counters may borrow, or the entry is measured, until then. */
void vpmu_entry_slowly(struct vpmu_vcpu *vv);

/* Behind the VM exit, if counters borrow, the entry is measured or VM exits are events */
void vpmu_exit(struct vpmu_vcpu *vv);

/*
 * A VM exit behind an overflow's interrupt or an access, and KVM enters the guest again: counters
 * whose overflow is to interrupt the guest are armed exactly then.
 *
 * Return: whether there are any, and VM entries count.
 */
bool vpmu_align_later(struct vpmu_vcpu *vv);

/*
 * KVM has emulated an instruction of the guest, or has found that the instruction was a branch
 * (@class).  For cases where a note isn't enough, as the coming entry may not make up for it, or
 * there is more to do at that entry.
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
