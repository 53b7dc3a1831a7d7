// SPDX-License-Identifier: GPL-2.0
/*
 * Intel's general and fixed counters.  Sources: SDM vol. 3, "Architectural Performance
 * Monitoring" and "VM-Entry Controls", "VM-Exit Controls" (load IA32_PERF_GLOBAL_CTRL);
 * Linux arch/x86/events/intel/core.c for how host perf uses the same registers.
 *
 * Event selects have no bit for guest mode.  A counter that counts in guest mode only has its bit
 * in global control set there only.  The CPU switches that register at VM entry and exit, between
 * two values that host perf passes to KVM (vpmu_compat_only_in_guest()).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <asm/perf_event.h>
#include <asm/processor.h>

#include "msr.h"

/* IA32_FIXED_CTR_CTRL, of each counter */
#define FIXED_BITS		4
#define FIXED_OS		BIT_ULL(0)
#define FIXED_USR		BIT_ULL(1)
#define FIXED_PMI		BIT_ULL(3)
#define FIXED_FIELD		GENMASK_ULL(3, 0)

/* IA32_PERF_GLOBAL_STATUS: OvfBuf, records in the debug store save area wait for perf. */
#define STATUS_BUFFER		BIT_ULL(62)

/* RDPMC: a fixed counter */
#define RDPMC_FIXED		BIT(30)

/* IA32_PERF_CAPABILITIES: general counters can be written with all their bits. */
#define CAP_FULL_WIDTH		BIT_ULL(13)

/* The register by which software sets bits of the status: version 4 */
#define GLOBAL_STATUS_SET	0x391
#define VERSION_STATUS_SET	4

/* The mark of what only fixed counter 2 can count: GUEST_EVENT_REF_CYCLES */
#define FIXED_ONLY		BIT_ULL(63)

#define EVENT			(ARCH_PERFMON_EVENTSEL_EVENT | ARCH_PERFMON_EVENTSEL_UMASK | \
				 FIXED_ONLY)
/* With these a counter counts cycles, edges or transactions, which fixed counters can't. */
#define MODIFIERS		(ARCH_PERFMON_EVENTSEL_CMASK | ARCH_PERFMON_EVENTSEL_INV | \
				 ARCH_PERFMON_EVENTSEL_EDGE | HSW_IN_TX | HSW_IN_TX_CHECKPOINTED)

/* What fixed counters count, as selects: SDM vol. 3, "Fixed-function Performance Counters" */
static const u64 fixed_events[] = { 0xc0, 0x3c, FIXED_ONLY | 0x0300 };

#define MAX_GENERAL		(VPMU_MAX_COUNTERS - (unsigned int)ARRAY_SIZE(fixed_events))

/* Fixed counters of the CPU, with those that guests don't get: of slots, from Ice Lake on */
static unsigned int all_fixed;

/* The fields of IA32_FIXED_CTR_CTRL for guests' counters on fixed ones of this CPU */
static DEFINE_PER_CPU(u64 [ARRAY_SIZE(fixed_events)], fixed_fields);

/*
 * Host perf's NMI handler may change IA32_FIXED_CTR_CTRL between this module's read and write of
 * that register, to throttle an event, say.
 *
 * @changing: between read and write
 * @changed: an NMI came in between
 * @now: the register behind its handlers
 */
static DEFINE_PER_CPU(struct {
	bool changing;
	bool changed;
	u64 now;
}, fixed_control);

/* Global control to be restored after intel_hold_nmis(), which has set it to 0; else 0 */
static DEFINE_PER_CPU(u64, held_control);

static struct hw_ops intel_ops;

static bool is_fixed(unsigned int i)
{
	return i >= intel_ops.general;
}

/* Fixed counter @i's number among the fixed ones */
static unsigned int nth(unsigned int i)
{
	return i - intel_ops.general;
}

/* Its bit in global control and status */
static u64 bit_of(unsigned int i)
{
	return BIT_ULL(vpmu_hw_index(&intel_ops, i));
}

