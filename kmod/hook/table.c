// SPDX-License-Identifier: GPL-2.0
/* Which functions of KVM and perf are hooked, and what takes their place. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/static_call.h>

#include "../compat/compat.h"
#include "../vpmu.h"
#include "hook.h"

/* Declare the way to a hooked function's original. */
#define ORIGINAL(function, prototype)					\
	DEFINE_STATIC_CALL_NULL(original_##function, prototype);	\
	static void bind_##function(void *original)			\
	{								\
		static_call_update(original_##function, original);	\
	}

static bool notrace is_ours(void *vcpu)
{
	return vpmu_find(vcpu);
}

static bool has_pmu(struct vpmu_vcpu *vv)
{
	return vv->guest.set != GUEST_NONE;
}

/* A vCPU is ours only if all of its life can be followed. */
static bool ready;

void vpmu_hooks_ready(void)
{
	WRITE_ONCE(ready, true);
}

/*
 * Creating a vCPU sleeps.  The reference taken here is given back when
 * the vCPU is destroyed, so the module can't go away under either.
 */
static bool notrace may_attach(void *arg)
{
	struct kvm_vcpu *vcpu = arg;

	return READ_ONCE(ready) && vcpu->kvm->arch.enable_pmu &&
	       try_module_get(THIS_MODULE);
}

ORIGINAL(kvm_pmu_init, compat_proto_init);
static void vpmu_kvm_pmu_init(struct kvm_vcpu *vcpu)
{
	static_call(original_kvm_pmu_init)(vcpu);
	if (vpmu_attach(vcpu)) {
		pr_warn_ratelimited("no memory for a vCPU's PMU, it keeps KVM's\n");
		module_put(THIS_MODULE);
	}
}

ORIGINAL(kvm_pmu_destroy, compat_proto_init);
static void vpmu_kvm_pmu_destroy(struct kvm_vcpu *vcpu)
{
	static_call(original_kvm_pmu_destroy)(vcpu);
	vpmu_detach(vcpu);
	module_put(THIS_MODULE);
}

ORIGINAL(kvm_pmu_refresh, compat_proto_init);
static void vpmu_kvm_pmu_refresh(struct kvm_vcpu *vcpu)
{
	static_call(original_kvm_pmu_refresh)(vcpu);
	vpmu_refresh(vpmu_find(vcpu));
}

ORIGINAL(kvm_pmu_is_valid_msr, compat_proto_valid);
static bool vpmu_kvm_pmu_is_valid_msr(struct kvm_vcpu *vcpu, u32 msr)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	if (!has_pmu(vv))
		return static_call(original_kvm_pmu_is_valid_msr)(vcpu, msr);
	return access_valid(vv, msr);
}

ORIGINAL(kvm_pmu_get_msr, compat_proto_msr);
static int vpmu_kvm_pmu_get_msr(struct kvm_vcpu *vcpu, struct msr_data *msr)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	if (!has_pmu(vv))
		return static_call(original_kvm_pmu_get_msr)(vcpu, msr);
	return access_read(vv, msr->index, &msr->data);
}

ORIGINAL(kvm_pmu_set_msr, compat_proto_msr);
static int vpmu_kvm_pmu_set_msr(struct kvm_vcpu *vcpu, struct msr_data *msr)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	if (!has_pmu(vv))
		return static_call(original_kvm_pmu_set_msr)(vcpu, msr);
	return access_write(vv, msr->index, msr->data, msr->host_initiated);
}

ORIGINAL(kvm_pmu_rdpmc, compat_proto_rdpmc);
static int vpmu_kvm_pmu_rdpmc(struct kvm_vcpu *vcpu, unsigned int index, u64 *data)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	/* An index that isn't a counter may be VMware's backdoor. */
	if (!has_pmu(vv) || !guest_rdpmc_valid(&vv->guest, index))
		return static_call(original_kvm_pmu_rdpmc)(vcpu, index, data);
	return access_rdpmc(vv, index, data);
}

