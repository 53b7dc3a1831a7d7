// SPDX-License-Identifier: GPL-2.0
/*
 * Guest counters on physical ones: from vcpu_load to vcpu_put, nothing in
 * between.  All of it runs with interrupts off on the CPU that the vCPU is
 * loaded on.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/printk.h>
#include <asm/msr.h>
#include <uapi/linux/kvm_vpmu.h>

#include "compat/compat.h"
#include "compat/cpu.h"
#include "vpmu.h"
#include "trace.h"

/* How long after an overflow was noticed its NMI may still come. */
#define LATE_NMI	msecs_to_jiffies(10)

/*
 * By how much a physical counter runs ahead, and how far from its top: an additional
 * interrupt for at least so many events
 */
#define ARM_MARGIN		4096
#define ARM_MARGIN_FROM	65536

/* How often to look whether an NMI that is on its way has come */
#define WAIT_FOR_NMI	1000

DEFINE_PER_CPU(struct vpmu_cpu, vpmu_cpu);
DEFINE_PER_CPU(struct vpmu_vcpu *, vpmu_hot);
const struct hw_ops *vpmu_hw;

void vpmu_cpu_init(void)
{
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu)
		for (i = 0; i < VPMU_MAX_COUNTERS; i++)
			per_cpu(vpmu_cpu, cpu).owner[i] = VPMU_NO_SLOT;
}

static int vcpu_level(struct vpmu_vcpu *vv)
{
	return vpmu_compat_get_cpl(vv->hot.vcpu) ? VPMU_USER : VPMU_KERNEL;
}

/*
 * What the coming VM entry adds to counter @i beyond what the guest does,
 * provided that the guest is entered at @level.
 */
int vpmu_counter_next_entry(const struct vpmu_vcpu *vv, unsigned int i, int level)
{
	const struct vpmu_count *c = &vv->counter[i].count;

	return vpmu_hw->entry_counts && c->class != VPMU_OTHER &&
	       (c->filter & BIT(level));
}

static __always_inline bool is_free(const struct vpmu_cpu *pc, int slot)
{
	return pc->owner[slot] == VPMU_NO_SLOT && !(pc->host_saved & BIT(slot)) &&
	       !vpmu_hw->in_use(slot);
}

static bool fits(int slot, const struct vpmu_counter *c)
{
	if (c->pinned)
		return slot == c->index;
	return !vpmu_hw->fits || vpmu_hw->fits(slot, c->select);
}

/*
 * Where counter @c was the last time, if possible.  Host perf starts at the bottom;
 * start at the top to stay out of its way, and on a fixed counter if there is one for it.
 * One that is pinned has one place only.
 */
static __always_inline int find_slot(const struct vpmu_cpu *pc, const struct vpmu_counter *c)
{
	int slot;

	if (c->last != VPMU_NO_SLOT && is_free(pc, c->last) && fits(c->last, c))
		return c->last;
	for (slot = vpmu_hw->nr - 1; slot >= 0; slot--)
		if (fits(slot, c) && is_free(pc, slot))
			return slot;
	return VPMU_NO_SLOT;
}

/*
 * The rest of sync_with() if the physical counter (@wrapped) or the guest's went
 * over its top, or @gain is impossible.
 */
static noinline bool sync_overflowed(struct vpmu_vcpu *vv, unsigned int i, s64 gain,
				     bool wrapped, bool seen)
{
	struct vpmu_counter *c = &vv->counter[i];

	if (gain < 0) {
		vv->stats.anomalies++;
		pr_warn_once("VM entries are not counted by this CPU, counts are too low; load with vmrun_counts=0\n");
	}

	if (wrapped && !seen) {
		/*
		 * Its NMI, if it is still to come, has nothing left to find, nor
		 * has host perf, which would warn of it.
		 */
		if (vpmu_guest_interrupts(&vv->guest, i))
			this_cpu_write(vpmu_cpu.late_nmi, jiffies + LATE_NMI);
		if (!c->borrows)
			vpmu_hw->ack(BIT_ULL(c->slot));
	}

	if (vpmu_count_add(&vv->guest.value[i], gain)) {
		vpmu_counter_overflow(vv, i);
		return false;
	}
	if (wrapped)
		vv->stats.early++;
	return wrapped;
}

