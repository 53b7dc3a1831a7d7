// SPDX-License-Identifier: GPL-2.0
/*
 * Guest counters scheduled onto physical ones: from vcpu_load to vcpu_put, and nothing in between
 * at a VM exit.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <asm/msr.h>
#include <uapi/linux/kvm_vpmu.h>

#include "compat/host.h"
#include "counter.h"
#include "open.h"
#include "sched.h"
#include "trace.h"

/*
 * The last slot again, if possible: then the counter's value may still be there.  Otherwise from
 * the top, as host perf starts at the bottom; fixed counters are at the top, too.  A pinned counter
 * has one slot only.
 */
static __always_inline int find_slot(const struct vpmu_cpu *pc, const struct vpmu_counter *c)
{
	int slot;

	if (c->last != VPMU_NO_SLOT && vpmu_counter_is_free(pc, c->last))
		return c->last;
	for (slot = vpmu_hw->nr - 1; slot >= 0; slot--)
		if (vpmu_counter_fits(slot, c) && vpmu_counter_is_free(pc, slot))
			return slot;
	return VPMU_NO_SLOT;
}

void vpmu_sched_update_hot(struct vpmu_vcpu *vv)
{
	struct vpmu_vcpu *hot = NULL;

	if (vv->event.interrupting | vv->event.exits | vv->event.timing)
		vv->hot.watch |= VPMU_WATCH_EVENTS;
	else
		vv->hot.watch &= ~VPMU_WATCH_EVENTS;
	if (vv->placed || vv->borrowing || vv->hot.watch ||
	    (vv->hot.slow & VPMU_SLOW_MEASURE && vv->guest.set))
		hot = vv;

	if (vv->borrowing)
		vv->hot.slow |= VPMU_SLOW_BORROWS;
	else
		vv->hot.slow &= ~VPMU_SLOW_BORROWS;
	vv->hot.msr_list_valid = false;
	this_cpu_write(vpmu_hot, hot);
}

void vpmu_sched_watch(struct vpmu_vcpu *vv)
{
	unsigned long flags;

	local_irq_save(flags);
	if (vv->loaded) {
		vpmu_watch(vv, VPMU_WATCH_ACCESS);
		if (this_cpu_read(vpmu_hot) != vv)
			vpmu_sched_update_hot(vv);
	}
	local_irq_restore(flags);
}

void vpmu_sched_unwatch(struct vpmu_vcpu *vv)
{
	lockdep_assert_irqs_disabled();
	vv->reads = min(vv->reads, 0);
	vpmu_watch(vv, 0);
	vpmu_sched_update_hot(vv);
}

/* Put counter @c on physical counter @slot, which is free, and start it. */
static __always_inline void sched_in(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
				     struct vpmu_counter *c, int slot, int level,
				     enum vpmu_arming arming)
{
	unsigned long bit = BIT(c->index);
	u64 value = vpmu_counter_armed_value(vv, c, level, arming);

	vpmu_counter_prepare(pc);
	if (!(pc->kept & BIT(slot)) || pc->left[slot] != value)
		static_call(vpmu_hw_write)(slot, value);
	pc->kept &= ~BIT(slot);
	pc->dirty &= ~BIT(slot);
	pc->taken |= BIT(slot);
	/* The NMI handler needs these before the counter runs, but not before that. */
	c->slot = slot;
	c->last = slot;
	WRITE_ONCE(pc->owner[slot], c->index);
	vv->placed |= bit;
	barrier();
	static_call(vpmu_hw_start)(slot, c->select, vv->in_host & bit);
}

/* The tally is up to date. */
static __always_inline void sched_out(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
				      struct vpmu_counter *c)
{
	int slot = c->slot;
	u64 hw = static_call(vpmu_hw_stop)(slot);

	/* Whether its NMI has come is certain only now. */
	vpmu_counter_sync_value(vv, c, hw, vpmu_counter_take_overflowed(c));
	WRITE_ONCE(pc->owner[slot], VPMU_NO_SLOT);
	pc->dirty |= BIT(slot);
	pc->cleared |= BIT(slot);
	pc->kept |= BIT(slot);
	pc->left[slot] = hw;
	c->slot = VPMU_NO_SLOT;
	vv->placed &= ~BIT(c->index);
}

/* Has host perf a physical counter that @c could borrow? */
static bool lendable(const struct vpmu_cpu *pc, const struct vpmu_counter *c)
{
	int slot;

	for (slot = 0; slot < vpmu_hw->nr; slot++)
		if (pc->owner[slot] == VPMU_NO_SLOT && vpmu_counter_fits(slot, c))
			return true;
	return false;
}

