// SPDX-License-Identifier: GPL-2.0
/* What physical counters see and the guest didn't do, and the other way round. */
#include "compat/compat.h"
#include "vpmu.h"

/* Counters were armed for an entry at another level than the coming one. */
static void rearm(struct vpmu_vcpu *vv)
{
	unsigned int i;

	for (i = 0; i < vv->guest.nr; i++) {
		if (vv->counter[i].slot == VPMU_NO_SLOT)
			continue;
		if (!vpmu_count_lags(&vv->counter[i].count, &vv->tally,
				     switch_next_entry(vv, i)))
			continue;
		switch_sync(vv, i);
		switch_arm(vv, i, false);
	}
}

/* The guest is about to be entered; interrupts are off. */
void emul_entry(struct vpmu_vcpu *vv)
{
	int level;

	if (!vv->placed || !vpmu_hw->entry_counts)
		return;

	level = compat_get_cpl(vv->vcpu) ? VPMU_USER : VPMU_KERNEL;
	if (unlikely(vv->check_level >= 0)) {
		if (vv->check_level != level)
			rearm(vv);
		vv->check_level = -1;
	}
	vv->tally.entries[level]++;
}

/*
 * KVM completed an instruction of the guest, or @class says that it was a
 * branch.
 *
 * Nothing else is to do where VM entries count, as the next one moves the
 * physical counter by as much as the guest's moved here: it even overflows at
 * this instruction, if the guest's counter does.
 */
void emul_event(struct vpmu_vcpu *vv, enum vpmu_class class)
{
	unsigned long flags;
	unsigned int i;
	int level;

	if (class == VPMU_SPECULATIVE)
		return;
	if (class == VPMU_INSTRUCTION)
		vv->stats.emulated++;
	if (!vv->placed && !vv->borrowing)
		return;

	local_irq_save(flags);
	level = compat_get_cpl(vv->vcpu) ? VPMU_USER : VPMU_KERNEL;
	vv->tally.emulated[class][level]++;
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		if (c->borrows) {
			/* Not on a physical counter now: add to the value. */
			if (c->count.class == class && (c->count.filter & BIT(level)) &&
			    vpmu_count_add(&vv->guest.value[i], 1))
				pmi_overflow(vv, i);
			continue;
		}
		if (c->slot == VPMU_NO_SLOT || c->count.class != class ||
		    !vpmu_count_lags(&c->count, &vv->tally, switch_next_entry(vv, i)))
			continue;
		switch_sync(vv, i);
		switch_arm(vv, i, false);
	}
	local_irq_restore(flags);
}
