// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests: VMRUN, GuestOnly and HostOnly, exits, and overflows while a guest runs.
 */
#include "svm.h"


struct guest guests[MAX_CPUS];

/* All exits or none, for all guests. */
static u8 msrpm[8192] __attribute__((aligned(4096)));
static u8 iopm[12288] __attribute__((aligned(4096)));

static struct {
	struct vmcb vmcb;
	u8 hsave[4096];
	u8 stack[4096];
	/* Nested page tables: the identity map of start.S, but for NPT_HOLE. */
	u64 npt_pml4[512], npt_pdpt[512], npt_pd[512];
} areas[MAX_CPUS] __attribute__((aligned(4096)));

#define NPT_HOLE	0x4000000ull

extern u64 pml4[512];

/*
 * void guest_enter(u64 vmcb, struct gregs *regs)
 *
 * GIF is 0 before and after. Of interrupts that come meanwhile, IF at VMRUN decides:
 * V_INTR_MASKING.
 */
asm(
"guest_enter:\n"
"	push %rbx\n"
"	push %rbp\n"
"	push %r12\n"
"	push %r13\n"
"	push %r14\n"
"	push %r15\n"
"	push %rsi\n"
"	mov %rdi, %rax\n"
"	mov 0(%rsi), %rbx\n"
"	mov 8(%rsi), %rcx\n"
"	mov 16(%rsi), %rdx\n"
"	mov 32(%rsi), %rdi\n"
"	mov 40(%rsi), %rbp\n"
"	mov 48(%rsi), %r8\n"
"	mov 56(%rsi), %r9\n"
"	mov 64(%rsi), %r10\n"
"	mov 72(%rsi), %r11\n"
"	mov 80(%rsi), %r12\n"
"	mov 88(%rsi), %r13\n"
"	mov 96(%rsi), %r14\n"
"	mov 104(%rsi), %r15\n"
"	mov 24(%rsi), %rsi\n"
"	sti\n"
"	vmrun %rax\n"
"	cli\n"
"	cld\n"
"	xchg %rsi, (%rsp)\n"
"	mov %rbx, 0(%rsi)\n"
"	mov %rcx, 8(%rsi)\n"
"	mov %rdx, 16(%rsi)\n"
"	mov %rdi, 32(%rsi)\n"
"	mov %rbp, 40(%rsi)\n"
"	mov %r8, 48(%rsi)\n"
"	mov %r9, 56(%rsi)\n"
"	mov %r10, 64(%rsi)\n"
"	mov %r11, 72(%rsi)\n"
"	mov %r12, 80(%rsi)\n"
"	mov %r13, 88(%rsi)\n"
"	mov %r14, 96(%rsi)\n"
"	mov %r15, 104(%rsi)\n"
"	pop %rax\n"
"	mov %rax, 24(%rsi)\n"
"	pop %r15\n"
"	pop %r14\n"
"	pop %r13\n"
"	pop %r12\n"
"	pop %rbp\n"
"	pop %rbx\n"
"	ret\n"
);
void guest_enter(u64 vmcb, struct gregs *regs);

/*
 * The guest: RBX is what to call.
 * Counted: VMRUN, where it counts, CALL, the sequence and its RET. VMMCALL is intercepted.
 */
asm(
".balign 16\n"
"guest_call:\n"
"	call *%rbx\n"			/* 1, branch; RET is 2, branch */
"guest_vmmcall:\n"
"	vmmcall\n"
"guest_ud2:\n"
"	ud2\n"
);
#define GUEST_INSNS	2
#define GUEST_BRANCHES	2

const u64 guest_extra[NR_EV] = { GUEST_INSNS, GUEST_BRANCHES, GUEST_BRANCHES, 0 };

/* VMRUN counts as an instruction and a branch; not as one that is taken or conditional. */
u64 vmruns(int ev, u64 n)
{
	return pmu.vmrun_counts && (ev == INSN || ev == BRANCH) ? n : 0;
}

bool svm_supported(void)
{
	return cpuid_has(0x8000000a) && cpuid(0x80000001, 0).c & BIT(2);
}

void svm_enable(bool on)
{
	u64 efer = rdmsr(MSR_EFER) & ~EFER_SVME;

	wrmsr(MSR_EFER, efer | (on ? EFER_SVME : 0));
	if (on)
		wrmsr(MSR_VM_HSAVE_PA, (u64)areas[this_cpu()->cpu].hsave);
}

void intercept(struct vmcb *v, u32 exit)
{
	if (exit < EXIT_CR_WRITE)
		v->cr_read |= 1 << (exit - EXIT_CR_READ);
	else if (exit < EXIT_DR_READ)
		v->cr_write |= 1 << (exit - EXIT_CR_WRITE);
	else if (exit < EXIT_DR_WRITE)
		v->dr_read |= 1 << (exit - EXIT_DR_READ);
	else if (exit < EXIT_EXCP)
		v->dr_write |= 1 << (exit - EXIT_DR_WRITE);
	else if (exit < EXIT_INTR)
		v->exceptions |= 1u << (exit - EXIT_EXCP);
	else if (exit < EXIT_VMRUN)
		v->intercept1 |= 1u << (exit - EXIT_INTR);
	else
		v->intercept2 |= 1u << (exit - EXIT_VMRUN);
}

static void no_intercept(struct vmcb *v, u32 exit)
{
	v->intercept1 &= ~(1u << (exit - EXIT_INTR));
}

void guest_init(int cpl, bool npt, seq_fn fn, void *arg0, void *arg1)
{
	typeof(&areas[0]) a = &areas[this_cpu()->cpu];
	struct guest *g = this_guest();
	struct vmcb *v = &a->vmcb;
	struct {
		u16 limit;
		u64 base;
	} __attribute__((packed)) dt;
	u16 dpl = cpl << 5;

	memset(v, 0, sizeof(*v));
	memset(g, 0, sizeof(*g));
	g->vmcb = v;

	intercept(v, EXIT_VMRUN);
	intercept(v, EXIT_VMMCALL);
	intercept(v, EXIT_NMI);
	intercept(v, EXIT_INTR);
	intercept(v, EXIT_SHUTDOWN);
	v->asid = 1;
	v->tlb_ctl = 1;
	v->int_ctl = V_INTR_MASKING;
	v->msrpm = (u64)msrpm;
	v->iopm = (u64)iopm;
	if (npt) {
		memcpy(a->npt_pml4, pml4, 4096);
		memcpy(a->npt_pdpt, (void *)(pml4[0] & ~0xfffull), 4096);
		memcpy(a->npt_pd, (void *)(a->npt_pdpt[0] & ~0xfffull), 4096);
		a->npt_pml4[0] = (u64)a->npt_pdpt | 7;
		a->npt_pdpt[0] = (u64)a->npt_pd | 7;
		a->npt_pd[NPT_HOLE >> 21] = 0;
		v->nested_ctl = 1;
		v->nested_cr3 = (u64)a->npt_pml4;
	}

	v->cs = (struct vmcb_seg){ cpl ? USER_CS : KERNEL_CS, 0xa9b | dpl, ~0u, 0 };
	v->ss = (struct vmcb_seg){ cpl ? USER_DS : KERNEL_DS, 0xc93 | dpl, ~0u, 0 };
	v->ds = v->ss;
	v->es = v->ss;
	asm volatile("sgdt %0" : "=m"(dt));
	v->gdtr = (struct vmcb_seg){ 0, 0, dt.limit, dt.base };
	asm volatile("sidt %0" : "=m"(dt));
	v->idtr = (struct vmcb_seg){ 0, 0, dt.limit, dt.base };
	v->cpl = cpl;
	v->efer = rdmsr(MSR_EFER);
	v->cr0 = read_cr0();
	v->cr3 = read_cr3();
	v->cr4 = read_cr4();
	v->dr6 = 0xffff0ff0;
	v->dr7 = 0x400;
	v->g_pat = 0x0007040600070406;
	v->rflags = 2;
	v->rip = (u64)guest_call;
	v->rsp = (u64)(a->stack + sizeof(a->stack));
	g->regs.rbx = (u64)fn;
	g->regs.rdi = (u64)arg0;
	g->regs.rsi = (u64)arg1;
}

static inline void clgi(void)
{
	asm volatile("clgi" : : : "memory");
}

static inline void stgi(void)
{
	asm volatile("stgi" : : : "memory");
}

u64 guest_run(void)
{
	clgi();
	this_guest()->entries++;
	guest_enter((u64)this_guest()->vmcb, &this_guest()->regs);
	stgi();
	return this_guest()->vmcb->exit_code;
}

static void take_irqs(void)
{
	asm volatile("sti\n nop\n cli" : : : "memory");
}

bool guest_loop(void)
{
	struct guest *g = this_guest();
	struct vmcb *v = g->vmcb;

	for (;;) {
		u64 exit = guest_run();

		this_guest()->exits[exit == EXIT_NPF ? 0xff : exit & 0xff]++;
		switch (exit) {
		case EXIT_VMMCALL:
			return true;
		case EXIT_INTR:
			take_irqs();
			break;
		case EXIT_NMI:
			break;
		case EXIT_CPUID:
		case EXIT_MSR:
		case EXIT_HLT:
			/* The longest of them has 2 bytes. */
			if (!check(v->next_rip > v->rip && v->next_rip <= v->rip + 2,
				   "next RIP %lx at %lx", v->next_rip, v->rip))
				return false;
			v->rip = v->next_rip;
			break;
		case EXIT_IOIO:
			v->rip = v->exit_info2;
			break;
		case EXIT_NPF:
			areas[this_cpu()->cpu].npt_pd[NPT_HOLE >> 21] = NPT_HOLE | 0x87;
			break;
		default:
			check(false, "exit %lx (%lx, %lx) at %lx", exit, v->exit_info1,
			      v->exit_info2, v->rip);
			return false;
		}
		if (this_guest()->entries > 200000) {
			check(false, "the guest never ends, at %lx", v->rip);
			return false;
		}
	}
}

