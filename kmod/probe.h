/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which pages each vCPU accesses and writes: uapi/linux/kvm_vpmu_probe.h describes that.
 *
 * A probed vCPU gets page tables of its own, as the role for which KVM looks for some has a tag
 * then.  A page that is mapped there after a window's begin isn't in that window's sets: such an
 * entry's bits may be set without an access of the guest.
 */
#ifndef VPMU_PROBE_H
#define VPMU_PROBE_H

#include <linux/jump_label.h>

#include "vcpu.h"

/* Is there any probe? */
DECLARE_STATIC_KEY_FALSE(vpmu_probing);

/* The tag of the vCPU's page tables, from 1 on; 0: it isn't probed.  Not in NMIs. */
static __always_inline unsigned int vpmu_probe_tag(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv;

	if (!static_branch_unlikely(&vpmu_probing))
		return 0;
	vv = vpmu_find(vcpu);
	return vv ? READ_ONCE(vv->probed.tag) : 0;
}

/* In the thread of a vCPU with a tag: a page is going to be mapped at @gpa. */
void vpmu_probe_map(struct kvm_vcpu *vcpu, gpa_t gpa);

void vpmu_probe_work(struct vpmu_vcpu *vv);

/* Before a VM entry, if KVM_REQ_PMU was made; may sleep */
static inline void vpmu_probe_handle(struct vpmu_vcpu *vv)
{
	if (unlikely(READ_ONCE(vv->probed.due)))
		vpmu_probe_work(vv);
}

/* KVM_VPMU_PROBE.  Return: a file descriptor or an error. */
long vpmu_probe_open(const void __user *arg);

#endif
