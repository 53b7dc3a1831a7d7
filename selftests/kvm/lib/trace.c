// SPDX-License-Identifier: GPL-2.0-or-later
/* When a task's vCPU was on a CPU. */
#include "vm.h"
#include "trace.h"

void put_string(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ssize_t taken;

	if (fd < 0)
		err(1, "%s", file);
	for (; *text; text += taken) {
		taken = write(fd, text, strlen(text));
		if (taken <= 0)
			err(1, "%s", file);
	}
	close(fd);
}

void start_tracing(void)
{
	put_string(TRACING "trace_clock", "x86-tsc");
	put_string(TRACING "set_ftrace_filter", "kvm_arch_vcpu_load kvm_arch_vcpu_put");
	put_string(TRACING "current_tracer", "function");
}

void stop_tracing(void)
{
	put_string(TRACING "current_tracer", "nop");
	put_string(TRACING "set_ftrace_filter", "");
}

double on_cpu(pid_t pid, uint64_t start, uint64_t end, unsigned int *pieces)
{
	FILE *trace = fopen(TRACING "trace", "r");
	uint64_t since = 0, sum = 0;
	char line[400];

	if (!trace)
		err(1, TRACING "trace");
	*pieces = 0;
	/* TASK-PID [CPU] FLAGS TSC: FUNCTION <-CALLER */
	while (fgets(line, sizeof(line), trace)) {
		char *cpu = strstr(line, " ["), *stamp = strstr(line, ": kvm_arch_vcpu_");
		bool load = stamp && strstr(stamp, "_load <-");
		uint64_t tsc;

		if (!cpu || !stamp)
			continue;
		while (cpu > line && *cpu == ' ')
			cpu--;
		while (cpu > line && *cpu != '-')
			cpu--;
		while (stamp > line && stamp[-1] != ' ')
			stamp--;
		tsc = strtoull(stamp, NULL, 10);
		if (atoi(cpu + 1) != pid || tsc < start || tsc > end)
			continue;
		if (load) {
			since = tsc;
			++*pieces;
		} else if (since) {
			sum += tsc - since;
			since = 0;
		}
	}
	fclose(trace);
	return sum + (since ? end - since : 0);
}
