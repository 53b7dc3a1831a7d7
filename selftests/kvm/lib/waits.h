/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guests that compute, exit and wait, and times.  Include vm.h first. */
#ifndef SELFTESTS_WAITS_H
#define SELFTESTS_WAITS_H

#include "vm.h"

/* ESI times 40,003 instructions, and another OUT */
extern const char spin_start[], spin_end[];
#define SPIN_INSTRUCTIONS(n)	((n) * 40003ull)

/* Load that guest; run it with ESI = @n, up to the OUT. */
void load_spin(struct vm *vm);
void spin(struct vm *vm, uint64_t n);

/* OUTs */
extern const char outs_start[], outs_end[];

/*
 * ESI HLTs, which the APIC's timer ends, a pulse each, and an OUT.  How long all of the HLTs took by
 * the guest's TSC is in EBP: from in front of each to behind it.  The VM has VM_APIC, and
 * prepare_pulses().
 */
#define PULSE_NS	20000000
extern const char pulses_start[], pulses_end[];
void prepare_pulses(struct vm *vm);

/* Ticks of the guest's TSC */
uint64_t ticks(const struct vm *vm, uint64_t ns);

/* ns that this thread was runnable and didn't run: Documentation/scheduler/sched-stats.rst */
uint64_t run_delay(void);

#endif
