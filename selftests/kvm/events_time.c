// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The hypervisor's events that the scheduler causes: a vCPU that moves (with two CPUs), that waits
 * for its CPU, that halts, and time in KVM.  TAP.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "tap.h"
#include "events.h"
#include "guests.h"
#include "pin.h"
#include "stats.h"
#include "waits.h"

#define MOVES		40
#define HALTS		30
#define STEAL_MS	300

/* /dev/kvm-vpmu */
static int device = -1;

/* Nobody observes VMs any more. */
static void open_device(void)
{
	close(device);
	device = open("/dev/kvm-vpmu", O_RDWR);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
}

/* The host executes as many instructions in a second as in any other (-icount). */
static bool exact;

static struct vm make(struct pmu *pmu, const char *start, const char *end, unsigned int rsi)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);

	open_device();
	if (set_events(device, &vm, KVM_VPMU_EVENTS_ON))
		err(1, "KVM_VPMU_SET");
	*pmu = pmu_of(&vm);
	load_code(&vm, start, end, (struct kvm_regs){ .rsi = rsi });
	return vm;
}

static void count(struct vm *vm, struct pmu pmu, unsigned int i, unsigned int mask)
{
	put_counter(vm, pmu, i, event(mask) | OS | USR | EN, 0);
}

/* The host's view: how many of event @mask came since @start */
static uint64_t observed(const struct vm *vm, const struct kvm_vpmu_events *start, unsigned int mask)
{
	return observe(device, vm).count[mask] - start->count[mask];
}

/* The NUMA node of @cpu; 0 if the kernel knows none */
static unsigned int node_of(unsigned int cpu)
{
	char name[100];

	for (unsigned int node = 0; node < 64; node++) {
		snprintf(name, sizeof(name), "/sys/devices/system/cpu/cpu%u/node%u", cpu, node);
		if (!access(name, F_OK))
			return node;
	}
	return 0;
}

/* The vCPU's thread alternates between two CPUs; other threads' ioctls in between are no moves. */
static void check_moves(void)
{
	struct pmu pmu;
	struct vm vm = make(&pmu, outs_start, outs_end, 0);
	struct kvm_vpmu_events start;

	pin(0, 0);
	run_until(&vm, KVM_EXIT_IO);
	count(&vm, pmu, 0, KVM_VPMU_EVENT_MOVES);
	count(&vm, pmu, 1, KVM_VPMU_EVENT_NODE_MOVES);
	start = observe(device, &vm);
	for (unsigned int i = 0; i < MOVES; i++) {
		run_until(&vm, KVM_EXIT_IO);
		pin(0, ~i & 1);
		/* Loads the vCPU, and runs it not */
		counter(&vm, pmu, 0);
		pin(0, i & 1);
		counter(&vm, pmu, 0);
		pin(0, ~i & 1);
		run_until(&vm, KVM_EXIT_IO);
	}
	is(counter(&vm, pmu, 0), MOVES, "moves");
	is(counter(&vm, pmu, 1), node_of(0) != node_of(1) ? MOVES : 0, "moves to another node");
	is(observed(&vm, &start, KVM_VPMU_EVENT_MOVES), MOVES, "moves, the host's view");
	is(observed(&vm, &start, KVM_VPMU_EVENT_NODE_MOVES), counter(&vm, pmu, 1),
	   "moves to another node, the host's view");
	put_counter(&vm, pmu, 0, 0, 0);
	put_counter(&vm, pmu, 1, 0, 0);
	/* Nothing looks at moves now. */
	open_device();
	pin(0, 1);
	run_until(&vm, KVM_EXIT_IO);
	count(&vm, pmu, 0, KVM_VPMU_EVENT_MOVES);
	count(&vm, pmu, 1, KVM_VPMU_EVENT_NODE_MOVES);
	pin(0, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), 0, "moves before the counters were started");
	pin(0, 1);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), 1, "a move behind that");
	is(counter(&vm, pmu, 1), node_of(0) != node_of(1), "a move to another node");
	free_vm(&vm);
}

static void check_steal(void)
{
	struct pmu pmu;
	struct vm vm = make(&pmu, outs_start, outs_end, 0);
	uint64_t start[2], end[2], value, host;
	struct kvm_vpmu_events first;
	pid_t rival;

	pin(0, 0);
	rival = fork();
	if (!rival)
		for (;;)
			;
	start[0] = run_delay();
	count(&vm, pmu, 0, KVM_VPMU_EVENT_TICKS_STEAL);
	first = observe(device, &vm);
	run_until(&vm, KVM_EXIT_IO);
	start[1] = run_delay();
	while (run_delay() < start[1] + STEAL_MS * 1000000ull)
		run_until(&vm, KVM_EXIT_IO);
	/* The thread waits between any two of these, too. */
	end[0] = run_delay();
	value = counter(&vm, pmu, 0);
	host = observed(&vm, &first, KVM_VPMU_EVENT_TICKS_STEAL);
	end[1] = run_delay();
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);

	printf("# %llu ticks, by schedstat %llu to %llu\n", (unsigned long long)value,
	       (unsigned long long)ticks(&vm, end[0] - start[1]),
	       (unsigned long long)ticks(&vm, end[1] - start[0]));
	check(value + 1 >= ticks(&vm, end[0] - start[1]) &&
	      value <= ticks(&vm, end[1] - start[0]) + 1, "steal: as schedstat has it");
	check(host + 1 >= ticks(&vm, end[0] - start[1]) &&
	      host <= ticks(&vm, end[1] - start[0]) + 1, "steal, the host's view: %llu ticks",
	      (unsigned long long)host);
	free_vm(&vm);
}

