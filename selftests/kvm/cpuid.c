// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * KVM_SET_CPUID2 and KVM_GET_CPUID2: userspace takes counters away that count, and the module's parameter
 * intel_version gives the guest another leaf 0AH than userspace has set.  QEMU sets a vCPU's CPUID once more
 * when that vCPU has run and is plugged again; KVM takes only what was set before.  TAP.
 */
#include <linux/kvm_vpmu.h>

#include "tap.h"
#include "leaves.h"
#include "guests.h"
#include "events.h"

#define N	100

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

/* All its counters count when userspace takes them away.  The next VM finds the physical ones free. */
static void fewer_counters(void)
{
	struct cpuid set = { .head.nent = 256 };
	struct kvm_vpmu_vcpu v = { };
	struct vm vm = make_vm(true), next;
	struct pmu pmu = pmu_of(&vm);
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &set);
	take_counters(&set, 0);
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, 0);
	is(set_cpuid(&vm, &set), 0, "userspace takes counters away that count");
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	run_until(&vm, KVM_EXIT_IO);

	next = make_vm(true);
	/* Host perf has one of the physical counters. */
	for (unsigned int i = 0; i + 1 < pmu.nr; i++)
		put_counter(&next, pmu, i, INSTRUCTIONS | OS | EN, 0);
	load_code(&next, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	run_until(&next, KVM_EXIT_IO);
	for (unsigned int i = 0; i + 1 < pmu.nr; i++)
		is(counter(&next, pmu, i), loop_counts(INSTRUCTIONS, N, true), "the next VM: counter %u", i);
	v.fd = next.fd;
	IOCTL(device, KVM_VPMU_GET_VCPU, &v);
	is(v.borrowed, 0, "the next VM: counters that had to borrow");
	close(device);
	free_vm(&next);
	free_vm(&vm);
}

/* A counter counts an event of the hypervisor's, which is on no physical counter, when userspace takes others away. */
static void other_event(void)
{
	struct cpuid set = { .head.nent = 256 };
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);

	if (device < 0 || set_events(device, &vm, KVM_VPMU_EVENTS_ON))
		err(1, "/dev/kvm-vpmu");
	put_counter(&vm, pmu, 0, event(KVM_VPMU_EVENT_EXITS) | OS | EN, 0);
	is(counter(&vm, pmu, 0), 0, "an event of the hypervisor's");
	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &set);
	take_counters(&set, pmu.nr - 1);
	is(set_cpuid(&vm, &set), 0, "userspace takes another counter away");
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), 0, "the counter of that event is off");
	put_counter(&vm, enabled_pmu(&vm), 0, INSTRUCTIONS | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), loop_counts(INSTRUCTIONS, N, false), "the counter of that event counts instructions");
	close(device);
	free_vm(&vm);
}

static void other_version(unsigned int version)
{
	struct cpuid set = { .head.nent = 256 }, got = { .head.nent = 256 };
	struct vm vm = make_vm(true);
	unsigned int own;

	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &set);
	own = leaf(&set, 10)->eax & 0xff;
	is(set_cpuid(&vm, &set), 0, "userspace sets a vCPU's CPUID");
	is(guest_version(&vm), version, "the guest finds the parameter's version");
	is(set_cpuid(&vm, &set), 0, "userspace sets the same again");
	is(guest_version(&vm), version, "the guest still finds the parameter's version");

	IOCTL(vm.vcpu, KVM_GET_CPUID2, &got);
	is(leaf(&got, 10)->eax & 0xff, own, "userspace gets the version that it has set");
	is(set_cpuid(&vm, &got), 0, "userspace sets what it got");
	is(guest_version(&vm), version, "the guest finds the parameter's version as before");

	leaf(&set, 10)->eax = (leaf(&set, 10)->eax & ~0xff) | version;
	if (version != own)
		is(set_cpuid(&vm, &set), EINVAL,
		   "userspace can't set another version once the vCPU has run");
	is(guest_version(&vm), version, "the guest finds the parameter's version all the same");
	free_vm(&vm);
}

int main(void)
{
	struct vm vm = make_vm(true);
	unsigned int version = on_intel() ? intel_version() : 0;

	/* Before version 2, an AMD guest has as many counters as its CPU. */
	if (!on_intel() && !cpuid_of(&vm, 0x80000022).eax)
		skip_all("this CPU's number of counters isn't in CPUID");
	free_vm(&vm);
	fewer_counters();
	other_event();
	if (version)
		other_version(version);
	return finish();
}
