// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Overflows as userspace sees and disturbs them: with the local APIC's entry
 * masked, without an interrupt, while the vCPU is out of KVM_RUN, and among
 * signals.  What a guest sees by itself is the bare suite's (tools/testbed/bare).
 * TAP.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tap.h"
#include "pin.h"
#include "sampler.h"
#include "figures.h"
#include "files.h"
#include "host_samples.h"
#include "time_limit.h"

#define N	100

/* The loop's guest with a handler for NMIs that lets the counter go on from 0 */
static struct vm make_loop(struct pmu *pmu)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	handle_nmis(&vm, 0);
	*pmu = pmu_of(&vm);
	return vm;
}

static void arm(struct vm *vm, struct pmu pmu, uint64_t flags, unsigned int n)
{
	*word_at(vm, SAMPLES) = 0;
	*word_at(vm, LAST_IP) = 0;
	put_counter(vm, pmu, 0, INSTRUCTIONS | OS | EN | flags, NEG(n));
}

static uint32_t ip_of(const char *label)
{
	return CODE + (label - loop_start);
}

static void check_interrupt(const struct vm *vm, const char *label, const char *name)
{
	is(*word_at(vm, SAMPLES), 1, "%s: interrupts", name);
	is(*word_at(vm, LAST_IP) & 0xffff, ip_of(label), "%s: where", name);
}

static void check_status(struct vm *vm, struct pmu pmu, uint64_t wanted, const char *name)
{
	if (pmu.v2)
		is(get_msr(vm, GLOBAL_STATUS), wanted, "%s: status", name);
	else
		skip("no PerfMonV2", "%s: status", name);
}

/* Run and arm so that the OUT of the coming exit overflows. */
static void arm_exit(struct vm *vm, struct pmu pmu, uint64_t flags)
{
	arm(vm, pmu, flags, loop_counts(INSTRUCTIONS, N, true) + 1);
	run_until(vm, KVM_EXIT_IO);
}

/* APM vol. 2, "Local Vectors": a masked entry inhibits; nothing stays pending. */
static void masked(void)
{
	struct pmu pmu;
	struct vm vm = make_loop(&pmu);

	set_apic(&vm, APIC_LVTPC, APIC_NMI | APIC_MASKED);
	arm(&vm, pmu, INT, 50);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 0, "LVTPC masked: interrupts");
	check_status(&vm, pmu, 1, "LVTPC masked");
	is(counter(&vm, pmu, 0), loop_counts(INSTRUCTIONS, N, true) - 50,
	   "LVTPC masked: the counter goes on");

	set_apic(&vm, APIC_LVTPC, APIC_NMI);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 0, "unmasked: the interrupt that was inhibited doesn't come");

	/* Behind OUT, JMP and MOV the even ones are DEC (2 bytes), the others JNZ. */
	arm(&vm, pmu, INT, 50);
	run_until(&vm, KVM_EXIT_IO);
	check_interrupt(&vm, loop_jnz, "unmasked: the next one");
	is(get_apic(&vm, APIC_LVTPC), APIC_NMI, "LVTPC isn't masked (on AMD CPUs), or was unmasked by the handler");
	arm(&vm, pmu, INT, 49);
	run_until(&vm, KVM_EXIT_IO);
	check_interrupt(&vm, loop_start + 3, "and one more");
	free_vm(&vm);
}

static void without_int(void)
{
	struct pmu pmu;
	struct vm vm = make_loop(&pmu);
	uint64_t first = loop_counts(INSTRUCTIONS, N, true);

	arm(&vm, pmu, 0, 50);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 0, "without INT: interrupts");
	check_status(&vm, pmu, 1, "without INT");
	is(counter(&vm, pmu, 0), first - 50, "without INT: counter");
	set_msr(&vm, pmu.select, INSTRUCTIONS | OS | INT | EN);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 0, "INT set later: no interrupt for what was");
	is(counter(&vm, pmu, 0), first - 50 + loop_counts(INSTRUCTIONS, N, false),
	   "INT set later: counter");

	/* Just as many as are left until the exit, and one less */
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	arm(&vm, pmu, 0, first + 1);
	if (pmu.v2)
		set_msr(&vm, GLOBAL_STATUS, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), COUNTER_MASK, "one short: counter");
	check_status(&vm, pmu, 0, "one short");
	complete(&vm);
	is(counter(&vm, pmu, 0), 0, "the exit's own instruction: counter");
	check_status(&vm, pmu, 1, "the exit's own instruction");
	free_vm(&vm);
}