ORIGINAL(kvm_pmu_handle_event, compat_proto_init);
static void vpmu_kvm_pmu_handle_event(struct kvm_vcpu *vcpu)
{
	pmi_handle(vpmu_find(vcpu));
	/* KVM's own counters are off, but it may want to clear its requests. */
	static_call(original_kvm_pmu_handle_event)(vcpu);
}

static void vpmu_kvm_pmu_trigger_event(struct kvm_vcpu *vcpu, u64 event)
{
	emul_event(vpmu_find(vcpu), compat_event_class(event));
}

ORIGINAL(kvm_arch_vcpu_load, compat_proto_load);
static void vpmu_kvm_arch_vcpu_load(struct kvm_vcpu *vcpu, int cpu)
{
	static_call(original_kvm_arch_vcpu_load)(vcpu, cpu);
	switch_load(vpmu_find(vcpu));
}

ORIGINAL(kvm_arch_vcpu_put, compat_proto_init);
static void vpmu_kvm_arch_vcpu_put(struct kvm_vcpu *vcpu)
{
	switch_put(vpmu_find(vcpu));
	static_call(original_kvm_arch_vcpu_put)(vcpu);
}

/* Runs at each VM entry; only one that borrows counters is redirected. */
static bool notrace enter_guest(void *vcpu)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);

	if (!vv)
		return false;
	if (vv->borrowing)
		switch_borrow(vv);
	emul_entry(vv);
	return vv->borrowing;
}

ORIGINAL(svm_vcpu_run, compat_proto_run);
static fastpath_t vpmu_svm_vcpu_run(struct kvm_vcpu *vcpu, u64 flags)
{
	fastpath_t result = static_call(original_svm_vcpu_run)(vcpu, flags);

	switch_give_back(this_cpu_read(vpmu_cpu.vv));
	return result;
}

/* Runs in process context, before KVM looks for what would wake the vCPU. */
static bool notrace guest_halts(void *vcpu)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);

	if (vv && vv->vcpu == vcpu && vv->placed)
		pmi_before_halt(vv);
	return false;
}

static bool notrace host_starts_event(void *arg)
{
	struct perf_event *event = arg;

	if (event->hw.idx >= 0)
		switch_evict(event->hw.idx);
	return false;
}

#define REDIRECT(function)						\
	{								\
		.symbol = #function,					\
		.handler = vpmu_##function,				\
		.when = is_ours,					\
		.bind = bind_##function,				\
	}

struct hook vpmu_hooks[] = {
	{
		.symbol = "svm_vcpu_run",
		.handler = vpmu_svm_vcpu_run,
		.when = enter_guest,
		.bind = bind_svm_vcpu_run,
	},
	{
		.symbol = "kvm_pmu_trigger_event",
		.handler = vpmu_kvm_pmu_trigger_event,
		.when = is_ours,
	},
	REDIRECT(kvm_arch_vcpu_load),
	REDIRECT(kvm_arch_vcpu_put),
	{
		.symbol = "x86_pmu_start",
		.when = host_starts_event,
	},
	{
		.symbol = "kvm_vcpu_halt",
		.when = guest_halts,
	},
	REDIRECT(kvm_pmu_is_valid_msr),
	REDIRECT(kvm_pmu_get_msr),
	REDIRECT(kvm_pmu_set_msr),
	REDIRECT(kvm_pmu_rdpmc),
	REDIRECT(kvm_pmu_handle_event),
	REDIRECT(kvm_pmu_refresh),
	REDIRECT(kvm_pmu_destroy),
	{
		.symbol = "kvm_pmu_init",
		.handler = vpmu_kvm_pmu_init,
		.when = may_attach,
		.bind = bind_kvm_pmu_init,
	},
};

const unsigned int vpmu_nr_hooks = ARRAY_SIZE(vpmu_hooks);
