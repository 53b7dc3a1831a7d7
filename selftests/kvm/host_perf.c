// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Host perf and a guest's virtual PMU on one CPU, both against the emulator's
 * oracle.  TAP.
 *
 *	beside [icount]
 *		"icount" if time is the host's number of instructions
 *	beside watch
 *		count until stdin ends, while others do what they like
 *
 * The guest counts loops whose instructions are known.  The host's events are
 * read together with the oracle, by a sequence of system calls whose own
 * instructions are always the same: what an event gained between two of them
 * must be what the oracle gained.
 *
 * The host's NMI watchdog is on, so one counter less is free than the CPU has.
 * On a host of several CPUs another one makes events come and go on this one.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/kvm_vpmu.h>

#include "vm.h"
#include "files.h"
#include "host_samples.h"
#include "pin.h"
#include "oracle.h"

#define MAX_COUNTERS	6
#define MAX_EVENTS	16

/*
 * A kernel event that lends its counter misses what KVM executes between there
 * and VMRUN, and from #VMEXIT until it gets it back (svm_vcpu_run()), and the
 * module's work for those counters that are lent after and given back before
 * its own: no more instructions than this in all, and for each counter.
 */
#define AROUND_VMRUN	900
#define FOR_EACH_LENT	400
/* Its time stands still for a bit longer: from the first's lending to when all are given back. */
#define PAUSED_AROUND	1500

/*
 * EBX iterations, ESI counters whose selects are in the table, which then holds
 * their values, the rounds of an iteration, and whether it halts, too.  Starts at offset 0 of its
 * segment: there the oracle's reference begins anew.
 */
extern const char beside_start[], beside_end[];
asm(".code16\n"
    ".globl beside_start, beside_end\n"
    "beside_start:\n"
    "	mov %ebx, %ebp\n"
    "	xor %edi, %edi\n"
    "1:	cmp %esi, %edi\n"
    "	je 2f\n"
    "	lea 0xc0010201(,%edi,2), %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	dec %ecx\n"
    "	mov 0x2100(,%edi,8), %eax\n"
    "	mov 0x2104(,%edi,8), %edx\n"
    "	wrmsr\n"
    "	inc %edi\n"
    "	jmp 1b\n"
    "2:	test %ebp, %ebp\n"
    "	jz 5f\n"
    "3:	xor %eax, %eax\n"
    "	cpuid\n"
    "	testb $1, 0x2144\n"
    "	jz 8f\n"
    "	hlt\n"
    "8:	mov 0x2140, %ecx\n"
    "4:	dec %ecx\n"
    "	jnz 4b\n"
    "	dec %ebp\n"
    "	jnz 3b\n"
    "5:	xor %edi, %edi\n"
    "6:	cmp %esi, %edi\n"
    "	je 7f\n"
    "	lea 0xc0010200(,%edi,2), %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	inc %ecx\n"
    "	rdmsr\n"
    "	mov %eax, 0x2100(,%edi,8)\n"
    "	mov %edx, 0x2104(,%edi,8)\n"
    "	inc %edi\n"
    "	jmp 6b\n"
    "7:	hlt\n"
    "beside_end:\n"
    ".code64\n");

#define ROUNDS		(TABLE + 0x40)

/*
 * What the guest counts, and what of it one iteration of R rounds is; more
 * if it halts
 */
static const struct {
	const char *name;
	uint64_t select;
	int64_t per_round, per_iteration, once, halting;
} guest_event[MAX_COUNTERS] = {
	{ "instructions", 0x4300c0, 2, 7, 0, 1 },
	{ "branches", 0x4300c2, 1, 2, 0, 0 },
	/* The last round's jump isn't taken, nor is the last iteration's; that around none is. */
	{ "taken branches", 0x4300c4, 1, 1, -2, -1 },
	{ "conditional branches", 0x4300d1, 1, 2, 0, 0 },
	{ "cycles", 0x430076, 0, 0, 0, 0 },
	{ "cycles", 0x430076, 0, 0, 0, 0 },
};

static int tests, failed, msr, device;
static bool icount;	/* time is deterministic */

static void result(bool good, const char *format, ...)
{
	va_list args;

	printf("%sok %d - ", good ? "" : "not ", ++tests);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	failed += !good;
}

