// SPDX-License-Identifier: GPL-2.0-or-later
#include "thread_event.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

int thread_event_open(int tid, struct event_code code, bool guest)
{
	struct perf_event_attr attr = {
		.type = code.type, .size = sizeof(attr), .config = code.config,
		.exclude_host = guest,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

struct thread_count thread_event_read(int fd)
{
	struct {
		uint64_t value, enabled, running;
	} count;

	if (read(fd, &count, sizeof(count)) != sizeof(count) || !count.running)
		return (struct thread_count){ };
	if (count.running == count.enabled)
		return (struct thread_count){ count.value, 1 };
	return (struct thread_count){
		count.value * (double)count.enabled / count.running,
		(double)count.running / count.enabled,
	};
}