/* KVM completes the instruction, and the counter overflows, while the guest doesn't run. */
static void out_of_run(void)
{
	struct pmu pmu;
	struct vm vm = make_loop(&pmu);
	struct kvm_vcpu_events events;
	struct kvm_regs regs;

	arm_exit(&vm, pmu, INT);
	IOCTL(vm.vcpu, KVM_GET_VCPU_EVENTS, &events);
	is(events.nmi.pending, 0, "before the exit is completed: NMIs pending");
	complete(&vm);
	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	is(regs.rip, ip_of(loop_behind_out), "completed: RIP");
	IOCTL(vm.vcpu, KVM_GET_VCPU_EVENTS, &events);
	is(events.nmi.pending, 1, "completed: userspace sees the NMI");
	check_status(&vm, pmu, 1, "completed");
	for (int i = 0; i < 5; i++)
		complete(&vm);
	is(*word_at(&vm, SAMPLES), 0, "the guest hasn't run since");
	run_until(&vm, KVM_EXIT_IO);
	check_interrupt(&vm, loop_behind_out, "the guest runs on");
	free_vm(&vm);

	/* The counter is stopped meanwhile: that changes nothing of it. */
	vm = make_loop(&pmu);
	arm_exit(&vm, pmu, INT);
	complete(&vm);
	set_msr(&vm, pmu.select, 0);
	run_until(&vm, KVM_EXIT_IO);
	check_interrupt(&vm, loop_behind_out, "counter stopped before the guest runs on");
	free_vm(&vm);

	/* Userspace takes the interrupt away: it is gone. */
	vm = make_loop(&pmu);
	arm_exit(&vm, pmu, INT);
	complete(&vm);
	IOCTL(vm.vcpu, KVM_GET_VCPU_EVENTS, &events);
	events.nmi.pending = 0;
	IOCTL(vm.vcpu, KVM_SET_VCPU_EVENTS, &events);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 0, "userspace takes the NMI away: interrupts");
	free_vm(&vm);

	/* Userspace's own write is no overflow; what comes behind it is. */
	vm = make_loop(&pmu);
	arm(&vm, pmu, INT, 1);
	check_status(&vm, pmu, 0, "a value just below the top");
	run_until(&vm, KVM_EXIT_IO);
	/* The loop's first MOV; 3 bytes */
	check_interrupt(&vm, loop_start + 3, "a value just below the top");
	set_msr(&vm, pmu.counter, COUNTER_MASK);
	set_msr(&vm, pmu.counter, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 1, "from the top to 0 by userspace: no more interrupts");
	free_vm(&vm);
}

/*
 * The counter was loaded before KVM completes the instruction that the vCPU left with, the loop's OUT of 2 bytes.  The
 * overflow comes at that one, and a few before and behind.
 */
static void around_exit(void)
{
	static const struct {
		uint64_t event;
		unsigned int behind;	/* as many of these events are behind the exit */
		const char *where, *name;
	} cases[] = {
		{ INSTRUCTIONS, 0, loop_behind_out - 2, "an instruction" },
		{ INSTRUCTIONS, 1, loop_behind_out, "an instruction" },
		{ INSTRUCTIONS, 2, loop_start, "an instruction" },
		{ INSTRUCTIONS, 3, loop_start + 3, "an instruction" },
		{ BRANCHES, 1, loop_start, "a branch" },
	};
	struct pmu pmu;
	struct vm vm = make_loop(&pmu);

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t event = cases[i].event;
		unsigned int behind = cases[i].behind;
		const char *name = cases[i].name;

		load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
		*word_at(&vm, SAMPLES) = 0;
		put_counter(&vm, pmu, 0, event | OS | EN | INT, NEG(loop_counts(event, N, true) + behind));
		for (int j = 0; j < 3; j++)
			run_until(&vm, KVM_EXIT_IO);
		is(*word_at(&vm, SAMPLES), 1, "%s, %u behind the exit: interrupts", name, behind);
		if (skid())
			skip("interrupts come late", "%s, %u behind the exit: where", name, behind);
		else
			is(*word_at(&vm, LAST_IP) & 0xffff, ip_of(cases[i].where), "%s, %u behind the exit: where",
			   name, behind);
	}
	free_vm(&vm);
}

