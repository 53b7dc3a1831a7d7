/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The physical counters of the CPU this runs on.  The only place that reads
 * or writes PMU MSRs.  Knows nothing of guests.
 *
 * Everything here is safe in NMI context.  Callers make sure that they stay on
 * their CPU.
 */
#ifndef VPMU_HW_H
#define VPMU_HW_H

#include "../types.h"

/* What host perf had on a counter that a guest borrows. */
struct hw_saved {
	u64 select;
	u64 value;
};

/**
 * struct hw_ops - a vendor's counters
 * @name: for messages
 * @nr: number of counters
 * @entry_counts: a VM entry counts as one retired instruction and one retired
 *	branch in guest context
 * @in_use: does somebody else (host perf) run counter @i?
 * @read: read counter @i (48 bits)
 * @start: load @value and count what the guest's event select @select says,
 *	in guest mode only
 * @rewrite: change the value of a counter that @start has started
 * @stop: stop counter @i and give it up
 * @ack: forget the overflow of the counters in @mask
 * @borrow: stop counter @i and remember what was on it
 * @give_back: stop counter @i and let what was on it go on
 * @hold_nmis: no NMI from here on, until @release_nmis or the VM exit
 * @release_nmis: the opposite
 */
struct hw_ops {
	const char *name;
	unsigned int nr;
	bool entry_counts;
	bool (*in_use)(unsigned int i);
	u64 (*read)(unsigned int i);
	void (*start)(unsigned int i, u64 select, u64 value);
	void (*rewrite)(unsigned int i, u64 value);
	void (*stop)(unsigned int i);
	void (*ack)(u64 mask);
	void (*borrow)(unsigned int i, struct hw_saved *saved);
	void (*give_back)(unsigned int i, const struct hw_saved *saved);
	void (*hold_nmis)(void);
	void (*release_nmis)(void);
};

/* The ops of this machine; NULL and a message if it has none that we know. */
const struct hw_ops *hw_probe(void);
const struct hw_ops *hw_amd_probe(void);

/* MSR accesses by this module on all CPUs since it was loaded. */
struct hw_accesses {
	u64 rdmsr;
	u64 wrmsr;
	u64 rdpmc;
};

struct hw_accesses hw_accesses(void);

#endif
