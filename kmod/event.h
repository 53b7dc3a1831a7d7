/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest counters of the hypervisor's events (KVM_VPMU_EVENT_... of uapi).  Interrupts are off for
 * all of this, and the vCPU is loaded on this CPU.
 */
#ifndef VPMU_EVENT_H
#define VPMU_EVENT_H

#include "vpmu.h"

/*
 * Start counter @c, which counts such an event (vpmu_counter.event).
 * @level: the guest's privilege level
 */
void vpmu_event_start(struct vpmu_vcpu *vv, struct vpmu_counter *c, int level);

/* The counter, which is up to date, counts no more. */
void vpmu_event_stop(struct vpmu_vcpu *vv, const struct vpmu_counter *c);

/*
 * Bring the guest's value of @c up to date.
 *
 * Return: whether the counter overflowed.
 */
bool vpmu_event_sync(struct vpmu_vcpu *vv, struct vpmu_counter *c);

/* Do the vCPU's counters need anything of this, or somebody who observes the VM? */
static __always_inline bool vpmu_event_active(const struct vpmu_vcpu *vv)
{
	return vv->software | vv->event.timing;
}

/* The same: the vCPU was loaded, or is about to be put. */
void vpmu_event_load(struct vpmu_vcpu *vv);
void vpmu_event_put(struct vpmu_vcpu *vv);

/* The host's TSC ticks in KVM until the TSC is @now, which is outside guest mode */
u64 vpmu_event_kvm_ticks(const struct vpmu_vcpu *vv, u64 now);

/* What was the VM observed for (vpmu_vm.observed) when the vCPU last looked? */
static __always_inline enum vpmu_observed vpmu_event_observed(const struct vpmu_vcpu *vv)
{
	if (likely(!(vv->event.timing & VPMU_OBSERVER)))
		return VPMU_UNOBSERVED;
	return vv->event.by_cause & VPMU_OBSERVER ? VPMU_OBSERVE_EVENTS : VPMU_OBSERVE_TIME;
}

/* The VM is observed for @what from now on. */
void vpmu_event_observe(struct vpmu_vcpu *vv, enum vpmu_observed what);

/*
 * The number of @event (KVM_VPMU_EVENT_..., a unit mask), as in struct kvm_vpmu_events: on the
 * vCPU's CPU, or while the vCPU isn't loaded.
 */
u64 vpmu_event_figure(struct vpmu_vcpu *vv, int event);

/* @c is up to date, and the guest's value has changed: when is the overflow near? */
void vpmu_event_note_value(struct vpmu_vcpu *vv, const struct vpmu_counter *c);

/*
 * Before counters in vpmu_events.interrupting are synchronized after a VM exit: should the guest
 * get an interrupt first?  KVM opens an interrupt window, which is a VM exit, if there is an
 * interrupt for the guest beside an NMI.  If that exit caused the next NMI, and so on, the
 * interrupt would never be injected.  The next VM exit finds the overflow.
 */
static inline bool vpmu_event_irq_first(const struct vpmu_vcpu *vv)
{
	return vv->hot.vcpu->stat.irq_window_exits != vv->event.windows;
}

/* In front of a VM entry, with counters in vpmu_events.timing */
static __always_inline void vpmu_event_enter_guest(struct vpmu_vcpu *vv)
{
	vv->event.kvm_ticks += rdtsc() - vv->event.kvm_since;
}

/* Behind a VM exit: first of all, with counters in vpmu_events.timing; the same, .by_cause */
static __always_inline void vpmu_event_leave_guest(struct vpmu_vcpu *vv)
{
	vv->event.kvm_since = rdtsc();
}

void vpmu_event_count_cause(struct vpmu_vcpu *vv);

/*
 * In front of a VM entry: may a counter in vpmu_events.interrupting overflow until the next one?
 * Each VM exit pays for that.
 */
static __always_inline bool vpmu_event_near(const struct vpmu_vcpu *vv)
{
	const struct vpmu_events *e = &vv->event;
	unsigned long mask;

	for (mask = e->interrupting; mask; mask &= mask - 1) {
		unsigned int i = __ffs(mask);

		if (*e->source[i] >= e->near[i])
			return true;
	}
	return false;
}

#endif
