// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Events besides the four of seq.S, the modifiers of PERF_CTL, and the oracle's window.
 */
#include "pmu.h"

static u64 run(u64 ctl, const struct seq *s)
{
	return count_run(0, ctl, s->fn, buf_a, buf_b);
}

static u64 run_user(u64 ctl, const struct seq *s)
{
	return count_user(1, ctl, s->fn, buf_a, buf_b);
}

/* Newly translated, and with its pages in the TLB. */
static void warm_up(const struct seq *s)
{
	for (int i = 0; i < 3; i++) {
		run(EV_CYCLES | CTL_MODES, s);
		if (!(s->flags & SEQ_KERNEL))
			run_user(EV_CYCLES | CTL_MODES, s);
	}
}

/*
 * Each instruction costs one cycle, the WRMSR that starts the counter and the delivery of the
 * INT that ends user mode more.
 */
static void cycles(void)
{
	if (t_begin("cycles/instructions")) {
		for_each_seq(s) {
			if (s->flags & SEQ_KERNEL)
				continue;
			warm_up(s);
			for (int i = 0; i < 2; i++)
				check_eq(run(EV_CYCLES | CTL_OS, s),
					 s->want[INSN] + RUN_INSNS + COST_MSR, "%s", s->name);
			check_eq(run(EV_CYCLES | CTL_USR, s), 0, "%s, USR", s->name);
			check_eq(run_user(EV_CYCLES | CTL_USR, s),
				 s->want[INSN] + USER_USR_INSNS + COST_EXCEPTION, "%s, at CPL 3", s->name);
		}
		t_end();
	}

	if (t_begin("cycles/monotonic")) {
		u64 last = 0, v;
		u64 bad = 0;

		wrmsr(ctr_msr(0), 0);
		wrmsr(ctl_msr(0), EV_CYCLES | CTL_OS | CTL_EN);
		for (int i = 0; i < 10000; i++) {
			rdpmc_safe(0, &v);
			/* Each turn has instructions, RDPMC among them. */
			bad += v < last + 5;
			last = v;
		}
		wrmsr(ctl_msr(0), 0);
		check_eq(bad, 0, "steps back");
		check(last > 50000, "cycles: %lu", last);
		t_end();
	}
}

/* 5 RDMSRs of a counter, of another MSR, RDPMCs; software interrupts. */
asm(
".balign 16\n"
"cost_pmu_msr:\n"
"	mov %edi, %ecx\n"		/* 1 */
"	.rept 5\n"
"	rdmsr\n"			/* 2 to 6 */
"	.endr\n"
"	ret\n"
".balign 16\n"
"cost_rdpmc:\n"
"	xor %ecx, %ecx\n"		/* 1 */
"	.rept 5\n"
"	rdpmc\n"			/* 2 to 6 */
"	.endr\n"
"	ret\n"
".balign 16\n"
"cost_int:\n"
"	nop\n"				/* 1 */
"	.rept 5\n"
"	int $0x81\n"			/* 2 to 11, with IRETQ */
"	.endr\n"
"	ret\n"
);
void cost_pmu_msr(void *arg0, void *arg1);
void cost_rdpmc(void *arg0, void *arg1);
void cost_int(void *arg0, void *arg1);

static void costs(void)
{
	const struct {
		const char *name;
		seq_fn fn;
		u64 insns, extra;
	} t[] = {
		{ "RDPMC", cost_rdpmc, 6, 0 },
		{ "RDMSR of a counter", cost_pmu_msr, 6, 5 * COST_MSR },
		{ "RDMSR of LSTAR", cost_pmu_msr, 6, 0 },
		{ "INT", cost_int, 11, 5 * COST_EXCEPTION },
	};

	if (!t_begin("cycles/costs"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		u64 msr = i == 2 ? MSR_LSTAR : ctr_msr(3), got = 0;

		for (int j = 0; j < 3; j++)
			got = count_run(0, EV_CYCLES | CTL_OS, t[i].fn, (void *)msr, NULL);
		check_eq(got, t[i].insns + t[i].extra + RUN_INSNS + COST_MSR, "%s", t[i].name);
	}
	t_end();
}

/*
 * Overflows of cycles: one interrupt, where the emulator ends its block, within 512
 * instructions. Each instruction being a cycle, the trace tells where that is.
 */
#define SKID	512

static void cycles_overflow(void)
{
	const struct seq *s = seq_find("straight_12000");
	static const u64 list[] = { 500, 1000, 1024, 3333, 10000 };

	if (!t_begin("cycles/overflow"))
		return;
	trace_run(s->fn, buf_a, buf_b);
	warm_up(s);
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		u64 cost = run(EV_CYCLES | CTL_OS, s) - s->want[INSN] - RUN_INSNS;
		u64 count, rip, at;

		pmi_start(PMI_NMI);
		wrmsr(ctr_msr(0), NEG(list[i] + cost));
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0), EV_CYCLES | CTL_OS | CTL_INT | CTL_EN,
			    FLAGS_OFF);
		count = pmi_stop();
		check_eq(count, 1, "N %lu: interrupts", list[i]);
		rip = this_cpu()->pmi_rip[0];
		for (at = list[i] - 1; at < trace.nr[INSN] && trace.next[INSN][at] != rip; at++)
			;
		check(at < list[i] + SKID, "N %lu: interrupt at %lu", list[i], at + 1);
	}
	t_end();
}

