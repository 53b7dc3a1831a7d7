/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All that depends on the kernel's version, and all symbols that modules can't link to: this header
 * for KVM and ftrace, host.h for the host's CPU and perf.  Knows no guest registers.
 */
#ifndef VPMU_COMPAT_H
#define VPMU_COMPAT_H

#include <linux/atomic.h>
#include <linux/ftrace.h>
#include <linux/kvm_host.h>
#include <linux/static_call.h>
#include <linux/version.h>
#include <asm/fpu/api.h>

/**
 * vpmu_compat_init() - find what this module needs of the running kernel
 *
 * Pins the KVM vendor module.
 *
 * Return: 0; -ENOENT if a symbol is missing, -ENODEV if KVM has no vPMU, -EBUSY if KVM's own
 * mediated vPMU is on; with a message.
 */
int vpmu_compat_init(void);
void vpmu_compat_exit(void);

/**
 * vpmu_compat_tested() - has this module's tests seen the running kernel?
 *
 * What can be probed was probed before.  What a kernel may do otherwise without another symbol,
 * prototype or structure, only tests show.
 *
 * Return: 0, also for another kernel with the parameter allow_untested; else -EOPNOTSUPP and a
 * message.
 */
int vpmu_compat_tested(void);

/**
 * vpmu_compat_lookup_init() - before the functions below are called
 *
 * Return: 0, or an error and a message.
 */
int vpmu_compat_lookup_init(void);

/**
 * vpmu_compat_resolve() - where a kernel function can be hooked
 * @symbol: its name
 *
 * Return: the address of its fentry call if it has one (behind ENDBR where the kernel has IBT),
 * else of its first instruction; 0 if there is no such function.
 */
unsigned long vpmu_compat_resolve(const char *symbol);

/* The same with an error message if there is none */
unsigned long vpmu_compat_require(const char *symbol);

/* The address of a function or variable, which need not be hookable; 0 if there is none */
unsigned long vpmu_compat_lookup(const char *symbol);

/* Do KVM and the kernel export the function to other modules (GPL)? */
bool vpmu_compat_exported(const char *symbol);

/* Is KVM's vendor module kvm_intel? */
static inline bool vpmu_compat_on_intel(void)
{
	return boot_cpu_has(X86_FEATURE_VMX);
}

static inline const char *vpmu_compat_kvm_module(void)
{
	return vpmu_compat_on_intel() ? "kvm_intel" : "kvm_amd";
}

/* The emulator: all went well (X86EMUL_CONTINUE of arch/x86/kvm/kvm_emulate.h) */
#define COMPAT_EMUL_CONTINUE	0

/* The function of kvm_amd that emulates INT1; before 7.3 guests execute INT1 themselves. */
#define COMPAT_SVM_INT1	"icebp_interception"
static inline bool vpmu_compat_emulates_int1(void)
{
	return !vpmu_compat_on_intel() && (LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0) ||
					   vpmu_compat_resolve(COMPAT_SVM_INT1));
}

/*
 * Is KVM handling the interrupt or NMI that made the guest exit?  Then KVM will check the vCPU's
 * requests before it enters the guest.  Safe in NMIs.
 */
static inline bool vpmu_compat_after_exit(const struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->arch.handling_intr_from_guest);
}

/* enum kvm_intr_type of arch/x86/kvm/x86.h */
#define COMPAT_HANDLING_NMI	2

/* In an NMI: did the NMI make the guest exit, rather than interrupt KVM? */
static inline bool vpmu_compat_nmi_of_guest(const struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->arch.handling_intr_from_guest) == COMPAT_HANDLING_NMI;
}

/*
 * Has an NMI made the guest exit that is still to be handled?  Linux from 6.3 on handles those
 * within vmx_vcpu_run() ("KVM: VMX: Handle NMI VM-Exits in noinstr region"), AMD's CPUs when KVM
 * sets the global interrupt flag.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
bool vpmu_compat_nmi_exit(struct kvm_vcpu *vcpu);
#else
static inline bool vpmu_compat_nmi_exit(struct kvm_vcpu *vcpu)
{
	return false;
}
#endif

/* What ended the vCPU's last stay in guest mode, of what KVM has no statistic of */
enum compat_exit {
	COMPAT_EXIT_OTHER, COMPAT_EXIT_MSR, COMPAT_EXIT_CPUID, COMPAT_EXIT_NMI, COMPAT_EXIT_PAUSE,
	COMPAT_NR_EXITS,
};

enum compat_exit vpmu_compat_exit_cause(struct kvm_vcpu *vcpu);

