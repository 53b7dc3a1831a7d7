// SPDX-License-Identifier: GPL-2.0
/*
 * A guest counter's value while the counter is on a physical one: synchronization, arming,
 * overflow, and the tally of what KVM emulated (count.h has the arithmetic).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/printk.h>

#include "counter.h"
#include "trace.h"

/* How long after an overflow was noticed its NMI may still come */
#define LATE_NMI	msecs_to_jiffies(10)

/*
 * By how much a physical counter runs ahead, and how far from overflow: an additional interrupt for
 * at least so many events
 */
#define ARM_MARGIN	4096
#define ARM_MARGIN_FROM	65536

DEFINE_PER_CPU(struct vpmu_cpu, vpmu_cpu);
DEFINE_PER_CPU(struct vpmu_vcpu *, vpmu_hot);
const struct hw_ops *vpmu_hw;

void vpmu_counter_init(void)
{
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu)
		for (i = 0; i < VPMU_MAX_COUNTERS; i++)
			per_cpu(vpmu_cpu, cpu).owner[i] = VPMU_NO_SLOT;
}

/* Where counters are synchronized, the run queue's lock may be held: no place for the console. */
static void report_anomaly(struct irq_work *work)
{
	pr_warn_once("VM entries are not counted by this CPU, counts are too low; load with vmrun_counts=N\n");
}

static DEFINE_IRQ_WORK(anomaly, report_anomaly);

void vpmu_counter_exit(void)
{
	irq_work_sync(&anomaly);
}

void vpmu_counter_overflow(struct vpmu_vcpu *vv, unsigned int i)
{
	vv->stats.overflows++;
	trace_vpmu_overflow(vv, i);
	if (vpmu_guest_has_status(&vv->guest))
		vv->guest.status |= vpmu_guest_bit(&vv->guest, i);
	if (vpmu_guest_interrupts(&vv->guest, i)) {
		vv->stats.pmis++;
		trace_vpmu_inject(vv, i);
		kvm_make_request(KVM_REQ_PMI, vv->hot.vcpu);
		/* The guest's handler is about to access registers. */
		vpmu_watch(vv, VPMU_WATCH_ACCESS);
	}
}

/*
 * A counter that borrows isn't on a physical one: add to its value.  Unless KVM emulates the
 * instruction within svm_vcpu_run() (a "fastpath"), before the physical counter is given back: then
 * the synchronization finds the event in the tally.
 */
static void count_on_borrowed(struct vpmu_vcpu *vv, enum vpmu_class class, int level)
{
	unsigned int i;

	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		if ((vv->borrowing & ~vv->placed & BIT(i)) && c->count.class == class &&
		    (c->count.filter & BIT(level)) &&
		    vpmu_count_add(&vv->guest.value[i], 1))
			vpmu_counter_overflow(vv, i);
	}
}

/* The privilege level is expensive on Intel's CPUs; any will do if no counter depends on it. */
void vpmu_count_emulated(struct vpmu_vcpu *vv, enum vpmu_class class)
{
	int level = vpmu_started(vv) & vv->cpl_filtered ? vpmu_level(vv) : VPMU_KERNEL;

	if (unlikely(vv->hot.slow & VPMU_SLOW_REPEATS) && class == VPMU_INSTRUCTION) {
		vv->hot.slow &= ~VPMU_SLOW_REPEATS;
		vv->hot.emulated--;
		return;
	}
	vpmu_tally_emulated(&vv->tally, class, level);
	if (vv->borrowing)
		count_on_borrowed(vv, class, level);
}

/* The VM entry makes up for what is flushed here, so the entry can't for another note. */
void __vpmu_flush_pending(struct vpmu_vcpu *vv)
{
	u32 pending = vv->hot.pending;

	vv->hot.pending = 0;
	if (vpmu_hw->entry_counts) {
		vv->armed_level = vpmu_level(vv);
		vv->hot.slow |= VPMU_SLOW_ARMED;
	}
	if (pending & BIT(VPMU_INSTRUCTION))
		vpmu_count_emulated(vv, VPMU_INSTRUCTION);
	if (pending & BIT(VPMU_BRANCH))
		vpmu_count_emulated(vv, VPMU_BRANCH);
}

/*
 * Host perf would report an unknown NMI, or an overflow of a counter that isn't its own
 * (amd_pmu_v2_handle_irq()).
 */
void vpmu_counter_expect_nmi(struct vpmu_vcpu *vv, const struct vpmu_counter *c)
{
	if (vpmu_guest_interrupts(&vv->guest, c->index))
		this_cpu_write(vpmu_cpu.late_nmi, jiffies + LATE_NMI);
	if (!(vv->borrowing & BIT(c->index)))
		vpmu_hw->ack(BIT_ULL(c->slot));
}

