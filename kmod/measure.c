// SPDX-License-Identifier: GPL-2.0
/*
 * Does a VM entry count as an instruction of the guest?  AMD's manuals don't say.  Their CPUs count
 * it as far as known (see count.h), and hw_ops.entry_counts assumes that.
 *
 * The first VM entries show whether that is right.  A pending interrupt makes the guest exit before
 * the guest executes anything, and RIP stays.  What a counter of retired instructions has counted
 * by then is the entry.
 *
 * RIP stays, too, if the interrupt comes late and the guest jumps to itself meanwhile.  So 0 is
 * proof that entries don't count; 1 has to be seen AGREEING times.  An entry that fails, as a VMM
 * can cause by an invalid state, ends for another reason than an interrupt.  Where KVM doesn't even
 * try, the last exit's reason stays, so an entry is measured behind an exit for another reason
 * only.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/spinlock.h>
#include <asm/perf_event.h>

#include "borrow.h"
#include "compat/host.h"
#include "counter.h"
#include "measure.h"
#include "param.h"
#include "sched.h"

/* After as many entries that show nothing, the assumption is left as it is. */
#define TRIES		1000
#define AGREEING	3

/* APM vol. 2, "Performance Monitoring Events": PMCx0C0, "Retired Instructions", on all families */
#define RETIRED_INSTRUCTIONS	0xc0

enum vmrun_counts { VMRUN_AUTO, VMRUN_Y, VMRUN_N, VMRUN_1, VMRUN_0 };

static const char *const vmrun_words[] = {
	[VMRUN_AUTO] = "auto",
	[VMRUN_Y] = "Y",
	[VMRUN_N] = "N",
	[VMRUN_1] = "1",
	[VMRUN_0] = "0",
};

static struct vpmu_param param_vmrun = {
	.words = vmrun_words,
	.nr = ARRAY_SIZE(vmrun_words),
};

module_param_cb(vmrun_counts, &vpmu_param_ops, &param_vmrun, 0444);
MODULE_PARM_DESC(vmrun_counts,
		 "AMD: VMRUN counts as an instruction and a branch of the guest: auto (default), which measures that, Y or N");
__MODULE_PARM_TYPE(vmrun_counts, "charp");

/**
 * struct measurement - the entry that is being measured on a CPU
 * @slot: the physical counter
 * @rip: where the guest was to go on
 */
struct measurement {
	int slot;
	unsigned long rip;
};

static DEFINE_PER_CPU(struct measurement, measurement);

static DEFINE_RAW_SPINLOCK(lock);
static unsigned int tries, agreeing;	/* under @lock */

static bool is_known(void)
{
	/* Pairs with the release of whoever measured that (hw_ops.entry_measured). */
	return !smp_load_acquire(&vpmu_hw->entry_assumed);
}

void vpmu_measure_init(void)
{
	if (vpmu_hw->entry_measured && param_vmrun.value != VMRUN_AUTO)
		vpmu_hw->entry_measured(param_vmrun.value == VMRUN_Y ||
					param_vmrun.value == VMRUN_1);
}

u32 vpmu_measure_new_vcpu(void)
{
	if (!is_known())
		return VPMU_SLOW_MEASURE;
	/* Only if that was known before hooks were chosen, the stubs are those for such a CPU. */
	if (vpmu_hw->entry_measured && !vpmu_hw->entry_counts && param_vmrun.value == VMRUN_AUTO)
		return VPMU_SLOW_UNCOUNTED;
	return 0;
}

bool vpmu_measure_settled(struct vpmu_vcpu *vv)
{
	int level;

	lockdep_assert_irqs_disabled();
	if (!is_known())
		return false;
	vpmu_flush_pending(vv);
	vv->hot.slow &= ~VPMU_SLOW_MEASURE;
	if (!vpmu_hw->entry_counts) {
		vv->hot.slow |= VPMU_SLOW_UNCOUNTED;
		for (level = 0; level < VPMU_NR_LEVELS; level++) {
			vv->tally.surplus[VPMU_INSTRUCTION][level] -= vv->assumed[level];
			vv->tally.surplus[VPMU_BRANCH][level] -= vv->assumed[level];
		}
	}
	vpmu_sched_update_hot(vv);
	return true;
}

bool vpmu_measure_begin(struct vpmu_vcpu *vv)
{
	struct measurement *m = this_cpu_ptr(&measurement);
	struct vpmu_cpu *pc = this_cpu_ptr(&vpmu_cpu);

	lockdep_assert_irqs_disabled();
	if (vv->borrowing || vpmu_compat_is_protected(vv->hot.vcpu) ||
	    vpmu_compat_state_encrypted(vv->hot.vcpu) ||
	    vpmu_compat_interrupt_exit(vv->hot.vcpu))
		return false;
	for (m->slot = vpmu_hw->nr - 1; m->slot >= 0; m->slot--)
		if (vpmu_counter_is_free(pc, m->slot))
			break;
	if (m->slot < 0)
		return false;

	m->rip = vpmu_compat_rip(vv->hot.vcpu);
	vpmu_counter_prepare(pc);
	vpmu_hw->write(m->slot, 0);
	vpmu_compat_host_counters_taken(BIT(vpmu_hw_index(vpmu_hw, m->slot)));
	vpmu_hw->start(m->slot, RETIRED_INSTRUCTIONS | ARCH_PERFMON_EVENTSEL_OS |
		       ARCH_PERFMON_EVENTSEL_USR, false);
	vpmu_kick();
	return true;
}

/* @count: of an entry that was followed by no instruction of the guest's, as far as RIP shows */
static void judge(u64 count)
{
	lockdep_assert_held(&lock);
	if (is_known())
		return;
	if (!count) {
		vpmu_hw->entry_measured(false);
		pr_info("this CPU doesn't count VM entries, as measured; load with vmrun_counts=N for cheaper VM exits\n");
		return;
	}
	agreeing = count == 1 ? agreeing + 1 : 0;
	if (agreeing < AGREEING)
		return;
	vpmu_hw->entry_measured(true);
	pr_info("this CPU counts VM entries, as measured\n");
}

void vpmu_measure_end(struct vpmu_vcpu *vv)
{
	struct measurement *m = this_cpu_ptr(&measurement);
	u64 count;

	lockdep_assert_irqs_disabled();
	count = vpmu_hw->stop(m->slot);
	this_cpu_or(vpmu_cpu.dirty, BIT(m->slot));
	this_cpu_and(vpmu_cpu.kept, ~BIT(m->slot));

	raw_spin_lock(&lock);
	if (vpmu_compat_interrupt_exit(vv->hot.vcpu) && m->rip == vpmu_compat_rip(vv->hot.vcpu))
		judge(count);
	if (!is_known() && ++tries == TRIES) {
		vpmu_hw->entry_measured(true);
		pr_warn("can't measure whether this CPU counts VM entries; assuming that it does\n");
	}
	raw_spin_unlock(&lock);
}
