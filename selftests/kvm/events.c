// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The hypervisor's events in the guest's counters: as many as KVM's own statistics of the vCPU
 * or its tracepoints have, at the guest's privilege level, sampled at their instruction; off unless
 * the VM's owner says otherwise.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "tap.h"
#include "events.h"
#include "guests.h"
#include "pin.h"
#include "stats.h"

#define ROUNDS		50
#define CPUIDS		7
#define PAUSES		3

/* A page that KVM has to map anew each round */
#define FRESH		0xa000

/*
 * A store to that page, ESI CPUIDs, three PAUSEs, an RDMSR, a store and a load of MMIO (behind the
 * VM's memory), an OUT
 */
extern const char exits_start[], exits_behind_cpuid[], exits_behind_out[], exits_end[];
asm(".code16\n"
    "exits_start:\n"
    "	mov $0xb800, %ax\n"
    "	mov %ax, %es\n"
    "1:	mov %esi, %edi\n"
    "	mov %al, 0xa000\n"
    "2:	xor %eax, %eax\n"
    "	cpuid\n"
    "exits_behind_cpuid:\n"
    "	dec %edi\n"
    "	jnz 2b\n"
    "	pause\n"
    "	pause\n"
    "	pause\n"
    "	mov $0x1b, %ecx\n"
    "	rdmsr\n"
    "	mov %ax, %es:(0)\n"
    "	mov %es:(0), %ax\n"
    "	out %al, $0x10\n"
    "exits_behind_out:\n"
    "	jmp 1b\n"
    "exits_end:\n"
    ".code64\n");

/*
 * A hypercall (VMMCALL or VMCALL, as the vendor has it), a store, an interrupt of one's own that
 * is pending before it can come, an OUT; and handlers of interrupts and NMIs
 */
#define VECTOR		0x41
#define IRQ_HANDLER	0x3400
#define IRET_HANDLER	0x3600
extern const char work_start[], work_hypercall[], work_end[], irq_start[], irq_end[], iret_start[],
	iret_end[];
asm(".code16\n"
    "work_start:\n"
    "1:	mov $99, %eax\n"	/* No such hypercall */
    "work_hypercall:\n"
    "	.byte 0x0f, 0x01, 0xd9\n"
    "	mov %al, 0xb000\n"
    "	mov $0x83f, %ecx\n"	/* x2APIC: self IPI */
    "	mov $0x41, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	sti\n"
    "	nop\n"
    "	cli\n"
    "	out %al, $0x10\n"
    "	jmp 1b\n"
    "work_end:\n"
    "irq_start:\n"
    "	mov $0x80b, %ecx\n"	/* x2APIC: EOI */
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "iret_start:\n"
    "	iret\n"
    "irq_end:\n"
    "iret_end:\n"
    ".code64\n");

