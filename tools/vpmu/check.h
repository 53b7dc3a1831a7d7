/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmu check: does this host count right? */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>

/* What came of a check; CHECK_NOTE is for what may matter and isn't wrong. */
enum check_outcome { CHECK_OK, CHECK_NOTE, CHECK_SKIPPED, CHECK_FAILED };

/**
 * struct check - one thing that was looked at
 * @outcome: what came of it
 * @name: what it is, the same in each run
 * @text: what was found, and what to do about it
 */
struct check {
	enum check_outcome outcome;
	char *name;
	char *text;
};

/**
 * struct checks - all of them, in order
 * @list: the checks
 * @count: how many
 */
struct checks {
	struct check *list;
	size_t count;
};

void check_add(struct checks *checks, enum check_outcome outcome, const char *name,
	       const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The host: CPU, kernel, perf, KVM, the module */
void check_host(struct checks *checks);

/**
 * check_guest() - a tiny VM on a CPU, whose counts are known
 * @checks: gets the results
 * @cpu: which CPU
 * @label: before the checks' names
 *
 * The VM runs in a process of its own, for some seconds at most.
 */
void check_guest(struct checks *checks, int cpu, const char *label);

/*
 * A CPU of each kind of core of this host (hybrid CPUs have two) that this process may use.
 * Returns how many; up to @max.
 */
size_t check_cpus(int *cpus, const char **kinds, size_t max);

#endif
