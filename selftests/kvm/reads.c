// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest reads counters while they count, without VM exits on AMD's CPUs (kmod/open.c): each value is exact, whatever
 * makes the guest exit in between.  TAP.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "tap.h"
#include "leaves.h"
#include "sampler.h"
#include "events.h"
#include "figures.h"
#include "host_event.h"
#include "open_registers.h"
#include "pin.h"

/* For the guest, beside the sampler's words: how many counters, how many rounds it did, and what ends it early */
#define NR		0x2300
#define DONE		0x2304
#define END		0x2308
/* A word for each counter: ECX, its last value, by how much it grows in a round, how often it didn't */
#define NUMBERS		0x2310
#define LAST		0x2330
#define STEPS		0x2350
#define WRONG		0x2370

/*
 * ESI rounds: three bytes for an instruction to exit by, then each counter is read.  RDPMC becomes RDMSR by another
 * second byte.  The sampler's handler of NMIs changes BP and BX.
 */
extern const char reads_start[], reads_loop[], reads_op[], reads_op_end[], reads_instruction[], reads_behind[],
	reads_end[];
asm(".code16\n"
    ".globl reads_start, reads_loop, reads_op, reads_op_end, reads_instruction, reads_behind, reads_end\n"
    "reads_start:\n"
    "reads_loop:\n"
    "	xor %eax, %eax\n"
    "reads_op:\n"
    "	nop\n"
    "	nop\n"
    "	nop\n"
    "reads_op_end:\n"
    "	xor %edi, %edi\n"
    "1:	mov 0x2310(,%edi,4), %ecx\n"
    "reads_instruction:\n"
    "	rdpmc\n"
    "reads_behind:\n"
    "	sub 0x2330(,%edi,4), %eax\n"
    "	add %eax, 0x2330(,%edi,4)\n"
    "	cmp 0x2350(,%edi,4), %eax\n"
    "	setne %al\n"
    "	movzx %al, %eax\n"
    "	add %eax, 0x2370(,%edi,4)\n"
    "	inc %edi\n"
    "	cmp 0x2300, %edi\n"
    "	jne 1b\n"
    "	incl 0x2304\n"
    "	cmpl $0, 0x2308\n"
    "	jne 2f\n"
    "	dec %esi\n"
    "	jnz reads_loop\n"
    "2:	out %al, $0x10\n"
    "reads_end:\n"
    ".code64\n");

/* Of a round: instructions around those for each counter, and for each; without what is to exit */
#define AROUND		7
#define FOR_EACH	11

/* An instruction that exits, of three bytes with what fills them */
struct op {
	const char *name;
	uint8_t bytes[3];
	unsigned int instructions;
};

static const struct op nothing = { "nothing", { 0x90, 0x90, 0x90 }, 3 };
static const struct op cpuid = { "CPUID", { 0x0f, 0xa2, 0x90 }, 2 };
static const struct op vmmcall = { "VMMCALL", { 0x0f, 0x01, 0xd9 }, 1 };

static int device;

/* A guest's counter, and what of the instructions and branches it counts */
struct counted {
	const char *name;
	uint64_t select;
	uint64_t from;
	unsigned int instructions, branches;
};

static const struct counted counters[NR_CORE] = {
	{ "off", INSTRUCTIONS | OS | INT, 0x1234, 0, 0 },
	{ "instructions", INSTRUCTIONS | OS | INT | EN, 0x1000, 1, 0 },
	{ "branches", BRANCHES | OS | INT | EN, 0x1000, 0, 1 },
	{ "instructions, no interrupt", INSTRUCTIONS | OS | EN, 0, 1, 0 },
	{ "instructions in user mode", INSTRUCTIONS | USR | INT | EN, 0x3000, 0, 0 },
	{ "instructions, far from 0", INSTRUCTIONS | USR | OS | INT | EN, NEG(1ull << 40), 1, 0 },
};

static uint64_t counts(unsigned int i, unsigned int instructions, unsigned int branches)
{
	return counters[i].instructions * instructions + counters[i].branches * branches;
}

