// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the registers hold, which there are, and who may read them.
 */
#include "svm.h"

#define GP	13
#define UD	6

static void identity(void)
{
	if (!t_begin("regs/cpuid"))
		return;
	check(cpuid_has(0x80000001), "CPUID 80000001h");
	if (pmu.v2) {
		struct cpuid c = cpuid(0x80000022, 0);

		check(pmu.core, "PerfMonV2 implies the core extension");
		check_eq(c.b & 0xf, 6, "counters by CPUID 80000022h");
		check_eq(c.a & ~7u, 0, "unknown features in CPUID 80000022h EAX");
	} else if (cpuid_has(0x80000022)) {
		check_eq(cpuid(0x80000022, 0).a & 1, 0, "PerfMonV2 without its MSRs");
	}
	/* Vendor: AuthenticAMD */
	check_eq(cpuid(0, 0).b, 0x68747541, "vendor");
	/* NRIP save comes with it. */
	if (cpuid(0x80000001, 0).c & BIT(2))
		check_eq(cpuid(0x8000000a, 0).d >> 3 & 1, 1, "NRIP save");
	t_end();
}

static u32 legacy_ctl(int n)
{
	return MSR_LEGACY_CTL + n;
}

static u32 legacy_ctr(int n)
{
	return MSR_LEGACY_CTR + n;
}

/* Every bit on its own: those that are kept, and those that read as zero. */
static void select_bits(void)
{
	if (!t_begin("regs/select_bits"))
		return;
	for (int n = 0; n < pmu.nr; n++) {
		for (int bit = 0; bit < 64; bit++) {
			u64 v = BIT(bit);

			check_eq(wrmsr_safe(ctl_msr(n), v), NO_FAULT, "PERF_CTL%d bit %d", n, bit);
			check_eq(rdmsr(ctl_msr(n)), v & CTL_KEPT, "PERF_CTL%d bit %d", n, bit);
		}
		wrmsr(ctl_msr(n), ~CTL_EN);
		check_eq(rdmsr(ctl_msr(n)), CTL_KEPT & ~CTL_EN, "PERF_CTL%d", n);
		wrmsr(ctl_msr(n), 0);
		check_eq(rdmsr(ctl_msr(n)), 0, "PERF_CTL%d", n);
	}
	t_end();
}

static void counter_bits(void)
{
	if (!t_begin("regs/counter_bits"))
		return;
	for (int n = 0; n < pmu.nr; n++) {
		for (int bit = 0; bit < 64; bit++) {
			u64 v;

			wrmsr(ctr_msr(n), BIT(bit));
			check_eq(rdmsr(ctr_msr(n)), BIT(bit) & CTR_MASK, "PERF_CTR%d bit %d", n,
				 bit);
			check_eq(rdpmc_safe(n, &v), NO_FAULT, "RDPMC %d", n);
			check_eq(v, BIT(bit) & CTR_MASK, "RDPMC %d bit %d", n, bit);
		}
		wrmsr(ctr_msr(n), ~0ull);
		check_eq(rdmsr(ctr_msr(n)), CTR_MASK, "PERF_CTR%d", n);
		/* Different in each, see below. */
		wrmsr(ctr_msr(n), 0x123456789a00 + n);
		wrmsr(ctl_msr(n), 0x100 * n + 0x55);
	}
	for (int n = 0; n < pmu.nr; n++) {
		check_eq(rdmsr(ctr_msr(n)), 0x123456789a00 + n, "PERF_CTR%d of its own", n);
		check_eq(rdmsr(ctl_msr(n)), 0x100 * n + 0x55, "PERF_CTL%d of its own", n);
	}
	pmu_reset();
	t_end();
}

/* The legacy registers are counters 0 to 3 by another name. */
static void aliases(void)
{
	const struct seq *s = seq_find("loop_10");

	if (!t_begin("regs/legacy_alias"))
		return;
	for (int n = 0; n < 4; n++) {
		u64 ctl = 0x1234 + n, v;

		wrmsr(legacy_ctl(n), ctl);
		check_eq(rdmsr(ctl_msr(n)), ctl, "PERF_CTL%d written as legacy", n);
		wrmsr(ctl_msr(n), ctl << 1);
		check_eq(rdmsr(legacy_ctl(n)), ctl << 1, "legacy PERF_CTL%d", n);
		wrmsr(legacy_ctr(n), 0xabcdef00 + n);
		check_eq(rdmsr(ctr_msr(n)), 0xabcdef00 + n, "PERF_CTR%d written as legacy", n);
		wrmsr(ctr_msr(n), 0xfedcba00 + n);
		check_eq(rdmsr(legacy_ctr(n)), 0xfedcba00 + n, "legacy PERF_CTR%d", n);
		check_eq(rdpmc_safe(n, &v), NO_FAULT, "RDPMC %d", n);
		check_eq(v, 0xfedcba00 + n, "RDPMC %d", n);

		/* Start and stop by the legacy name, read by the other. */
		wrmsr(legacy_ctr(n), 0);
		measure_run(s->fn, buf_a, buf_b, legacy_ctl(n), EV_INSN | CTL_OS | CTL_EN,
			    FLAGS_OFF);
		check_eq(rdmsr(ctr_msr(n)), s->want[INSN] + RUN_INSNS, "PERF_CTR%d", n);
	}
	pmu_reset();
	t_end();
}