/* What the same event is in KVM's statistics, or as a tracepoint with the filter for a vendor */
static const struct {
	unsigned int mask;
	const char *stat;
	const char *tracepoint, *amd, *intel;
} events[] = {
	{ .mask = KVM_VPMU_EVENT_EXITS, .stat = "exits" },
	{ .mask = KVM_VPMU_EVENT_EXITS_IO, .stat = "io_exits" },
	{ .mask = KVM_VPMU_EVENT_EXITS_MMIO, .stat = "mmio_exits" },
	{ .mask = KVM_VPMU_EVENT_EXITS_HALT, .stat = "halt_exits" },
	{ .mask = KVM_VPMU_EVENT_EXITS_IRQ, .stat = "irq_exits" },
	{ .mask = KVM_VPMU_EVENT_EXITS_IRQ_WINDOW, .stat = "irq_window_exits" },
	{ .mask = KVM_VPMU_EVENT_EXITS_NMI_WINDOW, .stat = "nmi_window_exits" },
	{ .mask = KVM_VPMU_EVENT_EXITS_SIGNAL, .stat = "signal_exits" },
	{ .mask = KVM_VPMU_EVENT_HYPERCALLS, .stat = "hypercalls" },
	{ .mask = KVM_VPMU_EVENT_NESTED_ENTRIES, .stat = "nested_run" },
	{ .mask = KVM_VPMU_EVENT_FAULTS, .stat = "pf_taken" },
	{ .mask = KVM_VPMU_EVENT_FAULTS_FIXED, .stat = "pf_fixed" },
	{ .mask = KVM_VPMU_EVENT_FAULTS_FAST, .stat = "pf_fast" },
	{ .mask = KVM_VPMU_EVENT_FAULTS_SPURIOUS, .stat = "pf_spurious" },
	{ .mask = KVM_VPMU_EVENT_EMULATED, .stat = "insn_emulation" },
	{ .mask = KVM_VPMU_EVENT_IRQS, .stat = "irq_injections" },
	{ .mask = KVM_VPMU_EVENT_NMIS, .stat = "nmi_injections" },
	{ .mask = KVM_VPMU_EVENT_TLB_FLUSHES, .stat = "tlb_flush" },
	{
		.mask = KVM_VPMU_EVENT_EXITS_MSR, .tracepoint = "kvm/kvm_exit",
		.amd = "exit_reason == 0x7c", .intel = "exit_reason == 31 || exit_reason == 32",
	},
	{
		.mask = KVM_VPMU_EVENT_EXITS_CPUID, .tracepoint = "kvm/kvm_exit",
		.amd = "exit_reason == 0x72", .intel = "exit_reason == 10",
	},
	{
		/* VMX: an exception, of type NMI */
		.mask = KVM_VPMU_EVENT_EXITS_NMI, .tracepoint = "kvm/kvm_exit",
		.amd = "exit_reason == 0x61", .intel = "exit_reason == 0 && intr_info & 0x200",
	},
	{
		.mask = KVM_VPMU_EVENT_EXITS_PAUSE, .tracepoint = "kvm/kvm_exit",
		.amd = "exit_reason == 0x77", .intel = "exit_reason == 40",
	},
	{ .mask = KVM_VPMU_EVENT_EXITS_USER, .tracepoint = "kvm/kvm_userspace_exit" },
};

#define NR_EVENTS	(sizeof(events) / sizeof(*events))

static int device;

static struct vm make_exits(struct pmu *pmu, unsigned int on)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);

	*pmu = pmu_of(&vm);
	if (set_events(device, &vm, on))
		err(1, "KVM_VPMU_SET");
	load_code(&vm, exits_start, exits_end, (struct kvm_regs){ .rsi = CPUIDS });
	return vm;
}

/* Userspace does nothing for MMIO: what the guest loads is whatever KVM has there. */
static void run_round(struct vm *vm)
{
	if (madvise(vm->memory + FRESH, 4096, MADV_DONTNEED))
		err(1, "madvise");
	do {
		IOCTL(vm->vcpu, KVM_RUN, NULL);
	} while (vm->run->exit_reason == KVM_EXIT_MMIO);
	if (vm->run->exit_reason != KVM_EXIT_IO)
		errx(1, "KVM_RUN: exit reason %u", vm->run->exit_reason);
}

static struct kvm_userspace_memory_region logged(const struct vm *vm)
{
	return (struct kvm_userspace_memory_region){
		.flags = KVM_MEM_LOG_DIRTY_PAGES, .memory_size = vm->size,
		.userspace_addr = (uintptr_t)vm->memory,
	};
}

