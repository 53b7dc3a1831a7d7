/* SPDX-License-Identifier: GPL-2.0 */
/* Accesses to PMU registers by the guest, completed behind the VM exit. */
#ifndef VPMU_FAST_H
#define VPMU_FAST_H

#include "vpmu.h"

/**
 * vpmu_fast_exit() - complete the instruction that the guest exited by, if that was an access
 * @vv: the vCPU, with vpmu_watching(); interrupts are off since before the VM entry
 * @result: what KVM's svm_vcpu_run() or vmx_vcpu_run() returned
 *
 * Return: EXIT_FASTPATH_REENTER_GUEST if it was completed, else @result.
 */
fastpath_t vpmu_fast_exit(struct vpmu_vcpu *vv, fastpath_t result);

#endif
