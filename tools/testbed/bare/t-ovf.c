// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Overflows: exactly one interrupt, at exactly the instruction behind the one that overflowed
 * the counter.
 */
#include "pmu.h"


static const char *mode_name(enum pmi_mode mode)
{
	return mode == PMI_NMI ? "NMI" : "vector";
}

/* What the handler adds to a counter that sees CPL 0: see stubs.S. */
static u64 handler_adds(int ev, enum pmi_mode mode)
{
	return ev == INSN ? pmi_insns(mode) : ev == COND ? 0 : 1;
}

static u64 status(void)
{
	return pmu.v2 ? rdmsr(MSR_GLOBAL_STATUS) : 0;
}

static void check_pmi(enum pmi_mode mode, u64 count, u64 want_rip, u64 want_cs, const char *what,
		      u64 n)
{
	struct pcpu *p = this_cpu();

	check_eq(count, 1, "%s by %s, N %lu: interrupts", what, mode_name(mode), n);
	if (!count)
		return;
	check_eq(p->pmi_rip[0], want_rip, "%s by %s, N %lu: RIP", what, mode_name(mode), n);
	check_eq(p->pmi_cs[0], want_cs, "%s by %s, N %lu: CS", what, mode_name(mode), n);
}

/* Overflow event @ev of a run at CPL 0 at its @n-th; @total is what the run has. */
static void one_kernel(const struct seq *s, int ev, enum pmi_mode mode, u64 n)
{
	int c = n % pmu.nr;
	u64 count, st, total = trace.nr[ev];

	pmi_start(mode);
	wrmsr(ctr_msr(c), NEG(n));
	measure_run(s->fn, buf_a, buf_b, ctl_msr(c), ev_select[ev] | CTL_OS | CTL_INT | CTL_EN,
		    mode == PMI_NMI ? FLAGS_OFF : FLAGS_ON);
	st = status();
	count = pmi_stop();

	if (n > total) {
		/* One short: nothing happens, and the counter is at its last value. */
		check_eq(count, 0, "%s, N %lu of %lu: interrupts", ev_name[ev], n, total);
		check_eq(st, 0, "%s, N %lu of %lu: status", ev_name[ev], n, total);
		check_eq(rdmsr(ctr_msr(c)), NEG(n - total), "%s, N %lu of %lu: counter",
			 ev_name[ev], n, total);
		return;
	}
	check_pmi(mode, count, trace.next[ev][n - 1], KERNEL_CS, ev_name[ev], n);
	if (pmu.v2)
		check_eq(st, BIT(c), "%s, N %lu: status", ev_name[ev], n);
	check_eq(rdmsr(ctr_msr(c)), total - n + handler_adds(ev, mode), "%s, N %lu: counter",
		 ev_name[ev], n);
}

/* For overflow_sweep_user(): what to do before each run, and with what. */
static void (*user_prepare)(bool tracing);
static void *user_arg0;

static void one_user(const struct seq *s, int ev, enum pmi_mode mode, u64 n)
{
	int c = n % pmu.nr;
	u64 count, st, total = trace.nr[ev];

	if (user_prepare)
		user_prepare(false);
	pmi_start(mode);
	wrmsr(ctr_msr(c), NEG(n));
	measure_user(s->fn, user_arg0 ?: buf_a, buf_b, ctl_msr(c),
		     ev_select[ev] | CTL_USR | CTL_INT | CTL_EN, FLAGS_ON, user_stack_top());
	st = status();
	count = pmi_stop();

	if (n > total) {
		check_eq(count, 0, "%s, N %lu of %lu: interrupts", ev_name[ev], n, total);
		check_eq(st, 0, "%s, N %lu of %lu: status", ev_name[ev], n, total);
		check_eq(rdmsr(ctr_msr(c)), NEG(n - total), "%s, N %lu of %lu: counter",
			 ev_name[ev], n, total);
		return;
	}
	/* The last instruction is the INT, and the kernel begins behind it. */
	check_pmi(mode, count, trace.next[ev][n - 1],
		  trace.next[ev][n - 1] == (u64)user_exit_entry ? KERNEL_CS : USER_CS,
		  ev_name[ev], n);
	if (pmu.v2)
		check_eq(st, BIT(c), "%s, N %lu: status", ev_name[ev], n);
	check_eq(rdmsr(ctr_msr(c)), total - n, "%s, N %lu: counter", ev_name[ev], n);
}

typedef void (*one_fn)(const struct seq *s, int ev, enum pmi_mode mode, u64 n);

/*
 * Every N where there aren't many; of more, those around the emulator's limit of a block, the
 * ends, and a few in between. One more than there are: nothing happens.
 */
