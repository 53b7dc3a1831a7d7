// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs a computing guest that the host profiles it (KVM_VPMU_PROFILE).  By the emulator's
 * oracle.
 *
 *	sampled [--period INSTRUCTIONS] [--kvm-time]
 *
 * Prints one line "NAME VALUE" each, of a sample: with all that the host does for it, the VM exit
 * included.  "samples" is how many there were, "instructions" how many the guest executed.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <linux/kvm_vpmu_profile.h>
#include <linux/perf_event.h>

#include "vm.h"
#include "pin.h"
#include "oracle.h"
#include "cost.h"

#define RECORDS	65536
#define RUNS	5
/* Of the guest's: some 300 ms at 3 GHz and one instruction per cycle */
#define ROUNDS	2500
#define ROUND	(4 * 100000 + 3ull)

extern const char spin_start[], spin_end[];
asm(".code16\n"
    "spin_start:\n"
    "1:	mov $200000, %ecx\n"
    "2:	dec %ecx\n"
    "	jnz 2b\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "spin_end:\n"
    ".code64\n");

static struct kvm_vpmu_profile what = {
	.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS, .period = 3000000,
	.flags = KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_SWITCHES, .records = RECORDS, .fd = -1,
};

/* What the guest's run costs: with a profile, whose samples go to *@samples, or without (NULL) */
static struct cost run_once(int msr, int device, struct vm *vm, uint64_t *samples)
{
	struct kvm_vpmu_ring *ring = NULL;
	struct cost before, after;
	int fd = -1;

	if (samples) {
		fd = IOCTL(device, KVM_VPMU_PROFILE, &what);
		ring = mmap(NULL, getpagesize() + RECORDS * sizeof(struct kvm_vpmu_record),
			    PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (ring == MAP_FAILED)
			err(1, "mmap of a profile");
	}
	IOCTL(vm->vcpu, KVM_SET_REGS,
	      (&(struct kvm_regs){ .rip = CODE, .rsi = ROUNDS, .rflags = 2 }));
	read_cost(msr, &before);
	run_until(vm, KVM_EXIT_IO);
	read_cost(msr, &after);
	if (samples) {
		const struct kvm_vpmu_record *r = (const void *)((const char *)ring + getpagesize());

		*samples = 0;
		for (uint64_t i = 0; i < ring->head; i++)
			*samples += r[i].type == KVM_VPMU_RECORD_SAMPLE;
		if (ring->lost || ring->throttled)
			errx(1, "%llu records lost, throttled %llu times",
			     (unsigned long long)ring->lost, (unsigned long long)ring->throttled);
		munmap(ring, getpagesize() + RECORDS * sizeof(struct kvm_vpmu_record));
		close(fd);
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
	vm = make_vm(true);
	load_code(&vm, spin_start, spin_end, (struct kvm_regs){ 0 });
	run_once(msr, device, &vm, &samples);
	alone = best(msr, device, &vm, NULL);
	profiled = best(msr, device, &vm, &samples);
	subtract_cost(&profiled, &alone);
	printf("samples %llu\ninstructions %llu\n", (unsigned long long)samples,
	       (unsigned long long)ROUNDS * ROUND);
	print_cost(&profiled, samples, NULL);
	free_vm(&vm);
	return 0;
}
