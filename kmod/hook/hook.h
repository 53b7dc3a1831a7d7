/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Redirection of kernel functions by ftrace, as livepatch does it.
 *
 * A handler runs instead of a redirected function.  The handler reaches the original by a static
 * call to the address behind the function's fentry call.  A call of the function itself would end
 * up in the handler again.  That address has no ENDBR, so that an indirect call would be a control
 * protection fault where kernel IBT is on.
 */
#ifndef VPMU_HOOK_H
#define VPMU_HOOK_H

#include <linux/types.h>

#include "../compat/compat.h"

/**
 * struct hook - a function that is hooked
 * @symbol: its name
 * @intel: its counterpart in kvm_intel, if that has another name
 * @intel_later: the name that later kernels have for @intel
 * @needed: does this kernel need the hook?  NULL: every kernel does
 * @handler: runs in its place, with the same prototype; NULL to only watch
 * @pre: called before the function runs, with its first two arguments; whether
 *	to redirect this call
 * @stub: for the hottest functions, in place of the two above: what their
 *	fentry calls (stubs.S)
 * @stub_uncounted: the same where VM entries don't count, if that is another one
 * @bind: points the static call for the original to its argument
 * @missing_msg: what doesn't work if the symbol is missing; NULL: the module can't work then
 */
struct hook {
	const char *symbol;
	const char *intel;
	const char *intel_later;
	bool (*needed)(void);
	void *handler;
	bool (*pre)(void *arg, unsigned long second);
	void (*stub)(void);
	void (*stub_uncounted)(void);
	void (*bind)(void *original);
	const char *missing_msg;

	/* private: where it is hooked, and whether */
	unsigned long ip;
	struct compat_direct direct;
	bool direct_enabled;
};

/**
 * vpmu_hooks_find() - find all functions of a table
 * @table: the table; those called most often come first
 * @nr: its length
 *
 * There is one table at a time.
 *
 * Return: 0, or -ENOENT and a message with the symbol that is missing
 */
int vpmu_hooks_find(struct hook *table, unsigned int nr);

/**
 * vpmu_hooks_enable() - hook the functions that were found
 *
 * Either all are hooked (but for optional ones that are missing) or none.
 *
 * Return: 0; -EBUSY if another IPMODIFY user (a livepatch, say) has taken a function, or what
 * ftrace returned.  A message names the function.
 */
int vpmu_hooks_enable(void);

/*
 * Unhook them.  No handler is entered any more afterwards, and those that don't sleep have
 * returned.
 */
void vpmu_hooks_disable(void);

/* What stubs.S calls (table.c), besides functions of emul.c, msr.c, pmi.c and vcpu.c */
struct perf_event;
struct pt_regs;
struct rcuwait;
struct vpmu_vcpu;
void vpmu_retired(struct vpmu_vcpu *vv, u32 pending);
fastpath_t vpmu_run_slowly(struct kvm_vcpu *vcpu, u64 flags, struct vpmu_vcpu *vv);
fastpath_t vpmu_vcpu_run(struct kvm_vcpu *vcpu, u64 flags, struct vpmu_vcpu *vv);
fastpath_t vpmu_vcpu_run_uncounted(struct kvm_vcpu *vcpu, u64 flags, struct vpmu_vcpu *vv);
void vpmu_vcpu_load(struct vpmu_vcpu *vv, int cpu);
void vpmu_vcpu_put(struct vpmu_vcpu *vv);
void vpmu_handle_event(struct vpmu_vcpu *vv);
void vpmu_host_writes_counter(struct perf_event *event);
void vpmu_wakes(struct rcuwait *wait);
int vpmu_perf_event_nmi_handler(unsigned int type, struct pt_regs *regs);
struct perf_guest_switch_msr *vpmu_guest_get_msrs(int *nr, void *data);

/* stubs.S: fentry calls them, C never does. */
void vpmu_stub_vcpu_run(void);
void vpmu_stub_event_retired(void);
void vpmu_stub_instruction_retired(void);
void vpmu_stub_branch_retired(void);
void vpmu_stub_vcpu_run_uncounted(void);
void vpmu_stub_event_retired_uncounted(void);
void vpmu_stub_instruction_retired_uncounted(void);
void vpmu_stub_branch_retired_uncounted(void);
void vpmu_stub_perf_guest_get_msrs(void);
void vpmu_stub_kvm_arch_vcpu_load(void);
void vpmu_stub_kvm_arch_vcpu_put(void);
void vpmu_stub_kvm_pmu_is_valid_msr(void);
void vpmu_stub_kvm_pmu_get_msr(void);
void vpmu_stub_kvm_pmu_set_msr(void);
void vpmu_stub_kvm_pmu_rdpmc(void);
void vpmu_stub_kvm_pmu_handle_event(void);
void vpmu_stub_perf_event_nmi_handler(void);
void vpmu_stub_x86_perf_event_set_period(void);
void vpmu_stub_rcuwait_wake_up(void);

/* The hooks of this module. */
extern struct hook vpmu_hooks[];
extern const unsigned int vpmu_nr_hooks;

/* Choose symbols and stubs for this host's CPU and kernel, before vpmu_hooks_find(). */
void vpmu_hooks_choose(void);

/* All hooks are in place: vCPUs that are created from now on may get an object. */
void vpmu_hooks_ready(void);

#endif