static void is(const char *name, const char *what, uint64_t got, uint64_t wanted)
{
	result(got == wanted, "%s: %s (%lld, wanted %lld)", name, what, (long long)got,
	       (long long)wanted);
}

/* ---- the host's events */

struct host_event {
	const char *name;
	struct perf_event_attr attr;
	int fd;
};

#define EVENT(event, ...)						\
	{								\
		.size = sizeof(struct perf_event_attr),			\
		.type = PERF_TYPE_HARDWARE,				\
		.config = PERF_COUNT_HW_##event,			\
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |		\
			       PERF_FORMAT_TOTAL_TIME_RUNNING,		\
		__VA_ARGS__						\
	}

static const struct host_event
	uH = { "instructions:uH", EVENT(INSTRUCTIONS, .pinned = 1, .exclude_kernel = 1,
					.exclude_guest = 1), -1 },
	kH = { "instructions:kH", EVENT(INSTRUCTIONS, .pinned = 1, .exclude_user = 1,
					.exclude_guest = 1), -1 },
	H = { "instructions:H", EVENT(INSTRUCTIONS, .pinned = 1, .exclude_guest = 1), -1 },
	bH = { "branches:uH", EVENT(BRANCH_INSTRUCTIONS, .pinned = 1, .exclude_kernel = 1,
				    .exclude_guest = 1), -1 },
	G = { "instructions:G", EVENT(INSTRUCTIONS, .pinned = 1, .exclude_host = 1), -1 },
	both = { "instructions", EVENT(INSTRUCTIONS, .pinned = 1), -1 },
	user = { "instructions:u", EVENT(INSTRUCTIONS, .pinned = 1, .exclude_kernel = 1), -1 },
	turn = { "instructions:uH in turns", EVENT(INSTRUCTIONS, .exclude_kernel = 1,
						   .exclude_guest = 1), -1 };

static int open_event(const struct perf_event_attr *attr, int cpu, int group)
{
	return syscall(SYS_perf_event_open, attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC);
}

struct reading {
	uint64_t oracle[NR_MODES][2];	/* instructions, branches */
	uint64_t vmrun, exits, comparisons, mismatches;
	struct { uint64_t value, enabled, running; } event[MAX_EVENTS];
	uint64_t spent[2];		/* instructions of the sequence itself: kernel, user */
};

static void read_once(struct reading *r, const struct host_event *events, unsigned int nr)
{
	uint64_t kernel = oracle(msr, INSTRUCTIONS, HOST_KERNEL);
	uint64_t mine = oracle(msr, INSTRUCTIONS, HOST_USER);

	for (int mode = 0; mode < NR_MODES; mode++) {
		r->oracle[mode][0] = oracle(msr, INSTRUCTIONS, mode);
		r->oracle[mode][1] = oracle(msr, BRANCHES, mode);
	}
	r->vmrun = oracle(msr, VMRUN, GUEST_KERNEL);
	r->exits = oracle(msr, EXITS, GUEST_KERNEL);
	r->comparisons = oracle_msr(msr, ORACLE_COMPARISONS);
	r->mismatches = oracle_msr(msr, ORACLE_MISMATCHES);
	for (unsigned int i = 0; i < nr; i++)
		if (read(events[i].fd, &r->event[i], 24) != 24)
			errx(1, "%s has no counter", events[i].name);
	r->spent[0] = oracle(msr, INSTRUCTIONS, HOST_KERNEL) - kernel;
	r->spent[1] = oracle(msr, INSTRUCTIONS, HOST_USER) - mine;
}

/*
 * A reading that nothing came between: it took as many instructions as
 * @like, or as the one before it.  Where samples are taken all the
 * time (@disturbed) there is none.
 */
static struct reading read_all(const struct host_event *events, unsigned int nr,
			       const struct reading *like, bool disturbed)
{
	struct reading r[2];

	read_once(&r[0], events, nr);
	if (disturbed)
		return r[0];
	for (int tries = 0; tries < 3000; tries++) {
		int now = !(tries % 2);

		read_once(&r[now], events, nr);
		if (!memcmp(r[now].spent, like ? like->spent : r[!now].spent,
			    sizeof(r[now].spent)))
			return r[now];
	}
	errx(1, "no two readings are alike");
}

/* ---- the guest */

