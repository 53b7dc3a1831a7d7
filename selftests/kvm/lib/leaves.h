/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU's CPUID, to be changed. */
#ifndef LEAVES_H
#define LEAVES_H

#include "guests.h"

struct cpuid {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entries[256];
};

static inline struct kvm_cpuid_entry2 *leaf(struct cpuid *cpuid, uint32_t function)
{
	for (unsigned int i = 0; i < cpuid->head.nent; i++)
		if (cpuid->entries[i].function == function)
			return &cpuid->entries[i];
	errx(1, "no leaf %#x", function);
}

static inline int set_cpuid(struct vm *vm, struct cpuid *cpuid)
{
	return ioctl(vm->vcpu, KVM_SET_CPUID2, cpuid) ? errno : 0;
}

/*
 * @left are left of the general counters, and no fixed ones.  SDM vol. 2, "CPUID", leaf 0AH: EAX[15:8], EDX[4:0];
 * APM vol. 3, appendix E, function 8000_0022h: EBX[3:0]
 */
static inline void take_counters(struct cpuid *cpuid, unsigned int left)
{
	if (on_intel()) {
		leaf(cpuid, 10)->eax = (leaf(cpuid, 10)->eax & ~0xff00u) | left << 8;
		leaf(cpuid, 10)->edx &= ~0x1fu;
	} else {
		leaf(cpuid, 0x80000022)->ebx = (leaf(cpuid, 0x80000022)->ebx & ~0xfu) | left;
	}
}

#endif