/* The vCPU that is loaded on this CPU, of any VM, or NULL.  Safe in NMIs. */
struct kvm_vcpu *vpmu_compat_running_vcpu(void);

/* The guest's RIP and CR3.  0: not known, as the guest's state is encrypted. */
struct compat_where {
	unsigned long rip, cr3;
};

/* In the NMI that made the guest exit (vpmu_compat_nmi_of_guest()) */
struct compat_where vpmu_compat_where(struct kvm_vcpu *vcpu);

/* In the same NMI: the stack pointer; is the guest in 64-bit mode?  Its state isn't encrypted. */
unsigned long vpmu_compat_guest_rsp(struct kvm_vcpu *vcpu);
bool vpmu_compat_in_64bit_mode(struct kvm_vcpu *vcpu);

/*
 * Read the guest's memory at physical address @gpa, within a page.  The vCPU is loaded for KVM_RUN.
 * 0, or an error: there is no memory, or the VMM's page tables don't have the page now.
 */
int vpmu_compat_read_guest(struct kvm_vcpu *vcpu, gpa_t gpa, void *to, unsigned long size);

/*
 * The reason of the last VM exit of a vCPU that is loaded on this CPU; U32_MAX: not known, as on
 * Intel's CPUs.  Safe in NMIs.  This, CR3 and the mode know nothing of AMD's guests before
 * vpmu_compat_find_state() was called for some vCPU that has run.
 */
u32 vpmu_compat_exit_reason(const struct kvm_vcpu *vcpu);
void vpmu_compat_find_state(struct kvm_vcpu *vcpu);

/* AMD: did an interrupt of the host's end the vCPU's last stay in guest mode? */
bool vpmu_compat_interrupt_exit(struct kvm_vcpu *vcpu);

/* An instruction that accesses a register of the PMU or another one */
enum compat_access { COMPAT_NO_ACCESS, COMPAT_RDPMC, COMPAT_RDMSR, COMPAT_WRMSR };

/*
 * Groups of COMPAT_GROUP MSRs of KVM's MSR permission map (AMD) or MSR bitmaps (Intel):
 *
 *			AMD				Intel
 *	COUNTERS	from PerfEvtSel0 on, the	from IA32_PMC0 on
 *			core extension's selects
 *			and counters in turn
 *	GLOBAL		from PerfCntrGlobalStatus on	from IA32_PERF_GLOBAL_STATUS on
 *	FIXED		-				from IA32_FIXED_CTR0 on
 *	FULL_WIDTH	-				from IA32_A_PMC0 on
 */
enum compat_group {
	COMPAT_COUNTERS, COMPAT_GLOBAL, COMPAT_NR_AMD_GROUPS,
	COMPAT_FIXED = COMPAT_NR_AMD_GROUPS, COMPAT_FULL_WIDTH, COMPAT_NR_GROUPS,
};

#define COMPAT_GROUP	16

u32 vpmu_compat_first_msr(enum compat_group group);

/* The bits of a group's MSR @nth: as APM vol. 2, "MSR Intercepts", has them */
#define COMPAT_PERMIT_READ(nth)		(1u << 2 * (nth))
#define COMPAT_PERMIT_WRITE(nth)	(2u << 2 * (nth))
#define COMPAT_PERMIT_BOTH(nth)		(3u << 2 * (nth))

/**
 * struct compat_filter - what a VM's MSR filter (KVM_X86_SET_MSR_FILTER) denies of these
 * @generation: what vpmu_compat_filters was, with no change going on; 0: none was read yet
 * @denied: for each MSR of a group two bits, for RDMSR and WRMSR
 */
struct compat_filter {
	unsigned long generation;
	u32 denied[COMPAT_NR_GROUPS];
};

/* Before and after a change of some VM's filter */
void vpmu_compat_filter_changes(void);
void vpmu_compat_filter_changed(void);

/*
 * Of all VMs' filters: in the lower COMPAT_CHANGED_SHIFT bits how many are being changed; above,
 * how many changes are over
 */
extern atomic_long_t vpmu_compat_filters;

/* So many that no more threads can be in an ioctl (PID_MAX_LIMIT) */
#define COMPAT_CHANGED_SHIFT	22

/* False if @filter can't be read, as some VM's is being changed */
bool vpmu_compat_read_filter(struct kvm_vcpu *vcpu, struct compat_filter *filter);

/* Is @filter up to date? */
static __always_inline bool vpmu_compat_filter_known(const struct compat_filter *filter)
{
	/* A change that is over is seen (acquire). */
	return atomic_long_read_acquire(&vpmu_compat_filters) == filter->generation;
}

