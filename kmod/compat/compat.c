// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/utsname.h>
#include <asm/perf_event.h>
#include <asm/tsc.h>
#include <asm/vmx.h>

#include "compat.h"
#include "cpu.h"

/* IA32_PERF_CAPABILITIES: SDM vol. 3, "Full-Width Writes to Performance Counter Registers" */
#define PERF_CAP_FULL_WIDTH	BIT_ULL(13)

/* So that a test can see what happens on a kernel that nobody has looked at. */
#ifndef COMPAT_KERNEL
#define COMPAT_KERNEL	LINUX_VERSION_CODE
#endif

DEFINE_STATIC_CALL_NULL(vpmu_compat_get_cpl, vpmu_compat_proto_get_cpl);
DEFINE_STATIC_CALL_NULL(vpmu_module_address, vpmu_compat_proto_module_address);
DEFINE_STATIC_CALL_NULL(vpmu_lookup_name, vpmu_compat_proto_kallsyms);
DEFINE_STATIC_CALL_NULL(vpmu_get_capability, perf_get_x86_pmu_capability);

DEFINE_STATIC_CALL_NULL(vpmu_perf_guest_get_msrs, vpmu_compat_proto_guest_get_msrs);
DEFINE_STATIC_CALL_NULL(vpmu_lapic_init, vpmu_compat_proto_lapic_init);

DEFINE_STATIC_CALL_NULL(vpmu_deliver_pmi, vpmu_compat_proto_init);
DEFINE_STATIC_CALL_NULL(vpmu_file_is_vm, vpmu_compat_proto_file_is_kvm);

static struct module *vendor_module;

/* The beginning of struct cpu_hw_events in arch/x86/events/perf_event.h */
struct host_events {
	struct perf_event *by_slot[X86_PMC_IDX_MAX];
	unsigned long active[BITS_TO_LONGS(X86_PMC_IDX_MAX)];
	unsigned long dirty[BITS_TO_LONGS(X86_PMC_IDX_MAX)];
};

static struct host_events __percpu *host_events;
static size_t intel_masks;	/* where in cpu_hw_events */

unsigned long vpmu_compat_resolve(const char *symbol)
{
	/* Disabled: nothing is patched, we only want the address. */
	struct kprobe probe = { .symbol_name = symbol, .flags = KPROBE_FLAG_DISABLED };
	unsigned long address;

	if (register_kprobe(&probe))
		return 0;
	address = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	return address;
}

static unsigned long require_symbol(const char *symbol)
{
	unsigned long address = vpmu_compat_resolve(symbol);

	if (!address)
		pr_err("%s not found in this kernel (is %s loaded?)\n", symbol,
		       vpmu_compat_kvm_module());
	return address;
}

static bool version_known(void)
{
	switch (COMPAT_KERNEL >> 8) {
	case KERNEL_VERSION(6, 1, 0) >> 8:
	case KERNEL_VERSION(6, 12, 0) >> 8:
	case KERNEL_VERSION(7, 2, 0) >> 8:
	case KERNEL_VERSION(7, 3, 0) >> 8:
		return true;
	default:
		return false;
	}
}

/* KVM's own way to give guests physical counters, from 7.0 on; then all of them are taken. */
static bool mediated_pmu_enabled(void)
{
	const bool *on = (const bool *)static_call(vpmu_lookup_name)("kvm:enable_mediated_pmu");

	return on && *on;
}

/*
 * The vendor module must not be replaced by another load of it, whose
 * functions would not be hooked.  It holds kvm itself.
 */
static int pin_vendor_module(unsigned long address)
{
	preempt_disable();
	vendor_module = static_call(vpmu_module_address)(address);
	if (vendor_module && !try_module_get(vendor_module))
		vendor_module = NULL;
	preempt_enable();
	if (!vendor_module) {
		pr_err("%s is being unloaded or is built in\n", vpmu_compat_kvm_module());
		return -ENOENT;
	}
	return 0;
}

#ifdef COMPAT_NMI_WAITS

DEFINE_STATIC_CALL_NULL(vpmu_process_nmi, vpmu_compat_proto_init);

static int find_process_nmi(void)
{
	unsigned long address = require_symbol("process_nmi");

	if (!address)
		return -ENOENT;
	static_call_update(vpmu_process_nmi, (void *)address);
	return 0;
}

