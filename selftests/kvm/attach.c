// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which VMs get a virtual PMU of the module: by the module's parameter, by the
 * choice of a process, by that of a VM's owner; and that a VM without one has
 * KVM's.  TAP.
 */
#define _GNU_SOURCE
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <linux/kvm_vpmu.h>

#include "tap.h"
#include "choices.h"
#include "vm.h"
#include "registers.h"

#define PARAMETER	"/sys/module/kvm_vpmu/parameters/attach"
#define ROUNDS		1000u

extern const char count_start[], count_end[];

asm(".code16\n"
    ".globl count_start, count_end\n"
    /* EBX is N, TABLE has the numbers of counter 0 and its select; stores the count. */
    "count_start:\n"
    "	mov 0x2100, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2104, %ecx\n"
    "	mov $0x4200c0, %eax\n"	/* EN, OS, retired instructions */
    "	wrmsr\n"		/* starts, and is counted */
    "1:	dec %ebx\n"
    "	jnz 1b\n"
    "	xor %eax, %eax\n"
    "	wrmsr\n"		/* stops, and is not */
    "	mov 0x2100, %ecx\n"
    "	rdmsr\n"
    "	mov %eax, 0x2000\n"
    "	mov %edx, 0x2004\n"
    "	hlt\n"
    "count_end:\n"
    ".code64\n");

static int device;

static bool set_parameter(const char *value)
{
	int fd = open(PARAMETER, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);

	close(fd);
	return good;
}

/* How many vCPUs of the VM are the module's */
static unsigned int attached(int vm)
{
	struct kvm_vpmu_vm_of_fd of = { .fd = vm };

	if (!ioctl(device, KVM_VPMU_GET_VM, &of))
		return of.vm.vcpus;
	if (errno != ENOENT)
		err(1, "KVM_VPMU_GET_VM");
	return 0;
}

/* A VM with that choice of its own: is its vCPU the module's? */
static bool gets_one(uint32_t attach)
{
	int vm = new_vm(), vcpu;
	bool has;

	if (attach != KVM_VPMU_ATTACH_DEFAULT && choose(device, vm, attach))
		err(1, "KVM_VPMU_ATTACH");
	vcpu = new_vcpu(vm, 0);
	has = attached(vm);
	close(vcpu);
	close(vm);
	return has;
}

static void parameter(void)
{
	check(gets_one(KVM_VPMU_ATTACH_DEFAULT), "auto: a VM gets a PMU");
	check(!gets_one(KVM_VPMU_ATTACH_NO), "auto: not one whose owner refused");
	check(set_parameter("explicit"), "explicit: can be set");
	check(!gets_one(KVM_VPMU_ATTACH_DEFAULT), "explicit: a VM gets none");
	check(gets_one(KVM_VPMU_ATTACH_YES), "explicit: but one whose owner asked");
	check(!set_parameter("nonsense") && errno == EINVAL, "nonsense is refused");
	check(!gets_one(KVM_VPMU_ATTACH_DEFAULT), "and changes nothing");
	check(set_parameter("auto\n"), "auto: can be set");
}

static void refusals(void)
{
	struct kvm_vpmu_attach a = { .attach = KVM_VPMU_ATTACH_NO, .reserved = 1 };
	int event = eventfd(0, 0), vm = new_vm(), vcpu;

	a.fd = vm;
	check(ioctl(device, KVM_VPMU_ATTACH, &a) && errno == EINVAL, "a reserved field");
	is(choose(device, vm, 3), EINVAL, "a choice that isn't one");
	is(choose(device, -1, 3), EINVAL, "the same for the file");
	is(choose(device, -2, KVM_VPMU_ATTACH_NO), EBADF, "a file that isn't one");
	is(choose(device, 999, KVM_VPMU_ATTACH_NO), EBADF, "a file that isn't open");
	is(choose(device, event, KVM_VPMU_ATTACH_NO), EINVAL, "an eventfd as VM");
	check(ioctl(device, KVM_VPMU_ATTACH, NULL) && errno == EFAULT, "no address");

	is(choose(device, vm, KVM_VPMU_ATTACH_NO), 0, "a choice");
	is(choose(device, vm, KVM_VPMU_ATTACH_DEFAULT), 0, "that is taken back");
	vcpu = new_vcpu(vm, 0);
	is(attached(vm), 1, "has no effect");
	is(choose(device, vm, KVM_VPMU_ATTACH_NO), EBUSY, "a choice after the first vCPU");
	is(attached(vm), 1, "changes nothing");
	close(vcpu);
	close(vm);
	close(event);
}

/* A VM's vCPUs are all the module's or none. */
static void decided_once(void)
{
	int one = new_vm(), two = new_vm(), vcpus[4];

	vcpus[0] = new_vcpu(one, 0);
	set_parameter("explicit");
	vcpus[1] = new_vcpu(two, 0);
	vcpus[2] = new_vcpu(one, 1);
	is(attached(one), 2, "a VM that has a PMU gets it for the next vCPU, too");
	set_parameter("auto");
	vcpus[3] = new_vcpu(two, 1);
	is(attached(two), 0, "a VM that has none doesn't get it for the next vCPU");
	for (int i = 0; i < 4; i++)
		close(vcpus[i]);
	close(one);
	close(two);
}

