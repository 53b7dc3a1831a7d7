/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests whose counts are known by heart, and the registers to count them with.
 * Userspace programs the counters, by KVM_SET_MSRS.
 */
#ifndef SELFTESTS_GUESTS_H
#define SELFTESTS_GUESTS_H

#include <sys/klog.h>

#include "tap.h"
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

/* The CPU's model, by SDM vol. 2, "CPUID", leaf 01H */
static inline unsigned int cpu_model(void)
{
	unsigned int a, b, c, d;

	__cpuid(1, a, b, c, d);
	return (a >> 12 & 0xf0) | (a >> 4 & 0xf);
}

#define SAPPHIRE_RAPIDS	0x8f

/* SDM vol. 3, "Performance Monitoring Events", and Intel's lists for Skylake and Sapphire Rapids */
static inline uint64_t event_here(uint64_t select)
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

static inline void put_counter(struct vm *vm, struct pmu pmu, unsigned int i, uint64_t select,
			       uint64_t value)
{
	select = event_here(select);
	set_msr(vm, pmu.select + i * pmu.stride, 0);
	set_msr(vm, pmu.counter + i * pmu.stride, value);
	set_msr(vm, pmu.select + i * pmu.stride, select);
}

static inline uint64_t counter(struct vm *vm, struct pmu pmu, unsigned int i)
{
	return get_msr(vm, counter_msr(pmu, i));
}

/* Fixed counters' fields of their control: SDM vol. 3, "Architectural Performance Monitoring Version 2" */
#define FIXED_OS	1u
#define FIXED_USR	2u
#define FIXED_INT	8u

/* Fixed counter @n, the counter behind all general ones and @n others */
static inline void put_fixed(struct vm *vm, unsigned int n, uint64_t field, uint64_t value)
{
	uint64_t control = get_msr(vm, INTEL_FIXED_CONTROL) & ~(0xfull << 4 * n);

	set_msr(vm, INTEL_FIXED_CONTROL, control);
	set_msr(vm, INTEL_FIXED0 + n, value);
	set_msr(vm, INTEL_FIXED_CONTROL, control | field << 4 * n);
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
 * counters if userspace starts them: counter 0 from -PERIOD with an NMI
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

/* A handler for NMIs, and LVTPC such that overflows are NMIs */
static inline void handle_nmis_with(struct vm *vm, const char *start, const char *end)
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

/* The sampler's */
static inline void handle_nmis(struct vm *vm, uint64_t restart)
{
	handle_nmis_with(vm, nmi_start, nmi_end);
	memcpy(vm->memory + TABLE, &restart, 8);
	/* All vendors' and sets' counter 0 */
	*word_at(vm, TABLE + 8) = pmu_of(vm).counter;
	*word_at(vm, SAMPLES) = 0;
}

/* What the sampler executes up to its OUT besides handlers, and what its handler does */
#define SAMPLER_INSTRUCTIONS(rounds)	(105ull * (rounds))
#define HANDLER_INSTRUCTIONS		(15 + UNMASK_INSTRUCTIONS)
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

/*
 * By how many instructions this host's overflow interrupts come late, at most (the bench's
 * pmu_skid): what SKID says, else none.  Fewer if the guest exits meanwhile.
 */
static inline unsigned int skid(void)
{
	const char *text = getenv("SKID");

	return text ? atoi(text) : 0;
}

/* It has come to its end: was each of its interrupts there, in its place? */
static inline void check_sampler(struct vm *vm, unsigned int rounds, unsigned int period,
				 const char *name)
{
	uint32_t samples = sampler_samples(rounds, period), got = *word_at(vm, SAMPLES);
	struct pmu pmu = pmu_of(vm);
	uint64_t since = counter(vm, pmu, 0) - NEG(period) - HANDLER_COUNTED, late;

	if (skid()) {
		/* All that is in no period: instructions between an overflow and its interrupt */
		late = SAMPLER_INSTRUCTIONS(rounds) - HANDLER_COUNTED - since -
		       got * (uint64_t)(period - HANDLER_COUNTED);
		check(late > 0 && late <= got * skid(),
		      "%s: instructions until an interrupt came, of %u: %lld", name, got,
		      (long long)late);
		samples = got;
	} else {
		is(got, samples, "%s: interrupts", name);
		is(since, (SAMPLER_INSTRUCTIONS(rounds) - period) % (period - HANDLER_COUNTED),
		   "%s: since the last interrupt", name);
	}
	is(counter(vm, pmu, 1), SAMPLER_INSTRUCTIONS(rounds) +
	   HANDLER_INSTRUCTIONS * (uint64_t)samples, "%s: instructions", name);
}

/* How many NMIs the host's kernel says in its log that it didn't know */
static inline unsigned int unknown_nmis(void)
{
	static char log[1 << 20];
	int length = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);
	unsigned int n = 0;

	if (length < 0)
		err(1, "the kernel's log");
	log[length] = '\0';
	for (const char *p = log; (p = strstr(p, "NMI received for unknown reason")); p++)
		n++;
	return n;
}

/* The bench's Intel hosts execute an instruction each nanosecond: all is over much sooner there. */
static inline unsigned int scaled(unsigned int microseconds)
{
	return on_intel() ? microseconds / 10 : microseconds;
}

#endif
