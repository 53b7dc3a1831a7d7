// SPDX-License-Identifier: GPL-2.0
/*
 * A guest TSC that stops while the vCPU is descheduled.  At each load, the ticks since the last put
 * are subtracted from the guest's TSC offset (as Perfctr-Xen, section 3, does in Xen).  Both
 * moments are those at which KVM is called: vcpu_put takes none of the guest's time, vcpu_load
 * does.
 *
 * KVM applies vcpu->arch.tsc_offset_adjustment in kvm_arch_vcpu_load(), and then updates the
 * guest's kvmclock page, which thus keeps wall-clock time.  From then on KVM can do so per vCPU
 * only, as the vCPUs' TSCs drift apart.
 */
#include <linux/kvm_host.h>
#include <asm/msr.h>
#include <asm/tsc.h>
#include <uapi/linux/kvm_vpmu.h>

#include "vtsc.h"

static bool same_frequency(const struct kvm_vcpu *vcpu)
{
	u32 khz = vcpu->arch.virtual_tsc_khz;

	/* 0 while the vCPU is being created */
	return !khz || khz == tsc_khz;
}

int vpmu_vtsc_refuse(u32 tsc)
{
	return tsc == KVM_VPMU_TSC_VCPU && check_tsc_unstable() ? -EOPNOTSUPP : 0;
}

int vpmu_vtsc_set(struct vpmu_vm *vm, u32 tsc)
{
	int err = vpmu_vtsc_refuse(tsc);
	struct vpmu_vcpu *vv;

	lockdep_assert_held(&vpmu_vms_lock);
	if (err)
		return err;
	if (tsc == KVM_VPMU_TSC_VCPU) {
		list_for_each_entry(vv, &vm->vcpus, sibling)
			if (!same_frequency(vv->hot.vcpu))
				return -EOPNOTSUPP;

		/*
		 * KVM must not promise the guest that one vCPU's clock page is valid for every
		 * vCPU's TSC (PVCLOCK_TSC_STABLE_BIT).
		 */
		vm->kvm->arch.backwards_tsc_observed = true;
		list_for_each_entry(vv, &vm->vcpus, sibling)
			kvm_make_request(KVM_REQ_MASTERCLOCK_UPDATE, vv->hot.vcpu);
	}
	WRITE_ONCE(vm->tsc, tsc);
	return 0;
}

void vpmu_vtsc_put(struct vpmu_vcpu *vv)
{
	vv->put_tsc = READ_ONCE(vv->vm->tsc) == KVM_VPMU_TSC_VCPU ? rdtsc() : 0;
}

u64 vpmu_vtsc_load(struct vpmu_vcpu *vv)
{
	struct kvm_vcpu *vcpu = vv->hot.vcpu;
	s64 ticks;

	if (!vv->put_tsc || READ_ONCE(vv->vm->tsc) != KVM_VPMU_TSC_VCPU)
		return 0;
	/*
	 * KVM's adjustment can't be negative with any other ratio, and the ratio of a vCPU that is
	 * being created isn't set yet (adjust_tsc_offset_host() in arch/x86/kvm/x86.c).
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
