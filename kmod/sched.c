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
		vv->hot.watch = VPMU_WATCHED_EXITS;
		if (this_cpu_read(vpmu_hot) != vv)
			vpmu_sched_update_hot(vv);
	}
	local_irq_restore(flags);
}

void vpmu_sched_unwatch(struct vpmu_vcpu *vv)
{
	lockdep_assert_irqs_disabled();
	vv->hot.watch = 0;
	vpmu_sched_update_hot(vv);
}

/* Put counter @i on physical counter @slot, which is free, and start it. */
static __always_inline void sched_in(struct vpmu_vcpu *vv, struct vpmu_cpu *pc, unsigned int i,
				     int slot, int level, bool emulating)
{
	struct vpmu_counter *c = &vv->counter[i];

	vpmu_counter_prepare(pc);
	vpmu_hw->write(slot, vpmu_counter_armed_value(vv, i, level, emulating));
	pc->dirty &= ~BIT(slot);
	pc->taken |= BIT(slot);
	/* The NMI handler needs these before the counter runs, but not before that. */
	c->slot = slot;
	c->last = slot;
	WRITE_ONCE(pc->owner[slot], i);
	vv->placed++;
	vv->placed_in_host += c->in_host;
	barrier();
	vpmu_hw->start(slot, vv->guest.select[i], c->in_host);
}

/* Counters were put on physical ones: tell host perf. */
static void note_taken(struct vpmu_cpu *pc)
{
	if (pc->taken)
		vpmu_compat_host_counters_taken(vpmu_hw_index_mask(vpmu_hw, pc->taken));
	pc->taken = 0;
}

/* The tally is up to date. */
static __always_inline void sched_out(struct vpmu_vcpu *vv, struct vpmu_cpu *pc, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];
	int slot = c->slot;
	u64 hw = vpmu_hw->stop(slot);

	/* Whether its NMI has come is certain only now. */
	vpmu_counter_sync_value(vv, i, hw, vpmu_counter_take_overflowed(c));
	WRITE_ONCE(pc->owner[slot], VPMU_NO_SLOT);
	pc->dirty |= BIT(slot);
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

	if (i == VPMU_NO_SLOT || vv->counter[i].slot != slot || vv->counter[i].borrows)
		return VPMU_NO_SLOT;
	vpmu_flush_pending(vv);
	sched_out(vv, pc, i);
	/* Nobody's, but not free */
	pc->owner[slot] = i;
	other = find_slot(pc, &vv->counter[i]);
	if (other == VPMU_NO_SLOT)
		other = make_room(vv, pc, &vv->counter[i]);
	if (other == VPMU_NO_SLOT) {
		vv->counter[i].running += rdtsc() - vv->counter[i].since;
		borrow_from_now_on(vv, i);
	} else {
		sched_in(vv, pc, i, other, vpmu_counter_prepare_arming(vv), false);
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
	bool can_borrow = lendable(pc, for_c);
	unsigned int i;

	if (for_c->pinned)
		return make_room_for_pinned(vv, pc, for_c);

	if (can_borrow && !for_c->in_host)
		return VPMU_NO_SLOT;
	for (i = 0; i < vv->guest.nr; i++) {
		struct vpmu_counter *c = &vv->counter[i];
		int slot = c->slot;

		if (slot == VPMU_NO_SLOT || !vpmu_counter_fits(slot, for_c) || !lendable(pc, c) ||
		    (can_borrow && c->in_host))
			continue;
		vpmu_flush_pending(vv);
		sched_out(vv, pc, i);
		c->running += rdtsc() - c->since;
		borrow_from_now_on(vv, i);
		return slot;
	}
	return VPMU_NO_SLOT;
}

