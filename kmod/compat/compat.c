// SPDX-License-Identifier: GPL-2.0
/* Symbols of the kernel and of KVM, found when the module is loaded. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>
#include <asm/hypervisor.h>
#include <asm/ibt.h>
#include <asm/svm.h>
#include <asm/vmx.h>

#include "compat.h"
#include "mmu.h"

/* A test builds the module with an unknown version here. */
#ifndef COMPAT_KERNEL
#define COMPAT_KERNEL	LINUX_VERSION_CODE
#endif

DEFINE_STATIC_CALL_NULL(vpmu_compat_get_cpl, vpmu_compat_proto_get_cpl);
DEFINE_STATIC_CALL_NULL(vpmu_module_address, vpmu_compat_proto_module_address);
DEFINE_STATIC_CALL_NULL(vpmu_lookup_name, vpmu_compat_proto_kallsyms);
DEFINE_STATIC_CALL_NULL(vpmu_ftrace_location_range, vpmu_compat_proto_ftrace_location_range);

DEFINE_STATIC_CALL_NULL(vpmu_deliver_pmi, vpmu_compat_proto_init);
DEFINE_STATIC_CALL_NULL(vpmu_file_is_vm, vpmu_compat_proto_file_is_kvm);

static struct module *vendor_module;

/* AMD: does KVM use the next instruction's address, which the CPU stores (kvm_amd.nrips)? */
static bool has_next_rip;

/* A kprobe finds the first symbol only: each of them takes a grace period. */
int vpmu_compat_lookup_init(void)
{
	/* Disabled: nothing is patched, only the address is of interest. */
	struct kprobe probe = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	unsigned long range;
	int err = register_kprobe(&probe);

	if (err) {
		pr_err("%s not found in this kernel: error %d\n", probe.symbol_name, err);
		return err;
	}
	static_call_update(vpmu_lookup_name, (void *)probe.addr);
	unregister_kprobe(&probe);

	range = vpmu_compat_lookup("ftrace_location_range");
	if (!range) {
		pr_err("ftrace_location_range not found in this kernel\n");
		return -ENOENT;
	}
	static_call_update(vpmu_ftrace_location_range, (void *)range);
	return 0;
}

unsigned long vpmu_compat_lookup(const char *symbol)
{
	return static_call(vpmu_lookup_name)(symbol);
}

/*
 * The fentry is the first instruction, or the one behind ENDBR.  ftrace_location() looks further:
 * up to the next symbol, and finds the fentry of a weak function that the linker left out, such as
 * the one behind kvm_vcpu_halt().
 */
unsigned long vpmu_compat_resolve(const char *symbol)
{
	unsigned long address = vpmu_compat_lookup(symbol);
	unsigned long fentry;

	if (!address)
		return 0;
	fentry = static_call(vpmu_ftrace_location_range)(address, address + ENDBR_INSN_SIZE);
	return fentry ? fentry : address;
}

unsigned long vpmu_compat_require(const char *symbol)
{
	unsigned long address = vpmu_compat_resolve(symbol);

	if (!address)
		pr_err("%s not found in this kernel (is %s loaded?)\n", symbol,
		       vpmu_compat_kvm_module());
	return address;
}

bool vpmu_compat_exported(const char *symbol)
{
	if (!__symbol_get(symbol))
		return false;
	__symbol_put(symbol);
	return true;
}

static bool allow_untested;
module_param(allow_untested, bool, 0444);
MODULE_PARM_DESC(allow_untested,
		 "load on kernels that no test has seen, if they have all that is needed (default: N)");

static bool version_tested(void)
{
#ifdef RHEL_RELEASE_CODE
	/* Red Hat's kernels have much of later ones. */
	return false;
#endif
	switch (COMPAT_KERNEL >> 8) {
	case KERNEL_VERSION(6, 1, 0) >> 8:
	case KERNEL_VERSION(6, 12, 0) >> 8:
	case KERNEL_VERSION(6, 16, 0) >> 8 ... KERNEL_VERSION(6, 19, 0) >> 8:
	case KERNEL_VERSION(7, 0, 0) >> 8 ... KERNEL_VERSION(7, 3, 0) >> 8:
		return true;
	default:
		return false;
	}
}