static void sweep(const struct seq *s, int ev, enum pmi_mode mode, bool user)
{
	static const u64 some[] = {
		1, 2, 3, 7, 100, 255, 256, 257, 500, 510, 511, 512, 513, 514, 515, 600, 1000,
		1023, 1024, 1025, 1536, 4000, 10000,
	};
	one_fn one = user ? one_user : one_kernel;
	u64 total = trace.nr[ev], n = 1, last = total;

	/*
	 * The last in user mode is the INT, behind which interrupts are off. That is the subject
	 * of other tests.
	 */
	if (user && mode == PMI_VECTOR && ev != COND)
		last--;

	if (total <= 256) {
		/* 13: no multiple of a loop's length */
		for (; n + 2 < last; n += s->flags & SEQ_SLOW ? 13 : 1)
			one(s, ev, mode, n);
		n = last < 3 ? 1 : last - 2;
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(some) && some[i] < last - 2; i++)
			one(s, ev, mode, some[i]);
		n = last - 2;
	}
	for (; n <= last; n++)
		one(s, ev, mode, n);
	one(s, ev, mode, total + 1);
}

static void sweeps(bool user, enum pmi_mode mode)
{
	for_each_seq(s) {
		if (s->flags & SEQ_NOTRACE)
			continue;
		if (user && s->flags & SEQ_KERNEL)
			continue;
		if (mode == PMI_VECTOR && s->flags & SEQ_IF)
			continue;
		if (!t_begin("overflow/%s/%s/%s", user ? "user" : "kernel", mode_name(mode),
			     s->name))
			continue;
		if (user)
			trace_user(s->fn, buf_a, buf_b);
		else
			trace_run(s->fn, buf_a, buf_b);
		for_each_ev(ev)
			sweep(s, ev, mode, user);
		t_end();
	}
}

void overflow_sweep_user(seq_fn fn, void *arg0, void (*prepare)(bool tracing))
{
	const struct seq s = { .fn = fn };

	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		if (prepare)
			prepare(true);
		check(trace_user(fn, arg0, buf_b), "the trace fits");
		user_prepare = prepare;
		user_arg0 = arg0;
		for_each_ev(ev)
			sweep(&s, ev, mode, true);
		user_prepare = NULL;
		user_arg0 = NULL;
	}
}

/* N = 10,000 of each event, in a loop that single-stepping would take too long for. */
static void ten_thousand(void)
{
	const struct seq *s = seq_find("loop_10100");
	u64 dec = (u64)s->fn + 5, jnz = dec + 2;	/* behind the 5 bytes of MOV */
	struct {
		int ev;
		u64 n, rip;
	} t[] = {
		/* WRMSR, CALL, MOV, then DEC is number 4, 6, ...: 10,000 is a DEC. */
		{ INSN, 10000, jnz },
		{ INSN, 10001, dec },
		/* CALL is the first, and the JNZ of turn 9,999 the 10,000th. */
		{ BRANCH, 10000, dec },
		{ TAKEN, 10000, dec },
		{ COND, 10000, dec },
		/* The last JNZ isn't taken. */
		{ COND, 10100, jnz + 2 },
	};

	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		if (!t_begin("overflow/10000/%s", mode_name(mode)))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
			u64 count;

			pmi_start(mode);
			wrmsr(ctr_msr(1), NEG(t[i].n));
			measure_run(s->fn, buf_a, buf_b, ctl_msr(1),
				    ev_select[t[i].ev] | CTL_OS | CTL_INT | CTL_EN,
				    mode == PMI_NMI ? FLAGS_OFF : FLAGS_ON);
			count = pmi_stop();
			check_pmi(mode, count, t[i].rip, KERNEL_CS, ev_name[t[i].ev], t[i].n);
		}
		t_end();
	}
}

/*
 * Far away, while a timer interrupts all the time and the kernel works. loop_million at CPL 3:
 * MOV (5 bytes) is number 1, DEC even, JNZ odd (2 bytes each), the last of which is 2,000,001.
 */
static void far_away(void)
{
	static const u64 list[] = {
		2047, 2048, 8190, 8191, 8192, 8193, 8194, 32767, 32768, 100001, 1000000, 1999999,
		2000000, 2000001,
	};
	const struct seq *s = seq_find("loop_million");
	u64 fn = (u64)s->fn;

	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		if (!t_begin("overflow/far_away/%s", mode_name(mode)))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
			u64 n = list[i], rip = n == 2000001 ? fn + 9 : n & 1 ? fn + 5 : fn + 7;
			u64 count;

			pmi_start(mode);
			apic_write(APIC_LVTT, APIC_PERIODIC | VEC_TIMER);
			apic_write(APIC_TMICT, 20000);
			wrmsr(ctr_msr(3), NEG(n));
			measure_user(s->fn, NULL, NULL, ctl_msr(3),
				     EV_INSN | CTL_USR | CTL_INT | CTL_EN, FLAGS_ON,
				     user_stack_top());
			apic_write(APIC_LVTT, APIC_MASKED);
			apic_write(APIC_TMICT, 0);
			count = pmi_stop();
			check_pmi(mode, count, rip, USER_CS, "instructions", n);
			check_eq(rdmsr(ctr_msr(3)), 2000001 + USER_USR_INSNS - n,
				 "N %lu: counter", n);
		}
		t_end();
	}
}