/* What does counter @i count, and where? */
static noinline void change_config(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];

	c->select = vv->guest.select[i];
	c->freeze = vv->freeze;
	/* In mode "vcpu" all that the CPU does counts: nothing to correct. */
	if (vv->freeze == KVM_VPMU_FREEZE_VCPU)
		c->count.class = VPMU_OTHER;
	else
		c->count.class = vpmu_guest_class(&vv->guest, i);
	c->count.filter = vpmu_guest_filter(&vv->guest, i);
	c->cpl_filtered = c->count.class != VPMU_OTHER &&
			  c->count.filter != (VPMU_IN_KERNEL | VPMU_IN_USER);
	c->exact = c->count.class != VPMU_OTHER && vpmu_guest_interrupts(&vv->guest, i);
	c->pinned = i < vv->guest.general && vpmu_hw->pinned && vpmu_hw->pinned(c->select);
	if (c->last != VPMU_NO_SLOT && !vpmu_counter_fits(c->last, c))
		c->last = VPMU_NO_SLOT;
	c->in_host = vv->freeze == KVM_VPMU_FREEZE_VCPU ||
		     (vv->freeze == KVM_VPMU_FREEZE_HYBRID &&
		      vpmu_guest_speculative(&vv->guest, i));
}

/*
 * May counter @i, which the guest has enabled, be started?
 *
 * An ioctl other than KVM_RUN may be one of several that save the vCPU: between them no counter may
 * change, and no interrupt may come behind the ioctl that saves interrupts.
 */
static __always_inline bool can_start(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];

	if (c->slot != VPMU_NO_SLOT || c->borrows || (vv->denied & BIT_ULL(i)))
		return false;
	if (c->select != vv->guest.select[i] || c->freeze != vv->freeze)
		change_config(vv, i);
	return likely(vv->running) || !c->in_host;
}

/* @now: the TSC; @level: of vpmu_counter_prepare_arming() */
static __always_inline void start_counter(struct vpmu_vcpu *vv, struct vpmu_cpu *pc, unsigned int i,
					  u64 now, int level, bool emulating)
{
	struct vpmu_counter *c = &vv->counter[i];
	int slot;

	c->overflowed = false;
	c->since = now;
	vv->nr_cpl_filtered += c->cpl_filtered;
	vv->nr_exact += c->exact;

	slot = find_slot(pc, c);
	if (slot == VPMU_NO_SLOT)
		slot = make_room(vv, pc, c);
	if (slot == VPMU_NO_SLOT)
		borrow_from_now_on(vv, i);
	else
		sched_in(vv, pc, i, slot, level, emulating);
}

/* The tally is up to date. */
static __always_inline void stop_counter(struct vpmu_vcpu *vv, struct vpmu_cpu *pc, unsigned int i,
					 u64 now)
{
	struct vpmu_counter *c = &vv->counter[i];
	u64 ticks = now - c->since;

	vv->nr_cpl_filtered -= c->cpl_filtered;
	vv->nr_exact -= c->exact;
	c->enabled += ticks;
	if (c->borrows) {
		c->borrows = false;
		vv->borrowing--;
	} else {
		c->running += ticks;
		sched_out(vv, pc, i);
	}
}

void vpmu_sched_start(struct vpmu_vcpu *vv, unsigned int i, bool emulating)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);

	lockdep_assert_irqs_disabled();
	if (!vv->loaded || !can_start(vv, i))
		return;
	start_counter(vv, pc, i, rdtsc(), vpmu_counter_prepare_arming(vv), emulating);
	note_taken(pc);
	vpmu_sched_update_hot(vv);
}

static bool is_started(const struct vpmu_counter *c)
{
	return c->slot != VPMU_NO_SLOT || c->borrows;
}

void vpmu_sched_stop(struct vpmu_vcpu *vv, unsigned int i)
{
	lockdep_assert_irqs_disabled();
	if (!is_started(&vv->counter[i]))
		return;
	vpmu_flush_pending(vv);
	stop_counter(vv, this_cpu_ptr(&vpmu_cpu), i, rdtsc());
	vpmu_sched_update_hot(vv);
}