/* What counter @i counts in a round */
static uint64_t step_of(unsigned int i, unsigned int nr, const struct op *op)
{
	return counts(i, AROUND + op->instructions + FOR_EACH * nr, nr + 2);
}

static void load(struct vm *vm, struct pmu pmu, unsigned int nr, const struct op *op, bool rdmsr, unsigned int rounds)
{
	load_code(vm, reads_start, reads_end, (struct kvm_regs){ .rsi = rounds });
	memcpy(vm->memory + CODE + (reads_op - reads_start), op->bytes, sizeof(op->bytes));
	if (rdmsr)
		vm->memory[CODE + (reads_instruction - reads_start) + 1] = 0x32;
	*word_at(vm, NR) = nr;
	*word_at(vm, DONE) = 0;
	*word_at(vm, END) = 0;
	for (unsigned int i = 0; i < nr; i++) {
		/* As if it had been read a round before */
		unsigned int first = 1 + op->instructions + 1 + FOR_EACH * i + 1;
		uint64_t now = counters[i].from + counts(i, first, i);

		put_counter(vm, pmu, i, counters[i].select, counters[i].from);
		*word_at(vm, NUMBERS + 4 * i) = rdmsr ? counter_msr(pmu, i) : i;
		*word_at(vm, STEPS + 4 * i) = step_of(i, nr, op);
		*word_at(vm, LAST + 4 * i) = now - step_of(i, nr, op);
		*word_at(vm, WRONG + 4 * i) = 0;
	}
}

/* Of the first @these of @nr counters that the guest has read */
static void check_values(struct vm *vm, struct pmu pmu, unsigned int these, unsigned int nr, const struct op *op,
			 const char *name)
{
	for (unsigned int i = 0; i < these; i++)
		is(*word_at(vm, WRONG + 4 * i), 0, "%s: %s: values that were wrong", name, counters[i].name);
	for (unsigned int i = 0; i < these; i++) {
		uint64_t value = counters[i].from + (uint64_t)*word_at(vm, DONE) * step_of(i, nr, op);

		/* The DEC and the JNZ of the last round */
		if (*word_at(vm, END))
			value -= counts(i, 2, 1);
		is(counter(vm, pmu, i), value & COUNTER_MASK, "%s: %s: the value at the end", name,
		   counters[i].name);
	}
}

static struct vm make_guest(struct pmu *pmu)
{
	struct vm vm = make_vm(true);

	*pmu = pmu_of(&vm);
	filter_as_qemu(&vm);
	return vm;
}

#define ROUNDS	2000

/* Let the guest come to its end.  Return: how many of its reads exited. */
static uint64_t run_reads(struct vm *vm, bool rdmsr)
{
	struct kvm_vpmu_vcpu before = figures(device, vm), now;

	run_until(vm, KVM_EXIT_IO);
	now = figures(device, vm);
	return rdmsr ? now.reads - before.reads : now.rdpmcs - before.rdpmcs;
}

/*
 * Do most reads not exit?  Some do behind each few VM exits, as those of the host's timer interrupts, which on a busy
 * machine come after fewer of the guest's instructions.
 */
static void reads(struct vm *vm, struct pmu pmu, unsigned int nr, const struct op *op, bool rdmsr, bool opens,
		  const char *name)
{
	uint64_t exits;

	load(vm, pmu, nr, op, rdmsr, ROUNDS);
	exits = run_reads(vm, rdmsr);
	if (opens)
		check(exits <= (uint64_t)nr * ROUNDS / 2, "%s: %llu of %u reads exit", name,
		      (unsigned long long)exits, nr * ROUNDS);
	else
		is(exits, nr * ROUNDS, "%s: reads that exit", name);
	check_values(vm, pmu, nr, nr, op, name);
}

static void whatever_exits(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu);

	for (unsigned int rdmsr = 0; rdmsr < 2; rdmsr++) {
		const char *by = rdmsr ? "RDMSR" : "RDPMC";
		const struct op *ops[] = { &nothing, &cpuid, &vmmcall };

		for (unsigned int i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
			char name[40];

			snprintf(name, sizeof(name), "%s beside %s", by, ops[i]->name);
			reads(&vm, pmu, pmu.nr, ops[i], rdmsr, true, name);
		}
	}
	free_vm(&vm);
}

