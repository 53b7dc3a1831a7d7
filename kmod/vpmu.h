/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's data, and its layers.  Each file includes the headers of those files below it that
 * it calls, and none of a file above it:
 *
 *	hook/table.c	KVM's and perf's functions that are hooked, and their handlers
 *	chardev.c	the device: ioctls that change something
 *	profile.c	the device: profiles of the host and of all guests
 *	stack.c		a guest's call graph
 *	report.c	the device: ioctls that report
 *	observe.c	the device: who observes VMs' events
 *	attach.c	the VMs whose PMU is emulated by this module
 *	vcpu.c		an object for each vCPU of these
 *	fast.c		accesses by the guest, completed behind the VM exit
 *	msr.c		accesses to PMU registers, by the guest and by userspace
 *	pmi.c		the NMI handler, and the guest's interrupt
 *	emul.c		VM entries, and instructions that KVM emulates
 *	measure.c	does this CPU count VM entries?
 *	host_perf.c	host perf starts or stops an event
 *	sched.c		guest counters scheduled onto physical counters
 *	open.c		registers that the guest accesses without a VM exit
 *	borrow.c	physical counters lent by host perf for the stay in guest mode
 *	counter.c	a guest counter's value while it is on a physical counter
 *	event.c		guest counters of the hypervisor's events, which need no physical one
 *	vtsc.c		a guest TSC that stops while the vCPU is descheduled
 *	cpuid.c		the PMU that the guest's CPUID enumerates
 *	guest/, hw/	a guest's PMU registers; the CPU's
 *	param.c		module parameters whose values are words
 *	count.h		arithmetic
 *	scan.h		what probe.c does with a page table
 *	compat/		kernel versions, and symbols that modules can't link to
 *
 * Locking.  vpmu_vms_lock, a mutex, protects the lists of VMs and of their vCPUs, and settings.  A
 * vCPU's counters are touched by one task at a time: KVM holds vcpu->mutex, or is creating or
 * destroying the vCPU.  Interrupts are off wherever physical counters or their bookkeeping change,
 * as host perf starts events from interrupts (vpmu_host_evict()), and tools read counters from an
 * IPI (vpmu_sched_update_all()).  The NMI handler changes none of that: the handler reads counters,
 * acknowledges overflows and makes requests.
 */
#ifndef VPMU_VPMU_H
#define VPMU_VPMU_H

#include <linux/kvm_host.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>

#include "compat/compat.h"
#include "count.h"
#include "guest/guest.h"
#include "hw/hw.h"

#define VPMU_NO_SLOT	(-1)

/* What is counted for observers in the host, each with what is in front of it */
enum vpmu_observed {
	VPMU_UNOBSERVED,
	VPMU_OBSERVE_TIME,	/* vpmu_events.kvm_ticks */
	VPMU_OBSERVE_EVENTS,	/* .causes */
};

/**
 * struct vpmu_vm - a VM that has a vCPU of ours
 * @kvm: KVM's VM
 * @id: its number for userspace, never used twice
 * @freeze: KVM_VPMU_FREEZE_... (uapi)
 * @tsc: KVM_VPMU_TSC_...
 * @events: KVM_VPMU_EVENTS_...
 * @node: in the list of all
 * @vcpus: its vCPUs, in the order of their creation
 * @nr: how many
 * @observers: who observes the VM's events, under vpmu_vms_lock
 * @observed: what for: the most that one of them wants
 */
struct vpmu_vm {
	struct kvm *kvm;
	u64 id;
	u32 freeze;
	u32 tsc;
	u32 events;
	struct list_head node;
	struct list_head vcpus;
	unsigned int nr;
	struct list_head observers;
	enum vpmu_observed observed;
};

/**
 * struct vpmu_observer - who observes a VM's events
 * @who: an open file of the device, or a profile
 * @what: what is counted for that
 * @node: in the VM's list
 */
