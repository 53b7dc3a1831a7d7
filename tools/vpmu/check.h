/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmu check: does this host count right? */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>

/**
 * struct check - one thing that was looked at
 * @outcome: CHECK_NOTE is for what may matter and isn't wrong
 * @name: what it is, the same in each run
 * @text: what was found, and what to do about it
 */
struct check {
	enum { CHECK_OK, CHECK_NOTE, CHECK_SKIPPED, CHECK_FAILED } outcome;
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

void check_add(struct checks *checks, int outcome, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * The host: CPU, kernel, KVM, the module, perf.  Files are looked up below @root ("" for this
 * host).
 */
void check_host(struct checks *checks, const char *root);

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
