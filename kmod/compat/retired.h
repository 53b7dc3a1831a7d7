/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kvm_pmu_trigger_event() gets the event that KVM has emulated: an event select, AMD's or Intel's,
 * or in Linux before 6.9 a number of enum perf_hw_id.  None of these is another's.  Later kernels
 * have a function for each event instead.  Also included by assembly.
 */
#ifndef VPMU_COMPAT_RETIRED_H
#define VPMU_COMPAT_RETIRED_H

#define COMPAT_RETIRED_INSTRUCTION		0xc0
#define COMPAT_RETIRED_INSTRUCTION_PERF		1
#define COMPAT_RETIRED_BRANCH_AMD		0xc2
#define COMPAT_RETIRED_BRANCH_INTEL		0xc4
#define COMPAT_RETIRED_BRANCH_PERF		4

#endif
