// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * NMIs of another origin than an overflow.  TAP; nmis.sh makes the NMIs.
 *
 *	nmis NAME
 *		Intel: beside a guest that borrows counters of host perf's, what both have counted then.  AMD: while a
 *		guest's overflow status is in hardware (kmod/open.c).
 *	nmis NAME starts
 *		what a guest counts that starts and stops its counters all the time
 *
 * NAME is the tests'.
 *
 * No NMI watchdog: the host's events are to have all counters, or none.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>

#include "tap.h"
#include "sampler.h"
#include "figures.h"
#include "pin.h"

#define PERIOD	5000
#define ROUNDS	2000

struct reading {
	uint64_t value, enabled, running;
};

/* Instructions of thread @pid, or of all threads of CPU @cpu; a file, or -1 */
static int count_instructions(pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = PERF_COUNT_HW_INSTRUCTIONS,
	};

	return syscall(SYS_perf_event_open, &attr, pid, cpu, -1, 0);
}

/* Each has a counter to itself, and counts the host's kernel only, so loses little by lending. */
static int host_event(unsigned int i)
{
	static const uint64_t configs[] = {
		PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_REF_CPU_CYCLES,
	};
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .pinned = 1,
		/* These have fixed counters. */
		.config = i < MAX_FIXED ? configs[i] : PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.exclude_user = 1, .exclude_guest = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);

	if (fd < 0)
		err(1, "perf_event_open");
	return fd;
}

static struct reading reading_of(int event)
{
	struct reading r;

	if (read(event, &r, sizeof(r)) != sizeof(r))
		err(1, "read of a host event");
	return r;
}

/*
 * The host's events on general counters all count branches.  Those that lent their counters,
 * @wanted, missed what KVM executes around a stay in guest mode, which is less than the rest, and
 * say so by their time.  The others missed nothing.
 */
static void check_events(const struct reading *before, const struct reading *after, unsigned int nr,
			 unsigned int wanted, const char *name)
{
	uint64_t truth = 0, most = 0, least = -1ull;
	unsigned int lent = 0;

	for (unsigned int i = MAX_FIXED; i < nr; i++) {
		uint64_t gained = after[i].value - before[i].value;
		bool paused = after[i].running - before[i].running <
			      after[i].enabled - before[i].enabled;

		lent += paused;
		if (!paused && gained > truth)
			truth = gained;
		if (paused && gained > most)
			most = gained;
		if (paused && gained < least)
			least = gained;
	}
	is(lent, wanted, "%s: host events that have lent their counters", name);
	check(most < truth && 2 * least > truth, "%s: their counts, %llu and %llu of %llu", name,
	      (unsigned long long)least, (unsigned long long)most, (unsigned long long)truth);
}

/*
 * ESI times: counter 0 overflows without an interrupt, stops, and the status says so ten times.  RESULT: how often it
 * didn't.
 */
extern const char status_start[], status_end[];
asm(".code16\n"
    ".globl status_start, status_end\n"
    "status_start:\n"
    "	xor %edi, %edi\n"
    "1:	mov $0xc0010201, %ecx\n"
    "	mov $-10, %eax\n"
    "	mov $0xffff, %edx\n"
    "	wrmsr\n"
    "	xor %edx, %edx\n"
    "	mov $0xc0000301, %ecx\n"
    "	mov $1, %eax\n"
    "	wrmsr\n"
    "	mov $20, %ebp\n"
    "2:	dec %ebp\n"
    "	jnz 2b\n"
    "	xor %eax, %eax\n"
    "	wrmsr\n"
    "	mov $0xc0000300, %ecx\n"
    "	mov $10, %ebp\n"
    "3:	rdmsr\n"
    "	cmp $1, %eax\n"
    "	je 4f\n"
    "	inc %edi\n"
    "4:	dec %ebp\n"
    "	jnz 3b\n"
    "	mov $0xc0000302, %ecx\n"
    "	mov $1, %eax\n"
    "	wrmsr\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	mov %edi, 0x2000\n"
    "	out %al, $0x10\n"
    "status_end:\n"
    ".code64\n");

/*
 * Host perf's handler looks at the overflow status as soon as there is an event anywhere: here, of a thread that
 * sleeps.
 */
static void open_status(const char *name)
{
	struct kvm_vpmu_vcpu v;
	struct vm vm = make_vm(true);
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	if (device < 0 || child < 0 || count_instructions(child, -1) < 0)
		err(1, "an event of another process");
	put_counter(&vm, pmu_of(&vm), 0, INSTRUCTIONS | OS | EN, 0);
	load_code(&vm, status_start, status_end, (struct kvm_regs){ .rsi = ROUNDS });
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, RESULT), 0, "%s: values of the status that are wrong", name);
	v = figures(device, &vm);
	check(v.open > ROUNDS, "%s: registers were open at %llu VM entries", name, v.open);
	kill(child, SIGKILL);
	free_vm(&vm);
}

static void borrowed(const char *name)
{
	struct reading before[MOST_COUNTERS], after[MOST_COUNTERS];
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	unsigned int nr = nr_counters(pmu_of(&vm));
	int events[MOST_COUNTERS];

	for (unsigned int i = 0; i < nr; i++)
		events[i] = host_event(i);
	for (unsigned int i = 0; i < nr; i++)
		before[i] = reading_of(events[i]);
	run_until(&vm, KVM_EXIT_IO);
	for (unsigned int i = 0; i < nr; i++)
		after[i] = reading_of(events[i]);
	check_sampler(&vm, ROUNDS, PERIOD, name);
	check_events(before, after, nr, 2, name);
	free_vm(&vm);
}

/* ESI times: stop the counter whose select's address is at SELECT, start it, and branch as often as follows. */
#define SELECT		0x2100
#define COUNTED		21
extern const char starts_start[], starts_end[];
asm(".code16\n"
    ".globl starts_start, starts_end\n"
    "starts_start:\n"
    "1:	mov 0x2100, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2104, %eax\n"
    "	wrmsr\n"
    "	mov $20, %ebp\n"
    "2:	dec %ebp\n"
    "	jnz 2b\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "starts_end:\n"
    ".code64\n");

/*
 * Host perf's handler stops and starts all counters, as the host has an event, which counts in guest mode, too: so
 * host perf's global control need not be switched when the guest has no counter.
 */
static void starts(const char *name)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int event = count_instructions(-1, 0);

	if (event < 0)
		err(1, "perf_event_open");
	put_counter(&vm, pmu, 0, BRANCHES | OS, 0);
	load_code(&vm, starts_start, starts_end, (struct kvm_regs){ .rsi = ROUNDS });
	*word_at(&vm, SELECT) = pmu.select;
	*word_at(&vm, SELECT + 4) = event_here(BRANCHES | OS | EN);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), (uint64_t)COUNTED * ROUNDS, "%s: branches", name);
	close(event);
	free_vm(&vm);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "NMIs";

	pin(0, 0);
	if (argc > 2 && !strcmp(argv[2], "starts"))
		starts(name);
	else if (on_intel())
		borrowed(name);
	else
		open_status(name);
	return finish();
}
