// SPDX-License-Identifier: GPL-2.0
/*
 * A TSC that stands still while the vCPU is descheduled: at each load, what
 * passed since the last put is taken out of the guest's offset.  (Perfctr-Xen,
 * section 3, does the same with Xen's.)  Both moments are those at which KVM is
 * called; putting takes none of the guest's time, loading does.
 *
 * KVM applies vcpu->arch.tsc_offset_adjustment in kvm_arch_vcpu_load() and then
 * updates the guest's kvmclock page, which thus keeps on telling the wall's
 * time.  It can do so only per vCPU from then on: the vCPUs' TSCs drift apart.
 */
#include <linux/kvm_host.h>
#include <asm/msr.h>
#include <asm/tsc.h>
#include <uapi/linux/kvm_vpmu.h>

#include "vpmu.h"

static bool same_frequency(const struct kvm_vcpu *vcpu)
{
	u32 khz = vcpu->arch.virtual_tsc_khz;

	/* 0 while the vCPU is being created */
	return !khz || khz == tsc_khz;
}

/*
 * Choose what the VM's TSC is; under vpmu_vms_lock.
 *
 * Return: 0, or -EOPNOTSUPP: the host's TSC isn't the same on all CPUs, or the
 * guest's has another frequency.
 */
int vpmu_vtsc_set(struct vpmu_vm *vm, u32 tsc)
{
	struct vpmu_vcpu *vv;

	lockdep_assert_held(&vpmu_vms_lock);
	if (tsc == KVM_VPMU_TSC_VCPU) {
		if (check_tsc_unstable())
			return -EOPNOTSUPP;
		list_for_each_entry(vv, &vm->vcpus, sibling)
			if (!same_frequency(vv->hot.vcpu))
				return -EOPNOTSUPP;

		/*
		 * Let KVM stop telling the guest that one vCPU's clock page
		 * goes with every vCPU's TSC (PVCLOCK_TSC_STABLE_BIT).
		 */
		vm->kvm->arch.backwards_tsc_observed = true;
		list_for_each_entry(vv, &vm->vcpus, sibling)
			kvm_make_request(KVM_REQ_MASTERCLOCK_UPDATE, vv->hot.vcpu);
	}
	WRITE_ONCE(vm->tsc, tsc);
	return 0;
}

/* Before anything else that vcpu_put does */
void vpmu_vtsc_put(struct vpmu_vcpu *vv)
{
	vv->put_tsc = READ_ONCE(vv->vm->tsc) == KVM_VPMU_TSC_VCPU ? rdtsc() : 0;
}

/* Before KVM's own part of vcpu_load.  Return what was taken out of the TSC. */
u64 vpmu_vtsc_load(struct vpmu_vcpu *vv)
{
	struct kvm_vcpu *vcpu = vv->hot.vcpu;
	s64 ticks;

	if (!vv->put_tsc || READ_ONCE(vv->vm->tsc) != KVM_VPMU_TSC_VCPU)
		return 0;
	/*
	 * KVM's adjustment can't be negative with any other ratio, and the ratio
	 * of a vCPU that is being created isn't set yet (adjust_tsc_offset_host()
	 * in arch/x86/kvm/x86.c).
	 */
	if (vcpu->arch.l1_tsc_scaling_ratio != vpmu_hw->tsc_unscaled)
		return 0;
	ticks = rdtsc() - vv->put_tsc;
	if (ticks <= 0)
		return 0;
	vcpu->arch.tsc_offset_adjustment -= ticks;
	vv->stats.descheduled_tsc += ticks;
	return ticks;
}
