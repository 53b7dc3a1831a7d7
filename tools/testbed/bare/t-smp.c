// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * All CPUs at once, each with counters of its own: what one does isn't seen by another.
 */
#include "svm.h"


static u8 bufs[MAX_CPUS][2][4 * 4096] __attribute__((aligned(4096)));

/* All of them get here before any goes on; again and again. */
static volatile u32 arrived;

static void barrier(void)
{
	u32 me = __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
	/* up to the next multiple of the number of CPUs */
	u32 all = (me + nr_cpus - 1) / nr_cpus * nr_cpus;

	while ((int)(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) - all) < 0)
		cpu_relax();
}

static void on_all(void (*fn)(void *arg), void *arg)
{
	arrived = 0;
	smp_run(nr_cpus, fn, arg);
}

static void reset(void *arg)
{
	pmu_reset();
}

/* Sequences that the others may execute meanwhile: not those that modify themselves. */
static bool shareable(const struct seq *s)
{
	return !(s->flags & (SEQ_KERNEL | SEQ_IF)) &&
	       !(s->name[0] == 's' && s->name[1] == 'm' && s->name[2] == 'c');
}

#define ROUNDS 60

static void count_all(void *arg)
{
	int cpu = this_cpu()->cpu, nr = seqs_end - seqs_start;

	for (int r = 0; r < ROUNDS; r++) {
		/* Another sequence, event and counter on each CPU, other ones in each round. */
		const struct seq *s = &seqs_start[(r + cpu * 7) % nr];
		int ev = (r + cpu) % NR_EV, n = (r / 2 + cpu) % pmu.nr;
		u64 got;

		barrier();
		if (!shareable(s))
			continue;
		wrmsr(ctr_msr(n), 0);
		measure_run(s->fn, bufs[cpu][0], bufs[cpu][1], ctl_msr(n),
			    ev_select[ev] | CTL_OS | CTL_EN, FLAGS_OFF);
		got = rdmsr(ctr_msr(n));
		check_eq(got, s->want[ev] + (ev == INSN ? RUN_INSNS : ev == COND ? 0 :
					     RUN_BRANCHES),
			 "CPU %d, round %d, %s, %s at CPL 0", cpu, r, s->name, ev_name[ev]);
		wrmsr(ctr_msr(n), 0);
		measure_user(s->fn, bufs[cpu][0], bufs[cpu][1], ctl_msr(n),
			     ev_select[ev] | CTL_USR | CTL_EN, FLAGS_ON, user_stack_top());
		got = rdmsr(ctr_msr(n));
		check_eq(got, s->want[ev] + (ev == INSN ? USER_USR_INSNS : ev == COND ? 0 :
					     USER_USR_BRANCHES),
			 "CPU %d, round %d, %s, %s at CPL 3", cpu, r, s->name, ev_name[ev]);
	}
}

/* MOV, then arg0 turns of NOP, DEC, JNZ */
asm(
".balign 16\n"
"smp_loop:\n"
"	mov %rdi, %rcx\n"
"1:	nop\n"
"	dec %rcx\n"
"	jnz 1b\n"
"	ret\n"
);
void smp_loop(void *arg0, void *arg1);

/* Long enough that they do overlap; another length on each CPU. */
static u64 turns(int cpu)
{
	return 2000000 + 12345 * cpu;
}

static void loops_want(u64 n, u64 *want)
{
	want[INSN] = 1 + 3 * n + USER_USR_INSNS;
	want[BRANCH] = n + USER_USR_BRANCHES;
	want[TAKEN] = n - 1 + USER_USR_BRANCHES;
	want[COND] = n;
}

static volatile u32 loops_done;
static u32 ipis[MAX_CPUS];

static bool on_ipi(struct regs *r)
{
	ipis[this_cpu()->cpu]++;
	return false;
}

/*
 * A timer on each CPU. Under -icount the emulator executes one CPU after the other, each until
 * the next timer: with these, none gets through its loop in one go.
 */
static void timer(bool on)
{
	apic_write(APIC_LVTT, on ? APIC_PERIODIC | VEC_TIMER : APIC_MASKED);
	apic_write(APIC_TMICT, on ? 200 * 1000 : 0);
	asm volatile("sti\n nop\n cli" : : : "memory");
}

