/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A VM of one vCPU straight on the KVM API, which starts in milliseconds.  The
 * guest is in real mode at CPL 0; its code is 16-bit assembly beside the test.
 */
#ifndef SELFTESTS_VM_H
#define SELFTESTS_VM_H

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where things are in the guest's memory */
#define MEMORY		0x10000
#define CODE		0x1000
#define RESULT		0x2000	/* 8 bytes for the test, then 1 if there was a #GP */
#define TABLE		0x2100	/* for the test */
#define GP_HANDLER	0x3000
#define STACK		0x8000

extern const char gp_start[], gp_end[];
asm(".code16\n"
    ".globl gp_start, gp_end\n"
    "gp_start:\n"
    "	movb $1, 0x2008\n"
    "	hlt\n"
    "gp_end:\n"
    ".code64\n");

struct vm {
	int kvm, fd, vcpu;
	uint8_t *memory;
	struct kvm_run *run;
};

static inline void xioctl(int fd, unsigned long request, void *arg, const char *name)
{
	if (ioctl(fd, request, arg) < 0)
		err(1, "%s", name);
}

#define IOCTL(fd, request, arg)	xioctl(fd, request, arg, #request)

/* A VM of one vCPU, with a PMU or without, whose code handles #GP by ending. */
static inline struct vm make_vm(bool pmu)
{
	struct vm vm = { .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC) };
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY };
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = { .head.nent = 256 };

	if (vm.kvm < 0)
		err(1, "/dev/kvm");
	vm.fd = ioctl(vm.kvm, KVM_CREATE_VM, 0);
	if (vm.fd < 0)
		err(1, "KVM_CREATE_VM");
	if (!pmu) {
		struct kvm_enable_cap cap = { .cap = KVM_CAP_PMU_CAPABILITY,
					      .args[0] = KVM_PMU_CAP_DISABLE };

		IOCTL(vm.fd, KVM_ENABLE_CAP, &cap);
	}
	vm.memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm.memory == MAP_FAILED)
		err(1, "mmap");
	region.userspace_addr = (uintptr_t)vm.memory;
	IOCTL(vm.fd, KVM_SET_USER_MEMORY_REGION, &region);

	vm.vcpu = ioctl(vm.fd, KVM_CREATE_VCPU, 0);
	if (vm.vcpu < 0)
		err(1, "KVM_CREATE_VCPU");
	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	IOCTL(vm.vcpu, KVM_SET_CPUID2, &cpuid);
	vm.run = mmap(NULL, ioctl(vm.kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
		      PROT_READ | PROT_WRITE, MAP_SHARED, vm.vcpu, 0);
	if (vm.run == MAP_FAILED)
		err(1, "mmap of the vCPU");

	/* #GP, vector 13 of the real-mode table at 0 */
	memcpy(vm.memory + GP_HANDLER, gp_start, gp_end - gp_start);
	*(uint16_t *)(vm.memory + 4 * 13) = GP_HANDLER;
	return vm;
}

static inline void load_code(struct vm *vm, const char *start, const char *end,
		      struct kvm_regs regs)
{
	struct kvm_sregs sregs;

	memcpy(vm->memory + CODE, start, end - start);
	memset(vm->memory + RESULT, 0, 16);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	regs.rip = CODE;
	regs.rsp = STACK;
	regs.rflags = 2;
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
}

static inline void run_to_hlt(struct vm *vm)
{
	IOCTL(vm->vcpu, KVM_RUN, NULL);
	if (vm->run->exit_reason != KVM_EXIT_HLT)
		errx(1, "the guest ended with exit reason %u", vm->run->exit_reason);
}

static inline void free_vm(struct vm *vm)
{
	close(vm->vcpu);
	close(vm->fd);
	close(vm->kvm);
	munmap(vm->memory, MEMORY);
}

#endif
