// SPDX-License-Identifier: GPL-2.0
/* Which functions of KVM and perf are hooked, and what takes their place. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/static_call.h>

#include "../compat/compat.h"
#include "../compat/host.h"
#include "../compat/mmu.h"
#include "../attach.h"
#include "../borrow.h"
#include "../counter.h"
#include "../cpuid.h"
#include "../emul.h"
#include "../fast.h"
#include "../host_perf.h"
#include "../open.h"
#include "../pmi.h"
#include "../probe.h"
#include "../profile.h"
#include "../sched.h"
#include "../trace.h"
#include "../vcpu.h"
#include "../vtsc.h"
#include "hook.h"
#include "hot.h"

/* A static call to a hooked function's original code */
#define ORIGINAL(function, prototype)					\
	DEFINE_STATIC_CALL_NULL(original_##function, prototype);	\
	static void bind_##function(void *original)			\
	{								\
		static_call_update(original_##function, original);	\
	}

static_assert(offsetof(struct vpmu_vcpu, hot.vcpu) == HOT_VCPU);
static_assert(offsetof(struct vpmu_vcpu, hot.pending) == HOT_PENDING);
static_assert(offsetof(struct vpmu_vcpu, hot.slow) == HOT_SLOW);
/* stubs.S looks at two of these at once. */
static_assert(HOT_SLOW == HOT_PENDING + 4 && HOT_WATCH == HOT_SLOW + 4);
static_assert(VPMU_WATCH_EVENTS == BIT(31));	/* and for the sign of HOT_WATCH */
static_assert(offsetof(struct vpmu_vcpu, hot.emulated) == HOT_EMULATED);
static_assert(offsetof(struct vpmu_vcpu, hot.margin) == HOT_MARGIN);
static_assert(offsetof(struct vpmu_vcpu, hot.msr_list_valid) == HOT_MSR_LIST_VALID);
static_assert(offsetof(struct vpmu_vcpu, hot.watch) == HOT_WATCH);
static_assert(offsetof(struct vpmu_vcpu, guest.set) == GUEST_SET);
static_assert(GUEST_NONE == 0);			/* stubs.S compares with that */
static_assert(offsetof(struct vpmu_cpu, vv) == 0);
static_assert(BIT(VPMU_INSTRUCTION) == HOT_PENDING_INSTRUCTION);
static_assert(BIT(VPMU_BRANCH) == HOT_PENDING_BRANCH);

static bool notrace is_ours(void *vcpu, unsigned long second)
{
	return vpmu_find(vcpu);
}

/* Only vCPUs that are created once all hooks are in place get an object. */
static bool hooks_ready;

void vpmu_hooks_ready(void)
{
	WRITE_ONCE(hooks_ready, true);
}

/*
 * Creating a vCPU sleeps.  The reference taken here is put when the vCPU is destroyed, or wasn't
 * created, so the module isn't unloaded in between.
 */
static bool notrace may_attach(void *arg, unsigned long second)
{
	struct kvm_vcpu *vcpu = arg;

	return READ_ONCE(hooks_ready) && vcpu->kvm->arch.enable_pmu &&
	       try_module_get(THIS_MODULE);
}

static bool notrace vm_ends(void *kvm, unsigned long unused)
{
	vpmu_attach_forget(kvm);
	return false;
}

/*
 * KVM destroys the PMU of a vCPU (kvm_pmu_destroy()) only if kvm_arch_vcpu_create() succeeded.
 * kvm_pmu_init() comes too early for an object: a failure behind that frees the vCPU.  Memory is
 * allocated first: a vCPU with KVM's PMU beside others with this module's would be another CPU.
 */
ORIGINAL(kvm_arch_vcpu_create, vpmu_compat_proto_create);
static int vpmu_kvm_arch_vcpu_create(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv = NULL;
	int err, wanted = vpmu_attach_wanted(vcpu->kvm);

	if (wanted > 0)
		vv = vpmu_vcpu_alloc();
	if (wanted < 0 || (wanted && !vv))
		err = -ENOMEM;
	else
		err = static_call(original_kvm_arch_vcpu_create)(vcpu);

	if (!err && vv && !vpmu_compat_is_protected(vcpu)) {
		vpmu_cpuid_limit_capabilities(vcpu);
		vpmu_vcpu_attach(vv, vcpu);
		return 0;
	}
	if (!err && vv)
		pr_info_once("guests whose state is encrypted (SEV-ES, TDX) keep KVM's PMU\n");
	vpmu_vcpu_free(vv);
	module_put(THIS_MODULE);
	return err;
}

ORIGINAL(kvm_pmu_destroy, vpmu_compat_proto_init);
static void vpmu_kvm_pmu_destroy(struct kvm_vcpu *vcpu)
{
	static_call(original_kvm_pmu_destroy)(vcpu);
	vpmu_vcpu_detach(vcpu);
	module_put(THIS_MODULE);
}

ORIGINAL(kvm_pmu_refresh, vpmu_compat_proto_init);
static void vpmu_kvm_pmu_refresh(struct kvm_vcpu *vcpu)
{
	vpmu_cpuid_limit_capabilities(vcpu);
	static_call(original_kvm_pmu_refresh)(vcpu);
	vpmu_vcpu_refresh(vpmu_find(vcpu));
}

/* Does its CPUID have another version of the PMU than userspace has set? */
static bool notrace has_other_version(void *vcpu, unsigned long second)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	return vv && vv->leaf.eax;
}

/* The ioctls by which userspace sets and gets a vCPU's CPUID, one at a time */
#define CPUID_IOCTL(function)							\
	ORIGINAL(function, vpmu_compat_proto_cpuid);				\
	static int vpmu_##function(struct kvm_vcpu *vcpu, void *cpuid,		\
				   void __user *entries)			\
	{									\
		struct vpmu_vcpu *vv = vpmu_find(vcpu);				\
		int err;							\
										\
		vpmu_cpuid_hide_version(vcpu, &vv->leaf);			\
		err = static_call(original_##function)(vcpu, cpuid, entries);	\
		vpmu_cpuid_show_version(vcpu, &vv->leaf);			\
		return err;							\
	}

CPUID_IOCTL(kvm_vcpu_ioctl_set_cpuid)
CPUID_IOCTL(kvm_vcpu_ioctl_set_cpuid2)
CPUID_IOCTL(kvm_vcpu_ioctl_get_cpuid2)

/*
 * KVM_X86_SET_MSR_FILTER, also of a 32-bit process.  The ioctl sleeps, and a VM without a vCPU
 * doesn't hold the module.
 */
static bool notrace sets_filter(void *file, unsigned long ioctl)
{
	return _IOC_NR(ioctl) == _IOC_NR(KVM_X86_SET_MSR_FILTER) && try_module_get(THIS_MODULE);
}

/* KVM's function for the filter may be inlined into these. */
#define FILTER_IOCTL(function)							\
	ORIGINAL(function, vpmu_compat_proto_vm_ioctl);				\
	static long vpmu_##function(struct file *file, unsigned int ioctl,	\
				    unsigned long arg)				\
	{									\
		long result;							\
										\
		vpmu_compat_filter_changes();					\
		result = static_call(original_##function)(file, ioctl, arg);	\
		vpmu_compat_filter_changed();					\
		module_put(THIS_MODULE);					\
		return result;							\
	}

FILTER_IOCTL(kvm_arch_vm_ioctl)
FILTER_IOCTL(kvm_arch_vm_compat_ioctl)

static bool kvm_has_compat_ioctls(void)
{
	return vpmu_compat_resolve("kvm_arch_vm_compat_ioctl");
}

#ifdef COMPAT_NMI_WAITS
ORIGINAL(kvm_pmu_deliver_pmi, vpmu_compat_proto_init);
static void vpmu_kvm_pmu_deliver_pmi(struct kvm_vcpu *vcpu)
{
	static_call(original_kvm_pmu_deliver_pmi)(vcpu);
	vpmu_compat_process_nmi(vcpu);
}
#endif

/* @pending: the class, as a bit of vpmu_hot.pending */
void vpmu_retired(struct vpmu_vcpu *vv, u32 pending)
{
	vpmu_emulated(vv, pending == HOT_PENDING_INSTRUCTION ? VPMU_INSTRUCTION : VPMU_BRANCH);
}

ORIGINAL(kvm_arch_vcpu_load, vpmu_compat_proto_load);
void vpmu_vcpu_load(struct vpmu_vcpu *vv, int cpu)
{
	u64 taken = vpmu_vtsc_load(vv);

	static_call(original_kvm_arch_vcpu_load)(vv->hot.vcpu, cpu);
	if (static_branch_unlikely(&vpmu_profiling))
		vpmu_profile_load(vv);
	else
		vpmu_sched_load(vv);
	trace_vpmu_load(vv, taken);
}

ORIGINAL(kvm_arch_vcpu_put, vpmu_compat_proto_init);
void vpmu_vcpu_put(struct vpmu_vcpu *vv)
{
	vpmu_vtsc_put(vv);
	if (static_branch_unlikely(&vpmu_profiling))
		vpmu_profile_put(vv);
	else
		vpmu_sched_put(vv);
	vpmu_pmi_put(vv);
	static_call(original_kvm_arch_vcpu_put)(vv->hot.vcpu);
}

/*
 * Cheaper than NMI handlers of our own: for each of these, the kernel reads the clock twice in each
 * NMI.
 */
ORIGINAL(perf_event_nmi_handler, vpmu_compat_proto_nmi_handler);
int notrace vpmu_perf_event_nmi_handler(unsigned int type, struct pt_regs *regs)
{
	bool for_host;
	int handled = vpmu_pmi_nmi_begins(regs, &for_host);

	if (for_host)
		handled += static_call(original_perf_event_nmi_handler)(type, regs);
	vpmu_pmi_nmi_ends();
	return handled;
}

/* KVM_REQ_PMU, before a VM entry; called by stubs.S */
void vpmu_handle_event(struct vpmu_vcpu *vv)
{
	if (static_branch_unlikely(&vpmu_profiling))
		vpmu_profile_stack(vv);
	vpmu_pmi_handle(vv);
	vpmu_probe_handle(vv);
}

ORIGINAL(vcpu_run, vpmu_compat_proto_run);

/* All that there may be to do around a stay in guest mode */
fastpath_t vpmu_run_slowly(struct kvm_vcpu *vcpu, u64 flags, struct vpmu_vcpu *vv)
{
	fastpath_t result;

	/* The entry makes up for an instruction, by which counters of these don't get ahead. */
	if (vv->hot.slow == VPMU_SLOW_ALIGN && vv->hot.pending == BIT(VPMU_INSTRUCTION))
		vv->hot.slow = 0;
	if (vv->hot.slow)
		vpmu_entry_slowly(vv);
	else if (vpmu_hw->entry_counts)
		vpmu_note_entry(vv, vpmu_level(vv));
	else
		vpmu_flush_pending(vv);
	if (vpmu_watching(vv))
		vpmu_open_enter(vv);
	/* KVM is past its check of requests: this is for after the coming VM exit. */
	if (vpmu_event_near(vv)) {
		kvm_make_request(KVM_REQ_PMU, vcpu);
		vv->event.windows = vcpu->stat.irq_window_exits;
	}
	if (unlikely(vv->event.timing))
		vpmu_event_enter_guest(vv);
	result = static_call(original_vcpu_run)(vcpu, flags);
	if (unlikely(vv->event.timing))
		vpmu_event_leave_guest(vv);
	vpmu_open_leave(vv);
	if (unlikely(vv->borrowing | vv->event.exits || vv->measuring))
		vpmu_exit(vv);
	return vpmu_watching(vv) ? vpmu_fast_exit(vv, result) : result;
}

/* The entry is in the tally.  All else that there is to do is that fast.c looks at the VM exit. */
static __always_inline fastpath_t run_watched(struct kvm_vcpu *vcpu, u64 flags,
					      struct vpmu_vcpu *vv)
{
	fastpath_t result;

	vpmu_open_enter(vv);
	result = static_call(original_vcpu_run)(vcpu, flags);
	vpmu_open_leave(vv);
	return vpmu_fast_exit(vv, result);
}

fastpath_t vpmu_vcpu_run(struct kvm_vcpu *vcpu, u64 flags, struct vpmu_vcpu *vv)
{
	vpmu_note_entry(vv, vpmu_level(vv));
	return run_watched(vcpu, flags, vv);
}

fastpath_t vpmu_vcpu_run_uncounted(struct kvm_vcpu *vcpu, u64 flags, struct vpmu_vcpu *vv)
{
	vpmu_flush_pending(vv);
	return run_watched(vcpu, flags, vv);
}

/*
 * Before each VM entry KVM gets the MSRs to switch there from host perf, and writes them to the
 * VMCS, though they are nearly always the same.  stubs.S calls this only after a change, for a vCPU
 * with running counters.
 */
ORIGINAL(perf_guest_get_msrs, vpmu_compat_proto_guest_get_msrs);
struct perf_guest_switch_msr *vpmu_guest_get_msrs(int *nr, void *data)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_hot);
	struct perf_guest_switch_msr *msrs;

	/* First, as an NMI may change the list meanwhile. */
	WRITE_ONCE(vv->hot.msr_list_valid, true);
	barrier();
	msrs = static_call(original_perf_guest_get_msrs)(nr, data);
	if (!vpmu_compat_msr_list_constant(msrs, *nr))
		vv->hot.msr_list_valid = false;
	return msrs;
}

