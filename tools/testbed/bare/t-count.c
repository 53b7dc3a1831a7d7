// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instructions, branches, taken and conditional branches of the sequences in seq.S: at CPL 0
 * and 3, with counters that look at either or both.
 */
#include "svm.h"

/* What one run counts besides the sequence: see stubs.S. No branch of it is conditional. */
static const u64 run_extra[NR_EV] = { RUN_INSNS, RUN_BRANCHES, RUN_BRANCHES, 0 };
static const u64 user_os[NR_EV] = {
	USER_OS_INSNS, USER_OS_BRANCHES, USER_OS_BRANCHES, 0
};
static const u64 user_usr[NR_EV] = {
	USER_USR_INSNS, USER_USR_BRANCHES, USER_USR_BRANCHES, 0
};

/* Twice: newly translated by the emulator, then from its cache. */
#define REPEAT 2

static void kernel_seqs(void)
{
	for_each_seq(s) {
		if (!t_begin("count/kernel/%s", s->name))
			continue;
		wrmsr(MSR_LSTAR, (u64)syscall_kernel_entry);
		for_each_ev(ev) {
			for (int i = 0; i < REPEAT; i++) {
				u64 sel = ev_select[ev], want = s->want[ev] + run_extra[ev];
				int n = (ev + i) % pmu.nr;

				check_eq(count_run(n, sel | CTL_OS, s->fn, buf_a, buf_b), want,
					 "%s, OS", ev_name[ev]);
				check_eq(count_run(n, sel | CTL_MODES, s->fn, buf_a, buf_b), want,
					 "%s, OS and USR", ev_name[ev]);
			}
			check_eq(count_run(ev % pmu.nr, ev_select[ev] | CTL_USR, s->fn, buf_a,
					   buf_b), 0, "%s, USR", ev_name[ev]);
			/* Neither is as good as off. */
			check_eq(count_run(ev % pmu.nr, ev_select[ev], s->fn, buf_a, buf_b), 0,
				 "%s, neither OS nor USR", ev_name[ev]);
		}
		wrmsr(MSR_LSTAR, (u64)syscall_entry);
		t_end();
	}
}

static void user_seqs(void)
{
	for_each_seq(s) {
		if (s->flags & SEQ_KERNEL)
			continue;
		if (!t_begin("count/user/%s", s->name))
			continue;
		for_each_ev(ev) {
			for (int i = 0; i < REPEAT; i++) {
				u64 sel = ev_select[ev], usr = s->want[ev] + user_usr[ev];
				int n = (ev + i) % pmu.nr;

				check_eq(count_user(n, sel | CTL_USR, s->fn, buf_a, buf_b), usr,
					 "%s, USR", ev_name[ev]);
				check_eq(count_user(n, sel | CTL_OS, s->fn, buf_a, buf_b),
					 user_os[ev], "%s, OS", ev_name[ev]);
				check_eq(count_user(n, sel | CTL_MODES, s->fn, buf_a, buf_b),
					 usr + user_os[ev], "%s, OS and USR", ev_name[ev]);
			}
		}
		t_end();
	}
}

/* The single-stepper of trace.c and the numbers of seq.S agree. No PMU is involved. */
static void traces(void)
{
	for_each_seq(s) {
		if (s->flags & SEQ_NOTRACE)
			continue;
		if (!t_begin("trace/kernel/%s", s->name))
			continue;
		check(trace_run(s->fn, buf_a, buf_b), "the trace fits");
		for_each_ev(ev)
			check_eq(trace.nr[ev], s->want[ev] + run_extra[ev], "%s", ev_name[ev]);
		t_end();
	}
	for_each_seq(s) {
		if (s->flags & (SEQ_NOTRACE | SEQ_KERNEL))
			continue;
		if (!t_begin("trace/user/%s", s->name))
			continue;
		check(trace_user(s->fn, buf_a, buf_b), "the trace fits");
		for_each_ev(ev)
			check_eq(trace.nr[ev], s->want[ev] + user_usr[ev], "%s", ev_name[ev]);
		t_end();
	}
}

/*
 * Several counters at once. One after the other is switched on and off by instructions that
 * those before it see.
 */
#define EACH_ON_OFF	3	/* instructions that switch one counter: MOV, MOV, WRMSR */

