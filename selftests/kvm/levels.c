// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest in user mode: what KVM does for it counts at its privilege level, and an overflow comes at
 * its instruction though the level changed right before a VM entry.  TAP.
 */
#include "tap.h"
#include "guests.h"
#include "long_mode.h"
#include "sampler.h"
#include "smm.h"

#define ROUNDS	1000

/* For the processor, where the code isn't; and a handler for NMIs */
#define GDT		0x9000
#define IDT		0xa000
#define TSS		0xb000
#define HANDLER		0xc000
#define KERNEL_STACK	0xe000

static const struct mode user = { .name = "user mode", .levels = 4, .leaf = 2, .user = true };

extern const char cpuids_start[], cpuids_end[], nops_start[], nops[], nops_end[];
extern const char handler_start[], handler_end[], rsm_start[], rsm_end[];
asm(".globl cpuids_start, cpuids_end, nops_start, nops, nops_end\n"
    ".globl handler_start, handler_end, rsm_start, rsm_end\n"
    "cpuids_start:\n"
    "1:	xor %eax, %eax\n"
    "	cpuid\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "cpuids_end:\n"
    "nops_start:\n"
    "	out %al, $0x10\n"
    "nops:\n"
    "	.fill 50, 1, 0x90\n"
    "	out %al, $0x10\n"
    "nops_end:\n"
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

/* Interrupts go to HANDLER, at level 0. */
static void make_kernel(struct vm *vm)
{
	struct kvm_sregs sregs;
	uint64_t stack = KERNEL_STACK;

	memcpy(vm->memory + HANDLER, handler_start, handler_end - handler_start);
	/* APM vol. 2, "Legacy Segment Descriptors", "64-Bit Interrupt-Gate", "64-Bit Task State Segment" */
	*long_at(vm, GDT + 0x08) = 0x00af9b000000ffff;
	*long_at(vm, GDT + 0x10) = 0x00cf93000000ffff;
	*long_at(vm, IDT + 2 * 16) = 0x00008e0000080000 | HANDLER;
	memcpy(vm->memory + TSS + 4, &stack, sizeof(stack));
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.gdt = (struct kvm_dtable){ .base = GDT, .limit = 0x17 };
	sregs.idt = (struct kvm_dtable){ .base = IDT, .limit = 3 * 16 - 1 };
	sregs.tr = (struct kvm_segment){ .base = TSS, .limit = 0x67, .type = 11, .present = 1, .selector = 0x18 };
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
}

/*
 * The vCPU is loaded at level 3, and first enters SMM, which is level 0.  A counter of user mode that is about to
 * overflow was armed for an entry at level 3.  @completed: KVM completes the OUT that the vCPU left with first.
 */
static void smi_first(bool completed, const char *name)
{
	struct mode m = user;
	struct pmu pmu;
	struct vm vm;

	m.apic = true;
	if (!make_long_mode(&vm, &m, nops_start, nops_end, (struct kvm_regs){ }))
		errx(1, "no 64-bit mode");
	handle_smis(&vm, SIZE, rsm_start, rsm_end);
	make_kernel(&vm);
	set_apic(&vm, APIC_SPIV, 0x1ff);
	set_apic(&vm, APIC_LVTPC, APIC_NMI);
	pmu = pmu_of(&vm);
	run_until(&vm, KVM_EXIT_IO);
	if (completed)
		complete(&vm);
	put_counter(&vm, pmu, 0, INSTRUCTIONS | USR | INT | EN, NEG(20 + !completed));
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

int main(void)
{
	struct vm vm = make_vm(true);

	emulated();
	if (ioctl(vm.fd, KVM_CHECK_EXTENSION, KVM_CAP_X86_SMM) > 0) {
		smi_first(true, "an SMI first");
		smi_first(false, "an OUT, then an SMI");
	} else {
		skip("this KVM has no SMM", "an SMI first");
	}
	free_vm(&vm);
	return finish();
}
