// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A nested guest: a hypervisor of a few instructions in 64-bit mode runs a guest
 * of its own by VMRUN.  What that one does counts as the hypervisor's, at its
 * own privilege level.  TAP.
 */
#include <sys/utsname.h>

#include "guests.h"

/* Below the stack is all that code needs; this is for the processor. */
#define PML4		0x9000
#define PDPT		0xa000
#define PD		0xb000
#define HSAVE		0xc000
#define VMCB		0xd000
#define L2_CODE		0x5000
#define L2_STACK	0x7000
#define L2_RIP		(VMCB + 0x578)
#define EXIT_CODE	(VMCB + 0x70)

#define MSR_VM_HSAVE_PA	0xc0010117

/* Leaves with an OUT each time its guest has left; notes where from. */
extern const char l1_start[], l1_end[], l2_start[], l2_jnz[], l2_end[];
asm(".globl l1_start, l1_end, l2_start, l2_jnz, l2_end\n"
    "l1_start:\n"
    "	mov $0xd000, %eax\n"
    "	vmrun %rax\n"
    "	mov 0xd578, %ebx\n"
    "	mov %ebx, 0x2100\n"
    "	movl $0x5000, 0xd578\n"
    "	out %al, $0x10\n"
    "	jmp l1_start\n"
    "l1_end:\n"
    "l2_start:\n"
    "	mov $100, %ecx\n"
    "1:	dec %ecx\n"
    "l2_jnz:\n"
    "	jnz 1b\n"
    "	xor %eax, %eax\n"
    "	cpuid\n"	/* KVM completes it: the hypervisor doesn't ask for it */
    "	vmmcall\n"	/* it does for this one, which isn't executed */
    "l2_end:\n");

#define L1_INSTRUCTIONS	7	/* VMRUN is one of them */
#define L2_INSTRUCTIONS	203
#define L2_BRANCHES	100

static void put(const struct vm *vm, unsigned int address, uint64_t value, unsigned int size)
{
	memcpy(vm->memory + address, &value, size);
}

/* APM vol. 2, appendix B, "VMCB, State Save Area": selector, attributes, limit, base */
static void put_segment(const struct vm *vm, unsigned int offset, uint32_t selector, uint32_t attributes)
{
	put(vm, VMCB + 0x400 + offset, selector | attributes << 16, 4);
	put(vm, VMCB + 0x404 + offset, 0xffffffff, 4);
}

static void make_l2(const struct vm *vm, const struct kvm_sregs *sregs, unsigned int cpl)
{
	memset(vm->memory + VMCB, 0, 4096);
	put(vm, VMCB + 0x00c, 1 << 1, 4);	/* intercepts NMI */
	put(vm, VMCB + 0x010, 3, 4);		/* VMRUN, VMMCALL */
	put(vm, VMCB + 0x058, 1, 4);		/* ASID */
	put_segment(vm, 0x00, 0x10 | cpl, 0xc93 | cpl << 5);
	put_segment(vm, 0x10, 0x08 | cpl, 0x29b | cpl << 5);
	put_segment(vm, 0x20, 0x10 | cpl, 0xc93 | cpl << 5);
	put_segment(vm, 0x30, 0x10 | cpl, 0xc93 | cpl << 5);
	put(vm, VMCB + 0x4cb, cpl, 1);
	put(vm, VMCB + 0x4d0, sregs->efer, 8);
	put(vm, VMCB + 0x548, sregs->cr4, 8);
	put(vm, VMCB + 0x550, sregs->cr3, 8);
	put(vm, VMCB + 0x558, sregs->cr0, 8);
	put(vm, VMCB + 0x560, 0x400, 8);	/* DR7 */
	put(vm, VMCB + 0x568, 0xffff0ff0, 8);	/* DR6 */
	put(vm, VMCB + 0x570, 2, 8);		/* RFLAGS */
	put(vm, L2_RIP, L2_CODE, 8);
	put(vm, VMCB + 0x5d8, L2_STACK, 8);
	put(vm, VMCB + 0x668, 0x0007040600070406, 8);	/* PAT */
}

static struct vm make_l1(struct pmu *pmu, unsigned int cpl)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct kvm_segment data = {
		.limit = 0xffffffff, .selector = 0x10, .type = 3, .present = 1, .db = 1, .s = 1, .g = 1,
	}, code = {
		.limit = 0xffffffff, .selector = 0x08, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1,
	};
	struct kvm_sregs sregs;

	load_code(&vm, l1_start, l1_end, (struct kvm_regs){ });
	memcpy(vm.memory + L2_CODE, l2_start, l2_end - l2_start);
	/* One page of 2 MB, for all */
	put(&vm, PML4, PDPT | 7, 8);
	put(&vm, PDPT, PD | 7, 8);
	put(&vm, PD, 0x87, 8);
	IOCTL(vm.vcpu, KVM_GET_SREGS, &sregs);
	sregs.cr0 = 0x80000031;		/* PG, NE, ET, PE */
	sregs.cr3 = PML4;
	sregs.cr4 = 0x20;		/* PAE */
	sregs.efer = 0x1500;		/* SVME, LMA, LME */
	sregs.cs = code;
	sregs.ds = data;
	sregs.es = data;
	sregs.ss = data;
	sregs.fs = data;
	sregs.gs = data;
	IOCTL(vm.vcpu, KVM_SET_SREGS, &sregs);
	set_msr(&vm, MSR_VM_HSAVE_PA, HSAVE);
	make_l2(&vm, &sregs, cpl);
	set_apic(&vm, APIC_SPIV, 0x1ff);
	set_apic(&vm, APIC_LVTPC, APIC_NMI);
	*pmu = pmu_of(&vm);
	return vm;
}

#define ROUNDS	20

