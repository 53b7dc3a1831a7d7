/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the data of a VM's vCPUs come from when the CPU's private caches don't have them.  Of vCPUs
 * that share data, much comes from other sockets' caches; of those that want room, from memory.
 */
#ifndef FILLS_H
#define FILLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"

/* The nearest first.  A socket is what shares memory: on AMD, one may have several caches. */
enum fill_source {
	FILL_CACHE,		/* the own last-level cache, or another core's that shares it */
	FILL_NEAR_CACHE,	/* another last-level cache of the socket */
	FILL_MEMORY,		/* the socket's memory */
	FILL_FAR_CACHE,		/* another socket's cache */
	FILL_FAR_MODIFIED,	/* modified there; where that is told apart */
	FILL_FAR_MEMORY,	/* another socket's memory; where that is told apart */
	FILL_SOURCES,
};

/* The name in options and JSON; and in tables */
const char *fill_name(enum fill_source source);
const char *fill_text(enum fill_source source);

/**
 * struct fill_events - the events of this host's CPU
 * @name: of each, as libpfm4 or perf has it; NULL: there is none
 * @code: the same for perf_event_open()
 */
struct fill_events {
	const char *name[FILL_SOURCES];
	struct event_code code[FILL_SOURCES];
};

/* False: none are known of this CPU. */
bool fill_events_find(struct fill_events *events);

/*
 * As somebody names them: "SOURCE=EVENT,...", which is changed and kept.  False: *@why, to be freed,
 * says what is wrong.
 */
bool fill_events_parse(struct fill_events *events, char *text, char **why);

/**
 * struct fills - what was counted
 * @seconds: for how long
 * @loads: of each source, of all vCPUs together
 * @counted: the least share of the time that an event of a vCPU that ran counted, 0 to 1.  Below 1,
 *	host perf had not enough counters, and @loads are estimates.
 */
struct fills {
	double seconds;
	uint64_t loads[FILL_SOURCES];
	double counted;
};

/**
 * struct fill_counter - events that count
 * @fd: of each thread, by source, -1 where there is no event
 * @threads: how many
 * @began: when; ns of CLOCK_MONOTONIC
 */
struct fill_counter {
	int *fd;
	size_t threads;
	uint64_t began;
};

/*
 * Begin to count @events of the vCPUs' threads @tid.  0, or a negative error number of
 * perf_event_open(2): then there is nothing to be closed.
 */
int fills_open(struct fill_counter *counter, const struct fill_events *events, const int *tid,
	       size_t threads);

/* What was counted since it was opened */
void fills_read(const struct fill_counter *counter, struct fills *fills);

void fills_close(struct fill_counter *counter);

/* Count @events of the vCPUs' threads @tid for @ns.  0, or a negative error number. */
int fills_count(const struct fill_events *events, const int *tid, size_t threads, uint64_t ns,
		struct fills *fills);

#endif
