/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All that depends on the kernel's version, and all symbols that modules
 * can't link to.  Knows nothing of PMU registers.
 */
#ifndef VPMU_COMPAT_H
#define VPMU_COMPAT_H

#include <linux/ftrace.h>
#include <linux/kvm_host.h>
#include <linux/static_call.h>
#include <linux/version.h>

#include "../guest/guest.h"

/**
 * compat_init() - find what this module needs of the running kernel
 *
 * Pins the KVM vendor module.
 *
 * Return: 0; -EOPNOTSUPP for a kernel version that we don't know, -ENOENT if
 * a symbol is missing; with a message.
 */
int compat_init(void);
void compat_exit(void);

/**
 * compat_resolve() - where a kernel function can be hooked
 * @symbol: its name
 *
 * Return: the address of its fentry call if it has one (behind ENDBR where the
 * kernel has IBT), else of its first instruction; 0 if there is no such
 * function or it can't be probed.
 */
unsigned long compat_resolve(const char *symbol);

/* The register set and number of counters that the guest's CPUID offers. */
enum guest_set compat_guest_set(struct kvm_vcpu *vcpu, unsigned int *nr);

/* The class of the event that kvm_pmu_trigger_event() is called for. */
enum vpmu_class compat_event_class(u64 event);

/* Prototypes of hooked functions, for static calls to them. */
void compat_proto_init(struct kvm_vcpu *vcpu);
bool compat_proto_valid(struct kvm_vcpu *vcpu, u32 msr);
int compat_proto_msr(struct kvm_vcpu *vcpu, struct msr_data *msr);
int compat_proto_rdpmc(struct kvm_vcpu *vcpu, unsigned int index, u64 *data);
/* The second argument is a bool up to early 6.12, and a mask later. */
fastpath_t compat_proto_run(struct kvm_vcpu *vcpu, u64 flags);
void compat_proto_load(struct kvm_vcpu *vcpu, int cpu);
int compat_proto_get_cpl(struct kvm_vcpu *vcpu);
struct kvm_cpuid_entry2 *compat_proto_find_cpuid(struct kvm_vcpu *vcpu, u32 function);
struct module *compat_proto_module_address(unsigned long address);

DECLARE_STATIC_CALL(compat_get_cpl, compat_proto_get_cpl);

/* The guest's privilege level, 0 to 3; the vCPU is loaded. */
static inline int compat_get_cpl(struct kvm_vcpu *vcpu)
{
	return static_call(compat_get_cpl)(vcpu);
}

static inline void compat_ftrace_set_ip(struct ftrace_regs *fregs, unsigned long ip)
{
	ftrace_regs_set_instruction_pointer(fregs, ip);
}

#endif
