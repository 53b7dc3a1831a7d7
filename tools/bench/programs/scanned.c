// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs to look at a vCPU's page tables (KVM_VPMU_PROBE).  By the emulator's oracle.
 *
 *	scanned
 *
 * Prints one line "NAME VALUE" each, of a window, which has two looks: the host's instructions with
 * FEW and with MANY pages mapped besides the guest's own, and the share of one page in one look.
 * The guest accesses few of these pages.  Linux 6.11 and later.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <linux/kvm_vpmu_probe.h>
#include <linux/perf_event.h>

#include "vm.h"
#include "pages.h"
#include "pin.h"
#include "oracle.h"
#include "cost.h"

#define FEW	960
#define MANY	40960
/* Where they are; the guest's own are below. */
#define FIRST	4096
#define RUNS	10
/* In ms: much longer than a window takes */
#define LONG	20000

static const struct work work = { 32, 40, 100, 30, 0 };

static void map_pages(struct vm *vm, uint64_t nr)
{
	struct kvm_userspace_memory_region region = {
		.slot = 7, .guest_phys_addr = FIRST * PAGE, .memory_size = nr * PAGE,
	};
	struct kvm_pre_fault_memory what = { .gpa = region.guest_phys_addr, .size = region.memory_size };
	void *memory = mmap(NULL, nr * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		err(1, "mmap");
	region.userspace_addr = (uintptr_t)memory;
	IOCTL(vm->fd, KVM_SET_USER_MEMORY_REGION, &region);
	while (what.size)
		IOCTL(vm->vcpu, KVM_PRE_FAULT_MEMORY, &what);
}

static uint64_t window(int msr, int probe)
{
	struct cost before, after;
	uint32_t timeout = LONG;

	read_cost(msr, &before);
	if (IOCTL(probe, KVM_VPMU_PROBE_WINDOW, &timeout) != 1)
		errx(1, "no window");
	read_cost(msr, &after);
	subtract_cost(&after, &before);
	return after.count[INSTRUCTIONS][HOST_KERNEL];
}

/* The host's instructions in the window that the timer disturbs least */
static uint64_t cost_with(int msr, int device, uint64_t pages)
{
	struct kvm_vpmu_probe what = {
		.nr = 1, .events = 1, .period = 200000, .pages = 2 * KVM_VPMU_PROBE_PAGES,
		.type = { PERF_TYPE_HARDWARE }, .config = { PERF_COUNT_HW_INSTRUCTIONS },
	};
	struct worker worker[2];
	uint64_t least = UINT64_MAX;
	int probe;

	make_workers(worker);
	what.fd = worker[0].vm.fd;
	probe = IOCTL(device, KVM_VPMU_PROBE, &what);
	map_pages(&worker[0].vm, pages);
	begin_work(&worker[0], work);
	/* The first one finds all pages accessed, as KVM maps them. */
	window(msr, probe);
	for (unsigned int i = 0; i < RUNS; i++) {
		uint64_t cost = window(msr, probe);

		if (cost < least)
			least = cost;
	}
	end_work(&worker[0]);
	close(probe);
	free_workers(worker);
	return least;
}

int main(void)
{
	int msr, device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	uint64_t few, many;

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	pin(0, 0);
	msr = open_oracle(0);
	few = cost_with(msr, device, FEW);
	many = cost_with(msr, device, MANY);
	printf("few %llu\nmany %llu\npage %.2f\n", (unsigned long long)few, (unsigned long long)many,
	       (double)(many - few) / (MANY - FEW) / 2);
	return 0;
}
