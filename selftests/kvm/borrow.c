// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guest counters that borrow physical ones of host perf's: the host gets back what it had, whatever
 * the guest does meanwhile, and no overflow makes the host wait.  TAP.
 *
 *	borrow
 *	borrow forever
 *		a guest on the last CPU that does nothing else, until it is killed
 *
 * The host's NMI watchdog is on.
 */
#define _GNU_SOURCE
#include <linux/kvm_vpmu.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "tap.h"
#include "sampler.h"
#include "figures.h"
#include "host_pmu.h"
#include "pin.h"
#include "time_limit.h"

#define PERIOD		5000
#define ROUNDS		400	/* of the sampler */
#define LOOPS		1000

/*
 * Accesses of the module to PMU registers, at most: lending and giving back takes less than 100 for a
 * VM entry, and an interrupt has some five of these. Waiting for an NMI in vain takes some 3000 each time.
 */
#define FEW_ACCESSES	1000

static int device;

static struct kvm_vpmu_info info(void)
{
	struct kvm_vpmu_info info;

	IOCTL(device, KVM_VPMU_GET_INFO, &info);
	return info;
}

static uint64_t accesses(struct kvm_vpmu_info i)
{
	return i.rdmsr + i.wrmsr + i.rdpmc;
}

/* A host event on this CPU that never leaves its counter; in kernel mode, which the host's part of this is */
static int host_event(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = {
		.type = type, .size = sizeof(attr), .config = config, .pinned = 1,
	};

	return syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
}

/* What the host's counters count: of Intel's, the fixed ones, and which of these are on */
static unsigned int host_state(uint64_t *state)
{
	if (on_intel()) {
		state[0] = host_msr(INTEL_FIXED_CONTROL);
		state[1] = host_msr(INTEL_CONTROL) >> 32;
		for (unsigned int n = 0; n < MAX_FIXED; n++)
			if (!(state[0] >> 4 * n & (FIXED_OS | FIXED_USR)))
				state[1] &= ~(1ull << n);
		return 2;
	}
	for (unsigned int i = 0; i < NR_CORE; i++)
		state[i] = host_msr(CORE_SELECT0 + 2 * i);
	/* What one that is off would count means nothing. */
	for (unsigned int i = 0; i < NR_CORE; i++)
		if (!(state[i] & EN))
			state[i] = 0;
	return NR_CORE;
}

/* The guest counts @event on as many counters as it has, from general one @first on, from @value. */
static void count_on_all(struct vm *vm, struct pmu pmu, unsigned int first, uint64_t event, uint64_t value)
{
	for (unsigned int i = first; i < pmu.nr; i++)
		put_counter(vm, pmu, i, event | OS | EN, value);
	if (!on_intel())
		return;
	for (unsigned int n = 0; n < 2; n++)
		put_fixed(vm, n, FIXED_OS, value);
	/* At reset general ones are on only. */
	set_msr(vm, INTEL_CONTROL, counter_bits(pmu));
}

/* Which of @vm's counters borrow? */
static unsigned long borrowing(const struct vm *vm)
{
	struct kvm_vpmu_vcpu v = figures(device, vm);
	unsigned long mask = 0;

	for (unsigned int i = 0; i < v.counters; i++)
		if (v.counter[i].flags & KVM_VPMU_COUNTER_BORROWS)
			mask |= 1ul << i;
	return mask;
}