/* Halted, no cycles: between two timer interrupts at least a millisecond goes by. */
static void hlt_fn(void *arg0, void *arg1)
{
	apic_write(APIC_LVTT, VEC_TIMER);
	apic_write(APIC_TMICT, 20 * 1000 * 1000);
	asm volatile("sti\n hlt\n cli" : : : "memory");
}

static void halted(void)
{
	u64 cyc, insns;

	if (!t_begin("cycles/halted"))
		return;
	for (int i = 0; i < 3; i++) {
		count_run(0, EV_CYCLES | CTL_OS, hlt_fn, NULL, NULL);
		cyc = count_run(0, EV_CYCLES | CTL_OS, hlt_fn, NULL, NULL);
		insns = count_run(0, EV_INSN | CTL_OS, hlt_fn, NULL, NULL);
		/* All of it is a few hundred instructions and an interrupt. */
		check(insns > 20 && cyc >= insns && cyc < 10000, "%lu cycles, %lu instructions", cyc, insns);
	}
	t_end();
}

/*
 * TLB misses: 16 pages of the window, one load each.
 */
#define TOUCH_PAGES 16

asm(
".balign 16\n"
"touch_pages:\n"
"	.set n, 0\n"
"	.rept 16\n"
"	mov n * 4096(%rdi), %rax\n"
"	.set n, n + 1\n"
"	.endr\n"
"	ret\n"
);
void touch_pages(void *arg0, void *arg1);

static void tlb(void)
{
	if (!t_begin("tlb/pages"))
		return;
	for (int i = 0; i < WIN_PAGES; i++)
		win_map(i);
	for (int i = 0; i < 4; i++) {
		void *win = (void *)WIN_VA;
		u64 base, got;

		for (int j = 0; j < 3; j++)
			base = count_run(0, EV_CYCLES | CTL_OS, touch_pages, win, NULL);
		check_eq(count_run(0, EV_TLB_MISS | CTL_OS, touch_pages, win, NULL), 0,
			 "misses when warm");
		for (int n = 1; n <= TOUCH_PAGES; n += 5) {
			for (int j = 0; j < n; j++)
				invlpg(win_va(j));
			got = count_run(0, EV_TLB_MISS | CTL_OS, touch_pages, win, NULL);
			check_eq(got, n, "misses with %d pages flushed", n);
			for (int j = 0; j < n; j++)
				invlpg(win_va(j));
			got = count_run(0, EV_CYCLES | CTL_OS, touch_pages, win, NULL);
			check_eq(got, base + n * COST_TLB_MISS, "cycles with %d pages flushed", n);
		}
		write_cr3(read_cr3());
		got = count_run(0, EV_TLB_MISS | CTL_OS, touch_pages, win, NULL);
		/* These, and the code and the stack. */
		check(got >= TOUCH_PAGES && got < TOUCH_PAGES + 16, "misses after a flush: %lu",
		      got);
	}
	for (int i = 0; i < WIN_PAGES; i++)
		win_unmap(i);
	t_end();
}

/*
 * A 2-bit predictor per address, so when it knows a branch that always goes the same way, it's
 * right, and when it knows a loop, it's wrong once, at the end.
 */
