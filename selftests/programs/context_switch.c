// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * In a guest: two processes that take turns, each of which counts itself.
 *
 *	context_switch TURNS EVENTS
 *
 * Each has EVENTS events of its own, so that the kernel has to take those of the one off and
 * put those of the other on at each turn.
 */
#define _GNU_SOURCE
#include <err.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t configs[] = {
	PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CACHE_REFERENCES,
};

static void count_myself(unsigned int events)
{
	for (unsigned int i = 0; i < events; i++) {
		struct perf_event_attr attr = {
			.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = configs[i],
		};

		if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) < 0)
			err(1, "perf_event_open");
	}
}

static void take_turns(int in, int out, unsigned int turns, unsigned int events)
{
	char byte = 0;

	count_myself(events);
	for (unsigned int i = 0; i < turns; i++)
		if (read(in, &byte, 1) != 1 || write(out, &byte, 1) != 1)
			err(1, "the other is gone");
}

int main(int argc, char **argv)
{
	unsigned int turns, events;
	int there[2], back[2], status;
	cpu_set_t first;

	if (argc != 3)
		errx(1, "usage: context_switch TURNS EVENTS");
	turns = atoi(argv[1]);
	events = atoi(argv[2]);
	if (events > sizeof(configs) / sizeof(*configs))
		errx(1, "that many events there aren't");
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first) || pipe(there) || pipe(back))
		err(1, "preparing");
	if (!fork()) {
		take_turns(there[0], back[1], turns, events);
		return 0;
	}
	if (write(there[1], "", 1) != 1)
		err(1, "write");
	take_turns(back[0], there[1], turns, events);
	wait(&status);
	return status ? 1 : 0;
}
