// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * To be preloaded: KVM takes no value but 0 for an event select of AMD's core extension.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>

#include <linux/kvm.h>

#define CORE_SELECT0	0xc0010200
#define NR_CORE		6

int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, void *) = dlsym(RTLD_NEXT, "ioctl");
	struct kvm_msrs *msrs;
	va_list arguments;
	void *argument;
	__u32 i;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (request == KVM_SET_MSRS) {
		msrs = argument;
		/* As KVM does, return how many came before. */
		for (i = 0; i < msrs->nmsrs; i++) {
			const struct kvm_msr_entry *e = &msrs->entries[i];

			if (e->index >= CORE_SELECT0 && e->index < CORE_SELECT0 + 2 * NR_CORE &&
			    !(e->index & 1) && e->data)
				return i;
		}
	}
	return real(fd, request, argument);
}