/*
 * Bring a counter's guest value up to date with physical value @hw.  @seen: its
 * NMI came already, if it overflowed.
 */
static __always_inline bool sync_with(struct vpmu_vcpu *vv, unsigned int i, u64 hw, bool seen)
{
	struct vpmu_count *c = &vv->counter[i].count;
	bool wrapped = vpmu_count_wrapped(c, hw);
	s64 gain = vpmu_count_sync(c, &vv->tally, hw);
	u64 value = vv->guest.value[i] + gain;

	if (unlikely(wrapped || gain < 0 || value > VPMU_COUNTER_MASK))
		return sync_overflowed(vv, i, gain, wrapped, seen);
	vv->guest.value[i] = value;
	return false;
}

/*
 * Whether the NMI handler has seen the counter overflow, and forget it: before
 * the counter is read, so that an overflow after that is seen next time.
 */
static bool take_overflowed(struct vpmu_counter *c)
{
	bool seen = c->overflowed;

	c->overflowed = false;
	barrier();
	return seen;
}

static __always_inline bool sync(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];
	bool seen;

	lockdep_assert_irqs_disabled();
	if (c->slot == VPMU_NO_SLOT)
		return false;

	vpmu_flush_pending(vv);
	seen = take_overflowed(c);
	return sync_with(vv, i, vpmu_hw->read(c->slot), seen);
}

/**
 * vpmu_counter_sync() - bring a counter's guest value up to date
 * @vv: the vCPU
 * @i: the guest counter, which goes on
 *
 * Deals with an overflow of the guest's counter.
 *
 * Return: whether only the physical counter overflowed, which then has to be
 * armed again.
 */
bool vpmu_counter_sync(struct vpmu_vcpu *vv, unsigned int i)
{
	return sync(vv, i);
}

/* Bring a counter up to date, and arm it again if it overflowed early. */
void vpmu_counter_update(struct vpmu_vcpu *vv, unsigned int i)
{
	if (unlikely(sync(vv, i)))
		vpmu_counter_arm(vv, i, false);
}

/*
 * Where VM entries don't count, each instruction that KVM completes lets the physical
 * counter fall behind.  So that not each of them has to correct it, a counter far from its
 * top runs ahead by some; it then overflows early, and is armed once more.
 *
 * @emulating: as for armed_value(); one ahead is exact then.
 */
static unsigned int arm_margin(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	struct vpmu_counter *c = &vv->counter[i];
	u64 left = VPMU_COUNTER_MASK - vv->guest.value[i];
	unsigned int margin = 0;

	if (c->count.class == VPMU_OTHER || !vpmu_guest_interrupts(&vv->guest, i))
		return 0;
	if (left >= ARM_MARGIN_FROM)
		margin = ARM_MARGIN;
	else if (left && emulating && c->count.class == VPMU_INSTRUCTION)
		margin = 1;
	vv->hot.margin = min_t(s64, vv->hot.margin, margin);
	return margin;
}

/*
 * The physical value that overflows together with the guest's.
 * @emulating: KVM is completing the WRMSR that asks for it, and is about to note
 * that: the coming entry makes up for it.  Otherwise it makes up for nothing.
 */
static __always_inline u64 armed_value(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	struct vpmu_counter *c = &vv->counter[i];
	int level, bias;

	vpmu_flush_pending(vv);
	if (!vpmu_hw->entry_counts) {
		bias = -(int)arm_margin(vv, i, emulating);
		return vpmu_count_arm(&c->count, &vv->tally, vv->guest.value[i], bias);
	}

	level = vcpu_level(vv);
	bias = vpmu_counter_next_entry(vv, i, level);
	if (!emulating) {
		vv->armed_level = level;
		vv->hot.slow |= VPMU_SLOW_ARMED;
	} else if (bias > 0 && c->count.class == VPMU_INSTRUCTION) {
		/*
		 * Not below 0: a physical value ahead of the guest's could be
		 * past its top already.
		 */
		bias--;
	}
	return vpmu_count_arm(&c->count, &vv->tally, vv->guest.value[i], bias);
}

