// SPDX-License-Identifier: GPL-2.0
/*
 * VM entries and instructions that KVM emulates: what physical counters see and the guest didn't
 * do, and the other way round.
 *
 * Where VM entries count, an entry behind an emulated instruction moves the physical counter by as
 * much as the guest's counter moved.  So nothing has to be tallied, and the physical counter even
 * overflows at this instruction if the guest's does.  stubs.S only notes the instruction
 * (vpmu_hot.pending), and the entry finds that note.
 *
 * Where they don't, an emulated instruction lets the physical counter fall behind, by one of the
 * events that it was armed to run ahead (vpmu_hot.margin).  A note is enough as long as some margin
 * is left.
 */
#include <linux/minmax.h>

#include "borrow.h"
#include "counter.h"
#include "emul.h"
#include "host_perf.h"
#include "measure.h"

/* Arm those counters again that would overflow too late. */
static void rearm(struct vpmu_vcpu *vv)
{
	s64 margin = S64_MAX;
	unsigned int i;
	int level;

	/* Without an interrupt, the overflow is found by reading a register. */
	if (!(vpmu_started(vv) & vv->exact)) {
		vv->hot.margin = margin;
		return;
	}
	level = vpmu_level(vv);
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];
		s64 headroom;

		/* A counter that borrows has been armed just now, or will be at the next entry. */
		if (!(vv->placed & ~vv->borrowing & vv->exact & BIT(i)))
			continue;
		headroom = vpmu_count_headroom(&c->count, &vv->tally,
					       vpmu_counter_next_entry(c, level));
		if (headroom < 0) {
			vpmu_counter_sync(vv, i);
			vpmu_counter_arm(vv, i, VPMU_ARM_FOR_ENTRY);
			headroom = vpmu_count_headroom(&c->count, &vv->tally,
						       vpmu_counter_next_entry(c, level));
		}
		margin = min(margin, headroom);
	}
	if (!vpmu_hw->entry_counts)
		vv->hot.margin = margin;
}

/*
 * An entry behind which the guest goes on for long, probably: its handler of an overflow has ended.
 * Arm those counters again that would overflow too early, by this entry or others before.  Each of
 * them would cost an NMI.
 */
static void align(struct vpmu_vcpu *vv)
{
	unsigned long mask = vv->placed & ~vv->borrowing & vv->exact;
	int level = vpmu_level(vv);

	for (; mask; mask &= mask - 1) {
		struct vpmu_counter *c = vpmu_counter(vv, __ffs(mask));
		s64 early = vpmu_count_headroom(&c->count, &vv->tally,
						vpmu_counter_next_entry(c, level));

		if (early > 0)
			vpmu_counter_fall_back(c, early);
	}
}

bool vpmu_align_later(struct vpmu_vcpu *vv)
{
	if (!vpmu_hw->entry_counts || !(vv->placed & vv->exact))
		return false;
	/* Behind an overflow, the guest's handler comes first. */
	if (!kvm_test_request(KVM_REQ_PMU, vv->hot.vcpu))
		vv->hot.slow |= VPMU_SLOW_ALIGN;
	return true;
}

/*
 * Is a note of an instruction enough, whatever vpmu_hot.slow says?  The entry makes up for the
 * instruction, on counters that borrow then, too, and so aligns none.
 */
static bool note_is_enough(const struct vpmu_vcpu *vv)
{
	return vpmu_hw->entry_counts &&
	       !(vv->hot.slow & ~(VPMU_SLOW_BORROWS | VPMU_SLOW_ALIGN));
}

void vpmu_entry_slowly(struct vpmu_vcpu *vv)
{
	if (vv->hot.pending == BIT(VPMU_INSTRUCTION) && note_is_enough(vv))
		vv->hot.slow &= ~VPMU_SLOW_ALIGN;
	else
		vpmu_flush_pending(vv);
	if (vv->hot.slow & VPMU_SLOW_MEASURE && vpmu_measure_settled(vv))
		rearm(vv);
	if (vv->hot.slow & VPMU_SLOW_STALE)
		vpmu_host_reassert(vv);
	if (vv->borrowing)
		vpmu_borrow(vv);
	/* Counters were armed for an entry at another level. */
	if ((vv->hot.slow & VPMU_SLOW_ARMED) && vv->armed_level != vpmu_level(vv))
		rearm(vv);
	if (vv->hot.slow & VPMU_SLOW_ALIGN)
		align(vv);
	vv->hot.slow &= ~(VPMU_SLOW_ARMED | VPMU_SLOW_STALE | VPMU_SLOW_REPEATS |
			  VPMU_SLOW_ALIGN);
	if (vpmu_hw->entry_counts && vv->placed)
		vpmu_note_entry(vv, vpmu_level(vv));
	if (unlikely(vv->hot.slow & VPMU_SLOW_MEASURE)) {
		vv->assumed[vpmu_level(vv)] += !!vv->placed;
		vv->measuring = vpmu_measure_begin(vv);
	}
}

static void watch_events(struct vpmu_vcpu *vv)
{
	if (vv->event.by_level) {
		int level = vpmu_level(vv);

		/* What came since the last exit belongs to the level of that one. */
		if (level != vv->event.level)
			vpmu_counter_sync_events(vv, vv->event.by_level);
		vv->event.level = level;
	}
	if (vv->event.by_cause)
		vpmu_event_count_cause(vv);
}

void vpmu_exit(struct vpmu_vcpu *vv)
{
	if (vv->event.exits)
		watch_events(vv);
	if (vv->borrowing) {
		vpmu_give_back(vv);
		return;
	}
	if (!vv->measuring)
		return;
	vpmu_measure_end(vv);
	vv->measuring = false;
	if (vpmu_measure_settled(vv))
		rearm(vv);
}

/* Each VM exit pays for each instruction here. */
void notrace __noendbr vpmu_entry(struct vpmu_vcpu *vv)
{
	int level = vpmu_level(vv);

	/* Cheaper than to keep the pointer over the call */
	vpmu_note_entry(this_cpu_read(vpmu_hot), level);
}

void notrace __noendbr vpmu_entry_uncounted(struct vpmu_vcpu *vv)
{
	__vpmu_flush_pending(vv);
}

void vpmu_emulated(struct vpmu_vcpu *vv, enum vpmu_class class)
{
	unsigned long flags;

	local_irq_save(flags);
	if (class == VPMU_INSTRUCTION && !vv->hot.pending && note_is_enough(vv)) {
		vv->hot.pending = BIT(VPMU_INSTRUCTION);
	} else {
		vpmu_flush_pending(vv);
		vpmu_count_emulated(vv, class);
		rearm(vv);
	}
	local_irq_restore(flags);
}

void vpmu_level_changes(struct vpmu_vcpu *vv)
{
	unsigned long flags;

	local_irq_save(flags);
	/* A nested guest has another VMCS, and a reset initializes this one. */
	vv->hot.msr_list_valid = false;
	if (vv->hot.pending) {
		/* The coming entry compares its level with armed_level. */
		vpmu_flush_pending(vv);
		rearm(vv);
	}
	local_irq_restore(flags);
}

void vpmu_instruction_repeats(struct vpmu_vcpu *vv)
{
	unsigned long flags;

	local_irq_save(flags);
	vpmu_flush_pending(vv);
	vv->hot.slow |= VPMU_SLOW_REPEATS;
	local_irq_restore(flags);
}
