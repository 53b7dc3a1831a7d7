// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * /dev/kvm-vpmu: what it answers, and that whatever is asked of it changes
 * nothing that it shouldn't.  TAP.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/kvm.h>
#include <linux/kvm_vpmu.h>
#include <linux/userfaultfd.h>

#include "files.h"
#include "pin.h"
#include "tap.h"

static int device;

/* An ioctl that must fail with @error. */
static void refuses(unsigned long request, void *arg, int error, const char *what)
{
	int got = ioctl(device, request, arg) ? errno : 0;

	check(got == error, "%s", what);
	if (got != error)
		printf("# errno %d (%s), expected %d\n", got, strerror(got), error);
}

struct vm {
	int fd, vcpu;
};

static struct vm make_vm(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	struct vm vm;

	if (kvm < 0)
		err(1, "/dev/kvm");
	vm.fd = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm.fd < 0)
		err(1, "KVM_CREATE_VM");
	vm.vcpu = ioctl(vm.fd, KVM_CREATE_VCPU, 0);
	if (vm.vcpu < 0)
		err(1, "KVM_CREATE_VCPU");
	close(kvm);
	return vm;
}

static void free_vm(struct vm vm)
{
	close(vm.vcpu);
	close(vm.fd);
}

/* This process's only VM, as the device lists it. */
static bool find(struct kvm_vpmu_vm *vm)
{
	struct kvm_vpmu_vm all[64];
	struct kvm_vpmu_vms list = { .vms = (uintptr_t)all, .room = 64 };

	if (ioctl(device, KVM_VPMU_GET_VMS, &list))
		err(1, "KVM_VPMU_GET_VMS");
	for (unsigned int i = 0; i < list.count && i < 64; i++) {
		if (all[i].pid == getpid()) {
			*vm = all[i];
			return true;
		}
	}
	return false;
}

static void info(void)
{
	struct kvm_vpmu_info info;

	memset(&info, 0xff, sizeof(info));
	check(!ioctl(device, KVM_VPMU_GET_INFO, &info), "info");
	check(info.abi == KVM_VPMU_ABI, "info: ABI");
	check(info.counters >= 4 && info.counters <= KVM_VPMU_COUNTERS, "info: counters");
	check(memchr(info.hardware, 0, sizeof(info.hardware)) && info.hardware[0],
	      "info: name of the hardware");
	check(!info.reserved, "info: reserved field");
}

static void requests(void)
{
	struct kvm_vpmu_info info;
	char *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	refuses(_IO(KVM_VPMU_IOC, 99), NULL, ENOTTY, "an unknown request");
	refuses(_IOR(KVM_VPMU_IOC, 0, char[8]), &info, ENOTTY, "a structure too small");
	refuses(_IOR(KVM_VPMU_IOC, 0, char[4096]), &info, ENOTTY, "a structure too large");
	refuses(_IO(0xae, 0), NULL, ENOTTY, "KVM's own request");
	refuses(KVM_VPMU_GET_INFO, hole, EFAULT, "info: an address that isn't there");
	refuses(KVM_VPMU_GET_VMS, hole, EFAULT, "list: the same");
	refuses(KVM_VPMU_SET, hole, EFAULT, "set: the same");
	refuses(KVM_VPMU_GET_VCPU, hole, EFAULT, "vCPU: the same");
	refuses(KVM_VPMU_GET_EVENTS, hole, EFAULT, "events: the same");
	refuses(KVM_VPMU_GET_VM, hole, EFAULT, "VM of a file: the same");
	refuses(KVM_VPMU_GET_INFO, (void *)0xffff800000000000, EFAULT,
		"info: an address of the kernel's");
	munmap(hole, 4096);
}

static void lists(void)
{
	struct kvm_vpmu_vms list = { .room = 0 };
	struct kvm_vpmu_vm before, vm;
	struct vm one = make_vm();

	check(!ioctl(device, KVM_VPMU_GET_VMS, &list) && list.count >= 1,
	      "list: without room it counts");
	list = (struct kvm_vpmu_vms){ .vms = 8, .room = 1000000 };
	refuses(KVM_VPMU_GET_VMS, &list, EFAULT, "list: room that isn't there");
	check(find(&vm), "list: a VM with a vCPU is there");
	check(vm.vcpus == 1 && vm.freeze == KVM_VPMU_FREEZE_HYBRID &&
	      vm.tsc == KVM_VPMU_TSC_WALL && !vm.reserved, "list: what it tells");
	before = vm;
	free_vm(one);
	check(!find(&vm), "list: it goes with the VM");
	one = make_vm();
	check(find(&vm) && vm.id > before.id, "list: its number isn't used again");
	free_vm(one);
}

