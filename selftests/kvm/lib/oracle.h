/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the emulator of the host knows: docs/emulated-pmu.md, "Oracle" and
 * "Reference for virtual PMUs".  Include vm.h first.
 */
#ifndef SELFTESTS_ORACLE_H
#define SELFTESTS_ORACLE_H

#define ORACLE			0xc0de0100
#define ORACLE_COMPARISONS	0xc0de0010
#define ORACLE_MISMATCHES	0xc0de0011

enum { HOST_KERNEL, HOST_USER, GUEST_KERNEL, GUEST_USER, NR_MODES };
enum { INSTRUCTIONS = 0, BRANCHES = 1, CYCLES = 5, VMRUN = 10, EMULATED = 11, RDMSR = 12, WRMSR = 13,
       EXITS = 14, RDPMC = 15, NR_EVENTS };

/* Opens what the others read. */
static inline int open_oracle(int cpu)
{
	char name[40];
	int fd;

	snprintf(name, sizeof(name), "/dev/cpu/%d/msr", cpu);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s (modprobe msr)", name);
	return fd;
}

static inline uint64_t oracle_msr(int fd, uint32_t msr)
{
	uint64_t value;

	if (pread(fd, &value, 8, msr) != 8)
		err(1, "the oracle (x-pmu-oracle=on)");
	return value;
}

static inline uint64_t oracle(int fd, unsigned int event, unsigned int mode)
{
	return oracle_msr(fd, ORACLE + 4 * event + mode);
}

#endif
