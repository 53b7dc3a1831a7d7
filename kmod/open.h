/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Registers that the guest accesses without a VM exit.  Interrupts are off for all of this, and the
 * vCPU is loaded on this CPU.
 */
#ifndef VPMU_OPEN_H
#define VPMU_OPEN_H

#include "vpmu.h"

/* Before vCPUs are attached, and once COMPAT_INIT_OTHER is hooked if that can be done */
void vpmu_open_init(void);

/* A guest that reads counters, and writes no register in between, will probably go on. */
#define VPMU_OPEN_READS		2
/* How many reads later to try again, if they could not be opened */
#define VPMU_OPEN_BACK_OFF	64

/* May the guest's reads of counters that count be open, if each is on its own physical counter? */
bool vpmu_open_may_read(struct vpmu_vcpu *vv);

void __vpmu_open_enter(struct vpmu_vcpu *vv);
void __vpmu_open_enter_counting(struct vpmu_vcpu *vv);

/* A VM entry, which is in the tally: open what may be open. */
static inline void vpmu_open_enter(struct vpmu_vcpu *vv)
{
	if (!vv->guest.control)
		__vpmu_open_enter(vv);
	else if (vv->reads >= VPMU_OPEN_READS)
		__vpmu_open_enter_counting(vv);
}

void __vpmu_open_leave(struct vpmu_vcpu *vv);

/* The VM exit: the guest's accesses exit again, as KVM has it. */
static inline void vpmu_open_leave(struct vpmu_vcpu *vv)
{
	if (vv->granted_any | vv->granted_rdpmc)
		__vpmu_open_leave(vv);
}

void __vpmu_open_take_back(struct vpmu_vcpu *vv);

/*
 * Before a physical counter is started, or somebody looks for the guest's registers elsewhere: the
 * values that are in hardware for the guest to access come back to vpmu_vcpu.guest.
 */
static inline void vpmu_open_take_back(struct vpmu_vcpu *vv)
{
	vv->considered = 0;
	vv->accessed = 0;
	if (vv->open)
		__vpmu_open_take_back(vv);
}

/*
 * Others than core counters, which RDPMC reads as well, are about to count: RDPMC exits from now
 * on, on all CPUs.  Interrupts are on.
 */
void vpmu_open_close_rdpmc(void);

void __vpmu_open_nmi_begins(const struct vpmu_vcpu *vv);
void __vpmu_open_nmi_ends(void);

/*
 * In NMIs, before and after host perf's handler, which would take the guest's overflow status for
 * that of host events.
 */
static inline void vpmu_open_nmi_begins(const struct vpmu_vcpu *vv)
{
	if (unlikely(vv->shown))
		__vpmu_open_nmi_begins(vv);
}

static inline void vpmu_open_nmi_ends(void)
{
	if (unlikely(this_cpu_read(vpmu_cpu.hidden)))
		__vpmu_open_nmi_ends();
}

#endif
