// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vCPUs whose creation fails, at each place that userspace can reach, and VMs that end in any
 * order: nothing of them stays behind.  TAP.
 *
 *	creation
 *	creation fails ERRNO
 *		the creation of each vCPU fails with ERRNO, by somebody else's doing
 *	creation unlisted
 *		VMs run, but aren't the module's
 *	creation uncounted
 *		VMs run, and their counters don't count
 */
#define _GNU_SOURCE
#include <linux/kvm_vpmu.h>
#include <sys/resource.h>

#include "tap.h"
#include "guests.h"

static int device;

/* The module's references, less that of the open device */
static unsigned int references(void)
{
	FILE *f = fopen("/sys/module/kvm_vpmu/refcnt", "r");
	unsigned int n;

	if (!f || fscanf(f, "%u", &n) != 1)
		err(1, "refcnt of kvm_vpmu");
	fclose(f);
	return n - 1;
}

static unsigned int listed(void)
{
	struct kvm_vpmu_vm all[16];
	struct kvm_vpmu_vms list = { .vms = (uintptr_t)all, .room = 16 };

	IOCTL(device, KVM_VPMU_GET_VMS, &list);
	return list.count;
}

/* A VM can be made, and counts. */
static void counts(const char *when)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = 1000 });
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), loop_counts(INSTRUCTIONS, 1000, true), "%s: a guest counts", when);
	free_vm(&vm);
}

/* The same for a state that is encrypted */
static void counts_nothing(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = 1000 });
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), 0, "an encrypted state: a guest doesn't count");
	free_vm(&vm);
}

static void nothing_left(const char *when)
{
	is(listed(), 0, "%s: VMs that are listed", when);
	is(references(), 0, "%s: references to the module", when);
}

static int kvm_open(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (kvm < 0)
		err(1, "/dev/kvm");
	return kvm;
}

static int create_vm(int kvm)
{
	int fd = ioctl(kvm, KVM_CREATE_VM, 0);

	if (fd < 0)
		err(1, "KVM_CREATE_VM");
	return fd;
}

/* KVM_CREATE_VCPU must fail with @error. */
static void refused(int vm, unsigned long id, int error, const char *when)
{
	int fd = ioctl(vm, KVM_CREATE_VCPU, id), got = fd < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	is(got, error, "%s: the error", when);
}

/*
 * With a memory slot of userspace's where KVM wants its page for virtual APIC accesses,
 * vmx_vcpu_create() fails when all else is done (kvm_alloc_apic_access_page()).
 */
static void apic_page_taken(int kvm)
{
	const char *when = "no place for the APIC's page";
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = 0xfee00000, .memory_size = 4096,
	};
	int vm = create_vm(kvm);

	region.userspace_addr = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	IOCTL(vm, KVM_SET_USER_MEMORY_REGION, &region);
	IOCTL(vm, KVM_CREATE_IRQCHIP, NULL);
	if (on_intel()) {
		for (unsigned int i = 0; i < 3; i++)
			refused(vm, i, EEXIST, when);
	} else {
		/* Without AVIC there is no such page. */
		int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);

		check(vcpu >= 0, "%s: AMD's CPUs need none", when);
		close(vcpu);
	}
	close(vm);
	munmap((void *)(uintptr_t)region.userspace_addr, 4096);
	nothing_left(when);
}

static void same_id(int kvm)
{
	const char *when = "the same number twice";
	int vm = create_vm(kvm), vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);

	if (vcpu < 0)
		err(1, "KVM_CREATE_VCPU");
	refused(vm, 0, EEXIST, when);
	is(references(), 1, "%s: references to the module, the first one lives", when);
	refused(vm, 1u << 20, EINVAL, "a number that is too large");
	close(vcpu);
	close(vm);
	nothing_left(when);
}

/* create_vcpu_fd() comes last. */
static void no_file(int kvm)
{
	const char *when = "no file descriptor left";
	struct rlimit old, none;
	int vm = create_vm(kvm);

	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = vm + 1;
	setrlimit(RLIMIT_NOFILE, &none);
	refused(vm, 0, EMFILE, when);
	setrlimit(RLIMIT_NOFILE, &old);
	is(references(), 0, "%s: references to the module, the VM lives", when);
	close(vm);
	nothing_left(when);
}

/* Garbage is refused, and the vCPU goes on with what it had. */
static void cpuid_refused(void)
{
	const char *when = "CPUID that is refused";
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	struct kvm_cpuid2 huge = { .nent = 1u << 20 };

	check(ioctl(vm.vcpu, KVM_SET_CPUID2, &huge) && errno == E2BIG, "%s: too long", when);
	check(ioctl(vm.vcpu, KVM_SET_CPUID2, NULL) && errno == EFAULT, "%s: nowhere", when);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = 1000 });
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	is(counter(&vm, pmu, 0), loop_counts(INSTRUCTIONS, 1000, true), "%s: counts", when);
	free_vm(&vm);
	nothing_left(when);
}

/* Which file is closed last?  0: the vCPU's, 1: the VM's, 2: the vCPU's, by its mapping only */
static void ends(int kvm, unsigned int last)
{
	static const char *const names[] = {
		"the vCPU's file closed last", "the VM's file closed last", "a mapping goes last",
	};
	size_t size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	int vm = create_vm(kvm), vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	void *run;

	if (vcpu < 0)
		err(1, "KVM_CREATE_VCPU");
	run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (last != 2)
		munmap(run, size);
	close(last == 1 ? vcpu : vm);
	is(listed(), 1, "%s: listed before", names[last]);
	close(last == 1 ? vm : vcpu);
	if (last == 2) {
		is(listed(), 1, "%s: listed before that, too", names[last]);
		munmap(run, size);
	}
	nothing_left(names[last]);
}

int main(int argc, char **argv)
{
	int kvm = kvm_open();

	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	if (argc > 2) {
		for (unsigned int i = 0; i < 20; i++) {
			int vm = create_vm(kvm);

			/* So that vCPUs get a local APIC on Linux 6.1, too */
			IOCTL(vm, KVM_CREATE_IRQCHIP, NULL);
			refused(vm, 0, atoi(argv[2]), "a creation that fails");
			refused(vm, 1, atoi(argv[2]), "another vCPU of this VM");
			close(vm);
		}
		nothing_left("creations that failed");
		return finish();
	}
	if (argc > 1 && !strcmp(argv[1], "uncounted")) {
		counts_nothing();
		return finish();
	}
	if (argc > 1) {
		int vm = create_vm(kvm), vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);

		check(vcpu >= 0, "a vCPU is created");
		nothing_left("a VM of others");
		close(vcpu);
		close(vm);
		return finish();
	}
	nothing_left("at first");
	apic_page_taken(kvm);
	same_id(kvm);
	no_file(kvm);
	cpuid_refused();
	for (unsigned int last = 0; last < 3; last++)
		ends(kvm, last);
	counts("at last");
	return finish();
}