struct vpmu_observer {
	const void *who;
	enum vpmu_observed what;
	struct list_head node;
};

/**
 * struct vpmu_counter - where a guest counter is now
 * @count: the arithmetic; meaningful while on a physical counter
 * @slot: the physical counter, or VPMU_NO_SLOT
 * @last: the last physical counter that was assigned
 * @index: its number among the guest's counters
 * @pinned: the event can be counted by certain physical counters only.  One of them is that with
 *	the same number, as the guest's perf chose this one by the CPU's constraints
 * @select: the event select that @count's class and filter and the vCPU's masks are derived from
 * @freeze: the freeze mode that they are derived from
 * @event: the hypervisor's event that it counts (KVM_VPMU_EVENT_..., a unit mask); negative: one of
 *	the CPU's
 * @overflowed: the NMI handler saw it overflow since the last synchronization
 * @since: TSC when it was started
 * @enabled: ticks that it was started for, up to the last stop
 * @running: ticks of these that it was on a physical counter
 */
struct vpmu_counter {
	struct vpmu_count count;
	int slot;
	s8 last;
	u8 index;
	bool pinned;
	s16 event;
	u64 select;
	u32 freeze;
	bool overflowed;
	u64 since;
	u64 enabled;
	u64 running;
};

/* What KVM does between the arming of a counter and the coming VM entry */
enum vpmu_arming {
	VPMU_ARM_FOR_ENTRY,		/* nothing that counts */
	VPMU_ARM_FOR_WRMSR,		/* completes the guest's WRMSR that asks for that */
	VPMU_ARM_FOR_COMPLETION,	/* probably completes another instruction */
};

/* Bits of vpmu_hot.slow */
#define VPMU_SLOW_STALE		BIT(0)	/* host perf has changed registers that are shared */
#define VPMU_SLOW_BORROWS	BIT(1)	/* some counter borrows a physical one */
#define VPMU_SLOW_ARMED		BIT(2)	/* counters were armed for an entry at @armed_level */
#define VPMU_SLOW_REPEATS	BIT(3)	/* the guest will repeat what KVM is emulating */
#define VPMU_SLOW_MEASURE	BIT(4)	/* that VM entries count is an assumption */
#define VPMU_SLOW_UNCOUNTED	BIT(5)	/* they don't, but the stubs are for CPUs that count them */
#define VPMU_SLOW_ALIGN		BIT(6)	/* arm those counters again that would overflow too early */

/**
 * struct vpmu_hot - what each VM exit touches; stubs.S has the offsets (hook/hot.h)
 * @vcpu: KVM's vCPU
 * @pending: mask of the classes in which KVM emulated one event for the guest since the last VM
 *	entry, which is not in the tally yet
 * @slow: VPMU_SLOW_...; why the fast path isn't enough, usually 0
 * @watch: VM exits are looked at: by fast.c, as the guest has accessed PMU registers lately (what
 *	is left of VPMU_WATCH_ACCESS), and VPMU_WATCH_EVENTS
 * @msr_list_valid: Intel: KVM's VMCS has the counters that count in guest mode, as host perf
 *	reported them, and nothing has changed since
 * @emulated: instructions that KVM emulated while counters ran
 * @margin: where VM entries don't count: how many more events KVM may emulate before some physical
 *	counter falls behind the guest's
 */
struct vpmu_hot {
	struct kvm_vcpu *vcpu;
	u32 pending;
	u32 slow;
	u32 watch;
	u32 msr_list_valid;
	u64 emulated;
	s64 margin;
};

/*
 * What vpmu_hot.watch gets by an access of the guest, as a guest's perf makes several in a row.  A
 * VM exit that is no access takes 1 of that if counters are aligned then (vpmu_align_later()), else
 * VPMU_WATCH_UNALIGNED.
 *
 * A sample with an exit behind the last alignment costs another NMI, some 7,000 cycles by the model
 * of docs/benchmarks.md.  An alignment costs some 200.
 */
