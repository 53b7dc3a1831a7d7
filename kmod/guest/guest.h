/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The PMU registers that a guest sees: which MSRs exist, what a write keeps,
 * what a counter counts.  Knows nothing of physical counters.
 *
 * This file and its implementations are pure and are compiled in user space
 * too.
 */
#ifndef VPMU_GUEST_H
#define VPMU_GUEST_H

#include "../types.h"
#include "../count.h"

enum guest_set {
	GUEST_NONE,		/* no PMU */
	GUEST_AMD_LEGACY,	/* 4 counters, K7 MSRs */
	GUEST_AMD_CORE,		/* 6 counters, core extension */
	GUEST_AMD_V2,		/* PerfMonV2: global control and status */
};

enum guest_reg_kind {
	GUEST_REG_NONE,		/* not a register of this set: #GP */
	GUEST_REG_SELECT,
	GUEST_REG_COUNTER,
	GUEST_REG_STATUS,
	GUEST_REG_CONTROL,
	GUEST_REG_STATUS_CLEAR,
	GUEST_REG_STATUS_SET,
};

struct guest_reg {
	enum guest_reg_kind kind;
	unsigned int index;	/* of the counter, for SELECT and COUNTER */
};

/**
 * struct guest_pmu - the registers of one vCPU
 * @set: which register set
 * @nr: number of counters, at most VPMU_MAX_COUNTERS; none with GUEST_NONE
 * @select: event selects, without reserved bits
 * @value: counters, 48 bits; valid when not running on a physical counter
 * @control: global control (PerfMonV2), all counters' bits set otherwise
 * @status: global overflow status (PerfMonV2)
 */
struct guest_pmu {
	enum guest_set set;
	unsigned int nr;
	u64 select[VPMU_MAX_COUNTERS];
	u64 value[VPMU_MAX_COUNTERS];
	u64 control;
	u64 status;
};

/* Give @pmu the registers of @set with @nr counters, in their reset state. */
void guest_reset(struct guest_pmu *pmu, enum guest_set set, unsigned int nr);

/* Which register, if any, is MSR @msr? */
struct guest_reg guest_decode(const struct guest_pmu *pmu, u32 msr);

/* Is @index (ECX of RDPMC) a counter? */
bool guest_rdpmc_valid(const struct guest_pmu *pmu, u32 index);

/* All counters, as bits of control and status. */
u64 guest_counter_mask(const struct guest_pmu *pmu);

/* The bits of @data that an event select keeps. */
u64 guest_select_bits(u64 data);

/* Does counter @i run? */
bool guest_counting(const struct guest_pmu *pmu, unsigned int i);

/* Does counter @i ask for an interrupt when it overflows? */
bool guest_interrupts(const struct guest_pmu *pmu, unsigned int i);

/* What counter @i counts, and in which privilege levels (VPMU_IN_...). */
enum vpmu_class guest_class(const struct guest_pmu *pmu, unsigned int i);
unsigned int guest_filter(const struct guest_pmu *pmu, unsigned int i);

/*
 * Does counter @i count what the CPU does (cycles, cache misses...) rather than
 * what the guest's program did (retired instructions, branches...)?  The
 * former goes on while KVM works for the guest, in freeze mode "hybrid".
 */
bool guest_speculative(const struct guest_pmu *pmu, unsigned int i);

#endif
