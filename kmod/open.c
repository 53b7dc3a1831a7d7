// SPDX-License-Identifier: GPL-2.0
/*
 * Registers that the guest accesses without a VM exit: counters, and the overflow status, while the
 * guest's global control is 0; and AMD's counters that count, for reads.
 *
 * A guest's perf clears the control before it changes its counters, at a context switch and in the
 * handler of an overflow.
 *
 * Nothing of the guest counts then.  A counter's value is in the physical counter of the same
 * number, whose event select is clear, and comes back when somebody needs it
 * (vpmu_open_take_back()).  The first access to a counter exits, and tells that the guest is about
 * to make more: its perf reads a counter, by RDPMC, before it writes it.  A counter that host perf
 * uses stays closed.  So does the status while host perf has any event: the guest could clear the
 * overflow of that one.  The NMI watchdog's event is taken off its counter for that.
 *
 * The guest may access the registers by KVM's own MSR permission map (AMD) or bitmaps (Intel),
 * which are changed for the stay in guest mode only.  Other registers exit as ever: what an event
 * select counts, and whether at all, is up to the host.
 *
 * RDPMC has one intercept for all indexes.  It is open while the guest has as many counters as the
 * CPU, and the value of each is in the physical one: where the host uses none.  Other indexes read
 * the counters of the L3 cache and the data fabric (APM vol. 2, "RDPMC Support"), which tell what
 * neighbours do, or that of slots and the metrics (Intel).  So RDPMC stays closed once one of these
 * has counted, as its value stays, too.
 *
 * A counter that counts may be read without an exit once the guest has read twice without a write
 * in between.  In guest mode the physical counter of the same number has the guest's value then:
 * each VM entry while this is so corrects it by what entries have added (count.h).
 */
#include <linux/module.h>
#include <linux/smp.h>

#include "compat/host.h"
#include "borrow.h"
#include "counter.h"
#include "open.h"

static bool open_registers = true;
module_param(open_registers, bool, 0644);
MODULE_PARM_DESC(open_registers,
		 "guests access counters that don't count, and (AMD) read those that do, without VM exits (default: Y)");

static bool open_rdpmc = true;
module_param(open_rdpmc, bool, 0644);
MODULE_PARM_DESC(open_rdpmc,
		 "RDPMC is among these, until an event of the L3 cache, the data fabric (AMD) or slots (Intel) is used on the host (default: Y)");

/* AMD: PerfCtrN is behind PerfEvtSelN. */
#define COUNTER(i)	COMPAT_PERMIT_BOTH(2 * (i) + 1)
#define COUNTER_READ(i)	COMPAT_PERMIT_READ(2 * (i) + 1)
/* PerfCntrGlobalStatus and -StatusClr; IA32_PERF_GLOBAL_STATUS and -OVF_CTRL */
#define STATUS		(COMPAT_PERMIT_READ(0) | COMPAT_PERMIT_WRITE(2))

/*
 * AMD: the host has, or had, an event of the L3 cache or the data fabric, since the module was
 * loaded.  What was before, vpmu_cpu.others says.
 */
static bool others_counted;

/* Not beside the counter of a measurement, which looks like one of the host's. */
static bool may_open(struct vpmu_vcpu *vv)
{
	return !vv->measuring && READ_ONCE(open_registers) && vv->running &&
	       vpmu_compat_may_open(vv->hot.vcpu) &&
	       vpmu_compat_filter_current(vv->hot.vcpu, &vv->filter);
}

/*
 * Has each of the guest's counters the number of the physical one that may take its value, and has
 * the guest a global control?
 */
static bool is_alike(const struct vpmu_vcpu *vv)
{
	if (vv->guest.set == GUEST_INTEL)
		return vv->guest.general == vpmu_hw->general && vv->guest.nr <= vpmu_hw->nr;
	return vv->guest.set == GUEST_AMD_V2 && vpmu_hw->show;
}

/* Has host perf no event on any counter, and none that has left its overflow status? */
static bool host_is_idle(struct vpmu_cpu *pc)
{
	unsigned int slot;

	if (pc->no_status || pc->lent_to_open)
		return true;
	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		if (!vpmu_counter_is_free(pc, slot))
			return false;
		pc->cleared |= BIT(slot);
	}
	pc->no_status = vpmu_hw->status_is_clear();
	return pc->no_status;
}

