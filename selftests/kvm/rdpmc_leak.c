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

/* An event of its own lets a process use RDPMC while mapped (arch/x86/events/core.c, x86_pmu_event_mapped()). */
static void *map_event(void)
{
	void *mapping;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		err(1, "perf_event_open");
	mapping = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapping == MAP_FAILED)
		err(1, "mmap of an event");
	return mapping;
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

/* Writes the secret to the last counter twice while no counter counts, and leaves with an OUT, each time. */
extern const char secret_start[], secret_end[];
asm(".code16\n"
    ".globl secret_start, secret_end\n"
    "secret_start:\n"
    "	mov 0x2100, %ecx\n"		/* global control */
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2104, %ecx\n"		/* the last counter, which the NMI watchdog leaves */
    "1:	mov 0x2108, %eax\n"
    "	mov 0x210c, %edx\n"
    "	wrmsr\n"
    "	wrmsr\n"
    "	out %al, $0x10\n"
    "	jmp 1b\n"
    "secret_end:\n"
    ".code64\n");

static void leak(const char *name, bool counting)
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

	if (counting)
		load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = 1000 });
	else
		load_code(&vm, secret_start, secret_end, (struct kvm_regs){ });
	*word_at(&vm, TABLE) = GLOBAL_CONTROL;
	*word_at(&vm, TABLE + 4) = counter_msr(pmu, pmu.nr - 1);
	*word_at(&vm, TABLE + 8) = (uint32_t)SECRET;
	*word_at(&vm, TABLE + 12) = SECRET >> 32;
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, counting ? SECRET : 0);
	if (!counting)
		set_msr(&vm, GLOBAL_CONTROL, 0);
	for (unsigned int round = 0; round < 10; round++) {
		run_until(&vm, KVM_EXIT_IO);
		transfer(to[1], true, &byte);
		transfer(from[0], false, &byte);
		is(byte, 0, "%s, round %u: physical counters with the guest's count", name, round);
	}
	check(counter(&vm, pmu, pmu.nr - 1) >= SECRET + (counting ? 20000 : 0), "%s: the guest's own count", name);
	close(to[1]);
	wait(&status);
	is(status, 0, "%s: the other process ended well", name);
	free_vm(&vm);
}

/*
 * Writes 0 to the MSR at TABLE + 4, if there is one, and reads as many counters as TABLE + 8 says.  RESULT: 1 for as
 * long as it waits for the word at TABLE; EBP: how often it looked
 */
#define WAIT_INSTRUCTIONS	5	/* besides 3 each time, and the OUT, which is to be completed */
extern const char wait_start[], wait_end[];
asm(".code16\n"
    ".globl wait_start, wait_end\n"
    "wait_start:\n"
    "	mov 0x2104, %ecx\n"
    "	jecxz 2f\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2108, %ecx\n"
    "3:	dec %ecx\n"
    "	rdpmc\n"
    "	jecxz 2f\n"
    "	jmp 3b\n"
    "2:	xor %ebp, %ebp\n"
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
	void *mapping;

	pin(0, 1);
	while (!__atomic_load_n(word_at(vm, RESULT), __ATOMIC_ACQUIRE))
		;
	mapping = map_event();
	__atomic_store_n(word_at(vm, TABLE), 1, __ATOMIC_RELEASE);
	munmap(mapping, getpagesize());
	return NULL;
}

/*
 * Host events were on the counters that a guest's take.  If the process may use RDPMC from now on, perf clears
 * what is left of such events on each of its CPUs, by an interrupt (cr4_update_pce(), perf_clear_dirty_counters()).
 */
static void cleared(bool counting)
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
	*word_at(&vm, TABLE + 4) = counting ? 0 : GLOBAL_CONTROL;
	*word_at(&vm, TABLE + 8) = pmu.nr;
	/* First, as counters that run for a moment would be another case */
	if (!counting)
		set_msr(&vm, GLOBAL_CONTROL, 0);
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, counting ? 0 : SECRET);
	if (pthread_create(&thread, NULL, map_for_guest, &vm))
		err(1, "pthread_create");
	run_until(&vm, KVM_EXIT_IO);
	pthread_join(thread, NULL);
	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	for (unsigned int i = 0; i < pmu.nr; i++)
		is(counter(&vm, pmu, i), counting ? WAIT_INSTRUCTIONS + 3 * regs.rbp : SECRET,
		   "an event is mapped: counter %u, which %s", i, counting ? "counts" : "doesn't count");
	free_vm(&vm);
}

int main(void)
{
	struct vm vm;
	bool v2;

	pin(0, 0);
	leak("counters that count", true);
	vm = make_vm(true);
	v2 = pmu_of(&vm).v2;
	free_vm(&vm);
	if (v2)
		leak("counters that don't", false);
	else
		skip("no PerfMonV2", "counters that don't");
	/* Behind it, as this process may use RDPMC then */
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		cleared(true);
		if (v2)
			cleared(false);
	}
	return finish();
}
