// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests on Intel: what they count, VM entry's and exit's global control, overflows inside, and
 * the reference for virtual PMUs.
 */
#include "vmx.h"

static u8 vmxon_region[4096] __attribute__((aligned(4096)));
static u8 vmcs_region[4096] __attribute__((aligned(4096)));
static u8 guest_stack[4096] __attribute__((aligned(16)));
static bool launched;
static u64 entries, completed, nmis;

/*
 * u64 vmx_asm(struct vregs *, bool resume): 0 after an exit, 1 after VMfail. The guest runs
 * guest_code with the general registers of the struct.
 */
u64 vmx_asm(struct vregs *r, bool resume);
extern u8 vmx_exit_entry[], vmx_exit_8[], vmx_exit_end[], guest_code[], guest_vmcall[];

asm(
".balign 16\n"
"guest_code:\n"
"	call *%rbx\n"
"guest_vmcall:\n"
"	vmcall\n"
"vmx_asm:\n"
"	push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
"	push %rdi\n"
"	mov $0x6c14, %eax\n"			/* HOST_RSP */
"	vmwrite %rsp, %rax\n"
"	test %sil, %sil\n"
"	mov 0(%rdi), %rax\n"
"	mov 8(%rdi), %rbx\n"
"	mov 16(%rdi), %rcx\n"
"	mov 24(%rdi), %rdx\n"
"	mov 32(%rdi), %rsi\n"
"	mov 48(%rdi), %rbp\n"
"	mov 56(%rdi), %r8\n"
"	mov 64(%rdi), %r9\n"
"	mov 72(%rdi), %r10\n"
"	mov 80(%rdi), %r11\n"
"	mov 88(%rdi), %r12\n"
"	mov 96(%rdi), %r13\n"
"	mov 104(%rdi), %r14\n"
"	mov 112(%rdi), %r15\n"
"	mov 40(%rdi), %rdi\n"
"	jz 1f\n"
"	vmresume\n"
"	jmp 2f\n"
"1:	vmlaunch\n"
"2:	mov $1, %eax\n"
"	pop %rdi\n"
"	jmp 3f\n"
"vmx_exit_entry:\n"
"	push %rdi\n"
"	mov 8(%rsp), %rdi\n"
"	mov %rax, 0(%rdi)\n"
"	mov %rbx, 8(%rdi)\n"
"	mov %rcx, 16(%rdi)\n"
"	mov %rdx, 24(%rdi)\n"
"	mov %rsi, 32(%rdi)\n"
"	mov %rbp, 48(%rdi)\n"			/* 8 */
"vmx_exit_8:\n"
"	mov %r8, 56(%rdi)\n"
"	mov %r9, 64(%rdi)\n"
"	mov %r10, 72(%rdi)\n"
"	mov %r11, 80(%rdi)\n"
"	mov %r12, 88(%rdi)\n"
"	mov %r13, 96(%rdi)\n"
"	mov %r14, 104(%rdi)\n"
"	mov %r15, 112(%rdi)\n"
"	pop %rax\n"
"	mov %rax, 40(%rdi)\n"
"	pop %rdi\n"
"	xor %eax, %eax\n"
"3:	cld\n"
"	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
"vmx_exit_end:\n"
"	ret\n"
);

u64 vmx_enter(struct vregs *r)
{
	entries++;
	if (vmx_asm(r, launched))
		return ~0ull;
	if (!(vmread(EXIT_REASON) & BIT(31)))
		launched = true;
	return vmread(EXIT_REASON);
}

/* SDM vol. 3D appendix A: what has to be 1 and what may be. 48EH lets guests load CR3. */
static u64 allowed(u32 msr, u64 wish)
{
	u64 cap = rdmsr(msr);

	return (wish | (u32)cap) & cap >> 32;
}

static void vmx_on(void)
{
	u64 phys = (u64)vmxon_region;

	if (!(rdmsr(0x3a) & 1))			/* IA32_FEATURE_CONTROL */
		wrmsr(0x3a, 5);
	write_cr4(read_cr4() | BIT(13));	/* VMXE */
	*(u32 *)vmxon_region = rdmsr(0x480);
	asm volatile("vmxon %0" : : "m"(phys) : "cc", "memory");
}

static void vmx_off(void)
{
	asm volatile("vmxoff" : : : "cc", "memory");
	write_cr4(read_cr4() & ~BIT(13));
}