int vpmu_compat_tested(void)
{
	if (version_tested())
		return 0;
	if (!allow_untested) {
		pr_err("no test has seen kernel %s, only 6.1, 6.12 and 6.16 to 7.3; allow_untested=1 loads all the same\n",
		       init_utsname()->release);
		return -EOPNOTSUPP;
	}
	pr_warn("no test has seen kernel %s: it has all that is needed, but counts may be wrong\n",
		init_utsname()->release);
	return 0;
}

/* KVM's parameter, which KVM clears where it can't have a vPMU itself (hybrid CPUs, no PMU) */
static bool kvm_has_pmu(void)
{
	const bool *on = (const bool *)vpmu_compat_lookup("kvm:enable_pmu");

	return !on || *on;
}

static bool kvm_has_next_rip(void)
{
	const int *on = (const int *)vpmu_compat_lookup("kvm_amd:nrips");

	return on && *on;
}

/* KVM's mediated vPMU, from 7.0 on, takes all physical counters. */
static bool mediated_pmu_enabled(void)
{
	const bool *on = (const bool *)vpmu_compat_lookup("kvm:enable_mediated_pmu");

	return on && *on;
}

/*
 * The vendor module must not be unloaded, and loaded again with functions that are not hooked.
 * That module holds a reference to kvm.
 */
static int pin_vendor_module(unsigned long address)
{
	preempt_disable();
	vendor_module = static_call(vpmu_module_address)(address);
	if (vendor_module && !try_module_get(vendor_module))
		vendor_module = NULL;
	preempt_enable();
	if (!vendor_module) {
		pr_err("%s is being unloaded or is built in\n", vpmu_compat_kvm_module());
		return -ENOENT;
	}
	return 0;
}

#ifdef COMPAT_NMI_WAITS

DEFINE_STATIC_CALL_NULL(vpmu_process_nmi, vpmu_compat_proto_init);

static int find_process_nmi(void)
{
	unsigned long address = vpmu_compat_require("process_nmi");

	if (!address)
		return -ENOENT;
	static_call_update(vpmu_process_nmi, (void *)address);
	return 0;
}

void vpmu_compat_process_nmi(struct kvm_vcpu *vcpu)
{
	if (kvm_check_request(KVM_REQ_NMI, vcpu))
		static_call(vpmu_process_nmi)(vcpu);
}

#else

static int find_process_nmi(void)
{
	return 0;
}

#endif

DEFINE_STATIC_CALL_NULL(vpmu_exit_info, vpmu_compat_proto_exit_info);

static int find_exit_info(void)
{
	unsigned long address = vpmu_compat_require(vpmu_compat_on_intel() ? "vmx_get_exit_info" :
						    "svm_get_exit_info");

	if (!address)
		return -ENOENT;
	static_call_update(vpmu_exit_info, (void *)address);
	return 0;
}

static enum compat_exit amd_cause(u32 reason)
{
	switch (reason) {
	case SVM_EXIT_MSR:
		return COMPAT_EXIT_MSR;
	case SVM_EXIT_CPUID:
		return COMPAT_EXIT_CPUID;
	case SVM_EXIT_NMI:
		return COMPAT_EXIT_NMI;
	case SVM_EXIT_PAUSE:
		return COMPAT_EXIT_PAUSE;
	default:
		return COMPAT_EXIT_OTHER;
	}
}

static enum compat_exit intel_cause(u32 reason, u32 intr_info)
{
	switch (reason) {
	case EXIT_REASON_MSR_READ:
	case EXIT_REASON_MSR_WRITE:
#ifdef EXIT_REASON_MSR_READ_IMM
	case EXIT_REASON_MSR_READ_IMM:
	case EXIT_REASON_MSR_WRITE_IMM:
#endif
		return COMPAT_EXIT_MSR;
	case EXIT_REASON_CPUID:
		return COMPAT_EXIT_CPUID;
	case EXIT_REASON_EXCEPTION_NMI:
		return (intr_info & INTR_INFO_INTR_TYPE_MASK) == INTR_TYPE_NMI_INTR ?
			COMPAT_EXIT_NMI : COMPAT_EXIT_OTHER;
	case EXIT_REASON_PAUSE_INSTRUCTION:
		return COMPAT_EXIT_PAUSE;
	default:
		return COMPAT_EXIT_OTHER;
	}
}