static noinline int make_room(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
			      const struct vpmu_counter *for_c);

/*
 * The only physical counter for @for_c, which is pinned, is taken by another guest counter, which
 * isn't: move that one elsewhere.
 *
 * Return: the physical counter, or VPMU_NO_SLOT.
 */
static noinline int make_room_for_pinned(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
					 const struct vpmu_counter *for_c)
{
	int slot = for_c->index, i = pc->owner[slot], other;
	struct vpmu_counter *c;

	if (i == VPMU_NO_SLOT || vv->counter[i].slot != slot || (vv->borrowing & BIT(i)))
		return VPMU_NO_SLOT;
	c = &vv->counter[i];
	vpmu_flush_pending(vv);
	sched_out(vv, pc, c);
	/* Nobody's, but not free */
	pc->owner[slot] = i;
	other = find_slot(pc, c);
	if (other == VPMU_NO_SLOT)
		other = make_room(vv, pc, c);
	if (other == VPMU_NO_SLOT) {
		c->running += rdtsc() - c->since;
		vv->borrowing |= BIT(i);
	} else {
		sched_in(vv, pc, c, other, vpmu_counter_prepare_arming(vv), VPMU_ARM_FOR_ENTRY);
	}
	pc->owner[slot] = VPMU_NO_SLOT;
	return slot;
}

/*
 * There is no free physical counter for @for_c.  A counter that borrows for each stay in guest mode
 * can't count what KVM does in between.  So let a counter borrow that doesn't count in host mode;
 * or one that can borrow, if @for_c can't.
 *
 * Return: the physical counter that became free, or VPMU_NO_SLOT.
 */
static noinline int make_room(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
			      const struct vpmu_counter *for_c)
{
	bool can_borrow = lendable(pc, for_c), in_host = vv->in_host & BIT(for_c->index);
	unsigned int i;

	if (for_c->pinned)
		return make_room_for_pinned(vv, pc, for_c);

	if (can_borrow && !in_host)
		return VPMU_NO_SLOT;
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];
		int slot = c->slot;

		if (slot == VPMU_NO_SLOT || !vpmu_counter_fits(slot, for_c) || !lendable(pc, c) ||
		    (can_borrow && (vv->in_host & BIT(i))))
			continue;
		vpmu_flush_pending(vv);
		sched_out(vv, pc, c);
		c->running += rdtsc() - c->since;
		vv->borrowing |= BIT(i);
		return slot;
	}
	return VPMU_NO_SLOT;
}

/* What does counter @i count, and where? */
static noinline void change_config(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];

	this_cpu_write(vpmu_cpu.lenders.borrowers, 0);
	c->select = vv->guest.select[i];
	c->freeze = vv->freeze;
	c->event = vv->events == KVM_VPMU_EVENTS_ON ? vpmu_guest_event(&vv->guest, i) : -1;
	/* In mode "vcpu" all that the CPU does counts: nothing to correct. */
	if (vv->freeze == KVM_VPMU_FREEZE_VCPU || c->event >= 0)
		c->count.class = VPMU_OTHER;
	else
		c->count.class = vpmu_guest_class(&vv->guest, i);
	c->count.filter = vpmu_guest_filter(&vv->guest, i);
	__assign_bit(i, &vv->cpl_filtered, c->count.class != VPMU_OTHER &&
		     c->count.filter != (VPMU_IN_KERNEL | VPMU_IN_USER));
	__assign_bit(i, &vv->exact, c->count.class != VPMU_OTHER &&
		     vpmu_guest_interrupts(&vv->guest, i));
	c->pinned = c->event < 0 && i < vv->guest.general &&
		    vpmu_hw->pinned && vpmu_hw->pinned(c->select);
	if (c->last != VPMU_NO_SLOT && !vpmu_counter_fits(c->last, c))
		c->last = VPMU_NO_SLOT;
	__assign_bit(i, &vv->in_host, c->event < 0 &&
		     (vv->freeze == KVM_VPMU_FREEZE_VCPU ||
		      (vv->freeze == KVM_VPMU_FREEZE_HYBRID &&
		       vpmu_guest_speculative(&vv->guest, i))));
}

/*
 * May counter @c, which the guest has enabled and which wasn't started, be started?
 *
 * An ioctl other than KVM_RUN may be one of several that save the vCPU: between them no counter may
 * change, and no interrupt may come behind the ioctl that saves interrupts.
 */
