/* SPDX-License-Identifier: GPL-2.0 */
/* Does a VM entry count as an instruction of the guest?  The first entries of VMs are measured. */
#ifndef VPMU_MEASURE_H
#define VPMU_MEASURE_H

#include "vpmu.h"

/* Before hooks are chosen: the module's parameter may say whether entries count. */
void vpmu_measure_init(void);

/* What vpmu_hot.slow of a new vCPU is: VPMU_SLOW_MEASURE, VPMU_SLOW_UNCOUNTED or 0 */
u32 vpmu_measure_new_vcpu(void);

/**
 * vpmu_measure_settled() - is it known by now whether entries count?
 * @vv: the vCPU, with VPMU_SLOW_MEASURE; interrupts are off
 *
 * If it is, the bit is cleared, and so is what was tallied for entries that didn't count.
 *
 * Return: true if it is; physical counters have to be armed again then.
 */
bool vpmu_measure_settled(struct vpmu_vcpu *vv);

/**
 * vpmu_measure_begin() - measure the coming VM entry
 * @vv: the vCPU, with VPMU_SLOW_MEASURE; interrupts are off until vpmu_measure_end()
 *
 * Return: whether vpmu_measure_end() has to be called behind the VM exit.  No if no physical
 * counter is free, if the guest's RIP can't be read, or if an interrupt ended the last stay in
 * guest mode.
 */
bool vpmu_measure_begin(struct vpmu_vcpu *vv);
void vpmu_measure_end(struct vpmu_vcpu *vv);

#endif