static struct vm make_work(struct pmu *pmu, unsigned int on)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct kvm_userspace_memory_region region = logged(&vm);
	struct {
		struct kvm_signal_mask mask;
		uint64_t none;
	} signals = { .mask.len = 8 };
	sigset_t usr1;

	*pmu = pmu_of(&vm);
	if (set_events(device, &vm, on))
		err(1, "KVM_VPMU_SET");
	load_code(&vm, work_start, work_end, (struct kvm_regs){ .rsi = 0 });
	if (on_intel())
		vm.memory[CODE + (work_hypercall - work_start) + 2] = 0xc1;
	memcpy(vm.memory + IRQ_HANDLER, irq_start, irq_end - irq_start);
	memcpy(vm.memory + IRET_HANDLER, iret_start, iret_end - iret_start);
	*word_at(&vm, 4 * VECTOR) = IRQ_HANDLER;
	*word_at(&vm, 4 * 2) = IRET_HANDLER;
	set_msr(&vm, APIC_BASE, get_msr(&vm, APIC_BASE) | X2APIC_ENABLE);
	set_apic(&vm, APIC_SPIV, 0x1ff);
	IOCTL(vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	/* It comes in KVM_RUN only. */
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	IOCTL(vm.vcpu, KVM_SET_SIGNAL_MASK, &signals);
	return vm;
}

/* A signal; two NMIs, of which one has to wait; pages that are write-protected again */
static void run_work(struct vm *vm)
{
	uint64_t bitmap[MEMORY / 4096 / 64 + 1];
	struct kvm_dirty_log log = { .dirty_bitmap = bitmap };
	sigset_t usr1;
	int signal;

	raise(SIGUSR1);
	if (!ioctl(vm->vcpu, KVM_RUN, NULL) || errno != EINTR)
		err(1, "KVM_RUN with a signal");
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigwait(&usr1, &signal);
	IOCTL(vm->fd, KVM_GET_DIRTY_LOG, &log);
	IOCTL(vm->vcpu, KVM_NMI, NULL);
	IOCTL(vm->vcpu, KVM_NMI, NULL);
	run_until(vm, KVM_EXIT_IO);
}

/* What a VM does, and how many kinds of events that are at least, on AMD and Intel */
static const struct work {
	const char *name;
	struct vm (*make)(struct pmu *pmu, unsigned int on);
	void (*round)(struct vm *vm);
	unsigned int amd, intel;
} exits_work = {
	/* Exits, I/O, MMIO, faults (all, fixed), emulated, MSRs, CPUIDs, NMIs, returns */
	"exits", make_exits, run_round, 10, 10,
}, kvm_work = {
	/*
	 * Exits, I/O, windows for NMIs, signals, hypercalls, NMIs, exits for the host's NMIs, returns;
	 * and, where no hardware delivers interrupts or logs writes for KVM, windows for interrupts,
	 * interrupts, MSRs, faults (all, fixed, fast)
	 */
	"work", make_work, run_work, 14, 8,
};

/* A host's event that this thread's guests cause.  Its interrupts are NMIs, and VM exits. */
static int interrupt_guests(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS, .size = sizeof(attr),
		.exclude_host = 1, .sample_period = 50,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		printf("# no NMIs: perf_event_open: %s\n", strerror(errno));
	return fd;
}

/* How often event @i has come so far, from elsewhere; @fd: of open_event() */
static uint64_t happened(const struct vm *vm, unsigned int i, int fd)
{
	uint64_t n;

	if (events[i].stat)
		return kvm_stat(vm, events[i].stat);
	if (read(fd, &n, sizeof(n)) != sizeof(n))
		err(1, "reading a tracepoint's count");
	return n;
}

static int open_event(unsigned int i)
{
	if (events[i].stat)
		return -1;
	return count_tracepoint(events[i].tracepoint, on_intel() ? events[i].intel : events[i].amd);
}

static const char *name_of(unsigned int i)
{
	return events[i].stat ? events[i].stat : events[i].tracepoint;
}

/* Was event @i counted otherwise than it came?  Says so. */
static bool differs(unsigned int i, uint64_t came, uint64_t counted)
{
	if (counted != came)
		printf("# %#x, %s: %llu, counted: %llu\n", events[i].mask, name_of(i),
		       (unsigned long long)came, (unsigned long long)counted);
	return counted != came;
}

static unsigned int least_kinds(const struct work *work)
{
	return on_intel() ? work->intel : work->amd;
}