static void mispredicts(void)
{
	const struct {
		const char *name;
		u64 want;
	} t[] = {
		{ "empty", 0 },
		{ "straight", 0 },
		{ "jcc_short", 0 },
		{ "jcc_near", 0 },
		{ "jcc_next", 0 },
		{ "jrcxz", 0 },
		/* no conditional branches */
		{ "jmp", 0 },
		{ "call_ret", 0 },
		{ "loop_10", 1 },
		{ "loop_500", 1 },
		{ "recurse", 1 },
		/* five times the inner loop's end, once the outer one's */
		{ "nested", 6 },
		/* the first LOOP; each other branch is executed once, always the same way */
		{ "loop_insn", 1 },
	};

	if (t_begin("mispredict/loops")) {
		for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
			const struct seq *s = seq_find(t[i].name);

			for (int j = 0; j < 4; j++)
				run(EV_MISPREDICT | CTL_OS, s);
			for (int j = 0; j < 3; j++)
				check_eq(run(EV_MISPREDICT | CTL_OS, s), t[i].want, "%s", s->name);
			check_eq(run(EV_MISPREDICT | CTL_USR, s), 0, "%s, USR", s->name);
			check_eq(count_user(0, EV_MISPREDICT | CTL_USR, s->fn, buf_a, buf_b),
				 t[i].want, "%s, at CPL 3", s->name);
		}
		t_end();
	}

	/* The end of the loop is where it overflows: behind JNZ. MOV is 5 bytes, DEC and JNZ 2. */
	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		const struct seq *s = seq_find("loop_10");
		u64 count;

		if (!t_begin("mispredict/overflow/%s", mode == PMI_NMI ? "NMI" : "vector"))
			continue;
		for (int j = 0; j < 4; j++)
			run(EV_MISPREDICT | CTL_OS, s);
		for (int j = 0; j < 3; j++) {
			pmi_start(mode);
			wrmsr(ctr_msr(0), CTR_MASK);
			measure_run(s->fn, buf_a, buf_b, ctl_msr(0),
				    EV_MISPREDICT | CTL_OS | CTL_INT | CTL_EN, FLAGS_ON);
			count = pmi_stop();
			if (check_eq(count, 1, "interrupts"))
				check_eq(this_cpu()->pmi_rip[0], (u64)s->fn + 9, "RIP");
		}
		t_end();
	}
}

/*
 * Data caches: 32 KiB and 512 KiB, lines of 64 bytes, 8 ways, LRU, by linear address. Each
 * memory operand is an access, the stack's included.
 */
#define EV_L1_ACCESS	(pmu.intel ? 0x83d0 : 0x40)
#define EV_L1_MISS	(pmu.intel ? 0x0151 : 0x41)
#define EV_L1_FILL	(pmu.intel ? 0x4f2e : 0x60)	/* the same as the former */
#define EV_L2_MISS	(pmu.intel ? 0x412e : 0x64)
/* Memory operands by kind, which the unit mask selects */
#define EV_LS_DISPATCH	0x29
#define LS_LOAD		0x100
#define LS_STORE	0x200
#define LS_LOAD_STORE	0x400

#define LINE		64
#define L1_SETS		64
#define L2_SETS		1024
#define WAYS		8
/* Memory that nobody uses. */
#define CACHE_AREA	0x2000000ull

enum { L1_ACCESS, L1_MISS, L1_FILL, L2_MISS };

/* RSI is the stride, and the number of lines in its upper half. */
asm(
".balign 16\n"
"cache_walk:\n"
"	mov %rsi, %rcx\n"
"	shr $32, %rcx\n"
"	mov %esi, %esi\n"
"1:	mov (%rdi), %rax\n"
"	add %rsi, %rdi\n"
"	dec %rcx\n"
"	jnz 1b\n"
"	ret\n"
);
void cache_walk(void *arg0, void *arg1);

/*
 * Instructions with memory operands that are loaded, stored, loaded and stored, and with none; the
 * last RET is a load, too.
 */
