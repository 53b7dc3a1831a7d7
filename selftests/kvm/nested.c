// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A nested guest: a hypervisor of a few instructions in 64-bit mode runs a guest
 * of its own by VMRUN, or VMLAUNCH and VMRESUME.  What that one does counts as the hypervisor's, at its
 * own privilege level.  TAP.
 */

#include "tap.h"
#include "events.h"
#include "kernel.h"
#include "sampler.h"
#include "stats.h"

/* Below the stack is all that code needs; this is for the processor. */
#define PML4		0x9000
#define PDPT		0xa000
#define PD		0xb000
#define HSAVE		0xc000
#define VMCB		0xd000
#define L2_CODE		0x5000
#define L2_STACK	0x7000
#define ACCESS_CODE	0x1800
#define L2_RIP		(VMCB + 0x578)
#define PERMISSIONS	0xe000	/* two pages, of MSRs */

#define MSR_VM_HSAVE_PA	0xc0010117

/* Intel's: the same pages are VMXON region and VMCS. */
#define VMXON_REGION	HSAVE
#define VMCS		VMCB
#define POINTERS	0x2400	/* to these */
#define FIELDS		0x2410	/* of the VMCS, each with its value, up to NO_FIELD */
#define NO_FIELD	0xffffffff

#define MSR_FEATURE_CONTROL	0x3a
#define MSR_VMX_BASIC		0x480

/* Each hypervisor notes where its guest was, and why it left. */
#define EXIT_IP		TABLE
#define EXIT_CODE	(on_intel() ? TABLE + 4 : VMCB + 0x70u)