static void bad_settings(void)
{
	struct vm one = make_vm();
	struct kvm_vpmu_settings s;
	struct kvm_vpmu_vm before, after;
	int event = eventfd(0, 0), kvm = open("/dev/kvm", O_RDWR);

	if (!find(&before))
		errx(1, "the VM isn't listed");
	const struct kvm_vpmu_settings good = {
		.id = before.id, .fd = -1,
		.fields = KVM_VPMU_SET_FREEZE | KVM_VPMU_SET_TSC,
		.freeze = KVM_VPMU_FREEZE_GUEST, .tsc = KVM_VPMU_TSC_VCPU,
	};

#define REFUSES(change, error, what)				\
	do {							\
		s = good;					\
		change;						\
		refuses(KVM_VPMU_SET, &s, error, "set: " what);	\
	} while (0)

	REFUSES(s.reserved = 1, EINVAL, "a reserved field");
	REFUSES(s.fields = 8, EINVAL, "an unknown field");
	REFUSES(s.fields = ~0u, EINVAL, "all fields");
	REFUSES(s.freeze = 3, EINVAL, "a freeze mode that isn't one");
	REFUSES(s.tsc = 2, EINVAL, "a TSC that isn't one");
	REFUSES(s.id = ~0ull, ENOENT, "a VM that isn't there");
	REFUSES(s.fd = one.fd, EINVAL, "a VM named twice");
	REFUSES(s.id = 0, EINVAL, "no VM named");
	REFUSES((s.id = 0, s.fd = 999), EBADF, "a file that isn't open");
	REFUSES((s.id = 0, s.fd = event), EINVAL, "an eventfd as VM");
	REFUSES((s.id = 0, s.fd = kvm), EINVAL, "/dev/kvm as VM");
	REFUSES((s.id = 0, s.fd = one.vcpu), EINVAL, "a vCPU as VM");
	REFUSES((s.id = 0, s.fd = device), EINVAL, "the device as VM");
#undef REFUSES
	check(find(&after) && !memcmp(&before, &after, sizeof(after)),
	      "set: nothing of it changed anything");

	s = good;
	check(!ioctl(device, KVM_VPMU_SET, &s), "set: good settings");
	check(find(&after) && after.freeze == KVM_VPMU_FREEZE_GUEST &&
	      after.tsc == KVM_VPMU_TSC_VCPU, "set: they are listed");
	s.id = 0;
	s.fd = one.fd;
	s.fields = KVM_VPMU_SET_FREEZE;
	s.freeze = KVM_VPMU_FREEZE_VCPU;
	s.tsc = 77;
	check(!ioctl(device, KVM_VPMU_SET, &s), "set: by file, a field that isn't set may be anything");
	check(find(&after) && after.freeze == KVM_VPMU_FREEZE_VCPU &&
	      after.tsc == KVM_VPMU_TSC_VCPU, "set: it changes only its field");

	close(one.vcpu);
	check(!ioctl(device, KVM_VPMU_SET, &s), "set: a VM whose vCPU's file is closed");
	close(one.fd);
	s.id = before.id;
	s.fd = -1;
	refuses(KVM_VPMU_SET, &s, ENOENT, "set: a closed VM");
	close(event);
	close(kvm);
}

static void by_fd(void)
{
	struct kvm_vpmu_vm_of_fd of = { .fd = -1 };
	struct vm one = make_vm(), two = make_vm();
	struct kvm_vpmu_vm vm;
	int event = eventfd(0, 0), kvm = open("/dev/kvm", O_RDWR);
	int empty = ioctl(kvm, KVM_CREATE_VM, 0);

#define REFUSES(file, error, what)				\
	do {							\
		of.fd = file;					\
		refuses(KVM_VPMU_GET_VM, &of, error, "VM of a file: " what);	\
	} while (0)

	REFUSES(-1, EBADF, "none");
	REFUSES(999, EBADF, "one that isn't open");
	REFUSES(event, EINVAL, "an eventfd");
	REFUSES(kvm, EINVAL, "/dev/kvm");
	REFUSES(one.vcpu, EINVAL, "a vCPU");
	REFUSES(device, EINVAL, "the device");
	REFUSES(empty, ENOENT, "a VM without a vCPU");
	of.reserved = 1;
	REFUSES(one.fd, EINVAL, "a reserved field");
	of.reserved = 0;
	of.vm.reserved = 1;
	REFUSES(one.fd, EINVAL, "a reserved field of the VM");
	of.vm.reserved = 0;
#undef REFUSES
	check(!of.vm.id && !of.vm.pid, "VM of a file: refused, it tells nothing");

	free_vm(two);
	of.fd = one.fd;
	check(!ioctl(device, KVM_VPMU_GET_VM, &of) && find(&vm) && !memcmp(&of.vm, &vm, sizeof(vm)),
	      "VM of a file: the same as listed");
	close(one.vcpu);
	check(!ioctl(device, KVM_VPMU_GET_VM, &of) && of.vm.id == vm.id,
	      "VM of a file: the vCPU's is closed");
	close(one.fd);
	close(empty);
	close(event);
	close(kvm);
}

