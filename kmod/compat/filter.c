// SPDX-License-Identifier: GPL-2.0
/*
 * KVM_SET_PMU_EVENT_FILTER: what the VM's filter allows, as KVM decides it for its own counters.
 * KVM_X86_SET_MSR_FILTER: the same, as KVM says.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/printk.h>
#include <linux/threads.h>
#include <asm/msr-index.h>
#include <asm/perf_event.h>

#include "compat.h"

#ifndef COMPAT_HAVE_MASKED_FILTER

#define pmu_filter	kvm_pmu_event_filter

static bool as_expected(const struct pmu_filter *filter)
{
	return true;
}

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
#ifndef COMPAT_HAVE_PUBLIC_FILTER
struct kvm_x86_pmu_event_filter {
#ifdef COMPAT_TEST_SHIFT
	__u64 shift;
#endif
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

/* As kvm_vm_ioctl_set_pmu_event_filter() leaves each filter; the structure may be KVM's own. */
static bool as_expected(const struct pmu_filter *filter)
{
	if (filter->includes == filter->events &&
	    filter->excludes == filter->events + filter->nr_includes &&
	    filter->nr_includes + filter->nr_excludes == filter->nevents)
		return true;
	pr_err_once("KVM's event filter isn't laid out as expected: VMs with one count nothing\n");
	return false;
}

/* kvm_pmu_ops.EVENTSEL_EVENT: Intel's IN_TX is where AMD's event numbers go on. */
static u64 event_number(u64 select)
{
	return select & (vpmu_compat_on_intel() ? ARCH_PERFMON_EVENTSEL_EVENT :
						  AMD64_EVENTSEL_EVENT);
}