static void segment(int n, u64 sel, u64 ar, u64 base)
{
	vmwrite(0x800 + 2 * n, sel);
	vmwrite(0x4800 + 2 * n, ar & BIT(16) ? 0 : n == 7 ? 0x67 : ~0u);
	vmwrite(0x4814 + 2 * n, ar);
	vmwrite(0x6806 + 2 * n, base);
}

static void guest_start(struct vregs *r, seq_fn fn, u64 guest_global, u64 host_global)
{
	u64 phys = (u64)vmcs_region, gs = rdmsr(MSR_GS_BASE), tr;
	struct {
		u16 limit;
		u64 base;
	} __attribute__((packed)) gdt, idt;
	u64 *desc;

	memset(vmcs_region, 0, sizeof(vmcs_region));
	*(u32 *)vmcs_region = rdmsr(0x480);
	asm volatile("vmclear %0" : : "m"(phys) : "cc", "memory");
	asm volatile("vmptrld %0" : : "m"(phys) : "cc", "memory");
	launched = false;
	entries = completed = nmis = 0;

	asm volatile("sgdt %0" : "=m"(gdt));
	asm volatile("sidt %0" : "=m"(idt));
	desc = (u64 *)(gdt.base + TSS_SEL);
	tr = (desc[0] >> 16 & 0xffffff) | (desc[0] >> 56) << 24 | desc[1] << 32;

	vmwrite(PIN_CTLS, allowed(0x481, PIN_NMI_EXIT));
	vmwrite(CPU_CTLS, allowed(0x48e, CPU_HLT_EXIT | CPU_RDPMC_EXIT));
	vmwrite(EXIT_CTLS, allowed(0x483, EXIT_CTL_HOST64 | EXIT_CTL_LOAD_GLOBAL));
	vmwrite(ENTRY_CTLS, allowed(0x484, ENTRY_CTL_GUEST64 | ENTRY_CTL_LOAD_GLOBAL));
	vmwrite(GUEST_GLOBAL_CTRL, guest_global);
	vmwrite(HOST_GLOBAL_CTRL, host_global);
	vmwrite(0x2800, ~0ull);			/* VMCS link pointer */

	for (int n = 0; n < 6; n++)
		segment(n, n == 1 ? KERNEL_CS : KERNEL_DS, n == 1 ? 0xa09b : 0xc093,
			n == 5 ? gs : 0);
	segment(6, 0, BIT(16), 0);		/* LDTR */
	segment(7, TSS_SEL, 0x8b, tr);
	vmwrite(0x6816, gdt.base);
	vmwrite(0x4810, gdt.limit);
	vmwrite(0x6818, idt.base);
	vmwrite(0x4812, idt.limit);
	vmwrite(0x6800, read_cr0());
	vmwrite(0x6802, read_cr3());
	vmwrite(0x6804, read_cr4());
	vmwrite(0x681a, 0x400);			/* DR7 */
	vmwrite(GUEST_RSP, (u64)guest_stack + sizeof(guest_stack));
	vmwrite(GUEST_RIP, (u64)guest_code);
	vmwrite(0x6820, 2);			/* RFLAGS */

	vmwrite(0xc00, KERNEL_DS);
	vmwrite(0xc02, KERNEL_CS);
	for (int n = 2; n < 6; n++)
		vmwrite(0xc00 + 2 * n, KERNEL_DS);
	vmwrite(0xc0c, TSS_SEL);
	vmwrite(0x6c00, read_cr0());
	vmwrite(0x6c02, read_cr3());
	vmwrite(0x6c04, read_cr4());
	vmwrite(0x6c08, gs);
	vmwrite(0x6c0a, tr);
	vmwrite(0x6c0c, gdt.base);
	vmwrite(0x6c0e, idt.base);
	vmwrite(0x6c16, (u64)vmx_exit_entry);

	*r = (struct vregs){
		.rbx = (u64)fn, .rdi = (u64)buf_a, .rsi = (u64)buf_b,
	};
}

static void complete(void)
{
	vmwrite(GUEST_RIP, vmread(GUEST_RIP) + vmread(EXIT_INSN_LEN));
	completed++;
}

