// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions and interrupts between and inside the instructions that are counted. An
 * instruction that faults doesn't count, executed again it does, once.
 */
#include "pmu.h"

/*
 * Handlers for faults at CPL 0. Straight-line code, as the counters see it.
 */
asm(
".balign 16\n"
/* #PF in the window: map the page. */
"pf_entry:\n"
"	push %rax\n"				/* 1 */
"	push %rcx\n"				/* 2 */
"	mov %cr2, %rax\n"			/* 3 */
"	shr $12, %rax\n"			/* 4 */
"	and $0x1ff, %eax\n"			/* 5 */
"	mov win_ptes(, %rax, 8), %rcx\n"	/* 6 */
"	mov %rcx, win_pt(, %rax, 8)\n"		/* 7 */
"	pop %rcx\n"				/* 8 */
"	pop %rax\n"				/* 9 */
"	add $8, %rsp\n"				/* 10: the error code */
"	iretq\n"				/* 11 */
/* Skip an instruction of 2 bytes that has no error code. */
"skip2_entry:\n"
"	addq $2, (%rsp)\n"			/* 1 */
"	iretq\n"				/* 2 */
/* #DE: make the divisor 1, and try again. */
"de_entry:\n"
"	mov $1, %ecx\n"				/* 1 */
"	iretq\n"				/* 2 */
);
extern u8 pf_entry[], skip2_entry[], de_entry[];

#define PF_INSNS	11
#define SKIP_INSNS	2
#define DE_INSNS	2

u64 win_ptes[WIN_PAGES];	/* as they are when mapped; for pf_entry */

static int faults;

static void prepare_window(bool tracing)
{
	for (int i = 0; i < WIN_PAGES; i++) {
		win_ptes[i] = win_pte(i);
		win_unmap(i);
	}
	faults = 0;
}

static void prepare_count(bool tracing)
{
	faults = 0;
}

static bool on_pf(struct regs *r)
{
	u64 page = (read_cr2() - WIN_VA) / 4096;

	if (page >= WIN_PAGES || r->err & 1)
		return false;
	faults++;
	win_map(page);
	return true;
}

static bool skip(struct regs *r, int bytes)
{
	faults++;
	r->rip += bytes;
	return true;
}

static bool on_ud(struct regs *r)
{
	return skip(r, 2);
}

static bool on_de(struct regs *r)
{
	faults++;
	r->rcx = 1;
	return true;
}

/* CLI and HLT are 1 byte, MOV CR0 3, RDMSR and INT n 2. */
static bool on_gp(struct regs *r)
{
	const u8 *p = (const u8 *)r->rip;

	return skip(r, *p == 0xfa || *p == 0xf4 ? 1 : p[1] == 0x20 ? 3 : 2);
}