#define VPMU_WATCH_ACCESS	8
#define VPMU_WATCH_UNALIGNED	2
/* In vpmu_hot.watch: all VM exits, as each may be an event (vpmu_events) */
#define VPMU_WATCH_EVENTS	BIT(31)

/* The overflow status in masks of counters (vpmu_vcpu.open), and RDPMC of any counter */
#define VPMU_OPEN_STATUS	BIT(VPMU_MAX_COUNTERS)
#define VPMU_OPEN_RDPMC		BIT(VPMU_MAX_COUNTERS + 1)

/**
 * struct vpmu_leaf - leaf 0AH of a vCPU's CPUID as userspace has set it
 * @eax: EAX; 0 while KVM has that leaf, too, unchanged
 * @ecx: ECX
 * @edx: EDX
 */
struct vpmu_leaf {
	u32 eax;
	u32 ecx;
	u32 edx;
};

/* In vpmu_events.by_cause and .timing: not a counter of the guest, but a reader in the host */
#define VPMU_OBSERVER	BIT(VPMU_MAX_COUNTERS)

/**
 * struct vpmu_events - the hypervisor's events of a vCPU, as far as KVM has no statistic of them
 * @interrupting: mask of the counters whose overflow is to interrupt the guest.  Each VM entry
 *	looks whether an overflow is near
 * @exits: mask of those for which each VM exit is looked at, as they are in one of the next two
 * @by_level: mask of those that count at one privilege level only
 * @by_cause: mask of those that count one of @causes
 * @timing: mask of those that count @kvm_ticks
 * @twice: mask of those that count each event twice
 * @windows: KVM's statistic irq_window_exits at the last VM entry where an overflow was near
 * @source: where a counter's events are counted
 * @near: when they are at least so many, the counter may overflow before the next VM exit is
 *	looked at
 * @level: the guest's privilege level at the last VM exit, or when no counter was in @by_level
 * @causes: VM exits by what ended the stay in guest mode, while @by_cause isn't 0
 * @returns: how often KVM_RUN has returned
 * @cpu: where the vCPU was loaded last for KVM_RUN; negative: not since a counter was started
 * @moves: how often that was another CPU
 * @node_moves: how often that was a CPU of another node
 * @kvm_ticks: the host's TSC ticks in KVM, up to the last VM entry or vcpu_put, while @timing
 *	isn't 0
 * @kvm_since: the TSC at the last VM exit, vcpu_load or vcpu_put
 * @thread: start_time of the thread in KVM_RUN; other than its address, that is never used again
 * @delay: that thread's run delay (ns), as far as it is in @steal
 * @steal: ns
 */
struct vpmu_events {
	unsigned long interrupting;
	unsigned long exits;
	unsigned long by_level;
	unsigned long by_cause;
	unsigned long timing;
	unsigned long twice;
	u64 windows;
	const u64 *source[VPMU_MAX_COUNTERS];
	u64 near[VPMU_MAX_COUNTERS];
	int level;
	u64 causes[COMPAT_NR_EXITS];
	u64 returns;
	int cpu;
	u64 moves;
	u64 node_moves;
	u64 kvm_ticks;
	u64 kvm_since;
	u64 thread;
	u64 delay;
	u64 steal;
};

/**
 * struct vpmu_stack - what a guest's stack is found by
 * @rip: the guest's registers
 * @rsp: see there
 * @rbp: see there
 * @cr3: see there
 * @user: the guest was at privilege level 3
 * @long_mode: it was in 64-bit mode
 */
struct vpmu_stack {
	u64 rip;
	u64 rsp;
	u64 rbp;
	u64 cr3;
	bool user;
	bool long_mode;
};

