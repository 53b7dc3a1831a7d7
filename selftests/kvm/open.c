// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Registers that a guest accesses without a VM exit (kmod/open.c) while its global control is 0: on AMD's CPUs with
 * PerfMonV2, and on Intel's.  They have the values that they would have otherwise, and others stay closed.  TAP.
 *
 *	open others MODULE
 *		AMD: RDPMC closes for good once the host has an event of other counters that it reads: MODULE, a
 *		file, makes one
 *	open reads
 *		RDPMC only
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tap.h"
#include "leaves.h"
#include "guests.h"
#include "figures.h"
#include "host_event.h"
#include "host_pmu.h"
#include "open_registers.h"
#include "kernel.h"
#include "pin.h"

/*
 * For the guests: a counter's MSR, and the bits of all; MSRs of the global registers; from one counter's MSR to the
 * next
 */
#define COUNTER		TABLE
#define ALL		(TABLE + 4)
#define CONTROL		(TABLE + 0x80)
#define STATUS		(TABLE + 0x84)
#define CLEAR		(TABLE + 0x88)
#define STRIDE		(TABLE + 0x8c)

/*
 * Global control is 0.  ESI times: WRMSR and RDMSR of a counter, RDMSR of the status, which is 0, and WRMSR that
 * clears it.  RESULT: how many values were wrong.
 */
#define ROUND_ACCESSES	4
extern const char accesses_start[], accesses_end[];
asm(".code16\n"
    ".globl accesses_start, accesses_end\n"
    "accesses_start:\n"
    "	xor %ebp, %ebp\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	mov 0x2180, %ecx\n"
    "	wrmsr\n"
    "1:	mov 0x2100, %ecx\n"
    "	mov %esi, %eax\n"
    "	mov $0x1234, %edx\n"
    "	wrmsr\n"
    "	xor %edx, %edx\n"
    "	rdmsr\n"
    "	cmp %esi, %eax\n"
    "	jne 2f\n"
    "	cmp $0x1234, %edx\n"
    "	je 3f\n"
    "2:	inc %ebp\n"
    "3:	mov 0x2184, %ecx\n"
    "	rdmsr\n"
    "	or %edx, %eax\n"
    "	jz 4f\n"
    "	inc %ebp\n"
    "4:	mov 0x2188, %ecx\n"
    "	mov 0x2104, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	mov %ebp, 0x2000\n"
    "	out %al, $0x10\n"
    "accesses_end:\n"
    ".code64\n");

/*
 * ESI times: counter 0 gets EBX times the round, counts 100 loops and what is around them, and its value is added to
 * EDI, which ends in RESULT.
 */
extern const char rounds_start[], rounds_end[];
asm(".code16\n"
    ".globl rounds_start, rounds_end\n"
    "rounds_start:\n"
    "	xor %edi, %edi\n"
    "1:	mov 0x2180, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov %ebx, %eax\n"
    "	mul %esi\n"
    "	mov 0x2100, %ecx\n"
    "	wrmsr\n"
    "	mov 0x2180, %ecx\n"
    "	mov 0x2104, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov $100, %ebp\n"
    "2:	dec %ebp\n"
    "	jnz 2b\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	xor %ecx, %ecx\n"
    "	rdpmc\n"
    "	add %eax, %edi\n"
    "	mov 0x2100, %ecx\n"
    "	rdmsr\n"
    "	add %eax, %edi\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	mov %edi, 0x2000\n"
    "	out %al, $0x10\n"
    "rounds_end:\n"
    ".code64\n");

/*
 * Counters overflow without interrupts, and stop: the status at RESULT, and once the bits of EBX are cleared, at
 * RESULT + 4; then an OUT with the control as it is, and the status once more, at TABLE + 8.
 */
extern const char status_start[], status_end[];
asm(".code16\n"
    ".globl status_start, status_end\n"
    "status_start:\n"
    "	mov $100, %ebp\n"
    "1:	dec %ebp\n"
    "	jnz 1b\n"
    "	mov 0x2180, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2184, %ecx\n"
    "	rdmsr\n"
    "	mov %eax, 0x2000\n"
    "	mov 0x2188, %ecx\n"
    "	mov %ebx, %eax\n"
    "	wrmsr\n"
    "	mov 0x2184, %ecx\n"
    "	rdmsr\n"
    "	mov %eax, 0x2004\n"
    "	out %al, $0x10\n"
    "	rdmsr\n"
    "	mov %eax, 0x2108\n"
    "	out %al, $0x10\n"
    "status_end:\n"
    ".code64\n");