/*
 * Through gates. Where WRMSR and CALL are number 1 and 2:
 * 3 NOP, 4 INT, 5 IRETQ there, 6 NOP, 7 INT, 8 IRETQ, 9 NOP, 10 RET.
 */
static void through_int(void)
{
	u64 fn = (u64)seq_find("int_kernel")->fn, iretq = (u64)iretq_entry;
	/* The next instruction after each; with interrupts off in the gate, after IRETQ. */
	u64 nmi[] = { 0, 0, fn + 1, iretq, fn + 3, fn + 4, iretq, fn + 6, fn + 7 };
	u64 vec[] = { 0, 0, fn + 1, fn + 3, fn + 3, fn + 4, fn + 6, fn + 6, fn + 7 };

	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		if (!t_begin("overflow/int/%s", mode_name(mode)))
			continue;
		for (u64 n = 3; n <= 9; n++) {
			u64 count;

			pmi_start(mode);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run((seq_fn)fn, NULL, NULL, ctl_msr(0),
				    EV_INSN | CTL_OS | CTL_INT | CTL_EN,
				    mode == PMI_NMI ? FLAGS_OFF : FLAGS_ON);
			count = pmi_stop();
			check_pmi(mode, count, mode == PMI_NMI ? nmi[n - 1] : vec[n - 1], KERNEL_CS,
				  "instructions", n);
		}
		t_end();
	}
}

/* SYSCALL, DEC, INT, NOP at CPL 3. */
asm(
".balign 16\n"
"ovf_calls:\n"
"	syscall\n"
"ovf_calls_1:\n"
"	dec %edx\n"
"ovf_calls_2:\n"
"	int $0x81\n"
"ovf_calls_3:\n"
"	nop\n"
"ovf_calls_4:\n"
"	ret\n"
);
void ovf_calls(void *arg0, void *arg1);
extern u8 ovf_calls_1[], ovf_calls_2[], ovf_calls_3[], ovf_calls_4[];

static void through_syscall(void)
{
	const struct {
		u64 ctl, n;
		const void *nmi, *vector;
	} t[] = {
		/* Counted in user mode, noticed where the kernel begins; IF is off there. */
		{ CTL_USR | EV_INSN, 1, syscall_entry, ovf_calls_1 },
		{ CTL_USR | EV_INSN, 2, ovf_calls_2, ovf_calls_2 },
		{ CTL_USR | EV_INSN, 3, iretq_entry, ovf_calls_3 },
		{ CTL_USR | EV_INSN, 4, ovf_calls_4, ovf_calls_4 },
		{ CTL_USR | EV_BRANCH, 1, syscall_entry, ovf_calls_1 },
		{ CTL_USR | EV_BRANCH, 2, iretq_entry, ovf_calls_3 },
		/* The way back counts in the kernel, after WRMSR and IRETQ of the stub. */
		{ CTL_OS | EV_INSN, 2, ovf_calls, ovf_calls },
		{ CTL_OS | EV_INSN, 3, ovf_calls_1, ovf_calls_1 },
		{ CTL_OS | EV_INSN, 4, ovf_calls_3, ovf_calls_3 },
		{ CTL_OS | EV_TAKEN, 2, ovf_calls_1, ovf_calls_1 },
		{ CTL_OS | EV_TAKEN, 3, ovf_calls_3, ovf_calls_3 },
	};

	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		if (!t_begin("overflow/syscall/%s", mode_name(mode)))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
			u64 count, rip;

			rip = (u64)(mode == PMI_NMI ? t[i].nmi : t[i].vector);
			pmi_start(mode);
			wrmsr(ctr_msr(0), NEG(t[i].n));
			measure_user(ovf_calls, NULL, NULL, ctl_msr(0),
				     t[i].ctl | CTL_INT | CTL_EN, FLAGS_ON, user_stack_top());
			count = pmi_stop();
			check_pmi(mode, count, rip, rip == (u64)syscall_entry ||
				  rip == (u64)iretq_entry ? KERNEL_CS : USER_CS,
				  t[i].ctl & CTL_OS ? "OS" : "USR", t[i].n);
		}
		t_end();
	}
}

/*
 * Interrupts off: the vector waits. WRMSR and CALL are number 1 and 2, STI number 6; the
 * instruction behind STI is executed before any interrupt.
 */
