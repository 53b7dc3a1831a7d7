// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * KVM_SET_CPUID2 and KVM_GET_CPUID2 where the module's parameter intel_version gives the guest another
 * leaf 0AH than userspace has set.  QEMU sets a vCPU's CPUID once more when that vCPU has run and is
 * plugged again; KVM takes only what was set before.
 */
#include "vm.h"
#include "registers.h"
#include "tap.h"

struct cpuid {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entries[256];
};

extern const char leaf_start[], leaf_end[];
asm(".code16\n"
    ".globl leaf_start, leaf_end\n"
    "leaf_start:\n"
    "	mov $10, %eax\n"
    "	xor %ecx, %ecx\n"
    "	cpuid\n"
    "	mov %eax, 0x2000\n"
    "	hlt\n"
    "leaf_end:\n"
    ".code64\n");

/* SDM vol. 2, "CPUID", leaf 0AH: the version in EAX[7:0], as the guest reads it */
static unsigned int guest_version(struct vm *vm)
{
	load_code(vm, leaf_start, leaf_end, (struct kvm_regs){});
	run_to_hlt(vm);
	return vm->memory[RESULT];
}

static struct kvm_cpuid_entry2 *leaf(struct cpuid *cpuid)
{
	for (unsigned int i = 0; i < cpuid->head.nent; i++)
		if (cpuid->entries[i].function == 10)
			return &cpuid->entries[i];
	errx(1, "no leaf 0AH");
}

static int set_cpuid(struct vm *vm, struct cpuid *cpuid)
{
	return ioctl(vm->vcpu, KVM_SET_CPUID2, cpuid) ? errno : 0;
}

int main(void)
{
	unsigned int version, own;
	struct cpuid set = { .head.nent = 256 }, got = { .head.nent = 256 };
	struct vm vm;

	version = on_intel() ? intel_version() : 0;
	if (!version)
		skip_all("for Intel's CPUs and the module's parameter intel_version");
	vm = make_vm(true);
	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &set);
	own = leaf(&set)->eax & 0xff;
	is(set_cpuid(&vm, &set), 0, "userspace sets a vCPU's CPUID");
	is(guest_version(&vm), version, "the guest finds the parameter's version");
	is(set_cpuid(&vm, &set), 0, "userspace sets the same again");
	is(guest_version(&vm), version, "the guest still finds the parameter's version");

	IOCTL(vm.vcpu, KVM_GET_CPUID2, &got);
	is(leaf(&got)->eax & 0xff, own, "userspace gets the version that it has set");
	is(set_cpuid(&vm, &got), 0, "userspace sets what it got");
	is(guest_version(&vm), version, "the guest finds the parameter's version as before");

	leaf(&set)->eax = (leaf(&set)->eax & ~0xff) | version;
	if (version != own)
		is(set_cpuid(&vm, &set), EINVAL,
		   "userspace can't set another version once the vCPU has run");
	is(guest_version(&vm), version, "the guest finds the parameter's version all the same");
	free_vm(&vm);
	return finish();
}
