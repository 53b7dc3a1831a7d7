/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System management mode.  Include vm.h first. */
#ifndef SELFTESTS_SMM_H
#define SELFTESTS_SMM_H

#include <stdint.h>
#include <string.h>

/* APM vol. 2, "SMM Resources": SMBASE at reset, and the handler there */
#define SMM_CODE	0x38000

/*
 * SMM has an address space of its own.  Make it the same as the other one, of @size bytes, and put the
 * handler there.
 */
static inline void handle_smis(const struct vm *vm, size_t size, const char *start, const char *end)
{
	struct kvm_userspace_memory_region region = {
		.slot = 1 << 16, .memory_size = size, .userspace_addr = (uintptr_t)vm->memory,
	};

	IOCTL(vm->fd, KVM_SET_USER_MEMORY_REGION, &region);
	memcpy(vm->memory + SMM_CODE, start, end - start);
}

#endif
