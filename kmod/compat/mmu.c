// SPDX-License-Identifier: GPL-2.0
/* KVM's second-level page tables; see mmu.h */
#include <linux/static_call.h>

#include "mmu.h"

void vpmu_compat_proto_pfn(kvm_pfn_t pfn);

DEFINE_STATIC_CALL_NULL(vpmu_mmu_unload, vpmu_compat_proto_init);
DEFINE_STATIC_CALL_NULL(vpmu_set_pfn_dirty, vpmu_compat_proto_pfn);

/* Is all found that this needs, and does KVM use page tables of that kind? */
static bool found;

/* These may be parameters, but are read-only. */
static bool is_set(const char *variable)
{
	const bool *set = (const bool *)vpmu_compat_lookup(variable);

	return set && *set;
}

void vpmu_compat_mmu_init(void)
{
	unsigned long unload = vpmu_compat_resolve("kvm_mmu_unload");
	unsigned long dirty = vpmu_compat_resolve("kvm_set_pfn_dirty");

	found = unload && vpmu_compat_resolve(COMPAT_MAP_PAGE) &&
		is_set("tdp_enabled") && is_set("tdp_mmu_enabled") &&
		(vpmu_compat_resolve(COMPAT_ALLOC_ROOT) || vpmu_compat_resolve(COMPAT_GET_ROOT));
	if (unload)
		static_call_update(vpmu_mmu_unload, (void *)unload);
	if (dirty)
		static_call_update(vpmu_set_pfn_dirty, (void *)dirty);
}

bool vpmu_compat_has_tables(const struct kvm_vcpu *vcpu)
{
	union kvm_mmu_page_role role = vcpu->arch.root_mmu.root_role;

	return found && role.direct && !role.ad_disabled && role.level >= 4;
}

void vpmu_compat_drop_tables(struct kvm_vcpu *vcpu)
{
	static_call(vpmu_mmu_unload)(vcpu);
}

void vpmu_compat_tag(struct kvm_vcpu *vcpu, unsigned int tag)
{
	union kvm_mmu_page_role *role = &vcpu->arch.root_mmu.root_role;

	role->quadrant = tag;
	role->passthrough = tag >> 2;
	role->smap_andnot_wp = tag >> 3;
}

void vpmu_compat_keep_dirty(u64 entry)
{
	static_call(vpmu_set_pfn_dirty)((entry & __PHYSICAL_MASK) >> PAGE_SHIFT);
}
