// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Registers of Intel's architectural performance monitoring: SDM vol. 3B, chapter "Performance
 * Monitoring".
 */
#include "pmu.h"

#define MSR_DEBUGCTL		0x1d9
#define FREEZE_ON_PMI		BIT(12)
#define STATUS_CTR_FRZ		BIT(59)
#define MSR_PERF_CAPABILITIES	0x345
#define MSR_MISC_ENABLE		0x1a0
#define GP			0xd

static void refused(u32 msr, u64 v, const char *what)
{
	check_eq(wrmsr_safe(msr, v), GP, "%s: WRMSR of %lx to %x", what, v, msr);
}

static void ids(void)
{
	struct cpuid l = cpuid(10, 0);

	if (!t_begin("intel/cpuid"))
		return;
	check_eq(l.a >> 16 & 0xff, 48, "width");
	check_eq(l.a >> 24, 7, "length of EBX");
	check_eq(l.b, 0, "events not available");
	check_eq(pmu.nr_fixed, pmu.width ? 4 : 3, "number of fixed counters");
	check_eq(l.d & 0x1fff, 48 << 5 | pmu.nr_fixed, "fixed counters");
	check_eq(l.c, pmu.intel >= 5 ? BIT(pmu.nr_fixed) - 1 : 0, "bitmap of fixed counters");
	check_eq(l.d >> 15 & 1, pmu.intel >= 5, "AnyThread deprecation");
	check_eq(cpuid(1, 0).c & (BIT(15) | BIT(2)), BIT(15), "PDCM, DTES64");
	check_eq(cpuid(1, 0).d & BIT(21), 0, "DS");
	check_eq(rdmsr(MSR_PERF_CAPABILITIES), BIT(13) | (pmu.width ? BIT(15) : 0),
		 "PERF_CAPABILITIES");
	refused(MSR_PERF_CAPABILITIES, BIT(13), "PERF_CAPABILITIES");
	check_eq(rdmsr(MSR_MISC_ENABLE) & 0x1880, 0x1880, "MISC_ENABLE");
	t_end();
}