/* Registers of sets that this CPU doesn't have. */
static void absent(void)
{
	u64 v;

	if (!t_begin("regs/absent"))
		return;
	if (!pmu.core) {
		for (u32 msr = MSR_CORE_CTL; msr < MSR_CORE_CTL + 12; msr++) {
			check_eq(rdmsr_safe(msr, &v), GP, "RDMSR %x", msr);
			check_eq(wrmsr_safe(msr, 0), GP, "WRMSR %x", msr);
		}
	}
	if (!pmu.v2) {
		for (u32 msr = MSR_GLOBAL_STATUS; msr <= MSR_GLOBAL_SET; msr++) {
			check_eq(rdmsr_safe(msr, &v), GP, "RDMSR %x", msr);
			check_eq(wrmsr_safe(msr, 0), GP, "WRMSR %x", msr);
		}
	}
	/* And those that it has. */
	for (int n = 0; n < pmu.nr; n++) {
		check_eq(rdmsr_safe(ctl_msr(n), &v), NO_FAULT, "RDMSR of PERF_CTL%d", n);
		check_eq(rdmsr_safe(ctr_msr(n), &v), NO_FAULT, "RDMSR of PERF_CTR%d", n);
		check_eq(wrmsr_safe(ctl_msr(n), 0), NO_FAULT, "WRMSR of PERF_CTL%d", n);
		check_eq(wrmsr_safe(ctr_msr(n), 0), NO_FAULT, "WRMSR of PERF_CTR%d", n);
	}
	if (pmu.v2) {
		for (u32 msr = MSR_GLOBAL_STATUS; msr <= MSR_GLOBAL_SET; msr++)
			check_eq(rdmsr_safe(msr, &v), NO_FAULT, "RDMSR %x", msr);
	}
	/* The oracle's window can't be written. */
	if (pmu.oracle) {
		check_eq(wrmsr_safe(0xc0de0000, 0), GP, "WRMSR of the oracle's signature");
		check_eq(wrmsr_safe(0xc0de0100, 0), GP, "WRMSR of an oracle's count");
	}
	t_end();
}

/* RDPMC at CPL 3: index in RDI, result to *RSI. */
asm(
".balign 16\n"
"user_rdpmc:\n"
"	mov %edi, %ecx\n"
"user_rdpmc_at:\n"
"	rdpmc\n"
"	mov %eax, (%rsi)\n"
"	mov %edx, 4(%rsi)\n"
"user_rdpmc_fixup:\n"
"	ret\n"
EXTABLE("user_rdpmc_at", "user_rdpmc_fixup")
);
void user_rdpmc(void *arg0, void *arg1);

static u64 rdpmc_user(u32 index, u64 *v)
{
	this_cpu()->fault_vec = NO_FAULT;
	*v = ~0ull;
	/* Nothing is counted: the value to write is 0. */
	measure_user(user_rdpmc, (void *)(u64)index, v, ctl_msr(0), 0, FLAGS_ON,
		     user_stack_top());
	return this_cpu()->fault_vec;
}

