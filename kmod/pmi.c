// SPDX-License-Identifier: GPL-2.0
/*
 * From a physical counter's overflow to the guest's interrupt.
 *
 * The NMI makes the guest exit.  The handler reads the counters of the loaded vCPU, acknowledges
 * those that overflowed and requests KVM_REQ_PMU, no more.  Whether the guest's counter overflowed
 * too, and not only a physical one that was ahead (count.h), is found in process context before the
 * next VM entry.  The interrupt is injected there as well, and so at the instruction that the NMI
 * came at.
 */
#include <linux/jiffies.h>
#include <asm/processor-flags.h>
#include <asm/ptrace.h>

#include "compat/host.h"
#include "borrow.h"
#include "counter.h"
#include "host_perf.h"
#include "open.h"
#include "pmi.h"
#include "sched.h"

/*
 * In an NMI: see which of the vCPU's physical counters overflowed, and return how many.  What else
 * the overflow status has is host perf's.
 *
 * A counter that counts in host mode may overflow while it is being written, between the reading
 * (vpmu_counter_set()) and the write, and again behind that: its status bit has to go each time, as
 * perf's handler would find the overflow of a counter that isn't active.
 */
static noinline int see_overflows(struct vpmu_cpu *pc, struct vpmu_vcpu *vv)
{
	u64 status = vpmu_hw->overflowed();
	unsigned long candidates = status & (BIT(vpmu_hw->nr) - 1);
	bool is_known = status != U64_MAX;
	int seen = 0;

	for (; candidates; candidates &= candidates - 1) {
		unsigned int slot = __ffs(candidates);
		int i = READ_ONCE(pc->owner[slot]);
		struct vpmu_counter *c;
		bool wrapped, lent;

		if (i == VPMU_NO_SLOT || vv->counter[i].slot != slot || !vpmu_holds_slot(vv, pc, i))
			continue;
		c = &vv->counter[i];
		lent = vv->borrowing & BIT(i);
		wrapped = vpmu_count_wrapped(&c->count, vpmu_hw->read(slot));
		/* Not the guest's, or not again */
		if ((lent || !is_known) && (!wrapped || c->overflowed))
			continue;
		/* vpmu_give_back_lent() does that for a lent one, unless host perf's is pending. */
		if (!lent)
			vpmu_hw->ack(BIT_ULL(slot));
		if (!lent || !pc->saved[slot].overflowed)
			status &= ~BIT_ULL(slot);
		if (wrapped)
			c->overflowed = true;
		if ((vv->in_host & BIT(i)) && !vpmu_compat_nmi_of_guest(vv->hot.vcpu))
			vv->stats.in_kvm++;
		seen++;
	}
	pc->hosts = status;
	return seen;
}

static noinline void give_back_lent(struct vpmu_cpu *pc, const struct vpmu_vcpu *vv)
{
	/* The guest has not been entered yet: an exit, before the guest runs without them. */
	if (vpmu_hw->release_before_entry && !vpmu_compat_after_exit(vv->hot.vcpu))
		vpmu_kick();
	vpmu_give_back_lent(pc);
}

/*
 * As see_overflows().  Counters that count in host mode could overflow behind this handler, and
 * perf's handler would report an unknown NMI: they are paused until vpmu_pmi_nmi_ends().  The only
 * one, as a rule, has just overflowed, and can't overflow again before it is armed.
 */
static int see_all_overflows(struct vpmu_cpu *pc, struct vpmu_vcpu *vv)
{
	unsigned long in_host = vv->placed & vv->in_host;
	int seen = 0;

	if (!(in_host & (in_host - 1))) {
		const struct vpmu_counter *c = in_host ? &vv->counter[__ffs(in_host)] : NULL;
		bool before = c && c->overflowed;

		seen = see_overflows(pc, vv);
		if (!c || (c->overflowed && !before))
			return seen;
	}
	pc->paused = vpmu_hw->pause();
	return seen + see_overflows(pc, vv);
}