static u64 bits_of(u64 mask)
{
	u64 bits = 0;
	unsigned int i;

	for (i = 0; i < intel_ops.nr; i++)
		if (mask & BIT_ULL(i))
			bits |= bit_of(i);
	return bits;
}

static bool intel_fits(unsigned int i, u64 select)
{
	if (is_fixed(i))
		return (select & EVENT) == fixed_events[nth(i)] && !(select & MODIFIERS);
	return (select & EVENT) != fixed_events[2];
}

/*
 * Each model has events that only some general counters can count (the tables of constraints in
 * Linux arch/x86/events/intel/core.c); on others their count is wrong or 0.  All general counters
 * can count architectural events (SDM vol. 3, "Pre-defined Architectural Performance Events").
 */
static bool intel_pinned(u64 select)
{
	/* Only general counter 2 can: hsw_hw_config() of the same file. */
	if (select & HSW_IN_TX_CHECKPOINTED)
		return true;
	switch (select & EVENT) {
	case 0x003c:	/* core cycles */
	case 0x013c:	/* reference cycles */
	case 0x00c0:	/* instructions retired */
	case 0x4f2e:	/* last-level cache references */
	case 0x412e:	/* last-level cache misses */
	case 0x00c4:	/* branch instructions retired */
	case 0x00c5:	/* branch misses retired */
	case FIXED_ONLY | 0x0300:
		return false;
	}
	return true;
}

/* A fixed counter's field of the register that they share */
static u64 fixed_field(unsigned int i)
{
	return vpmu_hw_rdmsr(MSR_CORE_PERF_FIXED_CTR_CTRL) >> nth(i) * FIXED_BITS & FIXED_FIELD;
}

/* Write @wanted to the bits of @mask, and no stale value to the others. */
static void change_fixed_control(u64 mask, u64 wanted)
{
	u64 control;

	if (in_nmi()) {
		control = vpmu_hw_rdmsr(MSR_CORE_PERF_FIXED_CTR_CTRL);
		vpmu_hw_wrmsr(MSR_CORE_PERF_FIXED_CTR_CTRL, (control & ~mask) | wanted);
		return;
	}

	__this_cpu_write(fixed_control.changing, true);
	barrier();
	control = vpmu_hw_rdmsr(MSR_CORE_PERF_FIXED_CTR_CTRL);
	for (;;) {
		vpmu_hw_wrmsr(MSR_CORE_PERF_FIXED_CTR_CTRL, (control & ~mask) | wanted);
		barrier();
		if (likely(!__this_cpu_read(fixed_control.changed)))
			break;
		/* First, as another NMI may come. */
		__this_cpu_write(fixed_control.changed, false);
		barrier();
		control = __this_cpu_read(fixed_control.now);
	}
	__this_cpu_write(fixed_control.changing, false);
}

static void intel_nmi_ended(void)
{
	if (!__this_cpu_read(fixed_control.changing))
		return;
	__this_cpu_write(fixed_control.now, vpmu_hw_rdmsr(MSR_CORE_PERF_FIXED_CTR_CTRL));
	__this_cpu_write(fixed_control.changed, true);
}

static void set_fixed_field(unsigned int i, u64 field)
{
	change_fixed_control(FIXED_FIELD << nth(i) * FIXED_BITS, field << nth(i) * FIXED_BITS);
}

static u64 field_for(u64 select)
{
	u64 field = 0;

	if (select & ARCH_PERFMON_EVENTSEL_OS)
		field |= FIXED_OS;
	if (select & ARCH_PERFMON_EVENTSEL_USR)
		field |= FIXED_USR;
	if (select & ARCH_PERFMON_EVENTSEL_INT)
		field |= FIXED_PMI;
	return field;
}

static bool intel_in_use(unsigned int i)
{
	/* Host perf writes the shared register only once all of its events are scheduled. */
	if (is_fixed(i))
		return vpmu_compat_host_has(vpmu_hw_index(&intel_ops, i)) ||
		       (fixed_field(i) & (FIXED_OS | FIXED_USR));
	return vpmu_hw_rdmsr(MSR_P6_EVNTSEL0 + i) & ARCH_PERFMON_EVENTSEL_ENABLE;
}

