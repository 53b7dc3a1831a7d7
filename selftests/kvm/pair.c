// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Host events that take two counters (AMD family 17h and later: PMCx003, PPR for family 17h, "Large
 * Increment per Cycle Events"): perf writes the neighbour of the event's counter, too.  A guest's counter
 * there goes elsewhere, before and while the guest is entered.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "tap.h"
#include "guests.h"
#include "host_pmu.h"
#include "pin.h"

/* Long enough for a host event to come while the guest executes */
#define LOOPS		2000000

#define PAIR		0xff03
#define MERGE		0xf000000ffull
#define MERGE_ENABLED	(MERGE | EN)

static atomic_bool stop;

static int host_pair(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_RAW, .size = sizeof(attr), .config = PAIR, .pinned = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
}

/* From another CPU, so that CPU 0 does it in an interrupt */
static void *come_and_go(void *unused)
{
	pin(0, 1);
	while (!stop) {
		int event = host_pair();

		if (event < 0)
			err(1, "perf_event_open");
		usleep(3000);
		close(event);
		usleep(3000);
	}
	return unused;
}

static void rounds(struct vm *vm, struct pmu pmu, uint64_t *value, const char *when)
{
	unsigned int wrong = 0;

	for (unsigned int round = 0; round < 20; round++) {
		run_until(vm, KVM_EXIT_IO);
		*value += loop_counts(BRANCHES, LOOPS, !*value);
		for (unsigned int i = 0; i < pmu.nr; i++) {
			uint64_t got = counter(vm, pmu, i);

			if (got != *value && !wrong++)
				printf("# counter %u: %llu, expected %llu\n", i, (unsigned long long)got,
				       (unsigned long long)*value);
		}
	}
	is(wrong, 0, "%s: counts that are wrong", when);
}

/* The host's event is still there, with both counters. */
static void check_host(const char *when)
{
	uint64_t select[NR_CORE];
	unsigned int found = 0;

	for (unsigned int i = 0; i < NR_CORE; i++)
		select[i] = host_msr(CORE_SELECT0 + 2 * i);
	for (unsigned int i = 0; i + 1 < NR_CORE; i++)
		found += (select[i] & 0xffff) == PAIR && (select[i + 1] & MERGE_ENABLED) == MERGE_ENABLED;
	is(found, 1, "%s: both counters of the host's event", when);
}

/* Is there time in which the host's @event didn't count? */
static bool was_lent(struct vm *vm, int event)
{
	struct {
		uint64_t value, enabled, running;
	} before, after;

	if (read(event, &before, sizeof(before)) != sizeof(before))
		err(1, "the host's event");
	for (unsigned int round = 0; round < 20; round++)
		run_until(vm, KVM_EXIT_IO);
	if (read(event, &after, sizeof(after)) != sizeof(after))
		err(1, "the host's event");
	return after.running - before.running < after.enabled - before.enabled;
}

/*
 * A guest's Merge event counts beside the counter below only, so its physical counter is the same one.  Where
 * the host's event has that, its own counter is lent with it.
 */
static void check_guests_merge(struct vm *vm, struct pmu pmu, int event)
{
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(vm, pmu, i, 0, 0);
	check(!was_lent(vm, event), "the guest has no counter: the host's event counts always");
	put_counter(vm, pmu, pmu.nr - 1, MERGE_ENABLED, 0);
	check(!was_lent(vm, event), "Merge on the guest's last counter: the host's event counts always");
	put_counter(vm, pmu, pmu.nr - 1, 0, 0);
	put_counter(vm, pmu, 1, MERGE_ENABLED, 0);
	check(was_lent(vm, event), "Merge on the guest's counter 1: the host's event says that it was lent");
}

int main(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	uint64_t value = 0;
	pthread_t thread;
	int event;

	if (on_intel() || pmu.nr < NR_CORE)
		skip_all("only AMD's CPUs of family 17h and later have such events");
	pin(0, 0);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, BRANCHES | OS | EN, 0);
	rounds(&vm, pmu, &value, "no pair");
	event = host_pair();
	if (event < 0)
		err(1, "perf_event_open");
	rounds(&vm, pmu, &value, "a pair");
	check_host("a pair");
	check_guests_merge(&vm, pmu, event);
	check_host("the guest's Merge");
	close(event);
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, BRANCHES | OS | EN, value);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		if (pthread_create(&thread, NULL, come_and_go, NULL))
			err(1, "pthread_create");
		rounds(&vm, pmu, &value, "a pair that comes and goes");
		stop = true;
		pthread_join(thread, NULL);
	}
	free_vm(&vm);
	return finish();
}