/*
 * Global control is 0: writes and reads a counter for as long as the word at RESULT is 0; RESULT + 4: wrong values;
 * TABLE + 8: reads
 */
extern const char ever_start[], ever_end[];
asm(".code16\n"
    ".globl ever_start, ever_end\n"
    "ever_start:\n"
    "	mov 0x2180, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "1:	inc %esi\n"
    "	mov 0x2100, %ecx\n"
    "	mov %esi, %eax\n"
    "	mov $0x1234, %edx\n"
    "	wrmsr\n"
    "	mov $100, %ebp\n"
    "2:	dec %ebp\n"
    "	jnz 2b\n"
    "	rdmsr\n"
    "	incl 0x2108\n"
    "	cmp %esi, %eax\n"
    "	je 3f\n"
    "	incl 0x2004\n"
    "3:	cmpl $0, 0x2000\n"
    "	je 1b\n"
    "	out %al, $0x10\n"
    "ever_end:\n"
    ".code64\n");

/*
 * Global control is 0.  ESI times, or until the word at END isn't 0: WRMSR of the first counter's value, and RDPMC of
 * each of EBX counters.  The low words of these values are in a table, the high words are 0x1234.  RESULT: how many
 * values were wrong; RESULT + 4: rounds so far.
 */
#define END		(TABLE + 8)
#define VALUES		(TABLE + 0x10)
#define INDEXES		(TABLE + 0x40)
extern const char reads_start[], reads_end[];
asm(".code16\n"
    ".globl reads_start, reads_end\n"
    "reads_start:\n"
    "	mov 0x2180, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "1:	mov 0x2100, %ecx\n"
    "	mov 0x2110, %eax\n"
    "	mov $0x1234, %edx\n"
    "	wrmsr\n"
    "	xor %edi, %edi\n"
    "2:	mov 0x2140(,%edi,4), %ecx\n"
    "	rdpmc\n"
    "	cmp 0x2110(,%edi,4), %eax\n"
    "	jne 3f\n"
    "	cmp $0x1234, %edx\n"
    "	je 4f\n"
    "3:	incl 0x2000\n"
    "4:	inc %edi\n"
    "	cmp %ebx, %edi\n"
    "	jne 2b\n"
    "	incl 0x2004\n"
    "	cmpl $0, 0x2108\n"
    "	jne 5f\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "5:	out %al, $0x10\n"
    "reads_end:\n"
    ".code64\n");

/* RDPMC's index of Intel's first fixed counter */
#define RDPMC_FIXED	0x40000000

static int device;

static void open_registers(bool on)
{
	put_string(OPEN_PARAMETER, on ? "Y" : "N");
}

/* Is the overflow status open, too?  Intel's CPUs need IA32_PERF_GLOBAL_STATUS_SET for that: version 4. */
static bool opens_status(void)
{
	return !on_intel() || host_pmu_version() >= 4;
}

/* SDM vol. 3, "Fixed-function Performance Counters": the fourth, IA32_FIXED_CTR3 */
#define FIXED_SLOTS	0x30c

static void note_registers(const struct vm *vm, struct pmu pmu)
{
	*word_at(vm, CONTROL) = GLOBAL_CONTROL;
	*word_at(vm, STATUS) = GLOBAL_STATUS;
	*word_at(vm, CLEAR) = on_intel() ? INTEL_STATUS_RESET : STATUS_CLEAR;
	*word_at(vm, STRIDE) = pmu.stride;
}

/* The guest is to execute that code, with counter @i. */
static void load(struct vm *vm, struct pmu pmu, unsigned int i, const char *start, const char *end,
		 struct kvm_regs regs)
{
	load_code(vm, start, end, regs);
	*word_at(vm, COUNTER) = counter_msr(pmu, i);
	*word_at(vm, ALL) = counter_bits(pmu);
	note_registers(vm, pmu);
	if (i < pmu.nr)
		put_counter(vm, pmu, i, INSTRUCTIONS | OS | EN, 0);
	else
		put_fixed(vm, i - pmu.nr, FIXED_OS, 0);
}

