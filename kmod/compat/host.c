// SPDX-License-Identifier: GPL-2.0
/* Host perf: its events on this CPU's counters, and the few functions of it that are called. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/math64.h>
#include <linux/perf_event.h>
#include <linux/printk.h>
#include <asm/perf_event.h>
#include <asm/tsc.h>

#include "compat.h"
#include "host.h"

DEFINE_STATIC_CALL_NULL(vpmu_get_capability, perf_get_x86_pmu_capability);
DEFINE_STATIC_CALL_NULL(vpmu_perf_guest_get_msrs, vpmu_compat_proto_guest_get_msrs);
DEFINE_STATIC_CALL_NULL(vpmu_lapic_init, vpmu_compat_proto_lapic_init);

/* The beginning of struct cpu_hw_events in arch/x86/events/perf_event.h */
struct host_events {
#ifdef COMPAT_TEST_SHIFT	/* a test's module, for a structure that isn't this kernel's */
	void *shift;
#endif
	struct perf_event *by_slot[X86_PMC_IDX_MAX];
	unsigned long active[BITS_TO_LONGS(X86_PMC_IDX_MAX)];
	unsigned long dirty[BITS_TO_LONGS(X86_PMC_IDX_MAX)];
};

static char __percpu *host_base;			/* cpu_hw_events, whatever there is */
static struct host_events __percpu *host_events;	/* the same, if it is what is expected */
static size_t intel_masks;	/* where in cpu_hw_events */

/*
 * On Intel's CPUs: two functions of host perf, and the masks in cpu_hw_events of the counters that
 * count in guest mode only, and in host mode only (intel_guest_get_msrs() in
 * arch/x86/events/intel/core.c).  That function's array comes right behind the two masks; a change
 * of a mask proves the place.
 */
static int find_intel(void)
{
	unsigned long get = vpmu_compat_require("perf_guest_get_msrs");
	unsigned long lapic = vpmu_compat_require("perf_events_lapic_init");
	struct perf_guest_switch_msr *msrs;
	unsigned long flags;
	u64 *guest_only, control, before = 0, after = 0;
	int nr = 0;

	if (!get || !lapic)
		return -ENOENT;
	static_call_update(vpmu_perf_guest_get_msrs, (void *)get);
	static_call_update(vpmu_lapic_init, (void *)lapic);
	if (!host_base)
		return -ENOENT;

	local_irq_save(flags);
	msrs = static_call(vpmu_perf_guest_get_msrs)(&nr, NULL);
	if (msrs && nr && msrs->msr == MSR_CORE_PERF_GLOBAL_CTRL) {
		guest_only = (u64 *)msrs - 2;
		intel_masks = (char *)guest_only - this_cpu_ptr(host_base);
		before = msrs->host;
		control = vpmu_compat_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL);
		*guest_only ^= BIT_ULL(0);
		static_call(vpmu_perf_guest_get_msrs)(&nr, NULL);
		after = msrs->host;
		*guest_only ^= BIT_ULL(0);
		/* The handler of an NMI in between has restored the control as of then. */
		if (vpmu_compat_rdmsr(MSR_CORE_PERF_GLOBAL_CTRL) != control)
			vpmu_compat_wrmsr(MSR_CORE_PERF_GLOBAL_CTRL, control);
	}
	local_irq_restore(flags);
	if ((before ^ after) != BIT_ULL(0)) {
		pr_err("masks of guest-only counters not found in this kernel's host perf\n");
		return -ENOENT;
	}
	return 0;
}

/*
 * Is struct host_events what this kernel has there?  Where perf puts an event of the module's own
 * shows it.
 */
static bool events_found_at(unsigned int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS,
		.size = sizeof(attr), .pinned = 1,
	};
	const struct host_events *events = per_cpu_ptr(host_events, cpu);
	struct perf_event *event;
	bool found = false;
	int slot;

	event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	if (IS_ERR(event))
		return false;
	slot = READ_ONCE(event->hw.idx);
	if (slot >= 0 && slot < X86_PMC_IDX_MAX)
		found = READ_ONCE(events->by_slot[slot]) == event && test_bit(slot, events->active);
	perf_event_release_kernel(event);
	return found && test_bit(slot, events->dirty);
}

static void find_events(void)
{
	unsigned int i;

	host_base = (char __percpu *)vpmu_compat_lookup("cpu_hw_events");
	host_events = (struct host_events __percpu *)host_base;
	/* A process that may use RDPMC may have had perf clear the counter meanwhile. */
	for (i = 0; host_events && i < 3; i++)
		if (events_found_at(raw_smp_processor_id()))
			return;
	pr_info("cpu_hw_events %s: host events' times won't show lent counters\n",
		host_events ? "isn't as expected" : "not found");
	host_events = NULL;
}

/* 0 on kernels without it */
static unsigned long watchdog_callback;

int vpmu_compat_host_init(void)
{
	find_events();
	watchdog_callback = vpmu_compat_lookup("watchdog_overflow_callback");
	return vpmu_compat_on_intel() ? find_intel() : 0;
}

/*
 * KVM clears PEBS_ENABLE itself before each VM entry that switches it
 * (add_atomic_switch_msr()).
 */