/*
 * A VMRUN in a sequence of its own, so that the host's part can be counted, too:
 * RDI is the VMCB, RSI points to what becomes RBX, RDI and RSI.
 */
asm(
".balign 16\n"
"svm_shot:\n"
"	mov %rdi, %rax\n"		/* 1 */
"	clgi\n"				/* 2 */
"	mov 0(%rsi), %rbx\n"		/* 3 */
"	mov 8(%rsi), %rdi\n"		/* 4 */
"	mov 16(%rsi), %rsi\n"		/* 5 */
"	vmrun %rax\n"			/* the guest's */
"	stgi\n"				/* 6 */
"	ret\n"				/* the caller's */
);
void svm_shot(void *arg0, void *arg1);

#define SHOT_INSNS	6

static u64 shot(int n, u64 ctl, int cpl, bool npt, const struct seq *s)
{
	u64 regs[3] = { (u64)s->fn, (u64)buf_a, (u64)buf_b };
	u64 got;

	guest_init(cpl, npt, s->fn, buf_a, buf_b);
	got = count_run(n, ctl, svm_shot, this_guest()->vmcb, regs);
	check_eq(this_guest()->vmcb->exit_code, EXIT_VMMCALL, "%s: exit", s->name);
	check_eq(this_guest()->vmcb->rip, (u64)guest_vmmcall, "%s: guest RIP", s->name);
	return got;
}

static void counts(void)
{
	static const struct {
		const char *name;
		u64 bits;
		bool host, guest;
	} f[] = {
		{ "no filter", 0, true, true },
		{ "HostOnly", CTL_HOST, true, false },
		{ "GuestOnly", CTL_GUEST, false, true },
		/* APM vol. 2, "Performance Event-Select Registers": as if both were clear */
		{ "HostOnly and GuestOnly", CTL_HOST | CTL_GUEST, true, true },
	};
	static const struct {
		const char *name;
		u64 bits;
	} m[] = {
		{ "OS", CTL_OS }, { "USR", CTL_USR }, { "OS and USR", CTL_MODES },
		{ "neither OS nor USR", 0 },
	};
	static const u64 host[NR_EV] = { RUN_INSNS + SHOT_INSNS, RUN_BRANCHES, RUN_BRANCHES, 0 };

	for (int i = 0; i < 4; i++) {
		int cpl = i & 1 ? 3 : 0;
		bool npt = i & 2;

		for_each_seq(s) {
			/* Not those that need something of this host's set-up. */
			if (s->flags & SEQ_KERNEL && (cpl || s->flags & SEQ_IF))
				continue;
			if (!t_begin("svm/count/%s%s/%s", cpl ? "user" : "kernel",
				     npt ? "/npt" : "", s->name))
				continue;
			for (size_t fi = 0; fi < ARRAY_SIZE(f); fi++) {
				for (size_t mi = 0; mi < ARRAY_SIZE(m); mi++) {
					for_each_ev(ev) {
						u64 ctl = ev_select[ev] | f[fi].bits | m[mi].bits;
						u64 want = 0;

						if (f[fi].host && m[mi].bits & CTL_OS)
							want += host[ev];
						if (f[fi].guest &&
						    m[mi].bits & (cpl ? CTL_USR : CTL_OS))
							want += s->want[ev] + guest_extra[ev] +
								vmruns(ev, 1);
						check_eq(shot((ev + fi) % pmu.nr, ctl, cpl, npt, s),
							 want, "%s, %s, %s", ev_name[ev],
							 f[fi].name, m[mi].name);
					}
				}
			}
			t_end();
		}
	}
}

/* The filters mean nothing while EFER.SVME is 0. */
asm(
".balign 16\n"
"svme_toggle:\n"
"	nop\n"				/* 3 */
"	nop\n"				/* 4 */
"	mov $0xc0000080, %ecx\n"	/* 5 */
"	mov %edi, %eax\n"		/* 6: with SVME */
"	mov %esi, %r8d\n"		/* 7: without */
"	xor %edx, %edx\n"		/* 8 */
"	wrmsr\n"			/* 9: SVME is 1 from here */
"	nop\n"				/* 10 */
"	nop\n"				/* 11 */
"	mov %r8d, %eax\n"		/* 12 */
"	wrmsr\n"			/* 13: SVME is 0 from here */
"	nop\n"				/* 14 */
"	ret\n"				/* 15, and 3 of the stub */
);
void svme_toggle(void *arg0, void *arg1);

static void svme(void)
{
	const struct seq *s = seq_find("nested");
	u64 efer = rdmsr(MSR_EFER) & ~EFER_SVME;
	static const u64 f[] = { 0, CTL_HOST, CTL_GUEST, CTL_HOST | CTL_GUEST };

	if (t_begin("svm/filters_without_svme")) {
		svm_enable(false);
		for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
			for_each_ev(ev) {
				check_eq(count_run(ev, ev_select[ev] | CTL_OS | f[i], s->fn, buf_a,
						   buf_b),
					 s->want[ev] + (ev == INSN ? RUN_INSNS : ev == COND ? 0 :
							RUN_BRANCHES),
					 "%s, filter %lx, OS", ev_name[ev], f[i] >> 40);
				check_eq(count_user(ev, ev_select[ev] | CTL_USR | f[i], s->fn,
						    buf_a, buf_b),
					 s->want[ev] + (ev == COND ? 0 : 2),
					 "%s, filter %lx, USR", ev_name[ev], f[i] >> 40);
			}
		}
		svm_enable(true);
		/* With it, no guest's counts in the host. */
		check_eq(count_run(0, EV_INSN | CTL_OS | CTL_GUEST, s->fn, buf_a, buf_b), 0,
			 "GuestOnly with SVME");
		check_eq(count_run(0, EV_INSN | CTL_OS | CTL_HOST, s->fn, buf_a, buf_b),
			 s->want[INSN] + RUN_INSNS, "HostOnly with SVME");
		t_end();
	}

	if (t_begin("svm/toggle_svme")) {
		/* The WRMSR belongs to the state that it makes, as the one of PERF_CTL does. */
		for (int i = 0; i < 3; i++) {
			svm_enable(false);
			check_eq(count_run(0, EV_INSN | CTL_OS | CTL_GUEST, svme_toggle,
					   (void *)(efer | EFER_SVME), (void *)efer),
				 8 + (18 - 12), "GuestOnly");
			check_eq(count_run(0, EV_INSN | CTL_OS | CTL_HOST, svme_toggle,
					   (void *)(efer | EFER_SVME), (void *)efer),
				 18, "HostOnly");
		}
		svm_enable(true);
		t_end();
	}
}

/*
 * System calls inside a guest: as count/mode_changes/syscall_int.
 */
static void guest_mode_changes(void)
{
	static const u64 usr[NR_EV] = { 41, 30, 29, 10 }, os[NR_EV] = { 20, 20, 20, 0 };

	if (!t_begin("svm/mode_changes"))
		return;
	for_each_ev(ev) {
		struct seq s = { .name = "user_calls", .fn = user_calls };
		u64 ctl = ev_select[ev] | CTL_GUEST;
		u64 want = usr[ev] + guest_extra[ev] + vmruns(ev, 1);

		check_eq(shot(0, ctl | CTL_USR, 3, false, &s), want, "%s, USR", ev_name[ev]);
		check_eq(shot(0, ctl | CTL_OS, 3, false, &s), os[ev], "%s, OS", ev_name[ev]);
		check_eq(shot(0, ctl | CTL_MODES, 3, false, &s), want + os[ev], "%s, both",
			 ev_name[ev]);
	}
	t_end();
}

u64 guest_count(u64 ctl)
{
	u64 got;

	wrmsr(ctr_msr(0), 0);
	wrmsr(ctl_msr(0), ctl | CTL_EN);
	if (!guest_loop()) {
		wrmsr(ctl_msr(0), 0);
		return ~0ull;
	}
	wrmsr(ctl_msr(0), 0);
	got = rdmsr(ctr_msr(0));
	return got;
}

/* MOV, then EDI turns of an instruction that exits, DEC, JNZ. */
#define STORM(name, insn)						\
asm(									\
".balign 16\n"								\
".globl " #name "\n"							\
#name ":\n"								\
"	mov %edi, %r8d\n"						\
"1:	" insn "\n"							\
"	dec %r8d\n"							\
"	jnz 1b\n"							\
"	ret\n"								\
);									\
void name(void *arg0, void *arg1)

STORM(storm_cpuid, "cpuid");
STORM(storm_rdmsr, "rdmsr");
STORM(storm_hlt, "hlt");
STORM(storm_in, "in $0x80, %al");