void vpmu_counter_arm(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	u64 value;

	lockdep_assert_irqs_disabled();
	if (vv->counter[i].slot == VPMU_NO_SLOT)
		return;
	value = armed_value(vv, i, emulating);
	vpmu_hw->write(vv->counter[i].slot, value);
}

/* After a counter was started or stopped. */
static void update_hot(struct vpmu_vcpu *vv)
{
	struct vpmu_vcpu *hot = vv->placed || vv->borrowing ? vv : NULL;

	if (vv->borrowing)
		vv->hot.slow |= VPMU_SLOW_BORROWS;
	else
		vv->hot.slow &= ~VPMU_SLOW_BORROWS;
	vv->hot.msr_list_valid = false;
	this_cpu_write(vpmu_hot, hot);
}

/* Before a counter is started */
static __always_inline void prepare(struct vpmu_cpu *pc)
{
	if (pc->prepared)
		return;
	vpmu_hw->prepare();
	pc->prepared = true;
}

/* Put counter @i on physical counter @slot, which is free, and let it run. */
static __always_inline void sched_in(struct vpmu_vcpu *vv, unsigned int i, int slot, bool emulating)
{
	struct vpmu_counter *c = &vv->counter[i];

	prepare(this_cpu_ptr(&vpmu_cpu));
	vpmu_compat_host_counter_taken(vpmu_hw_index(vpmu_hw, slot));
	vpmu_hw->write(slot, armed_value(vv, i, emulating));
	this_cpu_and(vpmu_cpu.dirty, ~BIT(slot));
	/* The NMI handler must know it before it runs, but not before that. */
	c->slot = slot;
	c->last = slot;
	this_cpu_write(vpmu_cpu.owner[slot], i);
	vv->placed++;
	vv->placed_in_host += c->in_host;
	barrier();
	vpmu_hw->start(slot, vv->guest.select[i], c->in_host);
}

static __always_inline void sched_out(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];

	vpmu_hw->halt(c->slot);
	sync(vv, i);
	this_cpu_write(vpmu_cpu.owner[c->slot], VPMU_NO_SLOT);
	this_cpu_or(vpmu_cpu.dirty, BIT(c->slot));
	c->slot = VPMU_NO_SLOT;
	vv->placed--;
	vv->placed_in_host -= c->in_host;
}

static void borrow_from_now_on(struct vpmu_vcpu *vv, unsigned int i)
{
	vv->counter[i].borrows = true;
	vv->borrowing++;
}

/* Has host perf a physical counter that @c could borrow? */
static bool lendable(const struct vpmu_cpu *pc, const struct vpmu_counter *c)
{
	int slot;

	for (slot = 0; slot < vpmu_hw->nr; slot++)
		if (pc->owner[slot] == VPMU_NO_SLOT && fits(slot, c))
			return true;
	return false;
}

static noinline int make_room(struct vpmu_vcpu *vv, const struct vpmu_counter *for_c);

/*
 * The one physical counter for @for_c, which is pinned, is another guest counter's, which isn't:
 * let that one go elsewhere.  Return the physical counter, or VPMU_NO_SLOT.
 */
static noinline int make_room_for_pinned(struct vpmu_vcpu *vv, const struct vpmu_counter *for_c)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	int slot = for_c->index, i = pc->owner[slot], other;

	if (i == VPMU_NO_SLOT || vv->counter[i].slot != slot || vv->counter[i].borrows)
		return VPMU_NO_SLOT;
	sched_out(vv, i);
	/* Nobody's, but not free */
	pc->owner[slot] = i;
	other = find_slot(pc, &vv->counter[i]);
	if (other == VPMU_NO_SLOT)
		other = make_room(vv, &vv->counter[i]);
	if (other == VPMU_NO_SLOT) {
		vv->counter[i].running += rdtsc() - vv->counter[i].since;
		borrow_from_now_on(vv, i);
	} else {
		sched_in(vv, i, other, false);
	}
	pc->owner[slot] = VPMU_NO_SLOT;
	return slot;
}