/**
 * struct vpmu_profiled - a vCPU's last switch that was recorded, and a sample
 * @session: profile.c's when the next two were written
 * @thread: start_time of the thread that put the vCPU
 * @delay: that thread's run delay (ns) then
 * @halted: the vCPU was put as it halts
 * @woken: TSC when KVM has woken that thread, or of a record behind that; 0: not yet
 * @kvm_ticks: vpmu_events.kvm_ticks when the vCPU was loaded
 * @sampled: TSC of a sample whose stack is to be recorded before the guest runs again; 0: none
 * @words: a profile wants the stack's words, too (KVM_VPMU_PROFILE_WORDS)
 * @stack: where that is
 */
struct vpmu_profiled {
	u64 session;
	u64 thread;
	u64 delay;
	u64 woken;
	u64 kvm_ticks;
	u64 sampled;
	bool halted;
	bool words;
	struct vpmu_stack stack;
};

struct probed_vcpu;

/**
 * struct vpmu_probed - a vCPU and the probe of its pages
 * @lock: what probe.c does with the vCPU; held by a thread that may sleep
 * @pv: probe.c's, or NULL; changed under @lock, read under RCU
 * @tag: its page tables', or 0
 * @due: there is something to do before the next VM entry; written in NMIs, too
 * @drop: KVM is to find other page tables; this and the next one under @lock
 * @begin: a window is to begin
 * @stop: windows are to end
 * @over: this one is, by its event; written in NMIs
 */
struct vpmu_probed {
	struct mutex lock;	/* see above */
	struct probed_vcpu __rcu *pv;
	unsigned int tag;
	bool due;
	bool drop;
	bool begin;
	bool stop;
	bool over;
};

/**
 * struct vpmu_vcpu - a vCPU with a PMU of this module
 * @hot: see there
 * @guest: the registers that the guest sees; stubs.S has the offset
 * @tally: events that hardware counted and the guest didn't cause; see count.h
 * @vm: its VM
 * @sibling: in the VM's list
 * @node: in the table of all (vcpu.c)
 * @leaf: Intel: what cpuid.c has replaced
 * @filter: what KVM_X86_SET_MSR_FILTER denies of the registers that may be open
 * @denied: mask of counters whose event KVM_SET_PMU_EVENT_FILTER denies
 * @freeze: the freeze mode that counters were started in
 * @events: KVM_VPMU_EVENTS_... that they were
 * @counter: where its counters are
 * @loaded: between vcpu_load and vcpu_put
 * @run_seen: KVM_RUN has begun, and not ended; see vpmu_compat_running()
 * @running: loaded for KVM_RUN, not for another ioctl
 * @put_tsc: the TSC when it was put; 0 if the time since then isn't to be taken out of the guest's
 *	TSC
 * @placed: mask of the counters that are on physical ones
 * @borrowing: mask of those that count, but found no free physical one: they borrow one of host
 *	perf's for each stay in guest mode, and are in @placed meanwhile
 * @software: mask of those that count the hypervisor's events.  They go on while the vCPU is
 *	descheduled
 * @event: what event.c keeps for these
 * @in_host: mask of those that count while KVM works for the vCPU, too; this and the next two are
 *	up to date for counters in @placed and @borrowing
 * @cpl_filtered: mask of those that emulated instructions count in, depending on the privilege
 *	level
 * @exact: mask of those whose overflow has to come at the instruction: they ask for an interrupt,
 *	and KVM's work can move it away from there
 * @accessed: mask of the counters that the guest has accessed, by a VM exit, since @open was 0
 * @open: mask of the counters whose values are in the physical counters of the same number, which
 *	count nothing; with VPMU_OPEN_STATUS, the overflow status is in hardware, too; with
 *	VPMU_OPEN_RDPMC, those of all counters are, for the guest to read (open.c)
 * @considered: the same of those that were tried to open since then
 * @written: mask of the counters that the guest has written by a VM exit since then
 * @expected: mask of those that were written, by a VM exit or without, when @open wasn't 0 last
 *	time, and no counter had overflowed
 * @uses_rdpmc: the guest has executed RDPMC by a VM exit while its counters were off
 * @reads: how often the guest has read counters by a VM exit since it has written a PMU register,
 *	or VM exits were not watched; negative: their reads could not be opened
 * @by_rdpmc: the last time, by RDPMC
 * @may: what the guest may access by @open, as in KVM's permission map
 * @shown: the overflow status that was put there; the guest can only clear bits
 * @granted: the part of @may that was added to the map for this stay in guest mode
 * @granted_any: that is something
 * @granted_rdpmc: RDPMC doesn't exit during this stay
 * @measuring: this VM entry is being measured (measure.c)
 * @assumed: entries in @tally while VPMU_SLOW_MEASURE was set, by privilege level
 * @armed_level: the privilege level that the coming VM entry was assumed to have when counters were
 *	armed
 * @profiled: what profile.c keeps from a load to the next put, and from there to the next load
 * @probed: see there
 * @stats: figures since the vCPU was created, as in struct kvm_vpmu_vcpu
 */
