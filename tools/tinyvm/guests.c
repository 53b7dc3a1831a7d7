// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests whose counts are known. */
#include "guests.h"

asm(".code16\n"
    ".globl loop_start, loop_jnz, loop_behind_out, loop_end\n"
    "loop_start:\n"
    "1:	mov %esi, %edi\n"
    "2:	dec %edi\n"
    "loop_jnz:\n"
    "	jnz 2b\n"
    "	xor %eax, %eax\n"
    "	cpuid\n"
    "	out %al, $0x10\n"
    "loop_behind_out:\n"
    "	jmp 1b\n"
    "loop_end:\n"
    ".code64\n");

asm(".code16\n"
    ".globl sampler_start, sampler_end, nmi_start, nmi_end\n"
    "sampler_start:\n"
    "1:	mov $50, %edi\n"
    "2:	dec %edi\n"
    "	jnz 2b\n"
    "	xor %eax, %eax\n"
    "	cpuid\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "sampler_end:\n"
    "nmi_start:\n"
    "	mov %sp, %bp\n"
    "	mov (%bp), %bx\n"
    "	mov %bx, 0x2204\n"
    "	pushl %eax\n"
    "	pushl %ecx\n"
    "	pushl %edx\n"
    "	mov 0x2108, %ecx\n"
    "	mov 0x2100, %eax\n"
    "	mov 0x2104, %edx\n"
    "	wrmsr\n"
    "	incl 0x2200\n"
    "	popl %edx\n"
    "	popl %ecx\n"
    "	popl %eax\n"
    "	iretw\n"
    "nmi_end:\n"
    ".code64\n");

asm(".code16\n"
    ".globl unmask_start, unmask_end\n"
    "unmask_start:\n"
    "	pushl %eax\n"
    "	pushl %ecx\n"
    "	pushl %edx\n"
    "	mov $0x834, %ecx\n"
    "	mov $0x400, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	popl %edx\n"
    "	popl %ecx\n"
    "	popl %eax\n"
    "unmask_end:\n"
    ".code64\n");

uint64_t event_here(uint64_t select)
{
	static const struct {
		uint64_t amd, intel;
	} events[] = {
		{ BRANCHES, 0xc4 }, { BRANCHES | 0x400, 0x4c4 }, { TAKEN, 0x20c4 },
		{ CONDITIONAL, 0x1c4 }, { CYCLES, 0x3c },
	};

	if (!on_intel())
		return select;
	if ((select & 0xffff) == CONDITIONAL && cpu_model() == SAPPHIRE_RAPIDS)
		return (select & ~0xffffull) | 0x11c4;
	for (unsigned int i = 0; i < sizeof(events) / sizeof(*events); i++)
		if ((select & 0xffff) == events[i].amd)
			return (select & ~0xffffull) | events[i].intel;
	return select;
}

void put_counter(struct vm *vm, struct pmu pmu, unsigned int i, uint64_t select,
		 uint64_t value)
{
	select = event_here(select);
	set_msr(vm, pmu.select + i * pmu.stride, 0);
	set_msr(vm, pmu.counter + i * pmu.stride, value);
	set_msr(vm, pmu.select + i * pmu.stride, select);
}

void put_fixed(struct vm *vm, unsigned int n, uint64_t field, uint64_t value)
{
	uint64_t control = get_msr(vm, INTEL_FIXED_CONTROL) & ~(0xfull << 4 * n);

	set_msr(vm, INTEL_FIXED_CONTROL, control);
	set_msr(vm, INTEL_FIXED0 + n, value);
	set_msr(vm, INTEL_FIXED_CONTROL, control | field << 4 * n);
}

uint64_t loop_counts(uint64_t event, uint64_t n, bool first)
{
	switch (event & 0xff) {
	case INSTRUCTIONS:
		return 2 * n + (first ? 3 : 5);
	case BRANCHES:
		return n + !first;
	case TAKEN:
		return n - first;
	case CONDITIONAL:
		return n;
	default:
		errx(2, "no count of event %#llx", (unsigned long long)event);
	}
}

void handle_nmis_with(struct vm *vm, const char *start, const char *end)
{
	uint8_t *handler = vm->memory + NMI_HANDLER;

	if (on_intel()) {
		memcpy(handler, unmask_start, unmask_end - unmask_start);
		handler += unmask_end - unmask_start;
		set_msr(vm, APIC_BASE, get_msr(vm, APIC_BASE) | X2APIC_ENABLE);
	}
	memcpy(handler, start, end - start);
	*word_at(vm, 4 * 2) = NMI_HANDLER;
	set_apic(vm, APIC_SPIV, 0x1ff);
	set_apic(vm, APIC_LVTPC, APIC_NMI);
}

void handle_nmis(struct vm *vm, uint64_t restart)
{
	handle_nmis_with(vm, nmi_start, nmi_end);
	memcpy(vm->memory + TABLE, &restart, 8);
	/* All vendors' and sets' counter 0 */
	*word_at(vm, TABLE + 8) = pmu_of(vm).counter;
	*word_at(vm, SAMPLES) = 0;
}

void prepare_sampler(struct vm *vm, struct pmu pmu, unsigned int rounds, unsigned int period)
{
	load_code(vm, sampler_start, sampler_end, (struct kvm_regs){ .rsi = rounds });
	handle_nmis(vm, NEG(period));
	put_counter(vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(period));
	put_counter(vm, pmu, 1, INSTRUCTIONS | OS | EN, 0);
}

struct vm make_sampler(unsigned int rounds, unsigned int period)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);

	prepare_sampler(&vm, pmu_of(&vm), rounds, period);
	return vm;
}
