/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The registers of a guest's PMU: AMD's or Intel's, as the host's CPU is.  Include vm.h first. */
#ifndef SELFTESTS_REGISTERS_H
#define SELFTESTS_REGISTERS_H

/* AMD APM vol. 2, "Performance Monitoring Counters" */
#define LEGACY_SELECT0	0xc0010000
#define LEGACY_COUNTER0	0xc0010004
#define CORE_SELECT0	0xc0010200
#define CORE_COUNTER0	0xc0010201
#define AMD_STATUS	0xc0000300
#define AMD_CONTROL	0xc0000301
#define STATUS_CLEAR	0xc0000302
#define STATUS_SET	0xc0000303
#define NR_LEGACY	4
#define NR_CORE		6

/* SDM vol. 4, "Architectural MSRs" */
#define INTEL_SELECT0	0x186
#define INTEL_COUNTER0	0x4c1	/* with all bits */

/* Both have these two. */
#define GLOBAL_STATUS	(on_intel() ? 0x38e : AMD_STATUS)
#define GLOBAL_CONTROL	(on_intel() ? 0x38f : AMD_CONTROL)

/* What the guest's CPUID offers; general counters only */
struct pmu {
	unsigned int nr;
	bool v2;	/* the two above */
	uint32_t select, counter, stride;
};

static inline struct pmu pmu_of(const struct vm *vm)
{
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + 256 * sizeof(cpuid->entries[0]));
	struct pmu pmu = { NR_LEGACY, false, LEGACY_SELECT0, LEGACY_COUNTER0, 1 };

	cpuid->nent = 256;
	IOCTL(vm->vcpu, KVM_GET_CPUID2, cpuid);
	for (unsigned int i = 0; i < cpuid->nent; i++) {
		const struct kvm_cpuid_entry2 *e = &cpuid->entries[i];

		if (e->function == 0x80000001 && (e->ecx & (1 << 23)))
			pmu = (struct pmu){ NR_CORE, pmu.v2, CORE_SELECT0, CORE_COUNTER0, 2 };
		if (e->function == 0x80000022 && (e->eax & 1))
			pmu.v2 = true;
		if (e->function == 0xa && on_intel())
			pmu = (struct pmu){ e->eax >> 8 & 0xff, true, INTEL_SELECT0,
					    INTEL_COUNTER0, 1 };
	}
	free(cpuid);
	return pmu;
}

#endif
