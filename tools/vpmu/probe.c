// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

int probe_open(struct probe *p, struct device *dev, const struct kvm_vpmu_probe *what, size_t vcpus)
{
	struct kvm_vpmu_probe copy = *what;
	size_t page = getpagesize();
	int fd = dev->call(dev, KVM_VPMU_PROBE, &copy);
	void *map;

	if (fd < 0)
		return fd;
	*p = (struct probe){
		.fd = fd, .vcpus = vcpus, .words = what->pages / 64, .part = page + what->pages / 4,
	};
	map = mmap(NULL, vcpus * p->part, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		int error = -errno;

		close(fd);
		return error;
	}
	p->map = map;
	return 0;
}

void probe_close(struct probe *p)
{
	munmap((void *)p->map, p->vcpus * p->part);
	close(p->fd);
}

int probe_window(const struct probe *p, uint32_t timeout)
{
	int r = ioctl(p->fd, KVM_VPMU_PROBE_WINDOW, &timeout);

	return r < 0 ? -errno : r;
}

const struct kvm_vpmu_probed *probe_of(const struct probe *p, size_t nth)
{
	return (const void *)(p->map + nth * p->part);
}

const uint64_t *probe_accessed(const struct probe *p, size_t nth)
{
	return (const void *)(p->map + nth * p->part + getpagesize());
}

const uint64_t *probe_written(const struct probe *p, size_t nth)
{
	return probe_accessed(p, nth) + p->words;
}
