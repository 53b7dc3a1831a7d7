// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hypercalls: the instruction of the other vendor's CPUs, which KVM replaces where it stands and lets the
 * guest execute again, is one instruction, as this vendor's is.  TAP.
 */
#include "tap.h"
#include "guests.h"

#define N	16

/* APM vol. 3, "VMMCALL"; SDM vol. 3, "VMCALL" */
static const uint8_t vmmcall[] = { 0x0f, 0x01, 0xd9 }, vmcall[] = { 0x0f, 0x01, 0xc1 };

/* In protected mode, 16 bits: outside of that, KVM takes VMMCALL for an undefined opcode. */
static void protect(struct vm *vm)
{
	struct kvm_sregs sregs;

	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cr0 |= 1;
	sregs.cs.type = 11;
	sregs.cs.selector = 8;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
}

/* @instruction N times, and HLT, counted by all counters */
static void count(const char *name, const uint8_t *instruction)
{
	char code[3 * N + 1];
	struct vm vm = make_vm(true);
	struct pmu pmu = enabled_pmu(&vm);

	for (unsigned int i = 0; i < N; i++)
		memcpy(code + 3 * i, instruction, 3);
	code[3 * N] = 0xf4;
	load_code(&vm, code, code + sizeof(code), (struct kvm_regs){});
	protect(&vm);
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, 0);
	if (pmu.fixed)
		put_fixed(&vm, 0, FIXED_OS, 0);
	run_to_hlt(&vm);
	for (unsigned int i = 0; i < pmu.nr + !!pmu.fixed; i++)
		is(counter(&vm, pmu, i), N + 1, "%s: %u of them and a HLT, counter %u", name, N, i);
	free_vm(&vm);
}

int main(void)
{
	count("VMMCALL", vmmcall);
	count("VMCALL", vmcall);
	return finish();
}
