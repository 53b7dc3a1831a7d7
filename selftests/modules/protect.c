// SPDX-License-Identifier: GPL-2.0
/*
 * Lets KVM take each VM for a protected one (SEV-ES, TDX), which the emulated hosts don't have,
 * when a vCPU is created.  With late=1 only the vCPU's state is protected, and from KVM_RUN on, as
 * KVM_SEV_ES_INIT has it later than that.
 */
#include <linux/kprobes.h>
#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/version.h>
#include <asm/fpu/api.h>

static bool late;
module_param(late, bool, 0444);

/*
 * kvm_pmu_init(vcpu) begins: kvm_arch_vcpu_create() has allocated the vCPU's FPU.  Or
 * kvm_arch_vcpu_ioctl_run(vcpu).
 */
static int notrace protect(struct kprobe *probe, struct pt_regs *regs)
{
	struct kvm_vcpu *vcpu = (struct kvm_vcpu *)regs->di;

	if (late) {
		vcpu->arch.guest_state_protected = true;
		return 0;
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	vcpu->kvm->arch.has_protected_state = true;
#else
	fpstate_set_confidential(&vcpu->arch.guest_fpu);
#endif
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "kvm_pmu_init",
	.pre_handler = protect,
};

static int __init protect_init(void)
{
	if (late)
		probe.symbol_name = "kvm_arch_vcpu_ioctl_run";
	return register_kprobe(&probe);
}

static void __exit protect_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(protect_init);
module_exit(protect_exit);
MODULE_DESCRIPTION("Lets KVM take VMs for protected ones");
MODULE_LICENSE("GPL");
