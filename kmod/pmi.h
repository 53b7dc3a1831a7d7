/* SPDX-License-Identifier: GPL-2.0 */
/* From a physical counter's overflow to the guest's interrupt. */
#ifndef VPMU_PMI_H
#define VPMU_PMI_H

#include "vpmu.h"

/*
 * In each NMI, before and behind host perf's handler, which reports overflows that it doesn't know.
 * @for_host: whether that handler is to be called.  Not if a guest's overflows are all that the
 *	status register has: an overflow behind this has an NMI of its own.  Where the local APIC
 *	masks its entry, the handler has more to do.
 *
 * Return: how many overflows were a guest's, in addition to what perf's handler returns
 */
int vpmu_pmi_nmi_begins(const struct pt_regs *regs, bool *for_host);
void vpmu_pmi_nmi_ends(void);

/* KVM_REQ_PMU, before a VM entry: the NMI handler saw an overflow, or settings have changed. */
void vpmu_pmi_handle(struct vpmu_vcpu *vv);

/*
 * KVM has emulated the guest's HLT, and the vCPU is about to sleep.  A counter may have overflowed
 * at the HLT.  The physical one would overflow at the next VM entry only, and the interrupt has to
 * wake the vCPU.
 */
void vpmu_pmi_before_halt(struct vpmu_vcpu *vv);

/*
 * The vCPU is put, and its counters are off.  If the thread returns to userspace, that may save the
 * vCPU's state for good.  KVM reports a pending interrupt to userspace, but not a request, so the
 * interrupt is delivered now.  A thread that is only switched out (interrupts are off then, and the
 * run queue is locked) keeps the request.
 */
void vpmu_pmi_put(struct vpmu_vcpu *vv);

#endif