struct vpmu_vcpu {
	struct vpmu_hot hot;
	struct guest_pmu guest;
	struct vpmu_tally tally;
	struct vpmu_vm *vm;
	struct list_head sibling;
	struct hlist_node node;
	struct vpmu_leaf leaf;
	struct compat_filter filter;
	unsigned long denied;
	u32 freeze;
	u32 events;
	struct vpmu_counter counter[VPMU_MAX_COUNTERS];
	bool loaded;
	bool run_seen;
	bool running;
	u64 put_tsc;
	unsigned long placed;
	unsigned long borrowing;
	unsigned long software;
	struct vpmu_events event;
	unsigned long in_host;
	unsigned long cpl_filtered;
	unsigned long exact;
	unsigned long accessed;
	unsigned long open;
	unsigned long considered;
	unsigned long written;
	unsigned long expected;
	bool uses_rdpmc;
	s32 reads;
	bool by_rdpmc;
	u32 may[COMPAT_NR_GROUPS];
	u32 granted[COMPAT_NR_GROUPS];
	bool granted_any;
	bool granted_rdpmc;
	u64 shown;
	bool measuring;
	u32 assumed[VPMU_NR_LEVELS];
	int armed_level;
	struct vpmu_profiled profiled;
	struct vpmu_probed probed;
	struct {
		u64 overflows;
		u64 pmis;
		u64 early;
		u64 reads;
		u64 writes;
		u64 rdpmcs;
		u64 fast;
		u64 open;
		u64 in_kvm;
		u64 evicted;
		u64 borrowed;
		u64 gaps;
		u64 anomalies;
		u64 descheduled_tsc;
	} stats;
};

/* How many more VM exits fast.c looks at */
static inline u32 vpmu_watching(const struct vpmu_vcpu *vv)
{
	return vv->hot.watch & ~VPMU_WATCH_EVENTS;
}

static inline void vpmu_watch(struct vpmu_vcpu *vv, u32 left)
{
	vv->hot.watch = (vv->hot.watch & VPMU_WATCH_EVENTS) | left;
}

/**
 * struct vpmu_lenders - which counters of host perf's a guest's borrow, until an event is started
 *	or stopped that changes that
 * @borrowers: mask of the guest counters that borrow; 0: to be found out again
 * @beside: mask of those that run meanwhile, on physical counters of their own
 * @slot: the physical counter that each of @borrowers borrows, or VPMU_NO_SLOT
 * @slots: mask of these
 * @all_borrow: each of @borrowers has one
 * @partners: mask of the physical counters that have to be lent with those
 * @losing: mask of all these on which a host event loses time
 */
struct vpmu_lenders {
	unsigned long borrowers;
	unsigned long beside;
	int slot[VPMU_MAX_COUNTERS];
	unsigned long slots;
	bool all_borrow;
	unsigned long partners;
	unsigned long losing;
};

