/* SPDX-License-Identifier: GPL-2.0 */
/* The host's CPU and perf: MSRs, counters, and host perf's events on them. */
#ifndef VPMU_COMPAT_HOST_H
#define VPMU_COMPAT_HOST_H

#include <linux/types.h>
#include <asm/msr.h>

struct perf_event;
struct perf_guest_switch_msr;

/**
 * struct compat_counters - what host perf has found on this machine
 * @general: number of general counters; 0 without a PMU
 * @fixed: number of fixed counters
 * @bits: width of the general ones
 * @version: of architectural performance monitoring (Intel), or of PerfMon (AMD)
 */
struct compat_counters {
	unsigned int general;
	unsigned int fixed;
	unsigned int bits;
	unsigned int version;
};

struct compat_counters vpmu_compat_perf_counters(void);

/*
 * Intel: the counters that count in guest mode only, and in host mode only, on this CPU, as
 * bits of global control.  Host perf leaves the former out wherever it writes global
 * control, and KVM has the CPU switch them at VM entry and exit.
 */
unsigned long *vpmu_compat_only_in_guest(void);
unsigned long *vpmu_compat_only_in_host(void);

/*
 * Does host perf run an event on the counter of this CPU with perf's number @index, or on a pair of
 * counters of which that is the second (AMD)?
 */
bool vpmu_compat_host_has(unsigned int index);

/* Intel: unmask the PMU's LVT entry, which the local APIC masks with each interrupt. */
void vpmu_compat_enable_pmi(void);

/* Find host perf's symbols; 0, or -ENOENT and a message. */
int vpmu_compat_host_init(void);

/*
 * How much the host event on a physical counter of this CPU loses by lending the counter to a guest
 * for a stay in guest mode.  Interrupts are off for these.
 */
enum compat_loss {
	/* none there, a stopped one, one of user mode only, the NMI watchdog's */
	COMPAT_LOSES_NOTHING,
	COMPAT_LOSES_HOST,	/* KVM's code right before and behind the stay */
	COMPAT_LOSES_BOTH,	/* that and the stay */
	COMPAT_LOSES_GUEST,	/* the stay, which is all that it counts */
	/*
	 * A PEBS event: perf_guest_get_msrs() stops its counter in guest mode, whoever has the
	 * counter, and an overflow there would write a record.
	 */
	COMPAT_CANT_LEND,
};

/*
 * The loss on each of @nr counters, of which the first @general are general ones.
 *
 * Return: a mask of the counters whose event needs the next one, too (vpmu_compat_host_pair()).
 */
unsigned long vpmu_compat_host_losses(enum compat_loss *losses, unsigned int general,
				      unsigned int nr);

/* Is the host event on counter @index that of the NMI watchdog?  Interrupts are off. */
bool vpmu_compat_host_is_watchdog(unsigned int index);

/* Does host event @event need the next counter, too (AMD)? */
bool vpmu_compat_host_pair(const struct perf_event *event);

/*
 * The host event on counter @slot was off the counter for @ticks of the TSC, of them at least
 * @in_host in host mode: subtract that from its "time running".  No NMI can come.
 */
void vpmu_compat_host_event_paused(unsigned int slot, u64 ticks, u64 in_host);

/*
 * The counters of @mask of this CPU, which aren't host perf's at the moment, are a guest's: the
 * counts of earlier host events need not be cleared any more.  Interrupts are off since they were
 * written.
 */
void vpmu_compat_host_counters_taken(unsigned long mask);

/*
 * The counters of @mask keep counts of a guest.  perf clears dirty counters before anybody in user
 * mode may use RDPMC (perf_clear_dirty_counters()).
 *
 * Return: false if host perf's mask of dirty counters wasn't found.
 */
bool vpmu_compat_host_counters_dirty(unsigned long mask);

/* Has host perf just paused the event until the next tick, as there were too many samples? */
bool vpmu_compat_host_throttled(const struct perf_event *event);

/*
 * Host perf's MSRs to switch at VM entry and exit (perf_guest_get_msrs()), which KVM writes to the
 * VMCS: do they stay valid until some event starts or stops?
 */
bool vpmu_compat_msr_list_constant(const struct perf_guest_switch_msr *msrs, int nr);

/*
 * Not the kernel's own helpers, which are function calls for the sake of Xen's PV guests, and have
 * a tracepoint.  An MSR that the CPU doesn't have is reported by the kernel all the same.
 */
static __always_inline u64 vpmu_compat_rdmsr(u32 msr)
{
	u32 low, high;

	native_rdmsr(msr, low, high);
	return (u64)high << 32 | low;
}

static __always_inline void vpmu_compat_wrmsr(u32 msr, u64 value)
{
	native_wrmsr(msr, (u32)value, (u32)(value >> 32));
}

#endif
