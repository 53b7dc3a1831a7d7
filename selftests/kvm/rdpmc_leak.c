// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a guest counted stays its own: another process of the host, one that may use
 * RDPMC, finds nothing of it in the physical counters.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tap.h"
#include "guests.h"
#include "pin.h"

#define SECRET	0x123456789aull

static uint64_t rdpmc(unsigned int counter)
{
	uint32_t low, high;

	asm volatile("rdpmc" : "=a" (low), "=d" (high) : "c" (counter));
	return (uint64_t)high << 32 | low;
}

/* An event of its own lets a process use RDPMC (arch/x86/events/core.c, x86_pmu_event_mapped()). */
static void map_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		err(1, "perf_event_open");
	if (mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		err(1, "mmap of an event");
}

static void transfer(int fd, bool out, char *byte)
{
	if ((out ? write(fd, byte, 1) : read(fd, byte, 1)) != 1)
		errx(1, "the other process is gone");
}

/* How many counters hold what the guest's do, more or less: a byte for each byte that comes */
static void snoop(int in, int out, unsigned int nr)
{
	char byte = 0;

	map_event();
	transfer(out, true, &byte);
	while (read(in, &byte, 1) == 1) {
		byte = 0;
		for (unsigned int i = 0; i < nr; i++)
			byte += rdpmc(i) - SECRET < 1 << 24;
		transfer(out, true, &byte);
	}
	exit(0);
}

int main(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int to[2], from[2], status;
	char byte;

	pin(0, 0);
	if (pipe(to) || pipe(from))
		err(1, "pipe");
	if (!fork()) {
		close(to[1]);
		snoop(to[0], from[1], pmu.nr);
	}
	/* So that its end is seen */
	close(from[1]);
	transfer(from[0], false, &byte);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = 1000 });
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, SECRET);
	for (unsigned int round = 0; round < 10; round++) {
		run_until(&vm, KVM_EXIT_IO);
		transfer(to[1], true, &byte);
		transfer(from[0], false, &byte);
		is(byte, 0, "round %u: physical counters with the guest's count", round);
	}
	check(counter(&vm, pmu, 0) > SECRET + 20000, "the guest counted");
	close(to[1]);
	wait(&status);
	is(status, 0, "the other process ended well");
	free_vm(&vm);
	return finish();
}