/* To the guest's VMCALL; what it stops at before is completed. */
static bool guest_finish(struct vregs *r)
{
	for (;;) {
		u64 reason = vmx_enter(r), v;

		switch (reason) {
		case REASON_VMCALL:
			return true;
		case REASON_RDMSR:
			v = rdmsr(r->rcx);
			r->rax = (u32)v;
			r->rdx = v >> 32;
			complete();
			break;
		case REASON_WRMSR:
			wrmsr(r->rcx, (u32)r->rax | r->rdx << 32);
			complete();
			break;
		case REASON_CPUID: {
			struct cpuid c = cpuid(r->rax, r->rcx);

			r->rax = c.a;
			r->rbx = c.b;
			r->rcx = c.c;
			r->rdx = c.d;
			complete();
			break;
		}
		case REASON_HLT:
			complete();
			break;
		case REASON_EXCEPTION_NMI:
			nmis++;
			/* NMIs are blocked until an IRET. */
			asm volatile("int %0" : : "i"(VEC_IRETQ) : "memory");
			break;
		default:
			check(false, "exit %lx at %lx", reason, vmread(GUEST_RIP));
			return false;
		}
	}
}

#define GUEST_EXTRA	2	/* CALL and RET */

static u64 oracle(int ev, int mode)
{
	return rdmsr(MSR_ORACLE(ev, mode));
}

static void counts(void)
{
	for_each_seq(s) {
		if (s->flags & SEQ_IF)
			continue;
		if (!t_begin("vmx/count/%s", s->name))
			continue;
		wrmsr(MSR_LSTAR, (u64)syscall_kernel_entry);
		for_each_ev(ev) {
			u64 extra = ev == COND ? 0 : GUEST_EXTRA, before, want;
			struct vregs r;

			guest_start(&r, s->fn, 1, 0);
			wrmsr(MSR_GLOBAL_CTL, 0);
			wrmsr(ctr_msr(0), 0);
			wrmsr(ctl_msr(0), ev_select[ev] | CTL_OS | CTL_EN);
			before = pmu.oracle ? oracle(ev, 2) : 0;
			if (!guest_finish(&r))
				break;
			/* What the hypervisor completes is no branch. */
			want = s->want[ev] + extra - (ev == INSN ? completed : 0);
			check_eq(rdmsr(ctr_msr(0)), want, "%s", ev_name[ev]);
			if (pmu.oracle)
				check_eq(oracle(ev, 2) - before, want, "oracle, %s", ev_name[ev]);
			wrmsr(ctl_msr(0), 0);
		}
		wrmsr(MSR_LSTAR, (u64)syscall_entry);
		t_end();
	}
}

/* Counters that see the host, the guest, both: what they differ in is what the guest does. */
static void global_ctrl(void)
{
	const struct seq *s = seq_find("nested");
	u64 got[4];

	if (!t_begin("vmx/global_ctrl"))
		return;
	for (int i = 0; i < 4; i++) {
		struct vregs r;

		guest_start(&r, s->fn, i & 1, i >> 1);
		wrmsr(ctl_msr(0), 0);
		wrmsr(ctr_msr(0), 0);
		wrmsr(MSR_GLOBAL_CTL, i >> 1);
		wrmsr(ctl_msr(0), EV_INSN | CTL_OS | CTL_EN);
		guest_finish(&r);
		wrmsr(ctl_msr(0), 0);
		check_eq(rdmsr(MSR_GLOBAL_CTL), i >> 1, "loaded at VM exit");
		got[i] = rdmsr(ctr_msr(0));
	}
	check_eq(got[0], 0, "neither");
	check_eq(got[1], s->want[INSN] + GUEST_EXTRA, "guest");
	check_eq(got[3] - got[2], s->want[INSN] + GUEST_EXTRA, "both, less the host");
	check(got[2] > 20, "host");
	t_end();
}

static void save_global_ctrl(void)
{
	struct vregs r;

	if (!t_begin("vmx/save_global_ctrl"))
		return;
	if (!(rdmsr(0x483) >> 32 & EXIT_CTL_SAVE_GLOBAL)) {
		t_skip("no such VM-exit control");
		t_end();
		return;
	}
	/* Without an MSR bitmap the guest's own WRMSR exits: let the hypervisor do it. */
	guest_start(&r, seq_find("nested")->fn, 5, 0);
	vmwrite(EXIT_CTLS, vmread(EXIT_CTLS) | EXIT_CTL_SAVE_GLOBAL);
	check(guest_finish(&r), "the guest ends");
	check_eq(vmread(GUEST_GLOBAL_CTRL), 5, "saved");
	t_end();
}