#define KINDS(x)								\
	x(mov_load, "mov (%rdi), %rax", 1, 0, 0)				\
	x(mov_store, "mov %rax, (%rdi)", 0, 1, 0)				\
	x(mov_imm, "movq $5, (%rdi)", 0, 1, 0)					\
	x(movzx, "movzbl (%rdi), %eax", 1, 0, 0)				\
	x(movabs, "movabs buf_a, %al", 1, 0, 0)					\
	x(rmw, "add %rax, (%rdi)", 0, 0, 1)					\
	x(lock_rmw, "lock incl 64(%rdi)", 0, 0, 1)				\
	x(xchg, "xchg %rax, 128(%rdi)", 0, 0, 1)				\
	x(cmpxchg8b, "cmpxchg8b (%rdi)", 0, 0, 1)				\
	x(inc, "incb (%rdi)", 0, 0, 1)						\
	x(shift, "shll $3, (%rdi)", 0, 0, 1)					\
	x(cmp, "cmpl $5, (%rdi)", 1, 0, 0)					\
	x(bt, "bt %rcx, (%rdi)", 1, 0, 0)					\
	x(set, "setz (%rdi)", 0, 1, 0)						\
	x(cmov, "cmovz (%rdi), %rax", 1, 0, 0)					\
	x(sse, "movq (%rdi), %xmm0", 1, 0, 0)					\
	x(sse_store, "movq %xmm0, (%rdi)", 0, 1, 0)				\
	x(sse_half, "movhps (%rdi), %xmm0\n movhps %xmm0, (%rdi)", 1, 1, 0)	\
	x(non_temporal, "movnti %rax, (%rdi)", 0, 1, 0)				\
	x(fxsave, "fxsave (%rdi)\n fxrstor (%rdi)", 1, 1, 0)			\
	x(cmpxchg16b, "cmpxchg16b (%rdi)", 0, 0, 1)				\
	x(x87, "fldl (%rdi)\n fstpl (%rdi)", 1, 1, 0)				\
	x(x87_env, "fnstcw (%rdi)\n fldcw (%rdi)\n fnstsw (%rdi)", 1, 2, 0)	\
	x(x87_80, "fldt (%rdi)\n fstpt (%rdi)\n fildl (%rdi)\n fistpl (%rdi)\n"	\
	  "filds (%rdi)\n fisttps (%rdi)\n fld1\n fadds (%rdi)\n fstp %st(0)", 4, 3, 0)\
	x(push_pop, "push %rax\n pop %rax", 1, 1, 0)				\
	x(push_pop_mem, "push (%rdi)\n pop (%rdi)", 2, 2, 0)			\
	x(enter, "enter $16, $0\n leave", 1, 1, 0)				\
	x(call_ret, "call 1f\n jmp 2f\n1: ret\n2:", 1, 1, 0)			\
	x(jmp_mem, "lea 1f(%rip), %rax\n mov %rax, %r8\n push %r8\n"		\
	  "jmp *(%rsp)\n1: pop %rax", 2, 1, 0)					\
	x(movs, "movsb", 1, 1, 0)						\
	x(rep_stos, "mov $5, %ecx\n rep stosb", 0, 5, 0)			\
	x(rep_movs, "mov $7, %ecx\n rep movsb", 7, 7, 0)			\
	x(lods, "lodsb", 1, 0, 0)						\
	x(cmps, "cmpsb", 2, 0, 0)						\
	x(scas, "scasb", 1, 0, 0)						\
	x(lea, "lea (%rdi, %rsi), %rcx", 0, 0, 0)				\
	x(nop, "nopl (%rdi)", 0, 0, 0)						\
	x(alu, "add %rax, %rcx\n mov %rax, %rdx", 0, 0, 0)

#define KIND_ASM(name, insns, ...)					\
	".balign 16\n cache_kind_" #name ":\n " insns "\n ret\n"
#define KIND_DECL(name, insns, ...) void cache_kind_##name(void *arg0, void *arg1);
#define KIND_ROW(name, insns, ...) { #name, cache_kind_##name, __VA_ARGS__ },

asm(KINDS(KIND_ASM));
KINDS(KIND_DECL)

static const struct {
	const char *name;
	seq_fn fn;
	u64 loads, stores, load_stores;
} cache_kinds[] = { KINDS(KIND_ROW) };

#define CACHE_EVENTS ((const u32[]){ EV_L1_ACCESS, EV_L1_MISS, EV_L1_FILL, EV_L2_MISS })
static const u32 dispatch_events[] = {
	EV_LS_DISPATCH | LS_LOAD, EV_LS_DISPATCH | LS_STORE, EV_LS_DISPATCH | LS_LOAD_STORE,
	EV_LS_DISPATCH | LS_LOAD | LS_STORE | LS_LOAD_STORE,
};

static void cache_count(const u32 *sel, seq_fn fn, u64 a, u64 b, u64 *got)
{
	for (int i = 0; i < 4; i++) {
		wrmsr(ctr_msr(i), 0);
		wrmsr(ctl_msr(i), sel[i] | CTL_USR | CTL_EN);
	}
	measure_user(fn, (void *)a, (void *)b, ctl_msr(0), sel[0] | CTL_USR | CTL_EN,
		     FLAGS_ON, user_stack_top());
	for (int i = 0; i < 4; i++) {
		wrmsr(ctl_msr(i), 0);
		got[i] = rdmsr(ctr_msr(i));
	}
}

static void check_cache(const char *what, u64 base, u64 stride, u64 n, u64 l1, u64 l2)
{
	u64 got[4];

	cache_count(CACHE_EVENTS, cache_walk, base, n << 32 | stride, got);
	/* RET as well */
	check_eq(got[L1_ACCESS], n + 1, "%s, %lu lines: accesses", what, n);
	check_eq(got[L1_MISS], l1, "%s, %lu lines: L1 misses", what, n);
	check_eq(got[L1_FILL], l1, "%s, %lu lines: L1 misses by the other event", what, n);
	check_eq(got[L2_MISS], l2, "%s, %lu lines: L2 misses", what, n);
}