static void rdpmc(void)
{
	static const u32 bad[] = {
		7, 8, 10, 27, 28, 31, 63, 64, 0x100, 0x40000000, 0x40000001, 0x80000000,
		0x7fffffff, 0xffffffff,
	};
	u64 v, cr4 = read_cr4();

	if (t_begin("regs/rdpmc")) {
		for (int n = 0; n < pmu.nr; n++) {
			wrmsr(ctr_msr(n), 0x876543210000 + n);
			check_eq(rdpmc_safe(n, &v), NO_FAULT, "index %d", n);
			check_eq(v, 0x876543210000 + n, "index %d", n);
		}
		check_eq(rdpmc_safe(pmu.nr, &v), GP, "index %d", pmu.nr);
		check_eq(rdpmc_safe(pmu.nr + 1, &v), GP, "index %d", pmu.nr + 1);
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
			check_eq(rdpmc_safe(bad[i], &v), GP, "index %x", bad[i]);
		pmu_reset();
		t_end();
	}

	if (t_begin("regs/rdpmc_user")) {
		for (int n = 0; n < pmu.nr; n++) {
			wrmsr(ctr_msr(n), 0x876543210000 + n);
			write_cr4(cr4 & ~BIT(8));
			check_eq(rdpmc_user(n, &v), GP, "CR4.PCE 0, index %d", n);
			check_eq(v, ~0ull, "CR4.PCE 0: nothing read");
			write_cr4(cr4 | BIT(8));
			check_eq(rdpmc_user(n, &v), NO_FAULT, "CR4.PCE 1, index %d", n);
			check_eq(v, 0x876543210000 + n, "CR4.PCE 1, index %d", n);
		}
		check_eq(rdpmc_user(pmu.nr, &v), GP, "CR4.PCE 1, index %d", pmu.nr);
		check_eq(rdpmc_user(0x40000000, &v), GP, "CR4.PCE 1, index 40000000h");
		write_cr4(cr4);
		pmu_reset();
		t_end();
	}
}

/*
 * Reading a counter while it runs, in the middle of straight-line code, sees the instructions
 * before the reading one. WRMSR is number 1, CALL 2, then as numbered.
 */
asm(
".balign 16\n"
".globl read_running\n"
"read_running:\n"
"	mov %rdi, %r8\n"		/* 3 */
"	mov %rsi, %r9\n"		/* 4 */
"	xor %ecx, %ecx\n"		/* 5 */
"	rdpmc\n"			/* 6: reads 5 */
"	mov %eax, (%r8)\n"		/* 7 */
"	rdpmc\n"			/* 8: reads 7 */
"	mov %eax, 4(%r8)\n"		/* 9 */
"	rdpmc\n"			/* 10 */
"	rdpmc\n"			/* 11: reads 10 */
"	mov %eax, 8(%r8)\n"		/* 12 */
"	mov %r9d, %ecx\n"		/* 13 */
"	rdmsr\n"			/* 14: reads 13 */
"	mov %eax, 12(%r8)\n"		/* 15 */
"	nop\n"				/* 16 */
"	nop\n"				/* 17 */
"	nop\n"				/* 18 */
"	rdmsr\n"			/* 19: reads 18 */
"	mov %eax, 16(%r8)\n"		/* 20 */
"	mov $100, %eax\n"		/* 21 */
"	xor %edx, %edx\n"		/* 22 */
"	wrmsr\n"			/* 100, and itself: 101 */
"	rdmsr\n"			/* 102: reads 101 */
"	mov %eax, 20(%r8)\n"		/* 103 */
"	xor %ecx, %ecx\n"		/* 104 */
"	mov $4, %edx\n"			/* 105 */
"1:	mov %edx, %esi\n"		/* 106, and 6 more each turn */
"	rdpmc\n"			/* 107: reads 106 */
"	mov %eax, 20(%r8, %rsi, 4)\n"	/* from the end of the array to its start */
"	lea -1(%rsi), %edx\n"
"	test %edx, %edx\n"
"	jnz 1b\n"
"	ret\n"
);

static void running(void)
{
	static const u32 want[] = {
		5, 7, 10, 13, 18, 101,
		106 + 18, 106 + 12, 106 + 6, 106,
	};
	u32 *got = (u32 *)buf_a;

	if (!t_begin("regs/read_running"))
		return;
	for (int i = 0; i < 3; i++) {
		memset(buf_a, 0, sizeof(want));
		wrmsr(ctr_msr(0), 0);
		measure_run(read_running, got, (void *)(u64)ctr_msr(0), ctl_msr(0),
			    EV_INSN | CTL_OS | CTL_EN, FLAGS_OFF);
		for (size_t j = 0; j < ARRAY_SIZE(want); j++)
			check_eq(got[j], want[j], "reading %lu", j);
	}
	t_end();
}

