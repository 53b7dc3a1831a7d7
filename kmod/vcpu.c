// SPDX-License-Identifier: GPL-2.0
/* Which vCPUs have a virtual PMU of ours, and the birth and death of it. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "compat/compat.h"
#include "vpmu.h"

static DEFINE_HASHTABLE(vcpus, 8);
static DEFINE_SPINLOCK(vcpus_lock);

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
	if (vv && vv->vcpu == vcpu)
		return vv;

	rcu_read_lock();
	hash_for_each_possible_rcu(vcpus, vv, node, (unsigned long)vcpu) {
		if (vv->vcpu == vcpu)
			break;
	}
	rcu_read_unlock();
	return vv;
}

/* Call @fn for each object; it must not sleep. */
void vpmu_for_each(void (*fn)(struct vpmu_vcpu *vv, void *arg), void *arg)
{
	struct vpmu_vcpu *vv;
	int bucket;

	spin_lock(&vcpus_lock);
	hash_for_each(vcpus, bucket, vv, node)
		fn(vv, arg);
	spin_unlock(&vcpus_lock);
}

/*
 * Follow the guest's CPUID.  The vCPU hasn't run yet, but userspace may have
 * set its registers before.
 */
void vpmu_refresh(struct vpmu_vcpu *vv)
{
	unsigned long flags;
	enum guest_set set;
	unsigned int i, nr;

	set = compat_guest_set(vv->vcpu, &nr);
	if (nr > vpmu_hw->nr)
		nr = vpmu_hw->nr;

	local_irq_save(flags);
	for (i = 0; i < vv->guest.nr; i++)
		switch_stop(vv, i);
	guest_reset(&vv->guest, set, nr);
	local_irq_restore(flags);
}

/**
 * vpmu_attach() - give a vCPU that is being created an object
 * @vcpu: KVM's vCPU
 *
 * Return: 0, or -ENOMEM.
 */
int vpmu_attach(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv = kzalloc(sizeof(*vv), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	if (!vv)
		return -ENOMEM;
	vv->vcpu = vcpu;
	vv->check_level = -1;
	for (i = 0; i < VPMU_MAX_COUNTERS; i++)
		vv->counter[i].slot = VPMU_NO_SLOT;
	vpmu_refresh(vv);

	spin_lock(&vcpus_lock);
	hash_add_rcu(vcpus, &vv->node, (unsigned long)vcpu);
	spin_unlock(&vcpus_lock);
	return 0;
}

void vpmu_detach(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	if (WARN_ON_ONCE(!vv || vv->loaded))
		return;
	spin_lock(&vcpus_lock);
	hash_del_rcu(&vv->node);
	spin_unlock(&vcpus_lock);
	/* Lookups of other vCPUs may be looking at it. */
	synchronize_rcu();
	kfree(vv);
}
