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
	bool only_in_guest;	/* Intel */
	bool only_in_host;
};

/**
 * struct hw_ops - a vendor's counters
 * @name: for messages
 * @nr: number of counters; general ones come first, then fixed ones
 * @general: number of general counters
 * @masks_interrupt: delivering a counter's interrupt masks the local APIC's entry
 * @entry_counts: a VM entry counts as one retired instruction and one retired
 *	branch in guest context
 * @tsc_unscaled: TSC scaling ratio of a guest whose TSC is as fast as the host's
 * @fits: can counter @i count what @select says?  NULL if all can count everything
 * @pinned: is what @select says countable on certain general counters only?  Then it
 *	belongs on the one that the guest has chosen, by the same rules as host perf
 * @in_use: does somebody else (host perf) run counter @i?
 * @read: read counter @i (48 bits)
 * @write: change the value of counter @i, which may be running
 * @prepare: counters of this CPU are going to be started
 * @start: count what the guest's event select @select says, in guest mode and,
 *	if @in_host, in host mode too
 * @halt: stop counter @i; it keeps its value
 * @overflowed: mask of the counters that may have overflowed; of all where the CPU
 *	doesn't tell
 * @ack: forget the overflow of the counters in @mask
 * @borrow: stop counter @i and remember what was on it
 * @give_back: stop counter @i and let what was on it go on
 * @reassert: host perf has changed something: let what is shared with it say
 *	again that the counters in @mask run; NULL if nothing is
 * @nmi_ended: all handlers of an NMI are through; NULL if nobody has to know
 * @hold_nmis: no NMI that host perf would look at counters for from here on, until
 *	@release_nmis or the VM exit; false if one is on its way, or if NMIs can't be held.
 *	@quiet: mask of the counters that overflow without an NMI
 * @hold_again: an NMI came all the same, for another reason, and its handlers are
 *	through: hold them as before; NULL where none can come
 * @release_nmis: the opposite
 * @returned: the counters in @mask are host perf's again: let them count in host mode
 *	if they did before; NULL where nothing else decides on that
 * @release_before_entry: a VM entry needs that
 * @pause: no counter of this CPU counts until @resume, where the CPU has a
 *	switch for all of them; returns what @resume wants
 */
struct hw_ops {
	const char *name;
	unsigned int nr;
	unsigned int general;
	bool masks_interrupt;
	bool entry_counts;
	u64 tsc_unscaled;
	bool (*fits)(unsigned int i, u64 select);
	bool (*pinned)(u64 select);
	bool (*in_use)(unsigned int i);
	u64 (*read)(unsigned int i);
	void (*write)(unsigned int i, u64 value);
	void (*prepare)(void);
	void (*start)(unsigned int i, u64 select, bool in_host);
	void (*halt)(unsigned int i);
	u64 (*overflowed)(void);
	void (*ack)(u64 mask);
	void (*borrow)(unsigned int i, struct hw_saved *saved);
	void (*give_back)(unsigned int i, const struct hw_saved *saved);
	void (*reassert)(unsigned long mask);
	void (*nmi_ended)(void);
	bool (*hold_nmis)(u64 quiet);
	void (*hold_again)(void);
	void (*release_nmis)(void);
	void (*returned)(u64 mask);
	bool release_before_entry;
	u64 (*pause)(void);
	void (*resume)(u64 paused);
};

/* The ops of this machine; NULL and a message if it has none that we know. */
const struct hw_ops *vpmu_hw_probe(void);
const struct hw_ops *vpmu_hw_amd_probe(void);
const struct hw_ops *vpmu_hw_intel_probe(void);

/*
 * Host perf's number of a counter (struct hw_perf_event.idx): fixed counters have those from
 * HW_FIXED_INDEX on, as in INTEL_PMC_IDX_FIXED of asm/perf_event.h.
 */
#define HW_FIXED_INDEX	32

/* Counter @i has which? */
static inline unsigned int vpmu_hw_index(const struct hw_ops *hw, unsigned int i)
{
	return i < hw->general ? i : HW_FIXED_INDEX + i - hw->general;
}

/* Which counter has @index?  One that @hw doesn't have (hw->nr) if none of ours. */
static inline unsigned int vpmu_hw_slot(const struct hw_ops *hw, unsigned int index)
{
	if (index < HW_FIXED_INDEX)
		return index < hw->general ? index : hw->nr;
	index -= HW_FIXED_INDEX;
	return index < hw->nr - hw->general ? hw->general + index : hw->nr;
}

/* MSR accesses by this module on all CPUs since it was loaded. */
struct hw_accesses {
	u64 rdmsr;
	u64 wrmsr;
	u64 rdpmc;
};

struct hw_accesses vpmu_hw_accesses(void);

#endif
