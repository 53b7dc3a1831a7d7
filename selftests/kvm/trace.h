/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When a task was on a CPU, by the scheduler's tracepoint and in ticks of the
 * TSC.  Include vm.h first.
 */
#ifndef SELFTESTS_TRACE_H
#define SELFTESTS_TRACE_H

#define TRACING	"/sys/kernel/tracing/"

static inline void put_string(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err(1, "%s", file);
	close(fd);
}

static inline void start_tracing(void)
{
	put_string(TRACING "trace_clock", "x86-tsc");
	put_string(TRACING "events/sched/sched_switch/enable", "1");
}

/* Forget all that was traced. */
static inline void clear_trace(void)
{
	put_string(TRACING "trace", "");
}

/*
 * Ticks of the host's TSC between @start and @end that task @pid was on a CPU, and in how
 * many pieces.  It was on one at both.
 */
static inline double on_cpu(pid_t pid, uint64_t start, uint64_t end, unsigned int *pieces)
{
	FILE *trace = fopen(TRACING "trace", "r");
	char line[400], in[30], out[30];
	uint64_t since = start, sum = 0;

	if (!trace)
		err(1, TRACING "trace");
	snprintf(in, sizeof(in), "next_pid=%d ", pid);
	snprintf(out, sizeof(out), "prev_pid=%d ", pid);
	*pieces = 1;
	while (fgets(line, sizeof(line), trace)) {
		char *stamp = strstr(line, ": sched_switch:");
		uint64_t tsc;

		if (!stamp)
			continue;
		while (stamp > line && stamp[-1] != ' ')
			stamp--;
		tsc = strtoull(stamp, NULL, 10);
		if (tsc < start || tsc > end)
			continue;
		if (strstr(line, in)) {
			since = tsc;
			++*pieces;
		} else if (strstr(line, out) && since) {
			sum += tsc - since;
			since = 0;
		}
	}
	fclose(trace);
	return sum + (since ? end - since : 0);
}

#endif
