// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What comes and goes leaves nothing in the kernel's heap: VMs with their vCPUs, openers of the device,
 * and, with "unload", the module.  That comes last: the host is without the module then.  TAP.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/kvm.h>
#include <linux/kvm_vpmu_probe.h>
#include <linux/perf_event.h>

#include "tap.h"
#include "choices.h"
#include "events.h"
#include "vm.h"

/* A leak is as many objects.  Others of the kernel come and go, too, some tens per size. */
#define ROUNDS		1000
#define MAX_CACHES	512

static int device;

/* The slab allocator's caches for kmalloc(): Documentation/ABI/testing/sysfs-kernel-slab */
static glob_t caches;

struct heap {
	int64_t objects[MAX_CACHES];
};

static void find_caches(void)
{
	if (glob("/sys/kernel/slab/kmalloc-*", 0, NULL, &caches) || caches.gl_pathc > MAX_CACHES)
		skip_all("this kernel doesn't tell how many objects are in its heap");
}

static int open_file(const char *cache, const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", cache, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

/* Objects of each size; what CPUs have set aside for themselves isn't told apart, so they give it back. */
static struct heap look(void)
{
	struct heap heap = { };

	/* VMs' ends are in the background, in part. */
	sleep(2);
	for (size_t i = 0; i < caches.gl_pathc; i++) {
		int shrink = open_file(caches.gl_pathv[i], "shrink", O_WRONLY);
		int objects = open_file(caches.gl_pathv[i], "objects", O_RDONLY);
		char text[128] = "";

		if (write(shrink, "1", 1) != 1 || read(objects, text, sizeof(text) - 1) < 1)
			err(1, "%s", caches.gl_pathv[i]);
		heap.objects[i] = strtoll(text, NULL, 0);
		close(shrink);
		close(objects);
	}
	return heap;
}

static void come_and_go(void)
{
	int vm = new_vm();

	close(new_vcpu(vm, 0));
	close(vm);
}

static void must_choose(int vm, uint32_t attach)
{
	if (choose(device, vm, attach))
		err(1, "KVM_VPMU_ATTACH");
}

/* One that changes its mind, and leaves the VM as it is */
static void choose_and_go(void)
{
	int vm = new_vm();

	must_choose(vm, KVM_VPMU_ATTACH_NO);
	must_choose(vm, KVM_VPMU_ATTACH_YES);
	must_choose(vm, KVM_VPMU_ATTACH_DEFAULT);
	must_choose(vm, KVM_VPMU_ATTACH_NO);
	close(vm);
}

static struct vm observed;

static void open_and_go(void)
{
	int fd = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		err(1, "/dev/kvm-vpmu");
	observe(fd, &observed);
	close(fd);
}

/* Of a VM that is closed before the probe */
static void probe_and_go(void)
{
	struct kvm_vpmu_probe what = {
		.nr = 1, .events = 1, .type = { PERF_TYPE_HARDWARE }, .config = { PERF_COUNT_HW_INSTRUCTIONS },
		.period = 1000000, .pages = KVM_VPMU_PROBE_PAGES,
	};
	uint32_t timeout = 0;
	int vm = new_vm(), probe;

	close(new_vcpu(vm, 0));
	what.fd = vm;
	probe = IOCTL(device, KVM_VPMU_PROBE, &what);
	close(vm);
	IOCTL(probe, KVM_VPMU_PROBE_WINDOW, &timeout);
	close(probe);
}

static void check_growth(const struct heap *before, const char *what)
{
	struct heap after = look();
	unsigned int grown = 0;

	for (size_t i = 0; i < caches.gl_pathc; i++) {
		int64_t growth = after.objects[i] - before->objects[i];

		if (growth <= ROUNDS / 2)
			continue;
		grown++;
		printf("# %s: %" PRId64 " more\n", strrchr(caches.gl_pathv[i], '/') + 1, growth);
	}
	is(grown, 0, "%u times %s: sizes of which there are many more objects", ROUNDS, what);
}

static void repeat(void (*what)(void), const char *name)
{
	struct heap before;

	what();
	before = look();
	for (unsigned int i = 0; i < ROUNDS; i++)
		what();
	check_growth(&before, name);
}

/* What the module keeps of VMs goes with the module, not with them. */
static void unload(void)
{
	struct rlimit files = { 2 * ROUNDS, 2 * ROUNDS };
	struct heap before, after;
	bool freed = false;

	if (setrlimit(RLIMIT_NOFILE, &files))
		err(1, "RLIMIT_NOFILE");
	for (unsigned int i = 0; i < ROUNDS; i++)
		must_choose(new_vm(), KVM_VPMU_ATTACH_NO);
	close(device);
	before = look();
	if (syscall(SYS_delete_module, "kvm_vpmu", 0))
		err(1, "delete_module");
	after = look();
	for (size_t i = 0; i < caches.gl_pathc; i++)
		freed |= before.objects[i] - after.objects[i] > ROUNDS / 2;
	check(freed, "unloaded with %u choices for VMs: these are freed", ROUNDS);
}

int main(int argc, char **argv)
{
	find_caches();
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	repeat(come_and_go, "a VM with a vCPU");
	repeat(choose_and_go, "a VM with a choice");
	observed = make_vm(true);
	repeat(open_and_go, "an observer");
	free_vm(&observed);
	repeat(probe_and_go, "a probe");
	if (argc > 1 && !strcmp(argv[1], "unload"))
		unload();
	return finish();
}