void vpmu_compat_process_nmi(struct kvm_vcpu *vcpu)
{
	if (kvm_check_request(KVM_REQ_NMI, vcpu))
		static_call(vpmu_process_nmi)(vcpu);
}

#else

static int find_process_nmi(void)
{
	return 0;
}

#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)

DEFINE_STATIC_CALL_NULL(vpmu_vmx_exit_info, vpmu_compat_proto_exit_info);

static int find_exit_info(void)
{
	unsigned long address = require_symbol("vmx_get_exit_info");

	if (!address)
		return -ENOENT;
	static_call_update(vpmu_vmx_exit_info, (void *)address);
	return 0;
}

/* is_nmi() of arch/x86/kvm/vmx/vmcs.h */
bool vpmu_compat_nmi_exit(struct kvm_vcpu *vcpu)
{
	u32 reason, intr_info, error_code;
	u64 info1, info2;

	if (!vpmu_compat_on_intel())
		return false;
	static_call(vpmu_vmx_exit_info)(vcpu, &reason, &info1, &info2, &intr_info, &error_code);
	return reason == EXIT_REASON_EXCEPTION_NMI &&
	       (intr_info & (INTR_INFO_VALID_MASK | INTR_INFO_INTR_TYPE_MASK)) ==
	       (INTR_INFO_VALID_MASK | INTR_TYPE_NMI_INTR);
}

#else

static int find_exit_info(void)
{
	return 0;
}

#endif

/*
 * On Intel's CPUs: two functions of host perf, and what of cpu_hw_events says which counters
 * count in guest mode only (intel_guest_get_msrs() in arch/x86/events/intel/core.c).  The
 * latter's array comes right behind the two masks; that they are these is tried out.
 */
static int find_intel(void)
{
	unsigned long get = require_symbol("perf_guest_get_msrs");
	unsigned long lapic = require_symbol("perf_events_lapic_init");
	struct perf_guest_switch_msr *msrs;
	unsigned long flags;
	u64 *guest_only, control, before = 0, after = 0;
	int nr = 0;

	if (!get || !lapic)
		return -ENOENT;
	static_call_update(vpmu_perf_guest_get_msrs, (void *)get);
	static_call_update(vpmu_lapic_init, (void *)lapic);
	if (!host_events || find_exit_info())
		return -ENOENT;

	local_irq_save(flags);
	msrs = static_call(vpmu_perf_guest_get_msrs)(&nr, NULL);
	if (msrs && nr && msrs->msr == MSR_CORE_PERF_GLOBAL_CTRL) {
		guest_only = (u64 *)msrs - 2;
		intel_masks = (char *)guest_only - (char *)this_cpu_ptr(host_events);
		before = msrs->host;
		control = vpmu_compat_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL);
		*guest_only ^= BIT_ULL(0);
		static_call(vpmu_perf_guest_get_msrs)(&nr, NULL);
		after = msrs->host;
		*guest_only ^= BIT_ULL(0);
		/* The handler of an NMI in between wrote what it found. */
		if (vpmu_compat_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL) != control)
			vpmu_compat_wrmsr(MSR_CORE_PERF_GLOBAL_CTRL, control);
	}
	local_irq_restore(flags);
	if ((before ^ after) != BIT_ULL(0)) {
		pr_err("host perf of this kernel doesn't tell which counters count in guests only\n");
		return -ENOENT;
	}
	return 0;
}

/*
 * KVM clears PEBS_ENABLE itself before each VM entry that switches it
 * (add_atomic_switch_msr()).
 */
bool vpmu_compat_msr_list_constant(const struct perf_guest_switch_msr *msrs, int nr)
{
	int i;

	if (!msrs)
		return false;
	for (i = 0; i < nr; i++)
		if (msrs[i].msr == MSR_IA32_PEBS_ENABLE && msrs[i].host != msrs[i].guest)
			return false;
	return true;
}

unsigned long *vpmu_compat_only_in_guest(void)
{
	return (unsigned long *)((char *)this_cpu_ptr(host_events) + intel_masks);
}

unsigned long *vpmu_compat_only_in_host(void)
{
	return vpmu_compat_only_in_guest() + 1;
}

void vpmu_compat_enable_pmi(void)
{
	static_call(vpmu_lapic_init)();
}