static void storms(void)
{
	static const struct {
		const char *name;
		seq_fn fn;
		u32 exit;
		u64 turns;
		bool user;	/* may be executed there */
	} t[] = {
		{ "cpuid", storm_cpuid, EXIT_CPUID, 10000, true },
		{ "rdmsr", storm_rdmsr, EXIT_MSR, 2000, false },
		{ "hlt", storm_hlt, EXIT_HLT, 2000, false },
		{ "in", storm_in, EXIT_IOIO, 2000, false },
	};

	memset(iopm, 0xff, sizeof(iopm));
	memset(msrpm, 0xff, sizeof(msrpm));
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		for (int cpl = 0; cpl <= (t[i].user ? 3 : 0); cpl += 3) {
			if (!t_begin("svm/storm/%s/%s", t[i].name, cpl ? "user" : "kernel"))
				continue;
			for_each_ev(ev) {
				u64 n = t[i].turns, got, entries = n + 1;
				/* MOV, and DEC and JNZ, the last not taken */
				u64 want[NR_EV] = { 1 + 2 * n, n, n - 1, n };
				u64 run, done, exits, mode = cpl ? 3 : 2;

				guest_init(cpl, i & 1, t[i].fn, (void *)n, NULL);
				intercept(this_guest()->vmcb, t[i].exit);
				this_guest()->regs.rcx = 0x1b;
				run = pmu.oracle ? rdmsr(MSR_ORACLE(ORACLE_VMRUN, mode)) : 0;
				done = pmu.oracle ? rdmsr(MSR_ORACLE(ORACLE_COMPLETED, mode)) : 0;
				exits = pmu.oracle ? rdmsr(MSR_ORACLE(ORACLE_VMEXIT, mode)) : 0;
				got = guest_count(ev_select[ev] | CTL_GUEST |
						 (cpl ? CTL_USR : CTL_OS));
				check_eq(got, want[ev] + guest_extra[ev] + vmruns(ev, entries),
					 "%s", ev_name[ev]);
				check_eq(this_guest()->exits[t[i].exit], n, "exits");
				check_eq(this_guest()->entries, entries, "entries");
				if (!pmu.oracle)
					continue;
				check_eq(rdmsr(MSR_ORACLE(ORACLE_VMRUN, mode)) - run, entries,
					 "VMRUNs by the oracle");
				check_eq(rdmsr(MSR_ORACLE(ORACLE_VMEXIT, mode)) - exits, entries,
					 "exits by the oracle");
				check_eq(rdmsr(MSR_ORACLE(ORACLE_COMPLETED, mode)) - done, n,
					 "completed for the guest, by the oracle");
			}
			t_end();
		}
	}
}

/*
 * Interrupts while the guest runs: they exit, and the guest goes on. Nothing is counted but
 * the guest's instructions and VMRUN. A busy host may have no time for the emulator's timers:
 * run until some came.
 */
#define TIMER_TRIES	500

static u64 timed_count(u64 ctl)
{
	u64 got;

	apic_write(APIC_LVTT, APIC_PERIODIC | VEC_TIMER);
	apic_write(APIC_TMICT, 50000);
	got = guest_count(ctl);
	apic_write(APIC_LVTT, APIC_MASKED);
	apic_write(APIC_TMICT, 0);
	take_irqs();
	return got;
}

/* The guest, with @inj injected at its start, of which @extra is counted. */
static void timed_guest(int cpl, bool npt, u64 inj, const u64 *extra)
{
	const struct seq *s = seq_find("loop_million");

	for_each_ev(ev) {
		u64 ctl = ev_select[ev] | CTL_GUEST | (cpl ? CTL_USR : CTL_OS);
		u64 run = MSR_ORACLE(ORACLE_VMRUN, cpl ? 3 : 2);
		u64 done = MSR_ORACLE(ORACLE_COMPLETED, cpl ? 3 : 2), irqs = 0;

		for (int try = 0; try < TIMER_TRIES && irqs < 3; try++) {
			u64 runs = pmu.oracle ? rdmsr(run) : 0;
			u64 dones = pmu.oracle ? rdmsr(done) : 0;
			u64 got;

			guest_init(cpl, npt, s->fn, buf_a, buf_b);
			this_guest()->vmcb->event_inj = inj;
			got = timed_count(ctl);
			irqs += this_guest()->exits[EXIT_INTR];
			check_eq(got, s->want[ev] + guest_extra[ev] + extra[ev] +
				 vmruns(ev, this_guest()->entries), "%s with %lu entries",
				 ev_name[ev], this_guest()->entries);
			if (!pmu.oracle)
				continue;
			check_eq(rdmsr(run) - runs, this_guest()->entries,
				 "VMRUNs by the oracle");
			check_eq(rdmsr(done), dones, "completed, by the oracle");
		}
		check(irqs >= 3, "%lu timer interrupts", irqs);
	}
}

static void asynchronous(void)
{
	static const u64 nothing[NR_EV], iretq[NR_EV] = { 1, 1, 1, 0 };
	const struct seq *s = seq_find("loop_million");

	for (int i = 0; i < 4; i++) {
		int cpl = i & 1 ? 3 : 0;
		bool npt = i & 2;

		if (!t_begin("svm/timer/%s%s", cpl ? "user" : "kernel", npt ? "/npt" : ""))
			continue;
		timed_guest(cpl, npt, 0, nothing);
		t_end();
	}

	/*
	 * The guest begins with an injected interrupt, whose handler is an IRETQ, and another one
	 * that stops the emulator comes later: the first isn't delivered again.
	 */
	if (t_begin("svm/timer/injected")) {
		timed_guest(0, false, VEC_IRETQ | EVENTINJ_VALID, iretq);
		t_end();
	}

	/* Not intercepted: the guest takes them by the IDT that it shares with the host. */
	if (t_begin("svm/timer/not_intercepted")) {
		gate_set(VEC_TIMER, gate_get(VEC_PMI), 0, 0);
		for_each_ev(ev) {
			struct pcpu *p = this_cpu();
			u64 each = ev == INSN ? pmi_insns(PMI_VECTOR) : ev == COND ? 0 : 1;
			u64 irqs = 0;

			for (int try = 0; try < TIMER_TRIES && irqs < 3; try++) {
				u64 got, n = 0;

				guest_init(0, false, s->fn, buf_a, buf_b);
				no_intercept(this_guest()->vmcb, EXIT_INTR);
				this_guest()->vmcb->int_ctl = 0;
				this_guest()->vmcb->rflags = FLAGS_ON;
				p->pmi_count = 0;
				got = timed_count(ev_select[ev] | CTL_GUEST | CTL_OS);
				for (u64 i = 0; i < p->pmi_count && i < PCPU_PMI_SLOTS; i++) {
					u64 rip = p->pmi_rip[i];

					n += rip >= (u64)guest_call && rip <= (u64)guest_vmmcall;
					n += rip >= (u64)s->fn && rip < (u64)s->fn + 16;
				}
				irqs += n;
				check(p->pmi_count < PCPU_PMI_SLOTS, "the log suffices");
				check_eq(this_guest()->entries, 1, "entries");
				check_eq(got, s->want[ev] + guest_extra[ev] + n * each +
					 vmruns(ev, 1), "%s with %lu interrupts", ev_name[ev], n);
			}
			check(irqs >= 3, "%lu timer interrupts", irqs);
		}
		gate_reset(VEC_TIMER);
		t_end();
	}
}

/*
 * Something is pending when the guest is entered: VMRUN is all that counts.
 */
static void pending_at_entry(void)
{
	struct pcpu *p = this_cpu();

	for (int nmi = 0; nmi < 2; nmi++) {
		if (!t_begin("svm/pending_at_entry/%s", nmi ? "nmi" : "intr"))
			continue;
		for (int cpl = 0; cpl <= 3; cpl += 3) {
			for_each_ev(ev) {
				u64 got;

				guest_init(cpl, false, seq_find("one")->fn, NULL, NULL);
				p->irq_count = 0;
				p->pmi_count = 0;
				wrmsr(ctr_msr(0), 0);
				wrmsr(ctl_msr(0), ev_select[ev] | CTL_GUEST | CTL_EN |
				      (cpl ? CTL_USR : CTL_OS));
				clgi();
				apic_icr(p->apic_id, ICR_ASSERT | (nmi ? ICR_NMI : VEC_IPI));
				guest_enter((u64)this_guest()->vmcb, &this_guest()->regs);
				check_eq(p->pmi_count, 0, "NMIs while GIF is 0");
				stgi();
				take_irqs();
				wrmsr(ctl_msr(0), 0);
				got = rdmsr(ctr_msr(0));
				check_eq(this_guest()->vmcb->exit_code, nmi ? EXIT_NMI : EXIT_INTR,
					 "exit");
				check_eq(this_guest()->vmcb->rip, (u64)guest_call, "guest RIP");
				check_eq(this_guest()->vmcb->next_rip, 0, "next RIP");
				check_eq(got, vmruns(ev, 1), "%s", ev_name[ev]);
				check_eq(p->pmi_count, nmi, "NMIs");
				check_eq(p->irq_count, !nmi, "IPIs");
			}
		}
		t_end();
	}
}

/*
 * Where the events of a guest run end: as in trace_run(), with VMRUN in the place of WRMSR,
 * and VMMCALL behind RET.
 */
struct guest_trace {
	u64 nr;
	u64 next[TRACE_MAX];
};

static struct guest_trace gt;