/* %rdi is the window, nothing of it mapped. */
asm(
".balign 16\n"
/* 3 faults: a load, a store, a read-modify-write */
"fault_pf_mem:\n"
"	nop\n"					/* 1 */
"	mov (%rdi), %rax\n"			/* 2, fault */
"	nop\n"					/* 3 */
"	mov %rax, 4096(%rdi)\n"			/* 4, fault */
"	mov %rax, (%rdi)\n"			/* 5 */
"	lock incq 8192(%rdi)\n"			/* 6, fault */
"	nop\n"					/* 7 */
"	ret\n"

/* 2 faults of one instruction, which straddles two pages: fetched, then written */
"fault_pf_straddle:\n"
"	nop\n"					/* 1 */
"	mov 4092(%rdi), %rax\n"			/* 2, 2 faults */
"	add $8192, %rdi\n"			/* 3 */
"	mov %rax, 4092(%rdi)\n"			/* 4, 2 faults */
"	nop\n"					/* 5 */
"	ret\n"

/* 3 faults in a REP STOSB, 3 + 3 in a REP MOVSQ between pages that straddle differently */
"fault_pf_rep:\n"
"	mov $9000, %ecx\n"			/* 1 */
"	xor %eax, %eax\n"			/* 2 */
"	rep stosb\n"				/* 3, faults on pages 0, 1, 2 */
"	mov $0x40000000 + 5 * 4096 - 4, %edi\n"	/* 4: pages 4 to 6 */
"	mov $0x40000000 + 9 * 4096 - 16, %esi\n" /* 5: pages 8 to 10 */
"	mov $600, %ecx\n"			/* 6: 4,800 bytes */
"	rep movsq\n"				/* 7, 6 faults */
"	nop\n"					/* 8 */
"	ret\n"

/* In the middle of a long block: 100 NOP, MOV, 100 NOP */
"fault_pf_middle:\n"
"	.rept 100\n"
"	nop\n"
"	.endr\n"
"	mov (%rdi), %rax\n"			/* fault */
"	.rept 100\n"
"	nop\n"
"	.endr\n"
"	ret\n"

/*
 * A fault on an instruction fetch: pages 0 and 1 hold code, see prepare_code(). CALL, a MOV
 * of 5 bytes the second of which is in page 1, RET; CALL again, now without faults.
 */
"fault_pf_fetch:\n"
"	add $4096 - 1, %rdi\n"			/* 1 */
"	call *%rdi\n"				/* 2; 3 MOV, 2 faults; 4 RET */
"	call *%rdi\n"				/* 5; 6 MOV; 7 RET */
"	ret\n"

/* A taken branch into such a page, from a conditional branch */
"fault_pf_jump:\n"
"	lea 1f(%rip), %rax\n"			/* 1 */
"	push %rax\n"				/* 2 */
"	push %rdi\n"				/* 3 */
"	ret\n"					/* 4; page 0 is NOP, RET: 5, fault; 6 */
"1:	nop\n"					/* 7 */
"	ret\n"
);
void fault_pf_mem(void *arg0, void *arg1);
void fault_pf_straddle(void *arg0, void *arg1);
void fault_pf_rep(void *arg0, void *arg1);
void fault_pf_middle(void *arg0, void *arg1);
void fault_pf_fetch(void *arg0, void *arg1);
void fault_pf_jump(void *arg0, void *arg1);

static void prepare_code(bool tracing)
{
	static const u8 mov[] = { 0xb8, 1, 2, 3, 4, 0xc3 };

	prepare_window(tracing);
	win_phys[0][0] = 0x90;
	win_phys[0][1] = 0xc3;
	win_phys[0][4095] = mov[0];
	memcpy(win_phys[1], mov + 1, sizeof(mov) - 1);
}

/* The stack itself is in an unmapped page, so #PF needs one of its own: IST 2. */
asm(
".balign 16\n"
"fault_pf_stack:\n"
"	mov %rsp, %r8\n"			/* 1 */
"	lea 4096(%rdi), %rsp\n"			/* 2 */
"	push $1\n"				/* 3, fault */
"	lea 8192(%rdi), %rsp\n"			/* 4 */
"	call 1f\n"				/* 5, fault; 6 RET */
"	lea 4 * 4096 - 8(%rdi), %rsp\n"		/* 7 */
"	pop %rax\n"				/* 8, fault */
"	mov %r8, %rsp\n"			/* 9 */
"	ret\n"
"1:	ret\n"
/* A frame for IRETQ and one for LRET are in pages that are not mapped: prepare_frames() */
"fault_pf_iret:\n"
"	mov %rsp, %r8\n"			/* 1 */
"	lea 4096 - 24(%rdi), %rsp\n"		/* 2 */
"	iretq\n"				/* 3, branch 1, 2 faults: pages 0, 1 */
"fault_pf_iret_1:\n"
"	lea 3 * 4096 - 8(%rdi), %rsp\n"		/* 4 */
"	lretq\n"				/* 5, branch 2, 2 faults: pages 2, 3 */
"fault_pf_iret_2:\n"
"	mov %r8, %rsp\n"			/* 6 */
"	ret\n"
/* CLI, HLT, MOV CR0, RDMSR, INT through a gate for CPL 0: #GP all of them */
"fault_gp:\n"
"	nop\n"					/* 1 */
"	cli\n"
"	nop\n"					/* 2 */
"	hlt\n"
"	mov %cr0, %rax\n"
"	rdmsr\n"
"	int $0x90\n"
"	nop\n"					/* 3 */
"	ret\n"
/*
 * The first INT finds the stack of CPL 0 unmapped, as prepare_stack() has it; the gate has an
 * IRETQ. Behind RET the stub's own INT is the third.
 */
"fault_int_stack:\n"
"	nop\n"					/* 1 */
"	int $0x81\n"				/* 2, branch 1, fault */
"	int $0x81\n"				/* 3, branch 2 */
"	nop\n"					/* 4 */
"	ret\n"
);
void fault_pf_iret(void *arg0, void *arg1);
void fault_int_stack(void *arg0, void *arg1);
extern u8 fault_pf_iret_1[], fault_pf_iret_2[];
void fault_pf_stack(void *arg0, void *arg1);
void fault_gp(void *arg0, void *arg1);