/* The guest, which has counter @i */
static struct vm make_guest(struct pmu *pmu, unsigned int i, const char *start, const char *end, struct kvm_regs regs)
{
	struct vm vm = make_vm(true);

	*pmu = pmu_of(&vm);
	filter_as_qemu(&vm);
	load(&vm, *pmu, i, start, end, regs);
	return vm;
}

#define ROUNDS	1000

static void accesses(unsigned int i)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, i, accesses_start, accesses_end, (struct kvm_regs){ .rsi = ROUNDS });
	struct kvm_vpmu_vcpu before = figures(device, &vm), now;
	uint64_t exits;

	run_until(&vm, KVM_EXIT_IO);
	now = figures(device, &vm);
	exits = now.reads + now.writes - before.reads - before.writes;
	if (!opens_status())
		exits -= 2 * ROUNDS;
	is(*word_at(&vm, RESULT), 0, "counter %u: values that are wrong", i);
	/* The host's interrupts end KVM_RUN's inner loop, and the look at VM exits with it. */
	check(exits <= ROUND_ACCESSES * ROUNDS / 10, "counter %u: %llu of %u accesses exit", i,
	      (unsigned long long)exits, ROUND_ACCESSES * ROUNDS);
	check(now.open, "counter %u: open at %llu VM entries", i, now.open);
	is(counter(&vm, pmu, i), 0x123400000001, "counter %u: userspace's value", i);

	set_msr(&vm, counter_msr(pmu, i), 0x1234567);
	is(counter(&vm, pmu, i), 0x1234567, "counter %u: userspace's own value", i);
	free_vm(&vm);
}

static void off(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, accesses_start, accesses_end, (struct kvm_regs){ .rsi = ROUNDS });

	open_registers(false);
	run_until(&vm, KVM_EXIT_IO);
	is(figures(device, &vm).open, 0, "open_registers=N: VM entries with open registers");
	is(*word_at(&vm, RESULT), 0, "open_registers=N: values that are wrong");
	open_registers(true);
	free_vm(&vm);
}