static void bad_entry(void)
{
	struct vregs r;
	u64 insns;

	if (!t_begin("vmx/bad_global_ctrl"))
		return;
	guest_start(&r, seq_find("nested")->fn, BIT(20), 0);
	insns = pmu.oracle ? oracle(ORACLE_VMRUN, 2) : 0;
	check_eq(vmx_enter(&r), REASON_BAD_GUEST_STATE, "exit");
	if (pmu.oracle)
		check_eq(oracle(ORACLE_VMRUN, 2), insns, "VM entries");
	guest_start(&r, seq_find("nested")->fn, 0, BIT(20));
	check_eq(vmx_enter(&r), ~0ull, "VMfail for the host's");
	t_end();
}

/* Overflow at every instruction of a guest: an exit right behind it. */
static void overflows(void)
{
	for_each_seq(s) {
		if (s->flags & (SEQ_IF | SEQ_NOTRACE | SEQ_SLOW) || s->want[INSN] > 60)
			continue;
		if (!t_begin("vmx/overflow/%s", s->name))
			continue;
		wrmsr(MSR_LSTAR, (u64)syscall_kernel_entry);
		trace_run(s->fn, buf_a, buf_b);
		for_each_ev(ev) {
			/* The trace begins with the WRMSR, which guests don't have. */
			u64 skip = ev == INSN, last = s->want[ev] + (ev != COND);

			for (u64 n = 1; n <= last; n++) {
				struct vregs r;
				u64 reason;

				guest_start(&r, s->fn, 1, 0);
				pmi_start(PMI_NMI);
				wrmsr(MSR_GLOBAL_CTL, 0);
				wrmsr(ctr_msr(0), NEG(n));
				wrmsr(ctl_msr(0), ev_select[ev] | CTL_OS | CTL_INT | CTL_EN);
				reason = vmx_enter(&r);
				if (reason != REASON_EXCEPTION_NMI) {
					/* An instruction that exits is in the way. */
					if (reason == REASON_VMCALL)
						check(false, "%s, N %lu: no exit", ev_name[ev], n);
					else
						check(true, "intercepted");
					wrmsr(ctl_msr(0), 0);
					pmi_stop();
					break;
				}
				check_eq(vmread(GUEST_RIP), trace.next[ev][n - 1 + skip],
					 "%s, N %lu: RIP", ev_name[ev], n);
				check_eq(rdmsr(ctr_msr(0)), 0, "%s, N %lu: counter", ev_name[ev],
					 n);
				check_eq(vmread(EXIT_INTR_INFO) & 0x7ff, 0x202, "NMI");
				check_eq(apic_read(APIC_LVTPC), APIC_DM_NMI | APIC_MASKED, "LVT");
				nmis = 0;
				check(guest_finish(&r), "the guest ends");
				check_eq(nmis, 0, "more NMIs");
				wrmsr(ctl_msr(0), 0);
				pmi_stop();
			}
		}
		wrmsr(MSR_LSTAR, (u64)syscall_entry);
		t_end();
	}
}

/*
 * An interrupt that comes late may do so behind a VM exit: then the host gets it, in the code that
 * vmx_asm() has for exits.
 */
static void skid(void)
{
	const struct seq *s = seq_find("nested");
	u64 last = s->want[INSN] + GUEST_EXTRA;

	if (!t_begin("vmx/skid"))
		return;
	trace_run(s->fn, buf_a, buf_b);
	for (u64 n = 1; n <= last; n++) {
		bool inside = n + pmu.skid <= last;
		struct vregs r;

		guest_start(&r, s->fn, 1, 0);
		pmi_start(PMI_NMI);
		wrmsr(MSR_GLOBAL_CTL, 0);
		wrmsr(ctr_msr(0), NEG(n));
		wrmsr(ctl_msr(0), EV_INSN | CTL_OS | CTL_INT | CTL_EN);
		check_eq(vmx_enter(&r), inside ? REASON_EXCEPTION_NMI : REASON_VMCALL,
			 "N %lu: exit", n);
		check_eq(rdmsr(ctr_msr(0)), inside ? pmu.skid : last - n, "N %lu: counter", n);
		check_eq(rdmsr(MSR_GLOBAL_STATUS), 1, "N %lu: status", n);
		if (inside) {
			/* The trace begins with the WRMSR, which guests don't have. */
			check_eq(vmread(GUEST_RIP), n + pmu.skid == last ? (u64)guest_vmcall :
				 trace.next[INSN][n + pmu.skid], "N %lu: guest's RIP", n);
			nmis = 0;
			check(guest_finish(&r), "the guest ends");
			check_eq(nmis, 0, "more NMIs");
		} else {
			u64 rip = this_cpu()->pmi_rip[0];

			/* VMCALL doesn't retire. */
			if (n + pmu.skid == last + 8)
				check_eq(rip, (u64)vmx_exit_8, "N %lu: host's RIP", n);
			if (pmu.skid <= 16)
				check(rip > (u64)vmx_exit_entry && rip <= (u64)vmx_exit_end,
				      "N %lu: host's RIP %lx", n, rip);
		}
		wrmsr(ctl_msr(0), 0);
		check_eq(pmi_stop(), !inside, "N %lu: interrupts of the host", n);
	}
	t_end();
}