int vpmu_pmi_nmi_begins(const struct pt_regs *regs, bool *for_host)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_vcpu *vv = READ_ONCE(pc->vv);
	int handled = 0;

	pc->hosts = U64_MAX;
	/* First, as the guest's overflow status of these doesn't come back at the end. */
	if (pc->lent_to_open && pc->lent && !pc->busy)
		vpmu_give_back_lent(pc);
	if (vv)
		vpmu_open_nmi_begins(vv);
	if (vv && vv->placed)
		handled = see_all_overflows(pc, vv);
	if (pc->lent && !pc->busy)
		give_back_lent(pc, vv);

	if (handled) {
		kvm_make_request(KVM_REQ_PMU, vv->hot.vcpu);
		/*
		 * Where interrupts are off, KVM may have checked its requests for the last time
		 * before it enters the guest.  Cause an exit then, but not right behind one.
		 */
		if (!(regs->flags & X86_EFLAGS_IF) && !vpmu_compat_after_exit(vv->hot.vcpu))
			vpmu_kick();
	} else if (pc->late_nmi) {
		handled = time_before(jiffies, pc->late_nmi);
		pc->late_nmi = 0;
	}
	/* A late NMI masked the local APIC's entry, too. */
	pc->handled = handled;
	*for_host = !handled || pc->hosts || vpmu_hw->masks_interrupt;
	/*
	 * One NMI for several overflows may be followed by another.  The kernel ignores that one if
	 * the handler has returned more than 1 (default_do_nmi()).
	 */
	return handled;
}

void vpmu_pmi_nmi_ends(void)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_vcpu *vv = READ_ONCE(pc->vv);

	/* Host perf's own handler may have stopped an event. */
	if (vv && vv->placed && vpmu_hw->reassert)
		vpmu_host_reassert(vv);
	vpmu_open_nmi_ends();
	if (vpmu_hw->nmi_ended)
		vpmu_hw->nmi_ended();
	if (pc->paused)
		vpmu_hw->resume(pc->paused);
	pc->paused = 0;
	/* Perf's handler has enabled all counters, even while NMIs are held. */
	if (vpmu_hw->hold_again)
		vpmu_hw->hold_again();
	if (pc->handled && vpmu_hw->masks_interrupt)
		vpmu_compat_enable_pmi();
	pc->handled = false;
}

/*
 * Which of the overflows that the NMI handler saw are the guest's?  The others were early; after
 * them the physical counter is armed exactly.
 */
void vpmu_pmi_handle(struct vpmu_vcpu *vv)
{
	unsigned long flags, mask;

	local_irq_save(flags);
	for (mask = vv->placed | vv->borrowing; mask; mask &= mask - 1)
		if (vv->counter[__ffs(mask)].overflowed)
			vpmu_counter_update(vv, __ffs(mask));
	if (vv->event.interrupting && !vpmu_event_irq_first(vv))
		vpmu_counter_sync_events(vv, vv->event.interrupting);
	local_irq_restore(flags);
	vpmu_sched_apply_settings(vv);
}

static void deliver_now(struct vpmu_vcpu *vv)
{
	if (kvm_check_request(KVM_REQ_PMI, vv->hot.vcpu))
		vpmu_compat_deliver_pmi(vv->hot.vcpu);
}

void vpmu_pmi_before_halt(struct vpmu_vcpu *vv)
{
	unsigned long flags;
	unsigned int i;

	local_irq_save(flags);
	for (i = 0; i < vv->guest.nr; i++)
		vpmu_counter_update(vv, i);
	local_irq_restore(flags);

	/* KVM before 6.6 doesn't check this request before it sleeps. */
	deliver_now(vv);
}

void vpmu_pmi_put(struct vpmu_vcpu *vv)
{
	if (!irqs_disabled())
		deliver_now(vv);
}