/* KVM uses the memory of VMs that have ended for others; the kernel, only when there is much of that. */
static void forgotten(void)
{
	bool good = true;

	for (int i = 0; i < 1050; i++) {
		int vm = new_vm();

		good &= !choose(device, vm, KVM_VPMU_ATTACH_NO);
		close(vm);
		if (i >= 1000)
			good &= gets_one(KVM_VPMU_ATTACH_DEFAULT) && !gets_one(KVM_VPMU_ATTACH_NO);
	}
	check(good, "the choice for a VM that has ended isn't another's");
}

/* A VM without a PMU of the module has KVM's. */
static void left_out(void)
{
	const uint32_t msrs[] = {
		on_intel() ? INTEL_COUNTER0_LOW : LEGACY_COUNTER0,
		on_intel() ? INTEL_SELECT0 : LEGACY_SELECT0,
	};
	uint64_t count[2];

	for (int i = 0; i < 2; i++) {
		struct vm vm;

		choose(device, -1, i ? KVM_VPMU_ATTACH_NO : KVM_VPMU_ATTACH_YES);
		vm = make_vm(true);
		/* KVM 6.1's PMU resets the global control to 0. */
		enabled_pmu(&vm);
		memcpy(vm.memory + TABLE, msrs, sizeof(msrs));
		load_code(&vm, count_start, count_end, (struct kvm_regs){ .rbx = ROUNDS });
		run_to_hlt(&vm);
		count[i] = *(uint64_t *)(vm.memory + RESULT);
		is(attached(vm.fd), !i, "a VM %s a PMU of the module", i ? "without" : "with");
		free_vm(&vm);
	}
	choose(device, -1, KVM_VPMU_ATTACH_DEFAULT);
	/* WRMSR, the loop, XOR */
	is(count[0], 2 * ROUNDS + 2, "with: its guest counts");
	/* KVM's PMU counts entries as well, and misses what it completes itself. */
	if (!check(count[1] >= 2 * ROUNDS && count[1] < 2 * ROUNDS + 100,
		   "without: its guest counts by KVM's PMU"))
		printf("# %llu, not %u or a few more\n", (unsigned long long)count[1],
		       2 * ROUNDS);
}

/* Does a VM that a child creates get one?  The child executes @program, if there is one. */
static bool childs_gets_one(const char *program)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (program)
			execl(program, program, "child", NULL);
		_exit(program ? 2 : gets_one(KVM_VPMU_ATTACH_DEFAULT));
	}
	waitpid(child, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		errx(1, "the child failed");
	return WEXITSTATUS(status);
}

static void processes(const char *program)
{
	/* Not close-on-exec */
	int low = open("/dev/kvm-vpmu", O_RDWR), high = open("/dev/kvm-vpmu", O_RDWR);

	is(choose(low, -1, KVM_VPMU_ATTACH_NO), 0, "a file's choice: no");
	check(!gets_one(KVM_VPMU_ATTACH_DEFAULT), "no: a VM of this process");
	check(!childs_gets_one(NULL), "no: a VM of a child");
	check(!childs_gets_one(program), "no: a VM of another program in the child");
	check(gets_one(KVM_VPMU_ATTACH_YES), "no: but a VM whose owner asked");
	is(choose(high, -1, KVM_VPMU_ATTACH_YES), 0, "another file's choice: yes");
	check(gets_one(KVM_VPMU_ATTACH_DEFAULT), "yes: the higher descriptor counts");
	close(high);
	check(!gets_one(KVM_VPMU_ATTACH_DEFAULT), "no: the other one is closed");
	fcntl(low, F_SETFD, FD_CLOEXEC);
	check(childs_gets_one(program), "no: a program that doesn't inherit the file");
	close(low);
	check(gets_one(KVM_VPMU_ATTACH_DEFAULT), "closed: nothing is left");

	set_parameter("explicit");
	low = open("/dev/kvm-vpmu", O_RDWR);
	choose(low, -1, KVM_VPMU_ATTACH_YES);
	check(childs_gets_one(program), "yes: in spite of the parameter");
	check(!gets_one(KVM_VPMU_ATTACH_NO), "yes: but not a VM whose owner refused");
	is(choose(low, -1, KVM_VPMU_ATTACH_DEFAULT), 0, "the file's choice is taken back");
	check(!childs_gets_one(program), "and the parameter counts");
	close(low);
	set_parameter("auto");
}

int main(int argc, char **argv)
{
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	if (argc > 1 && !strcmp(argv[1], "child"))
		return gets_one(KVM_VPMU_ATTACH_DEFAULT);
	if (access(PARAMETER, W_OK))
		err(1, PARAMETER);
	parameter();
	refusals();
	decided_once();
	forgotten();
	left_out();
	processes(argv[0]);
	return finish();
}