static struct kvm_vpmu_vcpu figures(void)
{
	struct kvm_vpmu_vm vm;
	struct kvm_vpmu_vms list = { .vms = (uintptr_t)&vm, .room = 1 };
	struct kvm_vpmu_vcpu v = { };

	IOCTL(device, KVM_VPMU_GET_VMS, &list);
	if (list.count != 1)
		errx(1, "%u VMs", list.count);
	v.vm = vm.id;
	IOCTL(device, KVM_VPMU_GET_VCPU, &v);
	return v;
}

static void run_guest(struct vm *vm, unsigned int counters, uint32_t iterations,
		      uint32_t rounds, bool halts, uint64_t *values)
{
	struct kvm_regs regs = { .rbx = iterations, .rsi = counters, .rsp = STACK, .rflags = 2 };
	struct kvm_sregs sregs;

	load_code(vm, beside_start, beside_end, regs);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = CODE;
	sregs.cs.selector = CODE >> 4;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	for (unsigned int i = 0; i < counters; i++)
		memcpy(vm->memory + TABLE + 8 * i, &guest_event[i].select, 8);
	memcpy(vm->memory + ROUNDS, &rounds, 4);
	memcpy(vm->memory + ROUNDS + 4, &halts, 1);
	while (halts && iterations--)
		run_to_hlt(vm);
	run_to_hlt(vm);
	memcpy(values, vm->memory + TABLE, 8 * counters);
}

/* ---- both */

struct test {
	const char *name;
	unsigned int counters;		/* of the guest */
	unsigned int iterations, rounds;
	bool halts;			/* it does in each iteration */
	unsigned int times;		/* that it runs, if not once... */
	unsigned int work;		/* ...and rounds of work in user mode before each */
	unsigned int nr;
	unsigned int leader;		/* events from here on are a group, unless 0 */
	struct host_event events[MAX_EVENTS];
	void **map;			/* of the last event, if it has samples */
	struct reading before, after;
	uint64_t sampled[3];		/* its count when it ended */
	struct kvm_vpmu_vcpu figures;
};

static uint64_t gained(const struct test *t, unsigned int i)
{
	return t->after.event[i].value - t->before.event[i].value;
}

static uint64_t paused(const struct test *t, unsigned int i)
{
	return (t->after.event[i].enabled - t->before.event[i].enabled) -
	       (t->after.event[i].running - t->before.event[i].running);
}

static uint64_t truth(const struct test *t, unsigned int i)
{
	const struct perf_event_attr *a = &t->events[i].attr;
	bool branches = a->config == PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	uint64_t sum = 0;

#define ADD(mode)	(sum += t->after.oracle[mode][branches] - t->before.oracle[mode][branches])
	if (!a->exclude_host && !a->exclude_kernel)
		ADD(HOST_KERNEL);
	if (!a->exclude_host && !a->exclude_user)
		ADD(HOST_USER);
	/* A guest in real mode is at CPL 0, and each VM entry counts there, too. */
	if (!a->exclude_guest && !a->exclude_kernel) {
		ADD(GUEST_KERNEL);
		sum += t->after.vmrun - t->before.vmrun;
	}
	if (!a->exclude_guest && !a->exclude_user)
		ADD(GUEST_USER);
#undef ADD
	return sum;
}

static uint64_t exits(const struct test *t)
{
	return t->after.exits - t->before.exits;
}