asm(
".balign 16\n"
"ovf_if:\n"
"	nop\n"		/* 3 */
"	nop\n"		/* 4 */
"	nop\n"		/* 5 */
"	sti\n"		/* 6 */
"	nop\n"		/* 7 */
"ovf_if_7:\n"
"	nop\n"		/* 8 */
"ovf_if_8:\n"
"	nop\n"		/* 9 */
"	cli\n"
"	ret\n"
);
void ovf_if(void *arg0, void *arg1);
extern u8 ovf_if_7[], ovf_if_8[];

/* The same by the task priority. */
asm(
".balign 16\n"
"ovf_cr8:\n"
"	mov $15, %eax\n"	/* 3 */
"	mov %rax, %cr8\n"	/* 4 */
"	nop\n"			/* 5 */
"	nop\n"			/* 6 */
"	xor %eax, %eax\n"	/* 7 */
"	mov %rax, %cr8\n"	/* 8 */
"ovf_cr8_8:\n"
"	nop\n"			/* 9 */
"ovf_cr8_9:\n"
"	nop\n"
"	ret\n"
);
void ovf_cr8(void *arg0, void *arg1);
extern u8 ovf_cr8_8[], ovf_cr8_9[];

static void interrupts_off(void)
{
	u64 count;

	if (t_begin("overflow/if_0")) {
		for (u64 n = 1; n <= 8; n++) {
			pmi_start(PMI_VECTOR);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run(ovf_if, NULL, NULL, ctl_msr(0),
				    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_OFF);
			count = pmi_stop();
			check_pmi(PMI_VECTOR, count, (u64)(n < 8 ? ovf_if_7 : ovf_if_8), KERNEL_CS,
				  "instructions", n);
		}
		t_end();
	}

	if (t_begin("overflow/if_0_pends")) {
		const struct seq *s = seq_find("straight");

		pmi_start(PMI_VECTOR);
		check(!apic_irr(VEC_PMI), "no request to begin with");
		wrmsr(ctr_msr(0), NEG(10));
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0),
			    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_OFF);
		check_eq(this_cpu()->pmi_count, 0, "interrupts while they are off");
		check(apic_irr(VEC_PMI), "there is a request in the IRR");
		count = pmi_stop();
		check_eq(count, 1, "interrupts when they are on");
		check(!apic_irr(VEC_PMI), "the request is gone");
		t_end();
	}

	/* MOV SS as well: WRMSR, CALL, MOV, NOP, and it is number 5. */
	if (t_begin("overflow/mov_ss")) {
		const struct seq *s = seq_find("mov_ss");
		u64 fn = (u64)s->fn;
		/* MOV is 2 bytes, NOP 1, MOV SS 2, NOP 1 */
		u64 next[] = { fn + 2, fn + 3, fn + 6, fn + 6, fn + 7 };

		for (u64 n = 3; n <= 7; n++) {
			pmi_start(PMI_VECTOR);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run(s->fn, NULL, NULL, ctl_msr(0),
				    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_ON);
			count = pmi_stop();
			check_pmi(PMI_VECTOR, count, next[n - 3], KERNEL_CS, "instructions", n);
		}
		t_end();
	}

	if (t_begin("overflow/tpr")) {
		for (u64 n = 4; n <= 9; n++) {
			pmi_start(PMI_VECTOR);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run(ovf_cr8, NULL, NULL, ctl_msr(0),
				    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_ON);
			count = pmi_stop();
			check_pmi(PMI_VECTOR, count, (u64)(n < 9 ? ovf_cr8_8 : ovf_cr8_9), KERNEL_CS,
				  "instructions", n);
		}
		t_end();
	}
}

/*
 * The PMI comes before any other interrupt that waits for the same boundary. An IPI is
 * pending; 3 is STI, 4 the instruction in its shadow, which overflows the counter.
 */
asm(
".balign 16\n"
"ovf_order:\n"
"	sti\n"			/* 3 */
"	nop\n"			/* 4 */
"ovf_order_4:\n"
"	nop\n"
"	cli\n"
"	ret\n"
);
void ovf_order(void *arg0, void *arg1);
extern u8 ovf_order_4[];

static void order(void)
{
	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		u64 count, irqs;

		if (!t_begin("overflow/before_other_irq/%s", mode_name(mode)))
			continue;
		/* VEC_PMI is of a higher priority than VEC_IPI. */
		pmi_start(mode);
		irqs = this_cpu()->irq_count;
		apic_icr(0, ICR_SELF | ICR_ASSERT | VEC_IPI);
		wrmsr(ctr_msr(0), NEG(4));
		measure_run(ovf_order, NULL, NULL, ctl_msr(0),
			    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_OFF);
		count = pmi_stop();
		check_pmi(mode, count, (u64)ovf_order_4, KERNEL_CS, "instructions", 4);
		check_eq(this_cpu()->irq_count, irqs + 1, "IPIs");
		t_end();
	}
}

/*
 * In front of HLT and by HLT itself: 3 and 4 are NOP, 5 is HLT.
 */