/* A guest that reads its counters: each has a value of its own. */
static void load_reads(struct vm *vm, struct pmu pmu, unsigned int nr, unsigned int rounds)
{
	load_code(vm, reads_start, reads_end, (struct kvm_regs){ .rbx = nr, .rsi = rounds });
	*word_at(vm, RESULT) = 0;
	*word_at(vm, RESULT + 4) = 0;
	*word_at(vm, END) = 0;
	*word_at(vm, COUNTER) = counter_msr(pmu, 0);
	note_registers(vm, pmu);
	/* One that the guest has enabled */
	put_counter(vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	for (unsigned int i = 0; i < nr; i++) {
		*word_at(vm, VALUES + 4 * i) = 0x1000 * (i + 1);
		*word_at(vm, INDEXES + 4 * i) = i < pmu.nr ? i : RDPMC_FIXED + i - pmu.nr;
		set_msr(vm, counter_msr(pmu, i), 0x1234ull << 32 | 0x1000 * (i + 1));
	}
}

/* Does a guest's RDPMC of @nr counters exit?  It reads the guest's values in any case. */
static void reads(struct vm *vm, struct pmu pmu, unsigned int nr, bool opens, const char *name)
{
	struct kvm_vpmu_vcpu before, now;
	uint64_t exits;

	load_reads(vm, pmu, nr, ROUNDS);
	before = figures(device, vm);
	run_until(vm, KVM_EXIT_IO);
	now = figures(device, vm);
	exits = now.rdpmcs - before.rdpmcs;
	is(*word_at(vm, RESULT), 0, "%s: values that RDPMC reads wrong", name);
	if (opens) {
		check(exits <= nr * ROUNDS / 10, "%s: %llu of %u RDPMC exit", name, (unsigned long long)exits,
		      nr * ROUNDS);
		check(now.writes - before.writes <= ROUNDS / 10, "%s: %llu of %u WRMSR exit", name,
		      now.writes - before.writes, ROUNDS);
	} else {
		is(exits, nr * ROUNDS, "%s: RDPMC that exit", name);
	}
}

static void rdpmc(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int event;

	filter_as_qemu(&vm);
	reads(&vm, pmu, nr_counters(pmu), true, "no host event");
	/* A value that userspace changes while all are in hardware */
	reads(&vm, pmu, nr_counters(pmu), true, "no host event, new values");
	event = host_event();
	reads(&vm, pmu, nr_counters(pmu), false, "a host event");
	close(event);
	reads(&vm, pmu, nr_counters(pmu), true, "no host event any more");
	put_string(RDPMC_PARAMETER, "N");
	reads(&vm, pmu, nr_counters(pmu), false, "open_rdpmc=N");
	put_string(RDPMC_PARAMETER, "Y");
	reads(&vm, pmu, nr_counters(pmu), true, "open_rdpmc=Y");
	free_vm(&vm);
}

/* The guest accesses its first fixed counter by WRMSR and RDMSR. */
static void fixed_of_fewer(struct vm *vm, struct pmu pmu)
{
	load(vm, pmu, pmu.nr, accesses_start, accesses_end, (struct kvm_regs){ .rsi = ROUNDS });
	run_until(vm, KVM_EXIT_IO);
	is(*word_at(vm, RESULT), 0, "a guest with fewer counters: values that are wrong");
	is(counter(vm, pmu, pmu.nr), 0x123400000001, "a guest with fewer counters: userspace's value of a fixed one");
}

/* The CPU has a general counter that the guest doesn't have: the guest's fixed ones have other numbers. */
static void fewer_counters(void)
{
	struct cpuid cpuid = { .head.nent = 256 };
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	take_counters(&cpuid, --pmu.nr);
	if (on_intel())
		leaf(&cpuid, 10)->edx |= pmu.fixed;
	if (set_cpuid(&vm, &cpuid))
		err(1, "KVM_SET_CPUID2");
	filter_as_qemu(&vm);
	reads(&vm, pmu, nr_counters(pmu), false, "a guest with fewer counters");
	if (on_intel())
		fixed_of_fewer(&vm, pmu);
	free_vm(&vm);
}

/* The sum of what counter 0 had */
static uint32_t sum_of_rounds(bool on, uint64_t *value)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, rounds_start, rounds_end,
				  (struct kvm_regs){ .rsi = ROUNDS, .rbx = 0x10203 });
	struct kvm_vpmu_vcpu v;
	uint32_t sum;

	open_registers(on);
	run_until(&vm, KVM_EXIT_IO);
	open_registers(true);
	sum = *word_at(&vm, RESULT);
	*value = counter(&vm, pmu, 0);
	v = figures(device, &vm);
	check(on == !!v.open, "rounds: registers are open, or not");
	/* The counter that was written last time is open once the guest has read it by RDPMC. */
	if (on)
		check(v.reads <= ROUNDS / 10, "rounds: %llu of %u RDMSR exit", v.reads, ROUNDS);
	free_vm(&vm);
	return sum;
}

static void rounds(void)
{
	uint64_t open_value, value;
	uint32_t open_sum = sum_of_rounds(true, &open_value);

	is(open_sum, sum_of_rounds(false, &value), "rounds: the sum of all values");
	is(open_value, value, "rounds: the last value");
	/* WRMSR, MOV, 100 times DEC and JNZ, XOR, XOR; the second WRMSR completes with counters off. */
	is(value, 0x10203 + 204, "rounds: the last value, by the instructions");
}

/* Global control is 0, then all ones; ESI times RDMSR of a counter that counts */
extern const char counting_start[], counting_reads[], counting_end[];
asm(".code16\n"
    ".globl counting_start, counting_reads, counting_end\n"
    "counting_start:\n"
    "	mov 0x2180, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2100, %ecx\n"
    "	wrmsr\n"
    "	mov 0x2180, %ecx\n"
    "	mov 0x2104, %eax\n"
    "	wrmsr\n"
    "counting_reads:\n"
    "	mov 0x2100, %ecx\n"
    "1:	rdmsr\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	mov %eax, 0x2000\n"
    "	out %al, $0x10\n"
    "counting_end:\n"
    ".code64\n");

