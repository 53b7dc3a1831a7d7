// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The TSC of two CPUs, of which one sleeps until they are APART, if a TSC stands still while its CPU sleeps.
 * Then both are busy, and it prints both for ever, now and then, in thousands of ticks.
 */
#include "pmu.h"

#define APART	500000000
#define TICKS	50000000

static u64 second;

static void read_tsc(void *tsc)
{
	*(u64 *)tsc = rdtsc();
}

/* The first CPU, which is further than that, waits asleep for the second one. */
static void approach(void *arg)
{
	static u64 first;
	static bool near;

	if (this_cpu()->cpu) {
		u64 ahead;

		do {
			ahead = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
		} while (!ahead || rdtsc() + APART < ahead);
		__atomic_store_n(&near, true, __ATOMIC_RELEASE);
		apic_icr(pcpus[0].apic_id, ICR_ASSERT | VEC_IPI);
		return;
	}
	__atomic_store_n(&first, rdtsc(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&near, __ATOMIC_ACQUIRE))
		asm volatile("sti\n hlt\n cli" : : : "memory");
}

static void watch(void *arg)
{
	for (;;) {
		if (this_cpu()->cpu) {
			__atomic_store_n(&second, rdtsc(), __ATOMIC_RELAXED);
			continue;
		}
		tsc_wait(TICKS);
		print("tsc %lu %lu\n", rdtsc() / 1000, __atomic_load_n(&second, __ATOMIC_RELAXED) / 1000);
	}
}

_Noreturn void clocks(void)
{
	if (nr_cpus < 2)
		t_bail("one CPU only");
	smp_run_on(1, read_tsc, &second);
	while (rdtsc() < second + APART)
		cpu_relax();
	smp_run(2, approach, NULL);
	smp_run(2, watch, NULL);
	__builtin_unreachable();
}
