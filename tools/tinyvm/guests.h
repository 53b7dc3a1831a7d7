/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests whose counts are known by heart, and the registers to count them with.
 * Userspace programs the counters, by KVM_SET_MSRS.
 */
#ifndef TINYVM_GUESTS_H
#define TINYVM_GUESTS_H

#include "vm.h"
#include "registers.h"

#define USR		(1ull << 16)
#define OS		(1ull << 17)
#define INT		(1ull << 20)
#define EN		(1ull << 22)
/* Events by AMD's numbers; put_counter() has Intel's for them. */
#define INSTRUCTIONS	0xc0
#define BRANCHES	0xc2
#define TAKEN		0xc4
#define CONDITIONAL	0xd1
#define CYCLES		0x76

#define COUNTER_MASK	((1ull << 48) - 1)
#define NEG(n)		(-(uint64_t)(n) & COUNTER_MASK)

/* SDM vol. 3, "Performance Monitoring Events", and Intel's lists for Skylake and Sapphire Rapids */
uint64_t event_here(uint64_t select);

void put_counter(struct vm *vm, struct pmu pmu, unsigned int i, uint64_t select,
		 uint64_t value);

static inline uint64_t counter(struct vm *vm, struct pmu pmu, unsigned int i)
{
	return get_msr(vm, counter_msr(pmu, i));
}

/* Fixed counters' fields of their control: SDM vol. 3, "Architectural Performance Monitoring Version 2" */
#define FIXED_OS	1u
#define FIXED_USR	2u
#define FIXED_INT	8u

/* Fixed counter @n, the counter behind all general ones and @n others */
void put_fixed(struct vm *vm, unsigned int n, uint64_t field, uint64_t value);

/*
 * The loop: ESI times DEC and JNZ, a CPUID, which KVM completes, and an OUT,
 * which userspace sees (KVM_EXIT_IO) before KVM completes it.  So the OUT
 * belongs to what comes behind that exit.
 */
extern const char loop_start[], loop_jnz[], loop_behind_out[], loop_end[];

/* From one KVM_EXIT_IO of the loop to the next; @first: from its start to the first one */
uint64_t loop_counts(uint64_t event, uint64_t n, bool first);

/*
 * The sampler: ESI times a shorter loop with a CPUID, then an OUT, with its own
 * counters if userspace starts them: counter 0 from -PERIOD with an NMI
 * at its overflow.  The handler starts it again, from the value in the table,
 * notes how often it did (SAMPLES) and where it came from (LAST_IP).
 */
#define NMI_HANDLER	0x3800
#define SAMPLES		0x2200
#define LAST_IP		0x2204
extern const char sampler_start[], sampler_end[], nmi_start[], nmi_end[];

static inline uint32_t *word_at(const struct vm *vm, unsigned int address)
{
	return (uint32_t *)(vm->memory + address);
}

/*
 * Intel's CPUs mask LVTPC when they deliver it.  There each handler begins with
 * this, which unmasks it (x2APIC), of UNMASK_INSTRUCTIONS.
 */
#define X2APIC_ENABLE		0xc00	/* of IA32_APIC_BASE */
#define APIC_BASE		0x1b
#define UNMASK_INSTRUCTIONS	(on_intel() ? 10u : 0)
extern const char unmask_start[], unmask_end[];

/* A handler for NMIs, and LVTPC such that overflows are NMIs */
void handle_nmis_with(struct vm *vm, const char *start, const char *end);

/* The sampler's */
void handle_nmis(struct vm *vm, uint64_t restart);

/* What the sampler executes up to its OUT besides handlers, and what its handler does */
#define SAMPLER_INSTRUCTIONS(rounds)	(105ull * (rounds))
#define HANDLER_INSTRUCTIONS		(15 + UNMASK_INSTRUCTIONS)
/* Those of the handler that the counter sees again: from the WRMSR on */
#define HANDLER_COUNTED			6

static inline uint32_t sampler_samples(unsigned int rounds, unsigned int period)
{
	return 1 + (SAMPLER_INSTRUCTIONS(rounds) - period) / (period - HANDLER_COUNTED);
}

/* The sampler is about to start, with a second counter for all instructions; @vm has an APIC. */
void prepare_sampler(struct vm *vm, struct pmu pmu, unsigned int rounds, unsigned int period);

/* A VM for it */
struct vm make_sampler(unsigned int rounds, unsigned int period);

#endif
