/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An event of the host's, beside the guests'. */
#ifndef HOST_EVENT_H
#define HOST_EVENT_H

#include <err.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Branches, on CPU 0, pinned to a counter: as long as the file that is returned is open */
static inline int host_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .pinned = 1,
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);

	if (fd < 0)
		err(1, "perf_event_open");
	return fd;
}

#endif
