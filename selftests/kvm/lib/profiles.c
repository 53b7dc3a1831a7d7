// SPDX-License-Identifier: GPL-2.0-or-later
#include "profiles.h"
#include "vm.h"

size_t profile_size(uint32_t records)
{
	return getpagesize() + records * sizeof(struct kvm_vpmu_record);
}

struct profile profile_open(int device, struct kvm_vpmu_profile what)
{
	struct profile p = { .nr = what.records };

	p.fd = IOCTL(device, KVM_VPMU_PROFILE, &what);
	p.ring = mmap(NULL, profile_size(p.nr), PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0);
	if (p.ring == MAP_FAILED)
		err(1, "mmap of a profile");
	p.record = (const void *)((const char *)p.ring + getpagesize());
	return p;
}

void profile_close(struct profile *p)
{
	munmap(p->ring, profile_size(p->nr));
	close(p->fd);
}

const struct kvm_vpmu_record *profile_next(struct profile *p)
{
	uint64_t tail = p->ring->tail;

	if (tail == __atomic_load_n(&p->ring->head, __ATOMIC_ACQUIRE))
		return NULL;
	__atomic_store_n(&p->ring->tail, tail + 1, __ATOMIC_RELEASE);
	return &p->record[tail & (p->nr - 1)];
}