/*
 * There is no free physical counter for @for_c.  One that is borrowed for each stay in
 * guest mode can't count what KVM does in between, so let a counter borrow
 * that needn't; or one that can, if @for_c can't.  Return its former slot, or VPMU_NO_SLOT.
 */
static noinline int make_room(struct vpmu_vcpu *vv, const struct vpmu_counter *for_c)
{
	const struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	bool can_borrow = lendable(pc, for_c);
	unsigned int i;

	if (for_c->pinned)
		return make_room_for_pinned(vv, for_c);

	if (can_borrow && !for_c->in_host)
		return VPMU_NO_SLOT;
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];
		int slot = c->slot;

		if (slot == VPMU_NO_SLOT || !fits(slot, for_c) || !lendable(pc, c) ||
		    (can_borrow && c->in_host))
			continue;
		sched_out(vv, i);
		c->running += rdtsc() - c->since;
		borrow_from_now_on(vv, i);
		return slot;
	}
	return VPMU_NO_SLOT;
}

/* What does counter @i count, and where? */
static void update_config(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];

	if (c->select == vv->guest.select[i] && c->freeze == vv->freeze)
		return;
	c->select = vv->guest.select[i];
	c->freeze = vv->freeze;
	/* In mode "vcpu" it counts all that the CPU does; nothing to correct. */
	if (vv->freeze == KVM_VPMU_FREEZE_VCPU)
		c->count.class = VPMU_OTHER;
	else
		c->count.class = vpmu_guest_class(&vv->guest, i);
	c->count.filter = vpmu_guest_filter(&vv->guest, i);
	c->cpl_filtered = c->count.class != VPMU_OTHER &&
		   c->count.filter != (VPMU_IN_KERNEL | VPMU_IN_USER);
	c->pinned = i < vv->guest.general && vpmu_hw->pinned && vpmu_hw->pinned(c->select);
	c->in_host = vv->freeze == KVM_VPMU_FREEZE_VCPU ||
		     (vv->freeze == KVM_VPMU_FREEZE_HYBRID &&
		      vpmu_guest_speculative(&vv->guest, i));
}

/**
 * vpmu_sched_start() - let a guest counter run, if it isn't yet
 * @vv: the vCPU; nothing happens unless it is loaded
 * @i: the guest counter, which the guest has enabled
 * @emulating: it was the instruction being emulated that did; the counter
 *	counts that
 */
void vpmu_sched_start(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	struct vpmu_counter *c = &vv->counter[i];
	int slot;

	lockdep_assert_irqs_disabled();
	if (!vv->loaded || c->slot != VPMU_NO_SLOT || c->borrows ||
	    (vv->denied & BIT_ULL(i)))
		return;

	update_config(vv, i);
	/*
	 * Another ioctl than KVM_RUN may be one of several that save the vCPU: nothing may
	 * change between them, nor an overflow's interrupt come behind the one that saves it.
	 */
	if (unlikely(!vv->running) && c->in_host)
		return;
	c->overflowed = false;
	c->since = rdtsc();
	vv->nr_cpl_filtered += c->cpl_filtered;

	slot = find_slot(this_cpu_ptr(&vpmu_cpu), c);
	if (slot == VPMU_NO_SLOT)
		slot = make_room(vv, c);
	if (slot == VPMU_NO_SLOT)
		borrow_from_now_on(vv, i);
	else
		sched_in(vv, i, slot, emulating);
	update_hot(vv);
}

/* Stop a guest counter if it runs. */
void vpmu_sched_stop(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];
	u64 ticks;

	lockdep_assert_irqs_disabled();
	if (c->slot == VPMU_NO_SLOT && !c->borrows)
		return;

	vpmu_flush_pending(vv);
	vv->nr_cpl_filtered -= c->cpl_filtered;
	ticks = rdtsc() - c->since;
	c->enabled += ticks;
	if (c->borrows) {
		c->borrows = false;
		vv->borrowing--;
	} else {
		c->running += ticks;
		sched_out(vv, i);
	}
	update_hot(vv);
}

