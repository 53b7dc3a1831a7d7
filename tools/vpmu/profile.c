// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t mapping_size(size_t records)
{
	size_t page = getpagesize(), size = records * sizeof(struct kvm_vpmu_record);

	return page + (size + page - 1) / page * page;
}

int profile_open(struct profile *p, struct device *dev, const struct kvm_vpmu_profile *what)
{
	struct kvm_vpmu_profile copy = *what;
	void *map;
	int fd = dev->call(dev, KVM_VPMU_PROFILE, &copy);

	if (fd < 0)
		return fd;
	map = mmap(NULL, mapping_size(what->records), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		int error = -errno;

		close(fd);
		return error;
	}
	*p = (struct profile){
		.fd = fd, .cpu = what->cpu, .ring = map, .records = what->records,
		.record = (const void *)((const char *)map + getpagesize()),
	};
	return 0;
}

void profile_close(struct profile *p)
{
	munmap(p->ring, mapping_size(p->records));
	close(p->fd);
}

size_t profile_peek(const struct profile *p, const struct kvm_vpmu_record **first)
{
	uint64_t head = __atomic_load_n(&p->ring->head, __ATOMIC_ACQUIRE), tail = p->ring->tail;
	size_t at = tail & (p->records - 1);

	*first = p->record + at;
	return head - tail < p->records - at ? head - tail : p->records - at;
}

void profile_release(struct profile *p, size_t count)
{
	__atomic_store_n(&p->ring->tail, p->ring->tail + count, __ATOMIC_RELEASE);
}

int profile_count(const struct profile *p, struct kvm_vpmu_profile_count *count)
{
	ssize_t got = read(p->fd, count, sizeof(*count));

	if (got < 0)
		return -errno;
	return got == sizeof(*count) ? 0 : -EIO;
}