static void caches(void)
{
	/* The sets of the stack's line belong to it alone. */
	u64 base = CACHE_AREA | (((user_stack_top() - 8) / LINE + 1) % L2_SETS * LINE);
	u64 got[4];

	if (t_begin("cache/accesses")) {
		for (size_t k = 0; k < ARRAY_SIZE(cache_kinds); k++) {
			for (int i = 0; i < 2; i++) {
				cache_count(CACHE_EVENTS, cache_kinds[k].fn, (u64)buf_a,
					    (u64)buf_b, got);
				check_eq(got[L1_ACCESS], cache_kinds[k].loads +
					 cache_kinds[k].stores + cache_kinds[k].load_stores + 1,
					 "%s", cache_kinds[k].name);
			}
			check_eq(got[L1_MISS], 0, "%s: misses when warm", cache_kinds[k].name);
		}
		t_end();
	}

	if (t_begin("cache/dispatch")) {
		for (size_t k = 0; k < ARRAY_SIZE(cache_kinds); k++) {
			const char *name = cache_kinds[k].name;

			cache_count(dispatch_events, cache_kinds[k].fn, (u64)buf_a, (u64)buf_b,
				    got);
			check_eq(got[0], cache_kinds[k].loads + 1, "%s: loads", name);
			check_eq(got[1], cache_kinds[k].stores, "%s: stores", name);
			check_eq(got[2], cache_kinds[k].load_stores, "%s: loads and stores in one",
				 name);
			check_eq(got[3], got[0] + got[1] + got[2], "%s: in all", name);
		}
		t_end();
	}

	if (t_begin("cache/misses")) {
		/* The stack */
		cache_count(CACHE_EVENTS, cache_walk, base, 1ull << 32, got);
		base += 0x100000;
		check_cache("cold", base, LINE, 60, 60, 60);
		check_cache("warm", base, LINE, 60, 0, 0);
		/* Eight accesses to each line */
		base += 0x100000;
		check_cache("cold, 8 bytes each", base, 8, 480, 60, 60);
		check_cache("warm, 8 bytes each", base, 8, 480, 0, 0);
		/* Twice as much as L1 holds: nothing stays, the stack's line neither. */
		base += 0x100000;
		check_cache("64 KiB, cold", base, LINE, 2 * L1_SETS * WAYS,
			    2 * L1_SETS * WAYS + 1, 2 * L1_SETS * WAYS);
		for (int i = 0; i < 3; i++)
			check_cache("64 KiB, warm", base, LINE, 2 * L1_SETS * WAYS,
				    2 * L1_SETS * WAYS + 1, 0);
		/*
		 * As much as there are ways in one set. One line more evicts the first; from then
		 * on, each is the one that was evicted last.
		 */
		base += 0x100000;
		check_cache("one set of L1, cold", base, L1_SETS * LINE, WAYS, WAYS, WAYS);
		check_cache("one set of L1, warm", base, L1_SETS * LINE, WAYS, 0, 0);
		check_cache("one set of L1, one more", base, L1_SETS * LINE, WAYS + 1, 1, 1);
		check_cache("one set of L1, again", base, L1_SETS * LINE, WAYS + 1, WAYS + 1, 0);
		base += 0x100000;
		check_cache("one set of L2, cold", base, L2_SETS * LINE, WAYS, WAYS, WAYS);
		check_cache("one set of L2, warm", base, L2_SETS * LINE, WAYS, 0, 0);
		check_cache("one set of L2, one more", base, L2_SETS * LINE, WAYS + 1, 1, 1);
		check_cache("one set of L2, again", base, L2_SETS * LINE, WAYS + 1, WAYS + 1,
			    WAYS + 1);
		t_end();
	}

	/* One interrupt for each overflow, soon. */
	if (t_begin("cache/overflow")) {
		for (u64 n = 1; n <= 50; n += 7) {
			u64 count;

			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(n));
			measure_user(cache_walk, (void *)base, (void *)(50ull << 32 | LINE),
				     ctl_msr(0), EV_L1_ACCESS | CTL_USR | CTL_INT | CTL_EN,
				     FLAGS_ON, user_stack_top());
			count = pmi_stop();
			check_eq(count, 1, "N %lu: interrupts", n);
			check_eq(rdmsr(ctr_msr(0)), 51 - n, "N %lu: counter", n);
		}
		t_end();
	}
}