void vpmu_sched_start_some(struct vpmu_vcpu *vv, unsigned long mask, bool emulating)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	int level;
	unsigned int i;
	u64 now;

	lockdep_assert_irqs_disabled();
	if (!vv->loaded || !mask)
		return;
	level = vpmu_counter_prepare_arming(vv);
	now = rdtsc();
	for (i = 0; mask >> i; i++)
		if ((mask >> i & 1) && can_start(vv, i))
			start_counter(vv, pc, i, now, level, emulating);
	note_taken(pc);
	vpmu_sched_update_hot(vv);
}

void vpmu_sched_stop_some(struct vpmu_vcpu *vv, unsigned long mask)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int i;
	u64 now;

	lockdep_assert_irqs_disabled();
	if (!vv->placed && !vv->borrowing)
		return;
	vpmu_flush_pending(vv);
	now = rdtsc();
	for (i = 0; mask >> i; i++)
		if ((mask >> i & 1) && is_started(&vv->counter[i]))
			stop_counter(vv, pc, i, now);
	vpmu_sched_update_hot(vv);
}

/* Start all that the guest has enabled. */
static void start_all(struct vpmu_vcpu *vv)
{
	vpmu_sched_start_some(vv, vv->guest.counting, false);
}

static void stop_all(struct vpmu_vcpu *vv)
{
	vpmu_sched_stop_some(vv, BIT(vv->guest.nr) - 1);
}

/* Leave no count of the guest where anybody could read it. */
static void clear_dirty(void)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int slot;

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

static u64 denied_counters(struct vpmu_vcpu *vv)
{
	u64 denied = 0;
	unsigned int i;

	if (vpmu_compat_state_encrypted(vv->hot.vcpu))
		pr_info_once("a guest's state was encrypted (KVM_SEV_ES_INIT): its counters don't count\n");
	else if (!vpmu_compat_has_event_filter(vv->hot.vcpu))
		return 0;
	for (i = 0; i < vv->guest.nr; i++)
		if (is_denied(vv, i))
			denied |= BIT_ULL(i);
	return denied;
}

void vpmu_sched_load(struct vpmu_vcpu *vv)
{
	/*
	 * KVM may be about to complete an instruction before it checks its requests; on Linux 6.1 a
	 * new filter makes no request.
	 */
	u64 denied = denied_counters(vv);
	unsigned long flags;

	local_irq_save(flags);
	vv->loaded = true;
	vv->running = vpmu_compat_running(vv->hot.vcpu, vv->run_seen);
	vv->freeze = READ_ONCE(vv->vm->freeze);
	vv->denied = denied;
	this_cpu_write(vpmu_cpu.vv, vv);
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
	stop_all(vv);
	clear_dirty();
	this_cpu_write(vpmu_cpu.prepared, false);
	this_cpu_write(vpmu_cpu.vv, NULL);
	this_cpu_write(vpmu_hot, NULL);
	vv->loaded = false;
	/* Not if the thread is only switched out: interrupts are off then. */
	if (!irqs_disabled_flags(flags))
		vv->run_seen = false;
	local_irq_restore(flags);
}

void vpmu_sched_set_select(struct vpmu_vcpu *vv, unsigned int i, u64 select, bool emulating)
{
	lockdep_assert_irqs_disabled();
	vpmu_sched_stop(vv, i);
	vv->guest.select[i] = select;
	vpmu_guest_note_counting(&vv->guest, i);
	if (is_denied(vv, i))
		vv->denied |= BIT_ULL(i);
	else
		vv->denied &= ~BIT_ULL(i);
	if (vv->guest.counting & BIT(i))
		vpmu_sched_start(vv, i, emulating);
}

void vpmu_sched_apply_settings(struct vpmu_vcpu *vv)
{
	u32 freeze = READ_ONCE(vv->vm->freeze);
	u64 denied = denied_counters(vv);
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
