// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Host events come to all physical counters of a CPU and leave again, while a guest there turns its own counter on and
 * off: what the counter had when it was turned off is what it goes on from, whatever the host left.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "tap.h"
#include "guests.h"
#include "pin.h"

#define ROUNDS		50
#define RUNS		5
/* Turns of a loop with the counter off, long enough for the host's events to come and go */
#define OFF		2000000

/* ESI times: write EBP, an event select, to MSR ECX, and 0 a little later; then EDI turns of a loop. */
extern const char toggle_start[], toggle_end[];
asm(".code16\n"
    ".globl toggle_start, toggle_end\n"
    "toggle_start:\n"
    "	xor %edx, %edx\n"
    "1:	mov %ebp, %eax\n"
    "	wrmsr\n"
    "	nop\n"
    "	nop\n"
    "	xor %eax, %eax\n"
    "	wrmsr\n"
    "	mov %edi, %ebx\n"
    "2:	dec %ebx\n"
    "	jnz 2b\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "toggle_end:\n"
    ".code64\n");

static atomic_bool stop;
static unsigned int came;

static int host_event(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = PERF_COUNT_HW_INSTRUCTIONS,
	};

	return syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
}

/* From another CPU, so that CPU 0 does it in an interrupt, while the vCPU is loaded */
static void *come_and_go(void *arg)
{
	const struct pmu *pmu = arg;
	int events[MOST_COUNTERS];

	pin(0, 1);
	while (!stop) {
		for (unsigned int i = 0; i < pmu->nr; i++) {
			events[i] = host_event();
			if (events[i] < 0)
				err(1, "perf_event_open");
		}
		for (unsigned int i = 0; i < pmu->nr; i++)
			close(events[i]);
		came++;
	}
	return arg;
}

/* What the guest's counter gains in a run */
static uint64_t run(struct vm *vm, struct pmu pmu)
{
	load_code(vm, toggle_start, toggle_end, (struct kvm_regs){
		.rcx = pmu.select, .rbp = event_here(INSTRUCTIONS | OS | EN), .rsi = ROUNDS, .rdi = OFF,
	});
	put_counter(vm, pmu, 0, 0, 0);
	run_until(vm, KVM_EXIT_IO);
	return counter(vm, pmu, 0);
}

int main(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	pthread_t thread;
	uint64_t alone;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip_all("needs two CPUs");
	pin(0, 0);
	alone = run(&vm, pmu);
	check(alone >= 3 * ROUNDS, "without the host's events: %llu", (unsigned long long)alone);
	if (pthread_create(&thread, NULL, come_and_go, &pmu))
		err(1, "pthread_create");
	for (unsigned int i = 0; i < RUNS; i++)
		is(run(&vm, pmu), alone, "while they come and go");
	stop = true;
	pthread_join(thread, NULL);
	check(came >= 20, "they came, %u times", came);
	return finish();
}