bool vpmu_compat_msr_list_constant(const struct perf_guest_switch_msr *msrs, int nr)
{
	int i;

	if (!msrs)
		return false;
	for (i = 0; i < nr; i++)
		if (msrs[i].msr == MSR_IA32_PEBS_ENABLE && msrs[i].host != msrs[i].guest)
			return false;
	return true;
}

unsigned long *vpmu_compat_only_in_guest(void)
{
	return (unsigned long *)(this_cpu_ptr(host_base) + intel_masks);
}

unsigned long *vpmu_compat_only_in_host(void)
{
	return vpmu_compat_only_in_guest() + 1;
}

void vpmu_compat_enable_pmi(void)
{
	static_call(vpmu_lapic_init)();
}

struct compat_counters vpmu_compat_perf_counters(void)
{
	/* Exported, but from 6.18 on to KVM's modules only. */
	unsigned long address = vpmu_compat_resolve("perf_get_x86_pmu_capability");
	struct x86_pmu_capability cap = { };

	if (address) {
		static_call_update(vpmu_get_capability, (void *)address);
		static_call(vpmu_get_capability)(&cap);
	}
	return (struct compat_counters){
		.general = cap.num_counters_gp,
		.fixed = cap.num_counters_fixed,
		.bits = cap.bit_width_gp,
		.version = cap.version,
	};
}

/*
 * The event that runs there.  Linux before 7.0, but for later 6.18, removes a stopped event from
 * the table; others keep it until another event gets the counter.
 */
static struct perf_event *host_event(unsigned int slot)
{
	const struct host_events *events;

	if (!host_events)
		return NULL;
	events = this_cpu_ptr(host_events);
	return test_bit(slot, events->active) ? events->by_slot[slot] : NULL;
}

/* Nobody reads the count of that one (kernel/watchdog_perf.c). */
static bool is_watchdog(const struct perf_event *event)
{
	return watchdog_callback && (unsigned long)event->overflow_handler == watchdog_callback;
}

static enum compat_loss event_loss(const struct perf_event *event)
{
	bool host = !event->attr.exclude_host, guest = !event->attr.exclude_guest;

	if (vpmu_compat_on_intel() && event->attr.precise_ip)
		return COMPAT_CANT_LEND;
	if (is_watchdog(event))
		return COMPAT_LOSES_NOTHING;
	if (host == guest)
		return COMPAT_LOSES_BOTH;
	if (guest)
		return COMPAT_LOSES_GUEST;
	/* KVM's code, right before and behind the stay, is kernel code. */
	return event->attr.exclude_kernel ? COMPAT_LOSES_NOTHING : COMPAT_LOSES_HOST;
}

/* PERF_X86_EVENT_PAIR of arch/x86/events/amd/core.c, which modules don't have: PMCx003 */
bool vpmu_compat_host_pair(const struct perf_event *event)
{
	return !vpmu_compat_on_intel() && boot_cpu_data.x86 >= 0x17 &&
	       (event->hw.config & AMD64_EVENTSEL_EVENT) == 0x003;
}

bool vpmu_compat_host_has(unsigned int index)
{
	const struct perf_event *before;

	if (host_event(index))
		return true;
	before = index ? host_event(index - 1) : NULL;
	return before && vpmu_compat_host_pair(before);
}

bool vpmu_compat_host_is_watchdog(unsigned int index)
{
	const struct perf_event *event = host_event(index);

	return event && is_watchdog(event);
}

unsigned long vpmu_compat_host_losses(enum compat_loss *losses, unsigned int general,
				      unsigned int nr)
{
	unsigned long pairs = 0;
	unsigned int slot;

	for (slot = 0; slot < nr; slot++) {
		const struct perf_event *event;

		event = host_event(slot < general ? slot : INTEL_PMC_IDX_FIXED + slot - general);
		if (event) {
			losses[slot] = event_loss(event);
			if (vpmu_compat_host_pair(event))
				pairs |= BIT(slot);
		} else {
			losses[slot] = slot && (pairs & BIT(slot - 1)) ? losses[slot - 1] :
				       COMPAT_LOSES_NOTHING;
		}
	}
	return pairs;
}

/* perf adds a running event's time later, so the total may be negative for a while. */
void vpmu_compat_host_event_paused(unsigned int slot, u64 ticks, u64 in_host)
{
	struct perf_event *event = host_event(slot);

	if (!event)
		return;
	switch (event_loss(event)) {
	case COMPAT_LOSES_NOTHING:
		return;
	case COMPAT_LOSES_HOST:
		ticks = in_host;
		break;
	case COMPAT_LOSES_BOTH:
	case COMPAT_LOSES_GUEST:
	case COMPAT_CANT_LEND:
		break;
	}
	event->total_time_running -= mul_u64_u32_div(ticks, NSEC_PER_MSEC, tsc_khz);
}

/* perf_clear_dirty_counters() clears all counters that host events have left. */
void vpmu_compat_host_counters_taken(unsigned long mask)
{
	if (host_events)
		this_cpu_ptr(host_events)->dirty[0] &= ~mask;
}

bool vpmu_compat_host_counters_dirty(unsigned long mask)
{
	if (host_events)
		this_cpu_ptr(host_events)->dirty[0] |= mask;
	return host_events;
}

/* MAX_INTERRUPTS of kernel/events/core.c, before the event's overflow handler is called */
bool vpmu_compat_host_throttled(const struct perf_event *event)
{
	return event->hw.interrupts == ~0ULL;
}
