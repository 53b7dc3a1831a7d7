/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VMs that choose a PMU, or none: KVM_VPMU_ATTACH of include/uapi/linux/kvm_vpmu.h */
#ifndef SELFTESTS_CHOICES_H
#define SELFTESTS_CHOICES_H

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/kvm.h>
#include <linux/kvm_vpmu.h>

/* One without vCPUs */
static inline int new_vm(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = ioctl(kvm, KVM_CREATE_VM, 0);

	if (vm < 0)
		err(1, "KVM_CREATE_VM");
	close(kvm);
	return vm;
}

static inline int new_vcpu(int vm, int id)
{
	int vcpu = ioctl(vm, KVM_CREATE_VCPU, id);

	if (vcpu < 0)
		err(1, "KVM_CREATE_VCPU");
	return vcpu;
}

/* By file @fd of the device, for @vm; or, if that is -1, for what the process creates.  Return: 0 or the error */
static inline int choose(int fd, int vm, uint32_t attach)
{
	struct kvm_vpmu_attach a = { .fd = vm, .attach = attach };

	return ioctl(fd, KVM_VPMU_ATTACH, &a) ? errno : 0;
}

#endif