/* Leaves with an OUT each time its guest has left; notes where from. */
extern const char l1_start[], l1_end[], l2_start[], l2_jnz[], l2_end[];
asm(".code64\n"
    ".globl l1_start, l1_end, l2_start, l2_jnz, l2_end\n"
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

/* Its first OUT comes before the first VMLAUNCH. */
extern const char intel_l1_start[], intel_l1_exit[], intel_l1_end[], intel_l2_start[], intel_l2_end[];
asm(".globl intel_l1_start, intel_l1_exit, intel_l1_end, intel_l2_start, intel_l2_end\n"
    "intel_l1_start:\n"
    "	vmxon 0x2400\n"
    "	vmclear 0x2408\n"
    "	vmptrld 0x2408\n"
    "	mov $0x2410, %ebx\n"
    "1:	mov (%rbx), %rax\n"
    "	cmp $-1, %eax\n"
    "	je 2f\n"
    "	vmwrite 8(%rbx), %rax\n"
    "	add $16, %ebx\n"
    "	jmp 1b\n"
    "2:	out %al, $0x10\n"
    "	vmlaunch\n"
    "	hlt\n"
    "intel_l1_exit:\n"
    "	mov $0x681e, %eax\n"	/* guest RIP */
    "	vmread %rax, %rbx\n"
    "	mov %ebx, 0x2100\n"
    "	mov $0x4402, %ecx\n"	/* exit reason */
    "	vmread %rcx, %rbx\n"
    "	mov %ebx, 0x2104\n"
    "	mov $0x5000, %ebx\n"
    "	vmwrite %rbx, %rax\n"
    "	out %al, $0x10\n"
    "	vmresume\n"
    "	hlt\n"
    "intel_l1_end:\n"
    "intel_l2_start:\n"
    "	mov $100, %ecx\n"
    "1:	dec %ecx\n"
    "	jnz 1b\n"
    "	xor %eax, %eax\n"
    "	rdpmc\n"	/* in place of CPUID, which always leaves to the hypervisor */
    "	vmcall\n"
    "intel_l2_end:\n");

/*
 * A hypervisor that accesses a counter right before its guest does, which it wants to know of; and how
 * Intel's enters the guest.
 */
extern const char l1_access_start[], l1_launch[], l1_resume[], l1_access_end[], l2_access_start[], l2_access_end[];
extern const char l2_rdmsr_start[], l2_rdmsr[], l2_rdmsr_end[], l2_pause_start[], l2_pause_end[];
asm(".globl l1_access_start, l1_launch, l1_resume, l1_access_end, l2_access_start, l2_access_end\n"
    ".globl l2_rdmsr_start, l2_rdmsr, l2_rdmsr_end, l2_pause_start, l2_pause_end\n"
    "l1_access_start:\n"
    "	mov $1, %ecx\n"
    "	rdpmc\n"
    "	mov $0xd000, %eax\n"
    "	vmrun %rax\n"
    "	out %al, $0x10\n"
    "l1_launch:\n"
    "	mov $1, %ecx\n"
    "	rdpmc\n"
    "	vmlaunch\n"
    "l1_resume:\n"
    "	mov $1, %ecx\n"
    "	rdpmc\n"
    "	vmresume\n"
    "l1_access_end:\n"
    "l2_access_start:\n"
    "	rdpmc\n"
    "l2_access_end:\n"
    "l2_rdmsr_start:\n"
    "	mov $0xc0010203, %ecx\n"	/* PerfCtr1 */
    "l2_rdmsr:\n"
    "	rdmsr\n"
    "	vmmcall\n"
    "l2_rdmsr_end:\n"
    "l2_pause_start:\n"
    "	pause\n"
    "l2_pause_end:\n");

/* Does the hypervisor intercept RDPMC and PAUSE?  AMD's: and all MSRs? */
static bool intercepts_accesses;

/* VMRUN is one of them; so is VMRESUME. */
#define L1_INSTRUCTIONS	(on_intel() ? 10 : 7)
/* Behind the guest, up to its OUT */
#define L1_NOTES	(on_intel() ? 8 : 3)
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
	/* Intercepts NMI */
	put(vm, VMCB + 0x00c, 1 << 1 | intercepts_accesses * (1 << 15 | 1 << 23 | 1 << 28), 4);
	put(vm, VMCB + 0x010, 3, 4);		/* VMRUN, VMMCALL */
	put(vm, VMCB + 0x048, PERMISSIONS, 8);
	memset(vm->memory + PERMISSIONS, 0xff, 2 * 4096);
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

/* SDM vol. 3, appendix "Field Encoding in VMCS"; fields that aren't here are 0. */
static void make_intel_l2(struct vm *vm, const struct kvm_sregs *sregs, unsigned int cpl)
{
	const uint64_t ring = cpl << 5;
	const struct {
		uint64_t field, value;
	} fields[] = {
		/*
		 * Controls: what has to be 1 (SDM vol. 3, appendix "VMX Capability Reporting Facility"),
		 * and exits for NMIs, a 64-bit host, a 64-bit guest
		 */
		{ 0x4000, 0x16 | 1 << 3 }, { 0x4002, (0x0401e172 & ~(3 << 15)) | intercepts_accesses * (1 << 11 | 1 << 30) },
		{ 0x400c, 0x36dff | 1 << 9 }, { 0x4012, 0x11ff | 1 << 9 },
		/* Guest: selectors, limits, access rights of ES, CS, SS, DS, then FS, GS, LDTR, TR */
		{ 0x800, 0x10 | cpl }, { 0x802, 0x08 | cpl }, { 0x804, 0x10 | cpl },
		{ 0x806, 0x10 | cpl }, { 0x80e, 0x18 },
		{ 0x4800, 0xffffffff }, { 0x4802, 0xffffffff }, { 0x4804, 0xffffffff },
		{ 0x4806, 0xffffffff }, { 0x480e, 0x67 },
		{ 0x4814, 0xc093 | ring }, { 0x4816, 0xa09b | ring }, { 0x4818, 0xc093 | ring },
		{ 0x481a, 0xc093 | ring }, { 0x481c, 0x10000 }, { 0x481e, 0x10000 },
		{ 0x4820, 0x10000 }, { 0x4822, 0x8b },
		/* No VMCS link; CR0, CR3, CR4, DR7, RSP, RIP, RFLAGS */
		{ 0x2800, ~0ull }, { 0x6800, sregs->cr0 }, { 0x6802, sregs->cr3 },
		{ 0x6804, sregs->cr4 }, { 0x681a, 0x400 }, { 0x681c, L2_STACK }, { 0x681e, L2_CODE },
		{ 0x6820, 2 },
		/* Host: the same, with RIP behind the guest */
		{ 0xc00, 0x10 }, { 0xc02, 0x08 }, { 0xc04, 0x10 }, { 0xc06, 0x10 }, { 0xc0c, 0x18 },
		{ 0x6c00, sregs->cr0 }, { 0x6c02, sregs->cr3 }, { 0x6c04, sregs->cr4 },
		{ 0x6c14, STACK }, { 0x6c16, CODE + (intel_l1_exit - intel_l1_start) },
		{ NO_FIELD, 0 },
	};
	uint32_t revision = get_msr(vm, MSR_VMX_BASIC);

	/* May use VMXON, and is locked: SDM vol. 3, "Enabling and Entering VMX Operation" */
	set_msr(vm, MSR_FEATURE_CONTROL, 5);
	memset(vm->memory + VMXON_REGION, 0, 4096);
	memset(vm->memory + VMCS, 0, 4096);
	put(vm, VMXON_REGION, revision, 4);
	put(vm, VMCS, revision, 4);
	put(vm, POINTERS, VMXON_REGION, 8);
	put(vm, POINTERS + 8, VMCS, 8);
	memcpy(vm->memory + FIELDS, fields, sizeof(fields));
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

	if (on_intel()) {
		load_code(&vm, intel_l1_start, intel_l1_end, (struct kvm_regs){ });
		memcpy(vm.memory + L2_CODE, intel_l2_start, intel_l2_end - intel_l2_start);
	} else {
		load_code(&vm, l1_start, l1_end, (struct kvm_regs){ });
		memcpy(vm.memory + L2_CODE, l2_start, l2_end - l2_start);
	}
	/* One page of 2 MB, for all */
	put(&vm, PML4, PDPT | 7, 8);
	put(&vm, PDPT, PD | 7, 8);
	put(&vm, PD, 0x87, 8);
	IOCTL(vm.vcpu, KVM_GET_SREGS, &sregs);
	sregs.cr0 = 0x80000031;		/* PG, NE, ET, PE */
	sregs.cr3 = PML4;
	sregs.cr4 = on_intel() ? 0x2120 : 0x20;		/* VMXE, PCE, PAE */
	sregs.efer = on_intel() ? 0x500 : 0x1500;	/* SVME, LMA, LME */
	sregs.cs = code;
	sregs.ds = data;
	sregs.es = data;
	sregs.ss = data;
	sregs.fs = data;
	sregs.gs = data;
	IOCTL(vm.vcpu, KVM_SET_SREGS, &sregs);
	if (on_intel()) {
		make_intel_l2(&vm, &sregs, cpl);
		run_until(&vm, KVM_EXIT_IO);
	} else {
		set_msr(&vm, MSR_VM_HSAVE_PA, HSAVE);
		make_l2(&vm, &sregs, cpl);
	}
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

#define EXIT_NMI	(on_intel() ? 0 : 0x61)
#define EXIT_VMCALL	(on_intel() ? 18 : 0x81)

/* With @nr counters: when they are all, host perf lends one for each entry. */
static void counts(unsigned int cpl, unsigned int nr)
{
	/* AMD's without OUT, and the JMP behind it, the last time; Intel's has its OUT from before. */
	uint64_t l1 = L1_INSTRUCTIONS * ROUNDS - (on_intel() ? 0 : 2), l2 = L2_INSTRUCTIONS * ROUNDS;
	uint64_t l1_branches = on_intel() ? ROUNDS : ROUNDS - 1, l2_branches = L2_BRANCHES * ROUNDS;
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
		odd += *word_at(&vm, EXIT_CODE) != EXIT_VMCALL ||
		       *word_at(&vm, EXIT_IP) != L2_CODE + (l2_end - l2_start) - 3;
	}
	is(odd, 0, "CPL %u, %u counters: exits that were no VMMCALL or VMCALL", cpl, nr);
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

/* What the host does for the nested guest is in its hypervisor's counters, too. */
static void hypervisors_events(void)
{
	struct pmu pmu;
	struct vm vm = make_l1(&pmu, 3);
	int device = open("/dev/kvm-vpmu", O_RDWR);
	uint64_t entries, exits;

	if (device < 0 || set_events(device, &vm, KVM_VPMU_EVENTS_ON))
		err(1, "/dev/kvm-vpmu");
	put_counter(&vm, pmu, 0, event(KVM_VPMU_EVENT_NESTED_ENTRIES) | OS | USR | EN, 0);
	put_counter(&vm, pmu, 1, event(KVM_VPMU_EVENT_EXITS) | OS | USR | EN, 0);
	entries = kvm_stat(&vm, "nested_run");
	exits = kvm_stat(&vm, "exits");
	for (int round = 0; round < ROUNDS; round++)
		run_until(&vm, KVM_EXIT_IO);
	entries = kvm_stat(&vm, "nested_run") - entries;
	check(entries >= ROUNDS, "%llu entries of the nested guest", (unsigned long long)entries);
	is(counter(&vm, pmu, 0), entries, "the event for them");
	is(counter(&vm, pmu, 1), kvm_stat(&vm, "exits") - exits, "all VM exits");
	close(device);
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
		/* AMD: OUT, JMP, MOV, VMRUN but for the first time; Intel: OUT, VMRESUME */
		unsigned int ahead = on_intel() ? 2 : n == 1 ? 2 : 4;

		before = counter(&vm, pmu, 1);
		/* And n of the guest */
		put_counter(&vm, pmu, 0, INSTRUCTIONS | levels | INT | EN,
			    NEG((levels & OS ? ahead : vmrun_is_l2s) + n));
		run_until(&vm, KVM_EXIT_IO);
		/* MOV, 5 bytes, then DEC and JNZ, 2 each */
		if (*word_at(&vm, EXIT_CODE) != (uint32_t)EXIT_NMI ||
		    *word_at(&vm, EXIT_IP) != L2_CODE + 5u + ((n + skid()) % 2 ? 0 : 2)) {
			printf("# N %u: exit %#x at %#x\n", n, *word_at(&vm, EXIT_CODE),
			       *word_at(&vm, EXIT_IP));
			wrong++;
		}
		if (counter(&vm, pmu, 1) - before != ahead + n + skid() + L1_NOTES) {
			printf("# N %u: %llu instructions\n", n,
			       (unsigned long long)(counter(&vm, pmu, 1) - before));
			wrong++;
		}
		/*
		 * AMD: the NMI waits for the hypervisor's STGI.  Take it away.  Intel: it's gone, and others
		 * are blocked until the hypervisor's IRET.  Let them come.
		 */
		IOCTL(vm.vcpu, KVM_GET_VCPU_EVENTS, &events);
		wrong += on_intel() ? events.nmi.pending || !events.nmi.masked : !events.nmi.pending;
		events.nmi.pending = 0;
		events.nmi.injected = 0;
		if (on_intel()) {
			events.nmi.masked = 0;
			set_apic(&vm, APIC_LVTPC, APIC_NMI);
		}
		IOCTL(vm.vcpu, KVM_SET_VCPU_EVENTS, &events);
	}
	is(wrong, 0, "CPL %u, %s: overflows that aren't where they belong", cpl, name);
	free_vm(&vm);
}

#define EXIT_RDPMC	(on_intel() ? 15 : 0x6f)
#define EXIT_MSR	0x7c
#define EXIT_PAUSE	(on_intel() ? 40 : 0x77)

/*
 * The hypervisor makes an access, and then the nested guest the one at @ip of @start, which the hypervisor intercepts
 * by @exit; @off: while no counter counts.
 */
static void intercepted_access(const char *name, const char *start, const char *end, const char *ip, uint32_t exit,
			       bool off)
{
	int device = open("/dev/kvm-vpmu", O_RDWR);
	struct kvm_regs regs;
	struct pmu pmu;
	struct vm vm;

	intercepts_accesses = true;
	vm = make_l1(&pmu, 0);
	intercepts_accesses = false;
	memcpy(vm.memory + L2_CODE, start, end - start);
	memcpy(vm.memory + ACCESS_CODE, l1_access_start, l1_access_end - l1_access_start);
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | EN, 0);
	if (device < 0 || set_events(device, &vm, KVM_VPMU_EVENTS_ON))
		err(1, "/dev/kvm-vpmu");
	close(device);
	put_counter(&vm, pmu, 2, event(KVM_VPMU_EVENT_EXITS_PAUSE) | OS | EN, 0);
	if (off && pmu.v2)
		set_msr(&vm, GLOBAL_CONTROL, 0);
	/* Several times: at first there are exits for page faults between the two accesses. */
	for (unsigned int round = 0; round < 3; round++) {
		const char *from = !on_intel() ? l1_access_start : round ? l1_resume : l1_launch;

		/* The nested guest goes on where it left otherwise: Intel's left right there. */
		if (!on_intel())
			put(&vm, L2_RIP, L2_CODE, 8);
		/* Behind an OUT, or at the start */
		complete(&vm);
		IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
		regs.rip = ACCESS_CODE + (from - l1_access_start);
		IOCTL(vm.vcpu, KVM_SET_REGS, &regs);
		run_until(&vm, KVM_EXIT_IO);
		is(*word_at(&vm, EXIT_CODE), exit, "the hypervisor intercepts %s, %u: exit", name, round);
		is(*word_at(&vm, on_intel() ? EXIT_IP : L2_RIP), L2_CODE + (ip - start),
		   "the hypervisor intercepts %s, %u: RIP", name, round);
	}
	is(counter(&vm, pmu, 2), exit == (uint32_t)EXIT_PAUSE ? 3 : 0, "the hypervisor intercepts %s: PAUSEs", name);
	free_vm(&vm);
}