static bool may_open_rdpmc(const struct vpmu_cpu *pc)
{
	return READ_ONCE(open_rdpmc) && !READ_ONCE(others_counted) && !READ_ONCE(pc->others);
}

/* The counters of the host's NMI watchdog, or 0 if the host has other events, too */
static noinline unsigned long only_watchdogs(const struct vpmu_cpu *pc)
{
	unsigned long slots = 0;
	unsigned int slot;

	for (slot = 0; slot < vpmu_hw->nr; slot++) {
		if (vpmu_counter_is_free(pc, slot))
			continue;
		if (!vpmu_compat_host_is_watchdog(vpmu_hw_index(vpmu_hw, slot)))
			return 0;
		slots |= BIT(slot);
	}
	return slots;
}

/*
 * The guest is about to handle an overflow.  If the host's only event is its NMI watchdog, as is
 * usual, have its counter lent for the coming stay in guest mode: the handler's accesses are four
 * VM exits otherwise.  NMIs have to be held until the guest is entered, as one could find the
 * guest's value there.
 */
static void lend_watchdog(struct vpmu_vcpu *vv, struct vpmu_cpu *pc)
{
	if (!vv->guest.status || !vpmu_hw->show || vpmu_hw->release_before_entry ||
	    pc->no_status || !may_open_rdpmc(pc))
		return;
	if (!pc->watchdogs)
		pc->watchdogs = only_watchdogs(pc);
	if (pc->watchdogs && vpmu_borrow_to_open(vv, pc->watchdogs))
		pc->kept &= ~pc->watchdogs;
}

/* The guest has exited: the watchdog has its counter again, and the guest no register. */
static void return_watchdog(struct vpmu_vcpu *vv, struct vpmu_cpu *pc)
{
	unsigned long slots = pc->lent_to_open;

	vpmu_give_back(vv);
	if (vv->open)
		__vpmu_open_take_back(vv);
	pc->lent_to_open = 0;
	pc->seen_status = 0;
	pc->kept &= ~slots;
	pc->cleared &= ~slots;
	pc->dirty &= ~slots;
}

static void open_status(struct vpmu_vcpu *vv, struct vpmu_cpu *pc)
{
	if (!vpmu_hw->show || (vpmu_hw->status_is_shared && vpmu_hw->status_is_shared()) ||
	    !host_is_idle(pc))
		return;
	if (vv->guest.status) {
		/* The NMI handler needs that before the status is set. */
		WRITE_ONCE(vv->shown, vpmu_hw_slot_mask(vpmu_hw, vv->guest.status));
		barrier();
		vpmu_hw->show(vv->shown);
	}
	vv->open |= VPMU_OPEN_STATUS;
	vv->may[COMPAT_GLOBAL] = STATUS;
}

static noinline void change_value(struct vpmu_cpu *pc, unsigned int i, u64 value)
{
	unsigned long bit = BIT(i);

	vpmu_hw->write(i, value);
	pc->kept |= bit;
	pc->left[i] = value;
	pc->dirty |= bit;
	pc->taken |= bit;
}

/*
 * Those counters of @mask, which are free, get the guest's values.  One that is open has left[i] in
 * there, or what the guest has written since, which stays.
 */
static __always_inline void put_values(struct vpmu_vcpu *vv, struct vpmu_cpu *pc,
				       unsigned long mask)
{
	pc->cleared |= mask;
	for (; mask; mask &= mask - 1) {
		unsigned int i = __ffs(mask);
		u64 value = vv->guest.value[i];

		if (!(pc->kept & BIT(i)) || pc->left[i] != value)
			change_value(pc, i, value);
	}
}

static void open_counter(struct vpmu_vcpu *vv, struct vpmu_cpu *pc, unsigned int i)
{
	unsigned long bit = BIT(i);

	if (!(pc->lent_to_open & bit) && !vpmu_counter_is_free(pc, i))
		return;
	put_values(vv, pc, bit);
	vv->open |= bit;
	if (vv->guest.set != GUEST_INTEL) {
		vv->may[COMPAT_COUNTERS] |= COUNTER(i);
	} else if (i < vv->guest.general) {
		vv->may[COMPAT_COUNTERS] |= COMPAT_PERMIT_BOTH(i);
		if (vv->guest.full_width)
			vv->may[COMPAT_FULL_WIDTH] |= COMPAT_PERMIT_BOTH(i);
	} else {
		vv->may[COMPAT_FIXED] |= COMPAT_PERMIT_BOTH(i - vv->guest.general);
	}
}