static uint64_t halted(const struct vm *vm)
{
	return kvm_stat(vm, "halt_wait_ns") + kvm_stat(vm, "halt_poll_success_ns") +
	       kvm_stat(vm, "halt_poll_fail_ns");
}

/* @poll: KVM looks for an interrupt for so long (ns) before the vCPU's thread sleeps */
static void check_halts(const char *what, uint64_t poll)
{
	struct pmu pmu;
	struct vm vm = make(&pmu, pulses_start, pulses_end, HALTS);
	struct kvm_enable_cap cap = { .cap = KVM_CAP_HALT_POLL, .args = { poll } };
	uint64_t before, halts, slept, value, in_kvm, wall, seen[2];
	struct kvm_vpmu_events start;
	struct kvm_regs regs = { .rip = CODE, .rsi = HALTS, .rflags = 2 };

	pin(0, 0);
	IOCTL(vm.fd, KVM_ENABLE_CAP, &cap);
	prepare_pulses(&vm);
	/* KVM begins with 10 us of polling, and doubles that. */
	run_until(&vm, KVM_EXIT_IO);
	IOCTL(vm.vcpu, KVM_SET_REGS, &regs);
	count(&vm, pmu, 0, KVM_VPMU_EVENT_EXITS_HALT);
	count(&vm, pmu, 1, KVM_VPMU_EVENT_TICKS_HALTED);
	count(&vm, pmu, 2, KVM_VPMU_EVENT_TICKS_KVM);
	before = halted(&vm);
	slept = kvm_stat(&vm, "halt_wait_ns");
	halts = kvm_stat(&vm, "halt_exits");
	start = observe(device, &vm);
	run_until(&vm, KVM_EXIT_IO);
	seen[0] = observed(&vm, &start, KVM_VPMU_EVENT_TICKS_HALTED);
	seen[1] = observed(&vm, &start, KVM_VPMU_EVENT_TICKS_KVM);

	is(counter(&vm, pmu, 0), kvm_stat(&vm, "halt_exits") - halts, "halts");
	check(counter(&vm, pmu, 0) == HALTS, "%s: %u halts", what, HALTS);
	value = counter(&vm, pmu, 1);
	before = ticks(&vm, halted(&vm) - before);
	printf("# %llu ticks halted, by KVM's statistics %llu\n", (unsigned long long)value,
	       (unsigned long long)before);
	check(value >= before - 1 && value <= before + 1, "%s: ticks halted", what);

	check(seen[0] >= before - 1 && seen[0] <= before + 1, "%s: ticks halted, the host's view", what);

	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	wall = regs.rbp;
	in_kvm = counter(&vm, pmu, 2);
	printf("# %llu ticks in KVM, %llu by the guest's TSC\n", (unsigned long long)in_kvm,
	       (unsigned long long)wall);
	/*
	 * While the thread slept it wasn't in KVM: it does that when another task wants the CPU, even
	 * if KVM polls.  The guest's time has VM entries and exits as well.
	 */
	slept = ticks(&vm, kvm_stat(&vm, "halt_wait_ns") - slept);
	/* A debugging kernel takes a tenth of the time to fall asleep and to wake up. */
	check(poll ? in_kvm > wall / 2 : in_kvm < wall / 2, "%s: as KVM polls", what);
	/*
	 * The guest's counter has the time of other ioctls as well.  That is short, but by the wall's
	 * time any of them may be one in which the emulator had to wait for a CPU.
	 */
	check(seen[1] <= in_kvm && seen[1] >= in_kvm / 2,
	      "%s: %llu ticks in KVM, the host's view", what, (unsigned long long)seen[1]);
	if (exact)
		check(seen[1] + wall / 1000 >= in_kvm, "%s: within 0.1 %%", what);
	check(in_kvm <= wall, "%s: no more ticks in KVM than outside the guest", what);
	if (exact)
		check(in_kvm + slept >= wall - wall / 1000 && in_kvm + slept <= wall + wall / 1000,
		      "%s: ticks in KVM within 0.1 %%, %llu asleep", what,
		      (unsigned long long)slept);
	free_vm(&vm);
}

/* events_time [exact] */
int main(int argc, char **argv)
{
	exact = argc > 1 && !strcmp(argv[1], "exact");
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		check_moves();
	check_steal();
	/* On an emulated Intel host that guest's HLT never ends, without the module as with it. */
	if (on_intel()) {
		skip("the HLT never ends there", "halts");
		return finish();
	}
	check_halts("asleep", 0);
	check_halts("polling", 5 * PULSE_NS);
	return finish();
}