int vpmu_compat_init(void)
{
	unsigned long cpl, address, lookup, is_kvm, deliver;

	if (!version_known()) {
		pr_err("kernel %s is not supported, only 6.1, 6.12, 7.2 and 7.3 are\n",
		       init_utsname()->release);
		return -EOPNOTSUPP;
	}

	cpl = require_symbol(vpmu_compat_on_intel() ? "vmx_get_cpl" : "svm_get_cpl");
	if (!cpl)
		return -ENOENT;
	address = require_symbol("__module_address");
	if (!address)
		return -ENOENT;
	lookup = require_symbol("kallsyms_lookup_name");
	if (!lookup)
		return -ENOENT;
	is_kvm = require_symbol("file_is_kvm");
	if (!is_kvm)
		return -ENOENT;
	deliver = require_symbol("kvm_pmu_deliver_pmi");
	if (!deliver)
		return -ENOENT;
	if (find_process_nmi())
		return -ENOENT;
	static_call_update(vpmu_deliver_pmi, (void *)deliver);
	static_call_update(vpmu_compat_get_cpl, (void *)cpl);
	static_call_update(vpmu_file_is_vm, (void *)is_kvm);
	static_call_update(vpmu_module_address, (void *)address);
	static_call_update(vpmu_lookup_name, (void *)lookup);

	host_events = (struct host_events __percpu *)static_call(vpmu_lookup_name)("cpu_hw_events");
	if (!host_events)
		pr_info("cpu_hw_events not found: host events won't tell when they lend a counter\n");
	if (vpmu_compat_on_intel() && find_intel())
		return -ENOENT;

	if (mediated_pmu_enabled()) {
		pr_err("KVM's own mediated vPMU is on; load %s with enable_mediated_pmu=0 to use this one\n",
		       vpmu_compat_kvm_module());
		return -EBUSY;
	}
	return pin_vendor_module(cpl);
}

void vpmu_compat_exit(void)
{
	module_put(vendor_module);
}

struct compat_counters vpmu_compat_perf_counters(void)
{
	/* Exported, but from 6.18 on to KVM's modules only. */
	unsigned long address = vpmu_compat_resolve("perf_get_x86_pmu_capability");
	struct x86_pmu_capability cap = { };

	if (address) {
		static_call_update(vpmu_get_capability, (void *)address);
		static_call(vpmu_get_capability)(&cap);
	}
	return (struct compat_counters){
		.general = cap.num_counters_gp,
		.fixed = cap.num_counters_fixed,
		.bits = cap.bit_width_gp,
	};
}

static struct kvm_cpuid_entry2 *find_cpuid(struct kvm_vcpu *vcpu, u32 function)
{
	int i;

	for (i = 0; i < vcpu->arch.cpuid_nent; i++)
		if (vcpu->arch.cpuid_entries[i].function == function)
			return &vcpu->arch.cpuid_entries[i];
	return NULL;
}

/* CPUID bits: AMD APM vol. 3, appendix E, functions 8000_0001h and 8000_0022h. */
static struct guest_config amd_config(struct kvm_vcpu *vcpu)
{
	const struct kvm_cpuid_entry2 *entry;

	entry = find_cpuid(vcpu, 0x80000022);
	if (entry && (entry->eax & BIT(0)))
		return (struct guest_config){
			.set = entry->ebx & 0xf ? GUEST_AMD_V2 : GUEST_NONE,
			.general = entry->ebx & 0xf,
		};
	entry = find_cpuid(vcpu, 0x80000001);
	if (entry && (entry->ecx & BIT(23)))
		return (struct guest_config){ .set = GUEST_AMD_CORE, .general = 6 };
	return (struct guest_config){ .set = GUEST_AMD_LEGACY, .general = 4 };
}

static unsigned int intel_version;
module_param(intel_version, uint, 0444);
MODULE_PARM_DESC(intel_version,
		 "Version of Intel's architectural PMU that guests see, 2 to 5 (default: as their CPUID has it, which is 2 with KVM)");

/* CPUID bits: SDM vol. 2, "CPUID", leaves 01H and 0AH */
#define VERSION		GENMASK(7, 0)
#define FIXED_COUNTERS	GENMASK(4, 0)
#define NO_ANY_THREAD	BIT(15)

static bool other_version(void)
{
	return intel_version >= 2 && intel_version <= 5;
}