asm(
".balign 16\n"
/* UD2 is skipped by the handler: 5 times; it never counts */
"fault_ud:\n"
"	mov $5, %edx\n"				/* 1 */
"1:	nop\n"
"	ud2\n"
"	dec %edx\n"
"	jnz 1b\n"				/* 5 * 3 */
"	ret\n"
/* DIV by 0, which the handler mends, twice */
"fault_de:\n"
"	xor %edx, %edx\n"			/* 1 */
"	xor %ecx, %ecx\n"			/* 2 */
"	mov $10, %eax\n"			/* 3 */
"	div %ecx\n"				/* 4, fault */
"	div %ecx\n"				/* 5 */
"	xor %ecx, %ecx\n"			/* 6 */
"	idiv %rcx\n"				/* 7, fault */
"	nop\n"					/* 8 */
"	ret\n"
);
void fault_ud(void *arg0, void *arg1);
void fault_de(void *arg0, void *arg1);

/*
 * RFLAGS.TF set and cleared again. Stepped through are the 6 instructions behind the POPF
 * that sets it, of which the last is the POPF that clears it.
 */
asm(
".balign 16\n"
"fault_tf:\n"
"	pushf\n"				/* 1 */
"	orq $0x100, (%rsp)\n"			/* 2 */
"	popf\n"					/* 3 */
"	nop\n"					/* 4, trap */
"	xor %eax, %eax\n"			/* 5, trap */
"	jz 1f\n"				/* 6, trap */
"	ud2\n"
"1:	pushf\n"				/* 7, trap */
"	andq $~0x100, (%rsp)\n"			/* 8, trap */
"	popf\n"					/* 9, trap */
"	nop\n"					/* 10 */
"	ret\n"
);
void fault_tf(void *arg0, void *arg1);

/* For CPL 0. */
static void prepare_frames(bool tracing)
{
	u64 *iret = (u64 *)(win_phys[0] + 4096 - 24), *lret = (u64 *)(win_phys[2] + 4096 - 8);

	prepare_window(tracing);
	iret[0] = (u64)fault_pf_iret_1;
	iret[1] = KERNEL_CS;
	iret[2] = FLAGS_OFF;
	iret = (u64 *)win_phys[1];
	iret[0] = WIN_VA + 4096 * 5;
	iret[1] = KERNEL_DS;
	lret[0] = (u64)fault_pf_iret_2;
	lret = (u64 *)win_phys[3];
	lret[0] = KERNEL_CS;
}

static void prepare_stack(bool tracing)
{
	prepare_window(tracing);
	kernel_stack_set(WIN_VA + 4096);
}

static bool on_db_count(struct regs *r)
{
	faults++;
	return true;
}

struct fault {
	const char *name;
	seq_fn fn;
	void (*prepare)(bool tracing);
	u64 want[NR_EV];
	int faults;
	/* at CPL 3, unless handler is NULL */
	int vec;
	handler_fn handler;
	bool no_sweep;
	/* at CPL 0, and what each handler counts; NULL where that isn't possible */
	const void *entry;
	u64 entry_insns;
};

