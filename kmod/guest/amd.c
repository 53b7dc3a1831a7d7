// SPDX-License-Identifier: GPL-2.0
/*
 * AMD's core performance counters as a guest sees them: the legacy set, the
 * core extension and PerfMonV2.  Sources: AMD APM vol. 2, "Performance
 * Monitoring Counters"; MSR numbers from APM vol. 2, "MSR Cross-Reference".
 */
#include "../../include/uapi/linux/kvm_vpmu.h"
#include "guest.h"

#define MSR_LEGACY_SELECT0	0xc0010000
#define MSR_LEGACY_COUNTER0	0xc0010004
#define MSR_GLOBAL_STATUS	0xc0000300
#define MSR_GLOBAL_STATUS_CLEAR	0xc0000302
#define MSR_GLOBAL_STATUS_SET	0xc0000303

#define NR_LEGACY		4

/* APM vol. 2, "Performance Event-Select Registers". */
#define SELECT_EVENT		0xf000000ffULL

/* PPR for family 19h, "Core Performance Monitor Counters". */
#define EVENT_INSTRUCTIONS	0x0c0
#define EVENT_BRANCHES		0x0c2

/*
 * All ones at reset, so that software which knows only the older sets finds its
 * counters enabled.
 */
static void amd_reset(struct guest_pmu *pmu)
{
	if (pmu->set != GUEST_AMD_LEGACY)
		pmu->in_turn = 2 * pmu->nr;
	vpmu_guest_set_control(pmu, vpmu_guest_counter_mask(pmu));
}

static struct guest_reg amd_decode(const struct guest_pmu *pmu, u32 msr)
{
	struct guest_reg reg = { GUEST_REG_NONE, 0 };
	u32 n;

	/* Nearly always */
	n = msr - GUEST_AMD_SELECT0;
	if (n < pmu->in_turn) {
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
	case GUEST_AMD_CONTROL:
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

static int amd_rdpmc(const struct guest_pmu *pmu, u32 index)
{
	return index < pmu->nr ? (int)index : -1;
}

/*
 * AMD CPUs ignore writes to reserved bits and to read-only registers (PPR for family 19h, "Core
 * Performance Monitor Counters").  Some keep reserved bits of an event select; Linux commit
 * 9b026073db2f, "KVM: x86/svm: Clear reserved bits written to PerfEvtSeln MSRs".  Here they are
 * dropped, so that no unknown bit reaches hardware.  The host and guest bits are not offered.
 */
#define SELECT_BITS	(SELECT_EVENT | GUEST_SELECT_UNIT_MASK | GUEST_SELECT_USR | \
			 GUEST_SELECT_OS | GUEST_SELECT_EDGE | GUEST_SELECT_INT | \
			 GUEST_SELECT_EN | GUEST_SELECT_INV | GUEST_SELECT_CMASK)

/*
 * PPR for family 19h, "Core Performance Monitor Counters"; BKDG for family
 * 10h, "Performance Counter Events", for the legacy set.  Events of retired
 * branches in all flavours are here, mispredicted ones too: those are counted
 * when the branch retires.
 */
static bool amd_is_retirement(const struct guest_pmu *pmu, unsigned int i)
{
	u64 select = pmu->select[i];
	u64 event = (select & 0xff) | ((select & SELECT_EVENT) >> 24 & 0xf00);

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

static enum vpmu_class amd_class(const struct guest_pmu *pmu, unsigned int i)
{
	switch (pmu->select[i] & SELECT_EVENT) {
	case EVENT_INSTRUCTIONS:
		return VPMU_INSTRUCTION;
	case EVENT_BRANCHES:
		return VPMU_BRANCH;
	default:
		return VPMU_OTHER;
	}
}

static bool amd_hypervisor_event(u64 select)
{
	return (select & SELECT_EVENT) == KVM_VPMU_EVENT_AMD;
}

const struct guest_ops vpmu_guest_amd = {
	.reset = amd_reset,
	.decode = amd_decode,
	.by_rdpmc = amd_rdpmc,
	.select_bits = SELECT_BITS,
	.is_retirement = amd_is_retirement,
	.class = amd_class,
	.hypervisor_event = amd_hypervisor_event,
};