/* All events, as many at a time as there are counters, with @levels; they count if @counts. */
static void check_counts(const struct work *work, const char *what, unsigned int on, uint64_t levels,
			 bool counts)
{
	struct pmu pmu;
	struct vm vm = work->make(&pmu, on);
	int nmis = interrupt_guests();
	unsigned int wrong = 0, seen = 0;

	for (unsigned int first = 0; first < NR_EVENTS; first += pmu.nr) {
		uint64_t before[MOST_COUNTERS], n;
		int fd[MOST_COUNTERS];

		for (unsigned int i = 0; i < pmu.nr && first + i < NR_EVENTS; i++) {
			put_counter(&vm, pmu, i, event(events[first + i].mask) | levels | EN, 1000 * i);
			fd[i] = open_event(first + i);
			before[i] = happened(&vm, first + i, fd[i]);
		}
		for (unsigned int round = 0; round < ROUNDS; round++)
			work->round(&vm);
		for (unsigned int i = 0; i < pmu.nr && first + i < NR_EVENTS; i++) {
			n = happened(&vm, first + i, fd[i]) - before[i];
			close(fd[i]);
			printf("# %#x, %s: %llu\n", events[first + i].mask, name_of(first + i),
			       (unsigned long long)n);
			seen += !!n;
			if (!counts)
				n = 0;
			if (counter(&vm, pmu, i) != 1000 * i + n) {
				printf("# counted: %llu\n",
				       (unsigned long long)counter(&vm, pmu, i) - 1000 * i);
				wrong++;
			}
			put_counter(&vm, pmu, i, 0, 0);
		}
	}
	check(!wrong, "%s, %s: as KVM's statistics and tracepoints", work->name, what);
	check(seen >= least_kinds(work), "%s, %s: %u kinds of events came", work->name, what, seen);
	close(nmis);
	free_vm(&vm);
}

/* Counters go on in another VM, as after a migration, and stop at a reset. */
static void check_moved(void)
{
	struct pmu pmu;
	struct vm vm = make_exits(&pmu, KVM_VPMU_EVENTS_ON), to = make_exits(&pmu, KVM_VPMU_EVENTS_ON);
	uint64_t select[2], value[2];

	put_counter(&vm, pmu, 0, event(KVM_VPMU_EVENT_EXITS_CPUID) | OS | USR | EN, 0);
	put_counter(&vm, pmu, 1, event(KVM_VPMU_EVENT_EXITS_IO) | OS | USR | EN, NEG(3));
	run_round(&vm);
	run_round(&vm);
	for (unsigned int i = 0; i < 2; i++) {
		select[i] = get_msr(&vm, pmu.select + i * pmu.stride);
		value[i] = counter(&vm, pmu, i);
	}
	free_vm(&vm);
	run_round(&to);
	for (unsigned int i = 0; i < 2; i++)
		put_counter(&to, pmu, i, select[i], value[i]);
	run_round(&to);
	run_round(&to);
	is(counter(&to, pmu, 0), 4 * CPUIDS, "moved: CPUIDs of both VMs");
	/* Two of four, as two more than before the overflow */
	is(counter(&to, pmu, 1), 1, "moved: OUTs of both VMs, with an overflow");
	/* As a VMM resets a guest's registers */
	for (unsigned int i = 0; i < 2; i++)
		put_counter(&to, pmu, i, 0, 0);
	run_round(&to);
	is(counter(&to, pmu, 0) + counter(&to, pmu, 1), 0, "reset: nothing counts");
	free_vm(&to);
}