/* SVM, or VMX */
static bool has_nested(const struct vm *vm)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = { .head.nent = 256 };

	IOCTL(vm->kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	for (unsigned int i = 0; i < cpuid.head.nent; i++) {
		if (cpuid.entries[i].function == 0x80000001 && !on_intel())
			return cpuid.entries[i].ecx & 1 << 2;
		if (cpuid.entries[i].function == 1 && on_intel())
			return cpuid.entries[i].ecx & 1 << 5;
	}
	return false;
}

int main(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	if (!has_nested(&vm))
		skip_all("this KVM has no nested guests");
	free_vm(&vm);
	/* nested_svm_vmrun(): Linux from 7.2 on reports VMRUN when the nested guest has been entered. */
	vmrun_is_l2s = !on_intel() && kernel_at_least(7, 2);
	for (unsigned int cpl = 0; cpl <= 3; cpl += 3) {
		counts(cpl, 4);
		if (pmu.nr >= NR_CORE)
			counts(cpl, NR_CORE);
		overflows(cpl, OS | USR, "both levels");
		overflows(cpl, cpl ? USR : OS, "its level only");
	}
	hypervisors_events();
	/* What KVM completes right behind a VM exit, for a guest */
	intercepted_access("RDPMC", l2_access_start, l2_access_end, l2_access_start, EXIT_RDPMC, false);
	intercepted_access("PAUSE", l2_pause_start, l2_pause_end, l2_pause_start, EXIT_PAUSE, false);
	/* What a guest can access without a VM exit */
	if (!on_intel())
		intercepted_access("RDMSR", l2_rdmsr_start, l2_rdmsr_end, l2_rdmsr, EXIT_MSR, true);
	return finish();
}
