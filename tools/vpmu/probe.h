/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probes of the device: see linux/kvm_vpmu_probe.h. */
#ifndef PROBE_H
#define PROBE_H

#include <linux/kvm_vpmu_probe.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"

/**
 * struct probe - an open one
 * @fd: its file
 * @vcpus: how many vCPUs
 * @words: of each of their sets
 * @part: bytes of a vCPU's part of @map
 * @map: the mapping
 */
struct probe {
	int fd;
	size_t vcpus;
	size_t words;
	size_t part;
	const char *map;
};

/* Open @what of @dev, which finds @vcpus vCPUs.  0 or a negative error number. */
int probe_open(struct probe *probe, struct device *dev, const struct kvm_vpmu_probe *what,
	       size_t vcpus);

void probe_close(struct probe *probe);

/*
 * Have a window, of at most so many ms.  Returns how many vCPUs have had one, or a negative error
 * number.
 */
int probe_window(const struct probe *probe, uint32_t timeout);

/* vCPU @nth's last window, and its sets of accessed and written pages */
const struct kvm_vpmu_probed *probe_of(const struct probe *probe, size_t nth);
const uint64_t *probe_accessed(const struct probe *probe, size_t nth);
const uint64_t *probe_written(const struct probe *probe, size_t nth);

#endif
