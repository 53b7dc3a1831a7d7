// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Overflow interrupts that come some instructions after the overflow (skid), so that now and then a VM
 * exit comes first, and the overflow is noticed there.  The interrupt that follows must not be the
 * last one.  TAP.
 *
 * Needs a CPU with skid (on the bench Intel's, pmu_skid=2000), and no NMI watchdog: host perf's
 * handler would do for the guest what the module has to do.
 */
#include "guests.h"

#define ROUNDS	3000
#define PERIOD	10000
#define SKID	110	/* the VM exit at which the overflow is noticed comes after so many */

int main(void)
{
	uint32_t samples, most = sampler_samples(ROUNDS, PERIOD);
	uint32_t least = sampler_samples(ROUNDS, PERIOD + SKID);

	for (unsigned int i = 0; i < 3; i++) {
		struct vm vm = make_sampler(ROUNDS, PERIOD);
		struct pmu pmu = pmu_of(&vm);

		run_until(&vm, KVM_EXIT_IO);
		samples = *word_at(&vm, SAMPLES);
		check(samples >= least && samples <= most, "interrupts: %u, of %u to %u", samples, least,
		      most);
		is(counter(&vm, pmu, 1), SAMPLER_INSTRUCTIONS(ROUNDS) +
		   HANDLER_INSTRUCTIONS * (uint64_t)samples, "instructions");
		free_vm(&vm);
	}
	return finish();
}