/* Runs the guest beside the host's events. */
static void run(struct test *t)
{
	struct vm vm = make_vm(true);
	uint64_t none[MAX_COUNTERS], values[MAX_COUNTERS], sum[MAX_COUNTERS] = { };
	unsigned int times = 0;
	struct host_event *last = t->map ? &t->events[t->nr - 1] : NULL;

	run_guest(&vm, t->counters, 0, t->rounds, t->halts, none);
	for (unsigned int i = 0; i < t->nr; i++) {
		int group = t->leader && i > t->leader ? t->events[t->leader].fd : -1;

		t->events[i].fd = open_event(&t->events[i].attr, 0, group);
		if (t->events[i].fd < 0)
			err(1, "%s", t->events[i].name);
	}
	if (last) {
		*t->map = map_samples(last->fd);
		IOCTL(last->fd, PERF_EVENT_IOC_ENABLE, 0);
	}
	t->before = read_all(t->events, t->nr, NULL, t->map);
	do {
		for (unsigned int i = 0; i < t->work; i++)
			asm volatile("");
		run_guest(&vm, t->counters, t->iterations, t->rounds, t->halts, values);
		for (unsigned int i = 0; i < t->counters; i++)
			sum[i] += values[i] - none[i];
		times++;
	} while (times < t->times);
	t->after = read_all(t->events, t->nr, &t->before, t->map);
	t->figures = figures();
	if (last) {
		/* Closing it isn't enough while it is mapped. */
		IOCTL(last->fd, PERF_EVENT_IOC_DISABLE, 0);
		if (read(last->fd, t->sampled, 24) != 24)
			err(1, "%s", last->name);
	}
	for (unsigned int i = 0; i < t->nr; i++)
		close(t->events[i].fd);

	for (unsigned int i = 0; i < t->counters; i++) {
		char what[80];

		if (!guest_event[i].per_round)
			continue;
		snprintf(what, sizeof(what), "the guest's %s", guest_event[i].name);
		is(t->name, what, sum[i],
		   times * (t->iterations * (guest_event[i].per_round * t->rounds +
					     guest_event[i].per_iteration +
					     t->halts * guest_event[i].halting) +
			    guest_event[i].once));
	}
	is(t->name, "the guest's reads that differ from the truth",
	   t->after.mismatches - t->before.mismatches, 0);
	result(t->after.comparisons > t->before.comparisons, "%s: %llu of them compared", t->name,
	       (unsigned long long)(t->after.comparisons - t->before.comparisons));
	is(t->name, "anomalies", t->figures.anomalies, 0);
	printf("# %s: %llu VM exits, %llu borrowed, %llu evicted, %llu gaps\n", t->name,
	       (unsigned long long)exits(t), t->figures.borrowed, t->figures.evicted,
	       t->figures.gaps);
	free_vm(&vm);
}

/* Event @i counted all that there was, all the time. */
static void exact(const struct test *t, unsigned int i)
{
	is(t->name, t->events[i].name, gained(t, i), truth(t, i));
	is(t->name, "  not running, in ns", paused(t, i), 0);
}

/*
 * What event @i counted if it lent its counter for each stay in guest mode.
 * Whether it did is seen by its time running, unless it lost nothing by it.
 */
static bool was_lent(const struct test *t, unsigned int i)
{
	const struct perf_event_attr *a = &t->events[i].attr;
	uint64_t host = t->after.oracle[HOST_KERNEL][0] - t->before.oracle[HOST_KERNEL][0] +
			t->after.oracle[HOST_USER][0] - t->before.oracle[HOST_USER][0];
	uint64_t got = gained(t, i), all = truth(t, i), miss, least;

	if (!paused(t, i)) {
		exact(t, i);
		return false;
	}
	if (a->exclude_kernel) {
		/* All there is of it is in the host's user mode. */
		is(t->name, t->events[i].name, got, all);
		return true;
	}
	if (a->exclude_host)
		host = 0;
	else if (a->exclude_user)
		host = t->after.oracle[HOST_KERNEL][0] - t->before.oracle[HOST_KERNEL][0];
	miss = exits(t) * (AROUND_VMRUN + t->counters * FOR_EACH_LENT);
	least = miss < host ? host - miss : 0;
	/* The guest's beginning and end, without running counters, count here. */
	result(got >= least && got <= host + 1000 && got < all,
	       "%s: %s: lent (%llu of %llu, the host's %llu; %llu a VM exit less; paused %llu of %llu ns)",
	       t->name, t->events[i].name, (unsigned long long)got, (unsigned long long)all,
	       (unsigned long long)host, (unsigned long long)((all - got) / exits(t)),
	       (unsigned long long)paused(t, i),
	       (unsigned long long)(t->after.event[i].enabled - t->before.event[i].enabled));
	if (icount && !a->exclude_guest) {
		/* Each instruction takes 1 ns. */
		uint64_t stay = t->after.oracle[GUEST_KERNEL][0] -
				t->before.oracle[GUEST_KERNEL][0];
		uint64_t most = exits(t) * (PAUSED_AROUND + t->counters * FOR_EACH_LENT);

		result(paused(t, i) + 1000 >= stay && paused(t, i) <= stay + most,
		       "%s: %s: not running for %llu ns, of them in the guest %llu", t->name,
		       t->events[i].name, (unsigned long long)paused(t, i),
		       (unsigned long long)stay);
	}
	return true;
}

