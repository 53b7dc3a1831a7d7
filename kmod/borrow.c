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
	unsigned long mask;

	for (mask = pc->lent; mask; mask &= mask - 1) {
		unsigned int slot = __ffs(mask);
		u64 value = vpmu_hw->read(slot);
		bool overflowed = value < pc->given[slot];

		if (pc->lent_to_open) {
			u64 status = vpmu_hw->overflowed() & BIT_ULL(slot);

			/* The guest has written both. */
			pc->seen_status |= status;
			overflowed = status;
		}
		pc->seen[slot] = value;
		vpmu_hw->give_back(slot, &pc->saved[slot], overflowed);
		pc->lent &= ~BIT(slot);
	}
}

/*
 * The physical counters whose overflow causes no NMI: those of guest counters with INT clear, and
 * those that nobody runs.  Host perf's events all have INT set.
 */
static noinline u64 quiet_slots(const struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
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
static __always_inline bool hold_nmis(const struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	return vpmu_hw->hold_nmis(vpmu_hw->hold_again ? quiet_slots(pc, vv) : 0);
}

/*
 * The physical counter for guest counter @i by whose lending host perf loses least; @losses has the
 * loss of each.  There is none if other counters of the guest are on all that fit.
 */
static void find_lender(struct vpmu_cpu *pc, const struct vpmu_vcpu *vv,
			const enum compat_loss *losses, unsigned int i)
{
	struct vpmu_lenders *l = &pc->lenders;
	unsigned int least = COMPAT_CANT_LEND;
	int slot;

	l->slot[i] = VPMU_NO_SLOT;
	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		if (pc->owner[slot] != VPMU_NO_SLOT || (l->slots & BIT(slot)) ||
		    losses[slot] >= least || !vpmu_counter_fits(slot, &vv->counter[i]))
			continue;
		least = losses[slot];
		l->slot[i] = slot;
	}
	if (l->slot[i] == VPMU_NO_SLOT)
		l->all_borrow = false;
	else
		l->slots |= BIT(l->slot[i]);
}

static noinline void find_lenders(struct vpmu_cpu *pc, struct vpmu_vcpu *vv)
{
	struct vpmu_lenders *l = &pc->lenders;
	unsigned long mask, pairs;
	enum compat_loss losses[VPMU_MAX_COUNTERS];

	*l = (struct vpmu_lenders){
		.borrowers = vv->borrowing, .beside = vv->placed, .all_borrow = true,
	};
	/* In that order, as an NMI may stop an event of host perf's meanwhile. */
	barrier();
	pairs = vpmu_compat_host_losses(losses, vpmu_hw->general, vpmu_hw->nr);
	/* Those first that can't borrow another */
	for (mask = vv->borrowing; mask; mask &= mask - 1)
		if (vv->counter[__ffs(mask)].pinned)
			find_lender(pc, vv, losses, __ffs(mask));
	for (mask = vv->borrowing; mask; mask &= mask - 1)
		if (!vv->counter[__ffs(mask)].pinned)
			find_lender(pc, vv, losses, __ffs(mask));
	for (mask = l->slots; mask; mask &= mask - 1) {
		unsigned int slot = __ffs(mask);

		/* A host event that needs two counters counts on neither while one is lent. */
		if (pairs & BIT(slot))
			l->partners |= BIT(slot + 1);
		else if (slot && (pairs & BIT(slot - 1)))
			l->partners |= BIT(slot - 1);
	}
	l->partners &= ~l->slots;
	for (mask = l->slots | l->partners; mask; mask &= mask - 1)
		if (losses[__ffs(mask)] != COMPAT_LOSES_NOTHING)
			l->losing |= mask & -mask;
}

static __always_inline bool lenders_known(const struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	unsigned long mask;

	if (pc->lenders.borrowers != vv->borrowing || pc->lenders.beside != vv->placed)
		return false;
	for (mask = vv->borrowing; mask; mask &= mask - 1) {
		int slot = pc->lenders.slot[__ffs(mask)];

		/* Another counter of the guest's has moved there. */
		if (slot != VPMU_NO_SLOT && pc->owner[slot] != VPMU_NO_SLOT)
			return false;
	}
	return true;
}