asm(
".balign 16\n"
"ovf_hlt:\n"
"	nop\n"			/* 3 */
"	nop\n"			/* 4 */
"ovf_hlt_4:\n"
"	hlt\n"			/* 5 */
"ovf_hlt_5:\n"
"	nop\n"
"	nop\n"
"	cli\n"
"	ret\n"
);
void ovf_hlt(void *arg0, void *arg1);
extern u8 ovf_hlt_4[], ovf_hlt_5[];

static void hlt(void)
{
	u64 count = 0;

	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		for (u64 n = 4; n <= 5; n++) {
			bool skip = mode == PMI_NMI && n == 4;
			u64 ctl = EV_INSN | CTL_OS | CTL_INT | CTL_EN;
			u64 left = 0;

			if (!t_begin("overflow/hlt/%s/%s", n == 4 ? "before" : "itself",
				     mode_name(mode)))
				continue;
			/*
			 * The timer wakes up from a HLT that nothing else ends. Where it comes
			 * too early, that was the host's load: try again.
			 */
			for (int i = 0; i < 10; i++) {
				this_cpu()->irq_count = 0;
				this_cpu()->skip_rip = skip ? (u64)ovf_hlt_4 : 0;
				gate_set(2, nmi_skip_entry, 0, 1);
				pmi_start(mode);
				wrmsr(ctr_msr(0), NEG(n));
				apic_write(APIC_LVTT, APIC_PERIODIC | VEC_TIMER);
				apic_write(APIC_TMICT, 50 * 1000 * 1000);
				measure_run(ovf_hlt, NULL, NULL, ctl_msr(0), ctl, FLAGS_ON);
				left = rdmsr(ctr_msr(0));
				apic_write(APIC_LVTT, APIC_MASKED);
				apic_write(APIC_TMICT, 0);
				count = pmi_stop();
				gate_reset(2);
				if (this_cpu()->irq_count == (n == 4 && !skip))
					break;
			}
			check_pmi(mode, count, (u64)(n == 4 ? ovf_hlt_4 : ovf_hlt_5), KERNEL_CS,
				  "instructions", n);
			if (n == 5) {
				/*
				 * Behind HLT: NOP, NOP, CLI, RET, 3 of the stub and the handler,
				 * which is nmi_skip_entry here: PMI_LOG's 9, MOV, CMP, JNE,
				 * 2 POP, IRETQ.
				 */
				check_eq(left, 7 + (mode == PMI_NMI ? 15 : pmi_insns(mode)),
					 "counter");
			}
			t_end();
		}
	}
}

static void masked_and_int_clear(void)
{
	const struct seq *s = seq_find("straight");
	u64 count;

	if (t_begin("overflow/int_clear")) {
		for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
			for (int c = 0; c < pmu.nr; c++) {
				pmi_start(mode);
				wrmsr(ctr_msr(c), NEG(10));
				measure_run(s->fn, buf_a, buf_b, ctl_msr(c),
					    EV_INSN | CTL_OS | CTL_EN, FLAGS_ON);
				if (pmu.v2)
					check_eq(status(), BIT(c), "status");
				check(!apic_irr(VEC_PMI), "no request");
				count = pmi_stop();
				check_eq(count, 0, "interrupts");
				/* It did overflow: 20 and the stub's 6, less 10. */
				check_eq(rdmsr(ctr_msr(c)), 16, "counter");
			}
		}
		t_end();
	}

	if (t_begin("overflow/lvt_masked")) {
		pmi_start(PMI_MASKED);
		wrmsr(ctr_msr(0), NEG(10));
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0),
			    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_ON);
		if (pmu.v2)
			check_eq(status(), BIT(0), "status");
		check_eq(rdmsr(ctr_msr(0)), 16, "counter");
		/* An edge: unmasking doesn't bring it back. */
		apic_write(APIC_LVTPC, VEC_PMI);
		check(!apic_irr(VEC_PMI), "no request");
		count = pmi_stop();
		check_eq(count, 0, "interrupts");

		/* And unmasked, the same overflow makes one. */
		pmi_start(PMI_VECTOR);
		wrmsr(ctr_msr(0), NEG(10));
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0),
			    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_ON);
		count = pmi_stop();
		check_eq(count, 1, "interrupts when unmasked");
		t_end();
	}

	if (t_begin("overflow/int_set_later")) {
		/* INT counts when the counter overflows, not afterwards. */
		pmi_start(PMI_NMI);
		wrmsr(ctr_msr(0), NEG(10));
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0), EV_INSN | CTL_OS | CTL_EN, FLAGS_ON);
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0), EV_INSN | CTL_OS | CTL_INT | CTL_EN,
			    FLAGS_ON);
		count = pmi_stop();
		check_eq(count, 0, "interrupts");
		check_eq(rdmsr(ctr_msr(0)), 2 * 26 - 10, "counter");
		t_end();
	}

	if (t_begin("overflow/off_counters")) {
		/* Not enabled, nor enabled for another mode: nothing overflows. */
		pmi_start(PMI_NMI);
		wrmsr(ctr_msr(0), NEG(1));
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0), EV_INSN | CTL_OS | CTL_INT,
			    FLAGS_ON);
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0),
			    EV_INSN | CTL_USR | CTL_INT | CTL_EN, FLAGS_ON);
		count = pmi_stop();
		check_eq(count, 0, "interrupts");
		check_eq(rdmsr(ctr_msr(0)), NEG(1), "counter");
		t_end();
	}
}

