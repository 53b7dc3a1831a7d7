/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Accesses to PMU registers, by the guest (intercepted) and by userspace (KVM_GET_MSRS,
 * KVM_SET_MSRS).  stubs.S calls these in place of kvm_pmu_is_valid_msr(), kvm_pmu_get_msr(),
 * kvm_pmu_set_msr() and kvm_pmu_rdpmc(); as with those, 0 is success and 1 is #GP.
 */
#ifndef VPMU_MSR_H
#define VPMU_MSR_H

#include "vpmu.h"

bool vpmu_msr_valid(struct vpmu_vcpu *vv, u32 msr);
int vpmu_msr_read(struct vpmu_vcpu *vv, struct msr_data *msr);
int vpmu_msr_write(struct vpmu_vcpu *vv, struct msr_data *msr);
int vpmu_rdpmc(struct vpmu_vcpu *vv, u32 index, u64 *data);

/*
 * The same by the guest only, for fast.c.
 *
 * Return: false if it would be #GP; nothing has happened then.
 */
bool vpmu_msr_read_fast(struct vpmu_vcpu *vv, u32 msr, u64 *data);
bool vpmu_msr_write_fast(struct vpmu_vcpu *vv, u32 msr, u64 data);
bool vpmu_rdpmc_fast(struct vpmu_vcpu *vv, u32 index, u64 *data);

#endif