/*
 * Bring @filter up to date: what it says holds for the coming stay in guest mode.  False if that
 * can't be said.  Interrupts are off.
 */
static __always_inline bool vpmu_compat_filter_current(struct kvm_vcpu *vcpu,
						       struct compat_filter *filter)
{
	return likely(vpmu_compat_filter_known(filter)) || vpmu_compat_read_filter(vcpu, filter);
}

/* May the guest access MSR @n of @group?  @filter is up to date. */
static __always_inline bool vpmu_compat_filter_allows(const struct compat_filter *filter,
						      enum compat_group group, u32 n, bool write)
{
	return !(filter->denied[group] &
		 (write ? COMPAT_PERMIT_WRITE(n) : COMPAT_PERMIT_READ(n)));
}

/* The first MSR of COMPAT_COUNTERS */
extern u32 vpmu_compat_counters;

bool __vpmu_compat_msr_allowed(struct kvm_vcpu *vcpu, struct compat_filter *filter, u32 msr,
			       bool write);

/*
 * May KVM complete an access of the guest to @msr, or is the access filtered?  QEMU has a filter
 * for another MSR in each VM.
 */
static __always_inline bool vpmu_compat_msr_allowed(struct kvm_vcpu *vcpu,
						    struct compat_filter *filter, u32 msr,
						    bool write)
{
	u32 n = msr - vpmu_compat_counters;

	if (likely(n < COMPAT_GROUP && vpmu_compat_filter_known(filter)))
		return vpmu_compat_filter_allows(filter, COMPAT_COUNTERS, n, write);
	return __vpmu_compat_msr_allowed(vcpu, filter, msr, write);
}

/* 0, or -ENOENT and a message */
int vpmu_compat_filter_init(void);

/*
 * May the vCPU, which is about to be entered, have accesses to these MSRs without a VM exit, by
 * KVM's permission map or bitmaps?  Not in a nested guest, which has others.
 */
bool vpmu_compat_may_open(struct kvm_vcpu *vcpu);

/*
 * Let the guest make the accesses of @may but for those that @filter denies.  @granted: those of
 * them that KVM doesn't let it make anyway, for vpmu_compat_revoke(), which undoes that.  Return:
 * whether there are any.
 */
bool vpmu_compat_grant(struct kvm_vcpu *vcpu, const struct compat_filter *filter, const u32 *may,
		       u32 *granted);
void vpmu_compat_revoke(struct kvm_vcpu *vcpu, const u32 *granted);

/* AMD: what host perf calls for a new event of the L3 cache or the data fabric */
#define COMPAT_INIT_OTHER	"amd_uncore_event_init"

/* Can that function be hooked for good?  Not if it is a module's, which may be loaded later. */
static inline bool vpmu_compat_sees_others(void)
{
	unsigned long function = vpmu_compat_resolve(COMPAT_INIT_OTHER);

	return function && !vpmu_compat_on_intel() &&
	       (function < MODULES_VADDR || function >= MODULES_END);
}

/*
 * Let the guest execute RDPMC, of any index.  Return: whether KVM doesn't let it do that
 * anyway; vpmu_compat_revoke_rdpmc() then undoes it.
 */
bool vpmu_compat_grant_rdpmc(struct kvm_vcpu *vcpu);
void vpmu_compat_revoke_rdpmc(struct kvm_vcpu *vcpu);

/**
 * vpmu_compat_access() - can this instruction be completed right behind the VM exit?
 * @vcpu: the vCPU that has just exited; interrupts are off
 *
 * Return: the access that made the guest exit, if KVM would only execute it, unless the access is
 * filtered, and go on behind the instruction, and no memory is needed to find that place; else
 * COMPAT_NO_ACCESS.
 */
enum compat_access vpmu_compat_access(struct kvm_vcpu *vcpu);

/*
 * Go on behind that instruction, as kvm_skip_emulated_instruction().  Return: whether KVM has
 * reported the instruction as emulated
 */
bool vpmu_compat_skip_instruction(struct kvm_vcpu *vcpu);

/*
 * Is the vCPU's state encrypted (SEV-ES and its successors, TDX)?  Then the host can't read its
 * privilege level.  Before has_protected_state, only the FPU's state showed that
 * (svm_vcpu_create()).
 */
static inline bool vpmu_compat_is_protected(struct kvm_vcpu *vcpu)
{
#ifdef COMPAT_HAVE_PROTECTED_STATE
	return vcpu->kvm->arch.has_protected_state;
#else
	return fpstate_is_confidential(&vcpu->arch.guest_fpu);
#endif
}