static void closed(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu);
	int event, second;

	/* On counter 0, which is off in the guest; and on counter 1, where the guest's can't be then */
	event = host_event();
	reads(&vm, pmu, pmu.nr, &nothing, false, false, "a host event");
	second = host_event();
	for (unsigned int i = 2; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, 0, 0);
	reads(&vm, pmu, 2, &nothing, true, false, "two host events, RDMSR of these counters");
	close(second);
	close(event);
	put_string(RDPMC_PARAMETER, "N");
	reads(&vm, pmu, pmu.nr, &nothing, false, false, "open_rdpmc=N");
	put_string(RDPMC_PARAMETER, "Y");
	put_string(OPEN_PARAMETER, "N");
	reads(&vm, pmu, pmu.nr, &nothing, true, false, "open_registers=N");
	put_string(OPEN_PARAMETER, "Y");
	reads(&vm, pmu, pmu.nr, &nothing, false, true, "all of these undone");
	free_vm(&vm);
}

/* RDPMC needs all counters to be exact, also one that has counted from 0 and was never read. */
static void others_never_read(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu);

	reads(&vm, pmu, pmu.nr, &nothing, false, true, "all are read");
	/* The next VM entry makes up for no instruction. */
	complete(&vm);
	put_counter(&vm, pmu, pmu.nr - 1, INSTRUCTIONS | OS | INT | EN, 0);
	reads(&vm, pmu, 1, &nothing, false, true, "only one is read");
	free_vm(&vm);
}

/* The CPU has a counter that the guest doesn't have. */
static void fewer(void)
{
	struct cpuid leaves = { .head.nent = 256 };
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	if (!pmu.v2) {
		skip("without PerfMonV2 all guests have as many", "a guest with fewer counters");
		free_vm(&vm);
		return;
	}
	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &leaves);
	take_counters(&leaves, pmu.nr - 1);
	if (set_cpuid(&vm, &leaves))
		err(1, "KVM_SET_CPUID2");
	filter_as_qemu(&vm);
	reads(&vm, pmu, pmu.nr - 1, &nothing, false, false, "a guest with fewer counters");
	reads(&vm, pmu, pmu.nr - 1, &nothing, true, true, "a guest with fewer counters: RDMSR");
	free_vm(&vm);
}

/* No physical counter has the value of one that counts the hypervisor's events. */
static void of_the_hypervisor(void)
{
	struct pmu pmu;
	struct vm vm = make_guest(&pmu);
	const unsigned int last = pmu.nr - 1;
	uint64_t exits;

	if (set_events(device, &vm, KVM_VPMU_EVENTS_ON))
		err(1, "KVM_VPMU_SET");
	for (unsigned int rdmsr = 0; rdmsr < 2; rdmsr++) {
		const char *name = rdmsr ? "VM exits are counted: RDMSR" : "VM exits are counted";

		load(&vm, pmu, pmu.nr, &cpuid, rdmsr, ROUNDS);
		put_counter(&vm, pmu, last, event(KVM_VPMU_EVENT_EXITS) | OS | USR | EN, 0);
		exits = run_reads(&vm, rdmsr);
		/* RDMSR of the others is open. */
		if (rdmsr)
			check(exits >= ROUNDS && exits <= pmu.nr * ROUNDS / 2, "%s: %llu of %u reads exit", name,
			      (unsigned long long)exits, pmu.nr * ROUNDS);
		else
			is(exits, pmu.nr * ROUNDS, "%s: reads that exit", name);
		/* Its reads exit, too. */
		check(counter(&vm, pmu, last) >= 2 * ROUNDS, "%s: %llu of them", name,
		      (unsigned long long)counter(&vm, pmu, last));
		is(*word_at(&vm, WRONG + 4 * last), ROUNDS, "%s: its value has moved each time", name);
		check_values(&vm, pmu, last, pmu.nr, &cpuid, name);
	}
	free_vm(&vm);
}

