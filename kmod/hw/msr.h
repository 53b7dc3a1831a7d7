/* SPDX-License-Identifier: GPL-2.0 */
/* Accesses to this CPU's PMU; each is counted. */
#ifndef VPMU_HW_MSR_H
#define VPMU_HW_MSR_H

#include <linux/percpu.h>

#include "../compat/host.h"
#include "../count.h"
#include "hw.h"

DECLARE_PER_CPU(struct hw_accesses, vpmu_hw_counts);

static inline u64 vpmu_hw_rdmsr(u32 msr)
{
	this_cpu_inc(vpmu_hw_counts.rdmsr);
	return vpmu_compat_rdmsr(msr);
}

static inline void vpmu_hw_wrmsr(u32 msr, u64 value)
{
	this_cpu_inc(vpmu_hw_counts.wrmsr);
	vpmu_compat_wrmsr(msr, value);
}

static inline u64 vpmu_hw_rdpmc(u32 index)
{
	u32 low, high;

	this_cpu_inc(vpmu_hw_counts.rdpmc);
	/* The kernel's own may be a paravirtual one. */
	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (index));
	return ((u64)high << 32 | low) & VPMU_COUNTER_MASK;
}

#endif