/**
 * struct vpmu_cpu - a physical CPU
 * @vv: the loaded vCPU if it has an object, else NULL; first, for stubs.S
 * @owner: the guest counter on each physical one, or VPMU_NO_SLOT
 * @prepared: counters may be started, since @vv was loaded
 * @host_saved: mask of counters that keep the count of a stopped host event
 * @dirty: mask of counters that keep the count of a stopped guest counter
 * @kept: mask of counters that hold what a guest counter had at its stop, @left
 * @left: that value
 * @cleared: mask of counters that this module has stopped, or found stopped: no event of host perf
 *	has started there since
 * @no_status: no counter's overflow status was set when none ran, and no event of host perf has
 *	started since
 * @others: a counter that RDPMC reads, and that isn't in hw_ops, may have a count of somebody's
 * @watchdogs: mask of the counters of the host's NMI watchdog, which is all that runs there; 0: to
 *	be found out again
 * @taken: mask of counters that host perf is still to be told of
 *	(vpmu_compat_host_counters_taken())
 * @lenders: see there
 * @saved: host perf's state of a counter that is lent
 * @lent: mask of lent counters
 * @was_lent: mask of those that were lent for this entry, given back or not
 * @lent_to_open: mask of those that were lent for registers to be open (open.c)
 * @lent_since: TSC when they were
 * @lending: ticks that this took
 * @given: the physical value that the guest's event began with there
 * @seen: the guest's last physical value on a counter that was given back
 * @seen_status: the overflow status there, of @lent_to_open
 * @late_nmi: until when (jiffies) an NMI that finds no overflow is taken as that of an overflow
 *	which was noticed before its NMI; 0 for none
 * @hidden: bits of the overflow status that are the guest's (vpmu_vcpu.shown), while an NMI is
 *	handled
 * @paused: what hw_ops.pause() returned, while an NMI is handled
 * @hosts: the overflow status in that NMI, without bits that are the guest's
 * @handled: whether that NMI was ours
 * @busy: counters are being lent or given back
 */
struct vpmu_cpu {
	struct vpmu_vcpu *vv;
	int owner[VPMU_MAX_COUNTERS];
	bool prepared;
	unsigned long host_saved;
	unsigned long dirty;
	unsigned long kept;
	unsigned long cleared;
	bool no_status;
	bool others;
	unsigned long watchdogs;
	unsigned long taken;
	u64 left[VPMU_MAX_COUNTERS];
	struct vpmu_lenders lenders;
	struct hw_saved saved[VPMU_MAX_COUNTERS];
	u64 given[VPMU_MAX_COUNTERS];
	u64 seen[VPMU_MAX_COUNTERS];
	unsigned long lent;
	unsigned long was_lent;
	unsigned long lent_to_open;
	u64 lent_since;
	u64 lending;
	u64 seen_status;
	unsigned long late_nmi;
	u64 hidden;
	u64 paused;
	u64 hosts;
	bool handled;
	bool busy;
};

/* Defined in counter.c */
DECLARE_PER_CPU(struct vpmu_cpu, vpmu_cpu);
/* The loaded vCPU if it has running counters, VPMU_SLOW_MEASURE, or VM exits to look at */
DECLARE_PER_CPU(struct vpmu_vcpu *, vpmu_hot);
extern const struct hw_ops *vpmu_hw;

/* Defined in vcpu.c: the lists of VMs and of their vCPUs, and their settings */
extern struct mutex vpmu_vms_lock;
extern struct list_head vpmu_vms;	/* under vpmu_vms_lock, oldest first */
/* How many observe all VMs, those to come included (observe.c); under vpmu_vms_lock */
extern unsigned int vpmu_all_observed;

/* What is counted for a VM of which nobody observes anything in particular; under vpmu_vms_lock */
static inline enum vpmu_observed vpmu_least_observed(void)
{
	return vpmu_all_observed ? VPMU_OBSERVE_TIME : VPMU_UNOBSERVED;
}

#endif
