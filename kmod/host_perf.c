// SPDX-License-Identifier: GPL-2.0
/*
 * Host perf comes first: where host perf starts an event, a guest's counter leaves, and schedules
 * elsewhere or borrows.
 */
#include <linux/minmax.h>
#include <linux/preempt.h>

#include "counter.h"
#include "host_perf.h"
#include "open.h"
#include "sched.h"

void vpmu_host_count_saved(unsigned int slot, bool saved)
{
	if (slot >= vpmu_hw->nr)
		return;
	if (saved)
		this_cpu_or(vpmu_cpu.host_saved, BIT(slot));
	else
		this_cpu_and(vpmu_cpu.host_saved, ~BIT(slot));
}

void vpmu_host_evict(unsigned int first, unsigned int last)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_vcpu *vv = pc->vv;
	unsigned long flags, evicted = 0;
	unsigned int slot;

	local_irq_save(flags);
	if (vv)
		vpmu_open_take_back(vv);
	pc->no_status = false;
	if (first >= vpmu_hw->nr)
		pc->others = true;
	last = min(last, vpmu_hw->nr - 1);
	for (slot = first; slot <= last; slot++) {
		int i = pc->owner[slot];

		if (vv && i != VPMU_NO_SLOT) {
			vpmu_sched_stop(vv, BIT(i));
			vv->stats.evicted++;
			evicted |= BIT(i);
		}
		/* Host perf writes its own select and count there. */
		vpmu_host_count_saved(slot, false);
		this_cpu_and(vpmu_cpu.cleared, ~BIT(slot));
		this_cpu_and(vpmu_cpu.kept, ~BIT(slot));
		this_cpu_and(vpmu_cpu.dirty, ~BIT(slot));
	}
	if (evicted) {
		/* Nobody's, but not free: host perf comes there now. */
		for (slot = first; slot <= last; slot++)
			pc->owner[slot] = __ffs(evicted);
		vpmu_sched_start(vv, evicted, VPMU_ARM_FOR_ENTRY);
		for (slot = first; slot <= last; slot++)
			pc->owner[slot] = VPMU_NO_SLOT;
	}
	local_irq_restore(flags);
}

void vpmu_host_changed(void)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);

	this_cpu_write(vpmu_cpu.lenders.borrowers, 0);
	this_cpu_write(vpmu_cpu.watchdogs, 0);
	if (!vv)
		return;
	WRITE_ONCE(vv->hot.msr_list_valid, false);
	/* In an NMI: pmi_nmi_end() does it. */
	if (vpmu_hw->reassert && !in_nmi())
		vv->hot.slow |= VPMU_SLOW_STALE;
}

void vpmu_host_reassert(struct vpmu_vcpu *vv)
{
	const struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned long mask = 0;
	unsigned int i;

	for (i = 0; i < vv->guest.nr; i++) {
		int slot = READ_ONCE(vv->counter[i].slot);

		/* In an NMI, the counter may be leaving its slot (sched_out()). */
		if (slot != VPMU_NO_SLOT && (vv->placed & BIT(i)) && vpmu_holds_slot(vv, pc, i))
			mask |= BIT(slot);
	}
	vpmu_hw->reassert(mask);
}
