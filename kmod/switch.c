// SPDX-License-Identifier: GPL-2.0
/*
 * Guest counters on physical ones: from vcpu_load to vcpu_put, nothing in
 * between.  All of it runs with interrupts off on the CPU that the vCPU is
 * loaded on.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/printk.h>

#include "compat/compat.h"
#include "vpmu.h"

/* How long after an overflow was noticed its NMI may still come. */
#define LATE_NMI	msecs_to_jiffies(10)

DEFINE_PER_CPU(struct vpmu_cpu, vpmu_cpu);
const struct hw_ops *vpmu_hw;

void switch_init(void)
{
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu)
		for (i = 0; i < VPMU_MAX_COUNTERS; i++)
			per_cpu(vpmu_cpu, cpu).owner[i] = VPMU_NO_SLOT;
}

static int vcpu_level(struct vpmu_vcpu *vv)
{
	return compat_get_cpl(vv->vcpu) ? VPMU_USER : VPMU_KERNEL;
}

/*
 * What the coming VM entry adds to counter @i beyond what the guest does,
 * provided that the guest is entered at its present level.
 */
int switch_next_entry(struct vpmu_vcpu *vv, unsigned int i)
{
	const struct vpmu_count *c = &vv->counter[i].count;

	return vpmu_hw->entry_counts && c->class != VPMU_SPECULATIVE &&
	       (c->filter & BIT(vcpu_level(vv)));
}

/* Host perf starts at the bottom; start at the top to stay out of its way. */
static int find_slot(struct vpmu_cpu *pc)
{
	int slot;

	for (slot = vpmu_hw->nr - 1; slot >= 0; slot--)
		if (pc->owner[slot] == VPMU_NO_SLOT && !vpmu_hw->in_use(slot))
			return slot;
	return VPMU_NO_SLOT;
}

/* Bring a counter's guest value up to date with physical value @hw. */
static bool sync_with(struct vpmu_vcpu *vv, unsigned int i, u64 hw)
{
	struct vpmu_counter *c = &vv->counter[i];
	bool wrapped, seen;
	s64 gain;

	wrapped = vpmu_count_wrapped(&c->count, hw);
	gain = vpmu_count_sync(&c->count, &vv->tally, hw);
	if (unlikely(gain < 0)) {
		vv->stats.anomalies++;
		pr_warn_once("VM entries are not counted by this CPU, counts are too low; load with vmrun_counts=0\n");
	}

	seen = c->overflowed;
	c->overflowed = false;
	if (wrapped && !seen) {
		/* Its NMI, if it is still to come, has nothing left to find. */
		if (guest_interrupts(&vv->guest, i))
			this_cpu_write(vpmu_cpu.late_nmi, jiffies + LATE_NMI);
		if (!c->borrows)
			vpmu_hw->ack(BIT_ULL(c->slot));
	}

	if (vpmu_count_add(&vv->guest.value[i], gain)) {
		pmi_overflow(vv, i);
		return false;
	}
	if (wrapped)
		vv->stats.early++;
	return wrapped;
}

/**
 * switch_sync() - bring a counter's guest value up to date
 * @vv: the vCPU
 * @i: the guest counter, which goes on
 *
 * Deals with an overflow of the guest's counter.
 *
 * Return: whether only the physical counter overflowed, which then has to be
 * armed again.
 */
bool switch_sync(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];

	lockdep_assert_irqs_disabled();
	if (c->slot == VPMU_NO_SLOT)
		return false;

	return sync_with(vv, i, vpmu_hw->read(c->slot));
}

/* Bring a counter up to date, and arm it again if it overflowed early. */
void switch_settle(struct vpmu_vcpu *vv, unsigned int i)
{
	if (switch_sync(vv, i))
		switch_arm(vv, i, false);
}

/*
 * The physical value that overflows together with the guest's.
 * @emulating: the WRMSR that is being emulated will be added in software.
 */
static u64 armed_value(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	struct vpmu_counter *c = &vv->counter[i];
	int bias = switch_next_entry(vv, i);

	/*
	 * Not below 0: a physical value ahead of the guest's could be past its
	 * top already.
	 */
	if (emulating && bias > 0 && c->count.class == VPMU_INSTRUCTION)
		bias--;

	vv->check_level = vcpu_level(vv);
	return vpmu_count_arm(&c->count, &vv->tally, vv->guest.value[i], bias);
}

void switch_arm(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	u64 value;

	lockdep_assert_irqs_disabled();
	if (vv->counter[i].slot == VPMU_NO_SLOT)
		return;
	value = armed_value(vv, i, emulating);
	vpmu_hw->rewrite(vv->counter[i].slot, value);
}