/*
 * Has the vCPU's state been encrypted since (KVM_SEV_LAUNCH_UPDATE_VMSA, or another VM's state that
 * was moved there)?  A VM that isn't of an encrypted type (KVM_SEV_ES_INIT) isn't known before.
 */
static inline bool vpmu_compat_state_encrypted(const struct kvm_vcpu *vcpu)
{
	return vcpu->arch.guest_state_protected;
}

/* The thread that ran the vCPU last, as the first PID namespace has it; 0: none yet */
static inline pid_t vpmu_compat_thread(struct kvm_vcpu *vcpu)
{
	pid_t tid;

#ifdef COMPAT_HAVE_PID_LOCK
	read_lock(&vcpu->pid_lock);
	tid = pid_nr(vcpu->pid);
	read_unlock(&vcpu->pid_lock);
#else
	rcu_read_lock();
	tid = pid_nr(rcu_dereference(vcpu->pid));
	rcu_read_unlock();
#endif
	return tid;
}

/*
 * The vCPU's RIP, which KVM reads and writes with each VM exit and entry of AMD CPUs
 * (svm_vcpu_run()), unless the guest's state is encrypted
 */
static inline unsigned long vpmu_compat_rip(const struct kvm_vcpu *vcpu)
{
#ifdef COMPAT_HAVE_OWN_RIP
	return vcpu->arch.rip;
#else
	return vcpu->arch.regs[VCPU_REGS_RIP];
#endif
}

static inline void vpmu_compat_set_rip(struct kvm_vcpu *vcpu, unsigned long rip)
{
#ifdef COMPAT_HAVE_OWN_RIP
	vcpu->arch.rip = rip;
#else
	vcpu->arch.regs[VCPU_REGS_RIP] = rip;
#endif
}

/*
 * Is the vCPU loaded for KVM_RUN, and not for another ioctl?  KVM has a flag for that; where the
 * flag is missing the answer is @seen: kvm_arch_vcpu_ioctl_run() was called, and since then only
 * task switches have put the vCPU.  With the flag, the answer is no also for KVM_RUN with
 * immediate_exit, which enters no guest.
 */
static inline bool vpmu_compat_running(const struct kvm_vcpu *vcpu, bool seen)
{
#ifdef COMPAT_HAVE_WANTS_TO_RUN
	return vcpu->wants_to_run;
#else
	return seen;
#endif
}

/* Has the VM an event filter (KVM_SET_PMU_EVENT_FILTER)? */
static inline bool vpmu_compat_has_event_filter(const struct kvm_vcpu *vcpu)
{
	return rcu_access_pointer(vcpu->kvm->arch.pmu_event_filter);
}

/* Does that allow the event of select @select, or fixed counter @n? */
bool vpmu_compat_event_allowed(struct kvm_vcpu *vcpu, u64 select);
bool vpmu_compat_fixed_allowed(struct kvm_vcpu *vcpu, unsigned int n);

/* Deliver the guest's PMI by its local APIC, as KVM_REQ_PMI does before a VM entry. */
void vpmu_compat_deliver_pmi(struct kvm_vcpu *vcpu);

/*
 * Linux before 6.7 checks KVM_REQ_NMI before KVM_REQ_PMI ("KVM: x86: Service NMI requests after PMI
 * requests in VM-Enter path").  An NMI that the latter causes would wait for the next round, and an
 * interrupt of the guest would come first.  Process the NMI; the vCPU is about to be entered.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
#define COMPAT_NMI_WAITS
void vpmu_compat_process_nmi(struct kvm_vcpu *vcpu);
#endif

/*
 * Keep a VM from being destroyed, unless that has begun, and no longer: kvm_get_kvm_safe(),
 * kvm_put_kvm().  This module is loaded before KVM may be, so it can't link to KVM's functions.
 */
bool vpmu_compat_get_vm(struct kvm *kvm);
void vpmu_compat_put_vm(struct kvm *kvm);

/* Is this the file of a VM (KVM_CREATE_VM)?  If so, private_data is its struct kvm. */
bool vpmu_compat_file_is_vm(struct file *file);

