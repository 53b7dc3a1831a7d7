/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How fast the vCPUs of a VM get on, how busy the host's CPUs are, and what power they take. */
#ifndef METER_H
#define METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fills.h"

/* Folders of the kernel's */
#define METER_POWER	"/sys/class/powercap"
#define METER_CPUS	"/sys/devices/system/cpu"

/**
 * struct meter_thread - a thread that runs a vCPU
 * @tid: its number
 * @instructions: host perf's event of instructions in guest mode
 * @time: of the time that it runs
 */
struct meter_thread {
	int tid;
	int instructions, time;
};

/**
 * struct meter - what is measured
 * @proc: where procfs is mounted
 * @thread: vCPUs' threads
 * @threads: how many
 * @cpus: CPUs of the host, by number
 * @package: of each, its socket; -1: there is no such CPU
 * @zone: files with the energy that sockets took, in uJ
 * @range: where each of these begins again
 * @zones: how many; 0: there is only the model
 */
struct meter {
	const char *proc;
	struct meter_thread *thread;
	size_t threads;
	size_t cpus;
	int *package;
	char **zone;
	uint64_t *range;
	size_t zones;
};

/**
 * struct reading - a look at it
 * @ns: when
 * @instructions: of all vCPUs, in the guest
 * @run: ns that they ran, all together
 * @wait: ns that they waited for a CPU, all together
 * @idle: of each CPU of the host, seconds without work
 * @energy: of each socket, in uJ
 */
struct reading {
	uint64_t ns;
	uint64_t instructions, run, wait;
	double *idle;
	uint64_t *energy;
};

/**
 * struct progress - between two looks, or the sum of several times
 * @seconds: how long that is
 * @instructions: of all vCPUs, in the guest
 * @runnable: seconds that the vCPUs ran or waited for a CPU, all together
 * @busy: of each CPU of the host, seconds with work
 * @joules: of all sockets, measured or by the model
 * @loads: of all vCPUs, by where they are from; 0 unless whoever measures adds them
 */
struct progress {
	double seconds;
	double instructions, runnable;
	double *busy;
	double joules;
	double loads[FILL_SOURCES];
};

/*
 * Begin to measure threads @tid.  @power is METER_POWER, @cpus is METER_CPUS.  0, or a negative
 * error number of perf_event_open(2).
 */
int meter_open(struct meter *meter, const char *proc, const char *power, const char *cpus,
	       const int *tid, size_t threads);

void meter_close(struct meter *meter);

void meter_read(const struct meter *meter, struct reading *reading);

void reading_free(struct reading *reading);

/* Begin a sum; add what is between two readings. */
void progress_init(struct progress *progress, const struct meter *meter);
void progress_add(struct progress *progress, const struct meter *meter,
		  const struct reading *before, const struct reading *now);

/* Add another one of the same meter's. */
void progress_sum(struct progress *progress, const struct meter *meter,
		  const struct progress *more);

void progress_free(struct progress *progress);

/*
 * Watts of a machine of which @packages sockets and @cpus logical CPUs are in use: the model that
 * Bae et al. (HPDC 2012) fitted to a machine of two sockets, of 4 cores with 2 threads each.
 */
double power_model(double packages, double cpus);

#endif
