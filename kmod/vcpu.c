// SPDX-License-Identifier: GPL-2.0
/* VMs and vCPUs that have a virtual PMU of this module. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hashtable.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/rculist.h>
#include <linux/smp.h>
#include <linux/slab.h>
#include <uapi/linux/kvm_vpmu.h>

#include "cpuid.h"
#include "measure.h"
#include "open.h"
#include "param.h"
#include "sched.h"
#include "vcpu.h"
#include "vtsc.h"

/* Each access to a register looks its vCPU up: without a lock. */
static DEFINE_HASHTABLE(vcpus, 8);

/* The lists of VMs and of their vCPUs, and their settings */
DEFINE_MUTEX(vpmu_vms_lock);
unsigned int vpmu_all_observed;
LIST_HEAD(vpmu_vms);

/* Settings of VMs to come, in the order of KVM_VPMU_FREEZE_..., _TSC_... and _EVENTS_... */
static const char *const freeze_words[] = { "hybrid", "guest", "vcpu" };
static const char *const tsc_words[] = { "wall", "vcpu" };
static const char *const events_words[] = { "off", "on" };

static struct vpmu_param param_freeze = {
	.words = freeze_words,
	.nr = ARRAY_SIZE(freeze_words),
};

static struct vpmu_param param_tsc = {
	.words = tsc_words,
	.nr = ARRAY_SIZE(tsc_words),
	.refuse = vpmu_vtsc_refuse,
};

static struct vpmu_param param_events = {
	.words = events_words,
	.nr = ARRAY_SIZE(events_words),
};

module_param_cb(freeze, &vpmu_param_ops, &param_freeze, 0644);
MODULE_PARM_DESC(freeze, "Freeze mode of new VMs: hybrid (default), guest or vcpu");
__MODULE_PARM_TYPE(freeze, "charp");
module_param_cb(tsc, &vpmu_param_ops, &param_tsc, 0644);
MODULE_PARM_DESC(tsc, "TSC of new VMs: wall (default) or vcpu");
__MODULE_PARM_TYPE(tsc, "charp");
module_param_cb(events, &vpmu_param_ops, &param_events, 0644);
MODULE_PARM_DESC(events, "The hypervisor's events in guests' counters, of new VMs: off (default) or on");
__MODULE_PARM_TYPE(events, "charp");

struct vpmu_vcpu *vpmu_find(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);

	/* Nearly always */
	if (vv && vv->hot.vcpu == vcpu)
		return vv;

	rcu_read_lock();
	hash_for_each_possible_rcu(vcpus, vv, node, (unsigned long)vcpu) {
		if (vv->hot.vcpu == vcpu)
			break;
	}
	rcu_read_unlock();
	return vv;
}

void vpmu_vcpu_refresh(struct vpmu_vcpu *vv)
{
	struct guest_config config = vpmu_cpuid_config(vv->hot.vcpu, &vv->leaf);
	unsigned long flags;
	unsigned int i;

	config.general = min(config.general, vpmu_hw->general);
	config.fixed = min(config.fixed, vpmu_hw->nr - vpmu_hw->general);
	/* Linux 6.1 refreshes the PMU at any write of PERF_CAPABILITIES, too. */
	if (vpmu_guest_has_config(&vv->guest, &config))
		return;

	local_irq_save(flags);
	vpmu_sched_stop(vv, ~0UL);
	vpmu_open_take_back(vv);
	/* The register set decides what a select means. */
	for (i = 0; i < VPMU_MAX_COUNTERS; i++)
		vv->counter[i].select = 0;
	vpmu_guest_reset(&vv->guest, &config);
	vv->denied = 0;
	local_irq_restore(flags);
}

struct vpmu_vm *vpmu_find_vm(u64 id)
{
	struct vpmu_vm *vm;

	lockdep_assert_held(&vpmu_vms_lock);
	list_for_each_entry(vm, &vpmu_vms, node)
		if (vm->id == id)
			return vm;
	return NULL;
}

struct vpmu_vm *vpmu_find_vm_by_file(const struct file *file)
{
	struct vpmu_vm *vm;

	lockdep_assert_held(&vpmu_vms_lock);
	list_for_each_entry(vm, &vpmu_vms, node)
		if (vm->kvm == file->private_data)
			return vm;
	return NULL;
}

static void do_nothing(void *unused)
{
}

