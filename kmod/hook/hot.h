/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offsets for stubs.S of the first members of struct vpmu_vcpu (vpmu.h): struct vpmu_hot and struct
 * guest_pmu.  table.c checks them.
 */
#ifndef VPMU_HOT_H
#define VPMU_HOT_H

#define HOT_VCPU	0
#define HOT_PENDING	8
#define HOT_SLOW	12
#define HOT_WATCH	16
#define HOT_MSR_LIST_VALID	20
#define HOT_EMULATED	24
#define HOT_MARGIN	32
#define GUEST_SET	40

/* Bits of vpmu_hot.pending: BIT(enum vpmu_class) */
#define HOT_PENDING_INSTRUCTION	2
#define HOT_PENDING_BRANCH		4

#endif
