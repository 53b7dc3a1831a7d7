// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Intel's events that not every counter can count (SDM vol. 3, "Performance Monitoring Events", and Linux
 * arch/x86/events/intel/core.c, the tables of constraints): where the guest has them, and nowhere else.  TAP.
 */
#define _GNU_SOURCE

#include "tap.h"
#include "guests.h"
#include "host_event.h"
#include "pin.h"

#define LOOPS	20000
#define ROUNDS	5
/* At least two in a cycle, which this bench's CPUs never retire */
#define CMASK_2	(2ull << 24)
/* INST_RETIRED.PREC_DIST: counter 1 only, before Ice Lake */
#define PREC_DIST	0x01c0

static void check_counts(struct vm *vm, struct pmu pmu, const uint64_t *wanted, unsigned int nr, const char *when)
{
	for (unsigned int i = 0; i < nr; i++)
		is(counter(vm, pmu, i), wanted[i], "%s: counter %u", when, i);
}

/* No fixed counter has a threshold. */
static void modified(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	const uint64_t wanted[] = { 0, loop_counts(INSTRUCTIONS, LOOPS, true) };

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	put_counter(&vm, pmu, 0, INSTRUCTIONS | CMASK_2 | OS | EN, 0);
	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	check_counts(&vm, pmu, wanted, 2, "a threshold, and none");
	free_vm(&vm);
}

/*
 * Counters 1 and 3 have events that the module may not move.  The others', which any counter can count, make
 * room for them.  @taken: as many general counters are the host's.
 */
static void in_their_places(unsigned int taken)
{
	static const uint64_t events[] = { BRANCHES, PREC_DIST, BRANCHES, CONDITIONAL };
	const unsigned int nr = sizeof(events) / sizeof(*events);
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	uint64_t wanted[nr];
	int host[nr];
	char when[64];

	snprintf(when, sizeof(when), "the host has %u counters", taken);
	for (unsigned int i = 0; i < taken; i++)
		host[i] = host_event();
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	for (unsigned int i = 0; i < nr; i++) {
		put_counter(&vm, pmu, i, events[i] | OS | EN, 0);
		wanted[i] = 0;
	}
	for (unsigned int round = 0; round < ROUNDS; round++) {
		run_until(&vm, KVM_EXIT_IO);
		for (unsigned int i = 0; i < nr; i++)
			wanted[i] += loop_counts(events[i], LOOPS, !round);
	}
	check_counts(&vm, pmu, wanted, nr, when);
	for (unsigned int i = 0; i < taken; i++)
		close(host[i]);
	free_vm(&vm);
}

int main(void)
{
	if (!on_intel())
		skip_all("only Intel's CPUs have such events");
	pin(0, 0);
	modified();
	in_their_places(0);
	in_their_places(2);
	in_their_places(4);
	return finish();
}
