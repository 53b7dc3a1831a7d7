/* SPDX-License-Identifier: GPL-2.0 */
/* Who observes the hypervisor's events of which VM (KVM_VPMU_EVENTS_OBSERVE of uapi). */
#ifndef VPMU_OBSERVE_H
#define VPMU_OBSERVE_H

#include "vpmu.h"

/**
 * vpmu_observe() - count all of a VM's events, until vpmu_observe_end()
 * @vm: the VM; under vpmu_vms_lock
 * @who: an open file of the device, or a profile, which may observe the VM already
 *
 * Return: 0 or -ENOMEM.
 */
int vpmu_observe(struct vpmu_vm *vm, const void *who);

/* @who, who observes any number of VMs, ends. */
void vpmu_observe_end(const void *who);

/* The same for all VMs, those to come included, from one call to the other */
void vpmu_observe_all(void);
void vpmu_observe_all_end(void);

#endif
