/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A VM straight on the KVM API, which starts in milliseconds.  The guest is in
 * real mode at CPL 0; its code is 16-bit assembly beside the test.
 */
#ifndef TINYVM_VM_H
#define TINYVM_VM_H

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

#include "cpu.h"

/* Where things are in the guest's memory */
#define MEMORY		0x10000
#define CODE		0x1000
#define RESULT		0x2000	/* 8 bytes for the test, then 1 if there was a #GP */
#define TABLE		0x2100	/* for the test */
#define GP_HANDLER	0x3000
#define STACK		0x8000

extern const char gp_start[], gp_end[];

/* A VM, and one vCPU of it */
struct vm {
	int kvm, fd, vcpu;
	bool no_pmu;
	uint8_t *memory;
	size_t size;
	struct kvm_run *run;
};

int xioctl(int fd, unsigned long request, void *arg, const char *name);

#define IOCTL(fd, request, arg)	xioctl(fd, request, arg, #request)

/* What a VM may differ in */
#define VM_NO_PMU	1	/* by KVM_PMU_CAP_DISABLE */
#define VM_APIC		2	/* KVM has the APICs; HLT doesn't end KVM_RUN then */

/* Intel, IA32_PERF_CAPABILITIES: counters can be written with all their bits. */
#define PERF_CAPABILITIES	0x345
#define FULL_WIDTH		(1 << 13)

/* Give @vm another vCPU and make it the one that @vm stands for. */
void add_vcpu(struct vm *vm, unsigned int id);

/* A VM of one vCPU, whose code handles #GP by ending. */
struct vm make_vm_with(unsigned int flags, size_t size);

/* The same with a PMU of the module's for sure; @device: /dev/kvm-vpmu */
struct vm make_vm_attached(unsigned int flags, int device);

static inline struct vm make_vm(bool pmu)
{
	return make_vm_with(pmu ? 0 : VM_NO_PMU, MEMORY);
}

/* Userspace filters MSRs from now on, and lets the guest read all but this one. */
void deny_reads(const struct vm *vm, uint32_t msr);

/* The same of writes */
void deny_writes(const struct vm *vm, uint32_t msr);

/* With QEMU's filter of MSRs, which is for one that has nothing to do with counters */
void filter_as_qemu(const struct vm *vm);

/* Code to begin with, with the stack at RSP of @regs, or at STACK if that is 0 */
void load_code(struct vm *vm, const char *start, const char *end, struct kvm_regs regs);

void run_until(struct vm *vm, uint32_t reason);

/* Let KVM complete the instruction that the vCPU left with, no more. */
void complete(struct vm *vm);

static inline void run_to_hlt(struct vm *vm)
{
	run_until(vm, KVM_EXIT_HLT);
}

uint64_t get_msr(struct vm *vm, uint32_t index);

void set_msr(struct vm *vm, uint32_t index, uint64_t value);

/* Registers of the local APIC: APM vol. 2, "Local APIC Registers" */
#define APIC_SPIV	0x0f0
#define APIC_IRR	0x200
#define APIC_LVTPC	0x340
#define APIC_NMI	0x400
#define APIC_MASKED	0x10000

uint32_t get_apic(struct vm *vm, unsigned int offset);

void set_apic(struct vm *vm, unsigned int offset, uint32_t value);

void free_vm(struct vm *vm);

#endif
