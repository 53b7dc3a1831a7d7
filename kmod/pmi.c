// SPDX-License-Identifier: GPL-2.0
/*
 * From a physical counter's overflow to the guest's interrupt.
 *
 * The NMI makes the guest exit.  Its handler reads the counters of the loaded
 * vCPU, acknowledges those that overflowed and requests KVM_REQ_PMU, no more:
 * whether the guest's counter overflowed too (and not only a physical one
 * that was ahead of it, see count.h) is found in process context before the
 * next VM entry, where the interrupt is injected as well.  So it comes at the
 * instruction that the NMI came at.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <asm/nmi.h>

#include "compat/compat.h"
#include "compat/cpu.h"
#include "vpmu.h"
#include "trace.h"

static DEFINE_PER_CPU(struct irq_work, kick);

static void do_nothing(struct irq_work *work)
{
}

/*
 * Interrupt this CPU as soon as it can be.  If that is in guest mode, the guest has executed
 * nothing yet.
 */
void vpmu_kick(void)
{
	irq_work_queue(this_cpu_ptr(&kick));
}

/*
 * Give host perf the counters back that it lent.  In the NMI handler, as
 * perf's own comes next and must find its values.
 */
void vpmu_give_back_lent(struct vpmu_cpu *pc)
{
	unsigned int slot;

	for (slot = 0; pc->lent; slot++) {
		if (!(pc->lent & BIT(slot)))
			continue;
		pc->seen[slot] = vpmu_hw->read(slot);
		vpmu_hw->give_back(slot, &pc->saved[slot]);
		pc->lent &= ~BIT(slot);
	}
}

static int pmi_nmi(unsigned int type, struct pt_regs *regs)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_vcpu *vv = READ_ONCE(pc->vv);
	unsigned long candidates = 0;
	unsigned int slot;
	int handled = 0;

	/*
	 * Counters that count in host mode could overflow once we are through
	 * here, and perf's handler would warn of them.
	 */
	if (vv && vv->placed_in_host)
		pc->paused = vpmu_hw->pause();

	if (vv && vv->placed)
		candidates = vpmu_hw->overflowed();
	for_each_set_bit(slot, &candidates, vpmu_hw->nr) {
		int i = READ_ONCE(pc->owner[slot]);

		if (i == VPMU_NO_SLOT || vv->counter[i].slot != slot ||
		    vv->counter[i].overflowed || !vpmu_holds_slot(pc, &vv->counter[i]))
			continue;
		if (!vpmu_count_wrapped(&vv->counter[i].count, vpmu_hw->read(slot)))
			continue;
		/* If it is lent, giving it back does that, or must not: host perf's may wait. */
		if (!vv->counter[i].borrows)
			vpmu_hw->ack(BIT_ULL(slot));
		vv->counter[i].overflowed = true;
		handled++;
	}
	/* Lent, and the guest not entered yet: it must not be without what it borrows. */
	if (pc->lent && !pc->busy && vpmu_hw->release_before_entry &&
	    !vpmu_compat_after_exit(vv->hot.vcpu))
		vpmu_kick();
	if (!pc->busy)
		vpmu_give_back_lent(pc);

	if (handled) {
		kvm_make_request(KVM_REQ_PMU, vv->hot.vcpu);
		/*
		 * Where interrupts are off, KVM may have looked at its
		 * requests for the last time before it enters the guest.
		 * Cause an exit then.  Not if the guest has just been left.
		 */
		if (!(regs->flags & X86_EFLAGS_IF) && !vpmu_compat_after_exit(vv->hot.vcpu))
			vpmu_kick();
	} else if (pc->late_nmi) {
		handled = time_before(jiffies, pc->late_nmi);
		pc->late_nmi = 0;
	}
	/* The NMI of an overflow that was noticed before masked the local APIC's entry, too. */
	pc->handled = handled;
	/*
	 * One NMI for several may be followed by another, which the kernel takes as
	 * that of the others if it knows of them (default_do_nmi()).
	 */
	return handled;
}