static const struct fault fault_list[] = {
	{ "pf_mem", fault_pf_mem, prepare_window, { 7 }, 3,
	  14, on_pf, false, pf_entry, PF_INSNS },
	{ "pf_straddle", fault_pf_straddle, prepare_window, { 5 }, 4,
	  14, on_pf, false, pf_entry, PF_INSNS },
	{ "pf_rep", fault_pf_rep, prepare_window, { 8 }, 9,
	  14, on_pf, false, pf_entry, PF_INSNS },
	{ "pf_middle", fault_pf_middle, prepare_window, { 201 }, 1,
	  14, on_pf, false, pf_entry, PF_INSNS },
	{ "pf_fetch", fault_pf_fetch, prepare_code, { 7, 4, 4 }, 2,
	  14, on_pf, false, pf_entry, PF_INSNS },
	{ "pf_jump", fault_pf_jump, prepare_code, { 7, 2, 2 }, 1,
	  14, on_pf, false, pf_entry, PF_INSNS },
	{ "pf_stack", fault_pf_stack, prepare_window, { 9, 2, 2 }, 3,
	  14, on_pf, false, pf_entry, PF_INSNS },
	{ "pf_iret", fault_pf_iret, prepare_frames, { 6, 2, 2 }, 4,
	  14, NULL, true, pf_entry, PF_INSNS },
	{ "pf_int_stack", fault_int_stack, prepare_stack, { 4, 2, 2 }, 1,
	  14, on_pf, true, NULL, 0 },
	{ "gp", fault_gp, prepare_count, { 3 }, 5,
	  13, on_gp, true, NULL, 0 },
	{ "ud", fault_ud, prepare_count, { 16, 5, 4, 5 }, 5,
	  6, on_ud, true, skip2_entry, SKIP_INSNS },
	{ "de", fault_de, prepare_count, { 8 }, 2,
	  0, on_de, false, de_entry, DE_INSNS },
	/* The entry is a lone IRETQ. */
	{ "single_step", fault_tf, prepare_count, { 10, 1, 1, 1 }, 6,
	  1, on_db_count, true, iretq_entry, 1 },
};

/*
 * Accesses to the cache count when their instruction retires: those that faulted once. The final
 * RET's is one, too.
 */