static __always_inline bool can_start(struct vpmu_vcpu *vv, const struct vpmu_counter *c)
{
	if (c->select != vv->guest.select[c->index] || c->freeze != vv->freeze)
		change_config(vv, c->index);
	return likely(vv->running) || !(vv->in_host & BIT(c->index));
}

/* Counter @c had to borrow beside those that run, and nothing has changed since. */
static __always_inline bool borrows_again(const struct vpmu_vcpu *vv, const struct vpmu_cpu *pc,
					  const struct vpmu_counter *c)
{
	return unlikely(pc->lenders.borrowers) && pc->lenders.beside == vv->placed &&
	       pc->lenders.borrowers == (vv->borrowing | BIT(c->index));
}

/* @now: the TSC; @level: as in vpmu_counter_armed_value(); registers aren't open */
static __always_inline void start_counter(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
					  struct vpmu_counter *c, u64 now, int level,
					  enum vpmu_arming arming)
{
	int slot = VPMU_NO_SLOT;

	c->overflowed = false;
	c->since = now;
	if (unlikely(c->event >= 0)) {
		vpmu_event_start(vv, c, vpmu_level(vv));
		return;
	}
	if (!borrows_again(vv, pc, c)) {
		slot = find_slot(pc, c);
		if (slot == VPMU_NO_SLOT)
			slot = make_room(vv, pc, c);
	}
	if (slot == VPMU_NO_SLOT)
		vv->borrowing |= BIT(c->index);
	else
		sched_in(vv, pc, c, slot, level, arming);
}

/* One that is on no physical counter of its own */
static noinline void stop_elsewhere(struct vpmu_vcpu *vv, struct vpmu_counter *c, u64 ticks)
{
	if (vv->borrowing & BIT(c->index)) {
		vv->borrowing &= ~BIT(c->index);
		return;
	}
	c->running += ticks;
	vpmu_counter_sync(vv, c->index);
	vpmu_event_stop(vv, c);
}

/* Those of @mask that vpmu_sched_start() is to start */
static __always_inline unsigned long to_start(const struct vpmu_vcpu *vv, unsigned long mask)
{
	return vv->loaded ? mask & ~(vpmu_started(vv) | vv->denied) : 0;
}

void vpmu_sched_start(struct vpmu_vcpu *vv, unsigned long mask, enum vpmu_arming arming)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	int level;
	u64 now;

	lockdep_assert_irqs_disabled();
	mask = to_start(vv, mask);
	if (!mask)
		return;
	vpmu_open_take_back(vv);
	level = vpmu_counter_prepare_arming(vv);
	now = rdtsc();
	for (; mask; mask &= mask - 1) {
		struct vpmu_counter *c = vpmu_counter(vv, __ffs(mask));

		if (can_start(vv, c))
			start_counter(vv, pc, c, now, level, arming);
	}
	vpmu_counter_note_taken(pc);
	vpmu_sched_update_hot(vv);
}

/* @elsewhere: mask of the counters that are on no physical counter of their own */
static __always_inline void stop_counter(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
					 struct vpmu_counter *c, u64 now, unsigned long elsewhere)
{
	u64 ticks = now - c->since;

	c->enabled += ticks;
	if (unlikely(elsewhere & BIT(c->index))) {
		stop_elsewhere(vv, c, ticks);
	} else {
		c->running += ticks;
		sched_out(vv, pc, c);
	}
}

/* Return: whether any had been started; vpmu_sched_update_hot() is the caller's then. */
static __always_inline bool stop_counters(struct vpmu_vcpu *vv, unsigned long mask)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned long elsewhere = vv->borrowing | vv->software;
	u64 now;

	lockdep_assert_irqs_disabled();
	mask &= vpmu_started(vv);
	if (!mask)
		return false;
	vpmu_flush_pending(vv);
	now = rdtsc();
	for (; mask; mask &= mask - 1)
		stop_counter(vv, pc, vpmu_counter(vv, __ffs(mask)), now, elsewhere);
	return true;
}

void vpmu_sched_stop(struct vpmu_vcpu *vv, unsigned long mask)
{
	if (stop_counters(vv, mask))
		vpmu_sched_update_hot(vv);
}

