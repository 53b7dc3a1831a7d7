// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A host event that perf has throttled moves to another counter, as an event comes that can use few
 * counters only (a pair, PPR for AMD family 17h, "Large Increment per Cycle Events").  Linux 7.0 and later
 * write the throttled event's count there: neither the guest's counts nor the event's must change.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "tap.h"
#include "guests.h"
#include "kernel.h"
#include "pin.h"

#define RUNS		15
#define LOOPS		4000000
/* Where guest counters start: a host event that took one of them would be this far off. */
#define FAR		(1ull << 40)

#define PAIR		0xff03
/* An interrupt per tick throttles the event: kernel.perf_event_max_sample_rate is so low. */
#define PERIOD		1000
/* In 20 ms, an event that isn't throttled counts millions. */
#define FEW		(1000 * PERIOD)
#define SAMPLE_RATE	"1"

static atomic_bool stop;
static unsigned int moved;
static uint64_t most;

/* One that samples is pinned: other events that come leave it where it is, but for its counter. */
static int host_event(uint32_t type, uint64_t config, uint64_t period)
{
	struct perf_event_attr attr = {
		.type = type, .size = sizeof(attr), .config = config, .pinned = !!period,
		.sample_period = period,
	};
	int event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);

	if (event < 0)
		err(1, "perf_event_open");
	return event;
}

static uint64_t count_of(int event)
{
	uint64_t count;

	if (read(event, &count, sizeof(count)) != sizeof(count))
		err(1, "reading a host event");
	return count;
}

/* Sets host perf's limit of samples per second; the old one comes back in @old, ended by NUL. */
static void set_rate(const char *rate, char *old, size_t size)
{
	int fd = open("/proc/sys/kernel/perf_event_max_sample_rate", O_RDWR);
	ssize_t n = fd < 0 ? -1 : read(fd, old, size - 1);

	if (n < 0 || pwrite(fd, rate, strlen(rate), 0) < 0)
		err(1, "kernel.perf_event_max_sample_rate");
	old[n] = 0;
	close(fd);
}

/* From another CPU, so that CPU 0 has the events moved in an interrupt, while the vCPU is loaded */
static void *come_and_go(void *unused)
{
	pin(0, 1);
	while (!stop) {
		int sampling = host_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, PERIOD), pair;
		uint64_t count;

		/* Throttled up to the next tick, and again right behind that */
		usleep(10000);
		pair = host_event(PERF_TYPE_RAW, PAIR, 0);
		moved++;
		usleep(10000);
		count = count_of(sampling);
		if (count > most)
			most = count;
		close(pair);
		close(sampling);
	}
	return unused;
}

int main(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	uint64_t value = 0;
	unsigned int wrong = 0;
	char rate[32], unused[32];
	pthread_t thread;

	if (on_intel() || pmu.nr < NR_CORE)
		skip_all("only AMD's CPUs of family 17h and later have events that take two counters");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip_all("needs two CPUs");
	set_rate(SAMPLE_RATE, rate, sizeof(rate));
	pin(0, 0);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, BRANCHES | OS | EN, FAR);
	if (pthread_create(&thread, NULL, come_and_go, NULL))
		err(1, "pthread_create");
	for (unsigned int run = 0; run < RUNS; run++) {
		run_until(&vm, KVM_EXIT_IO);
		value += loop_counts(BRANCHES, LOOPS, !value);
		for (unsigned int i = 0; i < pmu.nr; i++) {
			uint64_t got = counter(&vm, pmu, i);

			if (got != FAR + value && !wrong++)
				printf("# counter %u: %llu, expected %llu\n", i, (unsigned long long)got,
				       (unsigned long long)(FAR + value));
		}
	}
	stop = true;
	pthread_join(thread, NULL);
	set_rate(rate, unused, sizeof(unused));
	check(moved, "a throttled host event moved, %u times", moved);
	is(wrong, 0, "counts of the guest that are wrong");
	/* f1cac6ac62d2 "x86/perf: Make sure to program the counter value for stopped events on migration" */
	if (!kernel_at_least(7, 0))
		skip("host perf of this kernel takes what it finds in the counter",
		     "the host event's own count");
	else
		check(most < FEW, "the host event's own count, at most %llu",
		      (unsigned long long)most);
	free_vm(&vm);
	return finish();
}