/*
 * AMD: struct vcpu_svm begins with struct kvm_vcpu, and the VMCB's address follows.  That structure
 * is KVM's own, so the first VMCB found this way is compared with what KVM says of it.
 */
static struct vmcb *vmcb_of(const struct kvm_vcpu *vcpu)
{
#ifdef COMPAT_TEST_SHIFT
	return *(struct vmcb *const *)((const char *)(vcpu + 1) + 64);
#else
	return *(struct vmcb *const *)(vcpu + 1);
#endif
}

static enum { VMCB_UNKNOWN, VMCB_FOUND, VMCB_NOT_FOUND } vmcb_state;

static noinline bool find_vmcb(struct kvm_vcpu *vcpu)
{
	u32 reason, intr_info, error_code, found_reason;
	u64 info1, info2, found_info1;
	const struct vmcb *vmcb;

	if (READ_ONCE(vmcb_state) == VMCB_UNKNOWN) {
		static_call(vpmu_exit_info)(vcpu, &reason, &info1, &info2, &intr_info, &error_code);
		vmcb = vmcb_of(vcpu);
		if (get_kernel_nofault(found_reason, (u32 *)&vmcb->control.exit_code) ||
		    get_kernel_nofault(found_info1, (u64 *)&vmcb->control.exit_info_1) ||
		    found_reason != reason || found_info1 != info1) {
			WRITE_ONCE(vmcb_state, VMCB_NOT_FOUND);
			pr_info("struct vcpu_svm isn't laid out as expected: accesses to counters take KVM's slow way\n");
		} else if (reason) {
			/* 0 is found everywhere. */
			WRITE_ONCE(vmcb_state, VMCB_FOUND);
		}
	}
	return READ_ONCE(vmcb_state) == VMCB_FOUND;
}

void vpmu_compat_find_state(struct kvm_vcpu *vcpu)
{
	if (!vpmu_compat_on_intel())
		find_vmcb(vcpu);
}

/* The last VM exit's reason, by KVM's word.  Intel: @intr_info is the VMCS's field. */
static u32 slow_reason(struct kvm_vcpu *vcpu, u32 *intr_info)
{
	u32 reason, error_code;
	u64 info1, info2;

	static_call(vpmu_exit_info)(vcpu, &reason, &info1, &info2, intr_info, &error_code);
	return reason;
}

static enum compat_exit slow_cause(struct kvm_vcpu *vcpu)
{
	u32 intr_info, reason = slow_reason(vcpu, &intr_info);

	return vpmu_compat_on_intel() ? intel_cause(reason, intr_info) : amd_cause(reason);
}

enum compat_exit vpmu_compat_exit_cause(struct kvm_vcpu *vcpu)
{
	/* Never on Intel */
	if (likely(READ_ONCE(vmcb_state) == VMCB_FOUND))
		return amd_cause(vmcb_of(vcpu)->control.exit_code);
	return slow_cause(vcpu);
}

bool vpmu_compat_interrupt_exit(struct kvm_vcpu *vcpu)
{
	u32 intr_info;

	return slow_reason(vcpu, &intr_info) == SVM_EXIT_INTR;
}

DEFINE_STATIC_CALL_NULL(vpmu_running_vcpu, vpmu_compat_proto_running_vcpu);
DEFINE_STATIC_CALL_NULL(vpmu_cache_reg, vpmu_compat_proto_cache_reg);
DEFINE_STATIC_CALL_NULL(vpmu_code_size, vpmu_compat_proto_code_size);
DEFINE_STATIC_CALL_NULL(vpmu_read_guest, kvm_vcpu_read_guest_atomic);