/* The host's watchdog has one counter, the guest wants two of those that are free. */
static void free_ones(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	put_counter(&vm, pmu, 0, BRANCHES | OS | EN, 0);
	put_counter(&vm, pmu, 1, BRANCHES | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(figures(device, &vm).borrowed, 0, "free counters: VM entries with a borrowed one");
	is(borrowing(&vm), 0, "free counters: those that borrow");
	free_vm(&vm);
}

/*
 * One more than are free, and the last one counts while KVM works for the guest, which a counter can't that borrows:
 * another one borrows.  AMD: Intel's have a fixed counter for cycles.
 */
static void counts_in_kvm(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	for (unsigned int i = 0; i < pmu.nr - 1; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, 0);
	put_counter(&vm, pmu, pmu.nr - 1, CYCLES | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(figures(device, &vm).gaps, 0, "cycles beside others: stays that they missed what KVM did behind");
	for (unsigned int i = 0; i < pmu.nr - 1; i++)
		is(counter(&vm, pmu, i), loop_counts(INSTRUCTIONS, LOOPS, true), "cycles beside others: counter %u", i);
	free_vm(&vm);
}

/* A counter runs while it is on a physical one; one that borrows isn't while KVM works for the guest. */
static void check_times(const struct vm *vm)
{
	struct kvm_vpmu_vcpu v = figures(device, vm);
	unsigned int less = 0, wrong = 0;

	for (unsigned int i = 0; i < v.counters; i++) {
		less += v.counter[i].running_ns < v.counter[i].enabled_ns;
		wrong += v.counter[i].running_ns > v.counter[i].enabled_ns;
	}
	check(less, "all counters: %u ran for less time than they were enabled", less);
	is(wrong, 0, "all counters: those that ran for longer than they were enabled");
}

/* All counters that the guest has, and interrupts of one of them: what does the host have then? */
static void host_gets_back(void)
{
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	struct pmu pmu = pmu_of(&vm);
	uint64_t before[NR_CORE], after[NR_CORE];
	unsigned int nr;
	int events[2];

	/* Less is left than the guest counts on, Intel's fixed counter of instructions, too. */
	for (unsigned int i = 0; i < 2; i++)
		events[i] = host_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
	nr = host_state(before);
	count_on_all(&vm, pmu, 2, INSTRUCTIONS, 0);
	run_until(&vm, KVM_EXIT_IO);
	check_sampler(&vm, ROUNDS, PERIOD, "all counters");
	check_times(&vm);
	for (unsigned int i = 2; i < pmu.nr; i++)
		is(counter(&vm, pmu, i), counter(&vm, pmu, 1), "all counters: counter %u has them, too", i);
	host_state(after);
	for (unsigned int i = 0; i < nr; i++)
		is(after[i], before[i], "the host's control %u after interrupts of the guest's", i);
	free_vm(&vm);
	host_state(after);
	for (unsigned int i = 0; i < nr; i++)
		is(after[i], before[i], "the host's control %u when the guest has gone", i);
	for (unsigned int i = 0; i < 2; i++)
		close(events[i]);
}

/*
 * They overflow without asking for an interrupt, and some borrow.  KVM emulates the guest's CPUID while those are on
 * no physical counter.
 */
static void quiet_overflow(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	struct kvm_vpmu_info first, last;
	uint64_t took, wrong = 0;

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	count_on_all(&vm, pmu, 0, INSTRUCTIONS, NEG(100));
	first = info();
	run_until(&vm, KVM_EXIT_IO);
	last = info();
	took = accesses(last) - accesses(first);
	check(last.rdmsr > first.rdmsr && last.wrmsr > first.wrmsr && last.rdpmc > first.rdpmc,
	      "accesses of each kind are counted");
	for (unsigned int i = 0; i < pmu.nr; i++)
		wrong += counter(&vm, pmu, i) != loop_counts(INSTRUCTIONS, LOOPS, true) - 100;
	is(wrong, 0, "overflows without an interrupt: counters that are wrong");
	check(took < FEW_ACCESSES, "overflows without an interrupt: register accesses, %llu",
	      (unsigned long long)took);
	free_vm(&vm);
	if (on_intel())
		is(host_msr(INTEL_STATUS), 0, "overflows without an interrupt: the host sees none");
}

/* Interrupts while others borrow cost what they cost. */
static void interrupts_cost(void)
{
	unsigned int samples = sampler_samples(ROUNDS, PERIOD);
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	struct pmu pmu = pmu_of(&vm);
	uint64_t before, took;

	count_on_all(&vm, pmu, 2, BRANCHES, 0);
	before = accesses(info());
	run_until(&vm, KVM_EXIT_IO);
	took = accesses(info()) - before;
	check(took < 100 * ROUNDS + FEW_ACCESSES * samples, "%u interrupts: register accesses, %llu",
	      samples, (unsigned long long)took);
	free_vm(&vm);
}

/* Overflows at its HLT, wakes up, and ends. */
extern const char halt_start[], halt_end[];
asm(".code16\n"
    ".globl halt_start, halt_end\n"
    "halt_start:\n"
    "	nop\n"
    "	hlt\n"
    "	out %al, $0x10\n"
    "halt_end:\n"
    ".code64\n");

/* Every counter of the CPU is the host's. */
static void fill(int *events, unsigned int nr)
{
	events[0] = host_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	for (unsigned int i = 1; i < nr; i++)
		events[i] = host_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS);
}

/* The guest's only counter overflows at a HLT. */
static void halts(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	int events[MOST_COUNTERS];

	fill(events, nr_counters(pmu));
	load_code(&vm, halt_start, halt_end, (struct kvm_regs){ });
	handle_nmis(&vm, NEG(1ull << 40));
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(2));
	set_time_limit(20, "the vCPU sleeps on");
	run_until(&vm, KVM_EXIT_IO);
	set_time_limit(0, NULL);
	is(*word_at(&vm, SAMPLES), 1, "an overflow at HLT, with a borrowed counter: interrupts");
	for (unsigned int i = 0; i < nr_counters(pmu); i++)
		close(events[i]);
	free_vm(&vm);
}

/* The guest samples itself, and completes a CPUID now and then, with borrowed counters only. */
static void samples(void)
{
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	struct pmu pmu = pmu_of(&vm);
	int events[MOST_COUNTERS];

	fill(events, nr_counters(pmu));
	run_until(&vm, KVM_EXIT_IO);
	check_sampler(&vm, ROUNDS, PERIOD, "borrowed counters");
	check(figures(device, &vm).borrowed >= 2 * ROUNDS, "borrowed counters: %llu at VM entries",
	      figures(device, &vm).borrowed);
	for (unsigned int i = 0; i < nr_counters(pmu); i++)
		close(events[i]);
	free_vm(&vm);
}

static void borrow_forever(void)
{
	struct vm vm;

	pin(0, sysconf(_SC_NPROCESSORS_ONLN) - 1);
	vm = make_vm(true);
	count_on_all(&vm, pmu_of(&vm), 0, BRANCHES, 0);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	for (;;)
		run_until(&vm, KVM_EXIT_IO);
}

int main(int argc, __attribute__((unused)) char **argv)
{
	if (argc > 1)
		borrow_forever();
	pin(0, 0);
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	free_ones();
	if (!on_intel())
		counts_in_kvm();
	host_gets_back();
	quiet_overflow();
	interrupts_cost();
	halts();
	samples();
	return finish();
}