#define VECTOR	0x61

/* The same by a vector, which waits for the guest's IF in the local APIC. */
static void vector(void)
{
	struct pmu pmu;
	struct vm vm = make_loop(&pmu);
	struct kvm_regs regs;

	*word_at(&vm, 4 * VECTOR) = NMI_HANDLER;
	set_apic(&vm, APIC_LVTPC, VECTOR);
	arm_exit(&vm, pmu, INT);
	is(get_apic(&vm, APIC_IRR + VECTOR / 32 * 16), 0, "by vector, before: IRR");
	complete(&vm);
	is(get_apic(&vm, APIC_IRR + VECTOR / 32 * 16), 1u << VECTOR % 32, "by vector, pending: IRR");
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 0, "by vector, IF clear: interrupts");
	complete(&vm);
	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	regs.rflags |= 0x200;
	IOCTL(vm.vcpu, KVM_SET_REGS, &regs);
	run_until(&vm, KVM_EXIT_IO);
	check_interrupt(&vm, loop_behind_out, "by vector, IF set");
	free_vm(&vm);
}

/* Intel's emulated hosts are as fast as real ones, by their own clock. */
#define ROUNDS	(on_intel() ? 60000 : 6000)
#define PERIOD	2500

/* Signals take the vCPU out of KVM_RUN wherever it is; the next thread goes on with it. */
static void signals(void)
{
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	unsigned int interrupted = 0;

	signal_after(1500);
	while (ioctl(vm.vcpu, KVM_RUN, NULL)) {
		if (errno != EINTR)
			err(1, "KVM_RUN");
		interrupted++;
		signal_after(1500);
	}
	signal_after(0);
	printf("# interrupted %u times\n", interrupted);
	check(interrupted >= 50, "signals came often enough");
	check_sampler(&vm, ROUNDS, PERIOD, "among signals");
	free_vm(&vm);
}

static void *run_a_while(void *arg)
{
	struct vm *vm = arg;

	return (void *)(intptr_t)(ioctl(vm->vcpu, KVM_RUN, NULL) ? errno : 0);
}

static void threads(void)
{
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	unsigned int used = 0;
	void *result;

	do {
		pthread_t thread;

		pthread_create(&thread, NULL, run_a_while, &vm);
		usleep(25000);
		pthread_kill(thread, SIGALRM);
		pthread_join(thread, &result);
		used++;
	} while ((intptr_t)result == EINTR);
	is((intptr_t)result, 0, "by many threads: KVM_RUN's error");
	printf("# %u threads\n", used);
	check(used >= 5, "by enough threads");
	check_sampler(&vm, ROUNDS, PERIOD, "by many threads");
	free_vm(&vm);
}

/*
 * More instructions that KVM completes than a counter runs ahead at most, where VM entries don't count, and then an
 * overflow.
 */
static void beyond_margin(void)
{
	unsigned int rounds = 7000, period = 700001;
	struct vm vm = make_sampler(rounds, period);

	run_until(&vm, KVM_EXIT_IO);
	check_sampler(&vm, rounds, period, "behind 6,666 CPUIDs");
	free_vm(&vm);
}

static int open_device(void)
{
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	return device;
}

/*
 * Where VM entries count, each of them moves the physical counter, so that it overflows early.  The guest's own handler
 * causes VM exits, which must not cost an NMI each time.
 */
static void few_are_early(void)
{
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	int device = open_device();
	struct kvm_vpmu_vcpu v;

	run_until(&vm, KVM_EXIT_IO);
	check_sampler(&vm, ROUNDS, PERIOD, "few are early");
	v = figures(device, &vm);
	check(v.pmis >= 100 && v.early <= v.pmis / 4, "few are early: %llu of %llu", (unsigned long long)v.early,
	      (unsigned long long)v.pmis);
	close(device);
	free_vm(&vm);
}

