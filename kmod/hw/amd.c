// SPDX-License-Identifier: GPL-2.0
/*
 * AMD's core performance counters.  Sources: AMD APM vol. 2, "Performance
 * Monitoring Counters", and Linux arch/x86/events/amd/core.c for how host
 * perf uses the same registers.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/printk.h>
#include <asm/asm.h>
#include <asm/perf_event.h>
#include <asm/processor.h>

#include "msr.h"

/* APM vol. 2, "Performance Counter MSRs": of the core extension; guests have no more. */
#define NR_CORE		6U

/* Linux 6.1 has no name for it. */
#define GLOBAL_STATUS_SET	0xc0000303

static u32 select_base, counter_base;
static unsigned int stride;
static u64 global_mask;		/* 0 without PerfMonV2 */

/*
 * Family 15h: amd_get_event_constraints_f15h() of Linux arch/x86/events/amd/core.c; all counters
 * count instructions, micro-operations, branches and cycles.  Family 17h and later: Merge and
 * PMCx003, the two events of a pair of counters.
 */
static bool amd_pinned(u64 select)
{
	u64 event = select & AMD64_EVENTSEL_EVENT;

	if (boot_cpu_data.x86 == 0x15)
		return event != 0x076 && (event < 0x0c0 || event > 0x0c5);
	return boot_cpu_data.x86 >= 0x17 && (event == 0x003 || event == AMD64_EVENTSEL_EVENT);
}

/*
 * Without global control, host perf clears the enable bits of all of its events while it changes
 * some (x86_pmu_disable_all() of Linux arch/x86/events/core.c), and sets them again.
 */
static bool amd_in_use(unsigned int i)
{
	return (vpmu_hw_rdmsr(select_base + i * stride) & ARCH_PERFMON_EVENTSEL_ENABLE) ||
	       (!global_mask && vpmu_compat_host_has(i));
}

static u64 amd_read(unsigned int i)
{
	return vpmu_hw_rdpmc(i);
}

static void amd_write(unsigned int i, u64 value)
{
	vpmu_hw_wrmsr(counter_base + i * stride, value);
}

static void amd_start(unsigned int i, u64 select, bool in_host)
{
	/* Neither bit set counts in both modes. */
	select &= ~(AMD64_EVENTSEL_HOSTONLY | AMD64_EVENTSEL_GUESTONLY);
	if (!in_host)
		select |= AMD64_EVENTSEL_GUESTONLY;
	vpmu_hw_wrmsr(select_base + i * stride, select | ARCH_PERFMON_EVENTSEL_ENABLE);
}

/*
 * Host perf sets all bits of global control with each change on a CPU.  Where host perf never had
 * an event they are still clear.
 */
static void amd_prepare(void)
{
	u64 control;

	if (!global_mask)
		return;
	control = vpmu_hw_rdmsr(MSR_AMD64_PERF_CNTR_GLOBAL_CTL);
	if ((control & global_mask) != global_mask)
		vpmu_hw_wrmsr(MSR_AMD64_PERF_CNTR_GLOBAL_CTL, control | global_mask);
}

static u64 amd_stop(unsigned int i)
{
	vpmu_hw_wrmsr(select_base + i * stride, 0);
	return amd_read(i);
}

static u64 amd_overflowed(void)
{
	return global_mask ? vpmu_hw_rdmsr(MSR_AMD64_PERF_CNTR_GLOBAL_STATUS) : U64_MAX;
}

static bool amd_status_is_clear(void)
{
	return !amd_overflowed();
}

static void amd_ack(u64 mask)
{
	if (global_mask)
		vpmu_hw_wrmsr(MSR_AMD64_PERF_CNTR_GLOBAL_STATUS_CLR, mask & global_mask);
}

/* APM vol. 2, "Performance Monitor Counter Global Status Set": MSR C000_0303h */
static void amd_show(u64 mask)
{
	vpmu_hw_wrmsr(GLOBAL_STATUS_SET, mask & global_mask);
}

/*
 * Host perf's counters begin below 0 and overflow at 0 (x86_perf_event_set_period() of Linux
 * arch/x86/events/core.c): one that is still below 0 hasn't.
 */
#define BELOW_0		BIT_ULL(47)

/* In host mode, so a counter that counts in guest mode only changes nothing while it is read. */
static void amd_borrow(unsigned int i, struct hw_saved *saved, u64 select, u64 value)
{
	saved->select = vpmu_hw_rdmsr(select_base + i * stride);
	if (select)
		amd_start(i, select, false);
	else
		vpmu_hw_wrmsr(select_base + i * stride, 0);
	saved->value = amd_read(i);
	/* NMIs are held: that of this overflow is still to come, and must find the status bit. */
	saved->overflowed = global_mask && !(saved->value & BELOW_0) &&
			    (vpmu_hw_rdmsr(MSR_AMD64_PERF_CNTR_GLOBAL_STATUS) & BIT_ULL(i));
	if (select)
		amd_write(i, value);
}

