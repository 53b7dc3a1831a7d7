// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a guest counted stays its own: another process of the host, one that may use
 * RDPMC, finds nothing of it in the physical counters.  And what perf does to leave
 * nothing of host events to such a process changes no count of a guest's.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
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

static void leak(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int to[2], from[2], status;
	char byte;

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
}

/* RESULT: 1 for as long as it waits for the word at TABLE; EBP: how often it looked */
#define WAIT_INSTRUCTIONS	3	/* besides 3 each time, and the OUT, which is to be completed */
extern const char wait_start[], wait_end[];
asm(".code16\n"
    ".globl wait_start, wait_end\n"
    "wait_start:\n"
    "	xor %ebp, %ebp\n"
    "	movl $1, 0x2000\n"
    "1:	inc %ebp\n"
    "	cmpl $0, 0x2100\n"
    "	je 1b\n"
    "	movl $0, 0x2000\n"
    "	out %al, $0x10\n"
    "wait_end:\n"
    ".code64\n");

/* From another CPU, while the guest executes */
static void *map_for_guest(void *arg)
{
	struct vm *vm = arg;

	pin(0, 1);
	while (!__atomic_load_n(word_at(vm, RESULT), __ATOMIC_ACQUIRE))
		;
	map_event();
	__atomic_store_n(word_at(vm, TABLE), 1, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * Host events were on the counters that a guest's take.  If the process may use RDPMC from now on, perf clears
 * what is left of such events on each of its CPUs, by an interrupt (cr4_update_pce(), perf_clear_dirty_counters()).
 */
static void cleared(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .pinned = 1,
		.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	};
	int events[MOST_COUNTERS];
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	pthread_t thread;
	struct kvm_regs regs;

	for (unsigned int i = 0; i < MOST_COUNTERS; i++)
		events[i] = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	for (unsigned int i = 0; i < MOST_COUNTERS; i++)
		close(events[i]);

	load_code(&vm, wait_start, wait_end, (struct kvm_regs){ });
	*word_at(&vm, TABLE) = 0;
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, 0);
	if (pthread_create(&thread, NULL, map_for_guest, &vm))
		err(1, "pthread_create");
	run_until(&vm, KVM_EXIT_IO);
	pthread_join(thread, NULL);
	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	for (unsigned int i = 0; i < pmu.nr; i++)
		is(counter(&vm, pmu, i), WAIT_INSTRUCTIONS + 3 * regs.rbp, "an event is mapped: counter %u", i);
	free_vm(&vm);
}

int main(void)
{
	pin(0, 0);
	leak();
	/* Behind it, as this process may use RDPMC then */
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		cleared();
	return finish();
}
