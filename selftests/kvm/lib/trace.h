/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When a task's vCPU was on a CPU, by KVM's own loading and putting of it, which
 * the kernel traces, and in ticks of the TSC.  (The scheduler's tracepoint has
 * the cost of the switch on both sides, 25 us each time on an emulated host.)
 * Include vm.h first.
 */
#ifndef SELFTESTS_TRACE_H
#define SELFTESTS_TRACE_H

#define TRACING	"/sys/kernel/tracing/"

/* Some of these files take a word at a time. */
void put_string(const char *file, const char *text);

void start_tracing(void);

void stop_tracing(void);

/* Forget all that was traced. */
static inline void clear_trace(void)
{
	put_string(TRACING "trace", "");
}

/*
 * Ticks of the host's TSC between @start and @end that the vCPU of task @pid was
 * on a CPU, and in how many pieces
 */
double on_cpu(pid_t pid, uint64_t start, uint64_t end, unsigned int *pieces);

#endif