#ifndef COMPAT_HAVE_WANTS_TO_RUN
/* KVM_RUN, before it loads the vCPU */
static bool notrace run_begins(void *vcpu, unsigned long second)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	if (vv)
		vv->run_seen = true;
	return false;
}
#endif

/* Process context, before KVM checks for events that wake the vCPU */
static bool notrace guest_halts(void *vcpu, unsigned long second)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);

	if (vv && vv->hot.vcpu == vcpu && vpmu_started(vv))
		vpmu_pmi_before_halt(vv);
	return false;
}

/*
 * A new event of the L3 cache or the data fabric, before it counts.  perf offers other PMUs' events
 * to this function, too.
 */
static bool notrace host_has_other_event(void *arg, unsigned long unused)
{
	struct perf_event *event = arg;

	if (event->attr.type == event->pmu->type)
		vpmu_open_close_rdpmc();
	return false;
}

static bool notrace host_starts_event(void *arg, unsigned long flags)
{
	struct perf_event *event = arg;

	if (event->hw.idx >= 0) {
		unsigned int slot = vpmu_hw_slot(vpmu_hw, event->hw.idx);

		vpmu_host_evict(slot, vpmu_compat_host_pair(event) ? slot + 1 : slot);
		vpmu_host_changed();
	}
	return false;
}

