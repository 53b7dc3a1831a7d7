// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests that compute, exit and wait, and times. */
#include "vm.h"
#include "guests.h"
#include "registers.h"
#include "waits.h"

asm(".code16\n"
    ".globl spin_start, spin_end\n"
    "spin_start:\n"
    "1:	mov $20000, %cx\n"
    "2:	dec %cx\n"
    "	jnz 2b\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "spin_end:\n"
    ".code64\n");

void load_spin(struct vm *vm)
{
	load_code(vm, spin_start, spin_end, (struct kvm_regs){ 0 });
}

void spin(struct vm *vm, uint64_t n)
{
	IOCTL(vm->vcpu, KVM_SET_REGS, (&(struct kvm_regs){ .rip = CODE, .rsi = n, .rflags = 2 }));
	run_until(vm, KVM_EXIT_IO);
}

asm(".code16\n"
    ".globl outs_start, outs_end, pulses_start, pulses_end\n"
    "outs_start:\n"
    "	mov $20000, %cx\n"
    "1:	dec %cx\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "	jmp outs_start\n"
    "outs_end:\n"
    ".code64\n");

#define VECTOR		0x40
#define HANDLER		0x3800
extern const char eoi_start[], eoi_end[];
asm(".code16\n"
    "pulses_start:\n"
    "	xor %ebp, %ebp\n"
    "1:	mov $0x838, %ecx\n"	/* x2APIC: initial count */
    "	mov $20000000, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	rdtsc\n"
    "	mov %eax, %ebx\n"
    "	sti\n"
    "	hlt\n"
    "	cli\n"
    "	rdtsc\n"
    "	sub %ebx, %eax\n"
    "	add %eax, %ebp\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "pulses_end:\n"
    "eoi_start:\n"
    "	mov $0x80b, %ecx\n"	/* x2APIC: EOI */
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	iret\n"
    "eoi_end:\n"
    ".code64\n");

/* SDM vol. 3 and APM vol. 2, "Local APIC Registers": one-shot, a tick each ns of KVM's APIC */
void prepare_pulses(struct vm *vm)
{
	memcpy(vm->memory + HANDLER, eoi_start, eoi_end - eoi_start);
	*word_at(vm, 4 * VECTOR) = HANDLER;
	set_msr(vm, APIC_BASE, get_msr(vm, APIC_BASE) | X2APIC_ENABLE);
	set_apic(vm, APIC_SPIV, 0x1ff);
	set_apic(vm, 0x320, VECTOR);
	set_apic(vm, 0x3e0, 0xb);
}

uint64_t ticks(const struct vm *vm, uint64_t ns)
{
	uint64_t khz = IOCTL(vm->vcpu, KVM_GET_TSC_KHZ, NULL);

	return (unsigned __int128)ns * khz / 1000000;
}

uint64_t run_delay(void)
{
	FILE *stat = fopen("/proc/thread-self/schedstat", "r");
	unsigned long long delay;

	if (!stat || fscanf(stat, "%*u %llu", &delay) != 1)
		err(1, "/proc/thread-self/schedstat");
	fclose(stat);
	return delay;
}