static u64 intel_read(unsigned int i)
{
	return vpmu_hw_rdpmc(is_fixed(i) ? RDPMC_FIXED | nth(i) : i);
}

static void intel_write(unsigned int i, u64 value)
{
	vpmu_hw_wrmsr(is_fixed(i) ? MSR_CORE_PERF_FIXED_CTR0 + nth(i) : MSR_IA32_PMC0 + i, value);
}

/* Nothing: intel_start() reads global control anyway. */
static void intel_prepare(void)
{
}

/* The modes in which counter @i counts once it is enabled */
static void set_modes(unsigned int i, bool in_host, bool in_guest)
{
	unsigned int index = vpmu_hw_index(&intel_ops, i);
	u64 held = __this_cpu_read(held_control), control, wanted;

	/*
	 * One instruction each, as an NMI may change other bits.  And before global control is
	 * read, as host perf's handler of an NMI writes that register by these masks.
	 */
	if (in_host)
		__clear_bit(index, vpmu_compat_only_in_guest());
	else
		__set_bit(index, vpmu_compat_only_in_guest());
	if (in_guest)
		__clear_bit(index, vpmu_compat_only_in_host());
	else
		__set_bit(index, vpmu_compat_only_in_host());

	/* This is host mode; for the VM entry KVM reads the masks. */
	control = held ?: vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL);
	wanted = in_host ? control | bit_of(i) : control & ~bit_of(i);
	if (held)
		__this_cpu_write(held_control, wanted);
	else if (wanted != control)
		vpmu_hw_wrmsr(MSR_CORE_PERF_GLOBAL_CTRL, wanted);
}

static void intel_start(unsigned int i, u64 select, bool in_host)
{
	set_modes(i, in_host, true);
	if (is_fixed(i)) {
		__this_cpu_write(fixed_fields[nth(i)], field_for(select));
		set_fixed_field(i, field_for(select));
		return;
	}
	select &= EVENT | MODIFIERS | ARCH_PERFMON_EVENTSEL_OS | ARCH_PERFMON_EVENTSEL_USR |
		  ARCH_PERFMON_EVENTSEL_INT;
	vpmu_hw_wrmsr(MSR_P6_EVNTSEL0 + i, select | ARCH_PERFMON_EVENTSEL_ENABLE);
}

static void stop_counter(unsigned int i)
{
	if (!is_fixed(i)) {
		vpmu_hw_wrmsr(MSR_P6_EVNTSEL0 + i, 0);
		return;
	}
	/* First, as the handler of an NMI may enable what is there (intel_reassert()). */
	__this_cpu_write(fixed_fields[nth(i)], 0);
	barrier();
	set_fixed_field(i, 0);
}

static u64 intel_stop(unsigned int i)
{
	stop_counter(i);
	__clear_bit(vpmu_hw_index(&intel_ops, i), vpmu_compat_only_in_guest());
	return intel_read(i);
}

static u64 intel_overflowed(void)
{
	u64 status = vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_STATUS), mask = 0;
	unsigned int i;

	for (i = 0; i < intel_ops.nr; i++)
		if (status & bit_of(i))
			mask |= BIT_ULL(i);
	return mask;
}

static void intel_ack(u64 mask)
{
	vpmu_hw_wrmsr(MSR_CORE_PERF_GLOBAL_OVF_CTRL, bits_of(mask));
}

/* SDM vol. 3, "IA32_PERF_GLOBAL_STATUS_SET MSR": this causes no interrupt. */
static void intel_show(u64 mask)
{
	vpmu_hw_wrmsr(GLOBAL_STATUS_SET, bits_of(mask));
}

static bool intel_status_is_clear(void)
{
	return !vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_STATUS);
}

/* Has host perf an event on a fixed counter that guests don't get? */
static bool others_run(void)
{
	unsigned int n;

	if (all_fixed <= ARRAY_SIZE(fixed_events))
		return false;
	for (n = ARRAY_SIZE(fixed_events); n < all_fixed; n++)
		if (vpmu_compat_host_has(HW_FIXED_INDEX + n))
			return true;
	return vpmu_hw_rdmsr(MSR_CORE_PERF_FIXED_CTR_CTRL) >> ARRAY_SIZE(fixed_events) * FIXED_BITS;
}