/* Let @vcpu's leaf 0AH say the version that the parameter asks for, where it has said another. */
void vpmu_compat_show_version(struct kvm_vcpu *vcpu, struct compat_leaf *own)
{
	struct kvm_cpuid_entry2 *entry = find_cpuid(vcpu, 0xa);

	if (!other_version() || own->eax || !entry || !(entry->eax & VERSION))
		return;
	*own = (struct compat_leaf){ .eax = entry->eax, .ecx = entry->ecx, .edx = entry->edx };
	entry->eax = (entry->eax & ~VERSION) | intel_version;
	/* From version 5 on there is a mask of fixed counters, too. */
	entry->ecx = intel_version >= 5 ? BIT(entry->edx & FIXED_COUNTERS) - 1 : 0;
	if (intel_version >= 5)
		entry->edx |= NO_ANY_THREAD;
}

void vpmu_compat_hide_version(struct kvm_vcpu *vcpu, struct compat_leaf *own)
{
	struct kvm_cpuid_entry2 *entry = find_cpuid(vcpu, 0xa);

	if (own->eax && entry) {
		entry->eax = own->eax;
		entry->ecx = own->ecx;
		entry->edx = own->edx;
	}
	own->eax = 0;
}

void vpmu_compat_limit_capabilities(struct kvm_vcpu *vcpu)
{
	if (vpmu_compat_on_intel())
		vcpu->arch.perf_capabilities &= PERF_CAP_FULL_WIDTH;
}

static struct guest_config intel_config(struct kvm_vcpu *vcpu, struct compat_leaf *own)
{
	struct kvm_cpuid_entry2 *entry = find_cpuid(vcpu, 0xa);
	struct guest_config config = { };

	if (!entry || !(entry->eax & VERSION))
		return config;
	vpmu_compat_show_version(vcpu, own);
	config.set = GUEST_INTEL;
	config.version = entry->eax & VERSION;
	config.general = entry->eax >> 8 & 0xff;
	/* Version 1 has no fixed counters, and no global registers. */
	config.fixed = config.version > 1 ? entry->edx & FIXED_COUNTERS : 0;

	vcpu->arch.ia32_misc_enable_msr |= MSR_IA32_MISC_ENABLE_PEBS_UNAVAIL |
					   MSR_IA32_MISC_ENABLE_BTS_UNAVAIL;
	entry = find_cpuid(vcpu, 1);
	config.full_width = entry && (entry->ecx & BIT(15)) &&
			    (vcpu->arch.perf_capabilities & PERF_CAP_FULL_WIDTH);
	/* HLE and RTM, as intel_pmu_refresh() has it */
	entry = find_cpuid(vcpu, 7);
	config.tsx = entry && (entry->ebx & (BIT(4) | BIT(11))) &&
		     (boot_cpu_has(X86_FEATURE_HLE) || boot_cpu_has(X86_FEATURE_RTM));
	return config;
}

struct guest_config vpmu_compat_guest_config(struct kvm_vcpu *vcpu, struct compat_leaf *own)
{
	/* KVM's own verdict covers its module parameter and KVM_PMU_CAP_DISABLE. */
	if (!vcpu->arch.pmu.version)
		return (struct guest_config){ };
	return vpmu_compat_on_intel() ? intel_config(vcpu, own) : amd_config(vcpu);
}

void vpmu_compat_deliver_pmi(struct kvm_vcpu *vcpu)
{
	static_call(vpmu_deliver_pmi)(vcpu);
}

bool vpmu_compat_file_is_vm(struct file *file)
{
	return static_call(vpmu_file_is_vm)(file);
}

/*
 * The event that runs there.  Linux before 7.0 forgets one that is stopped, later ones keep it in
 * the table until its counter is wanted for another one.
 */
static struct perf_event *host_event(unsigned int slot)
{
	const struct host_events *events;

	if (!host_events)
		return NULL;
	events = this_cpu_ptr(host_events);
	return test_bit(slot, events->active) ? events->by_slot[slot] : NULL;
}

static enum compat_loss event_loss(const struct perf_event *event)
{
	bool host = !event->attr.exclude_host, guest = !event->attr.exclude_guest;

	if (vpmu_compat_on_intel() && event->attr.precise_ip)
		return COMPAT_CANT_LEND;
	if (host == guest)
		return COMPAT_LOSES_BOTH;
	if (guest)
		return COMPAT_LOSES_GUEST;
	/* The counter is lent by the kernel, to the kernel. */
	return event->attr.exclude_kernel ? COMPAT_LOSES_NOTHING : COMPAT_LOSES_HOST;
}

