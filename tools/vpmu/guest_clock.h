/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM's TSC, by the host's: what KVM tells in debugfs, which needs root. */
#ifndef GUEST_CLOCK_H
#define GUEST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define GUEST_CLOCK_FOLDER	"/sys/kernel/debug/kvm"

/**
 * struct guest_clock - the guest's TSC is the host's, scaled, and @offset
 * @known: it is so, and was all the time
 * @changed: it was otherwise once
 * @offset: in the guest's ticks
 * @ratio: the guest's ticks for 2^@bits of the host's
 * @bits: see there
 */
struct guest_clock {
	bool known, changed;
	uint64_t offset, ratio;
	unsigned int bits;
};

/*
 * Look at the VM that thread @pid has created, in @folder, and update @clock.  It stays unknown if
 * the vCPUs' TSCs differ, or if that thread has created several VMs.
 */
void guest_clock_look(struct guest_clock *clock, const char *folder, int pid);

/* The guest's TSC when the host's was @tsc.  @clock has to be known. */
uint64_t guest_clock_tsc(const struct guest_clock *clock, uint64_t tsc);

#endif
