/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Host perf's events of one thread. */
#ifndef THREAD_EVENT_H
#define THREAD_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"

/**
 * struct thread_count - what an event has counted
 * @value: that, or what it would have counted if it had counted all the time
 * @counted: which share of the time it did, 0 to 1
 */
struct thread_count {
	uint64_t value;
	double counted;
};

/*
 * Count @code of the thread @tid, in guest mode only if @guest.  Returns a file, or a negative error
 * number of perf_event_open(2).
 */
int thread_event_open(int tid, struct event_code code, bool guest);

struct thread_count thread_event_read(int fd);

#endif