/* All the counters, all the time. With @arg, the others are bombarded by IPIs. */
static void loops_all(void *arg)
{
	int cpu = this_cpu()->cpu;
	u64 want[NR_EV];

	loops_want(turns(cpu), want);
	for (int i = 0; i < pmu.nr; i++) {
		wrmsr(ctr_msr(i), 0);
		wrmsr(ctl_msr(i), ev_select[i % NR_EV] | CTL_USR | CTL_EN);
	}
	ipis[cpu] = 0;
	barrier();
	timer(true);
	if (arg && cpu == 0) {
		while (loops_done != (u32)nr_cpus - 1) {
			for (int i = 1; i < nr_cpus; i++)
				apic_icr(pcpus[i].apic_id, ICR_ASSERT | VEC_IPI);
			irq_enable();
			for (int i = 0; i < 1000; i++)
				cpu_relax();
			irq_disable();
		}
	} else {
		/* Not before the bombardment: this may be the quicker one. Only user mode counts. */
		while (arg && !ipis[cpu]) {
			irq_enable();
			cpu_relax();
			irq_disable();
		}
		/* The last counter is the one that the stub switches off. */
		measure_user(smp_loop, (void *)turns(cpu), NULL, ctl_msr(pmu.nr - 1),
			     ev_select[(pmu.nr - 1) % NR_EV] | CTL_USR | CTL_EN, FLAGS_ON,
			     user_stack_top());
		__atomic_add_fetch(&loops_done, 1, __ATOMIC_SEQ_CST);
		for (int i = 0; i < pmu.nr; i++)
			check_eq(rdmsr(ctr_msr(i)), want[i % NR_EV], "CPU %d, counter %d, %s", cpu,
				 i, ev_name[i % NR_EV]);
		if (arg)
			check(ipis[cpu], "CPU %d: IPIs", cpu);
	}
	timer(false);
	for (int i = 0; i < pmu.nr; i++)
		wrmsr(ctl_msr(i), 0);
}

/*
 * Overflows, at another N on each CPU: loop_4000 is MOV (5 bytes) and turns of NOP (1), DEC (2),
 * JNZ (2), so instruction number n is followed by
 */
static u64 loop_4000_next(u64 fn, u64 n)
{
	static const u8 next[] = { 6, 8, 5 };	/* behind NOP, DEC, JNZ */

	return n == 1 ? fn + 5 : fn + next[(n - 2) % 3];
}

static void overflow_all(void *arg)
{
	const struct seq *s = seq_find("loop_4000");
	struct pcpu *p = this_cpu();
	enum pmi_mode mode = (u64)arg;
	u64 cpu = p->cpu, count;

	for (int r = 0; r < ROUNDS; r++) {
		u64 n = 1 + r * 61 + cpu * 1009;
		int c = (r + cpu) % pmu.nr;

		pmi_start(mode);
		wrmsr(ctr_msr(c), NEG(n));
		barrier();
		measure_user(s->fn, NULL, NULL, ctl_msr(c), EV_INSN | CTL_USR | CTL_INT | CTL_EN,
			     FLAGS_ON, user_stack_top());
		count = pmi_stop();
		check_eq(count, 1, "CPU %lu, N %lu: interrupts", cpu, n);
		check_eq(p->pmi_rip[0], loop_4000_next((u64)s->fn, n), "CPU %lu, N %lu: RIP", cpu,
			 n);
		check_eq(rdmsr(ctr_msr(c)), s->want[INSN] + USER_USR_INSNS - n,
			 "CPU %lu, N %lu: counter", cpu, n);
	}
}

static void rearm_all(void *arg)
{
	const struct seq *s = seq_find("loop_4000");
	struct pcpu *p = this_cpu();
	u64 cpu = p->cpu, n = 3 + cpu % 9, bad = 0, count;

	pmi_start(PMI_NMI);
	p->rearm_msr = ctr_msr(0);
	p->rearm_val = NEG(n);
	p->rearm_left = 999;
	wrmsr(ctr_msr(0), NEG(n));
	barrier();
	measure_user(s->fn, NULL, NULL, ctl_msr(0), EV_INSN | CTL_USR | CTL_INT | CTL_EN,
		     FLAGS_ON, user_stack_top());
	count = pmi_stop();
	check_eq(count, 1000, "CPU %lu: interrupts", cpu);
	for (u64 i = 1; i <= 1000; i++)
		bad += p->pmi_rip[i - 1] != loop_4000_next((u64)s->fn, i * n);
	check_eq(bad, 0, "CPU %lu, N %lu: wrong RIPs", cpu, n);
	check_eq(rdmsr(ctr_msr(0)), s->want[INSN] + USER_USR_INSNS - 1000 * n, "CPU %lu: counter",
		 cpu);
}