/* CMASK, INV, EDGE and unit masks. */
static void modifiers(void)
{
	static const char *const names[] = { "straight", "loop_10", "jcc_short", "rep_movsb",
					     "nested" };

	if (t_begin("ctl/cmask")) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			const struct seq *s = seq_find(names[i]);

			for_each_ev(ev) {
				u64 ctl = ev_select[ev] | CTL_OS, plain = run(ctl, s);

				check_eq(plain, s->want[ev] + (ev == INSN ? RUN_INSNS :
							       ev == COND ? 0 : RUN_BRANCHES),
					 "%s, %s", s->name, ev_name[ev]);
				check_eq(run(ctl | CTL_CMASK(1), s), plain, "%s, %s, CMASK 1",
					 s->name, ev_name[ev]);
				for (int m = 2; m < 256; m = m * 2 + 1)
					check_eq(run(ctl | CTL_CMASK(m), s), 0,
						 "%s, %s, CMASK %d", s->name, ev_name[ev], m);
			}
		}
		t_end();
	}

	if (t_begin("ctl/inv")) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			const struct seq *s = seq_find(names[i]);
			u64 cyc;

			warm_up(s);
			cyc = run(EV_CYCLES | CTL_OS, s);
			for_each_ev(ev) {
				u64 ctl = ev_select[ev] | CTL_OS;
				u64 n = run(ctl, s);

				check_eq(n, s->want[ev] + (ev == INSN ? RUN_INSNS :
							   ev == COND ? 0 : RUN_BRANCHES),
					 "%s, %s, not inverted", s->name, ev_name[ev]);
				check_eq(run(ctl | CTL_INV | CTL_CMASK(1), s), cyc - n, "%s, %s",
					 s->name, ev_name[ev]);
				check_eq(run(ctl | CTL_INV | CTL_CMASK(2), s), 0,
					 "%s, %s, CMASK 2", s->name, ev_name[ev]);
			}
		}
		t_end();
	}

	if (t_begin("ctl/edge_and_unit_mask")) {
		const struct seq *s = seq_find("nested");

		for_each_ev(ev) {
			u64 ctl = ev_select[ev] | CTL_OS, plain = run(ctl, s);

			check(plain >= 34, "%s: %lu", ev_name[ev], plain);
			check_eq(run(ctl | CTL_EDGE, s), plain, "%s, EDGE", ev_name[ev]);
			for (int m = 0; m < 256; m += 17)
				check_eq(run(ctl | m << 8, s), plain, "%s, unit mask %x",
					 ev_name[ev], m);
		}
		t_end();
	}
}