static void try_to_open_rdpmc(struct vpmu_vcpu *vv, struct vpmu_cpu *pc)
{
	if (vv->guest.nr != vpmu_hw->nr || !vpmu_hw->all || !may_open_rdpmc(pc) ||
	    !host_is_idle(pc))
		return;
	put_values(vv, pc, (BIT(vv->guest.nr) - 1) & ~vv->open);
	vv->open |= VPMU_OPEN_RDPMC;
}

static noinline void open_more(struct vpmu_vcpu *vv, unsigned long closed)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);

	vv->considered |= closed;
	if (closed & VPMU_OPEN_RDPMC)
		lend_watchdog(vv, pc);
	if (closed & VPMU_OPEN_STATUS)
		open_status(vv, pc);
	if (closed & VPMU_OPEN_RDPMC)
		try_to_open_rdpmc(vv, pc);
	/* Those that it will write, having read them without an exit */
	if (vv->open & VPMU_OPEN_RDPMC)
		closed |= vv->guest.status ? vpmu_hw_slot_mask(vpmu_hw, vv->guest.status) :
					     vv->expected;
	/* Without STATUS and RDPMC */
	closed &= ~vv->open & (BIT(vv->guest.nr) - 1);
	for (; closed; closed &= closed - 1)
		open_counter(vv, pc, __ffs(closed));
	pc->taken &= ~pc->lent_to_open;
	vpmu_counter_note_taken(pc);
}

void __vpmu_open_leave(struct vpmu_vcpu *vv)
{
	if (vv->granted_any)
		vpmu_compat_revoke(vv->hot.vcpu, vv->granted);
	vv->granted_any = false;
	if (vv->granted_rdpmc)
		vpmu_compat_revoke_rdpmc(vv->hot.vcpu);
	vv->granted_rdpmc = false;
	if (unlikely(this_cpu_read(vpmu_cpu.lent_to_open)))
		return_watchdog(vv, this_cpu_ptr(&vpmu_cpu));
}

static void grant(struct vpmu_vcpu *vv)
{
	vv->granted_any = vpmu_compat_grant(vv->hot.vcpu, &vv->filter, vv->may, vv->granted);
	if ((vv->open & VPMU_OPEN_RDPMC) && may_open_rdpmc(this_cpu_ptr(&vpmu_cpu)))
		vv->granted_rdpmc = vpmu_compat_grant_rdpmc(vv->hot.vcpu);
	if (!(vv->granted_any | vv->granted_rdpmc))
		__vpmu_open_leave(vv);
	vv->stats.open++;
}

void __vpmu_open_enter(struct vpmu_vcpu *vv)
{
	unsigned long closed = vv->accessed | VPMU_OPEN_STATUS;

	if (!is_alike(vv) || !may_open(vv))
		return;
	if (vv->uses_rdpmc)
		closed |= VPMU_OPEN_RDPMC;
	closed &= ~(vv->open | vv->considered);
	if (closed)
		open_more(vv, closed);
	if (vv->open)
		grant(vv);
	else
		__vpmu_open_leave(vv);
}

bool vpmu_open_may_read(struct vpmu_vcpu *vv)
{
	return vpmu_hw->all && vpmu_hw->entry_counts && !vpmu_hw->entry_assumed &&
	       vv->guest.set >= GUEST_AMD_CORE && vv->guest.set <= GUEST_AMD_V2 &&
	       !vv->borrowing && may_open(vv);
}

/*
 * Once the guest is entered: will the physical counter of @c be as far as the guest's?  See to that
 * if it would be ahead.
 */
static bool align(struct vpmu_vcpu *vv, struct vpmu_counter *c)
{
	s64 ahead = vpmu_count_headroom(&c->count, &vv->tally, 0);

	if (ahead <= 0)
		return !ahead;
	return vpmu_counter_fall_back(c, ahead);
}

/* In guest mode, will physical counter @i read as the guest's of the same number? */
static bool reads_alike(struct vpmu_vcpu *vv, struct vpmu_cpu *pc, unsigned int i)
{
	if (vv->placed & BIT(i))
		return vv->counter[i].slot == i && align(vv, &vv->counter[i]);
	if ((vv->software & BIT(i)) || !vpmu_counter_is_free(pc, i))
		return false;
	put_values(vv, pc, BIT(i));
	return true;
}

