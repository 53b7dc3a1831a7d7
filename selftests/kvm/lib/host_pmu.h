/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The PMU of the host's CPU, beside what guests see of it. */
#ifndef HOST_PMU_H
#define HOST_PMU_H

#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "cpu.h"

/* Of CPU 0 (modprobe msr) */
static inline uint64_t host_msr(uint32_t msr)
{
	static int fd = -1;
	uint64_t value;

	if (fd < 0)
		fd = open("/dev/cpu/0/msr", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(1, "/dev/cpu/0/msr");
	if (pread(fd, &value, sizeof(value), msr) != sizeof(value))
		err(1, "MSR %#x of the host", msr);
	return value;
}

/* Intel: SDM vol. 2, "CPUID", leaf 0AH */
static inline unsigned int host_pmu_version(void)
{
	unsigned int a, b, c, d;

	__cpuid(0xa, a, b, c, d);
	return a & 0xff;
}

/* The same; guests see three at most. */
static inline unsigned int host_fixed_counters(void)
{
	unsigned int a, b, c, d;

	__cpuid(0xa, a, b, c, d);
	return d & 0x1f;
}

/* What the fourth counts: INTEL_TD_SLOTS of Linux arch/x86/include/asm/perf_event.h, as a raw event */
#define SLOTS		0x0400

static inline bool host_has_slots(void)
{
	return on_intel() && host_fixed_counters() >= 4;
}

#endif
