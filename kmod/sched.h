/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Guest counters scheduled onto physical ones, from vcpu_load to vcpu_put.  The functions that take
 * counters are called with interrupts off, on the CPU that the vCPU is loaded on.
 */
#ifndef VPMU_SCHED_H
#define VPMU_SCHED_H

#include "vpmu.h"

/* The vCPU is loaded on this CPU, or about to be put. */
void vpmu_sched_load(struct vpmu_vcpu *vv);
void vpmu_sched_put(struct vpmu_vcpu *vv);

/**
 * vpmu_sched_start() - start guest counters that aren't running
 * @vv: the vCPU; nothing happens unless it is loaded
 * @mask: mask of guest counters, which the guest has enabled
 * @arming: what KVM is about to do; an instruction that it completes counts
 */
void vpmu_sched_start(struct vpmu_vcpu *vv, unsigned long mask, enum vpmu_arming arming);

/*
 * The guest reads counters in a row, and KVM completes the instruction: move those that count to
 * the physical counters of the same number, where these are free, as open.c wants.  Values are up
 * to date then: physical counters that have counted something since can fall back by as much.
 */
void vpmu_sched_prepare_reads(struct vpmu_vcpu *vv);

/* Stop those guest counters of @mask that are running. */
void vpmu_sched_stop(struct vpmu_vcpu *vv, unsigned long mask);

/* The guest's event select @i becomes @select. */
void vpmu_sched_set_select(struct vpmu_vcpu *vv, unsigned int i, u64 select,
			   enum vpmu_arming arming);

/* Settings may have changed while counters run: the freeze mode, the event filter. */
void vpmu_sched_apply_settings(struct vpmu_vcpu *vv);

/* After a counter was started or stopped: does the vCPU have running counters now (vpmu_hot)? */
void vpmu_sched_update_hot(struct vpmu_vcpu *vv);

/*
 * The guest has accessed PMU registers: look at the coming VM exits (fast.c), as more accesses are
 * likely.
 */
void vpmu_sched_watch(struct vpmu_vcpu *vv);

/* No more.  Interrupts are off, and the vCPU is loaded on this CPU. */
void vpmu_sched_unwatch(struct vpmu_vcpu *vv);

/* Bring all counters and their times up to date. */
void vpmu_sched_update_all(struct vpmu_vcpu *vv);

#endif
