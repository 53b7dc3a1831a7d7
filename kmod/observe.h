/* SPDX-License-Identifier: GPL-2.0 */
/* Who observes the hypervisor's events of which VM (KVM_VPMU_EVENTS_OBSERVE of uapi). */
#ifndef VPMU_OBSERVE_H
#define VPMU_OBSERVE_H

#include "vpmu.h"

/**
 * vpmu_observe() - count all of a VM's events, until a file is closed
 * @vm: the VM; under vpmu_vms_lock
 * @file: an open file of the device, which may observe the VM already
 *
 * Return: 0 or -ENOMEM.
 */
int vpmu_observe(struct vpmu_vm *vm, const struct file *file);

/* @file, which observes any number of VMs, is closed. */
void vpmu_observe_end(const struct file *file);

#endif
