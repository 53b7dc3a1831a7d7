/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the module says of a vCPU.  Include vm.h first. */
#ifndef SELFTESTS_FIGURES_H
#define SELFTESTS_FIGURES_H

#include <linux/kvm_vpmu.h>

/* @device: /dev/kvm-vpmu; of the first vCPU of @vm */
static inline struct kvm_vpmu_vcpu figures(int device, const struct vm *vm)
{
	struct kvm_vpmu_vcpu v = { .fd = vm->fd };

	IOCTL(device, KVM_VPMU_GET_VCPU, &v);
	return v;
}

#endif