static void reserved(void)
{
	bool any = pmu.intel == 3 || pmu.intel == 4;
	u64 v;

	if (!t_begin("intel/reserved"))
		return;
	for (int i = 0; i < pmu.nr; i++) {
		for (int bit = 0; bit < 64; bit++) {
			bool ok = bit < 32 && (bit != 21 || any);

			check_eq(wrmsr_safe(ctl_msr(i), BIT(bit)), ok ? NO_FAULT : GP,
				 "PERFEVTSEL%d bit %d", i, bit);
			if (ok)
				check_eq(rdmsr(ctl_msr(i)), bit == 19 ? 0 : BIT(bit),
					 "PERFEVTSEL%d bit %d", i, bit);
		}
		wrmsr(ctl_msr(i), 0);
		refused(MSR_A_PMC + i, BIT(48), "full width");
		wrmsr(MSR_PMC + i, 0xffff12345678);
		check_eq(rdmsr(MSR_A_PMC + i), 0x12345678, "PMC%d", i);
		wrmsr(MSR_PMC + i, 0x80000001);
		check_eq(rdmsr(MSR_PMC + i), 0xffff80000001, "PMC%d, sign", i);
		wrmsr(MSR_A_PMC + i, 0x812345678901);
		check_eq(rdmsr(MSR_PMC + i), 0x812345678901, "A_PMC%d", i);
	}
	for (int i = pmu.nr; i < 8; i++) {
		check_eq(rdmsr_safe(MSR_PMC + i, &v), GP, "PMC%d", i);
		check_eq(rdmsr_safe(MSR_A_PMC + i, &v), GP, "A_PMC%d", i);
		check_eq(rdmsr_safe(MSR_PERFEVTSEL + i, &v), GP, "PERFEVTSEL%d", i);
	}
	for (int bit = 0; bit < 64; bit++) {
		bool ctr = bit < pmu.nr || (bit >= 32 && bit < 32 + pmu.nr_fixed) ||
			   (bit == 48 && pmu.width);
		bool clr = ctr || bit >= 62 || (bit == 61 && pmu.intel >= 3) ||
			   (bit >= 58 && bit <= 60 && pmu.intel >= 4);
		bool fixed = bit < 4 * pmu.nr_fixed && (bit % 4 != 2 || any);

		check_eq(wrmsr_safe(MSR_GLOBAL_CTL, BIT(bit)), ctr ? NO_FAULT : GP,
			 "GLOBAL_CTRL bit %d", bit);
		check_eq(wrmsr_safe(MSR_GLOBAL_CLR, BIT(bit)), clr ? NO_FAULT : GP,
			 "GLOBAL_STATUS_RESET bit %d", bit);
		check_eq(wrmsr_safe(MSR_GLOBAL_SET, BIT(bit)),
			 clr && bit != 63 && pmu.intel >= 4 ? NO_FAULT : GP,
			 "GLOBAL_STATUS_SET bit %d", bit);
		check_eq(wrmsr_safe(MSR_FIXED_CTR_CTRL, BIT(bit)), fixed ? NO_FAULT : GP,
			 "FIXED_CTR_CTRL bit %d", bit);
	}
	wrmsr(MSR_FIXED_CTR_CTRL, 0);
	refused(MSR_GLOBAL_STATUS, 0, "read only");
	refused(MSR_GLOBAL_INUSE, 0, "read only");
	for (int i = 0; i < pmu.nr_fixed; i++)
		refused(MSR_FIXED_CTR + i, BIT(48), "fixed counter");
	check_eq(rdmsr_safe(MSR_FIXED_CTR + pmu.nr_fixed, &v), GP, "fixed counter");
	check_eq(rdmsr_safe(MSR_PERF_METRICS, &v), pmu.width ? NO_FAULT : GP, "metrics");
	check_eq(wrmsr_safe(MSR_PERF_METRICS, 0), pmu.width ? NO_FAULT : GP, "metrics");
	if (pmu.intel >= 4) {
		check_eq(rdmsr(MSR_GLOBAL_STATUS) & (BIT(58) | BIT(59) | BIT(62)),
			 BIT(58) | BIT(59) | BIT(62), "status set by software");
		wrmsr(MSR_GLOBAL_CLR, rdmsr(MSR_GLOBAL_STATUS));
		wrmsr(ctl_msr(1), EV_INSN | CTL_INT);
		wrmsr(MSR_FIXED_CTR_CTRL, 0x30);
		check_eq(rdmsr(MSR_GLOBAL_INUSE), BIT(1) | BIT(33) | BIT(63), "in use");
	} else {
		check_eq(rdmsr_safe(MSR_GLOBAL_INUSE, &v), GP, "GLOBAL_INUSE");
		check_eq(rdmsr_safe(MSR_GLOBAL_SET, &v), GP, "GLOBAL_STATUS_SET");
	}
	check_eq(rdmsr(MSR_GLOBAL_STATUS), 0, "status");
	t_end();
}

static void rdpmc(void)
{
	bool fixed;
	u64 v;

	if (!t_begin("intel/rdpmc"))
		return;
	for (u32 i = 0; i < 20; i++) {
		u64 want = 0x800000000000 + i;

		if (i < (u32)pmu.nr)
			wrmsr(ctr_msr(i), want);
		check_eq(rdpmc_safe(i, &v), i < (u32)pmu.nr ? NO_FAULT : GP, "index %u", i);
		if (i < (u32)pmu.nr)
			check_eq(v, want, "index %u", i);
		fixed = i < (u32)pmu.nr_fixed;
		if (fixed)
			wrmsr(MSR_FIXED_CTR + i, want);
		check_eq(rdpmc_safe(BIT(30) + i, &v), fixed ? NO_FAULT : GP, "fixed %u", i);
		if (fixed)
			check_eq(v, want, "fixed %u", i);
	}
	check_eq(rdpmc_safe(BIT(29), &v), pmu.width ? NO_FAULT : GP, "metrics");
	check_eq(rdpmc_safe(BIT(29) + 1, &v), GP, "metrics");
	check_eq(rdpmc_safe(BIT(31), &v), GP, "bit 31");
	t_end();
}