void vpmu_sched_prepare_reads(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned long mask, away = 0;

	lockdep_assert_irqs_disabled();
	for (mask = vv->placed & ~vv->borrowing; mask; mask &= mask - 1) {
		unsigned int i = __ffs(mask);

		vpmu_counter_update(vv, i);
		/* Another counter of the guest's that is there leaves that slot, too. */
		if (vv->counter[i].slot != i && vpmu_counter_fits(i, &vv->counter[i]) &&
		    (pc->owner[i] != VPMU_NO_SLOT || vpmu_counter_is_free(pc, i)))
			away |= BIT(i);
	}
	if (!away)
		return;
	vpmu_sched_stop(vv, away);
	for (mask = away; mask; mask &= mask - 1)
		vv->counter[__ffs(mask)].last = __ffs(mask);
	vpmu_sched_start(vv, away, VPMU_ARM_FOR_WRMSR);
}

/* Start all that the guest has enabled. */
static void start_all(struct vpmu_vcpu *vv)
{
	/* That runs before the guest does, if at all. */
	bool completes = vv->hot.vcpu->arch.complete_userspace_io;

	vpmu_sched_start(vv, vv->guest.counting,
			 completes ? VPMU_ARM_FOR_COMPLETION : VPMU_ARM_FOR_ENTRY);
}

/* Leave no count of the guest where anybody could read it. */
static void clear_dirty(void)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int slot;

	pc->kept = 0;
	if (!pc->dirty)
		return;
	if (!vpmu_compat_host_counters_dirty(vpmu_hw_index_mask(vpmu_hw, pc->dirty)))
		for_each_set_bit(slot, &pc->dirty, VPMU_MAX_COUNTERS)
			vpmu_hw->write(slot, 0);
	pc->dirty = 0;
}

/*
 * Does the VM's KVM_SET_PMU_EVENT_FILTER deny the event of counter @i?  An encrypted guest's events
 * are all denied, as nobody knows its CPL.
 */
static bool is_denied(struct vpmu_vcpu *vv, unsigned int i)
{
	struct kvm_vcpu *vcpu = vv->hot.vcpu;

	if (vpmu_compat_state_encrypted(vcpu))
		return true;
	if (!vpmu_compat_has_event_filter(vcpu))
		return false;
	if (i < vv->guest.general)
		return !vpmu_compat_event_allowed(vcpu, vv->guest.select[i]);
	return !vpmu_compat_fixed_allowed(vcpu, i - vv->guest.general);
}

static unsigned long denied_counters(struct vpmu_vcpu *vv)
{
	unsigned long denied = 0;
	unsigned int i;

	if (vpmu_compat_state_encrypted(vv->hot.vcpu))
		pr_info_once("a guest's state was encrypted (KVM_SEV_ES_INIT): its counters don't count\n");
	else if (!vpmu_compat_has_event_filter(vv->hot.vcpu))
		return 0;
	for (i = 0; i < vv->guest.nr; i++)
		if (is_denied(vv, i))
			denied |= BIT(i);
	return denied;
}

/* Which selects are the hypervisor's events; no counter of such a one has been started. */
static void set_events(struct vpmu_vcpu *vv, u32 events)
{
	unsigned int i;

	if (likely(events == vv->events))
		return;
	vv->events = events;
	/* What was derived from the selects is out of date. */
	for (i = 0; i < vv->guest.nr; i++)
		vv->counter[i].freeze = U32_MAX;
}

/* Counters of the hypervisor's events have gone on, unless settings say otherwise. */
static noinline void load_software(struct vpmu_vcpu *vv, u32 events)
{
	vpmu_event_load(vv);
	vpmu_sched_stop(vv, events == vv->events ? vv->software & vv->denied : vv->software);
}

static noinline void put_software(struct vpmu_vcpu *vv)
{
	/* An overflow is noticed while its interrupt can be delivered. */
	vpmu_counter_sync_events(vv, vv->software);
	vpmu_event_put(vv);
}

/* Does somebody in the host observe the VM, or no longer? */
static __always_inline void set_observed(struct vpmu_vcpu *vv)
{
	enum vpmu_observed observed = READ_ONCE(vv->vm->observed);

	if (likely(observed == vpmu_event_observed(vv)))
		return;
	vpmu_event_observe(vv, observed);
	vpmu_sched_update_hot(vv);
}