static bool open_all_reads(struct vpmu_vcpu *vv, struct vpmu_cpu *pc)
{
	unsigned int i;

	if (vv->guest.nr != vpmu_hw->nr || !may_open_rdpmc(pc))
		return false;
	for (i = 0; i < vv->guest.nr; i++)
		if (!reads_alike(vv, pc, i))
			return false;
	vv->granted_rdpmc = vpmu_compat_grant_rdpmc(vv->hot.vcpu);
	return true;
}

static bool open_reads(struct vpmu_vcpu *vv, struct vpmu_cpu *pc)
{
	u32 may[COMPAT_NR_GROUPS] = { };
	unsigned int i;

	for_each_set_bit(i, &vv->accessed, VPMU_MAX_COUNTERS)
		if (reads_alike(vv, pc, i))
			may[COMPAT_COUNTERS] |= COUNTER_READ(i);
	vv->granted_any = vpmu_compat_grant(vv->hot.vcpu, &vv->filter, may, vv->granted);
	return vv->granted_any;
}

void __vpmu_open_enter_counting(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);

	if (vpmu_open_may_read(vv) &&
	    (vv->by_rdpmc ? open_all_reads(vv, pc) : open_reads(vv, pc)))
		vv->stats.open++;
	else
		vv->reads = -VPMU_OPEN_BACK_OFF;
	vpmu_counter_note_taken(pc);
}

void __vpmu_open_take_back(struct vpmu_vcpu *vv)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	unsigned int i;

	lockdep_assert_irqs_disabled();
	for_each_set_bit(i, &vv->open, VPMU_MAX_COUNTERS) {
		bool lent = pc->lent_to_open & BIT(i);
		u64 value = lent ? pc->seen[i] : vpmu_hw->read(i);

		if (value != pc->left[i])
			vv->written |= BIT(i);
		vv->guest.value[i] = value;
		vv->counter[i].last = lent ? VPMU_NO_SLOT : i;
		pc->kept |= BIT(i);
		pc->left[i] = value;
	}
	/* Behind an overflow only one was. */
	if (!vv->shown)
		vv->expected = vv->written;
	vv->written = 0;
	if (vv->shown) {
		u64 left = vpmu_hw->overflowed() & vv->shown & ~(u64)pc->lent_to_open;

		vv->guest.status = vpmu_hw_index_mask(vpmu_hw,
						      left | (pc->seen_status & vv->shown));
		if (left)
			vpmu_hw->ack(left);
		barrier();
		WRITE_ONCE(vv->shown, 0);
	}
	vv->open = 0;
	memset(vv->may, 0, sizeof(vv->may));
}

static void look_at_others(void *unused)
{
	this_cpu_write(vpmu_cpu.others, vpmu_hw->others_counted());
}

/*
 * Nobody looks at CPUs that are offline.  Intel: from here on, vpmu_host_evict() sees the host use
 * these counters.
 */
void vpmu_open_init(void)
{
	int cpu;

	if (!vpmu_hw->others_counted)
		return;
	for_each_possible_cpu(cpu)
		per_cpu(vpmu_cpu, cpu).others = true;
	if (vpmu_compat_on_intel() || vpmu_compat_sees_others())
		on_each_cpu(look_at_others, NULL, true);
}

static void do_nothing(void *unused)
{
}

void vpmu_open_close_rdpmc(void)
{
	if (READ_ONCE(others_counted))
		return;
	WRITE_ONCE(others_counted, true);
	/* Guests exit, and those that are about to be entered do, too. */
	smp_call_function(do_nothing, NULL, true);
}

void __vpmu_open_nmi_begins(const struct vpmu_vcpu *vv)
{
	/* The status of a counter that was lent, and has been given back, is the host's. */
	u64 shown = vv->shown & ~(u64)this_cpu_read(vpmu_cpu.lent_to_open);
	u64 hidden = vpmu_hw->overflowed() & shown;

	if (hidden)
		vpmu_hw->ack(hidden);
	this_cpu_write(vpmu_cpu.hidden, hidden);
}

void __vpmu_open_nmi_ends(void)
{
	vpmu_hw->show(this_cpu_read(vpmu_cpu.hidden));
	this_cpu_write(vpmu_cpu.hidden, 0);
}
