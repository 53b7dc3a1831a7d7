// SPDX-License-Identifier: GPL-2.0-or-later
#include "pmu.h"

struct pmu pmu;

const u8 ev_select[NR_EV] = { EV_INSN, EV_BRANCH, EV_TAKEN, EV_COND };
const char *const ev_name[NR_EV] = { "instructions", "branches", "taken", "conditional" };

static u8 user_stacks[MAX_CPUS][4096] __attribute__((aligned(16)));

void pmu_init(void)
{
	u64 v;

	pmu.core = cpuid_has(0x80000001) && cpuid(0x80000001, 0).c & BIT(23);
	pmu.v2 = pmu.core && cpuid_has(0x80000022) && cpuid(0x80000022, 0).a & 1;
	pmu.nr = pmu.v2 ? cpuid(0x80000022, 0).b & 0xf : pmu.core ? 6 : 4;
	pmu.vmrun_counts = !cmdline_has("vmrun=off");
	pmu.oracle = rdmsr_safe(0xc0de0000, &v) == NO_FAULT && v == 0x554d50565f4d564bull;
}

void pmu_reset(void)
{
	apic_write(APIC_LVTPC, APIC_MASKED);
	for (int i = 0; i < pmu.nr; i++) {
		wrmsr(ctl_msr(i), 0);
		wrmsr(ctr_msr(i), 0);
	}
	if (pmu.v2) {
		wrmsr(MSR_GLOBAL_CTL, BIT(pmu.nr) - 1);
		wrmsr(MSR_GLOBAL_CLR, BIT(pmu.nr) - 1);
	}
}

u64 user_stack_top(void)
{
	return (u64)(user_stacks[this_cpu()->cpu] + sizeof(user_stacks[0]));
}

u64 count_run(int n, u64 ctl, seq_fn fn, void *arg0, void *arg1)
{
	wrmsr(ctr_msr(n), 0);
	measure_run(fn, arg0, arg1, ctl_msr(n), ctl | CTL_EN, FLAGS_OFF);
	return rdmsr(ctr_msr(n));
}

u64 count_user(int n, u64 ctl, seq_fn fn, void *arg0, void *arg1)
{
	wrmsr(ctr_msr(n), 0);
	measure_user(fn, arg0, arg1, ctl_msr(n), ctl | CTL_EN, FLAGS_ON, user_stack_top());
	return rdmsr(ctr_msr(n));
}

const struct seq *seq_find(const char *name)
{
	for_each_seq(s)
		if (!strcmp(s->name, name))
			return s;
	t_bail("no sequence %s", name);
}

void pmi_start(enum pmi_mode mode)
{
	this_cpu()->pmi_count = 0;
	apic_write(APIC_LVTPC, mode == PMI_NMI ? APIC_DM_NMI :
		   mode == PMI_VECTOR ? VEC_PMI : VEC_PMI | APIC_MASKED);
}

/* One that waits because interrupts were off comes here; late, and therefore counted. */
u64 pmi_stop(void)
{
	asm volatile("sti\n nop\n cli" : : : "memory");
	apic_write(APIC_LVTPC, APIC_MASKED);
	if (pmu.v2)
		wrmsr(MSR_GLOBAL_CLR, BIT(pmu.nr) - 1);
	return this_cpu()->pmi_count;
}
