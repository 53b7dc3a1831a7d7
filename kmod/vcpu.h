/* SPDX-License-Identifier: GPL-2.0 */
/* VMs and vCPUs that have a virtual PMU of this module. */
#ifndef VPMU_VCPU_H
#define VPMU_VCPU_H

#include "vpmu.h"

/**
 * vpmu_find() - the object of a vCPU
 * @vcpu: KVM's vCPU, which the caller keeps from being freed
 *
 * Safe in any context but NMI.
 *
 * Return: the object, or NULL: the VM has no PMU of this module.
 */
struct vpmu_vcpu *vpmu_find(struct kvm_vcpu *vcpu);

/* A VM by its number, or by its file of KVM's; under vpmu_vms_lock.  NULL: none of this module */
struct vpmu_vm *vpmu_find_vm(u64 id);
struct vpmu_vm *vpmu_find_vm_by_file(const struct file *file);

/*
 * Let @vm's vCPUs look at their settings before they execute another instruction; under
 * vpmu_vms_lock.
 */
void vpmu_vm_kick(struct vpmu_vm *vm);

/* The same of one vCPU, which the caller keeps from being freed */
void vpmu_vcpu_kick(struct kvm_vcpu *vcpu);

/* An object for a vCPU that is going to be created, or NULL: no memory */
struct vpmu_vcpu *vpmu_vcpu_alloc(void);

/* The vCPU wasn't created, or gets no PMU of this module.  @vv may be NULL. */
void vpmu_vcpu_free(struct vpmu_vcpu *vv);

/**
 * vpmu_vcpu_attach() - give a vCPU that was just created its object
 * @vv: from vpmu_vcpu_alloc()
 * @vcpu: KVM's vCPU, which is not loaded, and which no other task can reach yet
 */
void vpmu_vcpu_attach(struct vpmu_vcpu *vv, struct kvm_vcpu *vcpu);

/* The vCPU is about to be freed. */
void vpmu_vcpu_detach(struct kvm_vcpu *vcpu);

/*
 * The guest's CPUID may have changed.  The vCPU hasn't run yet, but userspace may have written its
 * registers before.
 */
void vpmu_vcpu_refresh(struct vpmu_vcpu *vv);

#endif
