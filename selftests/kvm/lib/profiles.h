/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Profiles of a CPU by the module: linux/kvm_vpmu_profile.h. */
#ifndef SELFTESTS_PROFILES_H
#define SELFTESTS_PROFILES_H

#include <stddef.h>
#include <stdint.h>

#include <linux/kvm_vpmu_profile.h>

struct profile {
	int fd;
	struct kvm_vpmu_ring *ring;
	const struct kvm_vpmu_record *record;
	uint32_t nr;
};

/* Bytes to map, for a ring of that many */
size_t profile_size(uint32_t records);

/* So many samples a second, as text, before host perf pauses an event until the next tick */
#define PROFILE_NO_LIMIT	"1000000"
void profile_limit(const char *samples);

/* Host perf pauses no event until the test ends, however busy the emulator's host is. */
void profile_unthrottle(void);

/* The module knows KVM's structures once a vCPU has run while somebody looks. */
void profile_warm_up(int device);

struct profile profile_open(int device, struct kvm_vpmu_profile what);
void profile_close(struct profile *p);

/* The next record, or NULL */
const struct kvm_vpmu_record *profile_next(struct profile *p);

#endif