/* Prototypes of hooked functions, for static calls to them. */
void vpmu_compat_proto_init(struct kvm_vcpu *vcpu);
int vpmu_compat_proto_create(struct kvm_vcpu *vcpu);
/* The ioctls for CPUID differ in the types behind the pointers. */
int vpmu_compat_proto_cpuid(struct kvm_vcpu *vcpu, void *cpuid, void __user *entries);
/* The second argument: none up to 6.8, then a bool; a mask from 6.17 on and in stable kernels */
fastpath_t vpmu_compat_proto_run(struct kvm_vcpu *vcpu, u64 flags);
struct x86_emulate_ctxt;
int vpmu_compat_proto_emulate(struct x86_emulate_ctxt *ctxt);
int vpmu_compat_proto_skip(struct kvm_vcpu *vcpu);
/* An int from 6.4 on */
long vpmu_compat_proto_vm_ioctl(struct file *file, unsigned int ioctl, unsigned long arg);
bool vpmu_compat_proto_msr_allowed(struct kvm_vcpu *vcpu, u32 msr, u32 type);
void vpmu_compat_proto_load(struct kvm_vcpu *vcpu, int cpu);
int vpmu_compat_proto_get_cpl(struct kvm_vcpu *vcpu);
struct module *vpmu_compat_proto_module_address(unsigned long address);
unsigned long vpmu_compat_proto_kallsyms(const char *name);
unsigned long vpmu_compat_proto_ftrace_location_range(unsigned long start, unsigned long end);
bool vpmu_compat_proto_file_is_kvm(struct file *file);
bool vpmu_compat_proto_get_vm(struct kvm *kvm);
void vpmu_compat_proto_put_vm(struct kvm *kvm);
struct perf_guest_switch_msr *vpmu_compat_proto_guest_get_msrs(int *nr, void *data);
void vpmu_compat_proto_lapic_init(void);
int vpmu_compat_proto_nmi_handler(unsigned int type, struct pt_regs *regs);
struct kvm_vcpu *vpmu_compat_proto_running_vcpu(void);
void vpmu_compat_proto_code_size(struct kvm_vcpu *vcpu, int *db, int *l);
void vpmu_compat_proto_cache_reg(struct kvm_vcpu *vcpu, u32 reg);
void vpmu_compat_proto_exit_info(struct kvm_vcpu *vcpu, u32 *reason, u64 *info1, u64 *info2,
				 u32 *intr_info, u32 *error_code);

DECLARE_STATIC_CALL(vpmu_compat_get_cpl, vpmu_compat_proto_get_cpl);

/* The guest's privilege level, 0 to 3; the vCPU is loaded. */
static inline int vpmu_compat_get_cpl(struct kvm_vcpu *vcpu)
{
	return static_call(vpmu_compat_get_cpl)(vcpu);
}

/*
 * May the guest execute RDPMC at its privilege level?  Hardware checks that before the intercept
 * (APM vol. 2, "Instruction Intercepts"; SDM vol. 3, "Relative Priority of Faults and VM Exits");
 * KVM's emulator, on AMD's CPUs, doesn't.  On Intel's, guests change CR4.PCE without an exit, and
 * KVM's copy may be old.
 */
static inline bool vpmu_compat_may_rdpmc(struct kvm_vcpu *vcpu)
{
	return vpmu_compat_on_intel() || (vcpu->arch.cr4 & X86_CR4_PCE) ||
	       !(vcpu->arch.cr0 & X86_CR0_PE) || !vpmu_compat_get_cpl(vcpu);
}

/* For ftrace handlers: the traced function's arguments from 0 on, and where to continue */
#ifdef COMPAT_HAVE_FTRACE_ARGUMENT
static inline unsigned long vpmu_compat_ftrace_argument(struct ftrace_regs *fregs, unsigned int n)
{
	return ftrace_regs_get_argument(fregs, n);
}

static inline void vpmu_compat_ftrace_set_ip(struct ftrace_regs *fregs, unsigned long ip)
{
	ftrace_regs_set_instruction_pointer(fregs, ip);
}
#else
static inline unsigned long vpmu_compat_ftrace_argument(struct ftrace_regs *fregs, unsigned int n)
{
	return regs_get_kernel_argument(&fregs->regs, n);
}

static inline void vpmu_compat_ftrace_set_ip(struct ftrace_regs *fregs, unsigned long ip)
{
	ftrace_instruction_pointer_set(fregs, ip);
}
#endif

/**
 * struct compat_direct - a function whose fentry calls a stub of this module
 * @ip: the function, as vpmu_compat_resolve() found it
 * @stub: the stub, which preserves all registers of the function's arguments
 */
struct compat_direct {
	unsigned long ip;
	unsigned long stub;
	/* private: ftrace's part; unused up to 6.1 */
	struct ftrace_ops ops;
};

/*
 * Start and stop it.  After vpmu_compat_direct_disable() the stub isn't entered any more, but tasks
 * may still be inside, until synchronize_rcu_tasks().
 */
int vpmu_compat_direct_enable(struct compat_direct *direct);
void vpmu_compat_direct_disable(struct compat_direct *direct);

#endif