/* RDPMC, a read of each of the pages from 8000h on, and ESI turns of a loop */
#define PAGES_AT	0x8000
#define PAGES		8
extern const char pages_start[], pages_end[];
asm(".code16\n"
    ".globl pages_start, pages_end\n"
    "pages_start:\n"
    "	xor %ecx, %ecx\n"
    "	rdpmc\n"
    "	mov $0x8000, %di\n"
    "	mov $8, %cx\n"
    "1:	mov (%di), %al\n"
    "	add $0x1000, %di\n"
    "	dec %cx\n"
    "	jnz 1b\n"
    "2:	dec %esi\n"
    "	jnz 2b\n"
    "	out %al, $0x10\n"
    "pages_end:\n"
    ".code64\n");

/* So are exits in the middle of a sample's period that are no instructions, as those of a tick are. */
static void few_are_early_behind_a_tick(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	unsigned int wrong = 0, times = 40;
	int device = open_device();
	struct kvm_vpmu_vcpu v;

	handle_nmis(&vm, 0);
	for (unsigned int i = 0; i < times; i++) {
		/* KVM has to map them again. */
		if (madvise(vm.memory + PAGES_AT, PAGES * 4096, MADV_DONTNEED))
			err(1, "madvise");
		load_code(&vm, pages_start, pages_end, (struct kvm_regs){ .rsi = 2000 });
		arm(&vm, pmu_of(&vm), INT, 2000);
		run_until(&vm, KVM_EXIT_IO);
		wrong += *word_at(&vm, SAMPLES) != 1;
	}
	is(wrong, 0, "page faults in a period: interrupts that are missing, or too many");
	v = figures(device, &vm);
	check(v.early <= times / 4, "few of them are early: %llu of %u", (unsigned long long)v.early, times);
	close(device);
	free_vm(&vm);
}

/*
 * ESI times, one event more each time: start the counter whose number is at 0x2108 so that it overflows EDI events later,
 * and wait for the interrupt.  RESULT: the longest wait, in turns of a loop of 3 instructions.
 */
extern const char wait_start[], wait_end[];
asm(".code16\n"
    ".globl wait_start, wait_end\n"
    "wait_start:\n"
    "1:	movl $0, 0x2200\n"
    "	mov 0x2108, %ecx\n"
    "	mov %edi, %eax\n"
    "	neg %eax\n"
    "	mov $0xffff, %edx\n"
    "	wrmsr\n"
    "	xor %edx, %edx\n"
    "2:	inc %edx\n"
    "	cmpl $0, 0x2200\n"
    "	je 2b\n"
    "	cmp 0x2000, %edx\n"
    "	jbe 3f\n"
    "	mov %edx, 0x2000\n"
    "3:	inc %edi\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "wait_end:\n"
    ".code64\n");

/* Cycles count while KVM works for the guest, so the counter overflows at each place of KVM's way to the VM entry. */
static void anywhere_in_kvm(void)
{
	unsigned int rounds = 4000;
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);

	load_code(&vm, wait_start, wait_end, (struct kvm_regs){ .rsi = rounds, .rdi = 1 });
	handle_nmis(&vm, NEG(1ull << 40));
	put_counter(&vm, pmu, 0, CYCLES | OS | INT | EN, NEG(1ull << 40));
	set_time_limit(100, "the guest waits for an interrupt");
	run_until(&vm, KVM_EXIT_IO);
	set_time_limit(0, NULL);
	check(*word_at(&vm, RESULT) < rounds / 2, "overflows in KVM: the longest wait for an interrupt, %u turns",
	      *word_at(&vm, RESULT));
	free_vm(&vm);
}

/*
 * Several of these counters, one a few cycles behind the other: most overflow while the host handles the NMI of the
 * first one.  None is lost, and the host, whose log the bench looks at, has none that it doesn't know.  On the last CPU,
 * where host perf has no events if its watchdog is off.
 */