/* Fixed counters: measure_run() switches them by GLOBAL_CTRL. */
static void fixed(void)
{
	if (!t_begin("intel/fixed"))
		return;
	for_each_seq(s) {
		if (s->flags & SEQ_IF)
			continue;
		for (int mode = 0; mode < 4; mode++) {
			u64 want = mode & 1 ? s->want[INSN] + RUN_INSNS : 0;

			wrmsr(MSR_LSTAR, (u64)syscall_kernel_entry);
			wrmsr(MSR_GLOBAL_CTL, 0);
			for (int i = 0; i < pmu.nr_fixed; i++)
				wrmsr(MSR_FIXED_CTR + i, 0);
			wrmsr(MSR_FIXED_CTR_CTRL, mode * (pmu.width ? 0x1111 : 0x111));
			measure_run(s->fn, buf_a, buf_b, MSR_GLOBAL_CTL, FIXED_BITS, FLAGS_OFF);
			check_eq(rdmsr(MSR_FIXED_CTR), want, "%s, mode %d", s->name, mode);
			check(rdmsr(MSR_FIXED_CTR + 1) >= want, "%s: cycles", s->name);
			check_eq(rdmsr(MSR_FIXED_CTR + 2), rdmsr(MSR_FIXED_CTR + 1), "%s: ref",
				 s->name);
			if (pmu.width)
				check_eq(rdmsr(MSR_FIXED_CTR + FIXED_SLOTS),
					 pmu.width * rdmsr(MSR_FIXED_CTR + 1), "%s: slots", s->name);
			wrmsr(MSR_LSTAR, (u64)syscall_entry);
		}
	}
	t_end();
}

/* Every overflow of the fixed counter of instructions: an NMI at its place, the entry masked. */
static void fixed_overflow(void)
{
	const struct seq *s = seq_find("nested");
	u64 total = s->want[INSN] + RUN_INSNS;

	if (!t_begin("intel/fixed_overflow"))
		return;
	trace_run(s->fn, buf_a, buf_b);
	for (u64 n = 1; n <= total; n++) {
		u64 count;

		pmi_start(PMI_NMI);
		wrmsr(MSR_GLOBAL_CTL, 0);
		wrmsr(MSR_FIXED_CTR, NEG(n));
		wrmsr(MSR_FIXED_CTR_CTRL, 0x9);
		measure_run(s->fn, buf_a, buf_b, MSR_GLOBAL_CTL, BIT(32), FLAGS_OFF);
		check_eq(rdmsr(MSR_GLOBAL_STATUS), BIT(32), "N %lu: status", n);
		check_eq(apic_read(APIC_LVTPC), APIC_DM_NMI | APIC_MASKED, "N %lu: LVT", n);
		wrmsr(MSR_FIXED_CTR_CTRL, 0);
		count = pmi_stop();
		check_eq(count, 1, "N %lu: interrupts", n);
		check_eq(this_cpu()->pmi_rip[0], trace.next[INSN][n - 1], "N %lu: RIP", n);
		check_eq(rdmsr(MSR_FIXED_CTR), total - n + NMI_INSNS, "N %lu: counter", n);
		wrmsr(MSR_GLOBAL_CLR, FIXED_BITS);
	}
	t_end();
}

/*
 * The fixed counter of slots. Each instruction of a warm run takes a cycle, but for the WRMSR that
 * enables the counter, and each cycle has so many slots. One of an instruction's retires it.
 */
