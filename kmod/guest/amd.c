// SPDX-License-Identifier: GPL-2.0
/*
 * AMD's core performance counters as a guest sees them: the legacy set, the
 * core extension and PerfMonV2.  Sources: AMD APM vol. 2, "Performance
 * Monitoring Counters"; MSR numbers from APM vol. 2, "MSR Cross-Reference".
 */
#include "guest.h"

#define MSR_LEGACY_SELECT0	0xc0010000
#define MSR_LEGACY_COUNTER0	0xc0010004
#define MSR_CORE_SELECT0	0xc0010200
#define MSR_GLOBAL_STATUS	0xc0000300
#define MSR_GLOBAL_CONTROL	0xc0000301
#define MSR_GLOBAL_STATUS_CLEAR	0xc0000302
#define MSR_GLOBAL_STATUS_SET	0xc0000303

#define NR_LEGACY		4

/* APM vol. 2, "Performance Event-Select Registers". */
#define SELECT_EVENT		0xf000000ffULL
#define SELECT_UNIT_MASK	0x0000ff00ULL
#define SELECT_USR		BIT_ULL(16)
#define SELECT_OS		BIT_ULL(17)
#define SELECT_EDGE		BIT_ULL(18)
#define SELECT_INT		BIT_ULL(20)
#define SELECT_EN		BIT_ULL(22)
#define SELECT_INV		BIT_ULL(23)
#define SELECT_CMASK		0xff000000ULL

/* PPR for family 19h, "Core Performance Monitor Counters". */
#define EVENT_INSTRUCTIONS	0x0c0
#define EVENT_BRANCHES		0x0c2

void guest_reset(struct guest_pmu *pmu, enum guest_set set, unsigned int nr)
{
	unsigned int i;

	if (nr > VPMU_MAX_COUNTERS)
		nr = VPMU_MAX_COUNTERS;
	pmu->set = set;
	pmu->nr = set == GUEST_NONE ? 0 : nr;
	for (i = 0; i < VPMU_MAX_COUNTERS; i++) {
		pmu->select[i] = 0;
		pmu->value[i] = 0;
	}
	/*
	 * All ones at reset, so that software which knows only the older sets
	 * finds its counters enabled.
	 */
	pmu->control = guest_counter_mask(pmu);
	pmu->status = 0;
}

u64 guest_counter_mask(const struct guest_pmu *pmu)
{
	return BIT_ULL(pmu->nr) - 1;
}

struct guest_reg guest_decode(const struct guest_pmu *pmu, u32 msr)
{
	struct guest_reg reg = { GUEST_REG_NONE, 0 };
	u32 n;

	/* Nearly always */
	n = msr - MSR_CORE_SELECT0;
	if (n < 2 * pmu->nr && pmu->set != GUEST_AMD_LEGACY) {
		reg.kind = n & 1 ? GUEST_REG_COUNTER : GUEST_REG_SELECT;
		reg.index = n / 2;
		return reg;
	}

	switch (msr) {
	case MSR_LEGACY_SELECT0 ... MSR_LEGACY_SELECT0 + NR_LEGACY - 1:
		reg.kind = GUEST_REG_SELECT;
		reg.index = msr - MSR_LEGACY_SELECT0;
		break;
	case MSR_LEGACY_COUNTER0 ... MSR_LEGACY_COUNTER0 + NR_LEGACY - 1:
		reg.kind = GUEST_REG_COUNTER;
		reg.index = msr - MSR_LEGACY_COUNTER0;
		break;
	case MSR_GLOBAL_STATUS:
		reg.kind = GUEST_REG_STATUS;
		break;
	case MSR_GLOBAL_CONTROL:
		reg.kind = GUEST_REG_CONTROL;
		break;
	case MSR_GLOBAL_STATUS_CLEAR:
		reg.kind = GUEST_REG_STATUS_CLEAR;
		break;
	case MSR_GLOBAL_STATUS_SET:
		reg.kind = GUEST_REG_STATUS_SET;
		break;
	}

