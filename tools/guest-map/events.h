/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel tells of processes: its connector (CONFIG_PROC_EVENTS). */
#ifndef EVENTS_H
#define EVENTS_H

#include <stdbool.h>
#include <stdint.h>

enum event_kind {
	EVENT_FORK,	/* a process begins, with memory of its own or its parent's */
	EVENT_EXEC,	/* it has other memory now */
	EVENT_EXIT,	/* a thread of it has ended */
};

/**
 * struct event - one of these
 * @kind: what happened
 * @pid: the process
 * @ns: when, by CLOCK_MONOTONIC
 */
struct event {
	enum event_kind kind;
	int pid;
	uint64_t ns;
};

/* From now on.  False: this kernel doesn't tell. */
bool events_open(void);

/*
 * Call @call for each event that wasn't read yet, in their order.  False: the kernel didn't tell
 * all, or nothing at all, as events_open() failed.
 */
bool events_read(void (*call)(const struct event *event));

#endif
