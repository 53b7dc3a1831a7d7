// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Overflow interrupts that come some instructions after the overflow (skid): one whose overflow was
 * noticed at a VM exit before must not be the last one.  TAP.
 *
 * Needs a CPU with skid (on the bench Intel's, with pmu_skid=SKID), and no NMI watchdog: host perf's
 * handler would do for the guest what the module has to do.
 */
#include "guests.h"

#define LOOPS	50000u	/* of 2 instructions, then a CPUID */
#define PERIOD	10000
#define SKID	2000
#define RUNS	10

int main(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	uint32_t samples, least = RUNS * (2 * LOOPS / (PERIOD + SKID + HANDLER_INSTRUCTIONS) - 1);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	handle_nmis(&vm, NEG(PERIOD));
	/* The CPUID exits a few instructions behind the first overflow. */
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(2 * LOOPS - 10));
	run_until(&vm, KVM_EXIT_IO);
	samples = *word_at(&vm, SAMPLES);
	is(samples, 1, "interrupts of an overflow right before a VM exit");
	for (unsigned int i = 0; i < RUNS; i++)
		run_until(&vm, KVM_EXIT_IO);
	samples = *word_at(&vm, SAMPLES) - samples;
	check(samples >= least, "interrupts after that: %u, at least %u", samples, least);
	free_vm(&vm);
	return finish();
}