static void vcpus(void)
{
	struct vm one = make_vm();
	struct kvm_vpmu_vm vm;
	struct kvm_vpmu_vcpu v, numbered;

	if (!find(&vm))
		errx(1, "the VM isn't listed");
	v = (struct kvm_vpmu_vcpu){ .vm = vm.id, .exits = 5, .anomalies = 5, .vcpu_id = 5,
				    .counter[KVM_VPMU_COUNTERS - 1].value = 5 };
	check(!ioctl(device, KVM_VPMU_GET_VCPU, &v), "vCPU: there");
	check(v.vcpu_id == 0 && !v.exits && !v.overflows && !v.anomalies &&
	      !v.tid && !v.counter[KVM_VPMU_COUNTERS - 1].value,
	      "vCPU: nothing happened yet");
	numbered = v;
	numbered.vm = 0;
	numbered.fd = one.fd;
	v = (struct kvm_vpmu_vcpu){ .fd = one.fd, .vcpu_id = 5, .exits = 5 };
	check(!ioctl(device, KVM_VPMU_GET_VCPU, &v) && !memcmp(&v, &numbered, sizeof(v)),
	      "vCPU: the same by its VM's file");

#define REFUSES(error, what, ...)					\
	do {								\
		v = (struct kvm_vpmu_vcpu){ __VA_ARGS__ };		\
		refuses(KVM_VPMU_GET_VCPU, &v, error, "vCPU: " what);	\
	} while (0)

	REFUSES(EINVAL, "of a VM named twice",
		.vm = vm.id, .fd = one.fd);
	REFUSES(EBADF, "of no file",
		.fd = -1);
	REFUSES(EBADF, "of a file that isn't open",
		.fd = 999);
	REFUSES(EINVAL, "of the device as VM",
		.fd = device);
	REFUSES(EINVAL, "of a vCPU as VM",
		.fd = one.vcpu);
	REFUSES(ENOENT, "the second of one, by file",
		.fd = one.fd, .index = 1);
	REFUSES(EINVAL, "a reserved field",
		.vm = vm.id, .tid = 1);
	REFUSES(EINVAL, "a counter's reserved field",
		.vm = vm.id, .counter[15].reserved = 1);
	REFUSES(EINVAL, "a counter's last reserved field",
		.vm = vm.id, .counter[15].reserved2[1] = 1);
#undef REFUSES
	v = (struct kvm_vpmu_vcpu){ .vm = vm.id, .index = 1 };
	refuses(KVM_VPMU_GET_VCPU, &v, ENOENT, "vCPU: the second of one");
	v = (struct kvm_vpmu_vcpu){ .vm = vm.id, .index = ~0u };
	refuses(KVM_VPMU_GET_VCPU, &v, ENOENT, "vCPU: the last one there could be");
	v = (struct kvm_vpmu_vcpu){ .vm = ~0ull };
	refuses(KVM_VPMU_GET_VCPU, &v, ENOENT, "vCPU: of no VM");
	free_vm(one);
}

/* As somebody who may not open it. */
static void unprivileged(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (setgid(65534) || setuid(65534))
			_exit(2);
		_exit(open("/dev/kvm-vpmu", O_RDWR) < 0 && errno == EACCES ? 0 : 1);
	}
	check(waitpid(child, &status, 0) == child && !status, "nobody may not open it");
}

static atomic_bool stop;

static void *look(void *unused)
{
	struct kvm_vpmu_vm all[64];

	while (!stop) {
		struct kvm_vpmu_vms list = { .vms = (uintptr_t)all, .room = 64 };

		if (ioctl(device, KVM_VPMU_GET_VMS, &list))
			return (void *)1;
		for (unsigned int i = 0; i < list.count && i < 64; i++) {
			struct kvm_vpmu_vcpu v = { .vm = all[i].id };
			struct kvm_vpmu_settings s = {
				.id = all[i].id, .fd = -1,
				.fields = KVM_VPMU_SET_FREEZE | KVM_VPMU_SET_TSC,
				.freeze = i % 3, .tsc = i % 2,
			};

			if (all[i].pid != getpid())
				continue;
			if (ioctl(device, KVM_VPMU_GET_VCPU, &v) && errno != ENOENT)
				return (void *)1;
			if (ioctl(device, KVM_VPMU_SET, &s) && errno != ENOENT)
				return (void *)1;
		}
	}
	return unused;
}

