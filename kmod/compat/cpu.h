/* SPDX-License-Identifier: GPL-2.0 */
/* The host's CPU: its MSRs and counters. */
#ifndef VPMU_COMPAT_CPU_H
#define VPMU_COMPAT_CPU_H

#include <linux/version.h>
#include <asm/msr.h>

/**
 * struct compat_counters - what host perf has found on this machine
 * @general: number of general counters; 0 without a PMU
 * @fixed: number of fixed counters
 * @bits: width of the general ones
 */
struct compat_counters {
	unsigned int general;
	unsigned int fixed;
	unsigned int bits;
};

struct compat_counters vpmu_compat_perf_counters(void);

/*
 * Intel: the counters that count in guest mode only, and in host mode only, on this CPU, as
 * bits of global control.  Host perf leaves the former out wherever it writes global
 * control, and KVM has the CPU switch them at VM entry and exit.
 */
unsigned long *vpmu_compat_only_in_guest(void);
unsigned long *vpmu_compat_only_in_host(void);

/* Does host perf run an event on the counter of this CPU that it knows by @index? */
bool vpmu_compat_host_has(unsigned int index);

/* Intel: the local APIC masks the PMU's entry when it delivers it; unmask it, as host perf does. */
void vpmu_compat_enable_pmi(void);

/* The kernel renamed its own helpers in 6.16. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)

static inline u64 vpmu_compat_rdmsr(u32 msr)
{
	u64 value;

	rdmsrl(msr, value);
	return value;
}

static inline void vpmu_compat_wrmsr(u32 msr, u64 value)
{
	wrmsrl(msr, value);
}

#else

static inline u64 vpmu_compat_rdmsr(u32 msr)
{
	u64 value;

	rdmsrq(msr, value);
	return value;
}

static inline void vpmu_compat_wrmsr(u32 msr, u64 value)
{
	wrmsrq(msr, value);
}

#endif
#endif