static void guest_trace(int ev)
{
	/* WRMSR and CALL *%rbx are 2 bytes each */
	u64 after_wrmsr = (u64)measure_begin + 2, after_call = after_wrmsr + 2;

	gt.nr = 0;
	if (vmruns(ev, 1))
		gt.next[gt.nr++] = (u64)guest_call;
	for (u64 i = 0; i < trace.nr[ev]; i++) {
		u64 next = trace.next[ev][i];

		if (next == after_wrmsr)
			continue;
		if (next == after_call) {
			gt.next[gt.nr++] = (u64)guest_vmmcall;
			break;
		}
		if (next > after_call && next <= (u64)measure_end)
			break;
		gt.next[gt.nr++] = next;
	}
}

enum how { EXIT_BY_NMI, EXIT_BY_INTR, GUEST_NMI };

static const char *const how_name[] = { "nmi_exit", "intr_exit", "guest_nmi" };

static void guest_overflow(const struct seq *s, int ev, int cpl, enum how how, u64 n)
{
	struct pcpu *p = this_cpu();
	u64 ctl = ev_select[ev] | CTL_GUEST | CTL_INT | CTL_EN | (cpl ? CTL_USR : CTL_OS);
	u64 st, exit, handler = 0, host_rip;
	int c = n % pmu.nr;

	guest_init(cpl, n & 1, s->fn, buf_a, buf_b);
	if (how == GUEST_NMI)
		no_intercept(this_guest()->vmcb, EXIT_NMI);
	pmi_start(how == EXIT_BY_INTR ? PMI_VECTOR : PMI_NMI);
	wrmsr(ctr_msr(c), NEG(n));
	wrmsr(ctl_msr(c), ctl);

	clgi();
	this_guest()->entries++;
	guest_enter((u64)this_guest()->vmcb, &this_guest()->regs);
	check_eq(p->pmi_count, how == GUEST_NMI, "%s, N %lu: interrupts before STGI",
		 ev_name[ev], n);
	/* Not before the STGI, nor later than right behind it. */
	asm volatile("lea 1f(%%rip), %0\n"
		     "stgi\n"
		     "1:	nop\n" : "=r"(host_rip) : : "memory");
	exit = this_guest()->vmcb->exit_code;

	if (how == GUEST_NMI) {
		check_eq(exit, EXIT_VMMCALL, "%s, N %lu: exit", ev_name[ev], n);
		check_eq(p->pmi_count, 1, "%s, N %lu: NMIs", ev_name[ev], n);
		check_eq(p->pmi_rip[0], gt.next[n - 1], "%s, N %lu: RIP", ev_name[ev], n);
		check_eq(p->pmi_cs[0], cpl ? USER_CS : KERNEL_CS, "%s, N %lu: CS", ev_name[ev],
			 n);
		if (!cpl)
			handler = ev == INSN ? NMI_INSNS : ev == COND ? 0 : 1;
	} else {
		check_eq(exit, how == EXIT_BY_NMI ? EXIT_NMI : EXIT_INTR, "%s, N %lu: exit",
			 ev_name[ev], n);
		check_eq(this_guest()->vmcb->rip, gt.next[n - 1], "%s, N %lu: guest RIP", ev_name[ev], n);
		check_eq(this_guest()->vmcb->next_rip, 0, "%s, N %lu: next RIP", ev_name[ev], n);
		check_eq(this_guest()->vmcb->cpl, cpl, "%s, N %lu: CPL", ev_name[ev], n);
		/* The counter is at 0: nothing of the guest is executed behind that. */
		check_eq(rdmsr(ctr_msr(c)), 0, "%s, N %lu: counter at the exit", ev_name[ev], n);
		if (how == EXIT_BY_NMI) {
			check_eq(p->pmi_count, 1, "%s, N %lu: NMIs", ev_name[ev], n);
			check_eq(p->pmi_rip[0], host_rip, "%s, N %lu: host RIP", ev_name[ev], n);
		} else {
			take_irqs();
			check_eq(p->pmi_count, 1, "%s, N %lu: interrupts", ev_name[ev], n);
		}
		guest_loop();
	}
	wrmsr(ctl_msr(c), 0);
	st = pmu.v2 ? rdmsr(MSR_GLOBAL_STATUS) : 0;
	pmi_stop();
	check_eq(p->pmi_count, 1, "%s, N %lu: interrupts in all", ev_name[ev], n);
	if (pmu.v2)
		check_eq(st, BIT(c), "%s, N %lu: status", ev_name[ev], n);
	check_eq(rdmsr(ctr_msr(c)), gt.nr - n + handler + vmruns(ev, this_guest()->entries - 1),
		 "%s, N %lu: counter", ev_name[ev], n);
	check_eq(this_guest()->entries, how == GUEST_NMI ? 1 : 2, "%s, N %lu: entries", ev_name[ev], n);
}

static void overflows(void)
{
	static const char *const names[] = {
		"one", "straight", "straight_600", "loop_10", "nested", "jcc_short", "call_ret",
		"rep_cmps", "rep_pages", "special_user", "page_cross", "chain", "smc_branch",
		"loop_4000",
	};
	static const u64 some[] = { 1, 2, 3, 7, 100, 511, 512, 513, 514, 10000 };

	for (enum how how = EXIT_BY_NMI; how <= GUEST_NMI; how++) {
		for (int cpl = 0; cpl <= 3; cpl += 3) {
			for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
				const struct seq *s = seq_find(names[i]);

				if (!t_begin("svm/overflow/%s/%s/%s", how_name[how],
					     cpl ? "user" : "kernel", s->name))
					continue;
				trace_run(s->fn, buf_a, buf_b);
				for_each_ev(ev) {
					guest_trace(ev);
					check_eq(gt.nr, s->want[ev] + guest_extra[ev] +
						 vmruns(ev, 1), "%s in all", ev_name[ev]);
					if (gt.nr <= 40) {
						for (u64 n = 1; n <= gt.nr; n++)
							guest_overflow(s, ev, cpl, how, n);
						continue;
					}
					for (size_t j = 0; j < ARRAY_SIZE(some) &&
					     some[j] < gt.nr - 2; j++)
						guest_overflow(s, ev, cpl, how, some[j]);
					for (u64 n = gt.nr - 2; n <= gt.nr; n++)
						guest_overflow(s, ev, cpl, how, n);
				}
				t_end();
			}
		}
	}
}

/*
 * A counter that overflows in the guest 1,000 times, set again by the host each time; N
 * instructions of the guest apart, less the VMRUN that counts.
 */
static void rearm(void)
{
	const struct seq *s = seq_find("loop_4000");

	for (int cpl = 0; cpl <= 3; cpl += 3) {
		if (!t_begin("svm/rearm/%s", cpl ? "user" : "kernel"))
			continue;
		trace_run(s->fn, buf_a, buf_b);
		guest_trace(INSN);
		for (u64 n = 2; n <= 11; n += 3) {
			u64 at = n - 1, bad = 0, hits = 0;
			u64 ctl = EV_INSN | CTL_GUEST | CTL_INT | CTL_EN |
				  (cpl ? CTL_USR : CTL_OS);

			guest_init(cpl, false, s->fn, buf_a, buf_b);
			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(n));
			wrmsr(ctl_msr(0), ctl);
			while (hits < 1000 && guest_run() == EXIT_NMI) {
				hits++;
				if (this_guest()->vmcb->rip != gt.next[at] && !bad++)
					check_eq(this_guest()->vmcb->rip, gt.next[at],
						 "N %lu: guest RIP of number %lu", n, hits);
				/* This VMRUN is one of the next n, when it counts. */
				at += n;
				wrmsr(ctr_msr(0), NEG(n + vmruns(INSN, 1)));
			}
			wrmsr(ctl_msr(0), 0);
			check_eq(hits, 1000, "N %lu: exits", n);
			check_eq(bad, 0, "N %lu: wrong RIPs", n);
			check_eq(pmi_stop(), 1000, "N %lu: NMIs", n);
		}
		t_end();
	}
}

/*
 * An overflow in the middle of 10,000 exits. VMRUN, CALL, MOV, and with each exit VMRUN (if it
 * counts), DEC, JNZ.
 */
static void storm_overflow(void)
{
	/* MOV is 3 bytes, CPUID 2, DEC 3, JNZ 2 */
	u64 dec = (u64)storm_cpuid + 5, jnz = dec + 3, cpuid = dec - 2;
	u64 v = vmruns(INSN, 1), first = v + 2, each = v + 2;

	for (int cpl = 0; cpl <= 3; cpl += 3) {
		if (!t_begin("svm/overflow_in_storm/%s", cpl ? "user" : "kernel"))
			continue;
		for (u64 turn = 10; turn <= 10000; turn *= 10) {
			/* VMRUN, DEC or JNZ of that turn */
			for (u64 j = 1; j <= each; j++) {
				u64 n = first + (turn - 1) * each + j, entries = 0, exit = 0;
				u64 rip = j == v ? dec : j == v + 1 ? jnz :
					  turn == 10000 ? jnz + 2 : cpuid;

				guest_init(cpl, cpl, storm_cpuid, (void *)10000, NULL);
				intercept(this_guest()->vmcb, EXIT_CPUID);
				pmi_start(PMI_NMI);
				wrmsr(ctr_msr(1), NEG(n));
				wrmsr(ctl_msr(1), EV_INSN | CTL_GUEST | CTL_INT | CTL_EN |
				      (cpl ? CTL_USR : CTL_OS));
				do {
					exit = guest_run();
					entries++;
					if (exit == EXIT_CPUID)
						this_guest()->vmcb->rip += 2;
				} while (exit == EXIT_CPUID);
				wrmsr(ctl_msr(1), 0);
				check_eq(exit, EXIT_NMI, "N %lu: exit", n);
				check_eq(entries, turn + 1, "N %lu: entries", n);
				check_eq(this_guest()->vmcb->rip, rip, "N %lu: guest RIP", n);
				check_eq(rdmsr(ctr_msr(1)), 0, "N %lu: counter", n);
				check_eq(pmi_stop(), 1, "N %lu: NMIs", n);
			}
		}
		t_end();
	}
}

