/* SPDX-License-Identifier: GPL-2.0 */
/* Host perf starts or stops an event on this CPU, where a vCPU may be loaded. */
#ifndef VPMU_HOST_PERF_H
#define VPMU_HOST_PERF_H

#include "vpmu.h"

/*
 * Host perf is about to use the physical counters from @first to @last.  Host perf doesn't know of
 * guests, so a guest's counters move.
 */
void vpmu_host_evict(unsigned int first, unsigned int last);

/*
 * Host perf stopped the event on physical counter @slot, and will (@saved) or won't want the
 * counter's value later.  Safe in NMIs.
 */
void vpmu_host_count_saved(unsigned int slot, bool saved);

/*
 * Host perf starts or stops an event on some counter, one of ours or not (topdown metrics, say).
 * What host perf writes for that, later, may be shared with guests' counters.  Safe in NMIs.
 */
void vpmu_host_changed(void);

/* Write the registers that are shared with host perf as the guest's counters need them. */
void vpmu_host_reassert(struct vpmu_vcpu *vv);

#endif
