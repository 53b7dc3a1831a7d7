// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of the hypervisor's events.  They need no physical counter: KVM counts most of these
 * events for its own statistics, all the time, and a counter is the difference of two of these
 * figures.  So counting costs nothing until somebody looks.  Exceptions, which cost something at
 * each VM entry or exit: the overflow of a counter that interrupts, the privilege level of one that
 * counts in one only, exit reasons without a statistic, and time in KVM.
 *
 * Where an overflow is near, a VM entry makes the request that lets KVM call vpmu_pmi_handle() when
 * it has handled the coming VM exit.  The interrupt is injected then, at the instruction behind the
 * one that caused the event.
 */
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/topology.h>
#include <asm/msr.h>
#include <asm/tsc.h>
#include <uapi/linux/kvm_vpmu.h>

#include "event.h"

/* The most events of a kind that KVM adds to its statistics between two VM entries, generously */
#define MOST_AT_A_TIME	64

/* Ticks of the guest's TSC */
static u64 ns_to_ticks(const struct kvm_vcpu *vcpu, u64 ns)
{
	return mul_u64_u32_div(ns, vcpu->arch.virtual_tsc_khz, NSEC_PER_MSEC);
}

static u64 ticks_to_guest(const struct kvm_vcpu *vcpu, u64 ticks)
{
	if (vcpu->arch.virtual_tsc_khz == tsc_khz)
		return ticks;
	return mul_u64_u32_div(ticks, vcpu->arch.virtual_tsc_khz, tsc_khz);
}

/*
 * As KVM's record_steal_time() has it.  An ioctl of another thread neither adds to that nor takes
 * the place of the thread that runs the vCPU.
 */
static u64 steal(struct vpmu_events *e)
{
	if (e->thread == current->start_time) {
		e->steal += current->sched_info.run_delay - e->delay;
		e->delay = current->sched_info.run_delay;
	}
	return e->steal;
}

/* The source of times, of which any may have passed until the next look */
static const u64 far_away = U64_MAX;

/* Where the number of events is that the vCPU has had so far */
static const u64 *source(const struct vpmu_vcpu *vv, int event)
{
	const struct kvm_vcpu_stat *stat = &vv->hot.vcpu->stat;
	const struct vpmu_events *e = &vv->event;
	static const u64 none;

	switch (event) {
	case KVM_VPMU_EVENT_EXITS:
		return &stat->exits;
	case KVM_VPMU_EVENT_EXITS_IO:
		return &stat->io_exits;
	case KVM_VPMU_EVENT_EXITS_MMIO:
		return &stat->mmio_exits;
	case KVM_VPMU_EVENT_EXITS_HALT:
		return &stat->halt_exits;
	case KVM_VPMU_EVENT_EXITS_IRQ:
		return &stat->irq_exits;
	case KVM_VPMU_EVENT_EXITS_IRQ_WINDOW:
		return &stat->irq_window_exits;
	case KVM_VPMU_EVENT_EXITS_NMI_WINDOW:
		return &stat->nmi_window_exits;
	case KVM_VPMU_EVENT_EXITS_SIGNAL:
		return &stat->signal_exits;
	case KVM_VPMU_EVENT_EXITS_MSR:
		return &e->causes[COMPAT_EXIT_MSR];
	case KVM_VPMU_EVENT_EXITS_CPUID:
		return &e->causes[COMPAT_EXIT_CPUID];
	case KVM_VPMU_EVENT_EXITS_NMI:
		return &e->causes[COMPAT_EXIT_NMI];
	case KVM_VPMU_EVENT_EXITS_PAUSE:
		return &e->causes[COMPAT_EXIT_PAUSE];
	case KVM_VPMU_EVENT_EXITS_USER:
		return &e->returns;
	case KVM_VPMU_EVENT_HYPERCALLS:
		return &stat->hypercalls;
	case KVM_VPMU_EVENT_NESTED_ENTRIES:
		return &stat->nested_run;
	case KVM_VPMU_EVENT_FAULTS:
		return &stat->pf_taken;
	case KVM_VPMU_EVENT_FAULTS_FIXED:
		return &stat->pf_fixed;
	case KVM_VPMU_EVENT_FAULTS_FAST:
		return &stat->pf_fast;
	case KVM_VPMU_EVENT_FAULTS_SPURIOUS:
		return &stat->pf_spurious;
	case KVM_VPMU_EVENT_EMULATED:
		return &stat->insn_emulation;
	case KVM_VPMU_EVENT_IRQS:
		return &stat->irq_injections;
	case KVM_VPMU_EVENT_NMIS:
		return &stat->nmi_injections;
	case KVM_VPMU_EVENT_TLB_FLUSHES:
		return &stat->tlb_flush;
	case KVM_VPMU_EVENT_MOVES:
		return &e->moves;
	case KVM_VPMU_EVENT_NODE_MOVES:
		return &e->node_moves;
	case KVM_VPMU_EVENT_TICKS_KVM:
	case KVM_VPMU_EVENT_TICKS_STEAL:
	case KVM_VPMU_EVENT_TICKS_HALTED:
		return &far_away;
	default:
		return &none;
	}
}