static int find_intel_registers(void)
{
	unsigned long cache = vpmu_compat_require("vmx_cache_reg");
	unsigned long code_size = vpmu_compat_require("vmx_get_cs_db_l_bits");

	if (!cache || !code_size)
		return -ENOENT;
	static_call_update(vpmu_cache_reg, (void *)cache);
	static_call_update(vpmu_code_size, (void *)code_size);
	return 0;
}

static int find_registers(void)
{
	unsigned long running = vpmu_compat_require("kvm_get_running_vcpu");
	unsigned long read = vpmu_compat_require("kvm_vcpu_read_guest_atomic");

	if (!running || !read)
		return -ENOENT;
	static_call_update(vpmu_running_vcpu, (void *)running);
	static_call_update(vpmu_read_guest, (void *)read);
	return vpmu_compat_on_intel() ? find_intel_registers() : 0;
}

struct kvm_vcpu *vpmu_compat_running_vcpu(void)
{
	return static_call(vpmu_running_vcpu)();
}

/* KVM's numbers of the registers (enum kvm_reg) */
#ifdef COMPAT_HAVE_OWN_RIP
#define REG_RIP	VCPU_REG_RIP
#define REG_CR3	VCPU_REG_CR3
#else
#define REG_RIP	VCPU_REGS_RIP
#define REG_CR3	VCPU_EXREG_CR3
#endif

/*
 * AMD: KVM copies CR3 from the VMCB later (svm_handle_exit()).  Without nested paging, the VMCB's
 * is KVM's own.
 */
static unsigned long amd_cr3(const struct kvm_vcpu *vcpu)
{
	const struct vmcb *vmcb;

	if (READ_ONCE(vmcb_state) != VMCB_FOUND)
		return 0;
	vmcb = vmcb_of(vcpu);
	return vmcb->control.nested_cr3 ? vmcb->save.cr3 : vcpu->arch.cr3;
}

/*
 * Intel: KVM reads registers from the VMCS when it needs them.  Right behind the exit, where KVM
 * handles an NMI, KVM has changed none, and what is read here stays valid.
 */
struct compat_where vpmu_compat_where(struct kvm_vcpu *vcpu)
{
	if (vpmu_compat_state_encrypted(vcpu))
		return (struct compat_where){ };
	if (!vpmu_compat_on_intel())
		return (struct compat_where){ vpmu_compat_rip(vcpu), amd_cr3(vcpu) };
	static_call(vpmu_cache_reg)(vcpu, REG_RIP);
	static_call(vpmu_cache_reg)(vcpu, REG_CR3);
	return (struct compat_where){ vpmu_compat_rip(vcpu), vcpu->arch.cr3 };
}

unsigned long vpmu_compat_guest_rsp(struct kvm_vcpu *vcpu)
{
	if (vpmu_compat_on_intel())
		static_call(vpmu_cache_reg)(vcpu, VCPU_REGS_RSP);
	return vcpu->arch.regs[VCPU_REGS_RSP];
}

bool vpmu_compat_in_64bit_mode(struct kvm_vcpu *vcpu)
{
	int db, l;

	/* The other mode of long mode has the same paging, but not the same frames. */
	if (!(vcpu->arch.efer & EFER_LMA))
		return false;
	if (!vpmu_compat_on_intel())
		return READ_ONCE(vmcb_state) == VMCB_FOUND &&
		       vmcb_of(vcpu)->save.cs.attrib & SVM_SELECTOR_L_MASK;
	static_call(vpmu_code_size)(vcpu, &db, &l);
	return l;
}

int vpmu_compat_read_guest(struct kvm_vcpu *vcpu, gpa_t gpa, void *to, unsigned long size)
{
	return static_call(vpmu_read_guest)(vcpu, gpa, to, size);
}

/* Intel: an NMI can't tell whether the vCPU's VMCS is current. */
u32 vpmu_compat_exit_reason(const struct kvm_vcpu *vcpu)
{
	if (vpmu_compat_on_intel() || READ_ONCE(vmcb_state) != VMCB_FOUND)
		return U32_MAX;
	return vmcb_of(vcpu)->control.exit_code;
}