static void counting(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, counting_start, counting_end, (struct kvm_regs){ .rsi = ROUNDS });

	run_until(&vm, KVM_EXIT_IO);
	check(figures(device, &vm).open, "a counter that counts: open before, at %llu VM entries",
	      figures(device, &vm).open);
	check(figures(device, &vm).reads <= ROUNDS / 10, "a counter that counts: %llu of %u RDMSR exit",
	      figures(device, &vm).reads, ROUNDS);
	/* WRMSR, MOV, and all reads up to the last one, which isn't complete */
	is(*word_at(&vm, RESULT), 2 + 3 * ROUNDS - 3, "a counter that counts: its value");
	free_vm(&vm);

	/* One that wasn't open is on the last physical counter, until it is read. */
	vm = make_guest(&pmu, 0, counting_reads, counting_end, (struct kvm_regs){ .rsi = ROUNDS });
	run_until(&vm, KVM_EXIT_IO);
	check(figures(device, &vm).reads <= ROUNDS / 10, "a counter that counts from the beginning: %llu of %u RDMSR exit",
	      figures(device, &vm).reads, ROUNDS);
	is(*word_at(&vm, RESULT), 1 + 3 * ROUNDS - 3, "a counter that counts from the beginning: its value");
	free_vm(&vm);
}

/*
 * Global control is 0.  ESI times, counters 0 and 1 get values, of which RESULT has the last low words.  Control becomes
 * all ones; then RDPMC of counter 0 four times, and of counter 1.  TABLE + 8: how many words were wrong.
 */
extern const char on_start[], on_end[];
asm(".code16\n"
    ".globl on_start, on_end\n"
    "on_start:\n"
    "	xor %ebx, %ebx\n"
    "	mov 0x2180, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "1:	mov 0x2100, %ecx\n"
    "	mov $0x1234, %edx\n"
    "	lea 0x100(%esi), %eax\n"
    "	wrmsr\n"
    "	mov %eax, 0x2000\n"
    "	add 0x218c, %ecx\n"
    "	add $0x1000, %eax\n"
    "	wrmsr\n"
    "	mov %eax, 0x2004\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	mov 0x2180, %ecx\n"
    "	mov 0x2104, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov $4, %esi\n"
    "	xor %ecx, %ecx\n"
    "2:	rdpmc\n"
    "	cmp 0x2000(,%ecx,4), %eax\n"
    "	je 3f\n"
    "	inc %ebx\n"
    "3:	dec %esi\n"
    "	jnz 2b\n"
    "	inc %esi\n"
    "	inc %ecx\n"
    "	cmp $2, %ecx\n"
    "	jne 2b\n"
    "	mov %ebx, 0x2108\n"
    "	out %al, $0x10\n"
    "on_end:\n"
    ".code64\n");

/* Nothing counts, though control is on: what the guest has written without exits is what it reads. */
static void on_without_events(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, on_start, on_end, (struct kvm_regs){ .rsi = ROUNDS });

	set_msr(&vm, pmu.select, 0);
	run_until(&vm, KVM_EXIT_IO);
	check(figures(device, &vm).open, "control is on, and nothing counts: registers were open");
	is(*word_at(&vm, TABLE + 8), 0, "control is on, and nothing counts: values that are wrong");
	is(counter(&vm, pmu, 1), 0x123400001101, "control is on, and nothing counts: userspace's value");
	free_vm(&vm);
}

/* One host event @event closes the status for all, and leaves counters open. */
static void status_beside(int event, const char *name)
{
	struct kvm_vpmu_vcpu v;
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 5, accesses_start, accesses_end, (struct kvm_regs){ .rsi = ROUNDS });

	run_until(&vm, KVM_EXIT_IO);
	v = figures(device, &vm);
	check(v.reads >= ROUNDS && v.writes >= ROUNDS, "beside %s: each access to the status exits", name);
	check(v.reads + v.writes < 2 * ROUNDS + ROUNDS / 2, "beside %s: a counter is open", name);
	is(*word_at(&vm, RESULT), 0, "beside %s: values that are wrong", name);
	close(event);
	free_vm(&vm);
}

#define NR_STATUS	3

static void status(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, status_start, status_end, (struct kvm_regs){ .rbx = 2 });

	for (unsigned int i = 0; i < NR_STATUS; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, NEG(50));
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, RESULT), 7, "three overflows: the status");
	is(*word_at(&vm, RESULT + 4), 5, "one is cleared: the status");
	is(get_msr(&vm, GLOBAL_STATUS), 5, "userspace's status");
	set_msr(&vm, GLOBAL_STATUS, 8);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, TABLE + 8), 8, "the status that userspace has set");
	check(!!figures(device, &vm).open == opens_status(), "registers were open, or the status can't be");
	free_vm(&vm);
}