u64 vpmu_event_kvm_ticks(const struct vpmu_vcpu *vv, u64 now)
{
	const struct vpmu_events *e = &vv->event;

	return e->kvm_ticks + (vv->loaded && e->timing ? now - e->kvm_since : 0);
}

/* The vCPU's time so far of a kind */
static u64 ticks(struct vpmu_vcpu *vv, int event)
{
	const struct kvm_vcpu *vcpu = vv->hot.vcpu;
	const struct kvm_vcpu_stat_generic *stat = &vcpu->stat.generic;
	struct vpmu_events *e = &vv->event;

	switch (event) {
	case KVM_VPMU_EVENT_TICKS_KVM:
		return ticks_to_guest(vcpu, vpmu_event_kvm_ticks(vv, rdtsc()));
	case KVM_VPMU_EVENT_TICKS_STEAL:
		return ns_to_ticks(vcpu, steal(e));
	case KVM_VPMU_EVENT_TICKS_HALTED:
		return ns_to_ticks(vcpu, stat->halt_wait_ns + stat->halt_poll_success_ns +
				   stat->halt_poll_fail_ns);
	default:
		return 0;
	}
}

static bool is_time(int event)
{
	return event >= KVM_VPMU_EVENT_TICKS_KVM;
}

u64 vpmu_event_figure(struct vpmu_vcpu *vv, int event)
{
	return is_time(event) ? ticks(vv, event) : *source(vv, event);
}

/* The same of counter @c's event, which has been started */
static u64 figure(struct vpmu_vcpu *vv, const struct vpmu_counter *c)
{
	return is_time(c->event) ? ticks(vv, c->event) : *vv->event.source[c->index];
}

static bool counts_twice(const struct vpmu_vcpu *vv, const struct vpmu_counter *c)
{
	return vv->event.twice & BIT(c->index);
}

void vpmu_event_note_value(struct vpmu_vcpu *vv, const struct vpmu_counter *c)
{
	u64 far = (VPMU_COUNTER_MASK - vv->guest.value[c->index]) >> counts_twice(vv, c);

	vv->event.near[c->index] = c->count.hw + (far > MOST_AT_A_TIME ? far - MOST_AT_A_TIME : 0);
}

static bool is_cause(int event)
{
	return event >= KVM_VPMU_EVENT_EXITS_MSR && event <= KVM_VPMU_EVENT_EXITS_PAUSE;
}

/* The vCPU runs on this CPU now, in this thread. */
static void settle(struct vpmu_events *e)
{
	e->cpu = smp_processor_id();
	if (e->thread == current->start_time)
		return;
	e->thread = current->start_time;
	e->delay = current->sched_info.run_delay;
}

/*
 * The first counter is started, or the VM is observed.  Where the vCPU has run before, and how long
 * it waited, is past.
 */
static void begin(struct vpmu_vcpu *vv)
{
	struct vpmu_events *e = &vv->event;

	if (vv->running) {
		settle(e);
	} else {
		e->cpu = -1;
		e->thread = 0;
	}
}

static void note_exits(struct vpmu_events *e)
{
	e->exits = e->by_level | e->by_cause;
}