/*
 * KVM then decodes the instruction, from the guest's memory, or delivers a #DB behind the
 * instruction.
 */
static bool amd_skips_slowly(const struct vmcb *vmcb)
{
	return !vmcb->control.next_rip || (vmcb->save.rflags & X86_EFLAGS_TF);
}

static __always_inline enum compat_access access_of(const struct vmcb *vmcb)
{
	if (amd_skips_slowly(vmcb))
		return COMPAT_NO_ACCESS;
	switch (vmcb->control.exit_code) {
	case SVM_EXIT_RDPMC:
		return COMPAT_RDPMC;
	case SVM_EXIT_MSR:
		return vmcb->control.exit_info_1 ? COMPAT_WRMSR : COMPAT_RDMSR;
	default:
		return COMPAT_NO_ACCESS;
	}
}

/* The VMCB is found and has_next_rip is true. */
static bool amd_ready;

/* Apart, so that the usual way needs no stack: these two */
static noinline enum compat_access amd_first_access(struct kvm_vcpu *vcpu)
{
	if (!has_next_rip || !find_vmcb(vcpu))
		return COMPAT_NO_ACCESS;
	WRITE_ONCE(amd_ready, true);
	return access_of(vmcb_of(vcpu));
}

static noinline enum compat_access intel_access(struct kvm_vcpu *vcpu)
{
	u32 reason, intr_info, error_code;
	u64 info1, info2;

	static_call(vpmu_exit_info)(vcpu, &reason, &info1, &info2, &intr_info, &error_code);
	switch (reason) {
	case EXIT_REASON_RDPMC:
		return COMPAT_RDPMC;
	case EXIT_REASON_MSR_READ:
		return COMPAT_RDMSR;
	case EXIT_REASON_MSR_WRITE:
		return COMPAT_WRMSR;
	default:
		return COMPAT_NO_ACCESS;
	}
}

/* Of the VMCB, all intercepts: APM vol. 2, "VMCB Clean Field" */
#define CLEAN_INTERCEPTS	BIT(0)

#define RDPMC_WORD		(INTERCEPT_RDPMC / 32)
#define RDPMC_BIT		BIT(INTERCEPT_RDPMC % 32)

static bool amd_grant_rdpmc(struct kvm_vcpu *vcpu)
{
	struct vmcb_control_area *control = &vmcb_of(vcpu)->control;

	if (!(control->intercepts[RDPMC_WORD] & RDPMC_BIT))
		return false;
	control->intercepts[RDPMC_WORD] &= ~RDPMC_BIT;
	control->clean &= ~CLEAN_INTERCEPTS;
	return true;
}

static void amd_revoke_rdpmc(struct kvm_vcpu *vcpu)
{
	struct vmcb_control_area *control = &vmcb_of(vcpu)->control;

	control->intercepts[RDPMC_WORD] |= RDPMC_BIT;
	control->clean &= ~CLEAN_INTERCEPTS;
}

/* AMD: two bits for each MSR in KVM's permission map, as APM vol. 2, "MSR Intercepts", has them */
static u32 *permissions(const struct kvm_vcpu *vcpu, enum compat_group group)
{
	/* C000_0000h and C001_0000h begin 2 and 4 KB into the map, the groups at 300h and 200h. */
	static const u16 offset[COMPAT_NR_AMD_GROUPS] = {
		[COMPAT_COUNTERS] = 0x1000 + 0x200 / 4,
		[COMPAT_GLOBAL] = 0x800 + 0x300 / 4,
	};
	u64 map = __sme_clr(vmcb_of(vcpu)->control.msrpm_base_pa);

	return __va(map + offset[group]);
}

/*
 * Intel: the current VMCS, which is the loaded vCPU's.  Return: 0, which KVM has in no field of
 * these, if there is none: when the host shuts down, KVM switches VMX off before CPUs stop.
 */