/* The status is the host's once the vCPU is put. */
static void hosts_status(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, status_start, status_end, (struct kvm_regs){ });

	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, NEG(50));
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, RESULT + 4), 1, "the guest's status");
	is(host_msr(GLOBAL_STATUS), 0, "the host's status behind KVM_RUN");
	free_vm(&vm);
}

/* Who changes something while the guest goes on with its accesses, on CPU 0 */
struct other {
	struct vm *vm;
	struct pmu pmu;
	uint64_t most;
	unsigned int rounds;
	bool again;
	uint32_t late;
	void (*deny)(const struct vm *vm, uint32_t msr);
	const char *module;
};

/* Has the guest opened its registers? */
static bool wait_for_guest(const struct vm *vm)
{
	uint64_t before = figures(device, vm).open;

	for (unsigned int i = 0; i < 5000; i++) {
		if (figures(device, vm).open != before)
			return true;
		usleep(1000);
	}
	return false;
}

static void run_beside(void *(*function)(void *), struct other *other)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, function, other))
		err(1, "pthread_create");
	if (ioctl(other->vm->vcpu, KVM_RUN, NULL))
		err(1, "KVM_RUN");
	pthread_join(thread, NULL);
}

/* Host events come and go: all counters are theirs, for a while. */
static void *host_events(void *arg)
{
	struct other *other = arg;
	int events[MOST_COUNTERS];

	pin(0, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0);
	wait_for_guest(other->vm);
	for (; other->rounds < 50; other->rounds++) {
		for (unsigned int i = 0; i < other->pmu.nr; i++)
			events[i] = host_event();
		usleep(500);
		for (unsigned int i = 0; i < other->pmu.nr; i++) {
			uint64_t count;

			if (read(events[i], &count, sizeof(count)) == sizeof(count) && count > other->most)
				other->most = count;
			close(events[i]);
		}
		usleep(500);
	}
	other->again = wait_for_guest(other->vm);
	__atomic_store_n(word_at(other->vm, RESULT), 1, __ATOMIC_RELEASE);
	return NULL;
}

static void beside_host_events(void)
{
	struct other other = { .rounds = 0 };
	struct vm vm = make_guest(&other.pmu, 1, ever_start, ever_end, (struct kvm_regs){ });

	other.vm = &vm;
	run_beside(host_events, &other);
	is(vm.run->exit_reason, KVM_EXIT_IO, "host events come and go: the guest's end");
	is(*word_at(&vm, RESULT + 4), 0, "host events come and go: the guest's values that are wrong");
	/* The guest writes 0x1234 << 32 and more. */
	check(other.most && other.most < 1ull << 40, "host events come and go: their highest count, %llu",
	      (unsigned long long)other.most);
	check(other.again, "host events come and go: registers are open again");
	free_vm(&vm);
}

/*
 * As a VMM of 32 bits: struct kvm_msr_filter_compat and KVM_X86_SET_MSR_FILTER_COMPAT of Linux arch/x86/kvm/x86.c,
 * and the system call's number of arch/x86/entry/syscalls/syscall_32.tbl
 */
#define IOCTL_32	54

