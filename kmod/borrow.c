// SPDX-License-Identifier: GPL-2.0
/*
 * Physical counters that host perf lends to a guest for the stay in guest mode.
 *
 * NMIs are held from the borrowing to the VM exit.  An NMI in between would find the guest's value
 * where host perf has its own, and the guest would run without the counter.  Where NMIs can't be
 * held that long, their handler makes the guest exit before it executes anything (pmi_nmi()).
 */
#include <linux/irq_work.h>
#include <asm/msr.h>
#include <asm/processor.h>

#include "borrow.h"
#include "compat/host.h"
#include "counter.h"

/* How often to check whether an NMI that is on its way has come */
#define WAIT_FOR_NMI	1000

static DEFINE_PER_CPU(struct irq_work, kick);

static void do_nothing(struct irq_work *work)
{
}

void vpmu_kick(void)
{
	irq_work_queue(this_cpu_ptr(&kick));
}

void vpmu_borrow_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		init_irq_work(per_cpu_ptr(&kick, cpu), do_nothing);
}

/* Nobody kicks any more. */
void vpmu_borrow_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		irq_work_sync(per_cpu_ptr(&kick, cpu));
}

void vpmu_give_back_lent(struct vpmu_cpu *pc)
{
	unsigned int slot;

	for (slot = 0; pc->lent; slot++) {
		if (!(pc->lent & BIT(slot)))
			continue;
		pc->seen[slot] = vpmu_hw->read(slot);
		if (pc->lent_to_open)
			pc->seen_status |= vpmu_hw->overflowed() & BIT_ULL(slot);
		vpmu_hw->give_back(slot, &pc->saved[slot]);
		pc->lent &= ~BIT(slot);
	}
}

/*
 * The physical counters whose overflow causes no NMI: those of guest counters with INT clear, and
 * those that nobody runs.  Host perf's events all have INT set.
 */
static u64 quiet_slots(const struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	unsigned int slot;
	u64 quiet = 0;

	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		int i = pc->owner[slot];
		bool loud;

		if (i != VPMU_NO_SLOT && vv->counter[i].slot == slot &&
		    vpmu_holds_slot(vv, pc, i))
			loud = vpmu_guest_interrupts(&vv->guest, i);
		else
			loud = vpmu_compat_host_has(vpmu_hw_index(vpmu_hw, slot));
		if (!loud)
			quiet |= BIT_ULL(slot);
	}
	return quiet;
}

/* Which counters are quiet doesn't matter where all NMIs are held. */
static bool hold_nmis(const struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	return vpmu_hw->hold_nmis(vpmu_hw->hold_again ? quiet_slots(pc, vv) : 0);
}

/*
 * The physical counter for @c by whose lending host perf loses least; @losses has the loss of each.
 *
 * Return: that counter, or VPMU_NO_SLOT: other counters of the guest are on all that fit.
 */
static int pick_lender(const struct vpmu_cpu *pc, const enum compat_loss *losses,
		       const struct vpmu_counter *c)
{
	unsigned int least = COMPAT_CANT_LEND;
	int slot, best = VPMU_NO_SLOT;

	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		if (pc->owner[slot] != VPMU_NO_SLOT || losses[slot] >= least ||
		    !vpmu_counter_fits(slot, c))
			continue;
		least = losses[slot];
		best = slot;
	}
	return best;
}

static __always_inline void lend_counter(struct vpmu_cpu *pc, unsigned int slot)
{
	if (pc->lent & BIT(slot))
		return;
	vpmu_hw->borrow(slot, &pc->saved[slot]);
	pc->lent |= BIT(slot);
}

/* A host event that needs two counters counts on neither while one of them is lent. */
static noinline void lend_partner(struct vpmu_cpu *pc, unsigned int slot, unsigned long pairs)
{
	if (pairs & BIT(slot))
		lend_counter(pc, slot + 1);
	else if (slot && (pairs & BIT(slot - 1)))
		lend_counter(pc, slot - 1);
}