bool vpmu_counter_sync_overflow(struct vpmu_vcpu *vv, struct vpmu_counter *c, s64 gain,
				bool wrapped)
{
	if (gain < 0) {
		vv->stats.anomalies++;
		irq_work_queue(&anomaly);
	}

	if (vpmu_count_add(&vv->guest.value[c->index], gain)) {
		vpmu_counter_overflow(vv, c->index);
		return false;
	}
	if (wrapped)
		vv->stats.early++;
	return wrapped;
}

bool vpmu_counter_sync(struct vpmu_vcpu *vv, unsigned int i)
{
	return __vpmu_counter_sync(vv, i);
}

/* Does counter @c count an instruction that KVM completes now? */
static bool counts_now(struct vpmu_vcpu *vv, const struct vpmu_counter *c)
{
	return !(vv->cpl_filtered & BIT(c->index)) || (c->count.filter & BIT(vpmu_level(vv)));
}

/*
 * Where VM entries don't count, each instruction that KVM emulates lets the physical counter fall
 * behind.  So that not each of them needs a correction, a counter far from overflow runs ahead by
 * some; the counter then overflows early, and is armed once more.
 *
 * @c is in vpmu_vcpu.exact.  If KVM completes an instruction, one ahead is exact.
 */
unsigned int vpmu_counter_arm_margin(struct vpmu_vcpu *vv, const struct vpmu_counter *c,
				     enum vpmu_arming arming)
{
	u64 left = VPMU_COUNTER_MASK - vv->guest.value[c->index];
	unsigned int margin = 0;

	if (left >= ARM_MARGIN_FROM)
		margin = ARM_MARGIN;
	else if (left && arming != VPMU_ARM_FOR_ENTRY && c->count.class == VPMU_INSTRUCTION &&
		 counts_now(vv, c))
		margin = 1;
	vv->hot.margin = min_t(s64, vv->hot.margin, margin);
	return margin;
}

/* Counter @c is on no physical one, or an open one has its value. */
static void arm_elsewhere(struct vpmu_vcpu *vv, struct vpmu_counter *c)
{
	unsigned int i = c->index;

	if (vv->open & BIT(i))
		vpmu_hw->write(i, vv->guest.value[i]);
	else if (vv->software & BIT(i))
		vpmu_event_note_value(vv, c);
}

void vpmu_counter_arm(struct vpmu_vcpu *vv, unsigned int i, enum vpmu_arming arming)
{
	struct vpmu_counter *c = vpmu_counter(vv, i);
	u64 hw;

	lockdep_assert_irqs_disabled();
	if (c->slot == VPMU_NO_SLOT) {
		arm_elsewhere(vv, c);
		return;
	}
	vpmu_flush_pending(vv);
	hw = vpmu_counter_armed_value(vv, c, VPMU_LEVEL_UNKNOWN, arming);
	static_call(vpmu_hw_write)(c->slot, hw);
}

static noinline void set_elsewhere(struct vpmu_vcpu *vv, struct vpmu_counter *c, u64 value)
{
	__vpmu_counter_sync(vv, c->index);
	vv->guest.value[c->index] = value;
	arm_elsewhere(vv, c);
}

/* A guest's perf does this all the time, so each instruction matters. */
void vpmu_counter_set(struct vpmu_vcpu *vv, unsigned int i, u64 value, enum vpmu_arming arming)
{
	struct vpmu_counter *c = vpmu_counter(vv, i);
	int bias = 0;

	value &= VPMU_COUNTER_MASK;
	if (c->slot == VPMU_NO_SLOT) {
		set_elsewhere(vv, c, value);
		return;
	}
	vpmu_counter_sync_slot(vv, c);
	vv->guest.value[c->index] = value;
	if (vv->exact & BIT(c->index))
		bias = vpmu_counter_bias(vv, c, VPMU_LEVEL_UNKNOWN, arming);
	static_call(vpmu_hw_write)(c->slot, vpmu_count_arm_synced(&c->count, value, bias));
}

void vpmu_counter_update(struct vpmu_vcpu *vv, unsigned int i)
{
	if (vv->open & BIT(i))
		vv->guest.value[i] = vpmu_hw->read(i);
	else if (unlikely(__vpmu_counter_sync(vv, i)))
		vpmu_counter_arm(vv, i, VPMU_ARM_FOR_ENTRY);
}

void vpmu_counter_sync_events(struct vpmu_vcpu *vv, unsigned long mask)
{
	for (; mask; mask &= mask - 1)
		vpmu_counter_sync(vv, __ffs(mask));
}