static void deny_reads_32(const struct vm *vm, uint32_t msr)
{
	struct filter {
		uint32_t flags;
		struct {
			uint32_t flags, nmsrs, base, bitmap;
		} ranges[KVM_MSR_FILTER_MAX_RANGES];
		uint8_t none;
	} *filter = mmap(NULL, sizeof(*filter), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	const unsigned int request = _IOC(_IOC_WRITE, KVMIO, 0xc6, offsetof(struct filter, none));
	long result;

	if (filter == MAP_FAILED)
		err(1, "mmap");
	filter->flags = KVM_MSR_FILTER_DEFAULT_ALLOW;
	filter->ranges[0].flags = KVM_MSR_FILTER_READ;
	filter->ranges[0].nmsrs = 1;
	filter->ranges[0].base = msr;
	filter->ranges[0].bitmap = (uintptr_t)&filter->none;
	asm volatile("int $0x80" : "=a"(result)
		     : "a"(IOCTL_32), "b"((long)vm->fd), "c"((long)request), "d"(filter)
		     : "memory", "r8", "r9", "r10", "r11");
	if (result)
		errx(1, "a 32-bit process's filter: error %ld", -result);
	munmap(filter, sizeof(*filter));
}

static void *set_filter(void *arg)
{
	struct other *other = arg;

	pin(0, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0);
	wait_for_guest(other->vm);
	/* Each look made the guest exit: let it open them again. */
	usleep(20000);
	other->deny(other->vm, *word_at(other->vm, COUNTER));
	other->late = *word_at(other->vm, TABLE + 8);
	sleep(1);
	other->late = *word_at(other->vm, TABLE + 8) - other->late;
	__atomic_store_n(word_at(other->vm, RESULT), 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Userspace sets a filter between two runs. */
static void filtered_later(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, accesses_start, accesses_end, (struct kvm_regs){ .rsi = 10 });

	run_until(&vm, KVM_EXIT_IO);
	check(figures(device, &vm).open, "a filter is set later: registers were open");
	deny_reads(&vm, counter_msr(pmu, 0));
	load_code(&vm, accesses_start, accesses_end, (struct kvm_regs){ .rsi = 10 });
	run_until(&vm, KVM_EXIT_HLT);
	is(vm.memory[RESULT + 8], 1, "a filter is set later: #GP");
	free_vm(&vm);
}

/* Userspace sets a filter while the registers are open: the next read is #GP, but for one that was going on. */
static void filtered(void (*deny)(const struct vm *vm, uint32_t msr), const char *who)
{
	struct other other = { .deny = deny };
	struct vm vm = make_guest(&other.pmu, 0, ever_start, ever_end, (struct kvm_regs){ });

	other.vm = &vm;
	run_beside(set_filter, &other);
	is(vm.run->exit_reason, KVM_EXIT_HLT, "%s sets a filter: the guest ends in its handler", who);
	is(vm.memory[RESULT + 8], 1, "%s sets a filter: #GP", who);
	check(other.late <= 1, "%s sets a filter: %u reads behind it", who, other.late);
	check(figures(device, &vm).open, "%s sets a filter: registers were open", who);
	free_vm(&vm);
}

/*
 * Global control is 0.  ESI times RDMSR of a counter, and RDMSR and WRMSR of another register, which gets the same value
 */
#define OTHER		(TABLE + 8)
extern const char closed_start[], closed_end[];
asm(".code16\n"
    ".globl closed_start, closed_end\n"
    "closed_start:\n"
    "	mov 0x2180, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "1:	mov 0x2100, %ecx\n"
    "	rdmsr\n"
    "	mov 0x2108, %ecx\n"
    "	rdmsr\n"
    "	wrmsr\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "closed_end:\n"
    ".code64\n");

/* What of these a guest accesses whose registers are open */
static void closed(void)
{
	static const uint32_t amd[] = { CORE_SELECT0, LEGACY_COUNTER0, LEGACY_SELECT0, AMD_CONTROL, STATUS_SET };
	static const uint32_t intel[] = { INTEL_SELECT0, INTEL_SELECT0 + 1, INTEL_FIXED_CONTROL, INTEL_CONTROL };
	const uint32_t *others = on_intel() ? intel : amd;
	size_t nr = on_intel() ? sizeof(intel) / sizeof(*intel) : sizeof(amd) / sizeof(*amd);
	struct pmu pmu;
	struct vm vm = make_guest(&pmu, 0, closed_start, closed_end, (struct kvm_regs){ });

	for (size_t i = 0; i < nr; i++) {
		struct kvm_vpmu_vcpu before, now;

		load_code(&vm, closed_start, closed_end, (struct kvm_regs){ .rsi = 100 });
		*word_at(&vm, OTHER) = others[i];
		before = figures(device, &vm);
		run_until(&vm, KVM_EXIT_IO);
		now = figures(device, &vm);
		check(now.reads - before.reads >= 100 && now.writes - before.writes >= 100,
		      "MSR %#x: each access exits", others[i]);
		/* Whatever changes the status takes all registers back. */
		if (others[i] != STATUS_SET)
			check(now.reads - before.reads < 150, "MSR %#x: a counter is open meanwhile", others[i]);
	}
	free_vm(&vm);
}

static int slots_event(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_RAW, .size = sizeof(attr), .pinned = 1, .config = SLOTS };
	int event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);

	if (event < 0)
		err(1, "perf_event_open: slots");
	return event;
}