/* The loaded vCPU is the one in question, if it has running counters. */
static bool notrace level_changes(void *arg, unsigned long unused)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_hot);

	if (vv)
		vpmu_level_changes(vv);
	return false;
}

/*
 * VMLAUNCH and VMRESUME are instructions of the hypervisor, but KVM reports a branch only.  KVM
 * emulates one that fails before this function.
 */
static bool notrace nested_guest_enters(void *vcpu, unsigned long second)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_hot);

	/* The bool "from_vmentry": false when userspace restores a vCPU */
	if (vv && vpmu_compat_on_intel() && (u8)second)
		vpmu_emulated(vv, VPMU_INSTRUCTION);
	return level_changes(vcpu, second);
}

/*
 * A hypercall instruction of the other vendor: KVM overwrites it with this vendor's, reports an
 * emulated instruction (em_hypercall()), and lets the guest execute the new one.
 */
static bool notrace counters_run(void *ctxt, unsigned long unused)
{
	return this_cpu_read(vpmu_hot);
}

ORIGINAL(emulator_fix_hypercall, vpmu_compat_proto_emulate);
static int vpmu_emulator_fix_hypercall(struct x86_emulate_ctxt *ctxt)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_hot);
	int result = static_call(original_emulator_fix_hypercall)(ctxt);

	if (result == COMPAT_EMUL_CONTINUE)
		vpmu_instruction_repeats(vv);
	return result;
}