/* Over 2^48 - 1, and on from 0. */
static void wrap(void)
{
	const struct seq *s = seq_find("straight");
	u64 total = s->want[INSN] + RUN_INSNS;

	if (!t_begin("regs/wrap"))
		return;
	for (int n = 0; n < pmu.nr; n++) {
		for (u64 start = CTR_MASK - 30; start <= CTR_MASK; start++) {
			u64 v;

			wrmsr(ctr_msr(n), start);
			measure_run(s->fn, buf_a, buf_b, ctl_msr(n), EV_INSN | CTL_OS | CTL_EN,
				    FLAGS_OFF);
			check_eq(rdmsr(ctr_msr(n)), (start + total) & CTR_MASK,
				 "PERF_CTR%d from %lx", n, start);
			rdpmc_safe(n, &v);
			check_eq(v, (start + total) & CTR_MASK, "RDPMC %d from %lx", n, start);
			if (pmu.v2) {
				check_eq(rdmsr(MSR_GLOBAL_STATUS),
					 start + total > CTR_MASK ? BIT(n) : 0,
					 "status, counter %d from %lx", n, start);
				wrmsr(MSR_GLOBAL_CLR, BIT(n));
			}
		}
	}
	pmu_reset();
	t_end();
}

/* EN clear, then set, then clear: counts in between only, and doesn't start over. */
static void enable(void)
{
	const struct seq *s = seq_find("straight");
	u64 total = s->want[INSN] + RUN_INSNS;

	if (!t_begin("regs/enable"))
		return;
	for (int n = 0; n < pmu.nr; n++) {
		wrmsr(ctr_msr(n), 1000);
		measure_run(s->fn, buf_a, buf_b, ctl_msr(n), EV_INSN | CTL_OS, FLAGS_OFF);
		check_eq(rdmsr(ctr_msr(n)), 1000, "EN clear, counter %d", n);
		for (int i = 1; i <= 3; i++) {
			measure_run(s->fn, buf_a, buf_b, ctl_msr(n), EV_INSN | CTL_OS | CTL_EN,
				    FLAGS_OFF);
			check_eq(rdmsr(ctr_msr(n)), 1000 + i * total, "run %d, counter %d", i, n);
		}
		for (int other = 0; other < pmu.nr; other++)
			if (other != n)
				check_eq(rdmsr(ctr_msr(other)), other < n ? 1000 + 3 * total : 0,
					 "counter %d while %d counts", other, n);
	}
	pmu_reset();
	t_end();
}

/*
 * A running counter goes on with another event. Instructions until the WRMSR that changes it,
 * branches from there: WRMSR, CALL, 3 to 5; JMP, JMP, RET.
 */
asm(
".balign 16\n"
"change_event:\n"
"	mov %edi, %ecx\n"		/* 3 */
"	mov %esi, %eax\n"		/* 4 */
"	xor %edx, %edx\n"		/* 5 */
"	wrmsr\n"
"	jmp 1f\n"			/* branch 1 */
"	ud2\n"
"1:	nop\n"
"	jmp 1f\n"			/* branch 2 */
"	ud2\n"
"1:	ret\n"				/* branch 3 */
);
void change_event(void *arg0, void *arg1);

static void change(void)
{
	if (!t_begin("regs/change_event"))
		return;
	for (int n = 0; n < pmu.nr; n++) {
		check_eq(count_run(n, EV_INSN | CTL_OS, change_event, (void *)(u64)ctl_msr(n),
				   (void *)(EV_BRANCH | CTL_OS | CTL_EN)), 5 + 3, "counter %d", n);
		/* Without EN it stops there; MOV, XOR, ... don't count, nor does the WRMSR. */
		check_eq(count_run(n, EV_INSN | CTL_OS, change_event, (void *)(u64)ctl_msr(n),
				   (void *)(EV_INSN | CTL_OS)), 5, "counter %d, stopped", n);
	}
	t_end();
}