/*
 * The counter starts again in the handler, 1,000 times over, while it runs. What the handler
 * counts behind that WRMSR is part of the distance; at CPL 3 that is nothing.
 */
#define REARM_TURNS 1000

static void rearm(bool user, enum pmi_mode mode)
{
	const struct seq *s = seq_find("loop_4000");
	struct pcpu *p = this_cpu();
	static const u64 tail[NR_EV] = { REARM_TAIL, 1, 1, 0 };
	/* The last time round the handler doesn't restart: all of it counts then. */
	u64 full[NR_EV] = {
		/* PMI_LOG 9, PUSH, SUB, JS, 3 POP, IRETQ; EOI: 2, or 6 by x2APIC's MSR */
		9 + 7 + (mode == PMI_NMI ? 0 : x2apic ? 6 : 2),
		2, 2, 1,	/* JS, taken, and IRETQ */
	};

	if (!t_begin("overflow/rearm/%s/%s", user ? "user" : "kernel", mode_name(mode)))
		return;
	if (user)
		trace_user(s->fn, buf_a, buf_b);
	else
		trace_run(s->fn, buf_a, buf_b);
	gate_set(2, nmi_rearm_entry, 0, 1);
	gate_set(VEC_PMI, x2apic ? pmi_rearm_entry_x2 : pmi_rearm_entry, 0, 0);

	for_each_ev(ev) {
		u64 sel = ev_select[ev] | CTL_INT | CTL_EN | (user ? CTL_USR : CTL_OS);

		for (u64 n = 1; n * REARM_TURNS <= trace.nr[ev] - (ev != COND); n++) {
			u64 count, bad = 0;

			pmi_start(mode);
			p->rearm_msr = ctr_msr(2);
			p->rearm_val = NEG(n + (user ? 0 : tail[ev]));
			p->rearm_left = REARM_TURNS - 1;
			wrmsr(ctr_msr(2), NEG(n));
			if (user)
				measure_user(s->fn, buf_a, buf_b, ctl_msr(2), sel, FLAGS_ON,
					     user_stack_top());
			else
				measure_run(s->fn, buf_a, buf_b, ctl_msr(2), sel,
					    mode == PMI_NMI ? FLAGS_OFF : FLAGS_ON);
			count = pmi_stop();
			check_eq(count, REARM_TURNS, "%s, N %lu: interrupts", ev_name[ev], n);
			check_eq(rdmsr(ctr_msr(2)), trace.nr[ev] - n * REARM_TURNS +
				 (user ? 0 : full[ev]), "%s, N %lu: counter", ev_name[ev], n);
			for (u64 i = 1; i <= REARM_TURNS; i++) {
				if (p->pmi_rip[i - 1] == trace.next[ev][i * n - 1])
					continue;
				if (!bad++)
					check_eq(p->pmi_rip[i - 1], trace.next[ev][i * n - 1],
						 "%s, N %lu: RIP of number %lu", ev_name[ev], n,
						 i);
			}
			check_eq(bad, 0, "%s, N %lu: wrong RIPs", ev_name[ev], n);
		}
	}
	gate_reset(2);
	gate_reset(VEC_PMI);
	t_end();
}

/*
 * Counters that look at user mode only, so that the kernel can start several.
 */