static bool has_event(const u64 *entries, u32 nr, u64 select)
{
	u64 unit_mask = select & ARCH_PERFMON_EVENTSEL_UMASK;
	u32 i;

	for (i = 0; i < nr; i++) {
		u64 mask = entries[i] >> (KVM_PMU_MASKED_ENTRY_UMASK_MASK_SHIFT - 8);
		u64 match = entries[i] & KVM_PMU_MASKED_ENTRY_UMASK_MATCH;

		if (event_number(entries[i]) == event_number(select) &&
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
	if (!as_expected(filter))
		return false;
	listed = has_event(filter->includes, filter->nr_includes, select) &&
		 !has_event(filter->excludes, filter->nr_excludes, select);
	return listed == (filter->action == KVM_PMU_EVENT_ALLOW);
}

#endif

/* is_fixed_event_allowed() of arch/x86/kvm/pmu.c */
static bool fixed_allowed(struct kvm *kvm, unsigned int n)
{
	const struct pmu_filter *filter = srcu_dereference(kvm->arch.pmu_event_filter, &kvm->srcu);

	if (!filter)
		return true;
	return as_expected(filter) && !!(filter->fixed_counter_bitmap & BIT(n)) ==
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

DEFINE_STATIC_CALL_NULL(vpmu_msr_allowed, vpmu_compat_proto_msr_allowed);

static const u32 first_amd[COMPAT_NR_AMD_GROUPS] = {
	[COMPAT_COUNTERS] = MSR_F15H_PERF_CTL,
	[COMPAT_GLOBAL] = MSR_AMD64_PERF_CNTR_GLOBAL_STATUS,
};

static const u32 first_intel[COMPAT_NR_GROUPS] = {
	[COMPAT_COUNTERS] = MSR_IA32_PERFCTR0,
	[COMPAT_GLOBAL] = MSR_CORE_PERF_GLOBAL_STATUS,
	[COMPAT_FIXED] = MSR_CORE_PERF_FIXED_CTR0,
	[COMPAT_FULL_WIDTH] = MSR_IA32_PMC0,
};

u32 vpmu_compat_first_msr(enum compat_group group)
{
	return vpmu_compat_on_intel() ? first_intel[group] : first_amd[group];
}

#define CHANGED	BIT(COMPAT_CHANGED_SHIFT)

static_assert(CHANGED >= PID_MAX_LIMIT);

atomic_long_t vpmu_compat_filters = ATOMIC_LONG_INIT(CHANGED);

/*
 * KVM replaces the filter in between, and then makes the VM's vCPUs exit.  So whoever finds none
 * changing has either the new one, or exits because of it.
 */
void vpmu_compat_filter_changes(void)
{
	atomic_long_inc(&vpmu_compat_filters);
	/* Before KVM's change */
	smp_mb__after_atomic();
}

void vpmu_compat_filter_changed(void)
{
	/* Behind KVM's change */
	smp_mb__before_atomic();
	atomic_long_add(CHANGED - 1, &vpmu_compat_filters);
}

u32 vpmu_compat_counters;
static u32 first_global;

static u32 denied(struct kvm_vcpu *vcpu, u32 msr)
{
	u32 bits = 0;
	int i;

	for (i = 0; i < COMPAT_GROUP; i++) {
		if (!static_call(vpmu_msr_allowed)(vcpu, msr + i, KVM_MSR_FILTER_READ))
			bits |= COMPAT_PERMIT_READ(i);
		if (!static_call(vpmu_msr_allowed)(vcpu, msr + i, KVM_MSR_FILTER_WRITE))
			bits |= COMPAT_PERMIT_WRITE(i);
	}
	return bits;
}

bool vpmu_compat_read_filter(struct kvm_vcpu *vcpu, struct compat_filter *filter)
{
	unsigned int groups = vpmu_compat_on_intel() ? COMPAT_NR_GROUPS : COMPAT_NR_AMD_GROUPS;
	unsigned long now = atomic_long_read_acquire(&vpmu_compat_filters);
	enum compat_group group;

	if (now & (CHANGED - 1))
		return false;
	for (group = 0; group < groups; group++)
		filter->denied[group] = denied(vcpu, vpmu_compat_first_msr(group));
	filter->generation = now;
	return true;
}

static __always_inline bool msr_allowed(struct kvm_vcpu *vcpu, struct compat_filter *filter,
					u32 msr, bool write, const u32 *first, unsigned int groups)
{
	enum compat_group group;

	for (group = 0; group < groups; group++) {
		u32 n = msr - first[group];

		if (n < COMPAT_GROUP && vpmu_compat_filter_current(vcpu, filter))
			return vpmu_compat_filter_allows(filter, group, n, write);
	}
	return static_call(vpmu_msr_allowed)(vcpu, msr, write ? KVM_MSR_FILTER_WRITE :
								 KVM_MSR_FILTER_READ);
}

static noinline bool any_msr_allowed(struct kvm_vcpu *vcpu, struct compat_filter *filter, u32 msr,
				     bool write)
{
	/* Apart, so that compilers know the numbers */
	return vpmu_compat_on_intel() ?
		msr_allowed(vcpu, filter, msr, write, first_intel, COMPAT_NR_GROUPS) :
		msr_allowed(vcpu, filter, msr, write, first_amd, COMPAT_NR_AMD_GROUPS);
}

bool __vpmu_compat_msr_allowed(struct kvm_vcpu *vcpu, struct compat_filter *filter, u32 msr,
			       bool write)
{
	u32 n = msr - first_global;

	/* A guest's perf writes global control most of these. */
	if (likely(n < COMPAT_GROUP && vpmu_compat_filter_known(filter)))
		return vpmu_compat_filter_allows(filter, COMPAT_GLOBAL, n, write);
	return any_msr_allowed(vcpu, filter, msr, write);
}

int vpmu_compat_filter_init(void)
{
	unsigned long allowed = vpmu_compat_require("kvm_msr_allowed");

	if (!allowed)
		return -ENOENT;
	static_call_update(vpmu_msr_allowed, (void *)allowed);
	vpmu_compat_counters = vpmu_compat_first_msr(COMPAT_COUNTERS);
	first_global = vpmu_compat_first_msr(COMPAT_GLOBAL);
	return 0;
}