void vpmu_vcpu_kick(struct kvm_vcpu *vcpu)
{
	kvm_make_request(KVM_REQ_PMU, vcpu);
	/*
	 * Only a vCPU in guest mode needs an interrupt, to exit; all others check requests before
	 * they enter the guest.
	 */
	if (kvm_vcpu_exiting_guest_mode(vcpu) == IN_GUEST_MODE)
		smp_call_function_single(READ_ONCE(vcpu->cpu), do_nothing, NULL, false);
}

void vpmu_vm_kick(struct vpmu_vm *vm)
{
	struct vpmu_vcpu *vv;

	lockdep_assert_held(&vpmu_vms_lock);
	list_for_each_entry(vv, &vm->vcpus, sibling)
		vpmu_vcpu_kick(vv->hot.vcpu);
}

/* The VM's object, which its first vCPU brought, or else @new; under vpmu_vms_lock. */
static struct vpmu_vm *find_or_add_vm(struct kvm *kvm, struct vpmu_vm *new)
{
	static u64 last_id;
	struct vpmu_vm *vm;

	lockdep_assert_held(&vpmu_vms_lock);
	list_for_each_entry(vm, &vpmu_vms, node)
		if (vm->kvm == kvm)
			return vm;

	vm = new;
	vm->kvm = kvm;
	vm->id = ++last_id;
	vm->freeze = READ_ONCE(param_freeze.value);
	vm->events = READ_ONCE(param_events.value);
	INIT_LIST_HEAD(&vm->vcpus);
	INIT_LIST_HEAD(&vm->observers);
	vm->observed = vpmu_least_observed();
	/* The host's TSC may have become unfit since the parameter was set. */
	if (vpmu_vtsc_set(vm, READ_ONCE(param_tsc.value)))
		pr_warn_once("this host's TSC isn't fit any more for the parameter tsc=vcpu\n");
	list_add_tail(&vm->node, &vpmu_vms);
	return vm;
}

struct vpmu_vcpu *vpmu_vcpu_alloc(void)
{
	struct vpmu_vcpu *vv = kzalloc(sizeof(*vv), GFP_KERNEL_ACCOUNT);

	if (!vv)
		return NULL;
	/* For the case that the vCPU is the VM's first one */
	vv->vm = kzalloc(sizeof(*vv->vm), GFP_KERNEL_ACCOUNT);
	if (!vv->vm) {
		kfree(vv);
		return NULL;
	}
	return vv;
}

void vpmu_vcpu_free(struct vpmu_vcpu *vv)
{
	if (!vv)
		return;
	kfree(vv->vm);
	kfree(vv);
}

void vpmu_vcpu_attach(struct vpmu_vcpu *vv, struct kvm_vcpu *vcpu)
{
	struct vpmu_vm *new = vv->vm;
	unsigned int i;

	mutex_init(&vv->probed.lock);
	vv->hot.vcpu = vcpu;
	vv->hot.margin = S64_MAX;
	vv->hot.slow = vpmu_measure_new_vcpu();
	for (i = 0; i < VPMU_MAX_COUNTERS; i++) {
		vv->counter[i].slot = VPMU_NO_SLOT;
		vv->counter[i].last = VPMU_NO_SLOT;
		vv->counter[i].index = i;
	}
	vpmu_vcpu_refresh(vv);

	mutex_lock(&vpmu_vms_lock);
	vv->vm = find_or_add_vm(vcpu->kvm, new);
	list_add_tail(&vv->sibling, &vv->vm->vcpus);
	vv->vm->nr++;
	hash_add_rcu(vcpus, &vv->node, (unsigned long)vcpu);
	mutex_unlock(&vpmu_vms_lock);
	if (vv->vm != new)
		kfree(new);
}

static void free_vm(struct vpmu_vm *vm)
{
	struct vpmu_observer *o, *next;

	list_for_each_entry_safe(o, next, &vm->observers, node)
		kfree(o);
	kfree(vm);
}

void vpmu_vcpu_detach(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);
	struct vpmu_vm *vm;

	if (WARN_ON_ONCE(!vv || vv->loaded))
		return;
	vm = vv->vm;
	mutex_lock(&vpmu_vms_lock);
	hash_del_rcu(&vv->node);
	list_del(&vv->sibling);
	if (!--vm->nr) {
		list_del(&vm->node);
		free_vm(vm);
	}
	mutex_unlock(&vpmu_vms_lock);
	/* Lookups of other vCPUs may be passing this one. */
	synchronize_rcu();
	kfree(vv);
}
