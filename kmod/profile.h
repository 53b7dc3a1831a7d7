/* SPDX-License-Identifier: GPL-2.0 */
/* Profiles of the host and its guests: uapi/linux/kvm_vpmu_profile.h describes them. */
#ifndef VPMU_PROFILE_H
#define VPMU_PROFILE_H

#include <linux/jump_label.h>

#include "vpmu.h"

/* Is there any profile?  Only then the two below are to be called. */
DECLARE_STATIC_KEY_FALSE(vpmu_profiling);

/* The vCPU has been loaded, or put, on this CPU; preemption is off. */
void vpmu_profile_load(struct vpmu_vcpu *vv);
void vpmu_profile_put(struct vpmu_vcpu *vv);

/* KVM_VPMU_PROFILE.  Return: a file descriptor or an error. */
long vpmu_profile_open(const void __user *arg);

#endif