/*
 * Overflow in the host, with GIF 0: the NMI waits for STGI, or makes an exit before anything of
 * the guest is executed.
 */
asm(
".balign 16\n"
"svm_gif:\n"
"	clgi\n"				/* 3 */
"	nop\n"				/* 4 */
"	nop\n"				/* 5 */
"	nop\n"				/* 6 */
"	stgi\n"				/* 7 */
"svm_gif_7:\n"
"	nop\n"				/* 8 */
"svm_gif_8:\n"
"	nop\n"
"	ret\n"
);
void svm_gif(void *arg0, void *arg1);
extern u8 svm_gif_7[], svm_gif_8[];

static void gif(void)
{
	struct pcpu *p = this_cpu();

	if (t_begin("svm/gif/host")) {
		for (u64 n = 3; n <= 8; n++) {
			u64 count;

			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run(svm_gif, NULL, NULL, ctl_msr(0),
				    EV_INSN | CTL_OS | CTL_HOST | CTL_INT | CTL_EN, FLAGS_OFF);
			count = pmi_stop();
			check_eq(count, 1, "N %lu: NMIs", n);
			check_eq(p->pmi_rip[0], (u64)(n < 8 ? svm_gif_7 : svm_gif_8),
				 "N %lu: RIP", n);
		}
		t_end();
	}

	if (t_begin("svm/gif/vmrun")) {
		/* WRMSR, CALL; MOV is 3, CLGI 4, to 7 MOV; then VMRUN. */
		for (u64 n = 4; n <= 7; n++) {
			u64 regs[3] = { (u64)seq_find("one")->fn, 0, 0 };
			u64 count;

			guest_init(0, false, seq_find("one")->fn, NULL, NULL);
			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(1), 0);
			wrmsr(ctl_msr(1), EV_INSN | CTL_OS | CTL_GUEST | CTL_EN);
			wrmsr(ctr_msr(0), NEG(n));
			measure_run(svm_shot, this_guest()->vmcb, regs, ctl_msr(0),
				    EV_INSN | CTL_OS | CTL_HOST | CTL_INT | CTL_EN, FLAGS_OFF);
			wrmsr(ctl_msr(1), 0);
			count = pmi_stop();
			check_eq(count, 1, "N %lu: NMIs", n);
			check_eq(this_guest()->vmcb->exit_code, EXIT_NMI, "N %lu: exit", n);
			check_eq(this_guest()->vmcb->rip, (u64)guest_call, "N %lu: guest RIP", n);
			check_eq(rdmsr(ctr_msr(1)), vmruns(INSN, 1), "N %lu: of the guest", n);
			/* Behind VMRUN: STGI, RET, 3 of the stub; and the handler. */
			check_eq(rdmsr(ctr_msr(0)), 7 - n + 5 + NMI_INSNS, "N %lu: of the host",
				 n);
		}
		t_end();
	}
}

/*
 * An interrupt that comes late may do so behind a VM exit: then the host gets it, held back while
 * GIF is 0.
 */
asm(
".balign 16\n"
"svm_skid:\n"
"	mov %rdi, %rax\n"
"	clgi\n"
"	mov 0(%rsi), %rbx\n"
"	mov 8(%rsi), %rdi\n"
"	mov 16(%rsi), %rsi\n"
"	vmrun %rax\n"
"	nop\n"				/* 1 since the exit */
"	nop\n"				/* 2 */
"	stgi\n"				/* 3 = SKID_GIF */
"svm_skid_gif:\n"
"	nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n"
"svm_skid_end:\n"
"	nop\n ret\n"
);
void svm_skid(void *arg0, void *arg1);
extern u8 svm_skid_gif[], svm_skid_end[];

#define SKID_GIF	3

static void skid(void)
{
	const struct seq *s = seq_find("nested");
	u64 regs[3] = { (u64)s->fn, (u64)buf_a, (u64)buf_b };

	if (!t_begin("svm/skid"))
		return;
	trace_run(s->fn, buf_a, buf_b);
	guest_trace(INSN);
	for (u64 n = 1; n <= gt.nr; n++) {
		u64 at = n + pmu.skid, st;
		bool inside = at <= gt.nr;

		guest_init(0, false, s->fn, buf_a, buf_b);
		pmi_start(PMI_NMI);
		wrmsr(ctr_msr(0), NEG(n));
		measure_run(svm_skid, this_guest()->vmcb, regs, ctl_msr(0),
			    EV_INSN | CTL_OS | CTL_GUEST | CTL_INT | CTL_EN, FLAGS_OFF);
		for (u64 i = 0; i < pmu.skid; i++)
			asm volatile("nop");
		check_eq(this_guest()->vmcb->exit_code, inside ? EXIT_NMI : EXIT_VMMCALL,
			 "N %lu: exit", n);
		check_eq(rdmsr(ctr_msr(0)), inside ? pmu.skid : gt.nr - n, "N %lu: counter", n);
		st = pmu.v2 ? rdmsr(MSR_GLOBAL_STATUS) : 0;
		check_eq(st, pmu.v2, "N %lu: status", n);
		check_eq(pmi_stop(), 1, "N %lu: interrupts", n);
		if (inside) {
			check_eq(this_guest()->vmcb->rip, gt.next[at - 1], "N %lu: guest RIP", n);
			check_eq(this_cpu()->pmi_rip[0], (u64)svm_skid_gif, "N %lu: RIP", n);
		} else {
			/* VMMCALL doesn't retire. */
			u64 late = at - gt.nr, rip = (u64)svm_skid_gif;

			if (late > SKID_GIF)
				rip += late - SKID_GIF;
			if (rip <= (u64)svm_skid_end)
				check_eq(this_cpu()->pmi_rip[0], rip, "N %lu: host's RIP", n);
		}
	}
	t_end();
}

/*
 * VMRUN overflows a counter and injects an event at once. The event is delivered or still
 * there, the NMI exits before anything else.
 */
static void injection(void)
{
	static const struct {
		const char *name;
		u64 inj;
	} t[] = {
		{ "interrupt", VEC_IRETQ | EVENTINJ_VALID },
		{ "ud", 6 | EVENTINJ_EXCEPTION | EVENTINJ_VALID },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		if (!t_begin("svm/injection/%s", t[i].name))
			continue;
		if (!pmu.vmrun_counts) {
			t_skip("VMRUN doesn't count");
			t_end();
			continue;
		}
		gate_set(6, iretq_entry, 0, 0);
		for (int ev = INSN; ev <= BRANCH; ev++) {
			u64 count, sp;

			guest_init(0, false, seq_find("one")->fn, NULL, NULL);
			sp = this_guest()->vmcb->rsp;
			this_guest()->vmcb->event_inj = t[i].inj;
			pmi_start(PMI_NMI);
			wrmsr(ctr_msr(0), NEG(1));
			wrmsr(ctl_msr(0), ev_select[ev] | CTL_OS | CTL_GUEST | CTL_INT | CTL_EN);
			check_eq(guest_run(), EXIT_NMI, "exit");
			check_eq(rdmsr(ctr_msr(0)), 0, "counter");
			if (this_guest()->vmcb->exit_int_info & EVENTINJ_VALID) {
				/* Not yet: the host has to inject it again. */
				check_eq(this_guest()->vmcb->exit_int_info, t[i].inj, "EXITINTINFO");
				check_eq(this_guest()->vmcb->rip, (u64)guest_call, "guest RIP");
				this_guest()->vmcb->event_inj = t[i].inj;
			} else {
				/* At the first instruction of the handler. */
				check_eq(this_guest()->vmcb->rip, (u64)iretq_entry, "guest RIP");
				check_eq(this_guest()->vmcb->rsp, sp - 40, "guest RSP");
				check_eq(*(u64 *)(sp - 40), (u64)guest_call, "RIP on the stack");
			}
			/* The rest: IRETQ, CALL, NOP, RET and another VMRUN. */
			guest_loop();
			wrmsr(ctl_msr(0), 0);
			count = pmi_stop();
			check_eq(count, 1, "NMIs");
			check_eq(rdmsr(ctr_msr(0)), ev == INSN ? 5 : 4, "%s", ev_name[ev]);
		}
		gate_reset(6);
		t_end();
	}
}

/*
 * An event that VMRUN injects isn't an instruction, the handler's are: those of iretq_entry and
 * of nmi_entry. But a software interrupt was on its way when an exit got in between, and retires
 * now; so it is one more. It goes on at the next RIP, the others at RIP.
 */
