// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest that borrows counters of host perf's beside NMIs of another origin: what both have
 * counted then.  TAP; the argument names the tests.  nmis.sh makes the NMIs.
 *
 * No NMI watchdog: the host's events are to have all counters.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "tap.h"
#include "sampler.h"
#include "pin.h"

#define PERIOD	5000
#define ROUNDS	2000

struct reading {
	uint64_t value, enabled, running;
};

/* Each has a counter to itself, and counts the host's kernel only, so loses little by lending. */
static int host_event(unsigned int i)
{
	static const uint64_t configs[] = {
		PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_REF_CPU_CYCLES,
	};
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .pinned = 1,
		/* These have fixed counters. */
		.config = i < MAX_FIXED ? configs[i] : PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.exclude_user = 1, .exclude_guest = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);

	if (fd < 0)
		err(1, "perf_event_open");
	return fd;
}

static struct reading reading_of(int event)
{
	struct reading r;

	if (read(event, &r, sizeof(r)) != sizeof(r))
		err(1, "read of a host event");
	return r;
}

/*
 * The host's events on general counters all count branches.  Those that lent their counters,
 * @wanted, missed what KVM executes around a stay in guest mode, which is less than the rest, and
 * say so by their time.  The others missed nothing.
 */
static void check_events(const struct reading *before, const struct reading *after, unsigned int nr,
			 unsigned int wanted, const char *name)
{
	uint64_t truth = 0, most = 0, least = -1ull;
	unsigned int lent = 0;

	for (unsigned int i = MAX_FIXED; i < nr; i++) {
		uint64_t gained = after[i].value - before[i].value;
		bool paused = after[i].running - before[i].running <
			      after[i].enabled - before[i].enabled;

		lent += paused;
		if (!paused && gained > truth)
			truth = gained;
		if (paused && gained > most)
			most = gained;
		if (paused && gained < least)
			least = gained;
	}
	is(lent, wanted, "%s: host events that have lent their counters", name);
	check(most < truth && 2 * least > truth, "%s: their counts, %llu and %llu of %llu", name,
	      (unsigned long long)least, (unsigned long long)most, (unsigned long long)truth);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "NMIs";
	struct reading before[MOST_COUNTERS], after[MOST_COUNTERS];
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	unsigned int nr = nr_counters(pmu_of(&vm));
	int events[MOST_COUNTERS];

	pin(0, 0);
	for (unsigned int i = 0; i < nr; i++)
		events[i] = host_event(i);
	for (unsigned int i = 0; i < nr; i++)
		before[i] = reading_of(events[i]);
	run_until(&vm, KVM_EXIT_IO);
	for (unsigned int i = 0; i < nr; i++)
		after[i] = reading_of(events[i]);
	check_sampler(&vm, ROUNDS, PERIOD, name);
	check_events(before, after, nr, 2, name);
	free_vm(&vm);
	return finish();
}