/* PerfMonV2's global registers. */
static void global(void)
{
	const struct seq *s = seq_find("straight");
	u64 total = s->want[INSN] + RUN_INSNS, all = BIT(pmu.nr) - 1;

	if (t_begin("regs/global_ctl")) {
		if (!pmu.v2) {
			t_skip("no PerfMonV2");
			t_end();
			return;
		}
		for (u64 mask = 0; mask <= all; mask++) {
			wrmsr(MSR_GLOBAL_CTL, 0);
			for (int n = 0; n < pmu.nr; n++) {
				wrmsr(ctr_msr(n), 0);
				wrmsr(ctl_msr(n), EV_INSN | CTL_OS | CTL_EN);
			}
			measure_run(s->fn, buf_a, buf_b, MSR_GLOBAL_CTL, mask, FLAGS_OFF);
			check_eq(rdmsr(MSR_GLOBAL_CTL), 0, "GlobalCtl");
			for (int n = 0; n < pmu.nr; n++)
				check_eq(rdmsr(ctr_msr(n)), mask & BIT(n) ? total : 0,
					 "mask %lx, counter %d", mask, n);
		}
		/* Both bits are needed. */
		wrmsr(ctl_msr(0), EV_INSN | CTL_OS);
		wrmsr(ctr_msr(0), 0);
		measure_run(s->fn, buf_a, buf_b, MSR_GLOBAL_CTL, all, FLAGS_OFF);
		check_eq(rdmsr(ctr_msr(0)), 0, "EN clear, GlobalCtl set");
		/* 5:0 are all there are. */
		wrmsr(MSR_GLOBAL_CTL, all);
		check_eq(rdmsr(MSR_GLOBAL_CTL), all, "GlobalCtl");
		for (int bit = 0; bit < pmu.nr; bit++) {
			wrmsr(MSR_GLOBAL_CTL, BIT(bit));
			check_eq(rdmsr(MSR_GLOBAL_CTL), BIT(bit), "GlobalCtl");
		}
		pmu_reset();
		t_end();
	}

	if (t_begin("regs/global_status")) {
		check_eq(rdmsr(MSR_GLOBAL_STATUS), 0, "status to begin with");
		for (u64 m = 0; m <= all; m++) {
			wrmsr(MSR_GLOBAL_SET, m);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), m, "set %lx", m);
			/* Read only. */
			check_eq(wrmsr_safe(MSR_GLOBAL_STATUS, ~m & all), NO_FAULT,
				 "write to the status");
			check_eq(rdmsr(MSR_GLOBAL_STATUS), m, "written over %lx", m);
			/* Set adds, clear takes away, each only what it is told. */
			wrmsr(MSR_GLOBAL_SET, 1);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), m | 1, "set 1 over %lx", m);
			wrmsr(MSR_GLOBAL_CLR, 2);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), (m | 1) & ~2ull, "clear 2 of %lx", m);
			wrmsr(MSR_GLOBAL_CLR, 0);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), (m | 1) & ~2ull, "clear 0 of %lx", m);
			wrmsr(MSR_GLOBAL_CLR, all);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), 0, "clear all");
		}
		t_end();
	}

	if (t_begin("regs/global_status_set_is_quiet")) {
		u64 count;

		/* A status that software sets is no overflow: no interrupt. */
		pmi_start(PMI_VECTOR);
		for (int n = 0; n < pmu.nr; n++)
			wrmsr(ctl_msr(n), EV_INSN | CTL_USR | CTL_INT | CTL_EN);
		wrmsr(MSR_GLOBAL_SET, all);
		check_eq(rdmsr(MSR_GLOBAL_STATUS), all, "status");
		check(!apic_irr(VEC_PMI), "no request");
		count = pmi_stop();
		check_eq(count, 0, "interrupts");
		pmu_reset();
		t_end();
	}

	if (t_begin("regs/global_status_sticky")) {
		/* Stays over further overflows and changes of PERF_CTL, until cleared. */
		for (int n = 0; n < pmu.nr; n++) {
			wrmsr(ctr_msr(n), CTR_MASK);
			measure_run(s->fn, buf_a, buf_b, ctl_msr(n), EV_INSN | CTL_OS | CTL_EN,
				    FLAGS_OFF);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), BIT(n + 1) - 1, "counter %d", n);
		}
		wrmsr(MSR_GLOBAL_CTL, 0);
		check_eq(rdmsr(MSR_GLOBAL_STATUS), all, "all off");
		wrmsr(MSR_GLOBAL_CLR, BIT(3));
		check_eq(rdmsr(MSR_GLOBAL_STATUS), all & ~BIT(3), "one cleared");
		pmu_reset();
		check_eq(rdmsr(MSR_GLOBAL_STATUS), 0, "all cleared");
		t_end();
	}
}

void regs_at_reset(void);

/* As it comes out of reset; must be the first to look, so main() calls it early. */
void regs_at_reset(void)
{
	if (!t_begin("regs/at_reset"))
		return;
	for (int n = 0; n < pmu.nr; n++) {
		check_eq(rdmsr(ctl_msr(n)), 0, "PERF_CTL%d", n);
		check_eq(rdmsr(ctr_msr(n)), 0, "PERF_CTR%d", n);
	}
	if (pmu.v2) {
		check_eq(rdmsr(MSR_GLOBAL_CTL), BIT(pmu.nr) - 1, "GlobalCtl");
		check_eq(rdmsr(MSR_GLOBAL_STATUS), 0, "GlobalStatus");
	}
	t_end();
}

TESTS(regs_tests)
{
	identity();
	select_bits();
	counter_bits();
	aliases();
	absent();
	rdpmc();
	running();
	wrap();
	enable();
	change();
	global();
}
