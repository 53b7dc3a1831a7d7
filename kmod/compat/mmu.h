/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KVM's second-level page tables (its "TDP MMU"): all that is KVM's own about them.  What is said
 * of entries is in arch/x86/kvm/mmu/spte.h, of Linux 6.1 to 7.3.
 */
#ifndef VPMU_COMPAT_MMU_H
#define VPMU_COMPAT_MMU_H

#include <linux/kvm_host.h>

#include "compat.h"

/*
 * vCPUs share page tables if these have the same role.  Some bits of the role mean nothing in
 * page tables that don't shadow a guest's: so many that this many vCPUs can have others.
 */
#define COMPAT_MAX_TAGS	15

/* The functions by which a vCPU gets page tables, and by which it gets a page there */
#define COMPAT_ALLOC_ROOT	"kvm_tdp_mmu_alloc_root"
/* Up to 6.8 */
#define COMPAT_GET_ROOT		"kvm_tdp_mmu_get_vcpu_root_hpa"
#define COMPAT_MAP_PAGE		"kvm_mmu_hugepage_adjust"

/* Find what this needs. */
void vpmu_compat_mmu_init(void);

/* Has the guest page tables of that kind, with accessed and dirty bits, and was all found? */
bool vpmu_compat_has_tables(const struct kvm_vcpu *vcpu);

/* Let the vCPU look for page tables again before it enters the guest; in its thread. */
void vpmu_compat_drop_tables(struct kvm_vcpu *vcpu);

/*
 * Does the vCPU use these now?  A nested guest may have others, which shadow those of its
 * hypervisor.
 */
static inline bool vpmu_compat_uses_tables(const struct kvm_vcpu *vcpu)
{
	return vcpu->arch.mmu == &vcpu->arch.root_mmu;
}

/* The role for which the vCPU looks for page tables gets tag 1 to COMPAT_MAX_TAGS, or 0: none. */
void vpmu_compat_tag(struct kvm_vcpu *vcpu, unsigned int tag);

/* The guest's physical address that a fault is about: struct kvm_page_fault begins with that. */
static inline gpa_t vpmu_compat_fault_address(const void *fault)
{
	return *(const gpa_t *)fault;
}

/* The vCPU's page tables: their physical address, or INVALID_PAGE, and how many levels there are */
static inline hpa_t vpmu_compat_tables(const struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->arch.root_mmu.root.hpa);
}

static inline int vpmu_compat_levels(const struct kvm_vcpu *vcpu)
{
	return vcpu->arch.root_mmu.root_role.level;
}

/* SPTE_MMU_PRESENT_MASK: entries that KVM is changing, or that are for MMIO, don't have it. */
#define COMPAT_PRESENT_BIT	BIT_ULL(11)

static inline bool vpmu_compat_is_present(u64 entry)
{
	return entry & COMPAT_PRESENT_BIT;
}

/* Of a page, rather than of another table, on a level above the lowest */
static inline bool vpmu_compat_is_large(u64 entry)
{
	return entry & BIT_ULL(7);
}

/* The table behind an entry that is neither: SPTE_BASE_ADDR_MASK */
static inline u64 *vpmu_compat_table(u64 entry)
{
	return __va(entry & __PHYSICAL_MASK & PAGE_MASK);
}

/* APM vol. 2, "Nested Paging"; SDM vol. 3, "EPT Translation Mechanism" */
static inline u64 vpmu_compat_accessed_bit(void)
{
	return vpmu_compat_on_intel() ? BIT_ULL(8) : BIT_ULL(5);
}

static inline u64 vpmu_compat_dirty_bit(void)
{
	return vpmu_compat_on_intel() ? BIT_ULL(9) : BIT_ULL(6);
}

/*
 * The dirty bit of @entry is about to be cleared.  Up to 6.12 KVM marks the host's page as dirty
 * only when it drops an entry with that bit; later, when it makes one that can be written.
 */
void vpmu_compat_keep_dirty(u64 entry);

/* Prototypes of hooked functions */
/* What it returns differs: the page tables' address, 0 or nothing.  @mirror: from 6.14 on */
unsigned long vpmu_compat_proto_alloc_root(struct kvm_vcpu *vcpu, unsigned long mirror);
struct kvm_page_fault;
void vpmu_compat_proto_fault(struct kvm_vcpu *vcpu, struct kvm_page_fault *fault);

#endif