/*
 * By Intel PT (ToPA_PMI), which traces guests, too, unless told otherwise; by host perf's events on
 * fixed counters that guests don't get.
 */
static bool intel_status_is_shared(void)
{
	return others_run() || (boot_cpu_has(X86_FEATURE_INTEL_PT) &&
				(vpmu_hw_rdmsr(MSR_IA32_RTIT_CTL) & RTIT_CTL_TRACEEN));
}

/* RDPMC reads the metrics of slots, too: SDM vol. 3, "Performance Metrics". */
static bool intel_others_counted(void)
{
	u32 low, high;
	unsigned int n;

	if (others_run())
		return true;
	for (n = ARRAY_SIZE(fixed_events); n < all_fixed; n++)
		if (vpmu_hw_rdmsr(MSR_CORE_PERF_FIXED_CTR0 + n))
			return true;
	return !rdmsr_safe(MSR_PERF_METRICS, &low, &high) && (low | high);
}

static void intel_borrow(unsigned int i, struct hw_saved *saved, u64 select, u64 value)
{
	saved->select = is_fixed(i) ? fixed_field(i) : vpmu_hw_rdmsr(MSR_P6_EVNTSEL0 + i);
	stop_counter(i);
	saved->value = intel_read(i);
	/* Its interrupt may be pending, and must find the status bit. */
	saved->overflowed = vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_STATUS) & bit_of(i);
	saved->only_in_guest = test_bit(vpmu_hw_index(&intel_ops, i), vpmu_compat_only_in_guest());
	saved->only_in_host = test_bit(vpmu_hw_index(&intel_ops, i), vpmu_compat_only_in_host());
	if (!select)
		return;
	intel_write(i, value);
	intel_start(i, select, false);
}

static void intel_give_back(unsigned int i, const struct hw_saved *saved, bool overflowed)
{
	stop_counter(i);
	if (overflowed && !saved->overflowed)
		intel_ack(BIT_ULL(i));
	intel_write(i, saved->value);
	set_modes(i, !saved->only_in_guest, !saved->only_in_host);
	if (is_fixed(i))
		set_fixed_field(i, saved->select);
	else
		vpmu_hw_wrmsr(MSR_P6_EVNTSEL0 + i, saved->select);
}

/*
 * Host perf writes the register that fixed counters share from a copy of its own, without guests'
 * fields.
 */
static void intel_reassert(unsigned long mask)
{
	u64 ours = 0, wanted = 0;
	unsigned int i;

	for (i = intel_ops.general; i < intel_ops.nr; i++) {
		if (!(mask & BIT(i)))
			continue;
		ours |= FIXED_FIELD << nth(i) * FIXED_BITS;
		wanted |= __this_cpu_read(fixed_fields[nth(i)]) << nth(i) * FIXED_BITS;
	}
	if (ours && (vpmu_hw_rdmsr(MSR_CORE_PERF_FIXED_CTR_CTRL) & ours) != wanted)
		change_fixed_control(ours, wanted);
}

static u64 intel_pause(void)
{
	u64 control = vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL);

	if (control)
		vpmu_hw_wrmsr(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	return control;
}

static void intel_resume(u64 paused)
{
	vpmu_hw_wrmsr(MSR_CORE_PERF_GLOBAL_CTRL, paused);
}

static void intel_release_nmis(void)
{
	u64 control = __this_cpu_read(held_control);

	__this_cpu_write(held_control, 0);
	if (control)
		intel_resume(control);
}

/*
 * NMIs can't be held here.  But with all counters stopped none overflows, and if none has, host
 * perf's handler touches no counter, whatever the NMI was for.
 */