static void slots(void)
{
	const struct seq *s = seq_find("nested");
	u64 total = s->want[INSN] + RUN_INSNS, slots = (total + COST_MSR) * pmu.width, cycles, v;

	if (!pmu.width)
		return;
	if (t_begin("intel/slots_general")) {
		cycles = count_run(0, EV_CYCLES | CTL_OS, s->fn, buf_a, buf_b);
		for (int n = 0; n < pmu.nr; n++)
			check_eq(count_run(n, EV_SLOTS | CTL_OS, s->fn, buf_a, buf_b),
				 cycles * pmu.width, "counter %d", n);
		check_eq(count_run(0, EV_SLOTS | CTL_OS | CTL_CMASK(1), s->fn, buf_a, buf_b), cycles,
			 "cycles with a slot");
		check_eq(count_run(0, EV_SLOTS | CTL_OS | CTL_CMASK(1) | CTL_INV, s->fn, buf_a, buf_b),
			 0, "cycles without one");
		t_end();
	}

	/* Within the instruction that has the last slot */
	if (t_begin("intel/slots_overflow")) {
		trace_run(s->fn, buf_a, buf_b);
		check_eq(count_run(0, EV_SLOTS | CTL_OS, s->fn, buf_a, buf_b), slots, "slots");
		for (u64 n = 1; n <= slots; n++) {
			u64 cycle = (n + pmu.width - 1) / pmu.width;
			u64 insns = cycle <= COST_MSR ? 1 : cycle - COST_MSR;

			pmi_start(PMI_NMI);
			wrmsr(MSR_GLOBAL_CTL, 0);
			wrmsr(MSR_FIXED_CTR + FIXED_SLOTS, NEG(n));
			wrmsr(MSR_FIXED_CTR_CTRL, 0x9000);
			measure_run(s->fn, buf_a, buf_b, MSR_GLOBAL_CTL, BIT(32 + FIXED_SLOTS),
				    FLAGS_OFF);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), BIT(35), "N %lu: status", n);
			wrmsr(MSR_FIXED_CTR_CTRL, 0);
			check_eq(pmi_stop(), 1, "N %lu: interrupts", n);
			check_eq(this_cpu()->pmi_rip[0], trace.next[INSN][insns - 1], "N %lu: RIP", n);
			wrmsr(MSR_GLOBAL_CLR, FIXED_BITS);
			check_eq(rdmsr(MSR_GLOBAL_STATUS), 0, "N %lu: status, cleared", n);
		}
		t_end();
	}

	/* As Linux' icl_set_topdown_event_period() and intel_update_topdown_event() do */
	if (t_begin("intel/metrics")) {
		for (int on = 0; on < 2; on++) {
			u64 part = on ? (total * 255 + slots / 2) / slots : 0;

			wrmsr(MSR_GLOBAL_CTL, 0);
			wrmsr(MSR_FIXED_CTR_CTRL, 0x1000);
			wrmsr(MSR_FIXED_CTR + FIXED_SLOTS, 0);
			wrmsr(MSR_PERF_METRICS, 0);
			check_eq(rdmsr(MSR_PERF_METRICS), 0, "cleared");
			measure_run(s->fn, buf_a, buf_b, MSR_GLOBAL_CTL,
				    BIT(35) | (on ? BIT(48) : 0), FLAGS_OFF);
			check_eq(rdmsr(MSR_FIXED_CTR + FIXED_SLOTS), slots, "slots");
			check_eq(rdmsr(MSR_PERF_METRICS), part | (255 - part) << 24, "enabled %d", on);
			check_eq(rdpmc_safe(BIT(29), &v), NO_FAULT, "RDPMC");
			check_eq(v, part | (255 - part) << 24, "RDPMC, enabled %d", on);
		}
		/* saved and restored */
		wrmsr(MSR_FIXED_CTR + FIXED_SLOTS, 6000);
		wrmsr(MSR_PERF_METRICS, 51ull | 204ull << 24);
		check_eq(rdmsr(MSR_PERF_METRICS), 51ull | 204ull << 24, "restored");
		t_end();
	}
}