static void inject_counts(void)
{
	static const struct {
		const char *name;
		u64 inj, insns;
		bool soft, interrupt;
	} t[] = {
		{ "interrupt", VEC_IRETQ | EVENTINJ_VALID, 1, false, true },
		{ "nmi", 2 | EVENTINJ_NMI | EVENTINJ_VALID, NMI_INSNS, false, true },
		{ "exception", 6 | EVENTINJ_EXCEPTION | EVENTINJ_VALID, 1, false, false },
		{ "software_interrupt", VEC_IRETQ | EVENTINJ_SOFT | EVENTINJ_VALID, 1, true, false },
		{ "int3", 3 | EVENTINJ_EXCEPTION | EVENTINJ_VALID, 1, true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		if (!t_begin("svm/inject_counts/%s", t[i].name))
			continue;
		gate_set(6, iretq_entry, 0, 0);
		gate_set(3, iretq_entry, 3, 0);
		for (int cpl = 0; cpl <= 3; cpl += 3) {
			for (int ev = 0; ev <= NR_EV; ev++) {
				/* The handler, NOP; and the event itself */
				u64 want[] = { t[i].insns + 1 + t[i].soft, 1 + t[i].soft,
					       1 + t[i].soft, 0, t[i].interrupt };
				u64 sel = ev < NR_EV ? ev_select[ev] : EV_INTERRUPT;
				struct vmcb *v;

				guest_init(cpl, false, seq_find("one")->fn, NULL, NULL);
				v = this_guest()->vmcb;
				v->event_inj = t[i].inj;
				if (t[i].soft) {
					v->next_rip = v->rip;
					/* An UD2, if it came back there */
					v->rip = (u64)guest_ud2;
				}
				check_eq(guest_count(sel | CTL_MODES | CTL_GUEST),
					 want[ev] + (ev < NR_EV ? guest_extra[ev] +
						     vmruns(ev, 1) : 0),
					 "event %x, CPL %d", (u32)sel, cpl);
				check_eq(this_guest()->entries, 1, "entries");
			}
		}
		gate_reset(6);
		gate_reset(3);
		t_end();
	}
}

/*
 * The kernel's stack isn't there when the guest's user mode executes INT: an exit in the
 * middle, by a nested page fault. The host injects the interrupt again, as KVM does, and it
 * counts once in all.
 */
asm(
".balign 16\n"
"int_code:\n"
"	nop\n"				/* 1 */
"int_code_int:\n"
"	int $0x81\n"			/* 2, branch 1; exit */
"	nop\n"				/* 3 */
"	int $0x81\n"			/* 4, branch 2 */
"	ret\n"
);
void int_code(void *arg0, void *arg1);
extern u8 int_code_int[];

static void int_exits(void)
{
	static const u64 usr[NR_EV] = { 4, 2, 2, 0 }, os[NR_EV] = { 2, 2, 2, 0 };

	if (!t_begin("svm/int_delivery_exits"))
		return;
	for (int mode = 0; mode < 2; mode++) {
		for_each_ev(ev) {
			struct vmcb *v;

			guest_init(3, true, int_code, NULL, NULL);
			v = this_guest()->vmcb;
			kernel_stack_set(NPT_HOLE + 4096);
			wrmsr(ctr_msr(0), 0);
			wrmsr(ctl_msr(0), ev_select[ev] | CTL_GUEST | CTL_EN |
			      (mode ? CTL_OS : CTL_USR));
			check_eq(guest_run(), EXIT_NPF, "exit");
			check_eq(v->rip, (u64)int_code_int, "guest RIP");
			check_eq(v->exit_int_info, VEC_IRETQ | EVENTINJ_SOFT | EVENTINJ_VALID,
				 "EXITINTINFO");
			areas[this_cpu()->cpu].npt_pd[NPT_HOLE >> 21] = NPT_HOLE | 0x87;
			v->event_inj = v->exit_int_info;
			v->next_rip = v->rip + 2;
			check_eq(guest_run(), EXIT_VMMCALL, "exit");
			check_eq(v->exit_int_info, 0, "EXITINTINFO, nothing interrupted");
			wrmsr(ctl_msr(0), 0);
			kernel_stack_set(0);
			check_eq(rdmsr(ctr_msr(0)), mode ? os[ev] :
				 usr[ev] + guest_extra[ev] + vmruns(ev, 2), "%s, %s", ev_name[ev],
				 mode ? "OS" : "USR");
		}
	}
	t_end();
}

/* A VMRUN that fails counts nowhere: with ASID 0. */
static void invalid_vmrun(void)
{
	if (!t_begin("svm/vmrun_fails"))
		return;
	for_each_ev(ev) {
		static const u64 host[NR_EV] = {
			RUN_INSNS + SHOT_INSNS, RUN_BRANCHES, RUN_BRANCHES, 0
		};
		u64 regs[3] = { (u64)seq_find("one")->fn, 0, 0 };

		for (int filter = 0; filter < 2; filter++) {
			u64 got;

			guest_init(0, false, seq_find("one")->fn, NULL, NULL);
			this_guest()->vmcb->asid = 0;
			got = count_run(0, ev_select[ev] | CTL_OS |
					(filter ? CTL_GUEST : CTL_HOST), svm_shot,
					this_guest()->vmcb, regs);
			check_eq(this_guest()->vmcb->exit_code, ~0ull, "exit");
			check_eq(got, filter ? 0 : host[ev], "%s, %s", ev_name[ev],
				 filter ? "GuestOnly" : "HostOnly");
		}
	}
	t_end();
}

/*
 * Cycles of both contexts: world switches are the host's, and VMRUN, if it counts, is one cycle
 * of the guest. They flush the TLB, so its misses are counted at the same time.
 */
static void guest_cycles(void)
{
	const struct seq *s = seq_find("nested");
	u64 regs[3] = { (u64)s->fn, (u64)buf_a, (u64)buf_b };

	if (t_begin("svm/cycles/guest")) {
		for (int i = 0; i < 4; i++) {
			u64 got, tlb;

			guest_init(i & 1 ? 3 : 0, i & 2, s->fn, buf_a, buf_b);
			wrmsr(ctr_msr(1), 0);
			wrmsr(ctl_msr(1), EV_TLB_MISS | CTL_MODES | CTL_GUEST | CTL_EN);
			got = guest_count(EV_CYCLES | CTL_MODES | CTL_GUEST);
			wrmsr(ctl_msr(1), 0);
			tlb = rdmsr(ctr_msr(1));
			check(tlb > 0, "TLB misses");
			check_eq(got, s->want[INSN] + GUEST_INSNS + vmruns(INSN, 1) +
				 tlb * COST_TLB_MISS, "cycles with %lu TLB misses", tlb);
		}
		t_end();
	}

	if (t_begin("svm/cycles/host")) {
		if (!pmu.v2) {
			t_skip("no PerfMonV2 to start two counters at once");
			t_end();
			return;
		}
		for (int i = 0; i < 3; i++) {
			u64 tlb;

			guest_init(0, false, s->fn, buf_a, buf_b);
			wrmsr(MSR_GLOBAL_CTL, 0);
			wrmsr(ctr_msr(0), 0);
			wrmsr(ctl_msr(0), EV_CYCLES | CTL_MODES | CTL_HOST | CTL_EN);
			wrmsr(ctr_msr(1), 0);
			wrmsr(ctl_msr(1), EV_TLB_MISS | CTL_MODES | CTL_HOST | CTL_EN);
			measure_run(svm_shot, this_guest()->vmcb, regs, MSR_GLOBAL_CTL, 3,
				    FLAGS_OFF);
			tlb = rdmsr(ctr_msr(1));
			check_eq(rdmsr(ctr_msr(0)), RUN_INSNS + SHOT_INSNS + COST_MSR + COST_VMRUN +
				 COST_VMEXIT + tlb * COST_TLB_MISS, "cycles with %lu TLB misses",
				 tlb);
			pmu_reset();
		}
		t_end();
	}
}

/*
 * A virtual interrupt: taken by the guest at once, or intercepted.
 */
#define EXIT_VINTR	0x64

static void virtual_interrupt(void)
{
	if (!t_begin("svm/virtual_interrupt"))
		return;
	for (int ev = 0; ev <= NR_EV; ev++) {
		static const u64 want[] = { 2, 1, 1, 0, 1 };	/* IRETQ, NOP; the interrupt */
		u64 sel = ev < NR_EV ? ev_select[ev] : EV_INTERRUPT;
		u64 ctl = sel | CTL_OS | CTL_GUEST | CTL_EN;
		u64 extra = ev < NR_EV ? guest_extra[ev] : 0;
		struct vmcb *v;

		for (int hooked = 0; hooked < 2; hooked++) {
			guest_init(0, false, seq_find("one")->fn, NULL, NULL);
			v = this_guest()->vmcb;
			v->rflags = FLAGS_ON;
			/* V_IRQ, V_IGN_TPR */
			v->int_ctl |= BIT(8) | BIT(20);
			v->int_vector = VEC_IRETQ;
			wrmsr(ctr_msr(0), 0);
			if (hooked)
				intercept(v, EXIT_VINTR);
			wrmsr(ctl_msr(0), ctl);
			if (hooked) {
				check_eq(guest_run(), EXIT_VINTR, "exit");
				check_eq(v->rip, (u64)guest_call, "guest RIP");
				check_eq(rdmsr(ctr_msr(0)), vmruns(ev, 1), "event %x at the exit",
					 (u32)sel);
				no_intercept(v, EXIT_VINTR);
			}
			check_eq(guest_run(), EXIT_VMMCALL, "exit");
			wrmsr(ctl_msr(0), 0);
			check_eq(rdmsr(ctr_msr(0)), want[ev] + extra + vmruns(ev, 1 + hooked),
				 "event %x", (u32)sel);
		}
	}
	t_end();
}

/* The oracle keeps VMRUN apart from the guest's instructions. */
static void guest_oracle(void)
{
	if (!t_begin("svm/oracle"))
		return;
	if (!pmu.oracle) {
		t_skip("no oracle");
		t_end();
		return;
	}
	/* So that it counts; what doesn't matter. */
	wrmsr(ctl_msr(0), EV_INSN | CTL_MODES | CTL_EN);
	for_each_seq(s) {
		if (s->flags & (SEQ_KERNEL | SEQ_IF))
			continue;
		for (int cpl = 0; cpl <= 3; cpl += 3) {
			u64 before[16], mode = cpl ? 3 : 2;
			static const u64 want[] = { [ORACLE_VMRUN] = 1, [ORACLE_COMPLETED] = 0, [ORACLE_VMEXIT] = 1 };

			guest_init(cpl, cpl, s->fn, buf_a, buf_b);
			for (int ev = 0; ev < 16; ev++)
				before[ev] = rdmsr(MSR_ORACLE(ev, mode));
			guest_run();
			for (int ev = 0; ev < 16; ev++) {
				u64 n = rdmsr(MSR_ORACLE(ev, mode)) - before[ev];

				if (ev < NR_EV)
					check_eq(n, s->want[ev] + guest_extra[ev], "%s, CPL %d, %s",
						 s->name, cpl, ev_name[ev]);
				else if (ev == ORACLE_VMRUN || ev == ORACLE_COMPLETED ||
					 ev == ORACLE_VMEXIT)
					check_eq(n, want[ev], "%s, CPL %d, event %d", s->name, cpl,
						 ev);
			}
		}
	}
	wrmsr(ctl_msr(0), 0);
	t_end();
}

/*
 * Exits by instructions: where they are, what is behind them, and that they don't count. Of
 * control and debug registers number 0 only: QEMU 10.0 takes the intercept bits of that one
 * for all.
 */
#define EXITS(x)							\
	x(0, "cpuid", 2, EXIT_CPUID)					\
	x(1, ".byte 0x66, 0x0f, 0xa2", 3, EXIT_CPUID)			\
	x(2, ".byte 0xf2, 0x2e, 0x0f, 0xa2", 4, EXIT_CPUID)		\
	x(3, "rdmsr", 2, EXIT_MSR)					\
	x(4, "wrmsr", 2, EXIT_MSR)					\
	x(5, "in $0x80, %al", 2, EXIT_IOIO)				\
	x(6, "in %dx, %ax", 2, EXIT_IOIO)				\
	x(7, "out %al, %dx", 1, EXIT_IOIO)				\
	x(8, "outsb", 1, EXIT_IOIO)					\
	x(9, "rep outsb", 2, EXIT_IOIO)					\
	x(10, "hlt", 1, EXIT_HLT)					\
	x(11, "rdtsc", 2, EXIT_RDTSC)					\
	x(12, "rdpmc", 2, EXIT_RDPMC)					\
	x(13, "invlpg (%rdi)", 3, EXIT_INVLPG)				\
	x(14, "mov %cr0, %rax", 3, EXIT_CR_READ)			\
	x(15, "mov %rax, %cr0", 3, EXIT_CR_WRITE)			\
	x(16, "mov %cr0, %r8", 4, EXIT_CR_READ)				\
	x(17, "mov %r8, %cr0", 4, EXIT_CR_WRITE)			\
	x(18, "mov %dr0, %rax", 3, EXIT_DR_READ)			\
	x(19, "mov %rax, %dr0", 3, EXIT_DR_WRITE)			\
	x(20, "wbinvd", 2, EXIT_WBINVD)					\
	x(21, "invd", 2, EXIT_INVD)					\
	x(22, "int $0x81", 2, EXIT_SWINT)				\
	x(23, "pushf", 1, EXIT_PUSHF)					\
	x(24, "popf", 1, EXIT_POPF)					\
	x(25, "iretq", 2, EXIT_IRET)					\
	x(26, "pause", 2, EXIT_PAUSE)					\
	x(27, "sidt (%rdi)", 3, EXIT_IDTR_READ)				\
	x(28, "lidt (%rdi)", 3, EXIT_IDTR_WRITE)			\
	x(29, "sgdt (%rdi)", 3, EXIT_GDTR_READ)				\
	x(30, "lgdt (%rdi)", 3, EXIT_GDTR_WRITE)			\
	x(31, "str %eax", 3, EXIT_TR_READ)				\
	x(32, "vmload", 3, EXIT_VMLOAD)					\
	x(33, "vmsave", 3, EXIT_VMSAVE)					\
	x(34, "stgi", 3, EXIT_STGI)					\
	x(35, "clgi", 3, EXIT_CLGI)					\
	x(36, "vmrun", 3, EXIT_VMRUN)

#define EXIT_ASM(n, insn, len, exit) "	nop\nnrip_" #n ":	" insn "\n"
#define EXIT_DECL(n, insn, len, exit) extern u8 nrip_##n[];
#define EXIT_ROW(n, insn, len, exit) { insn, nrip_##n, len, exit },

/* A NOP before each */
asm(
".balign 16\n"
"nrip_code:\n"
EXITS(EXIT_ASM)
"	ret\n"
);
void nrip_code(void *arg0, void *arg1);
EXITS(EXIT_DECL)

static const struct {
	const char *insn;
	const u8 *rip;
	int len;
	u32 exit;
} exit_list[] = {
	EXITS(EXIT_ROW)
};

static void next_rip(void)
{
	struct vmcb *v = &areas[0].vmcb;
	u64 nr = ARRAY_SIZE(exit_list), got;

	if (t_begin("svm/next_rip/supported")) {
		check_eq(cpuid(0x8000000a, 0).d >> 3 & 1, 1, "CPUID 8000000Ah EDX[3]");
		t_end();
	}
	if (!t_begin("svm/next_rip/instructions"))
		return;
	memset(iopm, 0xff, sizeof(iopm));
	memset(msrpm, 0xff, sizeof(msrpm));
	for_each_ev(ev) {
		guest_init(0, ev & 1, nrip_code, buf_a, buf_b);
		v->intercept1 = ~0u;
		v->intercept2 = ~0u;
		v->cr_read = 0xffff;
		v->cr_write = 0xffff;
		v->dr_read = 0xffff;
		v->dr_write = 0xffff;
		this_guest()->regs.rcx = 1;
		this_guest()->regs.rdx = 0x80;
		wrmsr(ctr_msr(0), 0);
		wrmsr(ctl_msr(0), ev_select[ev] | CTL_OS | CTL_GUEST | CTL_EN);
		for (u64 i = 0; i < nr; i++) {
			const char *insn = exit_list[i].insn;
			u64 rip = (u64)exit_list[i].rip;

			if (!check_eq(guest_run(), exit_list[i].exit, "%s: exit", insn))
				break;
			check_eq(v->rip, rip, "%s: RIP", insn);
			check_eq(v->next_rip, rip + exit_list[i].len, "%s: next RIP", insn);
			if (exit_list[i].exit == EXIT_IOIO)
				check_eq(v->exit_info2, rip + exit_list[i].len,
					 "%s: EXITINFO2", insn);
			v->rip = rip + exit_list[i].len;
		}
		check_eq(guest_run(), EXIT_VMMCALL, "the end");
		check_eq(v->next_rip, (u64)guest_vmmcall + 3, "VMMCALL: next RIP");
		wrmsr(ctl_msr(0), 0);
		got = rdmsr(ctr_msr(0));
		/* The NOPs, CALL and RET, and VMRUNs: none of those that exited. */
		check_eq(got, (ev == INSN ? nr : 0) + guest_extra[ev] + vmruns(ev, nr + 1), "%s",
			 ev_name[ev]);
	}
	t_end();
}

/*
 * Exits that aren't by an instruction have a next RIP of 0; and those faults don't count. INT3
 * would have one (APM vol. 2, "State Saved on Exit"), but QEMU 10.0 never intercepts #BP.
 */
asm(
".balign 16\n"
"nrip_faults:\n"
"	nop\n"				/* 1 */
"nrip_ud:\n"
"	ud2\n"
"	nop\n"				/* 2 */
"nrip_pf:\n"
"	mov 0x40000000, %eax\n"
"	nop\n"				/* 3 */
"nrip_de:\n"
"	div %ebp\n"
"	nop\n"				/* 4 */
"nrip_gp:\n"
"	mov 0(%r8), %rax\n"
"	nop\n"				/* 5 */
"	ret\n"
);
void nrip_faults(void *arg0, void *arg1);
extern u8 nrip_ud[], nrip_pf[], nrip_de[], nrip_gp[];

static void fault_exits(void)
{
	static const struct {
		const char *name;
		const u8 *rip;
		int vec, len;
	} t[] = {
		{ "#UD", nrip_ud, 6, 2 },
		{ "#PF", nrip_pf, 14, 7 },
		{ "#DE", nrip_de, 0, 2 },
		{ "#GP", nrip_gp, 13, 3 },
	};
	struct vmcb *v = &areas[0].vmcb;

	if (!t_begin("svm/next_rip/faults"))
		return;
	win_unmap(0);
	for_each_ev(ev) {
		guest_init(0, false, nrip_faults, NULL, NULL);
		v->exceptions = BIT(6) | BIT(14) | BIT(0) | BIT(13);
		this_guest()->regs.rbp = 0;
		this_guest()->regs.r8 = 1ull << 63;	/* not canonical */
		wrmsr(ctr_msr(0), 0);
		wrmsr(ctl_msr(0), ev_select[ev] | CTL_OS | CTL_GUEST | CTL_EN);
		for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
			if (!check_eq(guest_run(), EXIT_EXCP + t[i].vec, "%s: exit", t[i].name))
				break;
			check_eq(v->rip, (u64)t[i].rip, "%s: RIP", t[i].name);
			check_eq(v->next_rip, 0, "%s: next RIP", t[i].name);
			v->rip += t[i].len;
		}
		check_eq(guest_run(), EXIT_VMMCALL, "the end");
		wrmsr(ctl_msr(0), 0);
		check_eq(rdmsr(ctr_msr(0)), (ev == INSN ? 5 : 0) + guest_extra[ev] +
			 vmruns(ev, ARRAY_SIZE(t) + 1), "%s", ev_name[ev]);
	}
	t_end();
}