/* What goes on beside the guest */
struct beside {
	struct vm *vm;
	struct pmu pmu;
	bool events;
	unsigned int rounds;
};

/* Whoever wants to know the guest's figures makes it exit, by an interrupt. */
static void *interrupt(void *arg)
{
	struct beside *beside = arg;
	int events[2];

	pin(0, sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0);
	for (; beside->rounds < 200; beside->rounds++) {
		figures(device, beside->vm);
		for (unsigned int i = 0; beside->events && i < 2; i++)
			events[i] = host_event();
		usleep(500);
		for (unsigned int i = 0; beside->events && i < 2; i++)
			close(events[i]);
		usleep(500);
	}
	__atomic_store_n(word_at(beside->vm, END), 1, __ATOMIC_RELEASE);
	return NULL;
}

static void interrupted(bool rdmsr, bool events, const char *name)
{
	struct beside beside = { .events = events };
	struct vm vm = make_guest(&beside.pmu);
	pthread_t thread;
	uint64_t exits, all;

	beside.vm = &vm;
	load(&vm, beside.pmu, beside.pmu.nr, &nothing, rdmsr, 0);
	if (pthread_create(&thread, NULL, interrupt, &beside))
		err(1, "pthread_create");
	exits = run_reads(&vm, rdmsr);
	pthread_join(thread, NULL);
	all = (uint64_t)*word_at(&vm, DONE) * beside.pmu.nr;
	check(events || exits < all / 2, "%s: %llu of %llu reads exit", name, (unsigned long long)exits,
	      (unsigned long long)all);
	check(beside.rounds == 200 && *word_at(&vm, DONE), "%s: interrupts, and %u rounds", name,
	      *word_at(&vm, DONE));
	check_values(&vm, beside.pmu, beside.pmu.nr, beside.pmu.nr, &nothing, name);
	free_vm(&vm);
}

/* A counter that overflows while the guest reads it does so at the same instruction. */
static void overflow(const struct op *op, unsigned int rounds, const char *label, unsigned int nth)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	struct kvm_vpmu_vcpu v;

	filter_as_qemu(&vm);
	load(&vm, pmu, pmu.nr, op, false, ROUNDS);
	handle_nmis(&vm, 0);
	*word_at(&vm, SAMPLES) = 0;
	*word_at(&vm, LAST_IP) = 0;
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN,
		    NEG(rounds * (AROUND + op->instructions + FOR_EACH * pmu.nr) + nth));
	run_until(&vm, KVM_EXIT_IO);
	v = figures(device, &vm);
	check(v.rdpmcs < ROUNDS * pmu.nr, "overflow beside %s: reads were open", op->name);
	is(*word_at(&vm, SAMPLES), 1, "overflow beside %s, instruction %u: interrupts", op->name, nth);
	is(*word_at(&vm, LAST_IP) & 0xffff, CODE + (label - reads_start),
	   "overflow beside %s, instruction %u: where", op->name, nth);
	free_vm(&vm);
}

static void overflows(void)
{
	const struct op *ops[] = { &nothing, &cpuid, &vmmcall };

	if (skid()) {
		skip("this host's interrupts come late", "overflows");
		return;
	}
	for (unsigned int i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		overflow(ops[i], 1000, reads_op, 1);
		overflow(ops[i], 1000, reads_op_end, 1 + ops[i]->instructions);
		overflow(ops[i], 1000, reads_instruction, 3 + ops[i]->instructions);
		overflow(ops[i], 1000, reads_behind, 4 + ops[i]->instructions);
	}
}

int main(void)
{
	struct pmu pmu;

	device = open_device(&pmu);
	if (on_intel() || pmu.nr != NR_CORE)
		skip_all("reads are open on AMD's CPUs with six counters only");
	let_registers_open();
	whatever_exits();
	closed();
	others_never_read();
	fewer();
	of_the_hypervisor();
	interrupted(false, false, "interrupts");
	interrupted(true, false, "interrupts, RDMSR");
	interrupted(false, true, "host events");
	overflows();
	return finish();
}