/* "Freezing LBR and Performance Counters on PMI": nothing counts behind the overflow. */
static void freeze(void)
{
	const struct seq *s = seq_find("nested");
	u64 total = s->want[INSN] + RUN_INSNS;

	if (!t_begin("intel/freeze_on_pmi"))
		return;
	for (u64 n = 1; n <= total; n++) {
		pmi_start(PMI_NMI);
		wrmsr(MSR_GLOBAL_CTL, 3);
		wrmsr(ctr_msr(0), NEG(n));
		wrmsr(ctr_msr(1), 0);
		wrmsr(ctl_msr(1), EV_BRANCH | CTL_OS | CTL_EN);
		wrmsr(MSR_DEBUGCTL, FREEZE_ON_PMI);
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0), EV_INSN | CTL_OS | CTL_INT | CTL_EN,
			    FLAGS_OFF);
		wrmsr(MSR_DEBUGCTL, 0);
		check_eq(rdmsr(ctr_msr(0)), 0, "N %lu: counter", n);
		check_eq(rdmsr(MSR_GLOBAL_CTL), pmu.intel >= 4 ? 3 : 0, "N %lu: control", n);
		check_eq(rdmsr(MSR_GLOBAL_STATUS), pmu.intel >= 4 ? STATUS_CTR_FRZ | 1 : 1,
			 "N %lu: status", n);
		check_eq(pmi_stop(), 1, "N %lu: interrupts", n);
		if (pmu.intel >= 4)
			wrmsr(MSR_GLOBAL_CLR, STATUS_CTR_FRZ);
		wrmsr(ctl_msr(1), 0);
	}
	t_end();
}

