// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "stats.h"

static void get(int fd, void *to, size_t size, off_t offset)
{
	if (pread(fd, to, size, offset) != (ssize_t)size)
		err(1, "reading KVM's statistics");
}

uint64_t kvm_stat(const struct vm *vm, const char *name)
{
	int fd = IOCTL(vm->vcpu, KVM_GET_STATS_FD, NULL);
	struct kvm_stats_header header;
	struct kvm_stats_desc *desc;
	uint64_t value = 0;
	bool found = false;
	size_t size;

	get(fd, &header, sizeof(header), 0);
	size = sizeof(*desc) + header.name_size;
	desc = malloc(size);
	if (!desc)
		err(1, "malloc");
	for (uint32_t i = 0; i < header.num_desc && !found; i++) {
		get(fd, desc, size, header.desc_offset + i * size);
		found = !strcmp(desc->name, name);
	}
	if (!found)
		errx(1, "KVM has no statistics of %s", name);
	get(fd, &value, sizeof(value), header.data_offset + desc->offset);
	free(desc);
	close(fd);
	return value;
}

int count_tracepoint(const char *name, const char *filter)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr) };
	char file[100];
	FILE *id;
	int fd;

	snprintf(file, sizeof(file), "/sys/kernel/tracing/events/%s/id", name);
	id = fopen(file, "r");
	if (!id || fscanf(id, "%llu", &attr.config) != 1)
		err(1, "%s", file);
	fclose(id);
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0)
		err(1, "%s", name);
	if (filter)
		IOCTL(fd, PERF_EVENT_IOC_SET_FILTER, (void *)filter);
	return fd;
}
