// SPDX-License-Identifier: GPL-2.0-or-later
#include "pmu.h"

struct pmu pmu;

u16 ev_select[NR_EV];
u32 rearm_lvt;
const char *const ev_name[NR_EV] = { "instructions", "branches", "taken", "conditional" };

static u8 user_stacks[MAX_CPUS][4096] __attribute__((aligned(16)));

static void pmu_init_amd(void)
{
	pmu.core = cpuid_has(0x80000001) && cpuid(0x80000001, 0).c & BIT(23);
	pmu.v2 = pmu.core && cpuid_has(0x80000022) && cpuid(0x80000022, 0).a & 1;
	pmu.nr = pmu.v2 ? cpuid(0x80000022, 0).b & 0xf : pmu.core ? 6 : 4;
	if (!pmu.core) {
		/*
		 * CPUID doesn't tell of the older registers.  KVM without a PMU ignores
		 * writes to them (kvm_set_msr_common()).
		 */
		wrmsr(MSR_LEGACY_CTL, EV_INSN);
		if (rdmsr(MSR_LEGACY_CTL) != EV_INSN)
			pmu.nr = 0;
		wrmsr(MSR_LEGACY_CTL, 0);
	}
}

static void pmu_init_intel(void)
{
	u32 model = cpuid(1, 0).a;

	model = (model >> 12 & 0xf0) | (model >> 4 & 0xf);
	pmu.intel = cpuid(10, 0).a & 0xff;
	pmu.nr = cpuid(10, 0).a >> 8 & 0xff;
	pmu.nr_fixed = cpuid(10, 0).d & 0x1f;
	/* Golden Cove, if it has the fixed counter of slots: guests' don't */
	pmu.width = pmu.nr_fixed > 3 ? 6 : 0;
	pmu.v2 = true;
	/* BR_INST_RETIRED.CONDITIONAL of Skylake, .COND of Sapphire Rapids. */
	pmu.ev_cond = model == 0x55 ? 0x1c4 : 0x11c4;
	/* DTLB_LOAD_MISSES.WALK_COMPLETED */
	pmu.ev_tlb = model == 0x55 ? 0x0e08 : 0x0e12;
}

const char *t_unfit(const char *name)
{
	static const char masked[] = "the first overflow masks the LVT entry";
	static const char no_taken[] = "no event for all taken branches";
	static const char amd[] = "AMD's registers or events; Intel's have tests of their own";
	static const char model[] = "Bochs counts system accesses, too";
	static const struct {
		const char *name, *why;
	} list[] = {
		{ "overflow/kernel/NMI/irq_flag", "Bochs holds NMIs back behind STI" },
		{ "fault/overflow/breakpoint", "Bochs reports a code breakpoint before an NMI" },
		{ "overflow/neighbours/NMI", masked },
		{ "overflow/neighbours/vector", masked },
		{ "overflow/in_nmi_handler", masked },
		{ "overflow/10000/NMI", no_taken },
		{ "overflow/10000/vector", no_taken },
		{ "overflow/syscall/NMI", no_taken },
		{ "overflow/syscall/vector", no_taken },
		{ "fault/user/timer_in_rep", no_taken },
		{ "count/parallel/one_by_one", no_taken },
		{ "count/parallel/global_ctl", no_taken },
		{ "cache/faults/pf_mem", amd },
		{ "cache/faults/pf_straddle", amd },
		{ "cache/faults/pf_rep", amd },
		{ "cache/faults/pf_stack", amd },
		{ "cache/misses", model },
		{ "cache/overflow", model },
		{ "cache/dispatch", amd },
		{ "cache/accesses", amd },
		{ "ctl/unsupported_events", amd },
		{ "ctl/edge_and_unit_mask", amd },
		{ "regs/cpuid", amd },
		{ "regs/select_bits", amd },
		{ "regs/counter_bits", amd },
		{ "regs/legacy_alias", amd },
		{ "regs/absent", amd },
		{ "regs/rdpmc", amd },
		{ "regs/rdpmc_user", amd },
		{ "regs/global_status", amd },
		{ "regs/global_status_set_is_quiet", amd },
		{ "regs/global_status_sticky", amd },
		{ "regs/at_reset", amd },
	};

	for (size_t i = 0; pmu.intel && i < ARRAY_SIZE(list); i++)
		if (!strcmp(name, list[i].name))
			return list[i].why;
	return NULL;
}

void pmu_init(void)
{
	u64 v;

	if (cpuid(0, 0).b == 0x756e6547)	/* "Genu"ineIntel */
		pmu_init_intel();
	else
		pmu_init_amd();
	pmu.vmrun_counts = !cmdline_has("vmrun=off");
	pmu.skid = cmdline_number("skid");
	pmu.constraints = !cmdline_has("constraints=off");
	pmu.oracle = rdmsr_safe(0xc0de0000, &v) == NO_FAULT && v == 0x554d50565f4d564bull;

	ev_select[INSN] = EV_INSN;
	ev_select[BRANCH] = EV_BRANCH;
	ev_select[TAKEN] = EV_TAKEN;
	ev_select[COND] = EV_COND;
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
	if (pmu.intel) {
		wrmsr(MSR_FIXED_CTR_CTRL, 0);
		for (int i = 0; i < pmu.nr_fixed; i++)
			wrmsr(MSR_FIXED_CTR + i, 0);
		wrmsr(MSR_GLOBAL_CLR, FIXED_BITS);
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
	rearm_lvt = !pmu.intel ? 0 : mode == PMI_NMI ? APIC_DM_NMI : VEC_PMI;
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