static void start_all(struct vpmu_vcpu *vv)
{
	unsigned int i;

	for (i = 0; i < vv->guest.nr; i++)
		if (vpmu_guest_counting(&vv->guest, i))
			vpmu_sched_start(vv, i, false);
}

/* Leave nothing of the guest that anybody could read. */
static void clear_dirty(void)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int slot;
	u64 left = 0;

	if (!pc->dirty)
		return;
	for_each_set_bit(slot, &pc->dirty, VPMU_MAX_COUNTERS)
		left |= BIT_ULL(vpmu_hw_index(vpmu_hw, slot));
	if (!vpmu_compat_host_counters_left(left))
		for_each_set_bit(slot, &pc->dirty, VPMU_MAX_COUNTERS)
			vpmu_hw->write(slot, 0);
	pc->dirty = 0;
}

static void stop_all(struct vpmu_vcpu *vv)
{
	unsigned int i;

	if (vv->placed || vv->borrowing)
		for (i = 0; i < vv->guest.nr; i++)
			vpmu_sched_stop(vv, i);
}

void vpmu_sched_load(struct vpmu_vcpu *vv)
{
	/*
	 * KVM may be about to complete an instruction, before it looks at its
	 * requests; on Linux 6.1 a new filter makes none at all.
	 */
	u64 denied = vpmu_denied_counters(vv);
	unsigned long flags;

	local_irq_save(flags);
	vv->loaded = true;
	vv->running = vpmu_compat_running(vv->hot.vcpu, vv->run_seen);
	vv->freeze = READ_ONCE(vv->vm->freeze);
	vv->denied = denied;
	this_cpu_write(vpmu_cpu.vv, vv);
	start_all(vv);
	local_irq_restore(flags);
}

void vpmu_sched_put(struct vpmu_vcpu *vv)
{
	unsigned long flags;

	trace_vpmu_put(vv);
	local_irq_save(flags);
	stop_all(vv);
	clear_dirty();
	this_cpu_write(vpmu_cpu.prepared, false);
	this_cpu_write(vpmu_cpu.vv, NULL);
	vv->loaded = false;
	/* Not if the thread is only switched out: interrupts are off then. */
	if (!irqs_disabled_flags(flags))
		vv->run_seen = false;
	local_irq_restore(flags);
}

/* Settings may have changed under running counters: the freeze mode, the event filter. */
void vpmu_sched_apply_settings(struct vpmu_vcpu *vv)
{
	u32 freeze = READ_ONCE(vv->vm->freeze);
	u64 denied = vpmu_denied_counters(vv);
	unsigned long flags;

	if (freeze == vv->freeze && denied == vv->denied)
		return;

	local_irq_save(flags);
	stop_all(vv);
	vv->freeze = freeze;
	vv->denied = denied;
	start_all(vv);
	local_irq_restore(flags);
}

/* Bring all counters up to date, on the CPU that the vCPU is loaded on. */
void vpmu_sched_update_all(struct vpmu_vcpu *vv)
{
	unsigned int i;
	u64 now = rdtsc();

	lockdep_assert_irqs_disabled();
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		vpmu_counter_update(vv, i);
		if (c->slot == VPMU_NO_SLOT && !c->borrows)
			continue;
		c->enabled += now - c->since;
		if (!c->borrows)
			c->running += now - c->since;
		c->since = now;
	}
}

/*
 * Host perf stopped the event on physical counter @slot of this CPU, and will
 * (@host_saved) or won't want the counter's value later.  Safe in NMIs.
 */
void vpmu_host_count_saved(unsigned int slot, bool kept)
{
	if (slot >= vpmu_hw->nr)
		return;
	if (kept)
		this_cpu_or(vpmu_cpu.host_saved, BIT(slot));
	else
		this_cpu_and(vpmu_cpu.host_saved, ~BIT(slot));
}

/*
 * Host perf is about to use the physical counters from @first to @last of this CPU.  It doesn't
 * know of guests, so the guest's counters move.
 */