/*
 * LEA, 2 PUSH, and RET into a page that isn't there: number 4 overflows, and its interrupt comes
 * before the page fault. RET there leads back.
 */
asm(
".balign 16\n"
"smp_jump:\n"
"	lea 1f(%rip), %rax\n"	/* 1 */
"	push %rax\n"		/* 2 */
"	push %rdi\n"		/* 3 */
"	ret\n"			/* 4 */
"1:	ret\n"
);
void smp_jump(void *arg0, void *arg1);

static bool on_fetch(struct regs *r)
{
	if (r->rip != WIN_VA)
		return false;
	win_map(0);
	return true;
}

/*
 * CPU 1 bombards CPU 0 with IPIs meanwhile, so that now and then one arrives at that boundary. They
 * wait, as interrupts are off: what is tested is an NMI.
 */
static void fetch_fault(void *arg)
{
	struct pcpu *p = this_cpu();
	u64 bad = 0;

	barrier();
	if (p->cpu == 1)
		while (!loops_done)
			apic_icr(pcpus[0].apic_id, ICR_ASSERT | VEC_IPI);
	if (p->cpu)
		return;

	handlers[14] = on_fetch;
	win_phys[0][0] = 0xc3;
	for (int i = 0; i < 10000; i++) {
		win_unmap(0);
		pmi_start(PMI_NMI);
		wrmsr(ctr_msr(0), NEG(4));
		measure_user(smp_jump, (void *)WIN_VA, NULL, ctl_msr(0),
			     EV_INSN | CTL_USR | CTL_INT | CTL_EN, FLAGS_OFF, user_stack_top());
		if (pmi_stop() == 1 && p->pmi_rip[0] == WIN_VA && p->pmi_cs[0] == USER_CS)
			continue;
		if (!bad++) {
			check_eq(p->pmi_count, 1, "run %d: interrupts", i);
			check_eq(p->pmi_rip[0], WIN_VA, "run %d: RIP", i);
			check_eq(p->pmi_cs[0], USER_CS, "run %d: CS", i);
		}
	}
	check_eq(bad, 0, "runs of 10000 whose interrupt didn't come before the fault");
	handlers[14] = NULL;
	loops_done = 1;
}

/*
 * One CPU writes to the code that the others execute, what is there already: the emulator has to
 * translate it again and again, and to leave it in the middle.
 */
static void rewrite_all(void *arg)
{
	int cpu = this_cpu()->cpu;
	u64 want[NR_EV];

	loops_want(turns(cpu), want);
	barrier();
	timer(true);
	if (cpu == 0) {
		/* The NOP, behind the 3 bytes of MOV. */
		volatile u8 *nop = (u8 *)smp_loop + 3;
		u64 n = 0;

		while (loops_done != (u32)nr_cpus - 1) {
			*nop = 0x90;
			n++;
			irq_enable();
			/* No PAUSE, which would have another CPU executed under -icount. */
			for (int i = 0; i < 2000; i++)
				asm volatile("");
			irq_disable();
		}
		check(n > 2, "%lu writes", n);
		timer(false);
		return;
	}
	for_each_ev(ev)
		check_eq(count_user(ev, ev_select[ev] | CTL_USR, smp_loop, (void *)turns(cpu),
				    NULL),
			 want[ev], "CPU %d, %s", cpu, ev_name[ev]);
	timer(false);
	__atomic_add_fetch(&loops_done, 1, __ATOMIC_SEQ_CST);
}

/* CPUs 0 and 1, each turn; the others are left alone. */
static volatile u32 code_ready, code_written, code_seen;

/*
 * CPU 0 stores to code while CPU 1 executes it for the first time. Once CPU 1 knows of the store and
 * has serialized, it executes what was stored (APM vol. 2, "Cross-Modifying Code"). The
 * emulator translates that code at the moment of the store.
 */
