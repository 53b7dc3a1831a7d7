// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Host events that take turns on the physical counters (multiplexing), groups of them at a time, beside
 * a guest that counts cycles: none of the host's gets a count of the guest's, those of the host alone
 * don't count in guest mode, and the guest's instructions are exact.  TAP.
 *
 * No NMI watchdog: a fixed counter is to be free now and then.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>

#include "tap.h"
#include "guests.h"
#include "pin.h"

#define LOOPS	20000
/* Turns are taken while the guest executes. */
#define MANY	2000000
#define GROUPS	2
#define EVENTS	5
/* Far more than anything counts in so short a time, and far less than what a counter starts from */
#define GARBAGE	(1ull << 36)

struct reading {
	uint64_t value, enabled, running;
};

static int host_event(uint64_t config, int group, bool of_host_alone)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = config,
		.exclude_guest = of_host_alone,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, 0, group, 0);

	if (fd < 0)
		err(1, "perf_event_open");
	return fd;
}

static void turns(const uint64_t *leaders, unsigned int loops, bool of_host_alone, const char *name)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	/* More than fit twice; beside those of the host alone, which are one of the groups, the guest's one stays. */
	unsigned int nr = of_host_alone ? pmu.nr / 2 + 1 : EVENTS;
	unsigned int rounds, wrong = 0;
	int events[GROUPS][EVENTS];
	uint64_t value = 0;
	time_t end;

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = loops });
	if (!of_host_alone) {
		put_counter(&vm, pmu, 0, CYCLES | OS | EN, 0);
		put_counter(&vm, pmu, 1, CYCLES | OS | EN, 0);
	}
	put_counter(&vm, pmu, 2, INSTRUCTIONS | OS | EN, 0);
	for (unsigned int g = 0; g < GROUPS; g++)
		for (unsigned int i = 0; i < nr; i++)
			events[g][i] = host_event(i ? PERF_COUNT_HW_BRANCH_INSTRUCTIONS : leaders[g],
						  i ? events[g][0] : -1, of_host_alone && g);
	end = time(NULL) + 2;
	for (rounds = 0; time(NULL) < end; rounds++) {
		run_until(&vm, KVM_EXIT_IO);
		value += loop_counts(INSTRUCTIONS, loops, !rounds);
		wrong += counter(&vm, pmu, 2) != value;
	}
	is(wrong, 0, "%s: the guest's instructions: rounds that are wrong", name);
	for (unsigned int g = 0; g < GROUPS; g++) {
		for (unsigned int i = 0; i < nr; i++) {
			struct reading r;

			if (read(events[g][i], &r, sizeof(r)) != sizeof(r))
				err(1, "read of an event");
			/* The host has a tick now and then, the guest the CPU. */
			if (of_host_alone && g)
				check(r.running < r.enabled && r.value < value / 40,
				      "%s: group %u, event %u: %llu in %llu of %llu ns", name, g, i,
				      (unsigned long long)r.value, (unsigned long long)r.running,
				      (unsigned long long)r.enabled);
			check(r.running && r.value < GARBAGE, "%s: group %u, event %u: %llu", name, g, i,
			      (unsigned long long)r.value);
			close(events[g][i]);
		}
	}
	free_vm(&vm);
}

int main(void)
{
	static const uint64_t with[GROUPS] = {
		PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
	};
	static const uint64_t without[GROUPS] = {
		PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_REF_CPU_CYCLES,
	};
	static const uint64_t branches[GROUPS] = {
		PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	};

	pin(0, 0);
	turns(with, LOOPS, false, "cycles, instructions");
	/* The guest has the fixed counter of instructions, and host perf changes the others. */
	if (on_intel())
		turns(without, LOOPS, false, "cycles, reference cycles");
	turns(branches, MANY, true, "with the guest, and of the host alone");
	return finish();
}