void vpmu_host_evict(unsigned int first, unsigned int last)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_vcpu *vv = pc->vv;
	unsigned long flags, evicted = 0;
	unsigned int slot, i;

	if (first >= vpmu_hw->nr)
		return;
	last = min(last, vpmu_hw->nr - 1);
	for (slot = first; slot <= last; slot++) {
		vpmu_host_count_saved(slot, false);
		/* Host perf writes its own count there. */
		if (pc->owner[slot] == VPMU_NO_SLOT)
			this_cpu_and(vpmu_cpu.dirty, ~BIT(slot));
	}
	if (!vv)
		return;

	local_irq_save(flags);
	for (slot = first; slot <= last; slot++) {
		if (pc->owner[slot] == VPMU_NO_SLOT)
			continue;
		i = pc->owner[slot];
		vpmu_sched_stop(vv, i);
		pc->dirty &= ~BIT(slot);
		vv->stats.evicted++;
		evicted |= BIT(i);
	}
	if (evicted) {
		/* Nobody's, but not free: host perf comes there now. */
		for (slot = first; slot <= last; slot++)
			pc->owner[slot] = __ffs(evicted);
		for_each_set_bit(i, &evicted, VPMU_MAX_COUNTERS)
			vpmu_sched_start(vv, i, false);
		for (slot = first; slot <= last; slot++)
			pc->owner[slot] = VPMU_NO_SLOT;
	}
	local_irq_restore(flags);
}

/*
 * Host perf starts or stops an event on some counter of this CPU, one that we don't know
 * (topdown metrics, say) or not.  What it writes for that, later, may be shared with guests'
 * counters.
 */
void vpmu_host_changed(void)
{
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);

	if (!vv)
		return;
	WRITE_ONCE(vv->hot.msr_list_valid, false);
	/* In an NMI: pmi_nmi_end() does it. */
	if (vpmu_hw->reassert && !in_nmi())
		vv->hot.slow |= VPMU_SLOW_STALE;
}

/* All registers are as the guest's counters need them, if they weren't any more. */
void vpmu_host_reassert(struct vpmu_vcpu *vv)
{
	const struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned long mask = 0;
	unsigned int i;

	for (i = 0; i < vv->guest.nr; i++) {
		const struct vpmu_counter *c = &vv->counter[i];

		if (c->slot != VPMU_NO_SLOT && vpmu_holds_slot(pc, c))
			mask |= BIT(c->slot);
	}
	vpmu_hw->reassert(mask);
}

/*
 * The physical counters whose overflow makes no NMI: those of guest counters that ask for
 * none, and those that nobody runs.  Host perf's events all ask for one.
 */
static u64 quiet_slots(const struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	unsigned int slot;
	u64 quiet = 0;

	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		int i = pc->owner[slot];
		bool loud;

		if (i != VPMU_NO_SLOT && vv->counter[i].slot == slot &&
		    vpmu_holds_slot(pc, &vv->counter[i]))
			loud = vpmu_guest_interrupts(&vv->guest, i);
		else
			loud = vpmu_compat_host_has(vpmu_hw_index(vpmu_hw, slot));
		if (!loud)
			quiet |= BIT_ULL(slot);
	}
	return quiet;
}

/* Nobody has to be told what is quiet where all NMIs are held. */
static bool hold_nmis(const struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	return vpmu_hw->hold_nmis(vpmu_hw->hold_again ? quiet_slots(pc, vv) : 0);
}

/*
 * The counter for @c that host perf loses least by lending; @loses tells for each.
 * VPMU_NO_SLOT: as far as they fit, other counters of the guest have them all.
 */
static int choose(const struct vpmu_cpu *pc, const enum compat_loss *loses,
		  const struct vpmu_counter *c)
{
	unsigned int least = COMPAT_CANT_LEND;
	int slot, best = VPMU_NO_SLOT;

	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		if (pc->owner[slot] != VPMU_NO_SLOT || loses[slot] >= least || !fits(slot, c))
			continue;
		least = loses[slot];
		best = slot;
	}
	return best;
}