/* KVM emulates INT1, an instruction and a branch, and reports neither. */
static bool notrace guest_int1(void *vcpu, unsigned long unused)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_hot);

	if (vv) {
		vpmu_emulated(vv, VPMU_INSTRUCTION);
		vpmu_emulated(vv, VPMU_BRANCH);
	}
	return false;
}

/*
 * Without PERF_EF_UPDATE (a throttled event, say) the event's count so far stays in the counter,
 * where perf expects it later.  This may be in an NMI.
 */
static bool notrace host_stops_event(void *arg, unsigned long flags)
{
	struct perf_event *event = arg;

	if (event->hw.idx >= 0) {
		vpmu_host_count_saved(vpmu_hw_slot(vpmu_hw, event->hw.idx),
				      !(flags & PERF_EF_UPDATE));
		vpmu_host_changed();
	}
	return false;
}

/*
 * Linux 7.0 and later, and 6.18 from April 2026 on: perf moves an event that stays stopped (a
 * throttled one, say) to another counter, and writes its count so far there.
 */
void notrace vpmu_host_writes_counter(struct perf_event *event)
{
	unsigned int slot;

	if (likely(!(event->hw.state & PERF_HES_ARCH)) || event->hw.idx < 0)
		return;
	slot = vpmu_hw_slot(vpmu_hw, event->hw.idx);
	vpmu_host_evict(slot, vpmu_compat_host_pair(event) ? slot + 1 : slot);
	vpmu_host_count_saved(slot, true);
	vpmu_host_changed();
}

