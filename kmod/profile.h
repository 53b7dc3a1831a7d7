/* SPDX-License-Identifier: GPL-2.0 */
/* Profiles of the host and its guests: uapi/linux/kvm_vpmu_profile.h describes them. */
#ifndef VPMU_PROFILE_H
#define VPMU_PROFILE_H

#include <linux/jump_label.h>

#include "vpmu.h"

/* Is there any profile? */
DECLARE_STATIC_KEY_FALSE(vpmu_profiling);

/* vpmu_sched_load() and vpmu_sched_put(), and the switch's record */
void vpmu_profile_load(struct vpmu_vcpu *vv);
void vpmu_profile_put(struct vpmu_vcpu *vv);

/* The thread of this vCPU is woken; in any context. */
void vpmu_profile_wakes(struct kvm_vcpu *vcpu);

/* Before a VM entry, if KVM_REQ_PMU was made: record the stack of a sample that wants it. */
void vpmu_profile_stack(struct vpmu_vcpu *vv);

/* KVM_VPMU_PROFILE.  Return: a file descriptor or an error. */
long vpmu_profile_open(const void __user *arg);

#endif
