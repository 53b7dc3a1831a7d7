// SPDX-License-Identifier: GPL-2.0
/* KVM_SET_PMU_EVENT_FILTER: what the VM's filter allows, as KVM decides it for its own counters. */
#include <linux/bits.h>
#include <asm/perf_event.h>

#include "compat.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)

#define pmu_filter	kvm_pmu_event_filter

/* check_pmu_event_filter() of arch/x86/kvm/pmu.c */
static bool event_allowed(struct kvm *kvm, u64 select)
{
	const struct pmu_filter *filter =
		srcu_dereference(kvm->arch.pmu_event_filter, &kvm->srcu);
	bool listed = false;
	u32 i;

	if (!filter)
		return true;
	for (i = 0; i < filter->nevents && !listed; i++)
		listed = filter->events[i] == (select & AMD64_RAW_EVENT_MASK_NB);
	return listed == (filter->action == KVM_PMU_EVENT_ALLOW);
}

#else

#define pmu_filter	kvm_x86_pmu_event_filter

/* Linux 7.3 has moved this from asm/kvm_host.h to arch/x86/kvm/pmu.c. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)
struct kvm_x86_pmu_event_filter {
	__u32 action;
	__u32 nevents;
	__u32 fixed_counter_bitmap;
	__u32 flags;
	__u32 nr_includes;
	__u32 nr_excludes;
	__u64 *includes;
	__u64 *excludes;
	__u64 events[];
};
#endif

static bool has_event(const u64 *entries, u32 nr, u64 select)
{
	u64 unit_mask = select & ARCH_PERFMON_EVENTSEL_UMASK;
	u32 i;

	for (i = 0; i < nr; i++) {
		u64 mask = entries[i] >> (KVM_PMU_MASKED_ENTRY_UMASK_MASK_SHIFT - 8);
		u64 match = entries[i] & KVM_PMU_MASKED_ENTRY_UMASK_MATCH;

		if (!((entries[i] ^ select) & AMD64_EVENTSEL_EVENT) &&
		    (unit_mask & mask) == match)
			return true;
	}
	return false;
}

/* is_gp_event_allowed() of arch/x86/kvm/pmu.c; KVM has made all entries masked ones. */
static bool event_allowed(struct kvm *kvm, u64 select)
{
	const struct pmu_filter *filter =
		srcu_dereference(kvm->arch.pmu_event_filter, &kvm->srcu);
	bool listed;

	if (!filter)
		return true;
	listed = has_event(filter->includes, filter->nr_includes, select) &&
		 !has_event(filter->excludes, filter->nr_excludes, select);
	return listed == (filter->action == KVM_PMU_EVENT_ALLOW);
}

#endif

/* is_fixed_event_allowed() of arch/x86/kvm/pmu.c */
static bool fixed_allowed(struct kvm *kvm, unsigned int n)
{
	const struct pmu_filter *filter = srcu_dereference(kvm->arch.pmu_event_filter, &kvm->srcu);

	return !filter || !!(filter->fixed_counter_bitmap & BIT(n)) ==
			  (filter->action == KVM_PMU_EVENT_ALLOW);
}

bool vpmu_compat_event_allowed(struct kvm_vcpu *vcpu, u64 select)
{
	struct kvm *kvm = vcpu->kvm;
	int idx = srcu_read_lock(&kvm->srcu);
	bool allowed = event_allowed(kvm, select);

	srcu_read_unlock(&kvm->srcu, idx);
	return allowed;
}

bool vpmu_compat_fixed_allowed(struct kvm_vcpu *vcpu, unsigned int n)
{
	struct kvm *kvm = vcpu->kvm;
	int idx = srcu_read_lock(&kvm->srcu);
	bool allowed = fixed_allowed(kvm, n);

	srcu_read_unlock(&kvm->srcu, idx);
	return allowed;
}
