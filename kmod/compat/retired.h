/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that KVM calls when it has emulated an instruction or a branch for the guest: one
 * with the event as an argument (then the constants below are defined), or one for each.  Also
 * included by assembly.
 */
#ifndef VPMU_COMPAT_RETIRED_H
#define VPMU_COMPAT_RETIRED_H

#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)

/* enum perf_hw_id */
#define COMPAT_RETIRED_INSTRUCTION_ID	1
#define COMPAT_RETIRED_BRANCH_ID	4
#define COMPAT_RETIRED_BRANCH_ID_INTEL	4

#elif LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)

/* kvm_pmu_eventsel: event selects, AMD's and Intel's; the first is the same */
#define COMPAT_RETIRED_INSTRUCTION_ID	0xc0
#define COMPAT_RETIRED_BRANCH_ID	0xc2
#define COMPAT_RETIRED_BRANCH_ID_INTEL	0xc4

#endif

#endif