/* PERF_X86_EVENT_PAIR of arch/x86/events/amd/core.c, which modules don't know: PMCx003 */
bool vpmu_compat_host_pair(const struct perf_event *event)
{
	return !vpmu_compat_on_intel() && boot_cpu_data.x86 >= 0x17 &&
	       (event->hw.config & AMD64_EVENTSEL_EVENT) == 0x003;
}

bool vpmu_compat_host_has(unsigned int index)
{
	return host_event(index);
}

unsigned long vpmu_compat_host_losses(enum compat_loss *losses, unsigned int general,
				      unsigned int nr)
{
	unsigned long pairs = 0;
	unsigned int slot;

	for (slot = 0; slot < nr; slot++) {
		const struct perf_event *event;

		event = host_event(slot < general ? slot : INTEL_PMC_IDX_FIXED + slot - general);
		if (event) {
			losses[slot] = event_loss(event);
			if (vpmu_compat_host_pair(event))
				pairs |= BIT(slot);
		} else {
			losses[slot] = slot && (pairs & BIT(slot - 1)) ? losses[slot - 1] :
				       COMPAT_LOSES_NOTHING;
		}
	}
	return pairs;
}

/*
 * perf adds up a running event's time as it goes, so less than nothing may be
 * there for a while.
 */
void vpmu_compat_host_event_paused(unsigned int slot, u64 ticks, u64 in_host)
{
	struct perf_event *event = host_event(slot);

	if (!event)
		return;
	switch (event_loss(event)) {
	case COMPAT_LOSES_NOTHING:
		return;
	case COMPAT_LOSES_HOST:
		ticks = in_host;
		break;
	case COMPAT_LOSES_BOTH:
	case COMPAT_LOSES_GUEST:
	case COMPAT_CANT_LEND:
		break;
	}
	event->total_time_running -= mul_u64_u32_div(ticks, NSEC_PER_MSEC, tsc_khz);
}

/* perf_clear_dirty_counters() comes for all that host events have left. */
void vpmu_compat_host_counter_taken(unsigned int slot)
{
	if (host_events)
		__clear_bit(slot, this_cpu_ptr(host_events)->dirty);
}

bool vpmu_compat_host_counters_left(unsigned long mask)
{
	if (host_events)
		this_cpu_ptr(host_events)->dirty[0] |= mask;
	return host_events;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)

#define pmu_filter	kvm_pmu_event_filter

/* check_pmu_event_filter() of arch/x86/kvm/pmu.c */
static bool filter_allows(struct kvm *kvm, u64 select)
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

int vpmu_compat_direct_enable(struct compat_direct *direct)
{
	return register_ftrace_direct(direct->ip, direct->stub);
}

void vpmu_compat_direct_disable(struct compat_direct *direct)
{
	unregister_ftrace_direct(direct->ip, direct->stub);
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
static bool filter_allows(struct kvm *kvm, u64 select)
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

int vpmu_compat_direct_enable(struct compat_direct *direct)
{
	int err;

	err = ftrace_set_filter_ip(&direct->ops, direct->ip, 0, 1);
	if (err)
		return err;
	err = register_ftrace_direct(&direct->ops, direct->stub);
	if (err)
		ftrace_free_filter(&direct->ops);
	return err;
}

void vpmu_compat_direct_disable(struct compat_direct *direct)
{
	unregister_ftrace_direct(&direct->ops, direct->stub, true);
}

#endif

/* is_fixed_event_allowed() of arch/x86/kvm/pmu.c */
static bool filter_allows_fixed(struct kvm *kvm, unsigned int n)
{
	const struct pmu_filter *filter = srcu_dereference(kvm->arch.pmu_event_filter, &kvm->srcu);

	return !filter || !!(filter->fixed_counter_bitmap & BIT(n)) ==
			  (filter->action == KVM_PMU_EVENT_ALLOW);
}

bool vpmu_compat_event_allowed(struct kvm_vcpu *vcpu, const struct guest_pmu *guest,
			       unsigned int i)
{
	struct kvm *kvm = vcpu->kvm;
	bool allowed;
	int idx;

	if (!vpmu_compat_event_filter(vcpu))
		return true;

	idx = srcu_read_lock(&kvm->srcu);
	if (i < guest->general)
		allowed = filter_allows(kvm, guest->select[i]);
	else
		allowed = filter_allows_fixed(kvm, i - guest->general);
	srcu_read_unlock(&kvm->srcu, idx);
	return allowed;
}
