// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest in user mode: what KVM does for it counts at its privilege level, and an overflow comes at
 * its instruction though the level changed right before a VM entry.  TAP.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "tap.h"
#include "events.h"
#include "guests.h"
#include "long_mode.h"
#include "sampler.h"
#include "smm.h"

#define ROUNDS	1000

/* For the processor, where the code isn't; and handlers for NMIs and for the others */
#define GDT		0x9000
#define IDT		0xa000
#define TSS		0xb000
#define HANDLER		0xc000
#define IRET_HANDLER	0xc100
#define KERNEL_STACK	0xe000
/* Selector; those of user mode are long_mode.c's. */
#define KERNEL_CS	0x20
/* Of an interrupt */
#define VECTOR		0x40

static const struct mode user = { .name = "user mode", .levels = 4, .leaf = 2, .user = true };

/* Where the guest has the local APIC, behind its memory; APM vol. 2, "Interrupt Command Register" */
#define GUEST_APIC	0x400000

extern const char cpuids_start[], cpuids_end[], nops_start[], nops[], nops_end[];
extern const char smi_start[], smi_nops[], smi_end[];
extern const char handler_start[], handler_end[], rsm_start[], rsm_end[];
extern const char int1s_start[], int1s_end[], iret_start[], iret_end[];
extern const char ipi_start[], ipi_behind[], ipi_end[];
asm(".globl cpuids_start, cpuids_end, nops_start, nops, nops_end\n"
    ".globl handler_start, handler_end, rsm_start, rsm_end, smi_start, smi_nops, smi_end\n"
    ".globl int1s_start, int1s_end, iret_start, iret_end, ipi_start, ipi_behind, ipi_end\n"
    "cpuids_start:\n"
    "1:	xor %eax, %eax\n"
    "	cpuid\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "cpuids_end:\n"
    "int1s_start:\n"
    "1:	.byte 0xf1\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "int1s_end:\n"
    "iret_start:\n"
    "	iretq\n"
    "iret_end:\n"
    "nops_start:\n"
    "	out %al, $0x10\n"
    "nops:\n"
    "	.fill 50, 1, 0x90\n"
    "	out %al, $0x10\n"
    "nops_end:\n"
    "smi_start:\n"
    "	out %al, $0x10\n"
    "	movl $0x4200, 0x400300\n"	/* an SMI to itself */
    "	out %al, $0x10\n"
    "	movl $0x4200, 0x400300\n"
    "smi_nops:\n"
    "	.fill 50, 1, 0x90\n"
    "	out %al, $0x10\n"
    "smi_end:\n"
    "ipi_start:\n"
    "	sti\n"
    "	out %al, $0x10\n"
    "	movl $0x4040, 0x400300\n"	/* an interrupt to itself */
    "ipi_behind:\n"
    "	nop\n"
    "	out %al, $0x10\n"
    "ipi_end:\n"
    "handler_start:\n"
    "	mov (%rsp), %rax\n"
    "	mov %eax, 0x2204\n"
    "	incl 0x2200\n"
    "	out %al, $0x10\n"
    "handler_end:\n"
    "rsm_start:\n"
    "	rsm\n"
    "rsm_end:\n");

static void emulated(void)
{
	struct vm vm;
	struct pmu pmu;

	if (!make_long_mode(&vm, &user, cpuids_start, cpuids_end, (struct kvm_regs){ .rsi = ROUNDS }))
		errx(1, "no 64-bit mode");
	pmu = pmu_of(&vm);
	put_counter(&vm, pmu, 0, INSTRUCTIONS | USR | EN, 0);
	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | EN, 0);
	put_counter(&vm, pmu, 2, INSTRUCTIONS | OS | USR | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), 4 * ROUNDS, "CPUID in user mode: instructions of user mode");
	is(counter(&vm, pmu, 1), 0, "CPUID in user mode: of the kernel");
	is(counter(&vm, pmu, 2), 4 * ROUNDS, "CPUID in user mode: of both");
	free_vm(&vm);
}

static uint64_t *long_at(const struct vm *vm, unsigned int address)
{
	return (uint64_t *)(vm->memory + address);
}

/* Interrupts go to handlers at level 0. */
static void make_kernel(struct vm *vm)
{
	struct kvm_sregs sregs;
	uint64_t stack = KERNEL_STACK;

	memcpy(vm->memory + HANDLER, handler_start, handler_end - handler_start);
	memcpy(vm->memory + IRET_HANDLER, iret_start, iret_end - iret_start);
	/* APM vol. 2, "Legacy Segment Descriptors", "64-Bit Interrupt-Gate", "64-Bit Task State Segment" */
	*long_at(vm, GDT + 0x08) = 0x00affb000000ffff;
	*long_at(vm, GDT + 0x10) = 0x00cff3000000ffff;
	*long_at(vm, GDT + KERNEL_CS) = 0x00af9b000000ffff;
	*long_at(vm, IDT + 1 * 16) = 0x00008e0000000000 | KERNEL_CS << 16 | IRET_HANDLER;
	*long_at(vm, IDT + 2 * 16) = 0x00008e0000000000 | KERNEL_CS << 16 | HANDLER;
	*long_at(vm, IDT + VECTOR * 16) = 0x00008e0000000000 | KERNEL_CS << 16 | IRET_HANDLER;
	memcpy(vm->memory + TSS + 4, &stack, sizeof(stack));
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.gdt = (struct kvm_dtable){ .base = GDT, .limit = KERNEL_CS + 7 };
	sregs.idt = (struct kvm_dtable){ .base = IDT, .limit = VECTOR * 16 + 15 };
	sregs.tr = (struct kvm_segment){ .base = TSS, .limit = 0x67, .type = 11, .present = 1, .selector = 0x18 };
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
}

