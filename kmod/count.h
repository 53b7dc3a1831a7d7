/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arithmetic of one guest counter that runs on a physical one.
 *
 * A physical counter differs from what the guest's counter must read:
 *
 *  - hardware counts events that the guest didn't cause: AMD CPUs count each VMRUN in guest
 *    context, as one retired instruction and one retired branch at the guest's privilege level
 *    (commit 89126fa4 in kvm-unit-tests, "x86: pmu: Improve instruction and branches events
 *    verification");
 *  - the guest caused events that hardware didn't count: instructions that exited and that KVM
 *    emulated.
 *
 * The difference is tallied per vCPU, class of events and privilege level, whatever is being
 * counted.  Each counter keeps the tally as of its last synchronization.  So the hot paths touch no
 * counter and no MSR.
 *
 * This file is pure arithmetic and is compiled in user space too.
 */
#ifndef VPMU_COUNT_H
#define VPMU_COUNT_H

#include "types.h"

/* Width of AMD's counters (APM vol. 2, "Performance Counter MSRs"), and of Intel's today */
#define VPMU_COUNTER_BITS	48
#define VPMU_COUNTER_MASK	(BIT_ULL(VPMU_COUNTER_BITS) - 1)

/* The most counters that any supported PMU has: 8 general and 3 fixed ones, and one to spare */
#define VPMU_MAX_COUNTERS	12

/* How VM entries and emulation affect an event */
enum vpmu_class {
	VPMU_OTHER,	/* neither: cycles, cache, TLB ... */
	VPMU_INSTRUCTION,	/* retired instructions */
	VPMU_BRANCH,		/* retired branches */
	VPMU_NR_CLASSES
};

/* Privilege levels that event selects distinguish */
#define VPMU_KERNEL		0	/* CPL 0 */
#define VPMU_USER		1	/* any other CPL */
#define VPMU_NR_LEVELS		2

/* A counter's filter: the levels that it counts in */
#define VPMU_IN_KERNEL		BIT(VPMU_KERNEL)
#define VPMU_IN_USER		BIT(VPMU_USER)

/**
 * struct vpmu_tally - events that hardware counted and the guest didn't cause, minus the opposite
 * @surplus: by class and level; [VPMU_OTHER] stays 0
 */
struct vpmu_tally {
	s64 surplus[VPMU_NR_CLASSES][VPMU_NR_LEVELS];
};

/**
 * struct vpmu_count - one guest counter on a physical counter
 * @class: which tally applies to it
 * @filter: mask of VPMU_IN_KERNEL and VPMU_IN_USER
 * @hw: the physical counter at the last synchronization
 * @surplus: the tally for @class then, in @filter
 * @ahead: physical minus guest value then, never negative once the guest runs: a physical counter
 *	that lags would overflow too late, one that leads only causes an early NMI
 */
struct vpmu_count {
	enum vpmu_class class;
	unsigned int filter;
	u64 hw;
	s64 surplus;
	s64 ahead;
};

/* A VM entry at @level, which hardware counts as an instruction and a branch */
static inline void vpmu_tally_entry(struct vpmu_tally *t, int level)
{
	t->surplus[VPMU_INSTRUCTION][level]++;
	t->surplus[VPMU_BRANCH][level]++;
}

/* KVM emulated an event of @class for the guest, at @level. */
static inline void vpmu_tally_emulated(struct vpmu_tally *t, enum vpmu_class class,
				       int level)
{
	t->surplus[class][level]--;
}

static inline s64 vpmu_count_surplus(const struct vpmu_count *c,
				     const struct vpmu_tally *t)
{
	const s64 *surplus = t->surplus[c->class];
	s64 sum = 0;

	/* VPMU_OTHER's is 0. */
	if (c->filter & VPMU_IN_KERNEL)
		sum += surplus[VPMU_KERNEL];
	if (c->filter & VPMU_IN_USER)
		sum += surplus[VPMU_USER];
	return sum;
}

/* vpmu_count_arm() right behind vpmu_count_sync() */
static inline u64 vpmu_count_arm_synced(struct vpmu_count *c, u64 value, int bias)
{
	/*
	 * Not below 0, which would be just before an overflow.  The physical counter is ahead then,
	 * which is harmless so far from overflow.
	 */
	if (bias > 0 && value < (u64)bias)
		bias = 0;
	c->ahead = -bias;
	c->hw = (value - bias) & VPMU_COUNTER_MASK;
	return c->hw;
}

/**
 * vpmu_count_arm() - choose the physical value for a guest value
 * @c: the counter
 * @t: the vCPU's tally
 * @value: the guest's value
 * @bias: how many events the physical counter is about to count and the guest isn't (the next VM
 *	entry), minus those that are about to be added in software (the instruction being
 *	emulated), or may be
 *
 * Return: what to write to the physical counter.
 */
static inline u64 vpmu_count_arm(struct vpmu_count *c, const struct vpmu_tally *t,
				 u64 value, int bias)
{
	c->surplus = vpmu_count_surplus(c, t);
	return vpmu_count_arm_synced(c, value, bias);
}

/**
 * vpmu_count_sync() - what the guest's counter gained since the last synchronization
 * @c: the counter
 * @t: the vCPU's tally
 * @hw: the physical counter now
 *
 * Return: the gain.  If negative, hardware didn't count VM entries that are in the tally: the
 * caller reports that.
 */
static inline s64 vpmu_count_sync(struct vpmu_count *c, const struct vpmu_tally *t,
				  u64 hw)
{
	u64 counted = (hw - c->hw) & VPMU_COUNTER_MASK;
	s64 now = vpmu_count_surplus(c, t);
	s64 surplus = now - c->surplus;

	c->hw = hw;
	c->surplus = now;
	c->ahead += surplus;
	return (s64)counted - surplus;
}

/**
 * vpmu_count_headroom() - by how much is the physical counter ahead of the guest's?
 * @c: the counter
 * @t: the vCPU's tally
 * @next_entry: what the coming VM entry will add to the physical counter
 *
 * Return: as many events; negative: it would overflow too late.
 */
static inline s64 vpmu_count_headroom(const struct vpmu_count *c,
				      const struct vpmu_tally *t, int next_entry)
{
	return c->ahead + vpmu_count_surplus(c, t) - c->surplus + next_entry;
}

/**
 * vpmu_count_fall_back() - let the physical counter overflow later
 * @c: the counter
 * @hw: the physical counter now, and what to write to it
 * @by: by how many events, above 0
 *
 * Return: whether that can be done: not below 0, and not if it has overflowed.
 */
static inline bool vpmu_count_fall_back(struct vpmu_count *c, u64 *hw, s64 by)
{
	if (*hw < c->hw || c->hw < (u64)by)
		return false;
	c->hw -= by;
	c->ahead -= by;
	*hw -= by;
	return true;
}

/**
 * vpmu_count_add() - add to a guest's counter
 * @value: the counter, below 2^48
 * @gain: what to add; negative gains are taken as none
 *
 * Return: whether the counter overflowed.
 */
static inline bool vpmu_count_add(u64 *value, s64 gain)
{
	u64 sum = *value + (gain > 0 ? (u64)gain : 0);

	*value = sum & VPMU_COUNTER_MASK;
	return sum > VPMU_COUNTER_MASK;
}

/* Did a physical counter overflow since @c was synchronized? */
static inline bool vpmu_count_wrapped(const struct vpmu_count *c, u64 hw)
{
	return hw < c->hw;
}

#endif