/* Nested page faults: the instruction is executed again, and counts once. */
asm(
".balign 16\n"
"npf_code:\n"
"	nop\n"				/* 1 */
"	mov (%rdi), %rax\n"		/* 2, exit */
"	nop\n"				/* 3 */
"	mov %rax, 4096(%rdi)\n"		/* 4 */
"	jmp 1f\n"			/* 5, branch */
"	ud2\n"
"1:	nop\n"				/* 6 */
"	ret\n"
);
void npf_code(void *arg0, void *arg1);

static void nested_faults(void)
{
	static const u64 want[NR_EV] = { 6, 1, 1, 0 };

	if (!t_begin("svm/nested_page_fault"))
		return;
	for (int cpl = 0; cpl <= 3; cpl += 3) {
		for_each_ev(ev) {
			u32 oracle = MSR_ORACLE(ORACLE_COMPLETED, cpl ? 3 : 2);
			u64 got, done = pmu.oracle ? rdmsr(oracle) : 0;

			guest_init(cpl, true, npf_code, (void *)NPT_HOLE, NULL);
			got = guest_count(ev_select[ev] | CTL_GUEST | (cpl ? CTL_USR : CTL_OS));
			/* It is the guest that completes the instruction. */
			if (pmu.oracle)
				check_eq(rdmsr(oracle), done, "completed, by the oracle");
			check_eq(this_guest()->exits[0xff], 1, "nested page faults");
			check_eq(got, want[ev] + guest_extra[ev] + vmruns(ev, 2), "%s, CPL %d",
				 ev_name[ev], cpl);
		}
	}
	t_end();
}