void vpmu_sched_load(struct vpmu_vcpu *vv)
{
	/*
	 * KVM may be about to complete an instruction before it checks its requests; on Linux 6.1 a
	 * new filter makes no request.
	 */
	unsigned long denied = denied_counters(vv);
	u32 events = READ_ONCE(vv->vm->events);
	unsigned long flags;

	local_irq_save(flags);
	vv->loaded = true;
	vv->running = vpmu_compat_running(vv->hot.vcpu, vv->run_seen);
	vv->freeze = READ_ONCE(vv->vm->freeze);
	vv->denied = denied;
	this_cpu_write(vpmu_cpu.vv, vv);
	if (unlikely(vpmu_event_active(vv)))
		load_software(vv, events);
	set_events(vv, events);
	set_observed(vv);
	if (unlikely(vv->hot.slow & VPMU_SLOW_MEASURE || vv->hot.watch))
		vpmu_sched_update_hot(vv);
	start_all(vv);
	local_irq_restore(flags);
}

void vpmu_sched_put(struct vpmu_vcpu *vv)
{
	unsigned long flags;

	trace_vpmu_put(vv);
	local_irq_save(flags);
	/* Not if the thread is only switched out: interrupts are off then. */
	if (!irqs_disabled_flags(flags)) {
		vv->event.returns += vv->running;
		vv->run_seen = false;
	}
	stop_counters(vv, ~vv->software);
	if (unlikely(vpmu_event_active(vv)))
		put_software(vv);
	vpmu_open_take_back(vv);
	clear_dirty();
	this_cpu_write(vpmu_cpu.prepared, false);
	this_cpu_write(vpmu_cpu.lenders.borrowers, 0);
	this_cpu_write(vpmu_cpu.watchdogs, 0);
	this_cpu_write(vpmu_cpu.vv, NULL);
	this_cpu_write(vpmu_hot, NULL);
	vv->loaded = false;
	local_irq_restore(flags);
}

/* vpmu_sched_update_hot() after one counter.  @elsewhere: those on no physical one before that */
static __always_inline void update_hot_for_one(struct vpmu_vcpu *vv, unsigned long elsewhere)
{
	/* The vCPU stays the hot one: it has to look at the next VM exits. */
	if (likely(vv->hot.watch && !(elsewhere | vv->borrowing | vv->software)))
		vv->hot.msr_list_valid = false;
	else
		vpmu_sched_update_hot(vv);
}

/* As vpmu_sched_stop() and _start(), for one counter: a guest's perf does this all the time. */
void vpmu_sched_set_select(struct vpmu_vcpu *vv, unsigned int i, u64 select,
			   enum vpmu_arming arming)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned long bit = BIT(i), elsewhere = vv->borrowing | vv->software;
	struct vpmu_counter *c = vpmu_counter(vv, i);
	bool stop = vpmu_started(vv) & bit, start;

	lockdep_assert_irqs_disabled();
	if (stop) {
		vpmu_flush_pending(vv);
		stop_counter(vv, pc, c, rdtsc(), elsewhere);
	}
	vpmu_guest_set_select(&vv->guest, i, select);
	__assign_bit(i, &vv->denied, is_denied(vv, i));
	start = to_start(vv, vv->guest.counting & bit);
	if (start) {
		vpmu_flush_pending(vv);
		vpmu_open_take_back(vv);
		if (can_start(vv, c))
			start_counter(vv, pc, c, rdtsc(), VPMU_LEVEL_UNKNOWN, arming);
		vpmu_counter_note_taken(pc);
	}
	if (stop || start)
		update_hot_for_one(vv, elsewhere);
}

void vpmu_sched_apply_settings(struct vpmu_vcpu *vv)
{
	u32 freeze = READ_ONCE(vv->vm->freeze), events = READ_ONCE(vv->vm->events);
	unsigned long denied = denied_counters(vv);
	unsigned long flags;

	if (freeze == vv->freeze && events == vv->events && denied == vv->denied &&
	    READ_ONCE(vv->vm->observed) == vpmu_event_observed(vv))
		return;

	local_irq_save(flags);
	vpmu_sched_stop(vv, ~0UL);
	vv->freeze = freeze;
	vv->denied = denied;
	set_events(vv, events);
	set_observed(vv);
	start_all(vv);
	local_irq_restore(flags);
}

void vpmu_sched_update_all(struct vpmu_vcpu *vv)
{
	unsigned int i;
	u64 now = rdtsc();

	lockdep_assert_irqs_disabled();
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];

		vpmu_counter_update(vv, i);
		if (!(vpmu_started(vv) & BIT(i)))
			continue;
		c->enabled += now - c->since;
		if (!(vv->borrowing & BIT(i)))
			c->running += now - c->since;
		c->since = now;
	}
}
