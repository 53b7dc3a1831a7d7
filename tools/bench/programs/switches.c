// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs that VMs share a CPU: each runs shortly, in turn, while its counters
 * count.  By the emulator's oracle.
 *
 *	switches [--vms N] [--no-pmu] [SELECT...]
 *
 * The guests count with these event selects, one counter each.  Prints one line
 * "NAME VALUE" each, of a turn: KVM_RUN of a guest that executes a few instructions
 * up to an OUT, with all that this is to the thread and KVM.
 */
#define _GNU_SOURCE
#include <argp.h>

#include "vm.h"
#include "registers.h"
#include "pin.h"
#include "oracle.h"
#include "cost.h"

#define MAX_VMS		64
#define ROUNDS		10
#define RUNS		50

extern const char turn_start[], turn_end[];
asm(".code16\n"
    "turn_start:\n"
    "	mov $10, %ecx\n"
    "1:	dec %ecx\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "	jmp turn_start\n"
    "turn_end:\n"
    ".code64\n");

static struct vm vms[MAX_VMS];
static unsigned int nr_vms = 2, nr;
static uint64_t selects[MAX_INTEL];
static bool has_pmu = true;

static void prepare(struct vm *vm)
{
	struct pmu pmu;

	*vm = make_vm_with(VM_APIC | (has_pmu ? 0 : VM_NO_PMU), MEMORY);
	pmu = pmu_of(vm);
	load_code(vm, turn_start, turn_end, (struct kvm_regs){ });
	if (has_pmu)
		for (unsigned int i = 0; i < nr; i++)
			set_msr(vm, pmu.select + i * pmu.stride, selects[i]);
	run_until(vm, KVM_EXIT_IO);
}

static struct cost run_once(int msr, unsigned int rounds)
{
	struct cost before, after;

	read_cost(msr, &before);
	for (unsigned int round = 0; round < rounds; round++)
		for (unsigned int i = 0; i < nr_vms; i++)
			run_until(&vms[i], KVM_EXIT_IO);
	read_cost(msr, &after);
	subtract_cost(&after, &before);
	return after;
}

/* The run in which the host did least. */
static struct cost best(int msr, unsigned int rounds)
{
	struct cost min = run_once(msr, rounds), c;

	for (unsigned int i = 0; i < RUNS; i++) {
		c = run_once(msr, rounds);
		if (less_disturbed(&c, &min))
			min = c;
	}
	return min;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end;

	switch (key) {
	case 'v':
		nr_vms = atoi(arg);
		if (nr_vms < 1 || nr_vms > MAX_VMS)
			argp_error(state, "1 to %u VMs", MAX_VMS);
		return 0;
	case 'p':
		has_pmu = false;
		return 0;
	case ARGP_KEY_ARG:
		if (nr == MAX_INTEL)
			argp_error(state, "too many counters");
		selects[nr++] = strtoull(arg, &end, 0);
		if (*end || end == arg)
			argp_error(state, "'%s' is no event select", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "vms", 'v', "N", 0, "how many VMs (default: 2)", 0 },
		{ "no-pmu", 'p', NULL, 0, "they have no PMU", 0 },
		{ }
	};
	static const struct argp argp = {
		options, parse, "[SELECT...]", "What it costs that VMs share a CPU", NULL, NULL, NULL
	};
	struct cost turns, nothing;
	int msr;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	pin(0, 0);
	msr = open_oracle(0);
	for (unsigned int i = 0; i < nr_vms; i++)
		prepare(&vms[i]);
	turns = best(msr, ROUNDS);
	nothing = best(msr, 0);
	subtract_cost(&turns, &nothing);
	print_cost(&turns, ROUNDS * nr_vms, NULL);
	for (unsigned int i = 0; i < nr_vms; i++)
		free_vm(&vms[i]);
	return 0;
}
