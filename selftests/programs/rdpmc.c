// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * In a guest: counters read in user mode, by RDPMC, as a self-monitoring program does it
 * (include/uapi/linux/perf_event.h, struct perf_event_mmap_page). Prints TAP. As root, as it sets
 * /sys/bus/event_source/devices/cpu/rdpmc.
 *
 *	rdpmc COUNTERS
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KNOB "/sys/bus/event_source/devices/cpu/rdpmc"

struct counter {
	int fd;
	volatile struct perf_event_mmap_page *page;
};

static int tests, failures;
static unsigned int nr_counters;

static void check(const char *name, bool good, uint64_t got, uint64_t expected)
{
	printf("%sok %d - %s (%lu)\n", good ? "" : "not ", ++tests, name, got);
	if (!good) {
		printf("# got %lu, expected %lu\n", got, expected);
		failures++;
	}
	fflush(stdout);
}

static void is(const char *name, uint64_t got, uint64_t expected)
{
	check(name, got == expected, got, expected);
}

static void set_knob(char value)
{
	int fd = open(KNOB, O_WRONLY);

	if (fd < 0 || write(fd, &value, 1) != 1)
		err(1, "%s", KNOB);
	close(fd);
}

/* Of this thread */
static struct counter open_counter(uint64_t config, bool user_only, bool pinned)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = config,
		.exclude_kernel = user_only,
		.exclude_hv = 1,
		.pinned = pinned,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	struct counter c;

	c.fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (c.fd < 0)
		err(1, "perf_event_open");
	c.page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, c.fd, 0);
	if (c.page == MAP_FAILED)
		err(1, "mmap");
	return c;
}

static void close_counter(struct counter c)
{
	munmap((void *)c.page, sysconf(_SC_PAGESIZE));
	close(c.fd);
}

static inline uint64_t rdpmc(uint32_t index)
{
	uint32_t low, high;

	asm volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index) : "memory");
	return (uint64_t)high << 32 | low;
}

/*
 * The counter's value, without a system call. @tries grows with each attempt, as one more is a few
 * more instructions. Return: whether the counter was on the CPU.
 */
__attribute__((noinline))
static bool read_user(struct counter c, uint64_t *value, unsigned int *tries)
{
	uint32_t lock, index;
	int64_t count;
	uint64_t sum;

	do {
		++*tries;
		lock = c.page->lock;
		asm volatile("" : : : "memory");
		index = c.page->index;
		sum = c.page->offset;
		if (!c.page->cap_user_rdpmc || !index)
			return false;
		count = rdpmc(index - 1);
		count = (int64_t)((uint64_t)count << (64 - c.page->pmc_width));
		sum += count >> (64 - c.page->pmc_width);
		asm volatile("" : : : "memory");
	} while (c.page->lock != lock);
	*value = sum;
	return true;
}

static uint64_t read_kernel(struct counter c)
{
	uint64_t values[3];

	if (read(c.fd, values, sizeof(values)) != sizeof(values))
		err(1, "read");
	return values[0];
}

/* nop, dec, jnz: 3 instructions and 1 branch each time */
static void loop(uint64_t n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tnop\n\tdec %0\n\tjnz 1b\n2:" : "+r"(n) : : "cc");
}

/* The same with CPUID in front, which a hypervisor completes: 4 and 1 */
static void loop_cpuid(uint64_t n)
{
	asm volatile("test %%rsi, %%rsi\n\tjz 2f\n"
		     "1:\tcpuid\n\tnop\n\tdec %%rsi\n\tjnz 1b\n2:"
		     : "+S"(n) : : "rax", "rbx", "rcx", "rdx", "cc");
}

/*
 * What RDPMC counts around N times of a loop, the two reads included. When the program was
 * interrupted in the middle of a read, that took longer: again then.
 */
__attribute__((noinline))
static uint64_t around(struct counter c, void (*run)(uint64_t), uint64_t n)
{
	uint64_t before, after;
	unsigned int tries, i;

	for (i = 0; i < 1000; i++) {
		tries = 0;
		if (!read_user(c, &before, &tries))
			continue;
		run(n);
		if (read_user(c, &after, &tries) && tries == 2)
			return after - before;
	}
	return -1;
}

static void exact(const char *name, struct counter c, void (*run)(uint64_t), uint64_t n, uint64_t each)
{
	uint64_t none = around(c, run, 0);

	is(name, around(c, run, n) - none, n * each);
}

static sigjmp_buf back;

static void on_fault(int sig)
{
	siglongjmp(back, sig);
}

/* Return: the signal that an RDPMC ends with, 0 for none. */
static int signal_of(uint32_t index)
{
	int sig = sigsetjmp(back, 1);

	if (!sig)
		rdpmc(index);
	return sig;
}

