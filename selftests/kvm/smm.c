// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest in system management mode, by KVM_SMI: what its handler does counts
 * as the guest's, at CPL 0, RSM as an instruction that is no branch.  TAP.
 */
#define _GNU_SOURCE

#include "tap.h"
#include "sampler.h"
#include "smm.h"

#define N		100
#define SMM_MEMORY	0x40000
#define SMIS		0x2300

extern const char smi_start[], smi_end[];
asm(".code16\n"
    ".globl smi_start, smi_end\n"
    "smi_start:\n"
    "	incl 0x2300\n"
    "	mov $20, %cx\n"
    "1:	loop 1b\n"
    "	xor %eax, %eax\n"
    "	cpuid\n"
    "	rsm\n"
    "smi_end:\n"
    ".code64\n");

#define HANDLER_LOOPS	20

static const uint64_t events[] = { INSTRUCTIONS, BRANCHES, TAKEN, CONDITIONAL };
static const char * const names[] = {
	"instructions", "branches", "taken branches", "conditional branches",
};
static const uint64_t per_smi[] = {
	HANDLER_LOOPS + 5, HANDLER_LOOPS, HANDLER_LOOPS - 1, HANDLER_LOOPS,
};

static struct vm make_smm(struct pmu *pmu, uint32_t n)
{
	struct vm vm = make_vm_with(VM_APIC, SMM_MEMORY);

	handle_smis(&vm, SMM_MEMORY, smi_start, smi_end);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = n });
	*pmu = pmu_of(&vm);
	for (unsigned int i = 0; i < 4; i++)
		put_counter(&vm, *pmu, i, events[i] | OS | EN, 0);
	return vm;
}

static void smi(struct vm *vm)
{
	IOCTL(vm->vcpu, KVM_SMI, NULL);
}

/* Pending at each exit */
static void between(void)
{
	struct pmu pmu;
	struct vm vm = make_smm(&pmu, N);

	for (int round = 0; round < 10; round++) {
		if (round)
			smi(&vm);
		run_until(&vm, KVM_EXIT_IO);
	}
	is(*word_at(&vm, SMIS), 9, "between exits: SMIs");
	for (unsigned int i = 0; i < 4; i++)
		is(counter(&vm, pmu, i), loop_counts(events[i], N, true) +
		   9 * (loop_counts(events[i], N, false) + per_smi[i]), "between exits: %s", names[i]);
	free_vm(&vm);
}

/* A counter of user mode only sees nothing of it. */
static void user_only(void)
{
	struct pmu pmu;
	struct vm vm = make_smm(&pmu, N);

	put_counter(&vm, pmu, 0, INSTRUCTIONS | USR | EN, 0);
	put_counter(&vm, pmu, 1, INSTRUCTIONS | USR | OS | EN, 0);
	smi(&vm);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SMIS), 1, "levels: SMIs");
	is(counter(&vm, pmu, 0), 0, "levels: instructions of user mode");
	is(counter(&vm, pmu, 1), loop_counts(INSTRUCTIONS, N, true) + per_smi[0],
	   "levels: instructions of both");
	free_vm(&vm);
}

/* NMIs are blocked in there, so an overflow's waits for RSM; the counter goes on. */
static void overflow(void)
{
	struct pmu pmu;
	struct vm vm = make_smm(&pmu, N);

	handle_nmis(&vm, 0);
	run_until(&vm, KVM_EXIT_IO);
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(10));
	smi(&vm);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 1, "overflow in SMM: interrupts");
	is(*word_at(&vm, LAST_IP) & 0xffff, CODE + (loop_behind_out - loop_start),
	   "overflow in SMM: its place, behind RSM");
	/* The handler set it to 0, and is 6 from there; then the loop without its OUT. */
	is(counter(&vm, pmu, 0), HANDLER_COUNTED + loop_counts(INSTRUCTIONS, N, false) - 1,
	   "overflow in SMM: counter");
	free_vm(&vm);
}

#define LONG_N	1000000

/* At whatever instruction a signal takes the vCPU out of KVM_RUN, the SMI's handler included */
static void anywhere(void)
{
	unsigned int exits = 0;
	bool enough = false;
	struct pmu pmu;
	struct vm vm = make_smm(&pmu, LONG_N);
	uint32_t smis;

	signal_after(scaled(3000));
	/*
	 * A quick machine is through its exits before there were many signals.  The end is an exit of
	 * the loop, as counts are known there only.
	 */
	while (!enough) {
		if (!ioctl(vm.vcpu, KVM_RUN, NULL))
			enough = ++exits >= 10 && (*word_at(&vm, SMIS) >= 20 || exits >= 1000);
		else if (errno != EINTR)
			err(1, "KVM_RUN");
		else {
			smi(&vm);
			signal_after(scaled(3000));
		}
	}
	signal_after(0);
	smis = *word_at(&vm, SMIS);
	printf("# %u SMIs\n", smis);
	check(smis >= 10, "at any instruction: SMIs");
	for (unsigned int i = 0; i < 4; i++)
		is(counter(&vm, pmu, i), loop_counts(events[i], LONG_N, true) +
		   (exits - 1) * loop_counts(events[i], LONG_N, false) + smis * per_smi[i],
		   "at any instruction: %s", names[i]);
	free_vm(&vm);
}

int main(void)
{
	struct vm vm = make_vm(true);

	if (ioctl(vm.fd, KVM_CHECK_EXTENSION, KVM_CAP_X86_SMM) <= 0)
		skip_all("this KVM has no SMM");
	free_vm(&vm);
	between();
	user_only();
	overflow();
	anywhere();
	return finish();
}
