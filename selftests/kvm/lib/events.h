/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hypervisor's events: include/uapi/linux/kvm_vpmu.h */
#ifndef SELFTESTS_EVENTS_H
#define SELFTESTS_EVENTS_H

#include <linux/kvm_vpmu.h>

#include "vm.h"

/* The event select of unit mask @mask, without USR, OS and EN */
static inline uint64_t event(unsigned int mask)
{
	return (on_intel() ? KVM_VPMU_EVENT_INTEL : KVM_VPMU_EVENT_AMD) | mask << 8;
}

/* Can @vm's guest count them (KVM_VPMU_EVENTS_...)?  Return: as ioctl(); @device: /dev/kvm-vpmu */
static inline int set_events(int device, const struct vm *vm, unsigned int on)
{
	struct kvm_vpmu_settings s = {
		.fd = vm->fd, .fields = KVM_VPMU_SET_EVENTS, .events = on,
	};

	return ioctl(device, KVM_VPMU_SET, &s);
}

/* The host's view of @vm's first vCPU; counts all from now on, and until @device is closed. */
static inline struct kvm_vpmu_events observe(int device, const struct vm *vm)
{
	struct kvm_vpmu_events e = { .fd = vm->fd, .flags = KVM_VPMU_EVENTS_OBSERVE };

	IOCTL(device, KVM_VPMU_GET_EVENTS, &e);
	return e;
}

#endif
