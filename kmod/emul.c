// SPDX-License-Identifier: GPL-2.0
/*
 * What physical counters see and the guest didn't do, and the other way round.
 *
 * Where VM entries count, an entry after an instruction that KVM completed moves
 * the physical counter by as much as the guest's moved: nothing has to be
 * tallied, and it even overflows at this instruction, if the guest's counter
 * does.  So such an instruction is only noted (vpmu_hot.pending), by stubs.S, and
 * the entry finds that note.
 *
 * Where they don't, it lets the physical counter fall behind, by one of the events that
 * it was made to run ahead (vpmu_hot.margin): a note is enough as long as there are some left.
 */
#include "compat/compat.h"
#include "vpmu.h"

static int vcpu_level(struct vpmu_vcpu *vv)
{
	return vpmu_compat_get_cpl(vv->hot.vcpu) ? VPMU_USER : VPMU_KERNEL;
}

/*
 * A counter that borrows isn't on a physical one: add to its value.  Unless KVM
 * completes the instruction in svm_vcpu_run() (a "fastpath"), before the counter is given
 * back: then its synchronization finds it in the tally.
 */
static void emulate_on_borrowed(struct vpmu_vcpu *vv, enum vpmu_class class, int level)
{
	unsigned int i;

	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		if (c->borrows && c->slot == VPMU_NO_SLOT && c->count.class == class &&
		    (c->count.filter & BIT(level)) &&
		    vpmu_count_add(&vv->guest.value[i], 1))
			vpmu_counter_overflow(vv, i);
	}
}

/* To find out the level takes long on Intel's CPUs; any will do if no counter tells. */
static void count_emulated(struct vpmu_vcpu *vv, enum vpmu_class class)
{
	int level = vv->nr_cpl_filtered ? vcpu_level(vv) : VPMU_KERNEL;

	if (unlikely(vv->hot.slow & VPMU_SLOW_REPEATS) && class == VPMU_INSTRUCTION) {
		vv->hot.slow &= ~VPMU_SLOW_REPEATS;
		vv->hot.emulated--;
		return;
	}
	vpmu_tally_emulated(&vv->tally, class, level);
	if (vv->borrowing)
		emulate_on_borrowed(vv, class, level);
}

/* The entry makes up for what is settled here, so it can't for another note. */
void __vpmu_flush_pending(struct vpmu_vcpu *vv)
{
	u32 pending = vv->hot.pending;

	vv->hot.pending = 0;
	if (vpmu_hw->entry_counts) {
		vv->armed_level = vcpu_level(vv);
		vv->hot.slow |= VPMU_SLOW_ARMED;
	}
	if (pending & BIT(VPMU_INSTRUCTION))
		count_emulated(vv, VPMU_INSTRUCTION);
	if (pending & BIT(VPMU_BRANCH))
		count_emulated(vv, VPMU_BRANCH);
}

/* Arm those counters again whose overflow would come too late. */
static void rearm(struct vpmu_vcpu *vv)
{
	int level = vcpu_level(vv);
	s64 margin = S64_MAX;
	unsigned int i;

	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];
		s64 headroom;

		/* One that borrows has been armed just now, or will be at the next entry. */
		if (c->slot == VPMU_NO_SLOT || c->borrows || c->count.class == VPMU_OTHER)
			continue;
		/* Who doesn't ask for an interrupt has to look, and that brings it up to date. */
		if (!vpmu_guest_interrupts(&vv->guest, i))
			continue;
		headroom = vpmu_count_headroom(&c->count, &vv->tally,
					       vpmu_counter_next_entry(vv, i, level));
		if (headroom < 0) {
			vpmu_counter_sync(vv, i);
			vpmu_counter_arm(vv, i, false);
			headroom = vpmu_count_headroom(&c->count, &vv->tally,
						       vpmu_counter_next_entry(vv, i, level));
		}
		margin = min(margin, headroom);
	}
	if (!vpmu_hw->entry_counts)
		vv->hot.margin = margin;
}

/* An entry at @level, which makes up for what is pending. */
static __always_inline void tally_entry(struct vpmu_vcpu *vv, int level)
{
	u32 pending = vv->hot.pending;

	vv->hot.pending = 0;
	if (!(pending & BIT(VPMU_INSTRUCTION)))
		vv->tally.surplus[VPMU_INSTRUCTION][level]++;
	if (!(pending & BIT(VPMU_BRANCH)))
		vv->tally.surplus[VPMU_BRANCH][level]++;
}

/* vpmu_hot.slow says that there is more to do. */
static noinline bool entry_slowly(struct vpmu_vcpu *vv)
{
	vpmu_flush_pending(vv);
	if (vv->hot.slow & VPMU_SLOW_STALE)
		vpmu_host_reassert(vv);
	if (vv->borrowing)
		vpmu_borrow(vv);
	/* Counters were armed for an entry, but at another level. */
	if ((vv->hot.slow & VPMU_SLOW_ARMED) && vv->armed_level != vcpu_level(vv))
		rearm(vv);
	vv->hot.slow &= ~(VPMU_SLOW_ARMED | VPMU_SLOW_STALE | VPMU_SLOW_REPEATS);
	if (vpmu_hw->entry_counts && vv->placed)
		tally_entry(vv, vcpu_level(vv));
	return vv->borrowing;
}

/*
 * The guest is about to be entered, with counters that run; interrupts are
 * off.  Whether counters were borrowed, and have to be given back after it.
 *
 * Each VM exit pays for each instruction here.
 */
bool notrace __noendbr vpmu_entry(struct vpmu_vcpu *vv)
{
	int level;

	if (unlikely(vv->hot.slow))
		return entry_slowly(vv);
	level = vcpu_level(vv);
	/* Cheaper than to keep it over the call. */
	tally_entry(this_cpu_read(vpmu_hot), level);
	return false;
}

/*
 * The same where VM entries don't count.  stubs.S comes here only if vpmu_hot.slow or .pending
 * isn't 0.
 */
bool notrace __noendbr vpmu_entry_uncounted(struct vpmu_vcpu *vv)
{
	if (unlikely(vv->hot.slow))
		return entry_slowly(vv);
	__vpmu_flush_pending(vv);
	return false;
}

/*
 * KVM completed an instruction of the guest, or @class says that it was a
 * branch, and a note isn't enough: the coming entry may not make up for it.
 */
void vpmu_emulated(struct vpmu_vcpu *vv, enum vpmu_class class)
{
	unsigned long flags;

	local_irq_save(flags);
	vpmu_flush_pending(vv);
	count_emulated(vv, class);
	rearm(vv);
	local_irq_restore(flags);
}

/*
 * The guest's privilege level is about to change without its doing: a nested
 * guest is entered or left, an SMI or INIT comes.  What KVM completed before
 * belongs to the old level, for which the coming entry doesn't make up.
 */
void vpmu_level_changes(struct vpmu_vcpu *vv)
{
	unsigned long flags;

	local_irq_save(flags);
	/* For a nested guest there is another VMCS, and a reset makes this one anew. */
	vv->hot.msr_list_valid = false;
	if (vv->hot.pending) {
		/* The coming entry looks whether it has that level. */
		vpmu_flush_pending(vv);
		rearm(vv);
	}
	local_irq_restore(flags);
}

/* The instruction that KVM is about to complete is the guest's to execute, once more. */
void vpmu_instruction_repeats(struct vpmu_vcpu *vv)
{
	unsigned long flags;

	local_irq_save(flags);
	vpmu_flush_pending(vv);
	vv->hot.slow |= VPMU_SLOW_REPEATS;
	local_irq_restore(flags);
}