static void amd_give_back(unsigned int i, const struct hw_saved *saved, bool overflowed)
{
	if (overflowed && !saved->overflowed)
		amd_ack(BIT_ULL(i));
	amd_write(i, saved->value);
	vpmu_hw_wrmsr(select_base + i * stride, saved->select);
}

/*
 * With the global interrupt flag clear, NMIs stay pending (APM vol. 2, "Global Interrupt Flag, STGI
 * and CLGI Instructions").  KVM clears the flag too before VMRUN, and sets it after #VMEXIT.
 *
 * Both instructions are #UD without EFER.SVME.  When the host shuts down, KVM clears that bit on
 * all CPUs before they are stopped; VMRUN faults then, too.
 */
static bool amd_hold_nmis(u64 quiet)
{
	bool held = false;

	asm volatile("1: clgi\n"
		     "movb $1, %0\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : "+qm" (held) : : "memory");
	return held;
}

static void amd_release_nmis(void)
{
	asm volatile("1: stgi\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : : : "memory");
}

static u64 amd_pause(void)
{
	u64 control;

	if (!global_mask)
		return 0;
	control = vpmu_hw_rdmsr(MSR_AMD64_PERF_CNTR_GLOBAL_CTL);
	if (control)
		vpmu_hw_wrmsr(MSR_AMD64_PERF_CNTR_GLOBAL_CTL, 0);
	return control;
}

static void amd_resume(u64 paused)
{
	vpmu_hw_wrmsr(MSR_AMD64_PERF_CNTR_GLOBAL_CTL, paused);
}

/*
 * The event selects and counters of the L3 cache, and of the data fabric or northbridge: those that
 * Linux arch/x86/events/amd/uncore.c has, which says what RDPMC reads
 */
#define FIRST_OTHER	MSR_F16H_L2I_PERF_CTL
#define LAST_OTHER	(MSR_F15H_NB_PERF_CTL + 31)

static bool amd_others_counted(void)
{
	u32 msr, low, high;

	for (msr = FIRST_OTHER; msr <= LAST_OTHER; msr++)
		if (!rdmsr_safe(msr, &low, &high) && (low | high))
			return true;
	return false;
}

static struct hw_ops amd_ops;

static void amd_entry_measured(bool counts)
{
	amd_ops.entry_counts = counts;
	/* Whoever sees that finds the above. */
	smp_store_release(&amd_ops.entry_assumed, false);
}

static struct hw_ops amd_ops = {
	/* All known CPUs count VMRUN (see count.h), but no manual says so. */
	.entry_counts = true,
	.entry_assumed = true,
	.entry_measured = amd_entry_measured,
	/* 8 bits of integer, 32 of fraction: APM vol. 2, "TSC Ratio MSR (C000_0104h)" */
	.tsc_unscaled = BIT_ULL(32),
	.pinned = amd_pinned,
	.in_use = amd_in_use,
	.read = amd_read,
	.write = amd_write,
	.prepare = amd_prepare,
	.start = amd_start,
	.stop = amd_stop,
	.overflowed = amd_overflowed,
	.status_is_clear = amd_status_is_clear,
	.ack = amd_ack,
	.borrow = amd_borrow,
	.give_back = amd_give_back,
	.hold_nmis = amd_hold_nmis,
	.release_nmis = amd_release_nmis,
	.pause = amd_pause,
	.resume = amd_resume,
};

const struct hw_ops *vpmu_hw_amd_probe(void)
{
	unsigned int nr;

	if (!boot_cpu_has(X86_FEATURE_SVM)) {
		pr_err("this CPU has no SVM\n");
		return NULL;
	}
	/*
	 * The counters are shared with host perf, which has checked at boot
	 * that they exist and work.
	 */
	nr = vpmu_compat_perf_counters().general;
	if (!nr) {
		pr_err("this CPU has no PMU that Linux could use\n");
		return NULL;
	}

	if (boot_cpu_has(X86_FEATURE_PERFCTR_CORE)) {
		select_base = MSR_F15H_PERF_CTL;
		counter_base = MSR_F15H_PERF_CTR;
		stride = 2;
		amd_ops.name = "AMD core counters";
		amd_ops.nr = min(nr, NR_CORE);
	} else {
		select_base = MSR_K7_EVNTSEL0;
		counter_base = MSR_K7_PERFCTR0;
		stride = 1;
		amd_ops.name = "AMD legacy counters";
		amd_ops.nr = min_t(unsigned int, nr, AMD64_NUM_COUNTERS);
	}
	amd_ops.general = amd_ops.nr;
	amd_ops.all = nr == amd_ops.nr;
	if (boot_cpu_has(X86_FEATURE_PERFMON_V2)) {
		amd_ops.name = "AMD PerfMonV2";
		global_mask = GENMASK_ULL(amd_ops.nr - 1, 0);
		if (amd_ops.all)
			amd_ops.show = amd_show;
	}
	if (boot_cpu_has(X86_FEATURE_PERFCTR_NB) || boot_cpu_has(X86_FEATURE_PERFCTR_LLC))
		amd_ops.others_counted = amd_others_counted;
	return &amd_ops;
}