	if (reg.kind >= GUEST_REG_STATUS && pmu->set != GUEST_AMD_V2)
		reg.kind = GUEST_REG_NONE;
	if (reg.index >= pmu->nr)
		reg.kind = GUEST_REG_NONE;
	return reg;
}

bool guest_rdpmc_valid(const struct guest_pmu *pmu, u32 index)
{
	return index < pmu->nr;
}

/*
 * AMD CPUs don't fault on reserved bits of an event select, and some keep
 * them; Linux commit 9b026073db2f, "KVM: x86/svm: Clear reserved bits written
 * to PerfEvtSeln MSRs".  Dropping them keeps every bit that isn't understood
 * away from hardware.  The host and guest bits are not offered.
 */
u64 guest_select_bits(u64 data)
{
	return data & (SELECT_EVENT | SELECT_UNIT_MASK | SELECT_USR | SELECT_OS |
		       SELECT_EDGE | SELECT_INT | SELECT_EN | SELECT_INV |
		       SELECT_CMASK);
}

bool guest_counting(const struct guest_pmu *pmu, unsigned int i)
{
	return (pmu->select[i] & SELECT_EN) &&
	       (pmu->select[i] & (SELECT_USR | SELECT_OS)) &&
	       (pmu->control & BIT_ULL(i));
}

bool guest_interrupts(const struct guest_pmu *pmu, unsigned int i)
{
	return pmu->select[i] & SELECT_INT;
}

/*
 * PPR for family 19h, "Core Performance Monitor Counters"; BKDG for family
 * 10h, "Performance Counter Events", for the legacy set.  Events of retired
 * branches in all flavours are here, mispredicted ones too: those are counted
 * when the branch retires.
 */
static bool retirement_event(const struct guest_pmu *pmu, u64 event)
{
	switch (event & 0xff) {
	case 0xc0 ... 0xcc:
		/* 0x1c0... are unassigned, or more of the same. */
		return event == (event & 0xff) || pmu->set != GUEST_AMD_LEGACY;
	}
	switch (event) {
	case 0x003:	/* floating-point operations */
	case 0x0d1:	/* conditional branches; dispatch stalls before family 17h */
		return true;
	case 0x005:	/* serializing operations */
	case 0x008:	/* floating-point operations by width, by type, packed */
	case 0x00a ... 0x00d:
	case 0x1d0:	/* fused instructions */
		return pmu->set != GUEST_AMD_LEGACY;
	}
	return false;
}

bool guest_speculative(const struct guest_pmu *pmu, unsigned int i)
{
	u64 select = pmu->select[i];
	u64 event = (select & 0xff) | ((select & SELECT_EVENT) >> 24 & 0xf00);

	/* With INV it counts the cycles in which little of it happened. */
	return (select & SELECT_INV) || !retirement_event(pmu, event);
}

enum vpmu_class guest_class(const struct guest_pmu *pmu, unsigned int i)
{
	u64 select = pmu->select[i];

	/*
	 * With INV, or a CMASK above 1, the counter counts cycles in which
	 * many, few or no instructions retired; one more or less instruction
	 * is not one more or less count.
	 */
	if ((select & SELECT_INV) || (select & SELECT_CMASK) > BIT_ULL(24))
		return VPMU_OTHER;

	switch (select & SELECT_EVENT) {
	case EVENT_INSTRUCTIONS:
		return VPMU_INSTRUCTION;
	case EVENT_BRANCHES:
		return VPMU_BRANCH;
	default:
		return VPMU_OTHER;
	}
}

unsigned int guest_filter(const struct guest_pmu *pmu, unsigned int i)
{
	unsigned int filter = 0;

	if (pmu->select[i] & SELECT_OS)
		filter |= VPMU_IN_KERNEL;
	if (pmu->select[i] & SELECT_USR)
		filter |= VPMU_IN_USER;
	return filter;
}
