// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Overflow interrupts that come some instructions after the overflow (skid): one whose overflow
 * was noticed at a VM exit before must not be the last one, nor be unknown to the host.  TAP.
 *
 * Needs a CPU with skid (on the bench one with x-pmu-skid=SKID, or pmu_skid=SKID for Intel's), SKID
 * in the environment, and no NMI watchdog: host perf's handler would do for the guest what the
 * module has to do.  On AMD's a skid of 10,000: from a VM exit to the end of KVM_RUN the host takes
 * thousands of instructions.
 */
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


/* With the first overflow @before instructions in front of the first OUT */
static void late(unsigned int before)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	uint32_t samples, least = RUNS * (2 * LOOPS / (PERIOD + skid() + HANDLER_INSTRUCTIONS) - 1);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	handle_nmis(&vm, NEG(PERIOD));
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN,
		    NEG(loop_counts(INSTRUCTIONS, LOOPS, true) - before));
	run_until(&vm, KVM_EXIT_IO);
	samples = *word_at(&vm, SAMPLES);
	is(samples + nmi_pending(&vm), 1,
	   "interrupts of an overflow %u instructions before an exit", before);
	for (unsigned int i = 0; i < RUNS; i++)
		run_until(&vm, KVM_EXIT_IO);
	samples = *word_at(&vm, SAMPLES) - samples;
	check(samples >= least, "interrupts after that: %u, at least %u", samples, least);
	free_vm(&vm);
}

int main(void)
{
	unsigned int unknown = unknown_nmis();

	if (!skid())
		errx(1, "needs SKID");
	/* In front of the CPUID, where the module notices it on Intel's CPUs */
	late(13);
	/* By the CPUID: on AMD's the VM entry behind it counts, and the module notices at the OUT. */
	late(0);
	is(unknown_nmis() - unknown, 0, "NMIs that the host doesn't know");
	return finish();
}