/* From Linux 7.3 on, KVM emulates it on AMD's hosts.  On Intel's it does so on any, and INT1 isn't counted. */
static void int1(void)
{
	struct pmu pmu;
	struct vm vm;

	if (on_intel()) {
		skip("KVM completes INT1 where nothing can be hooked", "INT1 in user mode");
		return;
	}
	if (!make_long_mode(&vm, &user, int1s_start, int1s_end, (struct kvm_regs){ .rsi = ROUNDS }))
		errx(1, "no 64-bit mode");
	make_kernel(&vm);
	pmu = pmu_of(&vm);
	put_counter(&vm, pmu, 0, INSTRUCTIONS | USR | EN, 0);
	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | EN, 0);
	put_counter(&vm, pmu, 2, BRANCHES | USR | EN, 0);
	put_counter(&vm, pmu, 3, BRANCHES | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), 3 * ROUNDS, "INT1 in user mode: instructions of user mode");
	is(counter(&vm, pmu, 1), ROUNDS, "INT1 in user mode: of the kernel");
	is(counter(&vm, pmu, 2), 2 * ROUNDS, "INT1 in user mode: branches of user mode");
	is(counter(&vm, pmu, 3), ROUNDS, "INT1 in user mode: of the kernel");
	free_vm(&vm);
}

/* At level 3, with a handler for NMIs, and the local APIC, behind its first OUT */
static void make_user(struct vm *vm, const char *start, const char *end)
{
	struct mode m = user;

	m.apic = true;
	if (!make_long_mode(vm, &m, start, end, (struct kvm_regs){ }))
		errx(1, "no 64-bit mode");
	make_kernel(vm);
	/* The guest's page table of 2-MiB pages */
	table(vm, 12)[GUEST_APIC >> 21] = 0xfee00000 | PRESENT | WRITABLE | USER | LARGE;
	set_apic(vm, APIC_SPIV, 0x1ff);
	set_apic(vm, APIC_LVTPC, APIC_NMI);
	run_until(vm, KVM_EXIT_IO);
}

/*
 * The vCPU is loaded at level 3, and first enters SMM, which is level 0.  A counter of user mode that is about to
 * overflow was armed for an entry at level 3.  @completed: KVM completes the OUT that the vCPU left with first.
 */
static void smi_first(bool completed, const char *name)
{
	struct vm vm;

	make_user(&vm, nops_start, nops_end);
	handle_smis(&vm, SIZE, rsm_start, rsm_end);
	if (completed)
		complete(&vm);
	put_counter(&vm, pmu_of(&vm), 0, INSTRUCTIONS | USR | INT | EN, NEG(20 + !completed));
	IOCTL(vm.vcpu, KVM_SMI, NULL);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 1, "%s: interrupts", name);
	if (skid())
		skip("interrupts come late", "%s: NOPs until the interrupt", name);
	else
		/* KVM completes the RSM at the level that RSM returns to. */
		is(*word_at(&vm, LAST_IP) - (CODE + (nops - nops_start)), 19, "%s: NOPs until the interrupt", name);
	free_vm(&vm);
}

/*
 * KVM emulates an instruction of level 3, and an SMI comes before the VM entry that would make up for it.  Nothing has
 * armed the counter in between, as KVM has seen all that once, unless the thread had to wait.  Returns which NOP the
 * interrupt came behind.
 */
static uint32_t smi_to_itself(void)
{
	uint32_t nth;
	struct vm vm;

	make_user(&vm, smi_start, smi_end);
	handle_smis(&vm, SIZE, rsm_start, rsm_end);
	run_until(&vm, KVM_EXIT_IO);
	complete(&vm);
	put_counter(&vm, pmu_of(&vm), 0, INSTRUCTIONS | USR | INT | EN, NEG(20));
	run_until(&vm, KVM_EXIT_IO);
	nth = *word_at(&vm, LAST_IP) - CODE - (smi_nops - smi_start);
	free_vm(&vm);
	return nth;
}

static void smis_to_itself(void)
{
	unsigned int exact = 0;

	if (skid()) {
		skip("interrupts come late", "SMIs to itself");
		return;
	}
	for (unsigned int i = 0; i < 10; i++)
		exact += smi_to_itself() == 18;
	is(exact, 10, "SMIs to itself: exact interrupts");
}

/*
 * KVM emulates an instruction, which sends the vCPU an interrupt, and that overflows a counter of emulated instructions:
 * NMIs have a higher priority (APM vol. 2, "Priorities").
 */
static void nmi_before_interrupt(void)
{
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	struct vm vm;

	if (on_intel()) {
		skip("the CPU completes accesses to the local APIC", "an interrupt at the same time");
		close(device);
		return;
	}
	make_user(&vm, ipi_start, ipi_end);
	if (set_events(device, &vm, KVM_VPMU_EVENTS_ON))
		err(1, "the hypervisor's events");
	complete(&vm);
	put_counter(&vm, pmu_of(&vm), 0, event(KVM_VPMU_EVENT_EMULATED) | OS | USR | INT | EN, NEG(1));
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 1, "an interrupt at the same time: NMIs");
	is(*word_at(&vm, LAST_IP), CODE + (ipi_behind - ipi_start), "an interrupt at the same time: comes behind the NMI");
	free_vm(&vm);
	close(device);
}

int main(void)
{
	struct vm vm = make_vm(true);

	emulated();
	int1();
	nmi_before_interrupt();
	if (ioctl(vm.fd, KVM_CHECK_EXTENSION, KVM_CAP_X86_SMM) > 0) {
		smi_first(true, "an SMI first");
		smi_first(false, "an OUT, then an SMI");
		smis_to_itself();
	} else {
		skip("this KVM has no SMM", "an SMI first");
	}
	free_vm(&vm);
	return finish();
}