static void cache_accesses(void)
{
	static const struct {
		const char *name;
		seq_fn fn;
		u64 accesses;
	} t[] = {
		/* MOV, MOV, MOV, INC */
		{ "pf_mem", fault_pf_mem, 4 + 1 },
		/* one each, though of two lines */
		{ "pf_straddle", fault_pf_straddle, 2 + 1 },
		/* STOSB, and MOVSQ's two each */
		{ "pf_rep", fault_pf_rep, 9000 + 2 * 600 + 1 },
		/* PUSH, CALL, RET, POP */
		{ "pf_stack", fault_pf_stack, 4 + 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		if (!t_begin("cache/faults/%s", t[i].name))
			continue;
		handlers[14] = on_pf;
		gate_set(14, gate_get(14), 0, 2);
		for (int j = 0; j < 2; j++) {
			prepare_window(false);
			check_eq(count_user(0, 0x40 | CTL_USR, t[i].fn, (void *)WIN_VA, NULL),
				 t[i].accesses, "accesses");
			check(faults > 0, "faults");
		}
		gate_reset(14);
		handlers[14] = NULL;
		t_end();
	}
}

static void synchronous(void)
{
	static const u64 run[NR_EV] = { RUN_INSNS, RUN_BRANCHES, RUN_BRANCHES, 0 };
	static const u64 usr[NR_EV] = { USER_USR_INSNS, USER_USR_BRANCHES, USER_USR_BRANCHES };

	for (const struct fault *f = fault_list; f < fault_list + ARRAY_SIZE(fault_list); f++) {
		/* On a stack of its own: the usual one may be what isn't there. */
		gate_set(14, gate_get(14), 0, 2);
		if (f->handler && t_begin("fault/user/%s", f->name)) {
			handlers[f->vec] = f->handler;
			for_each_ev(ev) {
				f->prepare(false);
				check_eq(count_user(ev, ev_select[ev] | CTL_USR, f->fn,
						    (void *)WIN_VA, NULL),
					 f->want[ev] + usr[ev], "%s", ev_name[ev]);
				check_eq(faults, f->faults, "faults");
			}
			handlers[f->vec] = NULL;
			kernel_stack_set(0);
			t_end();
		}
		if (f->entry && t_begin("fault/kernel/%s", f->name)) {
			/* Each handler has one branch, its IRETQ. */
			u64 each[NR_EV] = { f->entry_insns, 1, 1, 0 };

			gate_set(f->vec, f->entry, 0, f->vec == 14 ? 2 : 0);
			for_each_ev(ev) {
				u64 got;

				f->prepare(false);
				got = count_run(ev, ev_select[ev] | CTL_OS, f->fn,
						(void *)WIN_VA, NULL);
				check_eq(got, f->want[ev] + run[ev] + f->faults * each[ev], "%s",
					 ev_name[ev]);
			}
			gate_reset(f->vec);
			t_end();
		}
		if (!f->no_sweep && t_begin("fault/overflow/%s", f->name)) {
			handlers[f->vec] = f->handler;
			overflow_sweep_user(f->fn, (void *)WIN_VA, f->prepare);
			handlers[f->vec] = NULL;
			t_end();
		}
	}
	gate_reset(14);
}

/*
 * Breakpoints: at an instruction, before it is executed, and on data, behind the instruction
 * that accesses them.
 */
asm(
".balign 16\n"
"fault_bp:\n"
"	mov $4, %edx\n"				/* 1 */
"1:	nop\n"
"fault_bp_at:\n"
"	lea 1(%rax), %rax\n"			/* breakpoint */
"	mov %rax, (%rdi)\n"			/* watchpoint */
"	nop\n"
"	dec %edx\n"
"	jnz 1b\n"				/* 4 * 6 */
"	ret\n"
"fault_bp_end:\n"
);
void fault_bp(void *arg0, void *arg1);
extern u8 fault_bp_at[], fault_bp_end[];

static bool on_bp(struct regs *r)
{
	faults++;
	if (r->rip == (u64)fault_bp_at)
		r->rflags |= BIT(16);	/* RF: past it, once */
	return true;
}

/* The breakpoint at fault_bp_at is on, but for the single-stepper. */
static void prepare_bp(bool tracing)
{
	handlers[1] = tracing ? NULL : on_bp;
	asm volatile("mov %0, %%dr0" : : "r"((u64)fault_bp_at));
	asm volatile("mov %0, %%dr7" : : "r"(tracing ? 0x400ull : 0x401ull));
	faults = 0;
}

static void breakpoints(void)
{
	/* DR7: exact, DR0 enabled for execution; or for writes of 8 bytes */
	static const struct {
		const char *name;
		u64 dr7;
	} t[] = {
		{ "breakpoint", 0x401 },
		{ "watchpoint", 0x401 | 0x9ull << 16 },
	};

	for (int i = 0; i < 2; i++) {
		if (!t_begin("fault/user/%s", t[i].name))
			continue;
		handlers[1] = on_bp;
		asm volatile("mov %0, %%dr0" : : "r"(i ? (u64)buf_a : (u64)fault_bp_at));
		for (int n = 0; n < 2; n++) {
			u64 want[NR_EV] = { 1 + 4 * 6, 4, 3, 4 };

			for_each_ev(ev) {
				u64 got;

				faults = 0;
				asm volatile("mov %0, %%dr7" : : "r"(t[i].dr7));
				got = count_user(n, ev_select[ev] | CTL_USR, fault_bp, buf_a,
						 NULL);
				asm volatile("mov %0, %%dr7" : : "r"(0x400ull));
				check_eq(got, want[ev] + (ev == COND ? 0 : 2), "%s", ev_name[ev]);
				check_eq(faults, 4, "traps");
			}
		}
		handlers[1] = NULL;
		t_end();
	}
}

/*
 * An overflow at the boundary of the breakpoint: the interrupt comes first, at that address
 * (APM vol. 2, "Simultaneous Interrupt Priorities"), and the breakpoint is hit all the same.
 */
static void breakpoint_overflows(void)
{
	if (!t_begin("fault/overflow/breakpoint"))
		return;
	overflow_sweep_user(fault_bp, buf_a, prepare_bp);
	check_eq(faults, 4, "breakpoints in the last run");
	asm volatile("mov %0, %%dr7" : : "r"(0x400ull));
	handlers[1] = NULL;
	t_end();
}

/*
 * An overflow by an instruction behind which there is a trap, too. #DB has the higher priority;
 * so either the interrupt is taken at the handler's first instruction, or where it is over.
 */
static void trap_overflows(void)
{
	const void *db = gate_get(1);

	for (int watch = 0; watch < 2; watch++) {
		seq_fn fn = watch ? fault_bp : fault_tf;

		if (!t_begin("fault/overflow/%s", watch ? "watchpoint" : "single_step"))
			continue;
		if (watch) {
			/* Without the traps first. */
			check(trace_user(fn, buf_a, NULL), "the trace fits");
		}
		for (u64 n = 1; n <= (watch ? trace.nr[INSN] - 1 : 11); n++) {
			u64 rip, total = watch ? trace.nr[INSN] : 12, count, got;

			handlers[1] = on_db_count;
			faults = 0;
			if (watch) {
				asm volatile("mov %0, %%dr0" : : "r"(buf_a));
				asm volatile("mov %0, %%dr7" : : "r"(0x401 | 0x9ull << 16));
			}
			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(n));
			measure_user(fn, buf_a, NULL, ctl_msr(0),
				     EV_INSN | CTL_USR | CTL_INT | CTL_EN, FLAGS_ON,
				     user_stack_top());
			got = rdmsr(ctr_msr(0));
			asm volatile("mov %0, %%dr7" : : "r"(0x400ull));
			count = pmi_stop();
			rip = this_cpu()->pmi_rip[0];
			check_eq(count, 1, "N %lu: interrupts", n);
			if (watch)
				check(rip == trace.next[INSN][n - 1] || rip == (u64)db,
				      "N %lu: RIP %lx, not %lx", n, rip, trace.next[INSN][n - 1]);
			else
				check(rip == (u64)db || this_cpu()->pmi_cs[0] == USER_CS,
				      "N %lu: RIP %lx", n, rip);
			check_eq(got, total - n, "N %lu: counter", n);
			check_eq(faults, watch ? 4 : 6, "N %lu: traps", n);
		}
		handlers[1] = NULL;
		t_end();
	}
}