static void together(void)
{
	const struct seq *s = seq_find("loop_10");
	struct pcpu *p = this_cpu();

	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		u64 count, st;

		if (t_begin("overflow/together/%s", mode_name(mode))) {
			trace_user(s->fn, buf_a, buf_b);
			for (u64 n = 1; n <= 20; n++) {
				pmi_start(mode);
				for (int c = 0; c < pmu.nr; c++) {
					wrmsr(ctr_msr(c), NEG(n));
					wrmsr(ctl_msr(c), c == pmu.nr - 1 ? 0 :
					      EV_INSN | CTL_USR | CTL_INT | CTL_EN);
				}
				measure_user(s->fn, buf_a, buf_b, ctl_msr(pmu.nr - 1),
					     EV_INSN | CTL_USR | CTL_INT | CTL_EN, FLAGS_ON,
					     user_stack_top());
				st = status();
				for (int c = 0; c < pmu.nr; c++)
					wrmsr(ctl_msr(c), 0);
				count = pmi_stop();
				check_pmi(mode, count, trace.next[INSN][n - 1], USER_CS, "all", n);
				if (pmu.v2)
					check_eq(st, BIT(pmu.nr) - 1, "N %lu: status", n);
				for (int c = 0; c < pmu.nr; c++)
					check_eq(rdmsr(ctr_msr(c)), trace.nr[INSN] - n,
						 "N %lu: counter %d", n, c);
			}
			t_end();
		}

		/*
		 * One instruction apart: two interrupts. And instruction 9, which is the
		 * fourth branch (MOV, DEC, JNZ, ...), by both events: one interrupt.
		 */
		if (t_begin("overflow/neighbours/%s", mode_name(mode))) {
			trace_user(s->fn, buf_a, buf_b);
			for (u64 n = 1; n <= 18; n++) {
				pmi_start(mode);
				wrmsr(ctr_msr(0), NEG(n));
				wrmsr(ctr_msr(1), NEG(n + 1));
				wrmsr(ctl_msr(1), EV_INSN | CTL_USR | CTL_INT | CTL_EN);
				measure_user(s->fn, buf_a, buf_b, ctl_msr(0),
					     EV_INSN | CTL_USR | CTL_INT | CTL_EN, FLAGS_ON,
					     user_stack_top());
				wrmsr(ctl_msr(1), 0);
				count = pmi_stop();
				check_eq(count, 2, "N %lu: interrupts", n);
				check_eq(p->pmi_rip[0], trace.next[INSN][n - 1],
					 "N %lu: first RIP", n);
				check_eq(p->pmi_rip[1], trace.next[INSN][n], "N %lu: second RIP",
					 n);
			}
			pmi_start(mode);
			wrmsr(ctr_msr(0), NEG(9));
			wrmsr(ctr_msr(1), NEG(4));
			wrmsr(ctl_msr(1), EV_BRANCH | CTL_USR | CTL_INT | CTL_EN);
			measure_user(s->fn, buf_a, buf_b, ctl_msr(0),
				     EV_INSN | CTL_USR | CTL_INT | CTL_EN, FLAGS_ON,
				     user_stack_top());
			st = status();
			wrmsr(ctl_msr(1), 0);
			count = pmi_stop();
			check_pmi(mode, count, (u64)s->fn + 5, USER_CS, "two events", 9);
			if (pmu.v2)
				check_eq(st, 3, "two events: status");
			t_end();
		}
	}

	/*
	 * A second counter overflows while the NMI handler for the first runs: that NMI waits
	 * for IRET and is taken where the first was.
	 */
	if (t_begin("overflow/in_nmi_handler")) {
		u64 n = 6, count;

		trace_user(s->fn, buf_a, buf_b);
		for (u64 in = 1; in <= NMI_INSNS; in++) {
			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(n));
			wrmsr(ctl_msr(0), EV_INSN | CTL_USR | CTL_INT | CTL_EN);
			/* WRMSR and IRETQ of the stub, n of user mode, then the handler */
			wrmsr(ctr_msr(1), NEG(2 + n + in));
			measure_user(s->fn, buf_a, buf_b, ctl_msr(1),
				     EV_INSN | CTL_MODES | CTL_INT | CTL_EN, FLAGS_ON,
				     user_stack_top());
			wrmsr(ctl_msr(0), 0);
			count = pmi_stop();
			check_eq(count, 2, "at %lu of the handler: interrupts", in);
			for (int i = 0; i < 2; i++)
				check_eq(p->pmi_rip[i], trace.next[INSN][n - 1],
					 "at %lu of the handler: RIP %d", in, i);
			/* Two handlers, and all of both modes. */
			check_eq(rdmsr(ctr_msr(1)), USER_OS_INSNS + trace.nr[INSN] +
				 2 * NMI_INSNS - (2 + n + in), "at %lu of the handler: counter",
				 in);
		}
		t_end();
	}
}

/*
 * A write to a counter that runs: the WRMSR itself counts, so -1 overflows at once.
 * 3 MOV, 4 MOV, 5 MOV, 6 WRMSR.
 */
asm(
".balign 16\n"
"ovf_write:\n"
"	mov %edi, %ecx\n"
"	mov $-1, %eax\n"
"	mov $0xffff, %edx\n"
"	wrmsr\n"
"ovf_write_6:\n"
"	nop\n"
"	ret\n"
);
void ovf_write(void *arg0, void *arg1);
extern u8 ovf_write_6[];

