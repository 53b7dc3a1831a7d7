/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Physical counters that host perf lends to a guest, from right before a VM entry to right behind
 * the VM exit.  Interrupts are off.
 */
#ifndef VPMU_BORROW_H
#define VPMU_BORROW_H

#include "vpmu.h"

void vpmu_borrow_init(void);
void vpmu_borrow_exit(void);

/*
 * The guest is about to be entered, and has more counters running than host perf leaves free: lend
 * it host perf's for as long as it runs.
 */
void vpmu_borrow(struct vpmu_vcpu *vv);

/*
 * The guest is about to be entered, and no counter of its runs.  Have those of @slots lent, so that
 * it may access all registers of counters and the overflow status (vpmu_cpu.lent_to_open).
 *
 * Return: false if that can't be done; none is lent then.
 */
bool vpmu_borrow_to_open(struct vpmu_vcpu *vv, unsigned long slots);

/* The guest has exited. */
void vpmu_give_back(struct vpmu_vcpu *vv);

/*
 * Give host perf the lent counters back at once.  In the NMI handler, as perf's own comes next and
 * must find its values.
 */
void vpmu_give_back_lent(struct vpmu_cpu *pc);

/*
 * Interrupt this CPU as soon as interrupts are on.  If that is in guest mode, the guest has
 * executed nothing yet.
 */
void vpmu_kick(void);

#endif