static void one_behind_another(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	unsigned int few = 0;

	pin(0, sysconf(_SC_NPROCESSORS_ONLN) - 1);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = 100 * N });
	handle_nmis(&vm, NEG(1ull << 40));
	for (unsigned int round = 0; round < 300; round++) {
		*word_at(&vm, SAMPLES) = 0;
		for (unsigned int i = 0; i < pmu.nr; i++)
			put_counter(&vm, pmu, i, CYCLES | OS | INT | EN,
				    NEG(400 + 7 * round + (10 + round % 100) * i));
		run_until(&vm, KVM_EXIT_IO);
		few += !*word_at(&vm, SAMPLES);
		for (unsigned int i = 1; i < pmu.nr; i++)
			few += counter(&vm, pmu, i) >= NEG(1ull << 40);
	}
	is(few, 0, "overflows one behind another: those that didn't come");
	free_vm(&vm);
}

/* From ESI down to 1: the counter becomes -ESI, then -30, then something far away. */
extern const char rewrite_start[], rewrite_end[];
asm(".code16\n"
    ".globl rewrite_start, rewrite_end\n"
    "rewrite_start:\n"
    "	mov 0x2108, %ecx\n"
    "	mov $0xffff, %edx\n"
    "1:	mov %esi, %eax\n"
    "	neg %eax\n"
    "	wrmsr\n"
    "	mov $-30, %eax\n"
    "	wrmsr\n"
    "	mov $-100000000, %eax\n"
    "	wrmsr\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "rewrite_end:\n"
    ".code64\n");

#define FREEZE_MODE	"/sys/module/kvm_vpmu/parameters/freeze"

/*
 * A counter that goes on while KVM works overflows anywhere in there: also while it is written, to overflow once more
 * before the guest is entered.  Host perf, which has an event, sees no overflow that isn't its own.
 */
static void written_meanwhile(void)
{
	struct vm vm;
	struct pmu pmu;

	put_string(FREEZE_MODE, "vcpu");
	vm = make_vm_with(VM_APIC, MEMORY);
	put_string(FREEZE_MODE, "hybrid");
	pmu = pmu_of(&vm);
	load_code(&vm, rewrite_start, rewrite_end, (struct kvm_regs){ .rsi = 3000 });
	handle_nmis(&vm, NEG(1ull << 40));
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(1ull << 40));
	run_until(&vm, KVM_EXIT_IO);
	check(*word_at(&vm, SAMPLES) > 500, "overflows while the counter is written: %u interrupts",
	      *word_at(&vm, SAMPLES));
	is(in_log("overflows for inactive PMCs"), 0, "overflows while the counter is written: those that perf saw");
	free_vm(&vm);
}

/* The host samples the guest, which samples itself: now and then one NMI is for both.  Neither loses any. */
static void one_for_both(void)
{
	unsigned int rounds = on_intel() ? 10000 : 60000;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = PERF_COUNT_HW_INSTRUCTIONS,
		.pinned = 1, .exclude_host = 1, .sample_period = 997, .sample_type = PERF_SAMPLE_IP,
	};
	struct samples s;
	struct vm vm;
	uint64_t count;
	int event;
	void *map;

	pin(0, 0);
	/* An emulated CPU takes long for each sample: perf must not take fewer then. */
	set_sample_rate(HIGH_RATE, "0");
	vm = make_sampler(rounds, 1000);
	event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	if (event < 0)
		err(1, "perf_event_open");
	map = map_samples(event);
	run_until(&vm, KVM_EXIT_IO);
	if (ioctl(event, PERF_EVENT_IOC_DISABLE, 0) || read(event, &count, 8) != 8)
		err(1, "a host event");
	s = count_samples(map);
	check_sampler(&vm, rounds, 1000, "beside the host's samples");
	is(s.samples, count / 997, "the host's samples of a guest that takes its own");
	is(s.others, 0, "the host's samples: lost or throttled");
	munmap(map, 4096 * (RING_PAGES + 1));
	close(event);
	free_vm(&vm);
	/* The kernel's defaults */
	set_sample_rate("100000", "25");
}

int main(void)
{
	masked();
	without_int();
	out_of_run();
	vector();
	around_exit();
	beyond_margin();
	few_are_early();
	few_are_early_behind_a_tick();
	anywhere_in_kvm();
	signals();
	threads();
	written_meanwhile();
	one_for_both();
	one_behind_another();
	return finish();
}
