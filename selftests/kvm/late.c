// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Overflow interrupts that come some instructions after the overflow (skid): one whose overflow
 * was noticed at a VM exit before must not be the last one, nor be unknown to the host.  The module
 * must not take an NMI of somebody else's for it: neither the next one, nor one that comes when an
 * overflow interrupt can't any more.  TAP.
 *
 *	late [expired]
 *
 * Needs a CPU with skid (on the bench one with x-pmu-skid=SKID, or pmu_skid=SKID for Intel's), SKID
 * in the environment, and no NMI watchdog: host perf's handler would do for the guest what the
 * module has to do.  On AMD's a skid of 10,000: from a VM exit to the end of KVM_RUN the host takes
 * thousands of instructions.  With "expired" the skid is longer than the module waits.
 *
 * selftests/modules/nmis.ko counts the NMIs that the host doesn't know, and sends one at sync().
 */
#include <fcntl.h>

#include "tap.h"
#include "sampler.h"

#define LOOPS	50000u	/* of 2 instructions, then a CPUID */
#define PERIOD	10000
#define RUNS	10

static unsigned int nmi_pending(struct vm *vm)
{
	struct kvm_vcpu_events events;

	IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &events);
	return events.nmi.pending;
}

static unsigned int unknown(void)
{
	char digits[16] = "";
	int fd = open("/sys/module/nmis/parameters/unknown", O_RDONLY);

	if (fd < 0 || read(fd, digits, sizeof(digits) - 1) <= 0)
		err(1, "/sys/module/nmis/parameters/unknown");
	close(fd);
	return strtoul(digits, NULL, 10);
}

/* Instructions of the host, as those of a halted CPU are none */
static void busy(unsigned int instructions)
{
	for (unsigned int i = 0; i < instructions / 2; i++)
		asm volatile("");
}

/* With the first overflow @before instructions in front of the first OUT */
static void first_late(struct vm *vm, unsigned int before)
{
	struct pmu pmu;

	*vm = make_vm_with(VM_APIC, MEMORY);
	pmu = pmu_of(vm);
	load_code(vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	handle_nmis(vm, NEG(PERIOD));
	put_counter(vm, pmu, 0, INSTRUCTIONS | OS | INT | EN,
		    NEG(loop_counts(INSTRUCTIONS, LOOPS, true) - before));
	run_until(vm, KVM_EXIT_IO);
}

static void late(unsigned int before)
{
	uint32_t samples, least = RUNS * (2 * LOOPS / (PERIOD + skid() + HANDLER_INSTRUCTIONS) - 1);
	struct vm vm;

	first_late(&vm, before);
	samples = *word_at(&vm, SAMPLES);
	is(samples + nmi_pending(&vm), 1,
	   "interrupts of an overflow %u instructions before an exit", before);
	for (unsigned int i = 0; i < RUNS; i++)
		run_until(&vm, KVM_EXIT_IO);
	samples = *word_at(&vm, SAMPLES) - samples;
	check(samples >= least, "interrupts after that: %u, at least %u", samples, least);
	free_vm(&vm);
}

/* At most so many instructions of the host are from a VM exit to behind vcpu_put. */
#define PATH	4500u

/*
 * The NMI comes at each instruction of the host from a VM exit that ends KVM_RUN to behind vcpu_put, as the overflow
 * is each time at another distance from the exit.
 */
static void walk(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	unsigned int wrong = 0, loops = skid();

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = loops });
	handle_nmis(&vm, 0);
	run_until(&vm, KVM_EXIT_IO);
	for (unsigned int before = skid() > PATH ? skid() - PATH : 0; before < skid(); before++) {
		*word_at(&vm, SAMPLES) = 0;
		put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN,
			    NEG(loop_counts(INSTRUCTIONS, loops, false) - before));
		run_until(&vm, KVM_EXIT_IO);
		/* Pending, or the guest took it between the CPUID and the OUT. */
		if (*word_at(&vm, SAMPLES) + nmi_pending(&vm) != 1 && !wrong++)
			printf("# %u instructions before the exit: not one interrupt\n", before);
		run_until(&vm, KVM_EXIT_IO);
		if (*word_at(&vm, SAMPLES) != 1 && !wrong++)
			printf("# %u instructions before the exit: %u interrupts\n", before,
			       *word_at(&vm, SAMPLES));
	}
	is(wrong, 0, "an NMI at each instruction behind an exit: interrupts that are missing, or one too many");
	free_vm(&vm);
}

/* Its NMI comes, and then one of somebody else's. */
static void next_is_unknown(void)
{
	unsigned int before;
	struct vm vm;

	first_late(&vm, 0);
	busy(2 * skid());
	before = unknown();
	sync();
	is(unknown() - before, 1, "unknown NMIs, of one right behind a late one");
	free_vm(&vm);
}

/* Its NMI comes too late. */
static void expired(void)
{
	unsigned int before = unknown();
	struct vm vm;

	first_late(&vm, 0);
	is(unknown() - before, 0, "unknown NMIs before the late one");
	busy(2 * skid());
	is(unknown() - before, 1, "unknown NMIs, of one that is too late");
	free_vm(&vm);
}

int main(int argc, char *argv[])
{
	if (!skid())
		errx(1, "needs SKID");
	if (argc > 1 && !strcmp(argv[1], "expired")) {
		expired();
		return finish();
	}
	/* In front of the CPUID, where the module notices it on Intel's CPUs */
	late(13);
	/* By the CPUID: on AMD's the VM entry behind it counts, and the module notices at the OUT. */
	late(0);
	walk();
	is(unknown(), 0, "NMIs that the host doesn't know");
	next_is_unknown();
	return finish();
}