static bool intel_hold_nmis(u64 quiet)
{
	u64 loud = bits_of((BIT_ULL(intel_ops.nr) - 1) & ~quiet) | STATUS_BUFFER;
	u64 control = vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL);

	/* First, as host perf's handler of an NMI enables all counters (intel_hold_again()). */
	__this_cpu_write(held_control, control);
	barrier();
	if (control)
		vpmu_hw_wrmsr(MSR_CORE_PERF_GLOBAL_CTRL, 0);
	if (!(vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_STATUS) & loud))
		return true;
	intel_release_nmis();
	return false;
}

static void intel_hold_again(void)
{
	if (__this_cpu_read(held_control))
		intel_pause();
}

/*
 * An NMI between host perf's list of MSRs and the VM entry gives counters back. The VM exit still
 * loads the global control of before, with which they don't count in host mode.
 */
static void intel_returned(u64 mask)
{
	u64 held = __this_cpu_read(held_control);
	u64 control = held ?: vpmu_hw_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL), wanted = control;
	unsigned int i;

	for (i = 0; i < intel_ops.nr; i++)
		if ((mask & BIT_ULL(i)) &&
		    !test_bit(vpmu_hw_index(&intel_ops, i), vpmu_compat_only_in_guest()))
			wanted |= bit_of(i);
	if (held)
		__this_cpu_write(held_control, wanted);
	else if (wanted != control)
		vpmu_hw_wrmsr(MSR_CORE_PERF_GLOBAL_CTRL, wanted);
}

static struct hw_ops intel_ops = {
	.masks_interrupt = true,
	/* VM entries retire in the host. */
	.entry_counts = false,
	/* 16 bits of integer, 48 of fraction: SDM vol. 3, "TSC multiplier" */
	.tsc_unscaled = BIT_ULL(48),
	.fits = intel_fits,
	.pinned = intel_pinned,
	.in_use = intel_in_use,
	.read = intel_read,
	.write = intel_write,
	.prepare = intel_prepare,
	.start = intel_start,
	.stop = intel_stop,
	.overflowed = intel_overflowed,
	.ack = intel_ack,
	.status_is_clear = intel_status_is_clear,
	.status_is_shared = intel_status_is_shared,
	.borrow = intel_borrow,
	.give_back = intel_give_back,
	.reassert = intel_reassert,
	.nmi_ended = intel_nmi_ended,
	.hold_nmis = intel_hold_nmis,
	.hold_again = intel_hold_again,
	.returned = intel_returned,
	.release_nmis = intel_release_nmis,
	.release_before_entry = true,
	.pause = intel_pause,
	.resume = intel_resume,
};

const struct hw_ops *vpmu_hw_intel_probe(void)
{
	struct compat_counters counters = vpmu_compat_perf_counters();
	u64 capabilities = 0;

	if (!boot_cpu_has(X86_FEATURE_VMX)) {
		pr_err("this CPU has no VMX\n");
		return NULL;
	}
	if (!counters.general) {
		pr_err("this CPU has no PMU that Linux could use\n");
		return NULL;
	}
	if (boot_cpu_has(X86_FEATURE_PDCM))
		capabilities = vpmu_compat_rdmsr(MSR_IA32_PERF_CAPABILITIES);
	/*
	 * Without fixed counters there is no global control either.  Without full-width writes a
	 * counter can't be given any value of a guest's.
	 */
	if (!counters.fixed || counters.bits != VPMU_COUNTER_BITS ||
	    !(capabilities & CAP_FULL_WIDTH)) {
		pr_err("this CPU's PMU is too old: version 2, 48 bits and full-width writes are needed\n");
		return NULL;
	}
	intel_ops.name = "Intel architectural PMU";
	intel_ops.general = min(counters.general, MAX_GENERAL);
	intel_ops.nr = intel_ops.general +
		       min_t(unsigned int, counters.fixed, ARRAY_SIZE(fixed_events));
	intel_ops.all = counters.general <= MAX_GENERAL;
	all_fixed = counters.fixed;
	if (all_fixed > ARRAY_SIZE(fixed_events))
		intel_ops.others_counted = intel_others_counted;
	if (counters.version >= VERSION_STATUS_SET)
		intel_ops.show = intel_show;
	return &intel_ops;
}
