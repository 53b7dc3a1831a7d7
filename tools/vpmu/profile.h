/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Profiles of the device, one for each CPU: see linux/kvm_vpmu_profile.h. */
#ifndef PROFILE_H
#define PROFILE_H

#include <linux/kvm_vpmu_profile.h>
#include <stddef.h>

#include "device.h"

/**
 * struct profile - an open one
 * @fd: its file
 * @cpu: of which CPU
 * @ring: what the module tells
 * @record: the ring's records
 * @records: how many of these the ring has
 */
struct profile {
	int fd;
	unsigned int cpu;
	struct kvm_vpmu_ring *ring;
	const struct kvm_vpmu_record *record;
	size_t records;
};

/* Open @what of @dev.  0 or a negative error number. */
int profile_open(struct profile *profile, struct device *dev, const struct kvm_vpmu_profile *what);

void profile_close(struct profile *profile);

/*
 * Records that weren't read yet, as far as they are in one piece: *@first is an array of as many as
 * is returned.  profile_release() gives that many back to the module.
 */
size_t profile_peek(const struct profile *profile, const struct kvm_vpmu_record **first);
void profile_release(struct profile *profile, size_t count);

/* What was counted, and the times of a loaded vCPU up to now.  0 or a negative error number. */
int profile_count(const struct profile *profile, struct kvm_vpmu_profile_count *count);

#endif