/* KVM wakes a vCPU's thread, from anywhere.  Others use the kernel's function as well. */
void notrace vpmu_wakes(struct rcuwait *wait)
{
	if (static_branch_unlikely(&vpmu_profiling))
		vpmu_profile_wakes(container_of(wait, struct kvm_vcpu, wait));
}

static bool notrace is_probed(void *vcpu, unsigned long unused)
{
	return vpmu_probe_tag(vcpu) && vpmu_compat_uses_tables(vcpu);
}

ORIGINAL(alloc_root, vpmu_compat_proto_alloc_root);
static unsigned long vpmu_alloc_root(struct kvm_vcpu *vcpu, unsigned long mirror)
{
	unsigned long result;

	vpmu_compat_tag(vcpu, vpmu_probe_tag(vcpu));
	result = static_call(original_alloc_root)(vcpu, mirror);
	vpmu_compat_tag(vcpu, 0);
	return result;
}

static bool kvm_allocates_roots(void)
{
	return vpmu_compat_resolve(COMPAT_ALLOC_ROOT);
}

static bool kvm_gets_roots(void)
{
	return vpmu_compat_resolve(COMPAT_GET_ROOT);
}

/* KVM's function only makes the page a larger one where it can. */
static void vpmu_map_page(struct kvm_vcpu *vcpu, struct kvm_page_fault *fault)
{
	vpmu_probe_map(vcpu, vpmu_compat_fault_address(fault));
}

static bool kvm_maps_pages(void)
{
	return vpmu_compat_resolve(COMPAT_MAP_PAGE);
}

/*
 * Who reports emulated instructions: one function for all events, or one for each.  Kernels with
 * the latter may have a static function of the former's name, with other arguments.
 */
static bool retired_by_event(void)
{
	return vpmu_compat_exported("kvm_pmu_trigger_event");
}

static bool retired_by_function(void)
{
	return !retired_by_event();
}

#define REDIRECT_WHEN(function, condition)				\
	{								\
		.symbol = #function,					\
		.handler = vpmu_##function,				\
		.pre = condition,					\
		.bind = bind_##function,				\
	}

#define REDIRECT(function)	REDIRECT_WHEN(function, is_ours)

#define STUB(function)							\
	{								\
		.symbol = #function,					\
		.stub = vpmu_stub_##function,				\
	}

/* For a stub whose handler calls the original */
#define STUB_AROUND(function)						\
	{								\
		.symbol = #function,					\
		.stub = vpmu_stub_##function,				\
		.bind = bind_##function,				\
	}