static __always_inline void lend_counter(struct vpmu_cpu *pc, unsigned int slot)
{
	if (pc->lent & BIT(slot))
		return;
	vpmu_hw->borrow(slot, &pc->saved[slot]);
	pc->lent |= BIT(slot);
}

/* A host event that needs two counters counts on neither while one of them is lent. */
static noinline void lend_partner(struct vpmu_cpu *pc, unsigned int slot, unsigned long pairs)
{
	if (pairs & BIT(slot))
		lend_counter(pc, slot + 1);
	else if (slot && (pairs & BIT(slot - 1)))
		lend_counter(pc, slot - 1);
}

/*
 * The guest is about to be entered, and has more counters running than host
 * perf leaves free: lend it host perf's for as long as it runs.
 *
 * NMIs are held from here to the VM exit.  One that came in between would
 * find the guest's value where host perf has its own, and the guest would run
 * without the counter.  Where they can't be held that long, their handler makes the
 * guest exit before it executes anything (pmi_nmi()); so does this, if one is coming.
 */
void vpmu_borrow(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	enum compat_loss loses[VPMU_MAX_COUNTERS];
	unsigned long pairs;
	unsigned int i;
	int slot;

	lockdep_assert_irqs_disabled();
	pc->lent_since = rdtsc();
	pc->lending = 0;
	pc->was_lent = 0;
	if (!hold_nmis(pc, vv)) {
		vpmu_kick();
		return;
	}
	pc->busy = true;
	barrier();
	prepare(pc);
	pairs = vpmu_compat_host_losses(loses, vpmu_hw->general, vpmu_hw->nr);
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		if (!c->borrows)
			continue;
		slot = choose(pc, loses, c);
		if (slot == VPMU_NO_SLOT)
			continue;
		lend_counter(pc, slot);
		if (unlikely(pairs))
			lend_partner(pc, slot, pairs);
		vpmu_hw->write(slot, armed_value(vv, i, false));
		vpmu_hw->start(slot, vv->guest.select[i], false);
		pc->owner[slot] = i;
		c->slot = slot;
		vv->placed++;
		vv->stats.borrowed++;
		vv->stats.gaps += c->in_host;
	}
	pc->was_lent = pc->lent;
	vv->hot.msr_list_valid = false;
	pc->lending = rdtsc() - pc->lent_since;
	barrier();
	pc->busy = false;
	if (vpmu_hw->release_before_entry)
		vpmu_hw->release_nmis();
}

/*
 * The guest has exited.  NMIs have been possible since, and their handler has
 * given the counters back then.
 */
void vpmu_give_back(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	/* One that made the guest exit is handled behind this, and blocks others. */
	unsigned int wait = vpmu_compat_nmi_exit(vv->hot.vcpu) ? 0 : WAIT_FOR_NMI;
	u64 exited = rdtsc(), ticks, in_host;
	unsigned int slot, tries;

	lockdep_assert_irqs_disabled();
	/* One that comes now gives them back, too, before anybody else sees them. */
	for (tries = 0; !hold_nmis(pc, vv) && tries < wait; tries++)
		cpu_relax();
	pc->busy = true;
	barrier();
	vpmu_give_back_lent(pc);
	ticks = rdtsc() - pc->lent_since;
	in_host = pc->lending + rdtsc() - exited;
	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		int i = pc->owner[slot];
		struct vpmu_counter *c;

		if (!(pc->was_lent & BIT(slot)))
			continue;
		vpmu_compat_host_event_paused(vpmu_hw_index(vpmu_hw, slot), ticks, in_host);
		if (i == VPMU_NO_SLOT)
			continue;
		c = &vv->counter[i];
		sync_with(vv, i, pc->seen[slot], take_overflowed(c));
		c->running += ticks;
		pc->owner[slot] = VPMU_NO_SLOT;
		c->slot = VPMU_NO_SLOT;
		vv->placed--;
	}
	if (vpmu_hw->returned)
		vpmu_hw->returned(pc->was_lent);
	vv->hot.msr_list_valid = false;
	barrier();
	pc->busy = false;
	vpmu_hw->release_nmis();
}