static void branches(void)
{
	const struct seq *s = seq_find("loop_insn");
	bool old = pmu.ev_cond == 0x1c4;
	const struct {
		u64 umask, want;
	} t[] = {
		{ 0x10, s->want[COND] - s->want[TAKEN] },
		{ 0x20, s->want[TAKEN] + RUN_BRANCHES },
		{ 0x02, 1 }, { 0x08, 1 }, { 0x40, 0 },
		{ 0x01, old ? s->want[COND] : s->want[TAKEN] },
		{ 0x11, old ? 0 : s->want[COND] },
	};

	if (!t_begin("intel/branches"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		check_eq(count_run(0, EV_BRANCH | t[i].umask << 8 | CTL_OS, s->fn, buf_a, buf_b),
			 t[i].want, "unit mask %lx", t[i].umask);
	t_end();
}

/*
 * What the last level, which is the model's L2, gets to see: lines that aren't in the caches of the
 * first level, for data or instructions. The same each time, as what flushes them belongs to it.
 */
#define EV_LLC_REFERENCE	0x4f2e
#define EV_LLC_MISS		0x412e
#define EV_L2_DATA_READ		0xe124
#define EV_L2_CODE_READ		0xe424

/*
 * Each is in a line of its own. References and misses of data and code, then the references of data
 * and of code; and the bits of CPUID leaf 7 that it needs, of EBX, and of EDX in the upper half.
 */
#define FLUSHES(x)								\
	x(load, "mov (%rdi), %rax", 0, 0, 0, 0, 0)				\
	x(clflush, "clflush (%rdi)", 0, 0, 0, 0, 0)				\
	x(clflush_load, "clflush (%rdi)\n mov (%rdi), %rax", 1, 1, 1, 0, 0)	\
	x(clflush_middle, "clflush 31(%rdi)\n mov 63(%rdi), %al", 1, 1, 1, 0, 0)	\
	x(clflush_twice, "clflush (%rdi)\n mov (%rdi), %rax\n clflush (%rdi)\n"	\
	  "mov (%rdi), %rax\n mov 8(%rdi), %rax", 2, 2, 2, 0, 0)		\
	x(clflush_other, "clflush 64(%rdi)\n mov (%rdi), %rax", 0, 0, 0, 0, 0)	\
	x(clflush_store, "clflush (%rdi)\n mov %rax, (%rdi)", 1, 1, 0, 0, 0)	\
	x(call, "call *%rsi", 0, 0, 0, 0, 0)					\
	x(clflush_call, "clflush (%rsi)\n call *%rsi", 1, 1, 0, 1, 0)		\
	/* for the instruction behind it, in the same line */			\
	x(clflush_self, "1: clflush 1b(%rip)\n nop", 1, 1, 0, 1, 0)		\
	/* The load brings it into the L2. */					\
	x(clflush_load_call, "clflush (%rsi)\n mov (%rsi), %rax\n call *%rsi",	\
	  2, 1, 1, 1, 0)							\
	x(clwb_load, "clwb (%rdi)\n mov (%rdi), %rax", 0, 0, 0, 0, BIT(24))	\
	x(clflushopt_load, "clflushopt (%rdi)\n mov (%rdi), %rax", 1, 1, 1, 0, BIT(23))	\
	/* IA32_FLUSH_CMD, L1D_FLUSH; the stack's line as well */		\
	x(l1d_flush, "mov $0x10b, %ecx\n mov $1, %eax\n xor %edx, %edx\n wrmsr\n"	\
	  "mov (%rdi), %rax", 2, 0, 2, 0, BIT(60))

#define FLUSH_ASM(name, insns, ...) ".balign 64\n flush_" #name ":\n " insns "\n ret\n"
#define FLUSH_DECL(name, insns, ...) void flush_##name(void *arg0, void *arg1);
#define FLUSH_ROW(name, insns, ...) { #name, flush_##name, __VA_ARGS__ },

asm(FLUSHES(FLUSH_ASM)
".balign 64\n flush_line:\n ret\n"
".balign 64\n flush_all:\n wbinvd\n ret\n"
".balign 64\n flush_all_load:\n wbinvd\n mov (%rdi), %rax\n mov 64(%rdi), %rax\n ret\n"
".balign 64\n");
FLUSHES(FLUSH_DECL)
void flush_line(void *arg0, void *arg1);
void flush_all(void *arg0, void *arg1);
void flush_all_load(void *arg0, void *arg1);

static const struct {
	const char *name;
	seq_fn fn;
	u64 references, misses, data, code, needs;
} flushes[] = { FLUSHES(FLUSH_ROW) };

static u64 count_warm(u64 event, seq_fn fn)
{
	/* Code is in the caches only if it ran while they were looked at. */
	for (int i = 0; i < 3; i++)
		count_run(0, EV_LLC_REFERENCE | CTL_OS, fn, buf_a, flush_line);
	return count_run(0, event | CTL_OS, fn, buf_a, flush_line);
}

static void caches(void)
{
	u64 n;

	if (t_begin("intel/cache_flush")) {
		for (size_t i = 0; i < ARRAY_SIZE(flushes); i++) {
			const char *name = flushes[i].name;

			if (flushes[i].needs & ~((u64)cpuid(7, 0).d << 32 | cpuid(7, 0).b))
				continue;
			check_eq(count_warm(EV_LLC_REFERENCE, flushes[i].fn), flushes[i].references,
				 "%s: references", name);
			check_eq(count_warm(EV_LLC_MISS, flushes[i].fn), flushes[i].misses,
				 "%s: misses", name);
			check_eq(count_warm(EV_L2_DATA_READ, flushes[i].fn), flushes[i].data,
				 "%s: data", name);
			check_eq(count_warm(EV_L2_CODE_READ, flushes[i].fn), flushes[i].code,
				 "%s: code", name);
		}
		t_end();
	}

	/* What was flushed when nobody counted isn't there when somebody does. */
	if (t_begin("intel/cache_flush_uncounted")) {
		count_warm(EV_LLC_MISS, flush_load);
		asm volatile("clflush %0" : "+m"(buf_a[0]));
		check_eq(count_run(0, EV_LLC_MISS | CTL_OS, flush_load, buf_a, NULL), 1, "misses");
		check_eq(count_run(0, EV_LLC_MISS | CTL_OS, flush_load, buf_a, NULL), 0, "misses, warm");
		t_end();
	}

	if (t_begin("intel/cache_flush_all")) {
		n = count_warm(EV_L2_DATA_READ, flush_all);
		check_eq(count_warm(EV_L2_DATA_READ, flush_all_load), n + 2, "data");
		n = count_warm(EV_LLC_MISS, flush_all);
		check_eq(count_warm(EV_LLC_MISS, flush_all_load), n + 2, "misses");
		check_eq(n > 2, true, "misses, the code's too");
		t_end();
	}

	/* The interrupt comes at the end of the instruction that the line belongs to. */
	if (t_begin("intel/cache_fetch_overflow")) {
		count_warm(EV_L2_CODE_READ, flush_clflush_call);
		pmi_start(PMI_NMI);
		wrmsr(ctr_msr(0), NEG(1));
		measure_run(flush_clflush_call, buf_a, flush_line, ctl_msr(0),
			    EV_L2_CODE_READ | CTL_OS | CTL_INT | CTL_EN, FLAGS_OFF);
		if (check_eq(pmi_stop(), 1, "interrupts"))
			check_eq(this_cpu()->pmi_rip[0], (u64)flush_clflush_call + 5, "RIP");
		t_end();
	}
}

/*
 * Which counters count an event: the first row that fits tells, as a bit mask. From the "Counter"
 * fields of Intel's lists of events, skylakex_core.json and sapphirerapids_core.json.
 */
#define MSR_OFFCORE_RSP_0	0x1a6
#define DEMAND_READS_ANY	0x10001
#define EV_PREC_DIST		0x01c0
#define EV_OFFCORE_OLD		0x01b7
#define EV_OFFCORE		0x012a
#define EV_HW_INTERRUPTS	0x01cb
#define MOST_SLOTS		6	/* of a cycle */

#define CONSTRAINED(x)							\
	/* architectural events */					\
	x("instructions", 0x00c0, 0x00c0, 0xff, 0xff)			\
	x("branches", 0x00c4, 0x00c4, 0xff, 0xff)			\
	x("branch misses", 0x00c5, 0x00c5, 0xff, 0xff)			\
	x("cycles", 0x003c, 0x003c, 0xff, 0xff)				\
	x("reference cycles", 0x013c, 0x013c, 0xff, 0xff)		\
	x("slots", 0, 0x01a4, 0, 0xff)					\
	x("LLC references", 0x4f2e, 0x4f2e, 0xff, 0xff)			\
	x("LLC misses", 0x412e, 0x412e, 0xff, 0xff)			\
	x("INST_RETIRED.PREC_DIST", EV_PREC_DIST, 0, 0x02, 0)			\
	x("DTLB load walks", 0x0e08, 0x0e12, 0xff, 0x0f)		\
	x("DTLB store walks", 0x0e49, 0x0e13, 0xff, 0x0f)		\
	x("L1D.REPLACEMENT", 0x0151, 0x0151, 0xff, 0x0f)		\
	x("L2_RQSTS, loads", 0xe124, 0xe124, 0xff, 0x0f)		\
	x("L2_RQSTS, stores", 0xe224, 0xe224, 0xff, 0x0f)		\
	x("L2_RQSTS, code", 0xe424, 0xe424, 0xff, 0x0f)			\
	x("offcore response", EV_OFFCORE_OLD, EV_OFFCORE, 0xff, 0x0f)	\
	x("HW_INTERRUPTS", EV_HW_INTERRUPTS, EV_HW_INTERRUPTS, 0xff, 0xff) \
	x("MEM_TRANS_RETIRED.STORE_SAMPLE", 0, 0x02cd, 0, 0x01)		\
	x("loads", 0x81d0, 0x81d0, 0x0f, 0x0f)				\
	x("stores", 0x82d0, 0x82d0, 0x0f, 0x0f)				\
	x("loads and stores", 0x83d0, 0x83d0, 0x0f, 0x0f)

#define CONSTRAINED_ROW(name, skylake, sapphire, on_skylake, on_sapphire) \
	{ name, { skylake, sapphire }, { on_skylake, on_sapphire } },

static const struct {
	const char *name;
	u16 event[2];		/* 0: this model has none */
	u8 counters[2];
} constrained[] = { CONSTRAINED(CONSTRAINED_ROW) };

/* Something of every event. The two branches behave differently, so one is mispredicted. */
static void constrained_work(void)
{
	u64 n;

	asm volatile("clflush (%1)\n mov (%1), %%rax\n clflush (%1)\n mov %%rax, (%1)\n"
		     "mov %%cr3, %%rax\n mov %%rax, %%cr3\n mov (%1), %%rax\n"
		     "mov %%cr3, %%rax\n mov %%rax, %%cr3\n mov %%rax, (%1)\n"
		     "mov $8, %0\n"
		     "1: test $1, %b0\n jz 2f\n nop\n 2: dec %0\n jnz 1b\n"
		     "clflush 3f(%%rip)\n .balign 64\n 3: nop"
		     : "=&r"(n) : "r"(buf_a) : "rax", "memory", "cc");
}

/* CPUID leaf 01H, ECX: reserved for hypervisors, which all set it */
static bool is_guest(void)
{
	return cpuid(1, 0).c & BIT(31);
}

/*
 * In a guest events of what the CPU does also count what the hypervisor does for it, so there are more of
 * them, but on the same counters; an interrupt needs no hardware, and offcore responses aren't offered. What
 * the hypervisor completes counts as instructions wherever the guest wants them counted.
 */
static void constraints(void)
{
	bool old = pmu.ev_cond == 0x1c4, offcore;
	const u64 start = 0x123456789, most = is_guest() ? 100 * 1000 * 1000 : 10000;

	if (!t_begin("intel/constraints"))
		return;
	offcore = wrmsr_safe(MSR_OFFCORE_RSP_0, DEMAND_READS_ANY) == NO_FAULT;
	for (size_t i = 0; i < ARRAY_SIZE(constrained); i++) {
		const char *name = constrained[i].name;
		u64 event = constrained[i].event[!old];
		u8 counters = pmu.constraints ? constrained[i].counters[!old] : 0xff;
		u64 limit = most * (event == EV_SLOTS ? MOST_SLOTS : 1);

		if (!event || (!offcore && event == (old ? EV_OFFCORE_OLD : EV_OFFCORE)) ||
		    (is_guest() && event == EV_HW_INTERRUPTS))
			continue;
		for (int n = 0; n < pmu.nr; n++) {
			wrmsr(ctr_msr(n), start);
			wrmsr(ctl_msr(n), event | CTL_MODES | CTL_EN);
		}
		constrained_work();
		apic_icr(0, ICR_SELF | ICR_ASSERT | VEC_PMI);
		asm volatile("sti\n nop\n cli" : : : "memory");
		for (int n = 0; n < pmu.nr; n++)
			wrmsr(ctl_msr(n), 0);
		for (int n = 0; n < pmu.nr; n++) {
			u64 count = rdmsr(ctr_msr(n)) - start;

			if (counters & BIT(n))
				check(count > 0 && count < limit, "%s: counter %d: %lu", name, n, count);
			else if (!is_guest() || event != EV_PREC_DIST)
				check_eq(count, 0, "%s: counter %d", name, n);
		}
	}
	t_end();

	/* What can't count doesn't overflow. */
	if (!t_begin("intel/constraints_overflow"))
		return;
	pmi_start(PMI_NMI);
	wrmsr(ctr_msr(pmu.nr - 1), NEG(1));
	wrmsr(ctl_msr(pmu.nr - 1), 0x83d0 | CTL_MODES | CTL_INT | CTL_EN);
	constrained_work();
	wrmsr(ctl_msr(pmu.nr - 1), 0);
	check_eq(pmi_stop(), pmu.nr > 4 && pmu.constraints ? 0 : 1, "interrupts");
	t_end();
}

TESTS(intel_tests)
{
	if (!pmu.intel)
		return;
	ids();
	reserved();
	pmu_reset();
	rdpmc();
	pmu_reset();
	fixed();
	pmu_reset();
	fixed_overflow();
	pmu_reset();
	freeze();
	pmu_reset();
	slots();
	pmu_reset();
	branches();
	pmu_reset();
	caches();
	pmu_reset();
	constraints();
}
