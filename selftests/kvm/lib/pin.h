/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Keep threads where they are.  Define _GNU_SOURCE first. */
#ifndef SELFTESTS_PIN_H
#define SELFTESTS_PIN_H

#include <err.h>
#include <sched.h>

/* Thread @pid (0: this one) stays on @cpu. */
static inline void pin(pid_t pid, unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

#endif
