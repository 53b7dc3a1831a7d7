// SPDX-License-Identifier: GPL-2.0-or-later
#include "meter.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "thread_event.h"
#include "util.h"

/* ---- vCPUs' threads */

/* ns that the thread waited for a CPU: Documentation/scheduler/sched-stats.rst; 0: it ended */
static uint64_t read_wait(const char *proc, int tid)
{
	char *path = xasprintf("%s/%d/schedstat", proc, tid);
	FILE *file = fopen(path, "re");
	uint64_t wait;

	free(path);
	if (!file)
		return 0;
	if (fscanf(file, "%*u %" SCNu64, &wait) != 1)
		wait = 0;
	fclose(file);
	return wait;
}

/* ---- the host */

static bool read_number(const char *path, uint64_t *n)
{
	FILE *file = fopen(path, "re");
	bool good;

	if (!file)
		return false;
	good = fscanf(file, "%" SCNu64, n) == 1;
	fclose(file);
	return good;
}

static void find_packages(struct meter *meter, const char *cpus)
{
	size_t i;

	meter->cpus = get_nprocs_conf();
	meter->package = xrealloc(NULL, meter->cpus * sizeof(*meter->package));
	for (i = 0; i < meter->cpus; i++) {
		char *path = xasprintf("%s/cpu%zu/topology/physical_package_id", cpus, i);
		uint64_t package;

		meter->package[i] = read_number(path, &package) ? (int)package : -1;
		free(path);
	}
}

/* Documentation/power/powercap/powercap.rst: the zones of sockets are called package-N. */
static bool is_package(const char *zone)
{
	char *path = xasprintf("%s/name", zone), name[16] = "";
	FILE *file = fopen(path, "re");

	free(path);
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = 0;
	fclose(file);
	return !strncmp(name, "package-", strlen("package-"));
}

static void add_zone(struct meter *meter, const char *zone)
{
	char *path = xasprintf("%s/max_energy_range_uj", zone);
	uint64_t range, energy;
	bool good = read_number(path, &range);

	free(path);
	path = xasprintf("%s/energy_uj", zone);
	if (!good || !read_number(path, &energy)) {
		free(path);
		return;
	}
	meter->zone = xgrow(meter->zone, meter->zones, sizeof(*meter->zone));
	meter->range = xgrow(meter->range, meter->zones, sizeof(*meter->range));
	meter->zone[meter->zones] = path;
	meter->range[meter->zones++] = range;
}

static void find_zones(struct meter *meter, const char *power)
{
	char *pattern = xasprintf("%s/*", power);
	glob_t zones;
	size_t i;

	if (!glob(pattern, 0, NULL, &zones)) {
		for (i = 0; i < zones.gl_pathc; i++)
			if (is_package(zones.gl_pathv[i]))
				add_zone(meter, zones.gl_pathv[i]);
		globfree(&zones);
	}
	free(pattern);
}

/* proc(5), /proc/stat: the times of cpuN are user, nice, system, idle, iowait, ... in ticks. */
static void read_idle(const struct meter *meter, double *idle)
{
	char *path = xasprintf("%s/stat", meter->proc), *line = NULL;
	FILE *file = fopen(path, "re");
	uint64_t idle_ticks, iowait_ticks;
	size_t room = 0, cpu;

	free(path);
	if (!file)
		return;
	while (getline(&line, &room, file) > 0)
		if (sscanf(line, "cpu%zu %*u %*u %*u %" SCNu64 " %" SCNu64, &cpu, &idle_ticks,
			   &iowait_ticks) == 3 && cpu < meter->cpus)
			idle[cpu] = (double)(idle_ticks + iowait_ticks) / sysconf(_SC_CLK_TCK);
	free(line);
	fclose(file);
}

/* ---- */

static const struct event_code instructions = {
	PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS
};
static const struct event_code task_clock = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK };

int meter_open(struct meter *meter, const char *proc, const char *power, const char *cpus,
	       const int *tid, size_t threads)
{
	*meter = (struct meter){ .proc = proc };
	meter->thread = xrealloc(NULL, threads * sizeof(*meter->thread));
	for (; meter->threads < threads; meter->threads++) {
		struct meter_thread *t = &meter->thread[meter->threads];

		t->tid = tid[meter->threads];
		t->instructions = thread_event_open(t->tid, instructions, true);
		t->time = thread_event_open(t->tid, task_clock, false);
		if (t->instructions < 0 || t->time < 0) {
			int error = t->instructions < 0 ? t->instructions : t->time;

			close(t->instructions);
			close(t->time);
			meter_close(meter);
			return error;
		}
	}
	find_packages(meter, cpus);
	find_zones(meter, power);
	return 0;
}

