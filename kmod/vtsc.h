/* SPDX-License-Identifier: GPL-2.0 */
/* A guest TSC that stops while the vCPU is descheduled (KVM_VPMU_TSC_VCPU). */
#ifndef VPMU_VTSC_H
#define VPMU_VTSC_H

#include "vpmu.h"

/* Return: -EOPNOTSUPP if @tsc is a KVM_VPMU_TSC_... for which this host's TSC isn't fit, else 0. */
int vpmu_vtsc_refuse(u32 tsc);

/**
 * vpmu_vtsc_set() - choose the VM's kind of TSC
 * @vm: the VM; under vpmu_vms_lock
 * @tsc: KVM_VPMU_TSC_...
 *
 * Return: 0, or -EOPNOTSUPP: the host's TSC isn't the same on all CPUs, or the guest's has another
 * frequency.
 */
int vpmu_vtsc_set(struct vpmu_vm *vm, u32 tsc);

/* Before anything else that vcpu_put does */
void vpmu_vtsc_put(struct vpmu_vcpu *vv);

/* Before KVM's own part of vcpu_load.  Return the ticks that were taken out of the TSC. */
u64 vpmu_vtsc_load(struct vpmu_vcpu *vv);

#endif