/* Until end_lending(), no NMI comes, or its handler leaves lent counters alone; false: not so */
static __always_inline bool begin_lending(struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	lockdep_assert_irqs_disabled();
	pc->lent_since = rdtsc();
	pc->lending = 0;
	pc->was_lent = 0;
	if (!hold_nmis(pc, vv))
		return false;
	pc->busy = true;
	barrier();
	return true;
}

static __always_inline void end_lending(struct vpmu_cpu *pc)
{
	pc->was_lent = pc->lent;
	pc->lending = rdtsc() - pc->lent_since;
	barrier();
	pc->busy = false;
}

static __always_inline void lend_counter(struct vpmu_cpu *pc, unsigned int slot, u64 select,
					 u64 value)
{
	pc->given[slot] = value;
	vpmu_hw->borrow(slot, &pc->saved[slot], select, value);
	pc->lent |= BIT(slot);
}

static void lend_all(struct vpmu_cpu *pc, unsigned long slots)
{
	for (; slots; slots &= slots - 1)
		lend_counter(pc, __ffs(slots), 0, 0);
}

void vpmu_borrow(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	enum vpmu_arming arming = VPMU_ARM_FOR_ENTRY;
	unsigned long mask, returned;
	int level;

	if (!begin_lending(pc, vv)) {
		/* An NMI is on its way: try again after an exit. */
		vpmu_kick();
		return;
	}
	vpmu_counter_prepare(pc);
	if (unlikely(!lenders_known(pc, vv)))
		find_lenders(pc, vv);
	/* The entry makes up for a pending instruction, unless a counter doesn't count there. */
	if (pc->lenders.all_borrow && vv->hot.pending)
		arming = VPMU_ARM_FOR_WRMSR;
	else
		vpmu_flush_pending(vv);
	level = vpmu_hw->entry_counts ? vpmu_level(vv) : VPMU_KERNEL;
	lend_all(pc, pc->lenders.partners);
	for (mask = vv->borrowing; mask; mask &= mask - 1) {
		unsigned int i = __ffs(mask);
		struct vpmu_counter *c = vpmu_counter(vv, i);
		int slot = pc->lenders.slot[i];

		if (unlikely(slot == VPMU_NO_SLOT))
			continue;
		lend_counter(pc, slot, vv->guest.select[i],
			     vpmu_counter_armed_value(vv, c, level, arming));
		pc->owner[slot] = i;
		c->slot = slot;
		vv->placed |= BIT(i);
		vv->stats.borrowed++;
		vv->stats.gaps += !!(vv->in_host & BIT(i));
	}
	vv->hot.msr_list_valid = false;
	end_lending(pc);
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
	bool clear;

	if (!begin_lending(pc, vv))
		return false;
	lend_all(pc, slots);
	clear = vpmu_hw->status_is_clear();
	if (clear)
		pc->lent_to_open = slots;
	else
		/* An NMI is on its way, and its handler needs that. */
		vpmu_give_back_lent(pc);
	end_lending(pc);
	if (!clear)
		vpmu_hw->release_nmis();
	return clear;
}

void vpmu_give_back(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	/* An NMI that made the guest exit is handled behind this, and blocks others. */
	unsigned int wait = vpmu_compat_nmi_exit(vv->hot.vcpu) ? 0 : WAIT_FOR_NMI;
	u64 exited = rdtsc(), now, ticks, in_host;
	unsigned long mask;
	unsigned int tries;

	lockdep_assert_irqs_disabled();
	/* The handler of an NMI that comes now gives the counters back as well, before perf's. */
	for (tries = 0; !hold_nmis(pc, vv) && tries < wait; tries++)
		cpu_relax();
	pc->busy = true;
	barrier();
	vpmu_give_back_lent(pc);
	now = rdtsc();
	ticks = now - pc->lent_since;
	in_host = pc->lending + now - exited;
	for (mask = pc->was_lent; mask; mask &= mask - 1) {
		unsigned int slot = __ffs(mask);
		int i = pc->owner[slot];
		struct vpmu_counter *c;

		if (pc->lenders.losing & BIT(slot))
			vpmu_compat_host_event_paused(vpmu_hw_index(vpmu_hw, slot), ticks, in_host);
		if (i == VPMU_NO_SLOT)
			continue;
		c = vpmu_counter(vv, i);
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