static void write_running(void)
{
	u64 count;

	if (!t_begin("overflow/write_running"))
		return;
	pmi_start(PMI_NMI);
	wrmsr(ctr_msr(0), 0);
	measure_run(ovf_write, (void *)(u64)ctr_msr(0), NULL, ctl_msr(0),
		    EV_INSN | CTL_OS | CTL_INT | CTL_EN, FLAGS_OFF);
	count = pmi_stop();
	check_pmi(PMI_NMI, count, (u64)ovf_write_6, KERNEL_CS, "instructions", 1);
	/* NOP, RET and 3 of the stub */
	check_eq(rdmsr(ctr_msr(0)), 5 + NMI_INSNS, "counter");

	/* Writing 0 over anything isn't an overflow. */
	pmi_start(PMI_NMI);
	wrmsr(ctr_msr(0), CTR_MASK);
	wrmsr(ctl_msr(0), EV_INSN | CTL_USR | CTL_INT | CTL_EN);
	wrmsr(ctr_msr(0), 0);
	if (pmu.v2)
		check_eq(status(), 0, "status");
	wrmsr(ctl_msr(0), 0);
	count = pmi_stop();
	check_eq(count, 0, "interrupts of a write of 0");
	t_end();
}

/*
 * Interrupts that come late: so many instructions behind the one that overflowed the counter,
 * which goes on; and at once when a HLT begins.
 */
asm(
".balign 16\n"
"skid_halt:\n"
"	nop\n nop\n hlt\n"
"skid_halted:\n"
"	nop\n ret\n"
);
#define SKID_LONG	50	/* longer than what a few lines of C are compiled to */

void skid_halt(void *arg0, void *arg1);
extern u8 skid_halted[];

static void skid_start(u64 n)
{
	pmi_start(PMI_NMI);
	wrmsr(ctr_msr(0), NEG(n));
}

static void skid(void)
{
	const struct seq *s = seq_find("nested");
	u64 total = s->want[INSN] + RUN_INSNS, ctl = EV_INSN | CTL_OS | CTL_INT | CTL_EN;

	if (t_begin("overflow/skid")) {
		trace_run(s->fn, buf_a, buf_b);
		for (u64 n = 1; n + pmu.skid <= total; n++) {
			skid_start(n);
			measure_run(s->fn, buf_a, buf_b, ctl_msr(0), ctl, FLAGS_OFF);
			/* Intel's is masked by the delivery. */
			check_eq(apic_read(APIC_LVTPC), APIC_DM_NMI | (pmu.intel ? APIC_MASKED : 0),
				 "N %lu: LVT", n);
			if (pmu.v2)
				check_eq(status(), 1, "N %lu: status", n);
			check_eq(rdmsr(ctr_msr(0)), total - n + NMI_INSNS, "N %lu: counter", n);
			check_eq(pmi_stop(), 1, "N %lu: interrupts", n);
			check_eq(this_cpu()->pmi_rip[0], trace.next[INSN][n + pmu.skid - 1],
				 "N %lu: RIP", n);
		}
		t_end();
	}

	/* The counter is off, and its status gone, when the interrupt comes: it comes all the same. */
	if (t_begin("overflow/skid_disabled")) {
		u64 before, early;

		skid_start(total);
		measure_run(s->fn, buf_a, buf_b, ctl_msr(0), ctl, FLAGS_OFF);
		before = status();
		if (pmu.v2)
			wrmsr(MSR_GLOBAL_CLR, 1);
		early = this_cpu()->pmi_count;
		for (u64 i = 0; i < pmu.skid; i++)
			asm volatile("nop");
		check_eq(before, pmu.v2, "status, before");
		/* C code */
		if (pmu.skid >= SKID_LONG)
			check_eq(early, 0, "interrupts, before");
		check_eq(status(), 0, "status, behind");
		check_eq(rdmsr(ctr_msr(0)), pmu.skid ? 0 : NMI_INSNS, "counter");
		check_eq(pmi_stop(), 1, "interrupts");
		t_end();
	}

	if (t_begin("overflow/skid_halt")) {
		/* HLT is the 5th; an interrupt in front of it wouldn't end it. */
		for (u64 n = pmu.skid > 2 ? 3 : 5; n <= 5; n++) {
			skid_start(n);
			measure_run(skid_halt, buf_a, buf_b, ctl_msr(0), ctl, FLAGS_OFF);
			check_eq(pmi_stop(), 1, "N %lu: interrupts", n);
			check_eq(this_cpu()->pmi_rip[0], (u64)skid_halted, "N %lu: RIP", n);
		}
		t_end();
	}
}

TESTS(overflow_tests)
{
	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		sweeps(false, mode);
		sweeps(true, mode);
	}
	ten_thousand();
	far_away();
	through_int();
	through_syscall();
	interrupts_off();
	order();
	hlt();
	masked_and_int_clear();
	for (int mode = PMI_NMI; mode <= PMI_VECTOR; mode++) {
		rearm(false, mode);
		rearm(true, mode);
	}
	together();
	write_running();
	pmu_reset();
	skid();
}