/* More events than counters take turns, as perf lets them: each has what came in its turns. */
static void check_multiplexed(void)
{
	struct pmu pmu;
	struct vm vm = make_exits(&pmu, KVM_VPMU_EVENTS_ON);
	uint64_t wanted[2 * MOST_COUNTERS] = { }, counted[2 * MOST_COUNTERS] = { };
	unsigned int wrong = 0, nr = 2 * pmu.nr < NR_EVENTS ? 2 * pmu.nr : NR_EVENTS;
	int fd[2 * MOST_COUNTERS], nmis = interrupt_guests();

	for (unsigned int i = 0; i < nr; i++)
		fd[i] = open_event(i);
	for (unsigned int turn = 0; turn < ROUNDS; turn++) {
		unsigned int first = turn % 2 * pmu.nr;

		for (unsigned int i = 0; i < pmu.nr && first + i < nr; i++) {
			put_counter(&vm, pmu, i, event(events[first + i].mask) | OS | USR | EN,
				    counted[first + i]);
			wanted[first + i] -= happened(&vm, first + i, fd[first + i]);
		}
		run_round(&vm);
		for (unsigned int i = 0; i < pmu.nr && first + i < nr; i++) {
			counted[first + i] = counter(&vm, pmu, i);
			wanted[first + i] += happened(&vm, first + i, fd[first + i]);
			put_counter(&vm, pmu, i, 0, 0);
		}
	}
	for (unsigned int i = 0; i < nr; i++) {
		close(fd[i]);
		wrong += differs(i, wanted[i], counted[i]);
	}
	check(!wrong, "%u events take turns on %u counters", nr, pmu.nr);
	close(nmis);
	free_vm(&vm);
}

/* A counter of all VM exits beside KVM's, in hardware's company */
static void check_beside_hardware(void)
{
	struct pmu pmu;
	struct vm vm = make_exits(&pmu, KVM_VPMU_EVENTS_ON);
	uint64_t exits, instructions;

	put_counter(&vm, pmu, 0, event(KVM_VPMU_EVENT_EXITS) | OS | USR | EN, 0);
	put_counter(&vm, pmu, 1, INSTRUCTIONS | OS | USR | EN, 0);
	run_round(&vm);
	exits = counter(&vm, pmu, 0);
	instructions = counter(&vm, pmu, 1);
	check(exits >= CPUIDS + 5, "a round: %llu VM exits", (unsigned long long)exits);
	/* The OUT is completed at the next KVM_RUN. */
	check(instructions == 2 + 2 + 4 * CPUIDS + PAUSES + 2 + 2, "a round: %llu instructions",
	      (unsigned long long)instructions);
	free_vm(&vm);
}

/* Each event of @mask is sampled with @period: @samples of them, the last one @behind its instruction */
static void check_samples(unsigned int mask, unsigned int period, unsigned int samples,
			  const char *behind)
{
	struct pmu pmu;
	struct vm vm = make_exits(&pmu, KVM_VPMU_EVENTS_ON);

	handle_nmis(&vm, NEG(period));
	put_counter(&vm, pmu, 0, event(mask) | OS | INT | EN, NEG(period));
	for (unsigned int round = 0; round <= ROUNDS; round++)
		run_round(&vm);
	is(*word_at(&vm, SAMPLES), samples, "event %#x: samples", mask);
	is(*word_at(&vm, LAST_IP), CODE + (behind - exits_start), "event %#x: behind it", mask);
	free_vm(&vm);
}

/* KVM_SET_PMU_EVENT_FILTER denies one of the events. */
static void check_filter(void)
{
	struct pmu pmu;
	struct vm vm = make_exits(&pmu, KVM_VPMU_EVENTS_ON);
	struct kvm_pmu_event_filter *filter = calloc(1, sizeof(*filter) + sizeof(uint64_t));

	if (!filter)
		err(1, "calloc");
	filter->action = KVM_PMU_EVENT_DENY;
	filter->nevents = 1;
	filter->events[0] = event(KVM_VPMU_EVENT_EXITS_IO);
	IOCTL(vm.fd, KVM_SET_PMU_EVENT_FILTER, filter);
	free(filter);
	put_counter(&vm, pmu, 0, event(KVM_VPMU_EVENT_EXITS_IO) | OS | USR | EN, 5);
	put_counter(&vm, pmu, 1, event(KVM_VPMU_EVENT_EXITS_USER) | OS | USR | EN, 5);
	run_round(&vm);
	is(counter(&vm, pmu, 0), 5, "an event that KVM's filter denies");
	/* MMIO twice, and the OUT */
	is(counter(&vm, pmu, 1), 5 + 3, "an event beside that");
	free_vm(&vm);
}

