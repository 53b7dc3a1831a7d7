// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * To be preloaded: makes /dev/kvm-vpmu say that it is of version OLD_ABI, or 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>

#include <linux/kvm_vpmu.h>

int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, void *) = dlsym(RTLD_NEXT, "ioctl");
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	result = real(fd, request, argument);
	if (!result && request == KVM_VPMU_GET_INFO) {
		const char *abi = getenv("OLD_ABI");

		((struct kvm_vpmu_info *)argument)->abi = abi ? atoi(abi) : 1;
	}
	return result;
}
