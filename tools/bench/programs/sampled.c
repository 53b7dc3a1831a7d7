// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs a computing guest that the host profiles it (KVM_VPMU_PROFILE).  By the emulator's
 * oracle.
 *
 *	sampled [--period INSTRUCTIONS] [--kvm-time] [--stacks CALLS [--words]]
 *
 * Prints one line "NAME VALUE" each, of a sample: with all that the host does for it, the VM exit
 * included.  "samples" is how many there were, "instructions" how many the guest executed.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <linux/perf_event.h>

#include "vm.h"
#include "long_mode.h"
#include "pin.h"
#include "profiles.h"
#include "waits.h"
#include "oracle.h"
#include "cost.h"

#define RUNS	5
/* Of the guest's: some 300 ms at 3 GHz and one instruction per cycle */
#define ROUNDS	25000

/* With call graphs: how many calls deep the guest is; 0: none */
static unsigned int calls;
static const struct mode process = { "process", 0x400000000000, 4, 1, true, false };
/* With the words of its stack, too: a kernel, and behind its stack nothing is mapped */
static const struct mode kernel = { "kernel", 0xffffffff80000000, 4, 1, false, false };
static const struct mode *mode = &process;
#define DEEP_ROUNDS	500000

static struct kvm_vpmu_profile what = {
	.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS, .period = 3000000,
	.flags = KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_SWITCHES, .records = KVM_VPMU_PROFILE_MAX_RECORDS, .fd = -1,
};

static void run_guest(struct vm *vm)
{
	if (!calls) {
		spin(vm, ROUNDS);
		return;
	}
	IOCTL(vm->vcpu, KVM_SET_REGS, (&(struct kvm_regs){
		.rip = mode->base + CODE, .rsp = mode->base + STACK, .rdi = calls, .rsi = DEEP_ROUNDS,
		.rflags = 2 | (mode->user ? 3 << 12 : 0),
	}));
	run_until(vm, KVM_EXIT_IO);
}

/* What the guest's run costs: with a profile, whose samples go to *@samples, or without (NULL) */
static struct cost run_once(int msr, int device, struct vm *vm, uint64_t *samples)
{
	struct cost before, after;
	struct profile p;

	if (samples)
		p = profile_open(device, what);
	read_cost(msr, &before);
	run_guest(vm);
	read_cost(msr, &after);
	if (samples) {
		*samples = 0;
		for (const struct kvm_vpmu_record *r; (r = profile_next(&p));)
			*samples += r->type == KVM_VPMU_RECORD_SAMPLE;
		if (p.ring->lost || p.ring->throttled)
			errx(1, "%llu records lost, throttled %llu times",
			     (unsigned long long)p.ring->lost,
			     (unsigned long long)p.ring->throttled);
		profile_close(&p);
	}
	subtract_cost(&after, &before);
	return after;
}

static struct cost best(int msr, int device, struct vm *vm, uint64_t *samples)
{
	struct cost min = run_once(msr, device, vm, samples);

	for (unsigned int i = 0; i < RUNS; i++) {
		struct cost c = run_once(msr, device, vm, samples);

		if (less_disturbed(&c, &min))
			min = c;
	}
	return min;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'p':
		what.period = strtoull(arg, NULL, 0);
		if (!what.period)
			argp_error(state, "'%s' is no period", arg);
		return 0;
	case 's':
		calls = strtoul(arg, NULL, 0);
		what.flags |= KVM_VPMU_PROFILE_STACKS;
		return 0;
	case 'w':
		what.flags |= KVM_VPMU_PROFILE_WORDS;
		mode = &kernel;
		return 0;
	case 'k':
		what.flags |= KVM_VPMU_PROFILE_KVM_TIME;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "period", 'p', "INSTRUCTIONS", 0, "from a sample to the next (default: 3000000)", 0 },
		{ "stacks", 's', "CALLS", 0, "with call graphs, of a guest that many calls deep", 0 },
		{ "words", 'w', NULL, 0, "with the words of the stack, of a guest's kernel", 0 },
		{ "kvm-time", 'k', NULL, 0, "with the time in KVM", 0 },
		{ }
	};
	static const struct argp argp = {
		options, parse, NULL, "What a profile costs a guest", NULL, NULL, NULL
	};
	int msr, device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	struct cost profiled, alone;
	uint64_t samples;
	struct vm vm;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	pin(0, 0);
	msr = open_oracle(0);
	if (calls) {
		make_long_mode(&vm, mode, deep_start, deep_end, (struct kvm_regs){ });
		if (mode == &kernel)
			*leaf_entry(&vm, STACK) = 0;
	} else {
		vm = make_vm(true);
		load_spin(&vm);
	}
	run_once(msr, device, &vm, &samples);
	alone = best(msr, device, &vm, NULL);
	profiled = best(msr, device, &vm, &samples);
	subtract_cost(&profiled, &alone);
	printf("samples %llu\ninstructions %llu\n", (unsigned long long)samples,
	       calls ? DEEP_INSTRUCTIONS(DEEP_ROUNDS) : SPIN_INSTRUCTIONS(ROUNDS));
	print_cost(&profiled, samples, NULL);
	free_vm(&vm);
	return 0;
}
