/* SPDX-License-Identifier: GPL-2.0 */
/* Who observes the hypervisor's events of which VM (KVM_VPMU_EVENTS_OBSERVE of uapi). */
#ifndef VPMU_OBSERVE_H
#define VPMU_OBSERVE_H

#include "vpmu.h"

/**
 * vpmu_observe() - count a VM's events, until vpmu_observe_end()
 * @vm: the VM; under vpmu_vms_lock
 * @who: an open file of the device, or a profile, which may observe the VM already, for the same
 * @what: which events
 *
 * Return: 0 or -ENOMEM.
 */
int vpmu_observe(struct vpmu_vm *vm, const void *who, enum vpmu_observed what);

/* @who, who observes any number of VMs, ends. */
void vpmu_observe_end(const void *who);

/* VPMU_OBSERVE_TIME for all VMs, those to come included, from one call to the other */
void vpmu_observe_all(void);
void vpmu_observe_all_end(void);

#endif