void vpmu_borrow(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	enum compat_loss losses[VPMU_MAX_COUNTERS];
	unsigned long pairs, returned;
	unsigned int i;
	int slot, level;

	lockdep_assert_irqs_disabled();
	pc->lent_since = rdtsc();
	pc->lending = 0;
	pc->was_lent = 0;
	if (!hold_nmis(pc, vv)) {
		/* An NMI is on its way: try again after an exit. */
		vpmu_kick();
		return;
	}
	pc->busy = true;
	barrier();
	vpmu_counter_prepare(pc);
	pairs = vpmu_compat_host_losses(losses, vpmu_hw->general, vpmu_hw->nr);
	level = vpmu_counter_prepare_arming(vv);
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		if (!(vv->borrowing & BIT(i)))
			continue;
		slot = pick_lender(pc, losses, c);
		if (slot == VPMU_NO_SLOT)
			continue;
		lend_counter(pc, slot);
		if (unlikely(pairs))
			lend_partner(pc, slot, pairs);
		vpmu_hw->write(slot, vpmu_counter_armed_value(vv, c, level, VPMU_ARM_FOR_ENTRY));
		vpmu_hw->start(slot, vv->guest.select[i], false);
		pc->owner[slot] = i;
		c->slot = slot;
		vv->placed |= BIT(i);
		vv->stats.borrowed++;
		vv->stats.gaps += !!(vv->in_host & BIT(i));
	}
	pc->was_lent = pc->lent;
	vv->hot.msr_list_valid = false;
	pc->lending = rdtsc() - pc->lent_since;
	barrier();
	pc->busy = false;
	if (!vpmu_hw->release_before_entry)
		return;
	vpmu_hw->release_nmis();
	/* The handler of an NMI just then gave counters back; that release was for lent ones. */
	returned = pc->was_lent & ~READ_ONCE(pc->lent);
	if (returned && vpmu_hw->returned)
		vpmu_hw->returned(returned);
}

bool vpmu_borrow_to_open(struct vpmu_vcpu *vv, unsigned long slots)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int slot;
	bool clear;

	lockdep_assert_irqs_disabled();
	pc->lent_since = rdtsc();
	pc->was_lent = 0;
	if (!hold_nmis(pc, vv))
		return false;
	pc->busy = true;
	barrier();
	for_each_set_bit(slot, &slots, VPMU_MAX_COUNTERS)
		lend_counter(pc, slot);
	clear = vpmu_hw->status_is_clear();
	if (clear) {
		pc->was_lent = slots;
		pc->lent_to_open = slots;
	} else {
		/* An NMI is on its way, and its handler needs that. */
		vpmu_give_back_lent(pc);
	}
	pc->lending = rdtsc() - pc->lent_since;
	barrier();
	pc->busy = false;
	if (!clear)
		vpmu_hw->release_nmis();
	return clear;
}

void vpmu_give_back(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	/* An NMI that made the guest exit is handled behind this, and blocks others. */
	unsigned int wait = vpmu_compat_nmi_exit(vv->hot.vcpu) ? 0 : WAIT_FOR_NMI;
	u64 exited = rdtsc(), ticks, in_host;
	unsigned int slot, tries;

	lockdep_assert_irqs_disabled();
	/* The handler of an NMI that comes now gives the counters back as well, before perf's. */
	for (tries = 0; !hold_nmis(pc, vv) && tries < wait; tries++)
		cpu_relax();
	pc->busy = true;
	barrier();
	vpmu_give_back_lent(pc);
	ticks = rdtsc() - pc->lent_since;
	in_host = pc->lending + rdtsc() - exited;
	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		int i = pc->owner[slot];
		struct vpmu_counter *c;

		if (!(pc->was_lent & BIT(slot)))
			continue;
		vpmu_compat_host_event_paused(vpmu_hw_index(vpmu_hw, slot), ticks, in_host);
		if (i == VPMU_NO_SLOT)
			continue;
		c = &vv->counter[i];
		vpmu_counter_sync_value(vv, c, pc->seen[slot], vpmu_counter_take_overflowed(c));
		c->running += ticks;
		pc->owner[slot] = VPMU_NO_SLOT;
		c->slot = VPMU_NO_SLOT;
		vv->placed &= ~BIT(i);
	}
	if (vpmu_hw->returned)
		vpmu_hw->returned(pc->was_lent);
	vv->hot.msr_list_valid = false;
	barrier();
	pc->busy = false;
	vpmu_hw->release_nmis();
}
