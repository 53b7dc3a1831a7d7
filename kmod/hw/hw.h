/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The physical counters of the current CPU.  Only this folder reads or writes PMU MSRs, and it has
 * no idea of guests.
 *
 * Everything here is safe in NMI context.  Callers can't migrate to another CPU meanwhile.
 */
#ifndef VPMU_HW_H
#define VPMU_HW_H

#include <linux/static_call.h>

#include "../types.h"

/* Host perf's state of a counter that a guest borrows */
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
 * @masks_interrupt: the local APIC masks its LVT entry when it delivers a counter's interrupt
 * @entry_counts: a VM entry counts as one retired instruction and one retired
 *	branch in guest context
 * @entry_assumed: @entry_counts is an assumption, until @entry_measured
 * @tsc_unscaled: TSC scaling ratio of a guest whose TSC is as fast as the host's
 * @entry_measured: whether entries count is known now; NULL where that was known before
 * @fits: can counter @i count the event of @select?  NULL if all can count everything
 * @pinned: can only certain general counters count the event of @select?  Then it belongs on the
 *	one that the guest's perf chose, by the same constraints as host perf
 * @in_use: is counter @i enabled by host perf?
 * @read: read counter @i (48 bits)
 * @write: change the value of counter @i, which may be running
 * @prepare: before counters of this CPU are started
 * @start: count the event of @select, in guest mode and, if @in_host, in host mode too
 * @stop: stop counter @i, which keeps its value, and read that
 * @overflowed: mask of the counters that may have overflowed; of all counters where the CPU has no
 *	status register
 * @ack: clear the overflow status of the counters in @mask
 * @show: set that status; NULL if the CPU can't
 * @status_is_clear: is that register 0, with all that isn't a counter's bit?
 * @status_is_shared: may something else than these counters set bits there now?  NULL: nothing can
 * @borrow: save host perf's state of counter @i, which is to count the event of @select in guest
 *	mode only, from @value; @select 0: nothing.  In host mode
 * @give_back: restore that state.  @overflowed: counter @i has set its overflow status meanwhile
 * @reassert: host perf may have written registers that are shared: enable the counters in @mask
 *	there again; NULL if no register is shared
 * @nmi_ended: host perf's handler of an NMI has run; NULL if that doesn't matter
 * @hold_nmis: no NMI by which host perf's handler would read counters, until @release_nmis or the
 *	VM exit; false if one is on its way, or if NMIs can't be held.  @quiet: mask of the
 *	counters that overflow without an NMI
 * @hold_again: an NMI came, and its handlers have run: if NMIs were held, hold them as before;
 *	NULL where none can come then
 * @release_nmis: the opposite
 * @returned: the counters in @mask are host perf's again: let them count in host mode if they did
 *	before; NULL where only the event select decides that
 * @release_before_entry: a VM entry needs that
 * @all: can RDPMC read no other core counter than these, but for those of @others_counted?
 * @others_counted: has this CPU other counters that RDPMC reads, and has one of them been used?
 *	NULL if it has none
 * @pause: no counter of this CPU counts until @resume, where the CPU has a global control; returns
 *	@resume's argument, or 0: nothing to resume
 */
struct hw_ops {
	const char *name;
	unsigned int nr;
	unsigned int general;
	bool masks_interrupt;
	bool entry_counts;
	bool entry_assumed;
	u64 tsc_unscaled;
	void (*entry_measured)(bool counts);
	bool (*fits)(unsigned int i, u64 select);
	bool (*pinned)(u64 select);
	bool (*in_use)(unsigned int i);
	u64 (*read)(unsigned int i);
	void (*write)(unsigned int i, u64 value);
	void (*prepare)(void);
	void (*start)(unsigned int i, u64 select, bool in_host);
	u64 (*stop)(unsigned int i);
	u64 (*overflowed)(void);
	void (*ack)(u64 mask);
	void (*show)(u64 mask);
	bool (*status_is_clear)(void);
	bool (*status_is_shared)(void);
	void (*borrow)(unsigned int i, struct hw_saved *saved, u64 select, u64 value);
	void (*give_back)(unsigned int i, const struct hw_saved *saved, bool overflowed);
	void (*reassert)(unsigned long mask);
	void (*nmi_ended)(void);
	bool (*hold_nmis)(u64 quiet);
	void (*hold_again)(void);
	void (*release_nmis)(void);
	void (*returned)(u64 mask);
	bool release_before_entry;
	bool all;
	bool (*others_counted)(void);
	u64 (*pause)(void);
	void (*resume)(u64 paused);
};

/* What starting, stopping and reading counters calls: the same as in struct hw_ops, but cheaper */
u64 vpmu_hw_proto_stop(unsigned int i);
u64 vpmu_hw_proto_read(unsigned int i);
void vpmu_hw_proto_write(unsigned int i, u64 value);
void vpmu_hw_proto_start(unsigned int i, u64 select, bool in_host);
DECLARE_STATIC_CALL(vpmu_hw_stop, vpmu_hw_proto_stop);
DECLARE_STATIC_CALL(vpmu_hw_read, vpmu_hw_proto_read);
DECLARE_STATIC_CALL(vpmu_hw_write, vpmu_hw_proto_write);
DECLARE_STATIC_CALL(vpmu_hw_start, vpmu_hw_proto_start);

/* The ops of this machine; NULL and a message if its PMU isn't supported */
const struct hw_ops *vpmu_hw_probe(void);
const struct hw_ops *vpmu_hw_amd_probe(void);
const struct hw_ops *vpmu_hw_intel_probe(void);

/*
 * Host perf's number of a counter (struct hw_perf_event.idx): fixed counters start at
 * HW_FIXED_INDEX, which is INTEL_PMC_IDX_FIXED of asm/perf_event.h.
 */
#define HW_FIXED_INDEX	32

/* Host perf's number of counter @i */
static inline unsigned int vpmu_hw_index(const struct hw_ops *hw, unsigned int i)
{
	return i < hw->general ? i : HW_FIXED_INDEX + i - hw->general;
}

/* The counter with host perf's number @index; hw->nr if @hw has none */
static inline unsigned int vpmu_hw_slot(const struct hw_ops *hw, unsigned int index)
{
	if (index < HW_FIXED_INDEX)
		return index < hw->general ? index : hw->nr;
	index -= HW_FIXED_INDEX;
	return index < hw->nr - hw->general ? hw->general + index : hw->nr;
}

/* The counters of @mask as a mask of host perf's numbers */
static inline u64 vpmu_hw_index_mask(const struct hw_ops *hw, u64 mask)
{
	u64 general = (1ULL << hw->general) - 1;

	return (mask & general) | mask >> hw->general << HW_FIXED_INDEX;
}

/* The opposite */
static inline u64 vpmu_hw_slot_mask(const struct hw_ops *hw, u64 indexes)
{
	u64 general = (1ULL << hw->general) - 1;

	return (indexes & general) | indexes >> HW_FIXED_INDEX << hw->general;
}

/* MSR accesses by this module on all CPUs since the module was loaded */
struct hw_accesses {
	u64 rdmsr;
	u64 wrmsr;
	u64 rdpmc;
};

struct hw_accesses vpmu_hw_accesses(void);

#endif