/* An IPI is pending. STI, then a REP: interrupted behind its first iteration. */
asm(
".balign 16\n"
"fault_irq_rep:\n"
"	mov $1000, %ecx\n"			/* 1 */
"	sti\n"					/* 2 */
"fault_irq_rep_at:\n"
"	rep stosb\n"				/* 3 */
"	cli\n"					/* 4 */
"	ret\n"
);
void fault_irq_rep(void *arg0, void *arg1);
extern u8 fault_irq_rep_at[];

static void irq_in_rep(void)
{
	struct pcpu *p = this_cpu();

	if (!t_begin("fault/kernel/irq_in_rep"))
		return;
	/* PMI's entry has a known number of instructions, and logs. */
	gate_set(VEC_IPI, gate_get(VEC_PMI), 0, 0);
	for (int i = 0; i < 3; i++) {
		u64 got;

		p->pmi_count = 0;
		apic_icr(0, ICR_SELF | ICR_ASSERT | VEC_IPI);
		got = count_run(i, EV_INSN | CTL_OS, fault_irq_rep, buf_a, NULL);
		check_eq(p->pmi_count, 1, "interrupts");
		check_eq(p->pmi_rip[0], (u64)fault_irq_rep_at, "interrupted at");
		check_eq(got, 4 + RUN_INSNS + pmi_insns(PMI_VECTOR), "instructions");
	}
	gate_reset(VEC_IPI);
	t_end();
}

/*
 * Interrupts at any time, by a fast timer, under user code: MOV, then 4 turns of MOV, MOV,
 * REP, DEC, JNZ; and a loop of two million. The REP is that long because the emulator looks
 * for interrupts every 65,536 iterations.
 */
asm(
".balign 16\n"
"fault_long_rep:\n"
"	mov $4, %edx\n"
"1:	mov %rdi, %rsi\n"
"	mov $250000, %ecx\n"
"fault_long_rep_at:\n"
"	rep lodsb\n"
"	dec %edx\n"
"	jnz 1b\n"
"	ret\n"
);
void fault_long_rep(void *arg0, void *arg1);
extern u8 fault_long_rep_at[];

