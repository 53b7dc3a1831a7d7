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
	bool overflowed;
};

/**
 * struct hw_ops - a vendor's counters
 * @name: for messages
 * @nr: number of counters
 * @entry_counts: a VM entry counts as one retired instruction and one retired
 *	branch in guest context
 * @tsc_unscaled: TSC scaling ratio of a guest whose TSC is as fast as the host's
 * @in_use: does somebody else (host perf) run counter @i?
 * @read: read counter @i (48 bits)
 * @write: change the value of counter @i, which may be running
 * @prepare: counters of this CPU are going to be started
 * @start: count what the guest's event select @select says, in guest mode and,
 *	if @in_host, in host mode too
 * @halt: stop counter @i; it keeps its value
 * @ack: forget the overflow of the counters in @mask
 * @borrow: stop counter @i and remember what was on it
 * @give_back: stop counter @i and let what was on it go on
 * @hold_nmis: no NMI from here on, until @release_nmis or the VM exit
 * @release_nmis: the opposite
 * @pause: no counter of this CPU counts until @resume, where the CPU has a
 *	switch for all of them; returns what @resume wants
 */
struct hw_ops {
	const char *name;
	unsigned int nr;
	bool entry_counts;
	u64 tsc_unscaled;
	bool (*in_use)(unsigned int i);
	u64 (*read)(unsigned int i);
	void (*write)(unsigned int i, u64 value);
	void (*prepare)(void);
	void (*start)(unsigned int i, u64 select, bool in_host);
	void (*halt)(unsigned int i);
	void (*ack)(u64 mask);
	void (*borrow)(unsigned int i, struct hw_saved *saved);
	void (*give_back)(unsigned int i, const struct hw_saved *saved);
	void (*hold_nmis)(void);
	void (*release_nmis)(void);
	u64 (*pause)(void);
	void (*resume)(u64 paused);
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