static void races(void)
{
	pthread_t thread[2];
	void *result[2];
	struct kvm_vpmu_vm vm;

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, look, NULL);
	for (int i = 0; i < 100; i++) {
		struct vm one = make_vm(), two = make_vm();

		free_vm(two);
		free_vm(one);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], &result[i]);
	check(!result[0] && !result[1], "looking and setting while VMs come and go");
	check(!find(&vm), "none is left");
}

/* How long, in seconds, another process may take for a VM */
#define PATIENCE	20

/* Another process, which creates a vCPU and destroys it */
static pid_t start_other(void)
{
	pid_t child = fork();

	if (!child) {
		free_vm(make_vm());
		_exit(0);
	}
	return child;
}

/* A process that sleeps in the kernel for a mutex can't be killed. */
static bool ends_in_time(pid_t child)
{
	for (int i = 0; i < PATIENCE * 100; i++) {
		if (waitpid(child, NULL, WNOHANG) == child)
			return true;
		usleep(10000);
	}
	return false;
}

static void *list_there(void *there)
{
	struct kvm_vpmu_vms list = { .vms = (uintptr_t)there, .room = 1 };

	return ioctl(device, KVM_VPMU_GET_VMS, &list) ? (void *)1 : NULL;
}

/*
 * A list that goes to memory of a userfaultfd: the kernel's write there waits until we
 * provide the page.
 */
static void slow_memory(void)
{
	const char *name = "list: to memory that isn't there yet, while another VM comes and goes";
	void *there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register area = {
		.range = { .start = (uintptr_t)there, .len = 4096 },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };
	int fault = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct pollfd waits = { .fd = fault, .events = POLLIN };
	struct uffdio_zeropage page = { .range = area.range };
	struct vm one = make_vm();
	pthread_t thread;
	void *result;
	bool ended;
	pid_t other;

	if (fault < 0 || ioctl(fault, UFFDIO_API, &api) ||
	    ioctl(fault, UFFDIO_REGISTER, &area)) {
		skip("needs userfaultfd()", "%s", name);
		free_vm(one);
		return;
	}
	pthread_create(&thread, NULL, list_there, there);
	check(poll(&waits, 1, PATIENCE * 1000) == 1, "list: it waits for that memory");
	other = start_other();
	ended = ends_in_time(other);
	check(ended, "%s", name);
	ioctl(fault, UFFDIO_ZEROPAGE, &page);
	if (!ended)
		waitpid(other, NULL, 0);
	pthread_join(thread, &result);
	check(!result && ((struct kvm_vpmu_vm *)there)->pid == getpid(),
	      "list: and stores it there");
	close(fault);
	munmap(there, 4096);
	free_vm(one);
}

/* A CPU on which a vCPU was once isn't interrupted for it. */
static void idle_vcpu(void)
{
	const char *name = "an idle vCPU: looks and settings interrupt no CPU";
	const unsigned int times = 500;
	struct kvm_vpmu_settings s = { .fields = KVM_VPMU_SET_FREEZE };
	struct kvm_vpmu_vcpu v;
	struct kvm_regs regs;
	unsigned long before, after;
	bool good = true;
	cpu_set_t all;
	struct vm one;
	pid_t busy;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		skip("needs two CPUs", "%s", name);
		return;
	}
	sched_getaffinity(0, sizeof(all), &all);
	one = make_vm();
	pin(0, 1);
	/* One that sleeps without an interrupt might need none to wake up. */
	busy = fork();
	while (!busy)
		;
	if (ioctl(one.vcpu, KVM_GET_REGS, &regs))
		err(1, "KVM_GET_REGS");
	pin(0, 0);
	before = interrupts("CAL", 1);
	for (unsigned int i = 0; i < times; i++) {
		v = (struct kvm_vpmu_vcpu){ .fd = one.fd };
		s.fd = one.fd;
		s.freeze = i % 3;
		good &= !ioctl(device, KVM_VPMU_GET_VCPU, &v) &&
			!ioctl(device, KVM_VPMU_SET, &s);
	}
	after = interrupts("CAL", 1);
	check(good, "an idle vCPU: looks and settings");
	/* Others send a few meanwhile. */
	if (!check(after - before < times / 2, "%s", name))
		printf("# %lu interrupts, %u looks and settings\n", after - before, times);
	kill(busy, SIGKILL);
	waitpid(busy, NULL, 0);
	sched_setaffinity(0, sizeof(all), &all);
	free_vm(one);
}

int main(void)
{
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	info();
	requests();
	lists();
	bad_settings();
	by_fd();
	vcpus();
	unprivileged();
	slow_memory();
	idle_vcpu();
	races();
	return finish();
}