void vpmu_event_start(struct vpmu_vcpu *vv, struct vpmu_counter *c, int level)
{
	struct vpmu_events *e = &vv->event;
	unsigned long bit = BIT(c->index);

	lockdep_assert_irqs_disabled();
	if (!vpmu_event_active(vv))
		begin(vv);
	if (!e->by_level)
		e->level = level;
	if (!e->timing)
		e->kvm_since = rdtsc();
	__assign_bit(c->index, &e->twice, vpmu_guest_event_twice(&vv->guest, c->index));
	if (vpmu_guest_interrupts(&vv->guest, c->index))
		e->interrupting |= bit;
	if (c->count.filter != (VPMU_IN_KERNEL | VPMU_IN_USER))
		e->by_level |= bit;
	if (is_cause(c->event))
		e->by_cause |= bit;
	if (c->event == KVM_VPMU_EVENT_TICKS_KVM)
		e->timing |= bit;
	vv->software |= bit;
	note_exits(e);
	e->source[c->index] = source(vv, c->event);
	c->count.hw = figure(vv, c);
	vpmu_event_note_value(vv, c);
}

void vpmu_event_stop(struct vpmu_vcpu *vv, const struct vpmu_counter *c)
{
	struct vpmu_events *e = &vv->event;
	unsigned long bit = BIT(c->index);

	vv->software &= ~bit;
	e->interrupting &= ~bit;
	e->by_level &= ~bit;
	e->by_cause &= ~bit;
	e->timing &= ~bit;
	note_exits(e);
}

void vpmu_event_observe(struct vpmu_vcpu *vv, enum vpmu_observed what)
{
	struct vpmu_events *e = &vv->event;

	lockdep_assert_irqs_disabled();
	if (what) {
		if (!vpmu_event_active(vv))
			begin(vv);
		if (!e->timing)
			e->kvm_since = rdtsc();
		e->timing |= VPMU_OBSERVER;
	} else {
		e->timing &= ~VPMU_OBSERVER;
	}
	if (what == VPMU_OBSERVE_EVENTS)
		e->by_cause |= VPMU_OBSERVER;
	else
		e->by_cause &= ~VPMU_OBSERVER;
	note_exits(e);
}

bool vpmu_event_sync(struct vpmu_vcpu *vv, struct vpmu_counter *c)
{
	u64 now = figure(vv, c);
	s64 gain = now - c->count.hw;
	bool overflowed;

	lockdep_assert_irqs_disabled();
	c->count.hw = now;
	if ((vv->event.by_level & BIT(c->index)) && !(c->count.filter & BIT(vv->event.level)))
		gain = 0;
	gain <<= counts_twice(vv, c);
	overflowed = vpmu_count_add(&vv->guest.value[c->index], gain);
	vpmu_event_note_value(vv, c);
	return overflowed;
}

void vpmu_event_load(struct vpmu_vcpu *vv)
{
	struct vpmu_events *e = &vv->event;
	int cpu = smp_processor_id();
	unsigned long mask;
	u64 now = rdtsc();

	for (mask = vv->software; mask; mask &= mask - 1)
		vv->counter[__ffs(mask)].since = now;
	e->kvm_since = now;
	if (!vv->running)
		return;
	if (e->cpu >= 0 && e->cpu != cpu) {
		e->moves++;
		e->node_moves += cpu_to_node(e->cpu) != cpu_to_node(cpu);
	}
	settle(e);
}

void vpmu_event_put(struct vpmu_vcpu *vv)
{
	struct vpmu_events *e = &vv->event;
	unsigned long mask;
	u64 now = rdtsc();

	for (mask = vv->software; mask; mask &= mask - 1) {
		struct vpmu_counter *c = &vv->counter[__ffs(mask)];

		c->enabled += now - c->since;
		c->running += now - c->since;
	}
	if (e->timing)
		e->kvm_ticks += now - e->kvm_since;
	e->kvm_since = now;
}

void vpmu_event_count_cause(struct vpmu_vcpu *vv)
{
	vv->event.causes[vpmu_compat_exit_cause(vv->hot.vcpu)]++;
}