void meter_close(struct meter *meter)
{
	size_t i;

	for (i = 0; i < meter->threads; i++) {
		close(meter->thread[i].instructions);
		close(meter->thread[i].time);
	}
	for (i = 0; i < meter->zones; i++)
		free(meter->zone[i]);
	free(meter->thread);
	free(meter->package);
	free(meter->zone);
	free(meter->range);
}

void meter_read(const struct meter *meter, struct reading *reading)
{
	size_t i;

	*reading = (struct reading){ .ns = clock_ns(CLOCK_MONOTONIC) };
	for (i = 0; i < meter->threads; i++) {
		const struct meter_thread *t = &meter->thread[i];

		reading->instructions += thread_event_read(t->instructions).value;
		reading->run += thread_event_read(t->time).value;
		reading->wait += read_wait(meter->proc, t->tid);
	}
	reading->idle = xrealloc(NULL, meter->cpus * sizeof(*reading->idle));
	memset(reading->idle, 0, meter->cpus * sizeof(*reading->idle));
	read_idle(meter, reading->idle);
	reading->energy = xrealloc(NULL, (meter->zones + 1) * sizeof(*reading->energy));
	for (i = 0; i < meter->zones; i++)
		if (!read_number(meter->zone[i], &reading->energy[i]))
			reading->energy[i] = 0;
}

void reading_free(struct reading *reading)
{
	free(reading->idle);
	free(reading->energy);
}

double power_model(double packages, double cpus)
{
	return 104.63 + 8.69 * packages + 1.62 * cpus;
}

/* Sockets in use: one with half a CPU's work is half in use. */
static double packages_in_use(const struct meter *meter, const double *busy)
{
	double used = 0, work;
	size_t i, j;

	for (i = 0; i < meter->cpus; i++) {
		for (j = 0; j < i && meter->package[j] != meter->package[i]; j++)
			;
		if (meter->package[i] < 0 || j < i)
			continue;
		for (work = 0; j < meter->cpus; j++)
			work += meter->package[j] == meter->package[i] ? busy[j] : 0;
		used += work < 1 ? work : 1;
	}
	return used;
}

static double joules(const struct meter *meter, const struct reading *before,
		     const struct reading *now, const double *busy)
{
	double seconds = (now->ns - before->ns) / 1e9, used = 0, sum = 0;
	size_t i;

	for (i = 0; i < meter->zones; i++) {
		uint64_t from = before->energy[i], to = now->energy[i];

		sum += ((to < from ? meter->range[i] : 0) + to - from) / 1e6;
	}
	if (meter->zones)
		return sum;
	for (i = 0; i < meter->cpus; i++)
		used += busy[i];
	return power_model(packages_in_use(meter, busy), used) * seconds;
}

void progress_init(struct progress *progress, const struct meter *meter)
{
	*progress = (struct progress){
		.busy = xrealloc(NULL, meter->cpus * sizeof(*progress->busy)),
	};
	memset(progress->busy, 0, meter->cpus * sizeof(*progress->busy));
}

void progress_add(struct progress *progress, const struct meter *meter,
		  const struct reading *before, const struct reading *now)
{
	double seconds = (now->ns - before->ns) / 1e9, *busy;
	size_t i;

	if (seconds <= 0)
		return;
	busy = xrealloc(NULL, meter->cpus * sizeof(*busy));
	for (i = 0; i < meter->cpus; i++) {
		busy[i] = 1 - (now->idle[i] - before->idle[i]) / seconds;
		if (meter->package[i] < 0 || busy[i] < 0)
			busy[i] = 0;
		progress->busy[i] += busy[i] * seconds;
	}
	progress->seconds += seconds;
	progress->instructions += now->instructions - before->instructions;
	progress->runnable += (now->run - before->run + now->wait - before->wait) / 1e9;
	progress->joules += joules(meter, before, now, busy);
	free(busy);
}

void progress_sum(struct progress *progress, const struct meter *meter,
		  const struct progress *more)
{
	size_t i;

	progress->seconds += more->seconds;
	progress->instructions += more->instructions;
	progress->runnable += more->runnable;
	progress->joules += more->joules;
	for (i = 0; i < meter->cpus; i++)
		progress->busy[i] += more->busy[i];
	for (i = 0; i < FILL_SOURCES; i++)
		progress->loads[i] += more->loads[i];
}

void progress_free(struct progress *progress)
{
	free(progress->busy);
}
