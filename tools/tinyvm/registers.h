/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The registers of a guest's PMU: AMD's or Intel's, as the host's CPU is.  Include vm.h first. */
#ifndef TINYVM_REGISTERS_H
#define TINYVM_REGISTERS_H

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
#define INTEL_SELECT0		0x186
#define INTEL_COUNTER0		0x4c1	/* with all bits */
#define INTEL_COUNTER0_LOW	0x0c1	/* the same by its older number */
#define INTEL_FIXED0		0x309
#define INTEL_FIXED_CONTROL	0x38d
#define INTEL_STATUS		0x38e
#define INTEL_CONTROL		0x38f
#define INTEL_STATUS_RESET	0x390
#define MAX_INTEL		8
#define MAX_FIXED		3

/* Both have these two. */
#define GLOBAL_STATUS	(on_intel() ? INTEL_STATUS : AMD_STATUS)
#define GLOBAL_CONTROL	(on_intel() ? INTEL_CONTROL : AMD_CONTROL)

/* General counters come first, then fixed ones. */
#define MOST_COUNTERS	(MAX_INTEL + MAX_FIXED)

/* What the guest's CPUID offers; @nr: general counters */
struct pmu {
	unsigned int nr, fixed;
	bool v2;	/* the two above */
	uint32_t select, counter, stride;
};

/* All 0 if there is none */
struct kvm_cpuid_entry2 cpuid_of(const struct vm *vm, uint32_t leaf);

struct pmu pmu_of(const struct vm *vm);

/* The module's parameter intel_version: the version that guests see, 0 for that of their CPUID */
unsigned int intel_version(void);

/* All counters, with fixed ones */
static inline unsigned int nr_counters(struct pmu pmu)
{
	return pmu.nr + pmu.fixed;
}

static inline uint32_t counter_msr(struct pmu pmu, unsigned int i)
{
	return i < pmu.nr ? pmu.counter + i * pmu.stride : INTEL_FIXED0 + i - pmu.nr;
}

/* Counter @i's bit in the global registers */
static inline uint64_t counter_bit(struct pmu pmu, unsigned int i)
{
	return i < pmu.nr ? 1ull << i : 1ull << (32 + i - pmu.nr);
}

static inline uint64_t counter_bits(struct pmu pmu)
{
	return ((1ull << pmu.nr) - 1) | ((1ull << pmu.fixed) - 1) << 32;
}

/* General counters are on at reset, fixed ones aren't: SDM vol. 3, "Processor State After Reset". */
struct pmu enabled_pmu(struct vm *vm);

#endif