/* A busy host may have no time for the emulator's timers: run until some came. */
#define TIMER_TRIES	500

static u64 rep_hits;

static bool on_timer(struct regs *r)
{
	rep_hits += r->rip == (u64)fault_long_rep_at;
	return false;
}

static void timer_start(u32 ns)
{
	this_cpu()->irq_count = 0;
	apic_write(APIC_LVTT, APIC_PERIODIC | VEC_TIMER);
	apic_write(APIC_TMICT, ns);
}

static void timer_stop(void)
{
	apic_write(APIC_LVTT, APIC_MASKED);
	apic_write(APIC_TMICT, 0);
	asm volatile("sti\n nop\n cli" : : : "memory");
}

static void asynchronous(void)
{
	const struct seq *s = seq_find("loop_million");

	if (t_begin("fault/user/timer_in_rep")) {
		u64 irqs = 0;

		handlers[VEC_TIMER] = on_timer;
		rep_hits = 0;
		for (int i = 0; i < TIMER_TRIES && (i < 4 || !rep_hits); i++) {
			u64 got;
			int ev = i % NR_EV;
			static const u64 want[] = { 21 + 2, 4 + 2, 3 + 2, 4 };

			timer_start(20000);
			got = count_user(i % pmu.nr, ev_select[ev] | CTL_USR, fault_long_rep,
					 buf_a, buf_b);
			timer_stop();
			irqs += this_cpu()->irq_count;
			check_eq(got, want[ev], "%s", ev_name[ev]);
		}
		check(irqs, "timer interrupts");
		check(rep_hits, "timer interrupts inside a REP");
		handlers[VEC_TIMER] = NULL;
		t_end();
	}

	if (t_begin("fault/user/timer")) {
		for_each_ev(ev) {
			u64 irqs = 0;

			for (int try = 0; try < TIMER_TRIES && irqs < 3; try++) {
				u64 got;

				timer_start(20000);
				got = count_user(ev, ev_select[ev] | CTL_USR, s->fn, buf_a, buf_b);
				timer_stop();
				irqs += this_cpu()->irq_count;
				check_eq(got, s->want[ev] + (ev == COND ? 0 : 2), "%s", ev_name[ev]);
			}
			check(irqs >= 3, "%lu timer interrupts", irqs);
		}
		t_end();
	}

	if (t_begin("fault/kernel/timer")) {
		gate_set(VEC_TIMER, gate_get(VEC_PMI), 0, 0);
		for_each_ev(ev) {
			struct pcpu *p = this_cpu();
			u64 each = ev == INSN ? pmi_insns(PMI_VECTOR) : ev == COND ? 0 : 1;
			u64 extra = ev == INSN ? RUN_INSNS : ev == COND ? 0 : RUN_BRANCHES;
			u64 irqs = 0;

			for (int try = 0; try < TIMER_TRIES && irqs < 3; try++) {
				u64 got, n = 0;

				p->pmi_count = 0;
				timer_start(20000);
				wrmsr(ctr_msr(0), 0);
				measure_run(s->fn, buf_a, buf_b, ctl_msr(0),
					    ev_select[ev] | CTL_OS | CTL_EN, FLAGS_ON);
				got = rdmsr(ctr_msr(0));
				timer_stop();
				/* In front of the first WRMSR and behind the last: don't count. */
				for (u64 i = 0; i < p->pmi_count && i < PCPU_PMI_SLOTS; i++) {
					u64 rip = p->pmi_rip[i];

					n += rip > (u64)measure_begin && rip < (u64)measure_end;
					n += rip >= (u64)s->fn && rip < (u64)s->fn + 16;
				}
				irqs += n;
				check(p->pmi_count < PCPU_PMI_SLOTS, "the log suffices");
				check_eq(got, s->want[ev] + extra + n * each,
					 "%s, with %lu interrupts", ev_name[ev], n);
			}
			check(irqs >= 3, "%lu timer interrupts", irqs);
		}
		gate_reset(VEC_TIMER);
		t_end();
	}
}

TESTS(fault_tests)
{
	synchronous();
	cache_accesses();
	breakpoints();
	breakpoint_overflows();
	trap_overflows();
	irq_in_rep();
	asynchronous();
}
