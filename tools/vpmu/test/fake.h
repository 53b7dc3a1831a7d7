/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A device for tests: VMs that are just numbers. */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>

#include "device.h"

#define FAKE_VMS	256

/**
 * struct fake - what the device says
 * @info: to KVM_VPMU_GET_INFO
 * @vm: to KVM_VPMU_GET_VMS
 * @vms: how many of these
 * @ended: of which VMs vCPUs aren't found any more
 * @ends: the same from that look on, if not 0
 * @error: what all requests but KVM_VPMU_GET_INFO fail with, if not 0
 * @set_error: what KVM_VPMU_SET, and setting a parameter, fails with, if not 0
 * @set_errors: the same for one VM
 * @looks: KVM_VPMU_GET_VMS so far; all figures grow by that
 * @growing: with each KVM_VPMU_GET_VMS, so many VMs more
 * @set: what KVM_VPMU_SET got last
 * @attach: what KVM_VPMU_ATTACH got last
 * @event_flags: what KVM_VPMU_GET_EVENTS got last
 */
struct fake {
	struct kvm_vpmu_info info;
	struct kvm_vpmu_vm vm[FAKE_VMS];
	unsigned int vms;
	bool ended[FAKE_VMS];
	unsigned int ends[FAKE_VMS];
	int error, set_error, set_errors[FAKE_VMS];
	unsigned int looks;
	unsigned int growing;
	struct kvm_vpmu_settings set;
	struct kvm_vpmu_attach attach;
	__u32 event_flags;
};

/* Numbers that tests expect; those of vCPUs and counters are in fake.c. */
#define FAKE_PID	1000

/* A device with @vms VMs: ids 1.., PIDs FAKE_PID.., of 2 vCPUs. */
void fake_init(struct fake *fake, struct device *dev, unsigned int vms);

#endif
