// SPDX-License-Identifier: GPL-2.0
/* What the register sets that a guest may see have in common. */
#include "../../include/uapi/linux/kvm_vpmu.h"
#include "guest.h"

void vpmu_guest_reset(struct guest_pmu *pmu, const struct guest_config *config)
{
	*pmu = (struct guest_pmu){
		.set = config->set,
		.version = config->version,
		.full_width = config->full_width,
		.tsx = config->tsx,
		.ops = config->set == GUEST_INTEL ? &vpmu_guest_intel : &vpmu_guest_amd,
	};
	if (config->set == GUEST_NONE)
		return;
	pmu->general = config->general;
	pmu->nr = config->general + config->fixed;
	pmu->ops->reset(pmu);
}

bool vpmu_guest_has_config(const struct guest_pmu *pmu, const struct guest_config *config)
{
	if (!pmu->ops || pmu->set != config->set)
		return false;
	return config->set == GUEST_NONE ||
	       (pmu->general == config->general && pmu->nr == config->general + config->fixed &&
		pmu->version == config->version && pmu->full_width == config->full_width &&
		pmu->tsx == config->tsx);
}

unsigned int vpmu_guest_filter(const struct guest_pmu *pmu, unsigned int i)
{
	unsigned int filter = 0;

	if (pmu->select[i] & GUEST_SELECT_OS)
		filter |= VPMU_IN_KERNEL;
	if (pmu->select[i] & GUEST_SELECT_USR)
		filter |= VPMU_IN_USER;
	return filter;
}

enum vpmu_class vpmu_guest_class(const struct guest_pmu *pmu, unsigned int i)
{
	u64 select = pmu->select[i];

	/*
	 * With INV, or a CMASK above 1, the counter counts cycles in which
	 * many, few or no instructions retired; one more or less instruction
	 * is not one more or less count.
	 */
	if ((select & GUEST_SELECT_INV) || (select & GUEST_SELECT_CMASK) > BIT_ULL(24))
		return VPMU_OTHER;
	return pmu->ops->class(pmu, i);
}

int vpmu_guest_event(const struct guest_pmu *pmu, unsigned int i)
{
	if (i >= pmu->general || !pmu->ops->hypervisor_event(pmu->select[i]))
		return -1;
	return (pmu->select[i] & GUEST_SELECT_UNIT_MASK) >> 8 & ~KVM_VPMU_EVENT_TWICE;
}

bool vpmu_guest_event_twice(const struct guest_pmu *pmu, unsigned int i)
{
	return pmu->select[i] >> 8 & KVM_VPMU_EVENT_TWICE;
}

bool vpmu_guest_speculative(const struct guest_pmu *pmu, unsigned int i)
{
	/* With INV it counts the cycles in which little of it happened. */
	return (pmu->select[i] & GUEST_SELECT_INV) || !pmu->ops->is_retirement(pmu, i);
}