/*
 * A host event on the counter that guests don't get: RDPMC, which reads that counter, closes for good, and the status while
 * there is such an event.
 */
static void slots(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int event;

	if (!host_has_slots()) {
		skip("no counter of slots", "a host event of slots");
		free_vm(&vm);
		return;
	}
	filter_as_qemu(&vm);
	event = slots_event();
	reads(&vm, pmu, nr_counters(pmu), false, "a host event of slots");
	close(event);
	check(host_msr(FIXED_SLOTS), "a host event of slots: its count stays");
	reads(&vm, pmu, nr_counters(pmu), false, "a host event of slots is over");
	free_vm(&vm);
	status_beside(slots_event(), "a host event of slots");
}

/* The host's new event, while the guest reads its counters without VM exits */
static void *make_other_event(void *arg)
{
	struct other *other = arg;
	int fd = open(other->module, O_RDONLY | O_CLOEXEC);

	pin(0, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0);
	other->again = wait_for_guest(other->vm);
	usleep(20000);
	/* It doesn't stay: EAGAIN is that perf has seen the event. */
	if (fd < 0 || !syscall(SYS_finit_module, fd, "", 0) || errno != EAGAIN)
		err(1, "%s", other->module);
	close(fd);
	other->most = figures(device, other->vm).rdpmcs;
	other->rounds = *word_at(other->vm, RESULT + 4);
	usleep(200000);
	other->most = figures(device, other->vm).rdpmcs - other->most;
	other->rounds = *word_at(other->vm, RESULT + 4) - other->rounds;
	__atomic_store_n(word_at(other->vm, END), 1, __ATOMIC_RELEASE);
	return NULL;
}

static void others(const char *module)
{
	struct other other = { .module = module };
	struct vm vm = make_vm(true);

	other.vm = &vm;
	other.pmu = pmu_of(&vm);
	filter_as_qemu(&vm);
	reads(&vm, other.pmu, nr_counters(other.pmu), true, "no event of other counters");
	load_reads(&vm, other.pmu, nr_counters(other.pmu), UINT32_MAX);
	run_beside(make_other_event, &other);
	is(vm.run->exit_reason, KVM_EXIT_IO, "a new event of other counters: the guest's end");
	check(other.again, "a new event of other counters: registers were open before");
	check(other.most && other.most >= (other.rounds - 2) * nr_counters(other.pmu),
	      "a new event of other counters: %llu of %u RDPMC exit behind it", (unsigned long long)other.most,
	      other.rounds * nr_counters(other.pmu));
	reads(&vm, other.pmu, nr_counters(other.pmu), false, "an event of other counters");
	free_vm(&vm);
}

int main(int argc, char **argv)
{
	struct pmu pmu;

	device = open_device(&pmu);
	if (!pmu.v2)
		skip_all("AMD: registers are open on CPUs with PerfMonV2 only");
	let_registers_open();
	if (argc == 3 && !strcmp(argv[1], "others")) {
		others(argv[2]);
		return finish();
	}
	if (host_has_slots() && host_msr(FIXED_SLOTS))
		skip("the host has had an event of slots", "RDPMC is open");
	else
		rdpmc();
	fewer_counters();
	if (argc == 2 && !strcmp(argv[1], "reads"))
		return finish();
	for (unsigned int i = 0; i < nr_counters(pmu); i++)
		accesses(i);
	off();
	rounds();
	status();
	hosts_status();
	if (on_intel())
		skip("AMD only", "reads of counters that count");
	else
		counting();
	on_without_events();
	closed();
	status_beside(host_event(), "a host event");
	beside_host_events();
	filtered_later();
	filtered(deny_reads, "a process");
	/* A module that missed this filter would be right by chance: whenever an exit has just closed the registers. */
	for (unsigned int i = 0; kernel_has("kvm_arch_vm_compat_ioctl") && i < 4; i++)
		filtered(deny_reads_32, "a process of 32 bits");
	if (!kernel_has("kvm_arch_vm_compat_ioctl"))
		skip("this KVM is for 64 bits only", "a process of 32 bits sets a filter");
	/* Last, as nothing opens RDPMC again. */
	slots();
	return finish();
}
