// SPDX-License-Identifier: GPL-2.0
/*
 * Intel's architectural performance monitoring as a guest sees it: general and
 * fixed counters with global control and status, versions 1 to 5.  Sources: SDM
 * vol. 3, "Architectural Performance Monitoring"; MSR numbers from SDM vol. 4,
 * "Architectural MSRs".
 *
 * Without PEBS, LBRs, topdown metrics, AnyThread and freezing on PMI: CPUID and
 * IA32_PERF_CAPABILITIES enumerate none of them.
 */
#include "../../include/uapi/linux/kvm_vpmu.h"
#include "guest.h"

#define MSR_COUNTER0		0x0c1
#define MSR_SELECT0		0x186
#define MSR_FIXED_COUNTER0	0x309
#define MSR_FIXED_CONTROL	0x38d
#define MSR_GLOBAL_STATUS	0x38e
#define MSR_GLOBAL_CONTROL	0x38f
#define MSR_GLOBAL_STATUS_RESET	0x390	/* IA32_PERF_GLOBAL_OVF_CTRL before version 4 */
#define MSR_GLOBAL_STATUS_SET	0x391
#define MSR_GLOBAL_IN_USE	0x392
#define MSR_FULL_COUNTER0	0x4c1

/*
 * IA32_PERFEVTSELx: AnyThread, which version 5 dropped, and what is above CMASK; and pin
 * control, which CPUs since Sandy Bridge don't keep
 */
#define SELECT_RESERVED		(BIT_ULL(21) | ~0xffffffffULL)
#define SELECT_PIN_CONTROL	BIT_ULL(19)

/* IA32_FIXED_CTR_CTRL, of each counter */
#define FIXED_BITS		4
#define FIXED_OS		BIT_ULL(0)
#define FIXED_USR		BIT_ULL(1)
#define FIXED_PMI		BIT_ULL(3)
#define FIXED_VALID		(FIXED_OS | FIXED_USR | FIXED_PMI)

/* Global status: bits of what isn't offered, which may be cleared all the same */
#define STATUS_OTHERS		(BIT_ULL(62) | BIT_ULL(63))
#define STATUS_OTHERS_V3	BIT_ULL(61)
#define STATUS_OTHERS_V4	(BIT_ULL(58) | BIT_ULL(59) | BIT_ULL(60))

#define IN_USE_PMI		BIT_ULL(63)

/* RDPMC: what kind of counter the lower half of ECX numbers */
#define RDPMC_KIND		0xffff0000
#define RDPMC_FIXED		0x40000000

#define EVENT_INSTRUCTIONS	0xc0
#define EVENT_BRANCHES		0xc4
#define EVENT_CYCLES		0x3c

/* General counters are on at reset, fixed ones aren't. */
static void intel_reset(struct guest_pmu *pmu)
{
	vpmu_guest_set_control(pmu, BIT_ULL(pmu->general) - 1);
}

static struct guest_reg intel_decode(const struct guest_pmu *pmu, u32 msr)
{
	struct guest_reg reg = { GUEST_REG_NONE, 0 };

	/* Unsigned: numbers below the first one are far too big. */
	if (msr - MSR_SELECT0 < pmu->general) {
		reg.kind = GUEST_REG_SELECT;
		reg.index = msr - MSR_SELECT0;
	} else if (msr - MSR_FULL_COUNTER0 < pmu->general) {
		reg.kind = pmu->full_width ? GUEST_REG_COUNTER : GUEST_REG_NONE;
		reg.index = msr - MSR_FULL_COUNTER0;
	} else if (msr - MSR_FIXED_COUNTER0 < pmu->nr - pmu->general) {
		reg.kind = GUEST_REG_COUNTER;
		reg.index = pmu->general + msr - MSR_FIXED_COUNTER0;
	} else if (msr - MSR_COUNTER0 < pmu->general) {
		reg.kind = GUEST_REG_COUNTER_LOW;
		reg.index = msr - MSR_COUNTER0;
	}
	if (reg.kind != GUEST_REG_NONE || pmu->version < 2)
		return reg;

	switch (msr) {
	case MSR_FIXED_CONTROL:
		reg.kind = GUEST_REG_FIXED_CONTROL;
		break;
	case MSR_GLOBAL_STATUS:
		reg.kind = GUEST_REG_STATUS;
		break;
	case MSR_GLOBAL_CONTROL:
		reg.kind = GUEST_REG_CONTROL;
		break;
	case MSR_GLOBAL_STATUS_RESET:
		reg.kind = GUEST_REG_STATUS_CLEAR;
		break;
	case MSR_GLOBAL_STATUS_SET:
		if (pmu->version >= 4)
			reg.kind = GUEST_REG_STATUS_SET;
		break;
	case MSR_GLOBAL_IN_USE:
		if (pmu->version >= 4)
			reg.kind = GUEST_REG_IN_USE;
		break;
	}
	return reg;
}

static int intel_rdpmc(const struct guest_pmu *pmu, u32 index)
{
	u32 n = index & ~RDPMC_KIND;

	switch (index & RDPMC_KIND) {
	case 0:
		return n < pmu->general ? (int)n : -1;
	case RDPMC_FIXED:
		return n < pmu->nr - pmu->general ? (int)(pmu->general + n) : -1;
	default:
		return -1;
	}
}

