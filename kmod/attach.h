/* SPDX-License-Identifier: GPL-2.0 */
/* Which VMs get a virtual PMU of this module. */
#ifndef VPMU_ATTACH_H
#define VPMU_ATTACH_H

#include <linux/fs.h>
#include <linux/kvm_types.h>

/* @device_fops: the file operations of the device's files, whose private_data is a choice */
void vpmu_attach_init(const struct file_operations *device_fops);

/* No hook and no file of the device is left. */
void vpmu_attach_forget_all(void);

/**
 * vpmu_attach_wanted() - is a PMU of this module wanted for a vCPU that is going to be created?
 * @kvm: its VM
 *
 * The answer is the same for all vCPUs of a VM.
 *
 * Return: 1, 0 for no, or -ENOMEM.
 */
int vpmu_attach_wanted(struct kvm *kvm);

/**
 * vpmu_attach_choose() - decide for a VM that has no vCPU yet
 * @kvm: the VM; the caller holds a reference
 * @attach: KVM_VPMU_ATTACH_...
 *
 * Return: 0, -EBUSY: the VM has a vCPU, or -ENOMEM.
 */
int vpmu_attach_choose(struct kvm *kvm, u32 attach);

/* The same for all VMs, without a choice of their own, of the processes that have @file open */
void vpmu_attach_choose_by_file(struct file *file, u32 attach);

/* The VM is freed: another one may get its address.  Called by an ftrace handler; doesn't sleep. */
void vpmu_attach_forget(struct kvm *kvm);

#endif
