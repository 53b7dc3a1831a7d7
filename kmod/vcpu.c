// SPDX-License-Identifier: GPL-2.0
/* Which VMs and vCPUs have a virtual PMU of ours, and its birth and death. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hashtable.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <uapi/linux/kvm_vpmu.h>

#include "compat/compat.h"
#include "vpmu.h"

/* KVM calls us for each of a vCPU's registers: look it up without a lock. */
static DEFINE_HASHTABLE(vcpus, 8);

/* The lists of VMs and of their vCPUs, and their settings */
DEFINE_MUTEX(vpmu_vms_lock);
LIST_HEAD(vpmu_vms);

/**
 * vpmu_find() - the object of a vCPU
 * @vcpu: KVM's vCPU; the caller has a reason to know that it lives on
 *
 * Safe in any context but NMI.
 *
 * Return: the object, or NULL: the VM has no PMU, or is older than this module.
 */
struct vpmu_vcpu *vpmu_find(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);

	/* Nearly always; of a vCPU loaded on another CPU this says nothing. */
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

/*
 * Follow the guest's CPUID.  The vCPU hasn't run yet, but userspace may have
 * set its registers before.
 */
void vpmu_refresh(struct vpmu_vcpu *vv)
{
	struct guest_config config = vpmu_compat_guest_config(vv->hot.vcpu, &vv->leaf);
	unsigned long flags;
	unsigned int i;

	config.general = min(config.general, vpmu_hw->general);
	config.fixed = min(config.fixed, vpmu_hw->nr - vpmu_hw->general);
	/* Linux 6.1 comes here for any write of PERF_CAPABILITIES, too. */
	if (vpmu_guest_has_config(&vv->guest, &config))
		return;

	local_irq_save(flags);
	for (i = 0; i < vv->guest.nr; i++) {
		vpmu_sched_stop(vv, i);
		/* What a select means depends on the set, too. */
		vv->counter[i].select = 0;
	}
	vpmu_guest_reset(&vv->guest, &config);
	vv->denied = 0;
	local_irq_restore(flags);
}

/* The VM's object: that of its first vCPU, or else @vm, which is new; under vpmu_vms_lock. */
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
	vm->freeze = KVM_VPMU_FREEZE_HYBRID;
	vm->tsc = KVM_VPMU_TSC_WALL;
	INIT_LIST_HEAD(&vm->vcpus);
	list_add_tail(&vm->node, &vpmu_vms);
	return vm;
}

/**
 * vpmu_attach() - give a vCPU that was just created an object
 * @vcpu: KVM's vCPU, which is not loaded and which nobody else knows yet
 *
 * Return: 0, or -ENOMEM.
 */
int vpmu_attach(struct kvm_vcpu *vcpu)
{
	/* Not under the lock: a memory cgroup that is full takes its time, and others wait. */
	struct vpmu_vcpu *vv = kzalloc(sizeof(*vv), GFP_KERNEL_ACCOUNT);
	struct vpmu_vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	if (!vv || !vm) {
		kfree(vm);
		kfree(vv);
		return -ENOMEM;
	}
	vv->hot.vcpu = vcpu;
	vv->hot.margin = S64_MAX;
	for (i = 0; i < VPMU_MAX_COUNTERS; i++) {
		vv->counter[i].slot = VPMU_NO_SLOT;
		vv->counter[i].last = VPMU_NO_SLOT;
		vv->counter[i].index = i;
	}
	vpmu_refresh(vv);

	mutex_lock(&vpmu_vms_lock);
	vv->vm = find_or_add_vm(vcpu->kvm, vm);
	list_add_tail(&vv->sibling, &vv->vm->vcpus);
	vv->vm->nr++;
	hash_add_rcu(vcpus, &vv->node, (unsigned long)vcpu);
	mutex_unlock(&vpmu_vms_lock);
	if (vv->vm != vm)
		kfree(vm);
	return 0;
}

void vpmu_detach(struct kvm_vcpu *vcpu)
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
		kfree(vm);
	}
	mutex_unlock(&vpmu_vms_lock);
	/* Lookups of other vCPUs may be looking at it. */
	synchronize_rcu();
	kfree(vv);
}