static unsigned long vmcs_read(unsigned long field)
{
	unsigned long value = 0;

	asm volatile("1: vmread %1, %0\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : "+r" (value) : "r" (field) : "cc");
	return value;
}

static void vmcs_write(unsigned long field, unsigned long value)
{
	asm volatile("1: vmwrite %1, %0\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : : "r" (field), "r" (value) : "cc");
}

/*
 * KVM writes this field from a copy of its own, which has RDPMC exiting, whenever the copy changes:
 * look at the field each time.
 */
static bool intel_grant_rdpmc(void)
{
	unsigned long control = vmcs_read(CPU_BASED_VM_EXEC_CONTROL);

	if (!(control & CPU_BASED_RDPMC_EXITING))
		return false;
	vmcs_write(CPU_BASED_VM_EXEC_CONTROL, control & ~(unsigned long)CPU_BASED_RDPMC_EXITING);
	return true;
}

static void intel_revoke_rdpmc(void)
{
	unsigned long control = vmcs_read(CPU_BASED_VM_EXEC_CONTROL);

	if (control)
		vmcs_write(CPU_BASED_VM_EXEC_CONTROL, control | CPU_BASED_RDPMC_EXITING);
}

bool vpmu_compat_grant_rdpmc(struct kvm_vcpu *vcpu)
{
	return vpmu_compat_on_intel() ? intel_grant_rdpmc() : amd_grant_rdpmc(vcpu);
}

void vpmu_compat_revoke_rdpmc(struct kvm_vcpu *vcpu)
{
	if (vpmu_compat_on_intel())
		intel_revoke_rdpmc();
	else
		amd_revoke_rdpmc(vcpu);
}

/*
 * Intel: a bit for each MSR up to 1FFFh in two of KVM's bitmaps, of reads and, 2 KB behind, of
 * writes: SDM vol. 3, "MSR-Bitmap Address".  NULL: KVM uses none.
 */
#define WRITE_BITMAP	(2048 * BITS_PER_BYTE)

static unsigned long *msr_bitmaps(void)
{
	unsigned long address;

	if (!(vmcs_read(CPU_BASED_VM_EXEC_CONTROL) & CPU_BASED_USE_MSR_BITMAPS))
		return NULL;
	address = vmcs_read(MSR_BITMAP);
	return address ? __va(address) : NULL;
}

/* The bit of @bit of a group, COMPAT_PERMIT_READ() or _WRITE() */
static unsigned long bit_in_bitmaps(enum compat_group group, unsigned int bit)
{
	return vpmu_compat_first_msr(group) + bit / 2 + (bit & 1 ? WRITE_BITMAP : 0);
}

static bool intel_grant(const struct compat_filter *filter, const u32 *may, u32 *granted)
{
	unsigned long *bitmaps = msr_bitmaps();
	enum compat_group group;
	unsigned int bit;
	u32 any = 0;

	for (group = 0; bitmaps && group < COMPAT_NR_GROUPS; group++) {
		unsigned long wanted = may[group] & ~filter->denied[group];

		granted[group] = 0;
		for_each_set_bit(bit, &wanted, 32)
			if (__test_and_clear_bit(bit_in_bitmaps(group, bit), bitmaps))
				granted[group] |= BIT(bit);
		any |= granted[group];
	}
	return any;
}

static void intel_revoke(const u32 *granted)
{
	unsigned long *bitmaps = msr_bitmaps();
	enum compat_group group;
	unsigned int bit;

	for (group = 0; bitmaps && group < COMPAT_NR_GROUPS; group++) {
		unsigned long mask = granted[group];

		for_each_set_bit(bit, &mask, 32)
			__set_bit(bit_in_bitmaps(group, bit), bitmaps);
	}
}

static bool amd_grant(const struct kvm_vcpu *vcpu, const struct compat_filter *filter,
		      const u32 *may, u32 *granted)
{
	enum compat_group group;
	u32 any = 0;

	for (group = 0; group < COMPAT_NR_AMD_GROUPS; group++) {
		u32 *map = permissions(vcpu, group);

		granted[group] = may[group] & *map & ~filter->denied[group];
		*map &= ~granted[group];
		any |= granted[group];
	}
	return any;
}

static void amd_revoke(const struct kvm_vcpu *vcpu, const u32 *granted)
{
	enum compat_group group;

	for (group = 0; group < COMPAT_NR_AMD_GROUPS; group++)
		*permissions(vcpu, group) |= granted[group];
}

/*
 * Hyper-V has copies of the map and of the VMCS: svm_hv_vmcb_dirty_nested_enlightenments(),
 * evmcs_touch_msr_bitmap().
 */
bool vpmu_compat_may_open(struct kvm_vcpu *vcpu)
{
	if (hypervisor_is_type(X86_HYPER_MS_HYPERV))
		return false;
	if ((vcpu->arch.hflags & HF_GUEST_MASK) || vpmu_compat_state_encrypted(vcpu))
		return false;
	return vpmu_compat_on_intel() || likely(READ_ONCE(vmcb_state) == VMCB_FOUND) ||
	       find_vmcb(vcpu);
}

bool vpmu_compat_grant(struct kvm_vcpu *vcpu, const struct compat_filter *filter, const u32 *may,
		       u32 *granted)
{
	return vpmu_compat_on_intel() ? intel_grant(filter, may, granted) :
					amd_grant(vcpu, filter, may, granted);
}

void vpmu_compat_revoke(struct kvm_vcpu *vcpu, const u32 *granted)
{
	if (vpmu_compat_on_intel())
		intel_revoke(granted);
	else
		amd_revoke(vcpu, granted);
}

/*
 * Left to KVM: what a nested guest does, which may be its hypervisor's; what a debugger steps
 * through, as KVM then exits to userspace behind the instruction.
 */
enum compat_access vpmu_compat_access(struct kvm_vcpu *vcpu)
{
	if ((vcpu->arch.hflags & HF_GUEST_MASK) || vcpu->guest_debug ||
	    vpmu_compat_state_encrypted(vcpu))
		return COMPAT_NO_ACCESS;
	if (vpmu_compat_on_intel())
		return intel_access(vcpu);
	if (likely(READ_ONCE(amd_ready)))
		return access_of(vmcb_of(vcpu));
	return amd_first_access(vcpu);
}

DEFINE_STATIC_CALL_NULL(vpmu_skip_instruction, vpmu_compat_proto_skip);

static noinline bool intel_skip_instruction(struct kvm_vcpu *vcpu)
{
	static_call(vpmu_skip_instruction)(vcpu);
	return true;
}

/*
 * AMD: what is left of KVM's function (svm_skip_emulated_instruction()) where access_of() has
 * found the rest needless.  Intel: 0, for userspace to go on, is returned only to a debugger.
 */
bool vpmu_compat_skip_instruction(struct kvm_vcpu *vcpu)
{
	struct vmcb_control_area *control;

	if (vpmu_compat_on_intel())
		return intel_skip_instruction(vcpu);
	control = &vmcb_of(vcpu)->control;
	vpmu_compat_set_rip(vcpu, control->next_rip);
	control->int_state &= ~SVM_INTERRUPT_SHADOW_MASK;
	return false;
}

static int find_skip_instruction(void)
{
	unsigned long address = vpmu_compat_require("kvm_skip_emulated_instruction");

	if (!address)
		return -ENOENT;
	static_call_update(vpmu_skip_instruction, (void *)address);
	return 0;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
/* is_nmi() of arch/x86/kvm/vmx/vmcs.h */
bool vpmu_compat_nmi_exit(struct kvm_vcpu *vcpu)
{
	u32 reason, intr_info, error_code;
	u64 info1, info2;

	if (!vpmu_compat_on_intel())
		return false;
	static_call(vpmu_exit_info)(vcpu, &reason, &info1, &info2, &intr_info, &error_code);
	return reason == EXIT_REASON_EXCEPTION_NMI &&
	       (intr_info & (INTR_INFO_VALID_MASK | INTR_INFO_INTR_TYPE_MASK)) ==
	       (INTR_INFO_VALID_MASK | INTR_TYPE_NMI_INTR);
}
#endif

/*
 * KVM's cache of registers may be stale where a vCPU is switched out.  Linux from 6.13 on has a
 * function for that ("KVM: x86: Bypass register cache when querying CPL from kvm_sched_out()").
 */
static unsigned long find_get_cpl(void)
{
	unsigned long cpl;

	if (!vpmu_compat_on_intel())
		return vpmu_compat_require("svm_get_cpl");
	cpl = vpmu_compat_resolve("vmx_get_cpl_no_cache");
	return cpl ? cpl : vpmu_compat_require("vmx_get_cpl");
}

DEFINE_STATIC_CALL_RET0(vpmu_get_vm, vpmu_compat_proto_get_vm);
DEFINE_STATIC_CALL_NULL(vpmu_put_vm, vpmu_compat_proto_put_vm);

static int find_references(void)
{
	unsigned long get = vpmu_compat_require("kvm_get_kvm_safe");
	unsigned long put = vpmu_compat_require("kvm_put_kvm");

	if (!get || !put)
		return -ENOENT;
	static_call_update(vpmu_get_vm, (void *)get);
	static_call_update(vpmu_put_vm, (void *)put);
	return 0;
}

bool vpmu_compat_get_vm(struct kvm *kvm)
{
	return static_call(vpmu_get_vm)(kvm);
}

void vpmu_compat_put_vm(struct kvm *kvm)
{
	static_call(vpmu_put_vm)(kvm);
}

int vpmu_compat_init(void)
{
	unsigned long cpl, address, is_kvm, deliver;

	request_module("%s", vpmu_compat_kvm_module());
	cpl = find_get_cpl();
	if (!cpl)
		return -ENOENT;
	address = vpmu_compat_require("__module_address");
	if (!address)
		return -ENOENT;
	is_kvm = vpmu_compat_require("file_is_kvm");
	if (!is_kvm)
		return -ENOENT;
	deliver = vpmu_compat_require("kvm_pmu_deliver_pmi");
	if (!deliver)
		return -ENOENT;
	if (vpmu_compat_filter_init() || find_process_nmi() || find_exit_info() ||
	    find_skip_instruction() || find_registers() || find_references())
		return -ENOENT;
	static_call_update(vpmu_deliver_pmi, (void *)deliver);
	static_call_update(vpmu_compat_get_cpl, (void *)cpl);
	static_call_update(vpmu_file_is_vm, (void *)is_kvm);
	static_call_update(vpmu_module_address, (void *)address);

	vpmu_compat_mmu_init();
	has_next_rip = kvm_has_next_rip();
	if (!kvm_has_pmu()) {
		pr_err("KVM's own vPMU is off (kvm.enable_pmu=0, or a CPU that KVM has none for): guests could have no PMU\n");
		return -ENODEV;
	}
	if (mediated_pmu_enabled()) {
		pr_err("KVM's own mediated vPMU is on; load %s with enable_mediated_pmu=0 to use this one\n",
		       vpmu_compat_kvm_module());
		return -EBUSY;
	}
	return pin_vendor_module(cpl);
}

void vpmu_compat_exit(void)
{
	module_put(vendor_module);
}

void vpmu_compat_deliver_pmi(struct kvm_vcpu *vcpu)
{
	static_call(vpmu_deliver_pmi)(vcpu);
}

bool vpmu_compat_file_is_vm(struct file *file)
{
	return static_call(vpmu_file_is_vm)(file);
}

#ifndef COMPAT_HAVE_DIRECT_OPS

int vpmu_compat_direct_enable(struct compat_direct *direct)
{
	return register_ftrace_direct(direct->ip, direct->stub);
}

void vpmu_compat_direct_disable(struct compat_direct *direct)
{
	unregister_ftrace_direct(direct->ip, direct->stub);
}

#else

int vpmu_compat_direct_enable(struct compat_direct *direct)
{
	int err;

	err = ftrace_set_filter_ip(&direct->ops, direct->ip, 0, 1);
	if (err)
		return err;
	err = register_ftrace_direct(&direct->ops, direct->stub);
	if (err)
		ftrace_free_filter(&direct->ops);
	return err;
}

void vpmu_compat_direct_disable(struct compat_direct *direct)
{
	unregister_ftrace_direct(&direct->ops, direct->stub, true);
}

#endif