static void write_all(void *arg)
{
	static u8 page[4096] __attribute__((aligned(4096)));
	int cpu = this_cpu()->cpu;
	u32 stale = 0;

	if (cpu == 0)
		code_ready = code_written = code_seen = 0;
	barrier();
	for (u32 turn = 1; cpu < 2 && turn <= 200; turn++) {
		volatile u8 *code = page + turn * 64 % 4032;
		u32 old = 2 * turn, new = old + 1, got;

		if (cpu == 0) {
			/* No translation of the page is left. */
			memset(page, 0xcc, sizeof(page));
			code[0] = 0xb8;	/* MOV imm32,%eax */
			memcpy((u8 *)code + 1, &old, 4);
			code[5] = 0xc3;	/* RET */
			code_ready = turn;
			for (u32 i = turn * 2654435761u >> 20; i; i--)
				asm volatile("");
			*(volatile u32 *)(code + 1) = new;
			code_written = turn;
			while (code_seen != turn)
				cpu_relax();
		} else {
			u32 (*fn)(void) = (u32 (*)(void))code;

			while (code_ready != turn)
				cpu_relax();
			while (code_written != turn)
				fn();
			asm volatile("cpuid" : "=a"(got) : "a"(0) : "ebx", "ecx", "edx", "memory");
			got = fn();
			stale += got != new;
			code_seen = turn;
		}
	}
	if (cpu == 1)
		check_eq(stale, 0, "turns that executed what had been overwritten");
	barrier();
}

/*
 * CPU 0 clears and sets GIF while the others load the FPU's state. An IPI to oneself waits in
 * between, though RFLAGS.IF is set (APM vol. 2, "Global Interrupt Flag, STGI and CLGI
 * Instructions").
 */
static void gif(void *arg)
{
	static u8 fpu[MAX_CPUS][512] __attribute__((aligned(16)));
	struct pcpu *p = this_cpu();
	u32 early = 0, late = 0;

	if (p->cpu) {
		asm volatile("fxsave %0" : "=m"(fpu[p->cpu]));
		barrier();
		while (!loops_done)
			asm volatile("fxrstor %0" : : "m"(fpu[p->cpu]));
		return;
	}
	svm_enable(true);
	barrier();
	for (int i = 0; i < 300000; i++) {
		ipis[0] = 0;
		asm volatile("clgi\n sti\n nop" : : : "memory");
		apic_icr(p->apic_id, ICR_ASSERT | VEC_IPI);
		asm volatile("nop" : : : "memory");
		early += ipis[0];
		asm volatile("stgi\n nop\n cli" : : : "memory");
		late += ipis[0] != 1;
	}
	loops_done = 1;
	check_eq(early, 0, "interrupts of 300000 that came in spite of CLGI");
	check_eq(late, 0, "interrupts of 300000 that didn't come in spite of STGI");
	asm volatile("stgi\n sti\n nop\n cli" : : : "memory");
	svm_enable(false);
}

/* A guest on each CPU, with 1,000 exits and a timer. */
static void guests_all(void *arg)
{
	u64 cpu = this_cpu()->cpu, n = 1000 + 37 * cpu;
	u64 want[NR_EV] = { 1 + 2 * n, n, n - 1, n };

	svm_enable(true);
	barrier();
	for_each_ev(ev) {
		int cpl = (cpu + ev) & 1 ? 3 : 0;
		u64 got;

		guest_init(cpl, cpu & 2, storm_cpuid, (void *)n, NULL);
		intercept(this_guest()->vmcb, EXIT_CPUID);
		apic_write(APIC_LVTT, APIC_PERIODIC | VEC_TIMER);
		apic_write(APIC_TMICT, 100000);
		got = guest_count(ev_select[ev] | CTL_GUEST | (cpl ? CTL_USR : CTL_OS));
		apic_write(APIC_LVTT, APIC_MASKED);
		apic_write(APIC_TMICT, 0);
		asm volatile("sti\n nop\n cli" : : : "memory");
		check_eq(this_guest()->exits[EXIT_CPUID], n, "CPU %lu: exits", cpu);
		check_eq(got, want[ev] + guest_extra[ev] + vmruns(ev, this_guest()->entries),
			 "CPU %lu, %s with %lu entries", cpu, ev_name[ev], this_guest()->entries);
	}
	svm_enable(false);
}

/* PMU registers of one CPU are out of reach of the others. */
static void registers_all(void *arg)
{
	u64 cpu = this_cpu()->cpu;

	for (int i = 0; i < pmu.nr; i++) {
		wrmsr(ctr_msr(i), cpu << 20 | i);
		wrmsr(ctl_msr(i), cpu << 8 | i);
	}
	barrier();
	for (int i = 0; i < pmu.nr; i++) {
		check_eq(rdmsr(ctr_msr(i)), cpu << 20 | i, "CPU %lu, counter %d", cpu, i);
		check_eq(rdmsr(ctl_msr(i)), cpu << 8 | i, "CPU %lu, PERF_CTL%d", cpu, i);
	}
	barrier();
	pmu_reset();
}

