/* SPDX-License-Identifier: GPL-2.0-or-later */
/* This host's CPU; guests of a tiny VM have the same. */
#ifndef TINYVM_CPU_H
#define TINYVM_CPU_H

#include <cpuid.h>
#include <stdbool.h>

/* Is it Intel's? */
static inline bool on_intel(void)
{
	unsigned int a, b, c, d;

	__cpuid(0, a, b, c, d);
	return b == signature_INTEL_ebx;
}

/* Its model, by SDM vol. 2, "CPUID", leaf 01H */
static inline unsigned int cpu_model(void)
{
	unsigned int a, b, c, d;

	__cpuid(1, a, b, c, d);
	return (a >> 12 & 0xf0) | (a >> 4 & 0xf);
}

#define SAPPHIRE_RAPIDS	0x8f

#endif