/*
 * Which level the VMRUN itself counts in: KVM up to Linux 6.12 tells of it before it enters the guest,
 * that of 7.2 behind that, which is how AMD CPUs count it.
 */
static bool vmrun_is_l2s;

/* With  counters: when they are all, host perf lends one for each entry. */
static void counts(unsigned int cpl, unsigned int nr)
{
	/* Without OUT, and the JMP behind it, the last time */
	uint64_t l1 = L1_INSTRUCTIONS * ROUNDS - 2, l2 = L2_INSTRUCTIONS * ROUNDS;
	uint64_t l1_branches = ROUNDS - 1, l2_branches = L2_BRANCHES * ROUNDS;
	struct pmu pmu;
	struct vm vm = make_l1(&pmu, cpl);
	unsigned int odd = 0;

	if (cpl && vmrun_is_l2s) {
		l1 -= ROUNDS;
		l2 += ROUNDS;
	}
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | USR | EN, 0);
	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | EN, 0);
	put_counter(&vm, pmu, 2, INSTRUCTIONS | USR | EN, 0);
	put_counter(&vm, pmu, 3, BRANCHES | OS | EN, 0);
	if (nr > 4) {
		put_counter(&vm, pmu, 4, BRANCHES | USR | EN, 0);
		put_counter(&vm, pmu, 5, CONDITIONAL | OS | USR | EN, 0);
	}
	for (int round = 0; round < ROUNDS; round++) {
		run_until(&vm, KVM_EXIT_IO);
		/* #VMEXIT(VMMCALL) */
		odd += *word_at(&vm, EXIT_CODE) != 0x81 ||
		       *word_at(&vm, TABLE) != L2_CODE + (l2_end - l2_start) - 3;
	}
	is(odd, 0, "CPL %u, %u counters: exits that were no VMMCALL", cpl, nr);
	is(counter(&vm, pmu, 0), l1 + l2, "CPL %u, %u counters: instructions", cpl, nr);
	is(counter(&vm, pmu, 1), cpl ? l1 : l1 + l2, "CPL %u, %u counters: instructions of CPL 0", cpl, nr);
	is(counter(&vm, pmu, 2), cpl ? l2 : 0, "CPL %u, %u counters: instructions of user mode", cpl, nr);
	is(counter(&vm, pmu, 3), cpl ? l1_branches : l1_branches + l2_branches,
	   "CPL %u, %u counters: branches of CPL 0", cpl, nr);
	if (nr > 4) {
		is(counter(&vm, pmu, 4), cpl ? l2_branches : 0, "CPL %u, %u counters: branches of user mode", cpl, nr);
		is(counter(&vm, pmu, 5), l2_branches, "CPL %u, %u counters: conditional branches", cpl, nr);
	}
	free_vm(&vm);
}

/* The hypervisor is told by #VMEXIT(NMI), at the instruction. */
static void overflows(unsigned int cpl, uint64_t levels, const char *name)
{
	struct kvm_vcpu_events events;
	struct pmu pmu;
	struct vm vm = make_l1(&pmu, cpl);
	unsigned int wrong = 0;
	uint64_t before;

	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | USR | EN, 0);
	for (unsigned int n = 1; n <= 20; n++) {
		IOCTL(vm.vcpu, KVM_GET_VCPU_EVENTS, &events);
		before = counter(&vm, pmu, 1);
		/* OUT, JMP, MOV, VMRUN but for the first time, and n of the guest */
		put_counter(&vm, pmu, 0, INSTRUCTIONS | levels | INT | EN,
			    NEG((levels & OS ? n == 1 ? 2 : 4 : vmrun_is_l2s) + n));
		run_until(&vm, KVM_EXIT_IO);
		/* MOV, 5 bytes, then DEC and JNZ, 2 each */
		if (*word_at(&vm, EXIT_CODE) != 0x61 ||
		    *word_at(&vm, TABLE) != L2_CODE + 5u + (n % 2 ? 0 : 2)) {
			printf("# N %u: exit %#x at %#x\n", n, *word_at(&vm, EXIT_CODE),
			       *word_at(&vm, TABLE));
			wrong++;
		}
		/* And MOV, MOV, MOV of the hypervisor */
		if (counter(&vm, pmu, 1) - before != (n == 1 ? 2 : 4) + n + 3) {
			printf("# N %u: %llu instructions\n", n,
			       (unsigned long long)(counter(&vm, pmu, 1) - before));
			wrong++;
		}
		/* The NMI waits for the hypervisor's STGI: take it away. */
		IOCTL(vm.vcpu, KVM_GET_VCPU_EVENTS, &events);
		wrong += !events.nmi.pending;
		events.nmi.pending = 0;
		events.nmi.injected = 0;
		IOCTL(vm.vcpu, KVM_SET_VCPU_EVENTS, &events);
	}
	is(wrong, 0, "CPL %u, %s: overflows that aren't where they belong", cpl, name);
	free_vm(&vm);
}

static bool has_svm(const struct vm *vm)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = { .head.nent = 256 };

	IOCTL(vm->kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	for (unsigned int i = 0; i < cpuid.head.nent; i++)
		if (cpuid.entries[i].function == 0x80000001)
			return cpuid.entries[i].ecx & 4;
	return false;
}

int main(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	struct utsname system;

	if (!has_svm(&vm))
		skip_all("this KVM has no nested guests");
	free_vm(&vm);
	uname(&system);
	vmrun_is_l2s = atoi(system.release) >= 7;
	for (unsigned int cpl = 0; cpl <= 3; cpl += 3) {
		counts(cpl, 4);
		if (pmu.nr == NR_CORE)
			counts(cpl, NR_CORE);
		overflows(cpl, OS | USR, "both levels");
		overflows(cpl, cpl ? USR : OS, "its level only");
	}
	return finish();
}