static void switch_all(seq_fn fn, int nr)
{
	/*
	 * Written out, so that it can be counted. EDX is 0 all the time; the events of counters
	 * 0 to 3 are 0xC0, 0xC2, 0xC4, 0xD1.
	 */
	u64 on = CTL_OS | CTL_EN;

	asm volatile(
		"xor %%edx, %%edx\n"
		"mov %[ctl0], %%ecx\n mov %[v0], %%eax\n wrmsr\n"
		"mov %[ctl1], %%ecx\n mov %[v1], %%eax\n wrmsr\n"
		"mov %[ctl2], %%ecx\n mov %[v2], %%eax\n wrmsr\n"
		"mov %[ctl3], %%ecx\n mov %[v3], %%eax\n wrmsr\n"
		"lea %[a], %%rdi\n"
		"lea %[b], %%rsi\n"
		"call *%[fn]\n"
		"xor %%edx, %%edx\n"
		"mov %[ctl3], %%ecx\n mov $0, %%eax\n wrmsr\n"
		"mov %[ctl2], %%ecx\n mov $0, %%eax\n wrmsr\n"
		"mov %[ctl1], %%ecx\n mov $0, %%eax\n wrmsr\n"
		"mov %[ctl0], %%ecx\n mov $0, %%eax\n wrmsr\n"
		: : [fn] "r"(fn), [ctl0] "m"((u32){ctl_msr(0)}), [ctl1] "m"((u32){ctl_msr(1)}),
		    [ctl2] "m"((u32){ctl_msr(2)}), [ctl3] "m"((u32){ctl_msr(3)}),
		    [v0] "m"((u32){on | EV_INSN}), [v1] "m"((u32){on | EV_BRANCH}),
		    [v2] "m"((u32){on | EV_TAKEN}), [v3] "m"((u32){on | EV_COND}),
		    [a] "m"(buf_a), [b] "m"(buf_b)
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void parallel(void)
{
	if (!t_begin("count/parallel/one_by_one"))
		return;
	for_each_seq(s) {
		if (s->flags & SEQ_IF)
			continue;
		for (int i = 0; i < 4; i++)
			wrmsr(ctr_msr(i), 0);
		switch_all(s->fn, 4);
		/*
		 * Counter 0: its own WRMSR, 3 * 3 for the others, 2 LEA, CALL, the sequence,
		 * RET, XOR, 3 * 3, and two before its own last WRMSR.
		 */
		check_eq(rdmsr(ctr_msr(0)), s->want[INSN] + 1 + 9 + 2 + 1 + 1 + 1 + 9 + 2,
			 "%s, instructions", s->name);
		/* CALL and RET */
		check_eq(rdmsr(ctr_msr(1)), s->want[BRANCH] + 2, "%s, branches", s->name);
		check_eq(rdmsr(ctr_msr(2)), s->want[TAKEN] + 2, "%s, taken", s->name);
		check_eq(rdmsr(ctr_msr(3)), s->want[COND], "%s, conditional", s->name);
	}
	pmu_reset();
	t_end();
}

/* PerfMonV2: one WRMSR of GlobalCtl starts and stops them all, at the same instruction. */
static void parallel_global(void)
{
	if (!t_begin("count/parallel/global_ctl"))
		return;
	if (!pmu.v2) {
		t_skip("no PerfMonV2");
		t_end();
		return;
	}
	wrmsr(MSR_GLOBAL_CTL, 0);
	for_each_seq(s) {
		if (s->flags & SEQ_IF)
			continue;
		for (int i = 0; i < pmu.nr; i++) {
			wrmsr(ctl_msr(i), CTL_OS | CTL_EN | ev_select[i % NR_EV]);
			wrmsr(ctr_msr(i), 0);
		}
		measure_run(s->fn, buf_a, buf_b, MSR_GLOBAL_CTL, BIT(pmu.nr) - 1, FLAGS_OFF);
		for (int i = 0; i < pmu.nr; i++)
			check_eq(rdmsr(ctr_msr(i)), s->want[i % NR_EV] + run_extra[i % NR_EV],
				 "%s, counter %d, %s", s->name, i, ev_name[i % NR_EV]);
	}
	pmu_reset();
	t_end();
}

/*
 * System calls and software interrupts out of user mode and back. 10 turns at CPL 3 of
 * SYSCALL, INT, DEC, JNZ; at CPL 0 SYSRET and IRETQ. With the first MOV:
 *	USR 1 + 10 * 4 instructions, 10 * 3 branches, one of them not taken, 10 conditional;
 *	OS 10 * 2 instructions, all of them taken branches.
 */
asm(
".balign 16\n"
".globl user_calls\n"
"user_calls:\n"
"	mov $10, %edx\n"
"1:	syscall\n"
"	int $0x81\n"
"	dec %edx\n"
"	jnz 1b\n"
"	ret\n"
);

/* INT3 of user mode, at whose gate is an IRETQ for the moment. 5 INT3, NOP. */
asm(
".balign 16\n"
"user_int3:\n"
"	.rept 5\n"
"	int3\n"
"	nop\n"
"	.endr\n"
"	ret\n"
);
void user_int3(void *arg0, void *arg1);

/* INT1 as well: 5 times, with a NOP in between. */
asm(
".balign 16\n"
"user_int1:\n"
"	.rept 5\n"
"	.byte 0xf1\n"
"	nop\n"
"	.endr\n"
"	ret\n"
);
void user_int1(void *arg0, void *arg1);

/* 32-bit code, as user mode may be. */
asm(
".balign 16\n"
"user_compat:\n"
"	push $0x1b\n"			/* 1: USER_CS32 */
"	lea 1f(%rip), %rax\n"		/* 2 */
"	push %rax\n"			/* 3 */
"	lretq\n"			/* 4, branch 1 */
"	.code32\n"
"1:	mov $5, %ecx\n"			/* 5 */
"2:	dec %ecx\n"			/* 5 turns: 6 to 15 */
"	jnz 2b\n"			/* branches 2 to 6, the last not taken */
"	call 3f\n"			/* 16, branch 7; 17, branch 8: RET */
"	pusha\n"			/* 18 */
"	popa\n"				/* 19 */
"	mov $3, %ecx\n"			/* 20 */
"	rep stosb\n"			/* 21 */
"	jcxz 4f\n"			/* 22, branch 9, taken */
"	ud2\n"
"4:	jecxz 4f\n"			/* 23, branch 10, taken */
"	ud2\n"
"4:	mov $2, %ecx\n"			/* 24 */
"5:	loop 5b\n"			/* 25, 26, branches 11, 12, once taken */
"	int $0x81\n"			/* 27, branch 13; IRETQ at CPL 0 */
"	ljmp $0x2b, $6f\n"		/* 28, branch 14 */
"3:	ret\n"
"	.code64\n"
"6:	ret\n"
);
void user_compat(void *arg0, void *arg1);

static void mode_changes(void)
{
	static const u64 calls_usr[NR_EV] = { 41, 30, 29, 10 };
	static const u64 calls_os[NR_EV] = { 20, 20, 20, 0 };
	static const u64 int3_usr[NR_EV] = { 10, 5, 5, 0 };
	static const u64 int3_os[NR_EV] = { 5, 5, 5, 0 };
	static const u64 compat_usr[NR_EV] = { 28, 14, 12, 9 };
	static const u64 compat_os[NR_EV] = { 1, 1, 1, 0 };

	static const struct {
		const char *name;
		seq_fn fn;
		const u64 *usr, *os;
	} t[] = {
		{ "syscall_int", user_calls, calls_usr, calls_os },
		{ "int3", user_int3, int3_usr, int3_os },
		{ "int1", user_int1, int3_usr, int3_os },
		{ "compat", user_compat, compat_usr, compat_os },
	};

	gate_set(3, iretq_entry, 3, 0);
	gate_set(1, iretq_entry, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		if (!t_begin("count/mode_changes/%s", t[i].name))
			continue;
		/* Compatibility mode looks at ES, and a sequence made it null. */
		asm volatile("mov %0, %%es" : : "r"(USER_DS));
		for_each_ev(ev) {
			u64 usr = t[i].usr[ev] + user_usr[ev], os = t[i].os[ev] + user_os[ev];
			u64 sel = ev_select[ev];

			check_eq(count_user(0, sel | CTL_USR, t[i].fn, buf_a, NULL), usr,
				 "%s, USR", ev_name[ev]);
			check_eq(count_user(0, sel | CTL_OS, t[i].fn, buf_a, NULL), os,
				 "%s, OS", ev_name[ev]);
			check_eq(count_user(0, sel | CTL_MODES, t[i].fn, buf_a, NULL), usr + os,
				 "%s, OS and USR", ev_name[ev]);
		}
		t_end();
	}
	gate_reset(3);
	gate_reset(1);
}

TESTS(count_tests)
{
	traces();
	kernel_seqs();
	user_seqs();
	mode_changes();
	parallel();
	parallel_global();
}
