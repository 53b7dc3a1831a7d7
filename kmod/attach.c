// SPDX-License-Identifier: GPL-2.0
/*
 * Which VMs get a virtual PMU of this module.  The choice of a VM's owner comes first, then that of
 * the process (struct kvm_vpmu_attach for both), then the module parameter "attach".  A VM that is
 * left out keeps KVM's own PMU.
 *
 * The decision is made with the VM's first vCPU: with KVM's PMU on one vCPU and this module's on
 * another, the guest's CPUs would have different counters.
 */
#include <linux/fdtable.h>
#include <linux/hashtable.h>
#include <linux/kvm_host.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <uapi/linux/kvm_vpmu.h>

#include "attach.h"
#include "param.h"

/**
 * struct decision - what was decided for a VM
 * @kvm: KVM's VM
 * @attach: its vCPUs get a PMU of ours
 * @node: in the table of all
 */
struct decision {
	struct kvm *kvm;
	bool attach;
	struct hlist_node node;
};

/* Under decisions_lock */
static DEFINE_HASHTABLE(decisions, 8);
static DEFINE_SPINLOCK(decisions_lock);

static const char *const attach_words[] = { "auto", "explicit" };
enum { ATTACH_AUTO, ATTACH_EXPLICIT };

static struct vpmu_param param_attach = {
	.words = attach_words,
	.nr = ARRAY_SIZE(attach_words),
};

module_param_cb(attach, &vpmu_param_ops, &param_attach, 0644);
MODULE_PARM_DESC(attach,
		 "Which new VMs get a virtual PMU: auto (default), or explicit, those whose owner asks");
__MODULE_PARM_TYPE(attach, "charp");

static struct decision *find_decision(const struct kvm *kvm)
{
	struct decision *d;

	lockdep_assert_held(&decisions_lock);
	hash_for_each_possible(decisions, d, node, (unsigned long)kvm)
		if (d->kvm == kvm)
			return d;
	return NULL;
}

/*
 * The device's open files: private_data is a KVM_VPMU_ATTACH_..., the choice for VMs of the process
 * that has the file open.
 */
static const struct file_operations *device;
static atomic_t nr_choices;	/* files with another one than KVM_VPMU_ATTACH_DEFAULT */

void vpmu_attach_init(const struct file_operations *device_fops)
{
	device = device_fops;
}

void vpmu_attach_choose_by_file(struct file *file, u32 attach)
{
	unsigned long old = (unsigned long)xchg(&file->private_data, (void *)(unsigned long)attach);

	atomic_add(!!attach - !!old, &nr_choices);
}

static int check_file(const void *choice, struct file *file, unsigned int fd)
{
	unsigned long attach;

	if (file->f_op != device)
		return 0;
	attach = (unsigned long)READ_ONCE(file->private_data);
	if (attach != KVM_VPMU_ATTACH_DEFAULT)
		*(u32 *)choice = attach;
	return 0;
}

/* For a VM without a choice of its own, whose first vCPU this process creates */
static bool decide(void)
{
	u32 choice = KVM_VPMU_ATTACH_DEFAULT;

	/* Few processes have a file with a choice, and many have many files. */
	if (atomic_read(&nr_choices))
		iterate_fd(current->files, 0, check_file, &choice);
	if (choice == KVM_VPMU_ATTACH_DEFAULT)
		return READ_ONCE(param_attach.value) == ATTACH_AUTO;
	return choice == KVM_VPMU_ATTACH_YES;
}

int vpmu_attach_wanted(struct kvm *kvm)
{
	struct decision *d, *new;
	bool wanted;

	spin_lock(&decisions_lock);
	d = find_decision(kvm);
	wanted = d && d->attach;
	spin_unlock(&decisions_lock);
	if (d)
		return wanted;

	/* Its first vCPU was created before the module was loaded, and has KVM's PMU. */
	wanted = !atomic_read(&kvm->online_vcpus) && decide();
	new = kmalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	spin_lock(&decisions_lock);
	/* The VM's next vCPU may be created at the same time. */
	d = find_decision(kvm);
	if (d) {
		wanted = d->attach;
	} else {
		new->kvm = kvm;
		new->attach = wanted;
		hash_add(decisions, &new->node, (unsigned long)kvm);
	}
	spin_unlock(&decisions_lock);
	if (d)
		kfree(new);
	return wanted;
}

int vpmu_attach_choose(struct kvm *kvm, u32 attach)
{
	struct decision *old, *new = NULL;
	int err = 0;

	if (attach != KVM_VPMU_ATTACH_DEFAULT) {
		new = kmalloc(sizeof(*new), GFP_KERNEL_ACCOUNT);
		if (!new)
			return -ENOMEM;
		new->kvm = kvm;
		new->attach = attach == KVM_VPMU_ATTACH_YES;
	}

	/* KVM counts a vCPU under this lock before the vCPU is created. */
	mutex_lock(&kvm->lock);
	spin_lock(&decisions_lock);
	old = kvm->created_vcpus ? NULL : find_decision(kvm);
	if (kvm->created_vcpus) {
		err = -EBUSY;
	} else {
		if (old)
			hash_del(&old->node);
		if (new)
			hash_add(decisions, &new->node, (unsigned long)kvm);
	}
	spin_unlock(&decisions_lock);
	mutex_unlock(&kvm->lock);
	kfree(err ? new : old);
	return err;
}

void vpmu_attach_forget(struct kvm *kvm)
{
	struct decision *d;

	spin_lock(&decisions_lock);
	d = find_decision(kvm);
	if (d)
		hash_del(&d->node);
	spin_unlock(&decisions_lock);
	kfree(d);
}

void vpmu_attach_forget_all(void)
{
	struct hlist_node *next;
	struct decision *d;
	int i;

	hash_for_each_safe(decisions, i, next, d, node)
		kfree(d);
}