struct hook vpmu_hooks[] = {
	STUB_AROUND(perf_event_nmi_handler),
	STUB(x86_perf_event_set_period),
	{
		.symbol = "x86_pmu_start",
		.pre = host_starts_event,
	},
	{
		.symbol = "x86_pmu_stop",
		.pre = host_stops_event,
	},
	{
		.symbol = "svm_vcpu_run",
		.intel = "vmx_vcpu_run",
		.stub = vpmu_stub_vcpu_run,
		.stub_uncounted = vpmu_stub_vcpu_run_uncounted,
		.bind = bind_vcpu_run,
	},
	{
		.symbol = "kvm_pmu_trigger_event",
		.needed = retired_by_event,
		.stub = vpmu_stub_event_retired,
		.stub_uncounted = vpmu_stub_event_retired_uncounted,
	},
	{
		.symbol = "kvm_pmu_instruction_retired",
		.needed = retired_by_function,
		.stub = vpmu_stub_instruction_retired,
		.stub_uncounted = vpmu_stub_instruction_retired_uncounted,
	},
	{
		.symbol = "kvm_pmu_branch_retired",
		.needed = retired_by_function,
		.stub = vpmu_stub_branch_retired,
		.stub_uncounted = vpmu_stub_branch_retired_uncounted,
	},
	{
		.symbol = "perf_guest_get_msrs",
		.stub = vpmu_stub_perf_guest_get_msrs,
		.bind = bind_perf_guest_get_msrs,
		.missing_msg = "this kernel has no perf for Intel's CPUs",
	},
	STUB(kvm_pmu_is_valid_msr),
	STUB(kvm_pmu_get_msr),
	STUB(kvm_pmu_set_msr),
	STUB(kvm_pmu_rdpmc),
	STUB(kvm_pmu_handle_event),
#ifndef COMPAT_HAVE_WANTS_TO_RUN
	{
		.symbol = "kvm_arch_vcpu_ioctl_run",
		.pre = run_begins,
	},
#endif
	STUB_AROUND(kvm_arch_vcpu_load),
	STUB_AROUND(kvm_arch_vcpu_put),
	{
		.symbol = "rcuwait_wake_up",
		.stub = vpmu_stub_rcuwait_wake_up,
		.missing_msg = "a profile's stolen times may be too long, as the scheduler's are",
	},
	{
		.symbol = "kvm_vcpu_halt",
		.pre = guest_halts,
	},
	{
		.symbol = "enter_svm_guest_mode",
		.intel = "nested_vmx_enter_non_root_mode",
		.pre = nested_guest_enters,
	},
	{
		.symbol = "nested_svm_vmexit",
		.intel = "nested_vmx_vmexit",
		.intel_later = "__nested_vmx_vmexit",
		.pre = level_changes,
	},
	{
		.symbol = "kvm_smm_changed",
		.pre = level_changes,
		.missing_msg = "what KVM completes right before an SMI may count at the wrong CPL",
	},
	{
		.symbol = "kvm_vcpu_reset",
		.pre = level_changes,
	},
	{
		.symbol = COMPAT_SVM_INT1,
		.needed = vpmu_compat_emulates_int1,
		.pre = guest_int1,
		.missing_msg = "the guest's INT1 isn't counted",
	},
	{
		.symbol = "emulator_fix_hypercall",
		.handler = vpmu_emulator_fix_hypercall,
		.pre = counters_run,
		.bind = bind_emulator_fix_hypercall,
		.missing_msg = "a hypercall of the other vendor's CPUs counts twice, once",
	},
#ifdef COMPAT_NMI_WAITS
	REDIRECT(kvm_pmu_deliver_pmi),
#endif
	{
		.symbol = COMPAT_MAP_PAGE,
		.needed = kvm_maps_pages,
		.handler = vpmu_map_page,
		.pre = is_probed,
	},
	{
		.symbol = COMPAT_ALLOC_ROOT,
		.needed = kvm_allocates_roots,
		.handler = vpmu_alloc_root,
		.pre = is_probed,
		.bind = bind_alloc_root,
	},
	{
		.symbol = COMPAT_GET_ROOT,
		.needed = kvm_gets_roots,
		.handler = vpmu_alloc_root,
		.pre = is_probed,
		.bind = bind_alloc_root,
	},
	{
		.symbol = COMPAT_INIT_OTHER,
		.needed = vpmu_compat_sees_others,
		.pre = host_has_other_event,
	},
	{
		.symbol = "kvm_arch_destroy_vm",
		.pre = vm_ends,
	},
	REDIRECT_WHEN(kvm_arch_vm_ioctl, sets_filter),
	{
		.symbol = "kvm_arch_vm_compat_ioctl",
		.needed = kvm_has_compat_ioctls,
		.handler = vpmu_kvm_arch_vm_compat_ioctl,
		.pre = sets_filter,
		.bind = bind_kvm_arch_vm_compat_ioctl,
	},
	REDIRECT_WHEN(kvm_vcpu_ioctl_set_cpuid, has_other_version),
	REDIRECT_WHEN(kvm_vcpu_ioctl_set_cpuid2, has_other_version),
	REDIRECT_WHEN(kvm_vcpu_ioctl_get_cpuid2, has_other_version),
	REDIRECT(kvm_pmu_refresh),
	REDIRECT(kvm_pmu_destroy),
	REDIRECT_WHEN(kvm_arch_vcpu_create, may_attach),
};

const unsigned int vpmu_nr_hooks = ARRAY_SIZE(vpmu_hooks);

void vpmu_hooks_choose(void)
{
	struct hook *hook;

	for (hook = vpmu_hooks; hook < vpmu_hooks + vpmu_nr_hooks; hook++) {
		if (vpmu_compat_on_intel() && hook->intel)
			hook->symbol = hook->intel;
		if (vpmu_compat_on_intel() && hook->intel_later &&
		    vpmu_compat_resolve(hook->intel_later))
			hook->symbol = hook->intel_later;
		if (!vpmu_hw->entry_counts && hook->stub_uncounted)
			hook->stub = hook->stub_uncounted;
	}
}
