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
	bool wrapped, seen;
	s64 gain;
	u64 hw;

	lockdep_assert_irqs_disabled();
	if (c->slot == VPMU_NO_SLOT)
		return false;

	hw = vpmu_hw->read(c->slot);
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
	if (!vv->loaded || c->slot != VPMU_NO_SLOT)
		return;

	slot = find_slot(pc);
	if (slot == VPMU_NO_SLOT) {
		vv->stats.lost++;
		pr_warn_ratelimited("a guest counter of process %d finds no free physical counter and stands still\n",
				    task_tgid_nr(current));
		return;
	}

	c->count.class = guest_class(&vv->guest, i);
	c->count.filter = guest_filter(&vv->guest, i);
	c->overflowed = false;
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
	if (vv->placed)
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