/* The host looks at the events of a VM whose guest can't, all at once. */
static void check_observed(const struct work *work)
{
	struct pmu pmu;
	struct vm vm = work->make(&pmu, KVM_VPMU_EVENTS_OFF);
	int nmis = interrupt_guests(), observer = open("/dev/kvm-vpmu", O_RDWR), fd[NR_EVENTS];
	uint64_t before[NR_EVENTS], total = kvm_stat(&vm, "exits");
	struct kvm_vpmu_events start, end, unobserved = { .fd = vm.fd };
	unsigned int wrong = 0, seen = 0;

	if (observer < 0)
		err(1, "/dev/kvm-vpmu");
	IOCTL(device, KVM_VPMU_GET_EVENTS, &unobserved);
	is(unobserved.observed, 0, "nobody observes");
	is(unobserved.count[KVM_VPMU_EVENT_EXITS], total, "VM exits since the vCPU was created");
	for (unsigned int i = 0; i < NR_EVENTS; i++) {
		fd[i] = open_event(i);
		before[i] = happened(&vm, i, fd[i]);
	}
	start = observe(observer, &vm);
	observe(observer, &vm);
	for (unsigned int round = 0; round < ROUNDS; round++)
		work->round(&vm);
	end = observe(observer, &vm);
	is(end.observed, 1, "somebody observes");
	for (unsigned int i = 0; i < NR_EVENTS; i++) {
		uint64_t n = happened(&vm, i, fd[i]) - before[i];

		close(fd[i]);
		seen += !!n;
		wrong += differs(i, n, end.count[events[i].mask] - start.count[events[i].mask]);
	}
	check(!wrong, "%s, the host's view: as KVM's statistics and tracepoints", work->name);
	check(seen >= least_kinds(work), "%s, the host's view: %u kinds of events came", work->name, seen);

	/* What costs something ends with the observer's file. */
	close(observer);
	work->round(&vm);
	IOCTL(device, KVM_VPMU_GET_EVENTS, &unobserved);
	is(unobserved.observed, 0, "nobody observes any more");
	is(unobserved.count[KVM_VPMU_EVENT_EXITS_CPUID], end.count[KVM_VPMU_EVENT_EXITS_CPUID],
	   "nothing is counted that KVM has no statistic of");
	is(unobserved.count[KVM_VPMU_EVENT_EXITS_IO], end.count[KVM_VPMU_EVENT_EXITS_IO] + 1,
	   "the rest is");
	close(nmis);
	free_vm(&vm);
}

static atomic_bool stop;

static void interrupted(int signal)
{
	(void)signal;
}

static void *run_cpuids(void *vm)
{
	pin(0, sysconf(_SC_NPROCESSORS_ONLN) - 1);
	while (!stop)
		if (ioctl(((struct vm *)vm)->vcpu, KVM_RUN, NULL) && errno != EINTR)
			err(1, "KVM_RUN");
	return NULL;
}

/*
 * The host begins to look while the guest executes CPUIDs: these are counted at once, not only when
 * the vCPU is loaded again.
 */
static void check_observed_at_once(void)
{
	struct kvm_vpmu_events start, now;
	unsigned int late = 0;
	pthread_t thread;
	struct pmu pmu;
	struct vm vm = make_exits(&pmu, KVM_VPMU_EVENTS_OFF);

	if (sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = interrupted }, NULL))
		err(1, "sigaction");
	load_code(&vm, exits_start, exits_end, (struct kvm_regs){ .rsi = 1u << 30 });
	if (pthread_create(&thread, NULL, run_cpuids, &vm))
		err(1, "pthread_create");
	for (unsigned int round = 0; round < 20; round++) {
		int observer = open("/dev/kvm-vpmu", O_RDWR);
		uint64_t exits, cpuids;

		if (observer < 0)
			err(1, "/dev/kvm-vpmu");
		usleep(20000);
		start = observe(observer, &vm);
		do {
			now = observe(observer, &vm);
			exits = now.count[KVM_VPMU_EVENT_EXITS] - start.count[KVM_VPMU_EVENT_EXITS];
		} while (exits < 200);
		cpuids = now.count[KVM_VPMU_EVENT_EXITS_CPUID] - start.count[KVM_VPMU_EVENT_EXITS_CPUID];
		/* Many of the others are interrupts, by these requests. */
		late += cpuids < 5;
		close(observer);
	}
	stop = true;
	vm.run->immediate_exit = 1;
	pthread_kill(thread, SIGUSR2);
	pthread_join(thread, NULL);
	is(late, 0, "observed while the guest runs: times at which it was late");
	free_vm(&vm);
}

