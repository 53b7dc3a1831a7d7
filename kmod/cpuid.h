/* SPDX-License-Identifier: GPL-2.0 */
/* The PMU that the guest's CPUID enumerates. */
#ifndef VPMU_CPUID_H
#define VPMU_CPUID_H

#include "vpmu.h"

/*
 * The PMU of the guest's CPUID.  Intel: with the module parameter intel_version, that version
 * replaces the one in leaf 0AH; @own keeps the leaf as userspace has set it.
 */
struct guest_config vpmu_cpuid_config(struct kvm_vcpu *vcpu, struct vpmu_leaf *own);

/*
 * Put userspace's leaf 0AH back while userspace gets or sets the CPUID, and replace it again.  Once
 * a vCPU has run, KVM accepts only the same CPUID again (kvm_cpuid_check_equal()).
 */
void vpmu_cpuid_hide_version(struct kvm_vcpu *vcpu, struct vpmu_leaf *own);
void vpmu_cpuid_show_version(struct kvm_vcpu *vcpu, struct vpmu_leaf *own);

/*
 * Withdraw PEBS and LBRs, which KVM may offer and this module doesn't.  Before KVM's
 * kvm_pmu_refresh(), which decides by these whether the guest gets LBRs.
 */
void vpmu_cpuid_limit_capabilities(struct kvm_vcpu *vcpu);

#endif