void switch_start(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_counter *c = &vv->counter[i];
	int slot;

	lockdep_assert_irqs_disabled();
	if (!vv->loaded || c->slot != VPMU_NO_SLOT || c->borrows)
		return;

	c->count.class = guest_class(&vv->guest, i);
	c->count.filter = guest_filter(&vv->guest, i);
	c->overflowed = false;
	slot = find_slot(pc);
	if (slot == VPMU_NO_SLOT) {
		c->borrows = true;
		vv->borrowing++;
		return;
	}

	vpmu_hw->start(slot, vv->guest.select[i], armed_value(vv, i, emulating));
	/* It counts in guest mode only, so the NMI handler needn't know sooner. */
	c->slot = slot;
	barrier();
	pc->owner[slot] = i;
	vv->placed++;
}

void switch_stop(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_counter *c = &vv->counter[i];

	lockdep_assert_irqs_disabled();
	if (c->borrows) {
		c->borrows = false;
		vv->borrowing--;
	}
	if (c->slot == VPMU_NO_SLOT)
		return;

	switch_sync(vv, i);
	/*
	 * No longer the guest's before it is stopped: the NMI handler must not
	 * take the cleared counter for one that overflowed.
	 */
	pc->owner[c->slot] = VPMU_NO_SLOT;
	barrier();
	vpmu_hw->stop(c->slot);
	c->slot = VPMU_NO_SLOT;
	vv->placed--;
}

void switch_load(struct vpmu_vcpu *vv)
{
	unsigned long flags;
	unsigned int i;

	local_irq_save(flags);
	vv->loaded = true;
	this_cpu_write(vpmu_cpu.vv, vv);
	for (i = 0; i < vv->guest.nr; i++)
		if (guest_counting(&vv->guest, i))
			switch_start(vv, i, false);
	local_irq_restore(flags);
}

void switch_put(struct vpmu_vcpu *vv)
{
	unsigned long flags;
	unsigned int i;

	local_irq_save(flags);
	if (vv->placed || vv->borrowing)
		for (i = 0; i < vv->guest.nr; i++)
			switch_stop(vv, i);
	this_cpu_write(vpmu_cpu.vv, NULL);
	vv->loaded = false;
	local_irq_restore(flags);
}

/*
 * Host perf is about to use physical counter @slot of this CPU.  It doesn't
 * know of guests, so the guest's counter moves.
 */
void switch_evict(unsigned int slot)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_vcpu *vv = pc->vv;
	unsigned long flags;
	int i;

	if (!vv || slot >= vpmu_hw->nr || pc->owner[slot] == VPMU_NO_SLOT)
		return;

	local_irq_save(flags);
	i = pc->owner[slot];
	switch_stop(vv, i);
	vv->stats.evicted++;
	/* Not back to where host perf comes now. */
	pc->owner[slot] = i;
	switch_start(vv, i, false);
	pc->owner[slot] = VPMU_NO_SLOT;
	local_irq_restore(flags);
}

/*
 * The guest is about to be entered, and has more counters running than host
 * perf leaves free: lend it host perf's for as long as it runs.
 *
 * NMIs are held from here to the VM exit.  One that came in between would
 * find the guest's value where host perf has its own, and the guest would run
 * without the counter.
 */
void switch_borrow(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int i, slot = 0;

	lockdep_assert_irqs_disabled();
	vpmu_hw->hold_nmis();
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		if (!c->borrows)
			continue;
		/* There are as many physical counters as the guest has, or more. */
		while (pc->owner[slot] != VPMU_NO_SLOT)
			slot++;
		vpmu_hw->borrow(slot, &pc->saved[slot]);
		vpmu_hw->start(slot, vv->guest.select[i], armed_value(vv, i, false));
		pc->lent |= BIT(slot);
		pc->owner[slot] = i;
		c->slot = slot;
		vv->placed++;
		vv->stats.borrowed++;
	}
}

/*
 * The guest has exited.  NMIs have been possible since, and their handler has
 * given the counters back then.
 */
void switch_give_back(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int slot;

	lockdep_assert_irqs_disabled();
	vpmu_hw->hold_nmis();
	pmi_give_back(pc);
	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		int i = pc->owner[slot];

		if (i == VPMU_NO_SLOT || !vv->counter[i].borrows)
			continue;
		sync_with(vv, i, pc->seen[slot]);
		pc->owner[slot] = VPMU_NO_SLOT;
		vv->counter[i].slot = VPMU_NO_SLOT;
		vv->placed--;
	}
	vpmu_hw->release_nmis();
}