/* Somebody else for this CPU, so that this thread is switched out now and then. */
static pid_t start_rival(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		loop(1000);
}

static void exact_counts(void)
{
	struct counter i = open_counter(PERF_COUNT_HW_INSTRUCTIONS, true, true);
	struct counter b = open_counter(PERF_COUNT_HW_BRANCH_INSTRUCTIONS, true, true);
	uint64_t kernel, user = 0, later;
	unsigned int tries = 0;
	cpu_set_t here;
	pid_t rival;

	is("the kernel offers RDPMC", i.page->cap_user_rdpmc, 1);
	is("bits of a counter", i.page->pmc_width, 48);
	exact("loop x 1: instructions:u", i, loop, 1, 3);
	exact("loop x 1000000: instructions:u", i, loop, 1000000, 3);
	exact("loop x 1000000: branches:u", b, loop, 1000000, 1);
	exact("cpuid x 2000: instructions:u", i, loop_cpuid, 2000, 4);
	exact("cpuid x 2000: branches:u", b, loop_cpuid, 2000, 1);
	is("the same again: instructions:u", around(i, loop, 100), around(i, loop, 100));

	/* Nothing in between counts anything else: reading is monotonic, and both see the same. */
	kernel = read_kernel(i);
	read_user(i, &user, &tries);
	later = read_kernel(i);
	check("RDPMC's value is between two by read()", kernel < user && user < later, user - kernel,
	      later - kernel);

	CPU_ZERO(&here);
	CPU_SET(0, &here);
	sched_setaffinity(0, sizeof(here), &here);
	rival = start_rival();
	/* Long enough to be switched out, which moves the offset, many times */
	exact("beside another program: instructions:u", i, loop, 30000000, 3);
	exact("beside another program: branches:u", b, loop, 30000000, 1);
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);
	close_counter(i);
	close_counter(b);
}

/*
 * With more events than counters, one that isn't on the CPU now must say so. Look at all at one
 * moment, in which perf rotated none: that would have moved a lock.
 */
static void too_many(void)
{
	unsigned int i, n = 2 * nr_counters, tries, on, sum = 0, bad = 0, round;
	uint64_t value, before, after;
	struct counter c[n];
	bool is_on;

	for (i = 0; i < n; i++)
		c[i] = open_counter(PERF_COUNT_HW_INSTRUCTIONS, true, false);
	do {
		for (i = 0, before = 0; i < n; i++)
			before += c[i].page->lock;
		for (i = 0, on = 0, tries = 0; i < n; i++)
			on += read_user(c[i], &value, &tries);
		for (i = 0, after = 0; i < n; i++)
			after += c[i].page->lock;
	} while (before != after);
	/* The guest's NMI watchdog may need one of them. */
	check("of twice as many events as counters, on the CPU at once",
	      on == nr_counters || on == nr_counters - 1, on, nr_counters);

	/* While they rotate */
	for (round = 0; round < 20; round++) {
		loop(1000000);
		for (i = 0; i < n; i++) {
			before = read_kernel(c[i]);
			is_on = read_user(c[i], &value, &tries);
			after = read_kernel(c[i]);
			sum += is_on;
			bad += is_on && (value < before || value > after);
		}
	}
	check("read by RDPMC while they rotate", sum > 0 && sum < 20 * n, sum, 10 * n);
	is("of these, not between two by read()", bad, 0);
	for (i = 0; i < n; i++)
		close_counter(c[i]);
}

/* Who may: CR4.PCE is the guest's own, and the same as on hardware. */
static void permissions(void)
{
	struct counter c;

	signal(SIGSEGV, on_fault);
	is("RDPMC without an event: signal", signal_of(0), SIGSEGV);
	c = open_counter(PERF_COUNT_HW_INSTRUCTIONS, true, false);
	is("with an event: signal", signal_of(c.page->index - 1), 0);
	is("RDPMC of a counter that isn't there: signal", signal_of(nr_counters), SIGSEGV);
	is("RDPMC of counter -1: signal", signal_of(-1), SIGSEGV);
	set_knob('0');
	is("when the administrator forbids it: signal", signal_of(0), SIGSEGV);
	set_knob('1');
	close_counter(c);
	is("after the event: signal", signal_of(0), SIGSEGV);
	set_knob('2');
	is("when the administrator allows it to all: signal", signal_of(0), 0);
	set_knob('1');
	is("and no longer does: signal", signal_of(0), SIGSEGV);
}

int main(int argc, char **argv)
{
	nr_counters = argc > 1 ? atoi(argv[1]) : 6;
	exact_counts();
	too_many();
	permissions();
	printf("1..%d\n", tests);
	return failures != 0;
}
