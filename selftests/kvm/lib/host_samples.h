/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Samples that host perf takes, in the ring of an event. */
#ifndef SELFTESTS_HOST_SAMPLES_H
#define SELFTESTS_HOST_SAMPLES_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/mman.h>

#include "files.h"

#define RING_PAGES	128
#define HIGH_RATE	"1000000"

struct samples {
	unsigned int samples, lost, throttled;
	unsigned int others;	/* records that are no samples, these two included */
};

/* Samples a second, and how much of the time they may take.  Where that is 0, perf refuses a rate. */
static inline void set_sample_rate(const char *rate, const char *percent)
{
	put_string("/proc/sys/kernel/perf_cpu_time_max_percent", "99");
	put_string("/proc/sys/kernel/perf_event_max_sample_rate", rate);
	put_string("/proc/sys/kernel/perf_cpu_time_max_percent", percent);
}

static inline void *map_samples(int fd)
{
	void *map = mmap(NULL, 4096 * (RING_PAGES + 1), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		err(1, "mmap of an event");
	return map;
}

static inline struct samples count_samples(const void *map)
{
	const struct perf_event_mmap_page *page = map;
	const char *data = (const char *)map + 4096;
	struct samples s = { };

	for (uint64_t at = 0; at < page->data_head;) {
		const struct perf_event_header *h = (const void *)(data + at % (4096 * RING_PAGES));

		s.samples += h->type == PERF_RECORD_SAMPLE;
		s.others += h->type != PERF_RECORD_SAMPLE;
		s.lost += h->type == PERF_RECORD_LOST;
		s.throttled += h->type == PERF_RECORD_THROTTLE;
		at += h->size;
	}
	if (page->data_head >= 4096 * RING_PAGES)
		errx(1, "too many samples");
	return s;
}

#endif