/*
 * The guest reads and writes the counter itself, not intercepted: t-regs.c's read_running(),
 * where VMRUN is in the place of WRMSR.
 */
static void guest_access(void)
{
	static const u32 want[] = {
		5, 7, 10, 13, 18, 101, 106 + 18, 106 + 12, 106 + 6, 106,
	};
	u32 *got = (u32 *)buf_a;

	if (t_begin("svm/read_running")) {
		for (int i = 0; i < 2; i++) {
			memset(buf_a, 0, sizeof(want));
			wrmsr(ctr_msr(0), 0);
			guest_init(0, i, read_running, got, (void *)(u64)ctr_msr(0));
			guest_count(EV_INSN | CTL_OS | CTL_GUEST);
			/* Behind the guest's WRMSR of 100 the VMRUN is forgotten. */
			for (size_t j = 0; j < ARRAY_SIZE(want); j++)
				check_eq(got[j], want[j] - (j < 5 && !pmu.vmrun_counts),
					 "reading %lu", j);
		}
		t_end();
	}

	/* The oracle's window isn't for guests. */
	if (t_begin("svm/oracle_is_the_hosts")) {
		if (!pmu.oracle) {
			t_skip("no oracle");
			t_end();
			return;
		}
		guest_init(0, false, storm_rdmsr, (void *)1, NULL);
		this_guest()->vmcb->exceptions = BIT(13);
		this_guest()->regs.rcx = 0xc0de0000;
		check_eq(guest_run(), EXIT_EXCP + 13, "exit of the guest's RDMSR");
		t_end();
	}
}

/*
 * The oracle's reference for a virtual PMU: with accesses to the PMU intercepted, it knows what
 * the guest has to read. This host reads and writes for the guest, right or wrong on purpose.
 *
 * Guest instructions since the WRMSR that starts a counter, which counts: as numbered; those
 * that exit are completed by the host.
 */
asm(
".balign 16\n"
"ref_code:\n"
"	mov $0xc0000301, %ecx\n"	/* GlobalCtl */
"	mov $0x3f, %eax\n"
"	xor %edx, %edx\n"
"	wrmsr\n"
"	mov $0xc0010201, %ecx\n"
"	xor %eax, %eax\n"
"	wrmsr\n"			/* PERF_CTR0 = 0 */
"	mov $0xc0010200, %ecx\n"
"	mov %esi, %eax\n"
"	wrmsr\n"			/* 1 */
"	nop\n"				/* 2 */
"	nop\n"				/* 3 */
"	jmp 1f\n"			/* 4, branch 1 */
"	ud2\n"
"1:	mov $0xc0010201, %ecx\n"	/* 5 */
"ref_read_1:\n"
"	rdmsr\n"			/* 6: reads 5; branches 1 */
"	mov %eax, (%rdi)\n"		/* 7 */
"	cpuid\n"			/* 8 */
"	xor %ecx, %ecx\n"		/* 9 */
"	jz 1f\n"			/* 10, branch 2 */
"	ud2\n"
"1:	nop\n"				/* 11 */
"ref_read_2:\n"
"	rdpmc\n"			/* 12: reads 11; branches 2 */
"	mov $0xc0010200, %ecx\n"	/* 13 */
"	xor %eax, %eax\n"		/* 14 */
"	wrmsr\n"			/* stops */
"	nop\n"
"	mov $0xc0010201, %ecx\n"
"ref_read_3:\n"
"	rdmsr\n"			/* reads 14; branches 2 */
"	ret\n"
);
void ref_code(void *arg0, void *arg1);
extern u8 ref_read_1[], ref_read_2[], ref_read_3[];

#define REFERENCE(n)	(0xc0de0010 + (n))
enum { REF_CHECKS, REF_MISMATCHES, REF_MSR, REF_EVENT, REF_RIP, REF_EXPECTED, REF_GOT };

static void reference(void)
{
	static const u64 insns[] = { 5, 11, 14 }, branches[] = { 1, 2, 2 };
	const u8 *const at[] = { ref_read_1, ref_read_2, ref_read_3 };
	u64 v;

	if (!t_begin("svm/reference"))
		return;
	if (!pmu.oracle || rdmsr_safe(REFERENCE(REF_CHECKS), &v) != NO_FAULT) {
		t_skip("no reference");
		t_end();
		return;
	}
	memset(msrpm, 0xff, sizeof(msrpm));
	for (int ev = INSN; ev <= BRANCH; ev++) {
		/* Which reading to falsify; 3 for none */
		for (int wrong = 0; wrong <= 3; wrong++) {
			const u64 *want = ev == INSN ? insns : branches;
			u64 checks = rdmsr(REFERENCE(REF_CHECKS));
			u64 mismatches = rdmsr(REFERENCE(REF_MISMATCHES));
			struct vmcb *g;
			u64 exit;

			/* The oracle counts while a counter does. */
			wrmsr(ctl_msr(0), EV_INSN | CTL_OS | CTL_EN);
			guest_init(0, false, ref_code, buf_a,
				   (void *)(ev_select[ev] | CTL_MODES | CTL_EN));
			g = this_guest()->vmcb;
			intercept(g, EXIT_MSR);
			intercept(g, EXIT_RDPMC);
			intercept(g, EXIT_CPUID);
			while ((exit = guest_run()) == EXIT_MSR || exit == EXIT_RDPMC ||
			       exit == EXIT_CPUID) {
				for (int i = 0; i < 3; i++) {
					if (g->rip != (u64)at[i])
						continue;
					g->rax = want[i] + (i == wrong);
					this_guest()->regs.rdx = 0;
				}
				if (!check(g->next_rip == g->rip + 2, "next RIP"))
					break;
				g->rip = g->next_rip;
			}
			wrmsr(ctl_msr(0), 0);
			check_eq(exit, EXIT_VMMCALL, "the end");
			check_eq(rdmsr(REFERENCE(REF_CHECKS)) - checks, 3, "%s: checks",
				 ev_name[ev]);
			check_eq(rdmsr(REFERENCE(REF_MISMATCHES)) - mismatches, wrong < 3,
				 "%s, wrong reading %d: mismatches", ev_name[ev], wrong);
			if (wrong == 3)
				continue;
			check_eq(rdmsr(REFERENCE(REF_RIP)), (u64)at[wrong], "RIP");
			check_eq(rdmsr(REFERENCE(REF_EXPECTED)), want[wrong], "expected");
			check_eq(rdmsr(REFERENCE(REF_GOT)), want[wrong] + 1, "got");
			check_eq(rdmsr(REFERENCE(REF_MSR)), MSR_CORE_CTR, "MSR");
		}
	}
	pmu_reset();
	t_end();
}

TESTS(svm_tests)
{
	if (!svm_supported()) {
		if (t_begin("svm")) {
			t_skip("no SVM");
			t_end();
		}
		return;
	}
	svme();
	svm_enable(true);
	counts();
	guest_mode_changes();
	storms();
	asynchronous();
	pending_at_entry();
	overflows();
	rearm();
	storm_overflow();
	gif();
	skid();
	injection();
	inject_counts();
	int_exits();
	invalid_vmrun();
	guest_cycles();
	virtual_interrupt();
	guest_oracle();
	next_rip();
	fault_exits();
	nested_faults();
	guest_access();
	reference();
	svm_enable(false);
}