/* The host's view: request @e fails with @error. */
static void check_refused(const char *what, struct kvm_vpmu_events e, int error)
{
	int r = ioctl(device, KVM_VPMU_GET_EVENTS, &e);

	check(r && errno == error, "refused: %s", what);
}

static void check_requests(void)
{
	struct pmu pmu;
	struct vm vm = make_exits(&pmu, KVM_VPMU_EVENTS_OFF);

	check_refused("an unknown flag", (struct kvm_vpmu_events){ .fd = vm.fd, .flags = 2 }, EINVAL);
	check_refused("a reserved field",
		      (struct kvm_vpmu_events){ .fd = vm.fd, .reserved2 = { 0, 0, 1 } }, EINVAL);
	check_refused("two names of a VM",
		      (struct kvm_vpmu_events){ .fd = vm.fd, .vm = 1 }, EINVAL);
	check_refused("another kind of file", (struct kvm_vpmu_events){ .fd = device }, EINVAL);
	check_refused("no file", (struct kvm_vpmu_events){ .fd = 999 }, EBADF);
	check_refused("no such vCPU", (struct kvm_vpmu_events){ .fd = vm.fd, .index = 1 }, ENOENT);
	check_refused("no such VM", (struct kvm_vpmu_events){ .vm = ~0ull }, ENOENT);
	free_vm(&vm);
	vm = make_vm_with(VM_APIC | VM_NO_PMU, MEMORY);
	check_refused("a VM without a PMU", (struct kvm_vpmu_events){ .fd = vm.fd }, ENOENT);
	free_vm(&vm);
}

int main(void)
{
	struct pmu pmu;
	struct vm vm;

	device = open("/dev/kvm-vpmu", O_RDWR);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	vm = make_exits(&pmu, KVM_VPMU_EVENTS_OFF);
	check(set_events(device, &vm, 2) && errno == EINVAL, "an unknown setting is refused");
	free_vm(&vm);

	check_counts(&exits_work, "off", KVM_VPMU_EVENTS_OFF, OS | USR, false);
	check_counts(&exits_work, "all levels", KVM_VPMU_EVENTS_ON, OS | USR, true);
	check_counts(&exits_work, "kernel mode", KVM_VPMU_EVENTS_ON, OS, true);
	check_counts(&exits_work, "user mode", KVM_VPMU_EVENTS_ON, USR, false);
	check_counts(&kvm_work, "all levels", KVM_VPMU_EVENTS_ON, OS | USR, true);
	check_observed(&exits_work);
	check_observed(&kvm_work);
	check_observed_at_once();
	check_requests();
	check_filter();
	check_moved();
	check_multiplexed();
	check_beside_hardware();
	/* The last OUT isn't completed. */
	check_samples(KVM_VPMU_EVENT_EXITS_IO, 1, ROUNDS, exits_behind_out);
	check_samples(KVM_VPMU_EVENT_EXITS_IO | KVM_VPMU_EVENT_TWICE, 2, ROUNDS, exits_behind_out);
	/* Userspace sees nothing of these. */
	check_samples(KVM_VPMU_EVENT_EXITS_CPUID, 1, (ROUNDS + 1) * CPUIDS, exits_behind_cpuid);
	check_samples(KVM_VPMU_EVENT_EXITS_CPUID | KVM_VPMU_EVENT_TWICE, 2, (ROUNDS + 1) * CPUIDS,
		      exits_behind_cpuid);
	return finish();
}