/* INIT leaves the registers of the PMU, and the oracle's totals, alone. */
static u64 oracle_before;

static void before_init(void *arg)
{
	const struct seq *s = seq_find("loop_500");

	count_user(0, EV_INSN | CTL_USR, s->fn, NULL, NULL);
	if (pmu.oracle)
		oracle_before = rdmsr(MSR_ORACLE(INSN, 1));
	for (int i = 0; i < pmu.nr; i++) {
		wrmsr(ctr_msr(i), 0x123450000 + i);
		/* User mode, of which there is none around INIT. */
		wrmsr(ctl_msr(i), EV_INSN | CTL_USR | CTL_EN | i << 8);
	}
	if (pmu.v2) {
		wrmsr(MSR_GLOBAL_CTL, 0x15);
		wrmsr(MSR_GLOBAL_SET, 0x2a);
	}
}

static void after_init(void *arg)
{
	for (int i = 0; i < pmu.nr; i++) {
		check_eq(rdmsr(ctr_msr(i)), 0x123450000 + i, "PERF_CTR%d", i);
		check_eq(rdmsr(ctl_msr(i)), EV_INSN | CTL_USR | CTL_EN | i << 8, "PERF_CTL%d", i);
	}
	if (pmu.v2) {
		check_eq(rdmsr(MSR_GLOBAL_CTL), 0x15, "GlobalCtl");
		check_eq(rdmsr(MSR_GLOBAL_STATUS), 0x2a, "GlobalStatus");
	}
	if (pmu.oracle)
		check_eq(rdmsr(MSR_ORACLE(INSN, 1)), oracle_before, "user instructions by the oracle");
	pmu_reset();
	/* And it does count. */
	for_each_ev(ev) {
		const struct seq *s = seq_find("nested");

		check_eq(count_user(ev, ev_select[ev] | CTL_USR, s->fn, NULL, NULL),
			 s->want[ev] + (ev == COND ? 0 : 2), "%s", ev_name[ev]);
	}
}

static void init(void)
{
	int cpu = nr_cpus - 1, again;

	if (!t_begin("smp/init"))
		return;
	if (nr_cpus < 2) {
		t_skip("one CPU only");
		t_end();
		return;
	}
	smp_run_on(cpu, before_init, NULL);
	again = smp_restart(cpu);
	if (again < 0)
		t_skip("too many CPUs");
	else
		smp_run_on(again, after_init, NULL);
	t_end();
	/* The old one is nobody now. */
	nr_cpus--;
}

TESTS(smp_tests)
{
	static const struct {
		const char *name;
		void (*fn)(void *arg);
		u64 arg;
		bool svm;
	} t[] = {
		{ "smp/registers", registers_all, 0, false },
		{ "smp/sequences", count_all, 0, false },
		{ "smp/loops", loops_all, 0, false },
		{ "smp/loops_with_ipis", loops_all, 1, false },
		{ "smp/overflow/NMI", overflow_all, PMI_NMI, false },
		{ "smp/overflow/vector", overflow_all, PMI_VECTOR, false },
		{ "smp/overflow/fetch_fault", fetch_fault, 0, false },
		{ "smp/rearm", rearm_all, 0, false },
		{ "smp/code_rewritten", rewrite_all, 0, false },
		{ "smp/code_written", write_all, 0, false },
		{ "smp/gif", gif, 0, true },
		{ "smp/guests", guests_all, 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		if (!t_begin("%s", t[i].name))
			continue;
		if (nr_cpus < 2 || (t[i].svm && !svm_supported())) {
			t_skip(nr_cpus < 2 ? "one CPU only" : "no SVM");
			t_end();
			continue;
		}
		on_all(reset, NULL);
		if (t[i].fn == rearm_all)
			gate_set(2, nmi_rearm_entry, 0, 1);
		handlers[VEC_IPI] = on_ipi;
		for (int r = 0; r < 3; r++) {
			loops_done = 0;
			on_all(t[i].fn, (void *)t[i].arg);
		}
		gate_reset(2);
		handlers[VEC_IPI] = NULL;
		on_all(reset, NULL);
		t_end();
	}
	init();
}
