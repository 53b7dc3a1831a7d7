// SPDX-License-Identifier: GPL-2.0-or-later
#include "profiles.h"
#include "files.h"
#include "vm.h"
#include "waits.h"

#define PERCENT	"/proc/sys/kernel/perf_cpu_time_max_percent"
#define RATE	"/proc/sys/kernel/perf_event_max_sample_rate"

static char percent[32], rate[32];

static void get_string(const char *path, char *to, size_t size)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(to, size, file))
		err(1, "%s", path);
	fclose(file);
}

/* The rate can't be set while the other is 0 or 100. */
static void throttle_again(void)
{
	put_string(PERCENT, "99");
	put_string(RATE, rate);
	put_string(PERCENT, percent);
}

void profile_limit(const char *samples)
{
	put_string(PERCENT, "99");
	put_string(RATE, samples);
	put_string(PERCENT, "0");
}

void profile_unthrottle(void)
{
	get_string(PERCENT, percent, sizeof(percent));
	get_string(RATE, rate, sizeof(rate));
	atexit(throttle_again);
	profile_limit(PROFILE_NO_LIMIT);
}

void profile_warm_up(int device)
{
	struct kvm_vpmu_profile what = {
		.flags = KVM_VPMU_PROFILE_SWITCHES, .records = KVM_VPMU_PROFILE_MIN_RECORDS,
		.fd = -1,
	};
	struct vm vm = make_vm(true);
	struct profile p = profile_open(device, what);

	load_spin(&vm);
	spin(&vm, 1);
	spin(&vm, 1);
	profile_close(&p);
	free_vm(&vm);
}

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
