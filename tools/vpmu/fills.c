// SPDX-License-Identifier: GPL-2.0-or-later
#include "fills.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "thread_event.h"
#include "util.h"

static const struct {
	const char *name, *text;
} sources[FILL_SOURCES] = {
	[FILL_CACHE] = { "cache", "last-level cache" },
	[FILL_NEAR_CACHE] = { "near-cache", "another cache of the socket" },
	[FILL_MEMORY] = { "memory", "memory" },
	[FILL_FAR_CACHE] = { "far-cache", "another socket's cache" },
	[FILL_FAR_MODIFIED] = { "far-modified", "another socket's cache, modified" },
	[FILL_FAR_MEMORY] = { "far-memory", "another socket's memory" },
};

/*
 * By libpfm4's names, of AMD's Zen 5, 4, 3 and 2 (0x43, "Demand Data Cache Fills by Data Source"), of
 * Intel's servers since Skylake, and of Intel's other CPUs, which tell no memory apart.
 */
static const char *const known[][FILL_SOURCES] = {
	{
		[FILL_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:LOCAL_CCX",
		[FILL_NEAR_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:NEAR_FAR_CACHE_NEAR",
		[FILL_MEMORY] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:DRAM_IO_NEAR",
		[FILL_FAR_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:NEAR_FAR_CACHE_FAR",
		[FILL_FAR_MEMORY] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:DRAM_IO_FAR",
	}, {
		[FILL_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:LOCAL_CCX",
		[FILL_NEAR_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:NEAR_CACHE_NEAR_FAR",
		[FILL_MEMORY] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:DRAM_IO_NEAR",
		[FILL_FAR_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:FAR_CACHE_NEAR_FAR",
		[FILL_FAR_MEMORY] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:DRAM_IO_FAR",
	}, {
		[FILL_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:INT_CACHE",
		[FILL_NEAR_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:EXT_CACHE_LCL",
		[FILL_MEMORY] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:MEM_IO_LCL",
		[FILL_FAR_CACHE] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:EXT_CACHE_RMT",
		[FILL_FAR_MEMORY] = "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:MEM_IO_RMT",
	}, {
		[FILL_CACHE] = "DATA_CACHE_REFILLS_FROM_SYSTEM:LS_MABRESP_LCL_CACHE",
		[FILL_MEMORY] = "DATA_CACHE_REFILLS_FROM_SYSTEM:LS_MABRESP_LCL_DRAM",
		[FILL_FAR_CACHE] = "DATA_CACHE_REFILLS_FROM_SYSTEM:LS_MABRESP_RMT_CACHE",
		[FILL_FAR_MEMORY] = "DATA_CACHE_REFILLS_FROM_SYSTEM:LS_MABRESP_RMT_DRAM",
	}, {
		[FILL_CACHE] = "MEM_LOAD_RETIRED:L3_HIT",
		[FILL_MEMORY] = "MEM_LOAD_L3_MISS_RETIRED:LOCAL_DRAM",
		[FILL_FAR_CACHE] = "MEM_LOAD_L3_MISS_RETIRED:REMOTE_FWD",
		[FILL_FAR_MODIFIED] = "MEM_LOAD_L3_MISS_RETIRED:REMOTE_HITM",
		[FILL_FAR_MEMORY] = "MEM_LOAD_L3_MISS_RETIRED:REMOTE_DRAM",
	}, {
		[FILL_CACHE] = "MEM_LOAD_RETIRED:L3_HIT",
		[FILL_MEMORY] = "MEM_LOAD_RETIRED:L3_MISS",
	},
};

const char *fill_name(enum fill_source source)
{
	return sources[source].name;
}

const char *fill_text(enum fill_source source)
{
	return sources[source].text;
}

static bool encode(struct fill_events *events, const char *const names[FILL_SOURCES])
{
	char *why;
	int i;

	for (i = 0; i < FILL_SOURCES; i++) {
		events->name[i] = names[i];
		if (names[i] && !event_encode(names[i], &events->code[i], &why)) {
			free(why);
			return false;
		}
	}
	return true;
}

bool fill_events_find(struct fill_events *events)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (encode(events, known[i]))
			return true;
	*events = (struct fill_events){ };
	return false;
}

bool fill_events_parse(struct fill_events *events, char *text, char **why)
{
	char *name;
	int i;

	*events = (struct fill_events){ };
	while ((name = strsep(&text, ","))) {
		char *event = strchr(name, '=');

		if (event)
			*event++ = 0;
		for (i = 0; i < FILL_SOURCES && strcmp(name, sources[i].name); i++)
			;
		if (i == FILL_SOURCES || !event) {
			*why = xasprintf("fills from '%s': SOURCE=EVENT, with cache, near-cache, memory, far-cache, far-modified or far-memory",
					 name);
			return false;
		}
		if (!event_encode(event, &events->code[i], why))
			return false;
		events->name[i] = event;
	}
	return true;
}

int fills_open(struct fill_counter *counter, const struct fill_events *events, const int *tid,
	       size_t threads)
{
	size_t i;

	*counter = (struct fill_counter){
		.fd = xrealloc(NULL, (threads + 1) * FILL_SOURCES * sizeof(*counter->fd)),
		.threads = threads,
	};
	for (i = 0; i < threads * FILL_SOURCES; i++)
		counter->fd[i] = -1;
	for (i = 0; i < threads * FILL_SOURCES; i++) {
		const int source = i % FILL_SOURCES;
		int fd;

		if (!events->name[source])
			continue;
		fd = thread_event_open(tid[i / FILL_SOURCES], events->code[source], true);
		if (fd < 0) {
			fills_close(counter);
			return fd;
		}
		counter->fd[i] = fd;
	}
	counter->began = clock_ns(CLOCK_MONOTONIC);
	return 0;
}

void fills_close(struct fill_counter *counter)
{
	size_t i;

	for (i = 0; i < counter->threads * FILL_SOURCES; i++)
		if (counter->fd[i] >= 0)
			close(counter->fd[i]);
	free(counter->fd);
}

/* Events that never counted are those of a vCPU that didn't run, unless others of it did. */
static void add_thread(struct fills *fills, const int fd[FILL_SOURCES])
{
	double least = 1, most = 0;
	int source;

	for (source = 0; source < FILL_SOURCES; source++) {
		struct thread_count count;

		if (fd[source] < 0)
			continue;
		count = thread_event_read(fd[source]);
		fills->loads[source] += count.value;
		least = count.counted < least ? count.counted : least;
		most = count.counted > most ? count.counted : most;
	}
	if (most > 0 && least < fills->counted)
		fills->counted = least;
}

void fills_read(const struct fill_counter *counter, struct fills *fills)
{
	size_t i;

	*fills = (struct fills){ .counted = 1 };
	for (i = 0; i < counter->threads; i++)
		add_thread(fills, &counter->fd[i * FILL_SOURCES]);
	fills->seconds = (clock_ns(CLOCK_MONOTONIC) - counter->began) / 1e9;
}

int fills_count(const struct fill_events *events, const int *tid, size_t threads, uint64_t ns,
		struct fills *fills)
{
	const struct timespec time = { ns / NS_PER_S, ns % NS_PER_S };
	struct fill_counter counter;
	int r = fills_open(&counter, events, tid, threads);

	if (r)
		return r;
	nanosleep(&time, NULL);
	fills_read(&counter, fills);
	fills_close(&counter);
	return 0;
}