/* Events that don't exist: not those of the document's table, with any bit of 35:32 none. */
static bool is_event(int sel)
{
	const u32 list[] = {
		EV_INSN, EV_BRANCH, EV_TAKEN, EV_COND, EV_MISPREDICT, EV_CYCLES, EV_INTERRUPT,
		0x2c, EV_TLB_MISS, EV_LS_DISPATCH, EV_L1_ACCESS, EV_L1_MISS, EV_L1_FILL,
		EV_L2_MISS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (list[i] == (u32)sel)
			return true;
	return false;
}

static void unsupported(void)
{
	const struct seq *s = seq_find("nested");

	if (!t_begin("ctl/unsupported_events"))
		return;
	/* What all of them are compared with isn't 0. */
	check_eq(run(EV_INSN | CTL_MODES, s), s->want[INSN] + RUN_INSNS, "instructions");
	for (u64 sel = 0; sel < 4096; sel++) {
		u64 ctl = (sel & 0xff) | (sel >> 8) << 32 | CTL_MODES;

		if (is_event(sel))
			continue;
		check_eq(run(ctl, s), 0, "event %x", (u32)sel);
		/* Nor is every cycle one without it. */
		if (sel < 256)
			check_eq(run(ctl | 0xff00, s), 0, "event %x, all units", (u32)sel);
	}
	t_end();
}

/*
 * Interrupts taken: IPIs and NMIs, no exceptions, no software interrupts, no IPI that waits.
 */
static void self_ipis(void *arg0, void *arg1)
{
	for (u64 i = 0; i < (u64)arg0; i++) {
		apic_icr(0, ICR_SELF | ICR_ASSERT | VEC_IPI);
		asm volatile("sti\n nop\n nop\n cli" : : : "memory");
	}
}

static void self_nmis(void *arg0, void *arg1)
{
	for (u64 i = 0; i < (u64)arg0; i++)
		apic_icr(this_cpu()->apic_id, ICR_ASSERT | ICR_NMI);
}

static void other_exceptions(void *arg0, void *arg1)
{
	u64 v;

	asm volatile("int $0x81\n int $0x81" : : : "memory");
	rdpmc_safe(99, &v);
	/* Waits until interrupts are on, after the measurement. */
	apic_icr(0, ICR_SELF | ICR_ASSERT | VEC_IPI);
}

/* Events that aren't instructions': one interrupt each, a few instructions late at most. */
static void other_overflows(void)
{
	u64 count, left;

	if (t_begin("interrupts/overflow")) {
		for (u64 n = 1; n <= 5; n++) {
			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run(self_ipis, (void *)5, NULL, ctl_msr(0),
				    EV_INTERRUPT | CTL_MODES | CTL_INT | CTL_EN, FLAGS_OFF);
			count = pmi_stop();
			check_eq(count, 1, "N %lu: NMIs", n);
			/* 5 IPIs, and the NMI itself. */
			check_eq(rdmsr(ctr_msr(0)), 6 - n, "N %lu: counter", n);
		}
		t_end();
	}

	if (t_begin("tlb/overflow")) {
		for (int i = 0; i < WIN_PAGES; i++)
			win_map(i);
		for (int i = 0; i < 3; i++)
			count_run(0, EV_TLB_MISS | CTL_OS, touch_pages, (void *)WIN_VA, NULL);
		for (u64 n = 1; n <= TOUCH_PAGES; n++) {
			for (int i = 0; i < TOUCH_PAGES; i++)
				invlpg(win_va(i));
			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run(touch_pages, (void *)WIN_VA, NULL, ctl_msr(0),
				    EV_TLB_MISS | CTL_OS | CTL_INT | CTL_EN, FLAGS_OFF);
			/*
			 * The handler has a few pages of its own, and INVLPG may have flushed more
			 * than one: QEMU's does where large pages are around.
			 */
			left = rdmsr(ctr_msr(0));
			check(left >= TOUCH_PAGES - n && left < TOUCH_PAGES - n + 16,
			      "N %lu: counter %lu", n, left);
			count = pmi_stop();
			check_eq(count, 1, "N %lu: NMIs", n);
		}
		for (int i = 0; i < WIN_PAGES; i++)
			win_unmap(i);
		t_end();
	}
}

static void interrupts(void)
{
	const u16 sel[] = { EV_INTERRUPT, pmu.intel ? EV_INTERRUPT : 0x2c };

	if (!t_begin("interrupts/taken"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sel); i++) {
		u64 ctl = sel[i] | CTL_MODES;
		struct pcpu *p = this_cpu();

		for (u64 n = 0; n < 10; n += 3) {
			p->irq_count = 0;
			check_eq(count_run(0, ctl, self_ipis, (void *)n, NULL), n,
				 "%lu IPIs, event %x", n, sel[i]);
			check_eq(p->irq_count, n, "%lu IPIs handled", n);
			p->pmi_count = 0;
			check_eq(count_run(0, ctl, self_nmis, (void *)n, NULL), n,
				 "%lu NMIs, event %x", n, sel[i]);
			check_eq(p->pmi_count, n, "%lu NMIs handled", n);
		}
		check_eq(count_run(0, ctl, other_exceptions, NULL, NULL), 0,
			 "software interrupts, exceptions, event %x", sel[i]);
		asm volatile("sti\n nop\n nop\n cli" : : : "memory");
	}
	t_end();
}

/*
 * The oracle
 */

enum { HOST_KERNEL, HOST_USER, GUEST_KERNEL, GUEST_USER };

/*
 * Counter 0 and the oracle's word read one after the other, before and after a call of
 * (%rdi). The distance is the same: 3 instructions and the same WRMSR-free code.
 */
asm(
".balign 16\n"
"oracle_probe:\n"
"	push %rbx\n"
"	push %r12\n"
"	push %r13\n"
"	push %r14\n"
"	mov %rsi, %rbx\n"
"	mov (%rdi), %r12\n"
"	mov 8(%rdi), %r13d\n"
"	mov 16(%rdi), %r14\n"
"	mov %r13d, %ecx\n"
"	rdmsr\n"
"	mov %eax, (%rbx)\n"
"	mov %edx, 4(%rbx)\n"
"	xor %ecx, %ecx\n"
"	rdpmc\n"
"	mov %eax, 8(%rbx)\n"
"	mov %edx, 12(%rbx)\n"
"	mov %r14, %rdi\n"
"	lea 4096(%r14), %rsi\n"
"	call *%r12\n"
"	mov %r13d, %ecx\n"
"	rdmsr\n"
"	mov %eax, 16(%rbx)\n"
"	mov %edx, 20(%rbx)\n"
"	xor %ecx, %ecx\n"
"	rdpmc\n"
"	mov %eax, 24(%rbx)\n"
"	mov %edx, 28(%rbx)\n"
"	pop %r14\n"
"	pop %r13\n"
"	pop %r12\n"
"	pop %rbx\n"
"	ret\n"
);
void oracle_probe(void *arg0, void *arg1);

/* From one RDMSR to the other: itself, MOV, MOV, XOR, RDPMC, MOV, MOV, MOV, LEA, CALL, RET, MOV */
#define PROBE_INSNS	12
#define PROBE_BRANCHES	2

/* Intel has no event for all taken branches, and none for all TLB misses. */
static bool oracle_has(u16 select)
{
	return !pmu.intel || (select && select != EV_TLB_MISS);
}

static void oracle(void)
{
	const struct {
		u16 select;
		u8 oracle;
	} t[] = {
		{ EV_INSN, 0 }, { EV_BRANCH, 1 }, { EV_TAKEN, 2 }, { EV_COND, 3 },
		{ EV_CYCLES, 5 }, { EV_TLB_MISS, 9 }, { EV_MISPREDICT, 4 },
		{ EV_L1_ACCESS, 7 }, { EV_L1_MISS, 8 },
	};
	u64 v;

	if (t_begin("oracle/kernel")) {
		if (!pmu.oracle) {
			t_skip("no oracle");
			t_end();
			return;
		}
		for_each_seq(s) {
			if (s->flags & SEQ_KERNEL)
				continue;
			for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
				if (!oracle_has(t[i].select))
					continue;
				struct {
					seq_fn fn;
					u64 msr;
					void *buf;
				} arg = { s->fn, MSR_ORACLE(t[i].oracle, HOST_KERNEL), buf_a };
				u64 got[4];

				/* RIP-relative stores and the like stay in buf_a. */
				count_run(0, t[i].select | CTL_OS, oracle_probe, &arg, got);
				check_eq(got[2] - got[0], got[3] - got[1], "%s, event %x",
					 s->name, t[i].select);
				if (i < NR_EV)
					check_eq(got[2] - got[0], s->want[i] +
						 (i == INSN ? PROBE_INSNS :
						  i == COND ? 0 : PROBE_BRANCHES),
						 "%s, event %x by the oracle", s->name, t[i].select);
			}
		}
		t_end();
	}

	/* User mode has nothing but the sequence: no need to read in the middle of it. */
	if (t_begin("oracle/user")) {
		for_each_seq(s) {
			if (s->flags & SEQ_KERNEL)
				continue;
			for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
				if (!oracle_has(t[i].select))
					continue;
				u64 before = rdmsr(MSR_ORACLE(t[i].oracle, HOST_USER));
				u64 n = count_user(1, t[i].select | CTL_USR, s->fn, buf_a, buf_b);
				u64 after = rdmsr(MSR_ORACLE(t[i].oracle, HOST_USER));

				check_eq(after - before, n, "%s, event %x", s->name, t[i].select);
			}
		}
		t_end();
	}

	/* A counter runs, or the oracle doesn't either. */
	if (t_begin("oracle/accesses")) {
		u64 rd, wr, pm;

		wrmsr(ctl_msr(1), EV_INSN | CTL_OS | CTL_EN);
		rd = rdmsr(MSR_ORACLE(12, HOST_KERNEL));
		wr = rdmsr(MSR_ORACLE(13, HOST_KERNEL));
		pm = rdmsr(MSR_ORACLE(15, HOST_KERNEL));
		for (int i = 0; i < 10; i++)
			rdmsr(ctr_msr(0));
		for (int i = 0; i < 20; i++)
			wrmsr(ctr_msr(0), i);
		for (int i = 0; i < 30; i++)
			rdpmc_safe(0, &v);
		/* Not a register of the PMU, not there, not allowed: don't count. */
		rdmsr(MSR_LSTAR);
		rdpmc_safe(99, &v);
		check_eq(rdmsr(MSR_ORACLE(12, HOST_KERNEL)) - rd, 10, "RDMSRs");
		check_eq(rdmsr(MSR_ORACLE(13, HOST_KERNEL)) - wr, 20, "WRMSRs");
		check_eq(rdmsr(MSR_ORACLE(15, HOST_KERNEL)) - pm, 30, "RDPMCs");
		wrmsr(ctl_msr(1), 0);
		t_end();
	}

	if (t_begin("oracle/window")) {
		check_eq(rdmsr(0xc0de0000), 0x554d50565f4d564bull, "signature");
		for (int ev = 0; ev < 16; ev++)
			for (int mode = 0; mode < 4; mode++)
				check_eq(rdmsr_safe(MSR_ORACLE(ev, mode), &v), NO_FAULT,
					 "event %d, mode %d", ev, mode);
		check_eq(rdmsr_safe(MSR_ORACLE(16, 0), &v), 13, "behind the last event");
		t_end();
	}

	/* x-pmu-oracle: it counts with no counter programmed. */
	if (cmdline_has("oracle=on") && t_begin("oracle/always")) {
		const struct seq *s = seq_find("loop_500");
		u64 before;

		pmu_reset();
		before = rdmsr(MSR_ORACLE(INSN, HOST_USER));
		measure_user(s->fn, buf_a, buf_b, ctl_msr(0), 0, FLAGS_ON, user_stack_top());
		check_eq(rdmsr(MSR_ORACLE(INSN, HOST_USER)) - before,
			 s->want[INSN] + USER_USR_INSNS, "instructions at CPL 3");
		t_end();
	}
}

TESTS(event_tests)
{
	cycles();
	costs();
	cycles_overflow();
	halted();
	tlb();
	mispredicts();
	caches();
	modifiers();
	unsupported();
	interrupts();
	other_overflows();
	oracle();
}
