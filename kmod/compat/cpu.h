/* SPDX-License-Identifier: GPL-2.0 */
/* The host's CPU: its MSRs and counters. */
#ifndef VPMU_COMPAT_CPU_H
#define VPMU_COMPAT_CPU_H

#include <linux/version.h>
#include <asm/msr.h>

/* How many general counters host perf has found on this machine; 0 without a PMU. */
unsigned int compat_perf_counters(void);

/* The kernel renamed its own helpers in 6.16. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)

static inline u64 compat_rdmsr(u32 msr)
{
	u64 value;

	rdmsrl(msr, value);
	return value;
}

static inline void compat_wrmsr(u32 msr, u64 value)
{
	wrmsrl(msr, value);
}

#else

static inline u64 compat_rdmsr(u32 msr)
{
	u64 value;

	rdmsrq(msr, value);
	return value;
}

static inline void compat_wrmsr(u32 msr, u64 value)
{
	wrmsrq(msr, value);
}

#endif
#endif