/* After perf's handler. */
static int pmi_nmi_end(unsigned int type, struct pt_regs *regs)
{
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);
	struct vpmu_vcpu *vv = READ_ONCE(pc->vv);

	/* Host perf's own handler may have stopped an event. */
	if (vv && vv->placed && vpmu_hw->reassert)
		vpmu_host_reassert(vv);
	if (vpmu_hw->nmi_ended)
		vpmu_hw->nmi_ended();
	vpmu_hw->resume(pc->paused);
	pc->paused = 0;
	/* It lets all counters go on, too, while they are being lent or given back. */
	if (pc->busy && vpmu_hw->hold_again)
		vpmu_hw->hold_again();
	if (pc->handled && vpmu_hw->masks_interrupt)
		vpmu_compat_enable_pmi();
	pc->handled = false;
	return NMI_DONE;
}

/* Guest counter @i went over its top. */
void vpmu_counter_overflow(struct vpmu_vcpu *vv, unsigned int i)
{
	vv->stats.overflows++;
	trace_vpmu_overflow(vv, i);
	if (vpmu_guest_has_status(&vv->guest))
		vv->guest.status |= vpmu_guest_bit(&vv->guest, i);
	if (vpmu_guest_interrupts(&vv->guest, i)) {
		vv->stats.pmis++;
		trace_vpmu_inject(vv, i);
		kvm_make_request(KVM_REQ_PMI, vv->hot.vcpu);
	}
}

/*
 * Before the next VM entry, as KVM_REQ_PMU asked for: which of the overflows
 * that the NMI handler saw are the guest's?  The others came early; after them
 * the physical counter is armed exactly.  Settings may have been changed as well.
 */
void vpmu_pmi_handle(struct vpmu_vcpu *vv)
{
	unsigned long flags;
	unsigned int i;

	local_irq_save(flags);
	for (i = 0; i < vv->guest.nr; i++)
		if (vv->counter[i].overflowed)
			vpmu_counter_update(vv, i);
	local_irq_restore(flags);
	vpmu_sched_apply_settings(vv);
}

static void deliver_now(struct vpmu_vcpu *vv)
{
	if (kvm_check_request(KVM_REQ_PMI, vv->hot.vcpu))
		vpmu_compat_deliver_pmi(vv->hot.vcpu);
}

/*
 * The guest's HLT, completed by KVM, may have been what a counter overflowed
 * at.  The physical one would follow at the next VM entry, which the
 * interrupt has to come before.
 */
void vpmu_pmi_before_halt(struct vpmu_vcpu *vv)
{
	unsigned long flags;
	unsigned int i;

	local_irq_save(flags);
	for (i = 0; i < vv->guest.nr; i++)
		vpmu_counter_update(vv, i);
	local_irq_restore(flags);

	/* KVM before 6.7 doesn't look at this request before it sleeps. */
	deliver_now(vv);
}

/*
 * The vCPU's counters were taken off.  If its thread goes back to userspace, which
 * may save the vCPU's state for good: KVM tells it of a pending interrupt, but
 * not of a request.  Where the thread is only switched out (interrupts are off
 * then, and the run queue is locked) the request can wait.
 */
void vpmu_pmi_put(struct vpmu_vcpu *vv)
{
	if (!irqs_disabled())
		deliver_now(vv);
}

int vpmu_pmi_init(void)
{
	int cpu, err;

	for_each_possible_cpu(cpu)
		init_irq_work(per_cpu_ptr(&kick, cpu), do_nothing);
	err = register_nmi_handler(NMI_LOCAL, pmi_nmi_end, 0, "kvm_vpmu_end");
	if (err)
		return err;
	/* Before perf's handler, which warns of overflows it doesn't know. */
	err = register_nmi_handler(NMI_LOCAL, pmi_nmi, NMI_FLAG_FIRST, "kvm_vpmu");
	if (err)
		unregister_nmi_handler(NMI_LOCAL, "kvm_vpmu_end");
	return err;
}

void vpmu_pmi_exit(void)
{
	int cpu;

	unregister_nmi_handler(NMI_LOCAL, "kvm_vpmu");
	unregister_nmi_handler(NMI_LOCAL, "kvm_vpmu_end");
	for_each_possible_cpu(cpu)
		irq_work_sync(per_cpu_ptr(&kick, cpu));
}
