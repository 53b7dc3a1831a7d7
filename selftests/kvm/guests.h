/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests whose counts are known by heart, and the registers to count them with.
 * Userspace programs the counters, by KVM_SET_MSRS.
 */
#ifndef SELFTESTS_GUESTS_H
#define SELFTESTS_GUESTS_H

#include "tap.h"
#include "vm.h"

/* AMD APM vol. 2, "Performance Monitoring Counters" */
#define LEGACY_SELECT0	0xc0010000
#define LEGACY_COUNTER0	0xc0010004
#define CORE_SELECT0	0xc0010200
#define CORE_COUNTER0	0xc0010201
#define GLOBAL_STATUS	0xc0000300
#define GLOBAL_CONTROL	0xc0000301
#define STATUS_CLEAR	0xc0000302
#define STATUS_SET	0xc0000303
#define NR_LEGACY	4
#define NR_CORE		6

#define USR		(1ull << 16)
#define OS		(1ull << 17)
#define INT		(1ull << 20)
#define EN		(1ull << 22)
#define INSTRUCTIONS	0xc0
#define BRANCHES	0xc2
#define TAKEN		0xc4
#define CONDITIONAL	0xd1
#define CYCLES		0x76

#define COUNTER_MASK	((1ull << 48) - 1)
#define NEG(n)		(-(uint64_t)(n) & COUNTER_MASK)

/* What the guest's CPUID offers */
struct pmu {
	unsigned int nr;
	bool v2;
	uint32_t select, counter, stride;
};

static inline struct pmu pmu_of(const struct vm *vm)
{
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + 256 * sizeof(cpuid->entries[0]));
	struct pmu pmu = { NR_LEGACY, false, LEGACY_SELECT0, LEGACY_COUNTER0, 1 };

	cpuid->nent = 256;
	IOCTL(vm->vcpu, KVM_GET_CPUID2, cpuid);
	for (unsigned int i = 0; i < cpuid->nent; i++) {
		const struct kvm_cpuid_entry2 *e = &cpuid->entries[i];

		if (e->function == 0x80000001 && (e->ecx & (1 << 23)))
			pmu = (struct pmu){ NR_CORE, pmu.v2, CORE_SELECT0, CORE_COUNTER0, 2 };
		if (e->function == 0x80000022 && (e->eax & 1))
			pmu.v2 = true;
	}
	free(cpuid);
	return pmu;
}

static inline void put_counter(struct vm *vm, struct pmu pmu, unsigned int i, uint64_t select,
			       uint64_t value)
{
	set_msr(vm, pmu.select + i * pmu.stride, 0);
	set_msr(vm, pmu.counter + i * pmu.stride, value);
	set_msr(vm, pmu.select + i * pmu.stride, select);
}

static inline uint64_t counter(struct vm *vm, struct pmu pmu, unsigned int i)
{
	return get_msr(vm, pmu.counter + i * pmu.stride);
}

/*
 * The loop: ESI times DEC and JNZ, a CPUID, which KVM completes, and an OUT,
 * which userspace sees (KVM_EXIT_IO) before KVM completes it.  So the OUT
 * belongs to what comes behind that exit.
 */
extern const char loop_start[], loop_jnz[], loop_behind_out[], loop_end[];
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

/* From one KVM_EXIT_IO of the loop to the next; @first: from its start to the first one */
static inline uint64_t loop_counts(uint64_t event, uint64_t n, bool first)
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

/*
 * The sampler: ESI times a shorter loop with a CPUID, then an OUT, with its own
 * counters if userspace starts them: legacy counter 0 from -PERIOD with an NMI
 * at its overflow.  The handler starts it again, from the value in the table,
 * notes how often it did (SAMPLES) and where it came from (LAST_IP).
 */
#define NMI_HANDLER	0x3800
#define SAMPLES		0x2200
#define LAST_IP		0x2204
extern const char sampler_start[], sampler_end[], nmi_start[], nmi_end[];
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
    "	mov $0xc0010004, %ecx\n"
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

static inline uint32_t *word_at(const struct vm *vm, unsigned int address)
{
	return (uint32_t *)(vm->memory + address);
}

/* A handler for NMIs, and LVTPC such that overflows are NMIs */
static inline void handle_nmis(struct vm *vm, uint64_t restart)
{
	memcpy(vm->memory + NMI_HANDLER, nmi_start, nmi_end - nmi_start);
	*word_at(vm, 4 * 2) = NMI_HANDLER;
	memcpy(vm->memory + TABLE, &restart, 8);
	*word_at(vm, SAMPLES) = 0;
	set_apic(vm, APIC_SPIV, 0x1ff);
	set_apic(vm, APIC_LVTPC, APIC_NMI);
}


/* What the sampler executes up to its OUT besides handlers, and what its handler does */
#define SAMPLER_INSTRUCTIONS(rounds)	(105ull * (rounds))
#define HANDLER_INSTRUCTIONS		15
/* Those of the handler that the counter sees again: from the WRMSR on */
#define HANDLER_COUNTED			6

static inline uint32_t sampler_samples(unsigned int rounds, unsigned int period)
{
	return 1 + (SAMPLER_INSTRUCTIONS(rounds) - period) / (period - HANDLER_COUNTED);
}

/* A sampler that is about to start, with a second counter for all instructions */
static inline struct vm make_sampler(unsigned int rounds, unsigned int period)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);

	load_code(&vm, sampler_start, sampler_end, (struct kvm_regs){ .rsi = rounds });
	handle_nmis(&vm, NEG(period));
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(period));
	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | EN, 0);
	return vm;
}

/* It has come to its end: was each of its interrupts there, in its place? */
static inline void check_sampler(struct vm *vm, unsigned int rounds, unsigned int period,
				 const char *name)
{
	uint32_t samples = sampler_samples(rounds, period);
	struct pmu pmu = pmu_of(vm);

	is(*word_at(vm, SAMPLES), samples, "%s: interrupts", name);
	is(counter(vm, pmu, 1), SAMPLER_INSTRUCTIONS(rounds) +
	   HANDLER_INSTRUCTIONS * (uint64_t)samples, "%s: instructions", name);
	is(counter(vm, pmu, 0), NEG(period) + (SAMPLER_INSTRUCTIONS(rounds) - period) %
	   (period - HANDLER_COUNTED) + HANDLER_COUNTED, "%s: since the last interrupt", name);
}

#endif
