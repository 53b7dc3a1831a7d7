// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The TSC of two CPUs, of which the second one sleeps: prints both for ever, now and then, in
 * thousands of ticks. Where a TSC stands still while its CPU sleeps they drift apart.
 */
#include "pmu.h"

#define TICKS	50000000

static void read_tsc(void *tsc)
{
	*(u64 *)tsc = rdtsc();
}

_Noreturn void clocks(void)
{
	if (nr_cpus < 2)
		t_bail("one CPU only");
	for (;;) {
		u64 start = rdtsc(), second;

		while (rdtsc() - start < TICKS)
			cpu_relax();
		smp_run_on(1, read_tsc, &second);
		print("tsc %lu %lu\n", rdtsc() / 1000, second / 1000);
	}
}
