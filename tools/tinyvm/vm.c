// SPDX-License-Identifier: GPL-2.0-or-later
/* A VM straight on the KVM API. */
#include <linux/kvm_vpmu.h>

#include "vm.h"

asm(".code16\n"
    ".globl gp_start, gp_end\n"
    "gp_start:\n"
    "	movb $1, 0x2008\n"
    "	hlt\n"
    "gp_end:\n"
    ".code64\n");

int xioctl(int fd, unsigned long request, void *arg, const char *name)
{
	int result = ioctl(fd, request, arg);

	if (result < 0)
		err(1, "%s", name);
	return result;
}

void add_vcpu(struct vm *vm, unsigned int id)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = { .head.nent = 256 };

	vm->vcpu = ioctl(vm->fd, KVM_CREATE_VCPU, id);
	if (vm->vcpu < 0)
		err(1, "KVM_CREATE_VCPU");
	IOCTL(vm->kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	/* APM vol. 3, appendix E: the APIC's ID; KVM tells the caller's CPU's. */
	for (unsigned int i = 0; i < cpuid.head.nent; i++)
		if (cpuid.entries[i].function == 1)
			cpuid.entries[i].ebx = (cpuid.entries[i].ebx & 0xffffff) | id << 24;
	IOCTL(vm->vcpu, KVM_SET_CPUID2, &cpuid);
	if (on_intel() && !vm->no_pmu)
		set_msr(vm, PERF_CAPABILITIES, FULL_WIDTH);
	vm->run = mmap(NULL, ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
		       PROT_READ | PROT_WRITE, MAP_SHARED, vm->vcpu, 0);
	if (vm->run == MAP_FAILED)
		err(1, "mmap of the vCPU");
}

/* @device: -1, or /dev/kvm-vpmu, which gives the VM a PMU */
static struct vm make(unsigned int flags, size_t size, int device)
{
	struct kvm_vpmu_attach attach = { .attach = KVM_VPMU_ATTACH_YES };
	struct vm vm = { .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), .size = size };
	struct kvm_userspace_memory_region region = { .memory_size = size };

	if (vm.kvm < 0)
		err(1, "/dev/kvm");
	vm.fd = ioctl(vm.kvm, KVM_CREATE_VM, 0);
	if (vm.fd < 0)
		err(1, "KVM_CREATE_VM");
	attach.fd = vm.fd;
	if (device >= 0)
		IOCTL(device, KVM_VPMU_ATTACH, &attach);
	if (flags & VM_NO_PMU) {
		struct kvm_enable_cap cap = { .cap = KVM_CAP_PMU_CAPABILITY,
					      .args[0] = KVM_PMU_CAP_DISABLE };

		IOCTL(vm.fd, KVM_ENABLE_CAP, &cap);
		vm.no_pmu = true;
	}
	if (flags & VM_APIC)
		IOCTL(vm.fd, KVM_CREATE_IRQCHIP, NULL);
	vm.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm.memory == MAP_FAILED)
		err(1, "mmap");
	region.userspace_addr = (uintptr_t)vm.memory;
	IOCTL(vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	add_vcpu(&vm, 0);

	/* #GP, vector 13 of the real-mode table at 0 */
	memcpy(vm.memory + GP_HANDLER, gp_start, gp_end - gp_start);
	*(uint16_t *)(vm.memory + 4 * 13) = GP_HANDLER;
	return vm;
}

struct vm make_vm_with(unsigned int flags, size_t size)
{
	return make(flags, size, -1);
}

struct vm make_vm_attached(unsigned int flags, int device)
{
	return make(flags, MEMORY, device);
}

/* @accesses: KVM_MSR_FILTER_READ or KVM_MSR_FILTER_WRITE */
static void deny(const struct vm *vm, uint32_t msr, uint32_t accesses)
{
	uint8_t none = 0;
	struct kvm_msr_filter filter = {
		.flags = KVM_MSR_FILTER_DEFAULT_ALLOW,
		.ranges[0] = { .flags = accesses, .base = msr, .nmsrs = 1, .bitmap = &none },
	};

	IOCTL(vm->fd, KVM_X86_SET_MSR_FILTER, &filter);
}

void deny_reads(const struct vm *vm, uint32_t msr)
{
	deny(vm, msr, KVM_MSR_FILTER_READ);
}

void deny_writes(const struct vm *vm, uint32_t msr)
{
	deny(vm, msr, KVM_MSR_FILTER_WRITE);
}

/* MSR_CORE_THREAD_COUNT: kvm_arch_init() of QEMU's target/i386/kvm/kvm.c */
void filter_as_qemu(const struct vm *vm)
{
	deny_reads(vm, 0x35);
}

void load_code(struct vm *vm, const char *start, const char *end, struct kvm_regs regs)
{
	struct kvm_sregs sregs;

	memcpy(vm->memory + CODE, start, end - start);
	memset(vm->memory + RESULT, 0, 16);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	regs.rip = CODE;
	if (!regs.rsp)
		regs.rsp = STACK;
	regs.rflags = 2;
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
}

void run_until(struct vm *vm, uint32_t reason)
{
	/* A vCPU that waited for its first SIPI comes back with EAGAIN. */
	while (ioctl(vm->vcpu, KVM_RUN, NULL))
		if (errno != EAGAIN)
			err(1, "KVM_RUN");
	if (vm->run->exit_reason != reason)
		errx(1, "the guest ended with exit reason %u", vm->run->exit_reason);
}

void complete(struct vm *vm)
{
	vm->run->immediate_exit = 1;
	if (!ioctl(vm->vcpu, KVM_RUN, NULL) || errno != EINTR)
		errx(1, "KVM_RUN with immediate_exit: exit reason %u", vm->run->exit_reason);
	vm->run->immediate_exit = 0;
}

uint64_t get_msr(struct vm *vm, uint32_t index)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} msrs = { .head.nmsrs = 1, .entry.index = index };

	if (IOCTL(vm->vcpu, KVM_GET_MSRS, &msrs) != 1)
		errx(1, "KVM_GET_MSRS: no MSR %#x", index);
	return msrs.entry.data;
}

void set_msr(struct vm *vm, uint32_t index, uint64_t value)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} msrs = { .head.nmsrs = 1, .entry = { .index = index, .data = value } };

	if (IOCTL(vm->vcpu, KVM_SET_MSRS, &msrs) != 1)
		errx(1, "KVM_SET_MSRS: not %#llx to %#x", (unsigned long long)value, index);
}

uint32_t get_apic(struct vm *vm, unsigned int offset)
{
	struct kvm_lapic_state apic;
	uint32_t value;

	IOCTL(vm->vcpu, KVM_GET_LAPIC, &apic);
	memcpy(&value, apic.regs + offset, 4);
	return value;
}

void set_apic(struct vm *vm, unsigned int offset, uint32_t value)
{
	struct kvm_lapic_state apic;

	IOCTL(vm->vcpu, KVM_GET_LAPIC, &apic);
	memcpy(apic.regs + offset, &value, 4);
	IOCTL(vm->vcpu, KVM_SET_LAPIC, &apic);
}

void free_vm(struct vm *vm)
{
	/* The vCPU lives for as long as this is mapped. */
	munmap(vm->run, ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0));
	close(vm->vcpu);
	close(vm->fd);
	close(vm->kvm);
	munmap(vm->memory, vm->size);
}
