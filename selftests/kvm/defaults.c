// SPDX-License-Identifier: GPL-2.0-or-later
/* Freeze mode and TSC of VMs to come: the module's parameters "freeze" and "tsc".  TAP. */
#define _GNU_SOURCE
#include <linux/kvm_vpmu.h>
#include <time.h>

#include "tap.h"
#include "vm.h"

#define PARAMETERS	"/sys/module/kvm_vpmu/parameters/"
#define SLEEP_MS	100

extern const char rdtsc_start[], rdtsc_end[];
asm(".code16\n"
    ".globl rdtsc_start, rdtsc_end\n"
    "rdtsc_start:\n"
    "	rdtsc\n"
    "	mov %eax, 0x2100\n"
    "	mov %edx, 0x2104\n"
    "	out %al, $0x10\n"
    "	rdtsc\n"
    "	mov %eax, 0x2108\n"
    "	mov %edx, 0x210c\n"
    "	hlt\n"
    "rdtsc_end:\n"
    ".code64\n");

static int device;

/* 0 or the error number */
static int set(const char *name, const char *value)
{
	int fd, error = 0;
	char path[128];

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		err(1, "%s", path);
	if (write(fd, value, strlen(value)) < 0)
		error = errno;
	close(fd);
	return error;
}

static bool reads(const char *name, const char *wanted)
{
	char path[128], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), PARAMETERS "%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		err(1, "%s", path);
	close(fd);
	text[strcspn(text, "\n")] = 0;
	return !strcmp(text, wanted);
}

static struct kvm_vpmu_vm settings(const struct vm *vm)
{
	struct kvm_vpmu_vm_of_fd of = { .fd = vm->fd };

	IOCTL(device, KVM_VPMU_GET_VM, &of);
	return of.vm;
}

/* By how many of the host's milliseconds the guest's TSC advances while its thread sleeps */
static double tsc_in_sleep(struct vm *vm)
{
	struct timespec ms = { .tv_nsec = SLEEP_MS * 1000000 };
	double khz = ioctl(vm->vcpu, KVM_GET_TSC_KHZ, 0);
	uint64_t ticks[2];

	load_code(vm, rdtsc_start, rdtsc_end, (struct kvm_regs){ });
	run_until(vm, KVM_EXIT_IO);
	while (nanosleep(&ms, &ms))
		;
	run_to_hlt(vm);
	memcpy(ticks, vm->memory + TABLE, sizeof(ticks));
	return (ticks[1] - ticks[0]) / khz;
}

static void freeze_modes(void)
{
	static const char *const words[] = { "hybrid", "guest", "vcpu" };
	struct vm before = make_vm(true);

	for (unsigned int i = 0; i < 3; i++) {
		struct vm vm;

		is(set("freeze", words[i]), 0, "freeze=%s", words[i]);
		check(reads("freeze", words[i]), "reads as that");
		vm = make_vm(true);
		is(settings(&vm).freeze, i, "a new VM's freeze mode");
		free_vm(&vm);
	}
	is(settings(&before).freeze, KVM_VPMU_FREEZE_HYBRID, "that of a VM from before");
	is(set("freeze", "host"), EINVAL, "freeze=host");
	check(reads("freeze", "vcpu"), "changes nothing");
	is(set("freeze", "hybrid"), 0, "freeze=hybrid");
	free_vm(&before);
}

static void tscs(void)
{
	struct kvm_vpmu_settings wall = {
		.fields = KVM_VPMU_SET_TSC, .tsc = KVM_VPMU_TSC_WALL,
	};
	struct vm vm;
	double ms;
	int error = set("tsc", "vcpu");

	if (error == EOPNOTSUPP) {
		skip("this host's TSC isn't fit", "tsc=vcpu");
		return;
	}
	is(error, 0, "tsc=vcpu");
	vm = make_vm(true);
	is(settings(&vm).tsc, KVM_VPMU_TSC_VCPU, "a new VM's TSC");
	ms = tsc_in_sleep(&vm);
	check(ms < SLEEP_MS / 2, "its TSC in %d ms of sleep: %.3f ms", SLEEP_MS, ms);
	wall.fd = vm.fd;
	IOCTL(device, KVM_VPMU_SET, &wall);
	ms = tsc_in_sleep(&vm);
	check(ms >= SLEEP_MS, "with the VM's own choice of wall: %.3f ms", ms);
	free_vm(&vm);
	is(set("tsc", "cpu"), EINVAL, "tsc=cpu");
	is(set("tsc", "wall"), 0, "tsc=wall");
	vm = make_vm(true);
	ms = tsc_in_sleep(&vm);
	check(ms >= SLEEP_MS, "a new VM's TSC in %d ms of sleep: %.3f ms", SLEEP_MS, ms);
	free_vm(&vm);
}

int main(void)
{
	device = open("/dev/kvm-vpmu", O_RDWR);
	if (device < 0)
		skip_all("needs the module, and access to its device");
	if (access(PARAMETERS "freeze", W_OK))
		skip_all("needs root");
	freeze_modes();
	tscs();
	return finish();
}
