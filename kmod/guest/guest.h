/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The PMU registers that a guest sees: which MSRs exist, which bits a write keeps, which event a
 * counter counts.  No physical counters here.
 *
 *  - guest.c  what all register sets have in common;
 *  - amd.c    AMD's legacy counters, core extension and PerfMonV2;
 *  - intel.c  Intel's architectural performance monitoring.
 *
 * These files are pure and are compiled in user space too.
 */
#ifndef VPMU_GUEST_H
#define VPMU_GUEST_H

#include "../types.h"
#include "../count.h"

enum guest_set {
	GUEST_NONE,		/* no PMU */
	GUEST_AMD_LEGACY,	/* 4 counters, K7 MSRs */
	GUEST_AMD_CORE,		/* 6 counters, core extension */
	GUEST_AMD_V2,		/* PerfMonV2: global control and status */
	GUEST_INTEL,		/* architectural performance monitoring */
};

/*
 * Event selects.  These bits are the same in AMD's and Intel's (APM vol. 2,
 * "Performance Event-Select Registers"; SDM vol. 3, "Architectural Performance
 * Monitoring").
 */
#define GUEST_SELECT_USR	BIT_ULL(16)
#define GUEST_SELECT_OS		BIT_ULL(17)
#define GUEST_SELECT_EDGE	BIT_ULL(18)
#define GUEST_SELECT_INT	BIT_ULL(20)
#define GUEST_SELECT_EN		BIT_ULL(22)
#define GUEST_SELECT_INV	BIT_ULL(23)
#define GUEST_SELECT_CMASK	0xff000000ULL
#define GUEST_SELECT_UNIT_MASK	0x0000ff00ULL

/*
 * AMD family 17h and later: PMCxFFF, Merge, lets the counter before it count more than 15 a
 * cycle; it has no privilege levels (PPR for family 17h, "Large Increment per Cycle Events").
 */
#define GUEST_EVENT_MERGE	0xf000000ffULL

/*
 * The event of Intel's third fixed counter, which no general counter can count: 0300H, as in Linux
 * (ref-cycles in arch/x86/events/intel/core.c), and a bit that is reserved in general counters'
 * selects.
 */
#define GUEST_EVENT_REF_CYCLES	(BIT_ULL(63) | 0x0300)

/* Intel, guests with TSX: SDM vol. 3, "Performance Monitoring and Intel TSX" */
#define GUEST_SELECT_IN_TX	BIT_ULL(32)
#define GUEST_SELECT_IN_TXCP	BIT_ULL(33)	/* of general counter 2 only */

/* AMD's core extension: PerfEvtSel0, then PerfCtr0 (APM vol. 2, "MSR Cross-Reference") */
#define GUEST_AMD_SELECT0	0xc0010200

/* AMD PerfMonV2: PerfCntrGlobalCtl */
#define GUEST_AMD_CONTROL	0xc0000301

/* Bit of the first fixed counter in Intel's global registers */
#define GUEST_FIXED_BIT		32

enum guest_reg_kind {
	GUEST_REG_NONE,		/* not a register of this set: #GP */
	GUEST_REG_SELECT,
	GUEST_REG_COUNTER,
	GUEST_REG_COUNTER_LOW,	/* a write sign-extends 32 bits */
	GUEST_REG_FIXED_CONTROL,	/* the selects of all fixed counters */
	GUEST_REG_STATUS,
	GUEST_REG_CONTROL,
	GUEST_REG_STATUS_CLEAR,
	GUEST_REG_STATUS_SET,
	GUEST_REG_IN_USE,
};

struct guest_reg {
	enum guest_reg_kind kind;
	unsigned int index;	/* of the counter, for SELECT and COUNTER... */
};

/**
 * struct guest_config - the PMU that the guest's CPUID enumerates
 * @set: the register set
 * @general: number of general counters
 * @fixed: number of fixed counters (Intel)
 * @version: of architectural performance monitoring (Intel)
 * @full_width: general counters can be written with all their bits (Intel)
 * @tsx: event selects have IN_TX and IN_TXCP (Intel)
 */
struct guest_config {
	enum guest_set set;
	unsigned int general;
	unsigned int fixed;
	unsigned int version;
	bool full_width;
	bool tsx;
};

struct guest_pmu;

/**
 * struct guest_ops - a vendor's registers
 * @reset: put the registers of @pmu, whose configuration is new, into their reset state
 * @decode: which register, if any, is MSR @msr?
 * @by_rdpmc: which counter does RDPMC read with @index in ECX?  Negative: none, #GP
 * @reserved: bits of a register that #GP if set; NULL if the vendor's CPUs ignore them all
 * @select_bits: the bits that an event select keeps
 * @is_retirement: does counter @i count events at retirement (instructions, branches ...) rather
 *	than the CPU's work (cycles, cache misses ...)?
 * @class: how emulation affects counter @i, whose select has no INV and no CMASK above 1
 * @hypervisor_event: is @select one of the hypervisor's events (KVM_VPMU_EVENT_AMD and _INTEL of
 *	uapi)?
 * @read_only_faults: a write to a read-only register is #GP, and not ignored
 */
struct guest_ops {
	void (*reset)(struct guest_pmu *pmu);
	struct guest_reg (*decode)(const struct guest_pmu *pmu, u32 msr);
	int (*by_rdpmc)(const struct guest_pmu *pmu, u32 index);
	u64 (*reserved)(const struct guest_pmu *pmu, struct guest_reg reg);
	u64 select_bits;
	bool (*is_retirement)(const struct guest_pmu *pmu, unsigned int i);
	enum vpmu_class (*class)(const struct guest_pmu *pmu, unsigned int i);
	bool (*hypervisor_event)(u64 select);
	bool read_only_faults;
};