static u64 intel_reserved(const struct guest_pmu *pmu, struct guest_reg reg)
{
	unsigned int n;
	u64 valid = 0;

	switch (reg.kind) {
	case GUEST_REG_SELECT:
		if (pmu->tsx)
			valid |= GUEST_SELECT_IN_TX;
		if (pmu->tsx && reg.index == 2)
			valid |= GUEST_SELECT_IN_TXCP;
		return SELECT_RESERVED & ~valid;
	case GUEST_REG_COUNTER:
		return ~VPMU_COUNTER_MASK;
	case GUEST_REG_COUNTER_LOW:
		return 0;
	case GUEST_REG_FIXED_CONTROL:
		for (n = 0; n < pmu->nr - pmu->general; n++)
			valid |= FIXED_VALID << n * FIXED_BITS;
		return ~valid;
	case GUEST_REG_CONTROL:
	case GUEST_REG_STATUS_SET:
		return ~vpmu_guest_counter_mask(pmu);
	case GUEST_REG_STATUS_CLEAR:
		valid = vpmu_guest_counter_mask(pmu) | STATUS_OTHERS;
		if (pmu->version >= 3)
			valid |= STATUS_OTHERS_V3;
		if (pmu->version >= 4)
			valid |= STATUS_OTHERS_V4;
		return ~valid;
	case GUEST_REG_STATUS:
	case GUEST_REG_IN_USE:
	case GUEST_REG_NONE:
		break;
	}
	return 0;
}

/* What fixed counters count: SDM vol. 3, "Fixed-function Performance Counters" */
u64 vpmu_guest_fixed_select(u64 control, unsigned int n)
{
	static const u64 events[] = { EVENT_INSTRUCTIONS, EVENT_CYCLES, GUEST_EVENT_REF_CYCLES };
	u64 select;

	control >>= n * FIXED_BITS;
	if (n >= sizeof(events) / sizeof(*events) || !(control & FIXED_VALID))
		return 0;
	select = events[n];
	if (control & FIXED_OS)
		select |= GUEST_SELECT_OS;
	if (control & FIXED_USR)
		select |= GUEST_SELECT_USR;
	if (control & FIXED_PMI)
		select |= GUEST_SELECT_INT;
	if (control & (FIXED_OS | FIXED_USR))
		select |= GUEST_SELECT_EN;
	return select;
}

/* SDM vol. 3, "IA32_PERF_GLOBAL_INUSE MSR" */
u64 vpmu_guest_in_use(const struct guest_pmu *pmu)
{
	u64 in_use = 0;
	unsigned int i;

	for (i = 0; i < pmu->nr; i++) {
		bool used = i < pmu->general ? pmu->select[i] & 0xff
					     : pmu->select[i] & GUEST_SELECT_EN;

		if (used)
			in_use |= vpmu_guest_bit(pmu, i);
		if (vpmu_guest_interrupts(pmu, i))
			in_use |= IN_USE_PMI;
	}
	return in_use;
}

/*
 * The events whose names end with "_RETIRED", by event number: SDM vol. 3, "Performance
 * Monitoring Events" for the architectural ones (C0H, C4H, C5H), Intel's lists for Skylake
 * and Sapphire Rapids for the others.
 */
static bool intel_is_retirement(const struct guest_pmu *pmu, unsigned int i)
{
	switch (pmu->select[i] & 0xff) {
	case 0xc0 ... 0xc2:	/* instructions, assists, micro-operations */
	case 0xc4 ... 0xc9:	/* branches, mispredicted, front end, floating point, TSX */
	case 0xd0 ... 0xd4:	/* loads and stores */
		return true;
	}
	return false;
}

/* Unit mask 1 of C0H is the same with a more precise distribution of samples. */
static enum vpmu_class intel_class(const struct guest_pmu *pmu, unsigned int i)
{
	/* KVM completes nothing in a transaction, as a VM exit aborts that. */
	if (pmu->select[i] & GUEST_SELECT_IN_TX)
		return VPMU_OTHER;
	switch (pmu->select[i] & (GUEST_SELECT_UNIT_MASK | 0xff)) {
	case EVENT_INSTRUCTIONS:
	case EVENT_INSTRUCTIONS | 0x100:
		return VPMU_INSTRUCTION;
	case EVENT_BRANCHES:
		return VPMU_BRANCH;
	default:
		return VPMU_OTHER;
	}
}

static bool intel_hypervisor_event(u64 select)
{
	return (select & 0xff) == KVM_VPMU_EVENT_INTEL;
}

const struct guest_ops vpmu_guest_intel = {
	.reset = intel_reset,
	.decode = intel_decode,
	.by_rdpmc = intel_rdpmc,
	.reserved = intel_reserved,
	.select_bits = ~SELECT_PIN_CONTROL,
	.is_retirement = intel_is_retirement,
	.class = intel_class,
	.hypervisor_event = intel_hypervisor_event,
	.read_only_faults = true,
};