static void check_lent(struct test *t, unsigned int wanted)
{
	unsigned int lent = 0;

	run(t);
	for (unsigned int i = 0; i < t->nr; i++)
		lent += was_lent(t, i);
	is(t->name, "events that were lent and lost by it", lent, wanted);
	result(t->figures.borrowed >= t->iterations, "%s: borrowed (%llu)", t->name,
	       t->figures.borrowed);
}

/* ---- a CPU that others use, too */

static pid_t start_rival(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (!pid)
		for (;;)
			;
	return pid;
}

static void end_rival(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define PMU	"/sys/bus/event_source/devices/cpu/"

static volatile bool stop;

/* On another CPU: events come and go on the guest's. */
static void *storm(void *rdpmc)
{
	cpu_set_t second;
	unsigned long *rounds = calloc(1, sizeof(*rounds));
	int fd[4];

	CPU_ZERO(&second);
	CPU_SET(1, &second);
	sched_setaffinity(0, sizeof(second), &second);
	while (!stop) {
		for (int i = 0; i < 4; i++)
			fd[i] = open_event(&both.attr, 0, -1);
		for (int i = 0; i < 4; i++)
			close(fd[i]);
		/* The kernel clears counters that events have left. */
		if (rdpmc) {
			put_string(PMU "rdpmc", "2");
			put_string(PMU "rdpmc", "1");
		}
		++*rounds;
	}
	return rounds;
}

/* ---- samples */

static void check_samples(const struct test *t, unsigned int i, const struct samples *s)
{
	uint64_t period = t->events[i].attr.sample_period;
	uint64_t count = t->sampled[0];

	result(s->samples && s->samples == count / period,
	       "%s: %s: %u samples of %llu", t->name, t->events[i].name, s->samples,
	       (unsigned long long)count);
	is(t->name, "samples lost", s->lost, 0);
}

/* ---- the tests */

static void test_free(void)
{
	struct test t = {
		.name = "room for all", .counters = 1, .iterations = 3000, .rounds = 2000,
		.nr = 4, .events = { uH, kH, G, both },
	};

	run(&t);
	for (unsigned int i = 0; i < t.nr; i++)
		exact(&t, i);
	is(t.name, "borrowed", t.figures.borrowed, 0);
}

/* Two have to yield: those that lose nothing.  One is the watchdog's, whose count nobody reads. */
static void test_harmless(void)
{
	struct test t = {
		.name = "two are lent", .counters = 2, .iterations = 3000, .rounds = 2000,
		.nr = 5, .events = { both, kH, bH, G, H },
	};

	check_lent(&t, 0);
}

/* The watchdog's, and of the others that which loses least */
static void test_kernel(void)
{
	struct test t = {
		.name = "one of the host's kernel is lent", .counters = 2, .iterations = 3000,
		.rounds = 2000, .nr = 5, .events = { both, H, G, kH, kH },
	};

	check_lent(&t, 1);
}

static void test_both(void)
{
	struct test t = {
		.name = "one that counts host and guest is lent", .counters = 2,
		.iterations = 3000, .rounds = 2000, .nr = 5, .events = { G, both, G, both, G },
	};

	check_lent(&t, 1);
}

static void test_all(void)
{
	struct test t = {
		.name = "all are lent", .counters = 6, .iterations = 3000, .rounds = 2000,
		.nr = 5, .events = { G, uH, both, user, kH },
	};

	check_lent(&t, 4);
}

/* KVM completes HLT before host perf has its counters back (from Linux 6.11 on). */
static void test_halts(void)
{
	struct test t = {
		.name = "all are lent and the guest halts", .counters = 6, .iterations = 1000,
		.rounds = 2000, .halts = true, .nr = 5, .events = { uH, bH, user, uH, bH },
	};

	check_lent(&t, 1);
}

/* Events that take turns come and go by a timer: some are always about to start. */
static void test_turns(void)
{
	struct test t = {
		.name = "host events in turns", .counters = 5, .iterations = 1500,
		.rounds = 100000, .nr = 9,
		.events = { uH, turn, turn, turn, turn, turn, turn, turn, turn },
	};
	pid_t rival = start_rival();
	uint64_t sum = 0;
	bool good = true;

	put_string(PMU "perf_event_mux_interval_ms", "1");
	run(&t);
	end_rival(rival);
	exact(&t, 0);
	for (unsigned int i = 1; i < t.nr; i++) {
		sum += gained(&t, i);
		good &= gained(&t, i) && gained(&t, i) < truth(&t, i) && paused(&t, i);
	}
	result(good, "%s: each ran for a part of the time", t.name);
	/*
	 * 4 counters are left, and never idle while there is user mode to count.
	 * But those that ran at one reading and not at the other have, in either,
	 * counted some of the reading's own instructions.
	 */
	result(llabs((long long)(sum - 4 * truth(&t, 0))) <= 4LL * (long long)t.after.spent[1],
	       "%s: all of their counts (%llu, wanted %llu, %llu for a reading)", t.name,
	       (unsigned long long)sum, 4ULL * truth(&t, 0),
	       (unsigned long long)t.after.spent[1]);
}

/* Groups of different sizes leave counters free in between.  Return: how many were evicted. */
static unsigned long long run_groups(void)
{
	struct test t = {
		.name = "host events in groups", .counters = 5, .iterations = 1500,
		.rounds = 100000, .nr = 6, .leader = 2,
		.events = { uH, turn, turn, turn, turn, turn },
	};
	pid_t rival = start_rival();
	uint64_t sum;

	run(&t);
	end_rival(rival);
	exact(&t, 0);
	for (unsigned int i = 3; i < t.nr; i++)
		is(t.name, "  the group's are alike", gained(&t, i), gained(&t, 2));
	/* The one or the group, see above */
	sum = gained(&t, 1) + gained(&t, 2);
	result(llabs((long long)(sum - truth(&t, 0))) <= 2LL * (long long)t.after.spent[1] &&
	       paused(&t, 1) && paused(&t, 2),
	       "%s: both of their counts (%llu, wanted %llu, %llu for a reading)", t.name,
	       (unsigned long long)sum, (unsigned long long)truth(&t, 0),
	       (unsigned long long)t.after.spent[1]);
	return t.figures.evicted;
}

/*
 * Hundreds are evicted by the wall's time, but none as long as host perf's timer only comes while
 * the rival runs: then another run has another phase.
 */
static void test_groups(void)
{
	unsigned long long evicted = 0;

	for (unsigned int i = 0; i < 5 && !evicted; i++)
		evicted = run_groups();
	result(evicted, "host events in groups: evicted (%llu)", evicted);
}

/* A group for all counters but the watchdog's; its leader is the first. */
static void open_group(const struct perf_event_attr *attr, int *fd)
{
	for (unsigned int i = 0; i < MAX_COUNTERS - 1; i++) {
		fd[i] = open_event(attr, 0, i ? fd[0] : -1);
		if (fd[i] < 0)
			err(1, "a group of host events");
	}
}

/*
 * While a guest has all counters, events that lose nothing by that take turns with others that do, without a switch
 * of tasks in between.  The time running of the latter stops each time.
 */
static void test_losers_in_turns(void)
{
	struct perf_event_attr loses = both.attr;
	int first[MAX_COUNTERS], second[MAX_COUNTERS];
	uint64_t before[3], after[3], values[MAX_COUNTERS];
	struct vm vm = make_vm(true);
	unsigned int stopped = 0;

	put_string(PMU "perf_event_mux_interval_ms", "1");
	loses.pinned = 0;
	open_group(&turn.attr, first);
	open_group(&loses, second);
	for (unsigned int i = 0; i < 10; i++) {
		if (read(second[0], before, sizeof(before)) != sizeof(before))
			err(1, "read of a group");
		/* 20 million instructions */
		run_guest(&vm, MAX_COUNTERS, 20, 500000, false, values);
		if (read(second[0], after, sizeof(after)) != sizeof(after))
			err(1, "read of a group");
		/* Its turns are half of the time. */
		stopped += 4 * (after[2] - before[2]) < after[1] - before[1];
	}
	is("losers in turns", "their time running stopped, of 10 times", stopped, 10);
	for (unsigned int i = 0; i < MAX_COUNTERS - 1; i++) {
		close(first[i]);
		close(second[i]);
	}
	free_vm(&vm);
}

/* A throttled event leaves its counter idle, but will go on from its value. */
static void test_throttled(void)
{
	struct host_event often = uH;
	struct test t = {
		.name = "a throttled host event", .counters = 5, .iterations = 20,
		.rounds = 20000, .times = 200, .work = 100000, .nr = 1,
	};
	struct samples s;
	void *map;

	set_sample_rate("10000", "99");
	often.attr.disabled = 1;
	often.attr.sample_period = 499;
	often.attr.sample_type = PERF_SAMPLE_IP;
	often.attr.pinned = 0;
	t.events[0] = often;
	t.map = &map;
	run(&t);
	set_sample_rate(HIGH_RATE, "0");
	s = count_samples(map);
	result(s.throttled >= 20, "%s: throttled (%u times)", t.name, s.throttled);
	result(gained(&t, 0) < truth(&t, 0), "%s: it counted a part (%llu of %llu)", t.name,
	       (unsigned long long)gained(&t, 0), (unsigned long long)truth(&t, 0));
	check_samples(&t, 0, &s);
}

/*
 * Samples while counters are lent: of an event that may overflow just before it
 * lends its own (@lent), or of another.
 */
static void test_samples(bool lent)
{
	struct host_event often = kH;
	struct test t = {
		.name = lent ? "a lent event with samples" : "samples while another is lent",
		.counters = 1, .iterations = 6000, .rounds = 100, .nr = 5,
		.events = { both, both, both, lent ? both : uH },
	};
	struct samples s;
	void *map;

	often.attr.disabled = 1;
	often.attr.sample_period = 10007;
	often.attr.sample_type = PERF_SAMPLE_IP;
	t.events[4] = often;
	t.map = &map;
	run(&t);
	s = count_samples(map);
	check_samples(&t, 4, &s);
	is(t.name, "throttled", s.throttled, 0);
}

static void test_storm(bool rdpmc)
{
	struct test t = {
		.name = rdpmc ? "counters that the kernel clears" : "a storm of host events",
		.counters = 5, .iterations = 1500, .rounds = 60000, .nr = 2,
		.events = { uH, bH },
	};
	pthread_t thread;
	void *rounds;

	stop = false;
	if (pthread_create(&thread, NULL, storm, rdpmc ? &t : NULL))
		errx(1, "no thread");
	run(&t);
	stop = true;
	pthread_join(thread, &rounds);
	printf("# %s: %lu times\n", t.name, *(unsigned long *)rounds);
	exact(&t, 0);
	exact(&t, 1);
	result(t.figures.evicted >= 20, "%s: evicted (%llu)", t.name, t.figures.evicted);
}

/* Until stdin ends: what host events count beside all that happens. */
static void watch(void)
{
	struct test t = {
		.name = "events of the host beside it all", .nr = 2, .events = { uH, bH },
	};
	char c;

	for (unsigned int i = 0; i < t.nr; i++) {
		t.events[i].fd = open_event(&t.events[i].attr, 0, -1);
		if (t.events[i].fd < 0)
			err(1, "%s", t.events[i].name);
	}
	t.before = read_all(t.events, t.nr, NULL, false);
	while (read(0, &c, 1) > 0)
		;
	t.after = read_all(t.events, t.nr, &t.before, false);
	for (unsigned int i = 0; i < t.nr; i++)
		exact(&t, i);
}

int main(int argc, char **argv)
{

	pin(0, 0);
	msr = open_oracle(0);
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	if (argc > 1 && !strcmp(argv[1], "watch")) {
		watch();
		return !!failed;
	}
	/*
	 * An emulated CPU takes long for each sample, by the wall clock: don't let
	 * perf take fewer then, nor NMI handlers print messages about it.
	 */
	set_sample_rate(HIGH_RATE, "0");
	put_string("/sys/kernel/debug/x86/nmi_longest_ns", "1000000000000");

	icount = argc > 1 && !strcmp(argv[1], "icount");
	test_free();
	test_harmless();
	test_kernel();
	test_both();
	test_all();
	test_halts();
	test_turns();
	test_groups();
	test_losers_in_turns();
	test_throttled();
	test_samples(true);
	test_samples(false);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		test_storm(false);
		test_storm(true);
	}
	printf("1..%d\n", tests);
	return !!failed;
}