/* A guest that uses a virtual counter; the host gives the right answers, or wrong ones. */
asm(
".balign 16\n"
"guest_counts:\n"
"	mov $0x4c1, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
"	mov $0x38f, %ecx\n mov $1, %eax\n wrmsr\n"
"	mov $0x186, %ecx\n mov $0x4200c0, %eax\n wrmsr\n"	/* 1: counts itself */
"	nop\n nop\n nop\n"					/* 4 */
"	push %rbx\n xor %eax, %eax\n cpuid\n pop %rbx\n"	/* 8 */
"	xor %ecx, %ecx\n"					/* 9 */
"	rdpmc\n"						/* reads 9, 10 */
"	mov $0xc1, %ecx\n"					/* 11 */
"	rdmsr\n"						/* reads 11 */
"	mov $0x186, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
"	ret\n"
);
void guest_counts(void *arg0, void *arg1);

static void reference(void)
{
	static const u64 want[2] = { 9, 11 };

	for (int wrong = 0; wrong < 2; wrong++) {
		u64 checks = rdmsr(0xc0de0010), bad = rdmsr(0xc0de0011), total;
		u64 done = oracle(ORACLE_COMPLETED, 2), entered = oracle(ORACLE_VMRUN, 2);
		u64 left = oracle(ORACLE_VMEXIT, 2);
		struct vregs r;
		int reads = 0;

		if (!t_begin("vmx/reference/%s", wrong ? "wrong" : "right"))
			continue;
		guest_start(&r, guest_counts, 0, 0);
		total = rdmsr(0xc0de0018);
		for (;;) {
			u64 reason = vmx_enter(&r);

			if (reason == REASON_VMCALL)
				break;
			if (reason == REASON_RDMSR || reason == REASON_RDPMC) {
				r.rax = want[reads++ & 1] + wrong;
				r.rdx = 0;
			} else if (reason != REASON_WRMSR && reason != REASON_CPUID) {
				check(false, "exit %lx", reason);
				break;
			}
			complete();
		}
		check_eq(reads, 2, "reads");
		check_eq(rdmsr(0xc0de0010) - checks, 2, "comparisons");
		check_eq(rdmsr(0xc0de0011) - bad, wrong ? 2 : 0, "mismatches");
		if (wrong) {
			check_eq(rdmsr(0xc0de0012), 0xc1, "last MSR");
			check_eq(rdmsr(0xc0de0015), 11, "expected");
			check_eq(rdmsr(0xc0de0016), 12, "got");
		}
		/* Up to the WRMSR that stops, which is on its way at the exit. */
		check_eq(rdmsr(0xc0de0018) - total, 15, "instructions in all");
		check_eq(oracle(ORACLE_COMPLETED, 2) - done, 7, "completed");
		check_eq(oracle(ORACLE_VMRUN, 2) - entered, 8, "VM entries");
		check_eq(oracle(ORACLE_VMEXIT, 2) - left, 8, "VM exits");
		t_end();
	}
}

TESTS(vmx_tests)
{
	if (!pmu.intel || !(cpuid(1, 0).c & BIT(5)))
		return;
	vmx_on();
	counts();
	global_ctrl();
	save_global_ctrl();
	bad_entry();
	overflows();
	skid();
	if (pmu.oracle)
		reference();
	vmx_off();
}