/**
 * struct guest_pmu - the registers of one vCPU
 * @set: which register set; first, for stubs.S
 * @nr: number of counters, at most VPMU_MAX_COUNTERS; none with GUEST_NONE.
 *	General ones come first, then fixed ones
 * @general: number of general counters
 * @version: as in struct guest_config
 * @full_width: the same
 * @tsx: the same
 * @in_turn: number of the MSRs from GUEST_AMD_SELECT0 on that are selects and counters in turn
 * @ops: the vendor
 * @select: event selects, without reserved bits; those of fixed counters as if they
 *	were general ones
 * @value: counters, 48 bits; valid when not running on a physical counter
 * @control: global control, all counters' bits set where there is none
 * @status: global overflow status, if there is one
 * @fixed_control: Intel's IA32_FIXED_CTR_CTRL
 * @enabled: mask of the counters that are enabled by their select
 * @allowed: mask of those that are by global control
 * @counting: mask of those that both enable
 */
struct guest_pmu {
	enum guest_set set;
	unsigned int nr;
	unsigned int general;
	unsigned int version;
	bool full_width;
	bool tsx;
	unsigned int in_turn;
	const struct guest_ops *ops;
	u64 select[VPMU_MAX_COUNTERS];
	u64 value[VPMU_MAX_COUNTERS];
	u64 control;
	u64 status;
	u64 fixed_control;
	unsigned long enabled;
	unsigned long allowed;
	unsigned long counting;
};

extern const struct guest_ops vpmu_guest_amd;
extern const struct guest_ops vpmu_guest_intel;

/* Give @pmu the registers of @config, in their reset state. */
void vpmu_guest_reset(struct guest_pmu *pmu, const struct guest_config *config);

/* Has @pmu these already? */
bool vpmu_guest_has_config(const struct guest_pmu *pmu, const struct guest_config *config);

/* All counters, as bits of control and status. */
static inline u64 vpmu_guest_counter_mask(const struct guest_pmu *pmu)
{
	return (BIT_ULL(pmu->general) - 1) |
	       (BIT_ULL(pmu->nr - pmu->general) - 1) << GUEST_FIXED_BIT;
}

/* Intel's IA32_PERF_GLOBAL_INUSE */
u64 vpmu_guest_in_use(const struct guest_pmu *pmu);

/* What fixed counter @n (from 0) counts, with @control in Intel's IA32_FIXED_CTR_CTRL. */
u64 vpmu_guest_fixed_select(u64 control, unsigned int n);

/* How emulation affects counter @i */
enum vpmu_class vpmu_guest_class(const struct guest_pmu *pmu, unsigned int i);

/* KVM_VPMU_EVENT_... if counter @i counts one of the hypervisor's events, else negative */
int vpmu_guest_event(const struct guest_pmu *pmu, unsigned int i);

/* Counter @i counts such an event.  Each one twice? */
bool vpmu_guest_event_twice(const struct guest_pmu *pmu, unsigned int i);

/* The privilege levels that it counts in (VPMU_IN_...) */
unsigned int vpmu_guest_filter(const struct guest_pmu *pmu, unsigned int i);

/*
 * Does counter @i count the CPU's work?  In freeze mode "hybrid" that continues while KVM works for
 * the guest.
 */
bool vpmu_guest_speculative(const struct guest_pmu *pmu, unsigned int i);

static inline struct guest_reg vpmu_guest_decode(const struct guest_pmu *pmu, u32 msr)
{
	return pmu->ops->decode(pmu, msr);
}

/* Counter @i's bit in control and status */
static inline u64 vpmu_guest_bit(const struct guest_pmu *pmu, unsigned int i)
{
	return i < pmu->general ? BIT_ULL(i) : BIT_ULL(GUEST_FIXED_BIT + i - pmu->general);
}

static inline bool vpmu_guest_has_status(const struct guest_pmu *pmu)
{
	return pmu->set >= GUEST_AMD_V2;
}

/* Does counter @i run? */
static inline bool vpmu_guest_counting(const struct guest_pmu *pmu, unsigned int i)
{
	return pmu->counting & BIT(i);
}

/* Change global control to @control, which has no bits besides counters'. */
static inline void vpmu_guest_set_control(struct guest_pmu *pmu, u64 control)
{
	u64 general = BIT_ULL(pmu->general) - 1;

	pmu->control = control;
	pmu->allowed = (control & general) | control >> GUEST_FIXED_BIT << pmu->general;
	pmu->counting = pmu->enabled & pmu->allowed;
}

/* Change counter @i's select to @select. */
static inline void vpmu_guest_set_select(struct guest_pmu *pmu, unsigned int i, u64 select)
{
	pmu->select[i] = select;
	if ((select & GUEST_SELECT_EN) &&
	    ((select & (GUEST_SELECT_USR | GUEST_SELECT_OS)) ||
	     (select & GUEST_EVENT_MERGE) == GUEST_EVENT_MERGE))
		pmu->enabled |= BIT(i);
	else
		pmu->enabled &= ~BIT(i);
	pmu->counting = pmu->enabled & pmu->allowed;
}

/* Does an overflow of counter @i cause an interrupt? */
static inline bool vpmu_guest_interrupts(const struct guest_pmu *pmu, unsigned int i)
{
	return pmu->select[i] & GUEST_SELECT_INT;
}

#endif
