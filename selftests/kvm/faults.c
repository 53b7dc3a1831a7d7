// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Each call in the life of a VM, with each of its allocations failing in turn: the call either succeeds all
 * the same, or fails, changes nothing, and succeeds when it is repeated.  The VM then goes on and its guest
 * counts exactly, and nothing stays behind.  Wants a kernel with fault injection
 * (Documentation/fault-injection/fault-injection.rst, "Systematic faults using fail-nth").  TAP.
 *
 *	faults [MOST]
 *		the calls of a VM's life, with up to MOST allocations each (60)
 *	faults MODULE [MOST]
 *		the init function of MODULE, and unloading it; wants the module "nth" of selftests/modules
 */
#define _GNU_SOURCE
#include <linux/kvm_vpmu_probe.h>
#include <linux/kvm_vpmu_profile.h>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tap.h"
#include "guests.h"

#define N	1000	/* of the loop */

/* What there is of a VM: descriptors, or -1 */
struct life {
	int device, kvm, vm, vcpu, second, profile, probe;
	size_t run_size;
	struct kvm_run *run;
	uint8_t *memory;
};

static struct pmu pmu;	/* each guest's */

struct cpuid {
	struct kvm_cpuid2 head;
	struct kvm_cpuid_entry2 entries[256];
};

static struct cpuid cpuid;

/* ---- faults */

static int fail_nth;

static void put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		err(1, "%s", path);
	close(fd);
}

/* Allocations that may sleep fail, too, and the kernel doesn't report each fault. */
static void prepare_faults(void)
{
	if (access("/sys/kernel/debug/failslab", F_OK))
		skip_all("this kernel has no fault injection");
	put("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	put("/sys/kernel/debug/failslab/verbose", "0");
	put("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
	put("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	put("/sys/kernel/debug/fail_page_alloc/verbose", "0");
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0)
		err(1, "fail-nth");
}

/* This thread's @nth allocation from now on fails; 0: none does. */
static void fail_at(unsigned int nth)
{
	char text[16];
	int length = sprintf(text, "%u", nth);

	if (pwrite(fail_nth, text, length, 0) != length)
		err(1, "fail-nth");
}

/* Has it?  In any case none will. */
static bool has_failed(void)
{
	char text[16] = "";

	if (pread(fail_nth, text, sizeof(text) - 1, 0) <= 0)
		err(1, "fail-nth");
	fail_at(0);
	return atoi(text) == 0;
}

/* ---- the calls: 0 or more, or -1 with errno */

static int open_device(struct life *l)
{
	l->device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	return l->device;
}

static int open_kvm(struct life *l)
{
	l->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	return l->kvm;
}

static int create_vm(struct life *l)
{
	l->vm = ioctl(l->kvm, KVM_CREATE_VM, 0);
	return l->vm;
}

static int choose_vm(struct life *l)
{
	struct kvm_vpmu_attach attach = { .fd = l->vm, .attach = KVM_VPMU_ATTACH_YES };

	return ioctl(l->device, KVM_VPMU_ATTACH, &attach);
}

static int choose_process(struct life *l)
{
	struct kvm_vpmu_attach attach = { .fd = -1, .attach = KVM_VPMU_ATTACH_YES };

	return ioctl(l->device, KVM_VPMU_ATTACH, &attach);
}

static int create_irqchip(struct life *l)
{
	return ioctl(l->vm, KVM_CREATE_IRQCHIP, 0);
}

static int set_memory(struct life *l)
{
	struct kvm_userspace_memory_region region = {
		.memory_size = MEMORY, .userspace_addr = (uintptr_t)l->memory,
	};

	return ioctl(l->vm, KVM_SET_USER_MEMORY_REGION, &region);
}

static int create_vcpu(struct life *l)
{
	l->vcpu = ioctl(l->vm, KVM_CREATE_VCPU, 0);
	return l->vcpu;
}

static int create_second(struct life *l)
{
	l->second = ioctl(l->vm, KVM_CREATE_VCPU, 1);
	return l->second;
}

static int map_run(struct life *l)
{
	l->run = mmap(NULL, l->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, l->vcpu, 0);
	return l->run == MAP_FAILED ? -1 : 0;
}

static int set_cpuid(struct life *l)
{
	return ioctl(l->vcpu, KVM_SET_CPUID2, &cpuid);
}

static int get_cpuid(struct life *l)
{
	struct cpuid got = { .head.nent = 256 };

	return ioctl(l->vcpu, KVM_GET_CPUID2, &got);
}

static int set_filter(struct life *l)
{
	struct {
		struct kvm_pmu_event_filter head;
		uint64_t events[2];
	} filter = { .head = { .action = KVM_PMU_EVENT_DENY, .nevents = 2 },
		     .events = { 0x1c0, 0x1c2 } };

	return ioctl(l->vm, KVM_SET_PMU_EVENT_FILTER, &filter);
}

static int set_registers(struct life *l)
{
	struct kvm_regs regs = { .rip = CODE, .rsp = STACK, .rflags = 2, .rsi = N };
	struct kvm_sregs sregs;

	if (ioctl(l->vcpu, KVM_GET_SREGS, &sregs))
		return -1;
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (ioctl(l->vcpu, KVM_SET_SREGS, &sregs))
		return -1;
	return ioctl(l->vcpu, KVM_SET_REGS, &regs);
}

struct msrs {
	struct kvm_msrs head;
	struct kvm_msr_entry entry[4];
};

static int set_msrs(struct life *l)
{
	struct msrs msrs = { .head.nmsrs = on_intel() ? 3 : 2, .entry = {
		{ .index = pmu.select, .data = event_here(INSTRUCTIONS | OS | EN) },
		{ .index = pmu.select + pmu.stride, .data = event_here(BRANCHES | OS | EN) },
		{ .index = PERF_CAPABILITIES, .data = FULL_WIDTH },
	} };

	return ioctl(l->vcpu, KVM_SET_MSRS, &msrs) == (int)msrs.head.nmsrs ? 0 : -1;
}

static int get_msrs(struct life *l)
{
	struct msrs msrs = { .head.nmsrs = 2, .entry = {
		{ .index = pmu.select }, { .index = pmu.counter },
	} };

	return ioctl(l->vcpu, KVM_GET_MSRS, &msrs) == 2 ? 0 : -1;
}

static int get_state(struct life *l)
{
	struct kvm_vcpu_events events;
	struct kvm_lapic_state apic;

	if (ioctl(l->vcpu, KVM_GET_VCPU_EVENTS, &events))
		return -1;
	return ioctl(l->vcpu, KVM_GET_LAPIC, &apic);
}

static int get_info(struct life *l)
{
	struct kvm_vpmu_info info;

	return ioctl(l->device, KVM_VPMU_GET_INFO, &info);
}

static int get_vms(struct life *l)
{
	struct kvm_vpmu_vm all[4];
	struct kvm_vpmu_vms list = { .vms = (uintptr_t)all, .room = 4 };

	return ioctl(l->device, KVM_VPMU_GET_VMS, &list);
}

static int get_vm(struct life *l)
{
	struct kvm_vpmu_vm_of_fd vm = { .fd = l->vm };

	return ioctl(l->device, KVM_VPMU_GET_VM, &vm);
}

static int get_vcpu(struct life *l)
{
	/* Both vCPUs have one of the module's. */
	for (unsigned int i = 0; i < 2; i++) {
		struct kvm_vpmu_vcpu vcpu = { .fd = l->vm, .index = i };

		if (ioctl(l->device, KVM_VPMU_GET_VCPU, &vcpu))
			return -1;
	}
	return 0;
}

static int get_events(struct life *l)
{
	struct kvm_vpmu_events events = { .fd = l->vm, .flags = KVM_VPMU_EVENTS_OBSERVE };

	return ioctl(l->device, KVM_VPMU_GET_EVENTS, &events);
}

static int profile(struct life *l)
{
	struct kvm_vpmu_profile p = {
		.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS,
		.period = 1000000, .records = KVM_VPMU_PROFILE_MIN_RECORDS, .fd = l->vm,
		.flags = KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_SWITCHES |
			 KVM_VPMU_PROFILE_KVM_TIME | KVM_VPMU_PROFILE_STACKS | KVM_VPMU_PROFILE_WORDS,
	};

	return l->profile = ioctl(l->device, KVM_VPMU_PROFILE, &p);
}

static int probe(struct life *l)
{
	struct kvm_vpmu_probe p = {
		.type = { PERF_TYPE_HARDWARE }, .config = { PERF_COUNT_HW_INSTRUCTIONS }, .events = 1,
		.period = 1000000, .pages = KVM_VPMU_PROBE_PAGES, .fd = l->vm, .nr = 2,
	};

	return l->probe = ioctl(l->device, KVM_VPMU_PROBE, &p);
}

static int window(struct life *l)
{
	uint32_t timeout = 0;

	return ioctl(l->probe, KVM_VPMU_PROBE_WINDOW, &timeout);
}

static int set_vm(struct life *l)
{
	struct kvm_vpmu_settings settings = {
		.fd = l->vm, .fields = KVM_VPMU_SET_FREEZE, .freeze = KVM_VPMU_FREEZE_GUEST,
	};

	return ioctl(l->device, KVM_VPMU_SET, &settings);
}

static int run(struct life *l)
{
	return ioctl(l->vcpu, KVM_RUN, 0);
}

static int close_fd(int *fd)
{
	int result = *fd >= 0 ? close(*fd) : 0;

	*fd = -1;
	return result;
}

static int close_profile(struct life *l)
{
	return close_fd(&l->profile);
}

static int close_probe(struct life *l)
{
	return close_fd(&l->probe);
}

static int close_second(struct life *l)
{
	return close_fd(&l->second);
}

static int unmap_run(struct life *l)
{
	if (l->run && l->run != MAP_FAILED)
		munmap(l->run, l->run_size);
	l->run = NULL;
	return 0;
}

static int close_vcpu(struct life *l)
{
	return close_fd(&l->vcpu);
}

static int close_vm(struct life *l)
{
	return close_fd(&l->vm);
}

static int close_device(struct life *l)
{
	return close_fd(&l->device);
}

static const struct call {
	const char *name;
	int (*call)(struct life *l);
} calls[] = {
	{ "open /dev/kvm-vpmu", open_device },
	{ "open /dev/kvm", open_kvm },
	{ "KVM_CREATE_VM", create_vm },
	{ "KVM_VPMU_ATTACH of a VM", choose_vm },
	{ "KVM_VPMU_ATTACH of a process", choose_process },
	{ "KVM_CREATE_IRQCHIP", create_irqchip },
	{ "KVM_SET_USER_MEMORY_REGION", set_memory },
	{ "KVM_CREATE_VCPU", create_vcpu },
	{ "KVM_CREATE_VCPU, another one", create_second },
	{ "mmap of the vCPU", map_run },
	{ "KVM_SET_CPUID2", set_cpuid },
	{ "KVM_GET_CPUID2", get_cpuid },
	{ "KVM_SET_REGS", set_registers },
	{ "KVM_SET_MSRS", set_msrs },
	{ "KVM_GET_MSRS", get_msrs },
	{ "KVM_SET_PMU_EVENT_FILTER", set_filter },
	{ "KVM_GET_LAPIC", get_state },
	{ "KVM_VPMU_GET_INFO", get_info },
	{ "KVM_VPMU_GET_VMS", get_vms },
	{ "KVM_VPMU_GET_VM", get_vm },
	{ "KVM_VPMU_GET_VCPU", get_vcpu },
	{ "KVM_VPMU_GET_EVENTS", get_events },
	{ "KVM_VPMU_PROFILE", profile },
	{ "KVM_VPMU_PROBE", probe },
	{ "KVM_VPMU_PROBE_WINDOW", window },
	{ "KVM_VPMU_SET", set_vm },
	{ "KVM_RUN", run },
	{ "close of a profile", close_profile },
	{ "close of a probe", close_probe },
	{ "close of a vCPU", close_second },
	{ "munmap of the vCPU", unmap_run },
	{ "close of the last vCPU", close_vcpu },
	{ "close of the VM", close_vm },
	{ "close of /dev/kvm-vpmu", close_device },
};

#define NR_CALLS	(sizeof(calls) / sizeof(*calls))
#define NR_ENDING	7	/* the last of them */

static void begin(struct life *l, int kvm)
{
	*l = (struct life){ .device = -1, .kvm = -1, .vm = -1, .vcpu = -1, .second = -1, .profile = -1, .probe = -1 };
	l->run_size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	l->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l->memory == MAP_FAILED)
		err(1, "mmap");
	memcpy(l->memory + CODE, loop_start, loop_end - loop_start);
}

static void end(struct life *l)
{
	for (unsigned int i = NR_CALLS - NR_ENDING; i < NR_CALLS; i++)
		calls[i].call(l);
	close_fd(&l->kvm);
	munmap(l->memory, MEMORY);
}

static bool counted(struct life *l)
{
	struct vm vm = { .kvm = l->kvm, .fd = l->vm, .vcpu = l->vcpu, .run = l->run };
	uint64_t instructions = get_msr(&vm, pmu.counter);
	uint64_t branches = get_msr(&vm, pmu.counter + pmu.stride);

	if (l->run->exit_reason != KVM_EXIT_IO) {
		printf("# the guest ended with exit reason %u\n", l->run->exit_reason);
		return false;
	}
	if (instructions == loop_counts(INSTRUCTIONS, N, true) &&
	    branches == loop_counts(BRANCHES, N, true))
		return true;
	printf("# %llu instructions, %llu branches\n", (unsigned long long)instructions,
	       (unsigned long long)branches);
	return false;
}

/* References to the module */
static int references(void)
{
	FILE *f = fopen("/sys/module/kvm_vpmu/refcnt", "r");
	int n;

	if (!f || fscanf(f, "%d", &n) != 1)
		err(1, "refcnt of kvm_vpmu");
	fclose(f);
	return n;
}

/*
 * What a call says whose allocation failed: EFAULT if it was for a page of its caller's or guest's, ENOSPC if for an
 * inode of shared memory (shmem_get_inode()), which KVM has for the APIC's page on Intel's CPUs
 */
static bool is_fault(int error)
{
	return error == ENOMEM || error == EFAULT || (error == ENOSPC && on_intel());
}

/*
 * On Intel's CPUs KVM leaves the APIC page's memory slot behind if something fails later, and finds it in its way when
 * the VM's first vCPU is created again (kvm_alloc_apic_access_page()). This VM can have no vCPU any more.
 */
static bool is_spoiled(const struct call *call, int error)
{
	return call->call == create_vcpu && error == EEXIST && on_intel();
}

/* A life in which the @nth allocation of call @which fails.  Return: was there one? */
static bool live(int kvm, unsigned int which, unsigned int nth, unsigned int *failed, bool *good)
{
	bool there = false;
	struct life l;

	begin(&l, kvm);
	for (unsigned int i = 0; i < NR_CALLS; i++) {
		if (i == NR_CALLS - NR_ENDING)
			*good &= counted(&l);
		if (i == which) {
			int result;

			fail_at(nth);
			errno = 0;
			result = calls[i].call(&l);
			if (result < 0 && !is_fault(errno)) {
				printf("# %s, allocation %u: %s\n", calls[i].name, nth, strerror(errno));
				*good = false;
			}
			*failed += result < 0;
			there = has_failed();
			if (result >= 0)
				continue;
		}
		if (calls[i].call(&l) < 0) {
			if (i == which && is_spoiled(&calls[i], errno))
				break;
			printf("# %s behind allocation %u of %s: %s\n", calls[i].name, nth,
			       calls[which].name, strerror(errno));
			*good = false;
			break;
		}
	}
	end(&l);
	if (references()) {
		printf("# %s, allocation %u: %d references are left\n", calls[which].name, nth,
		       references());
		*good = false;
	}
	return there;
}

static void lives(unsigned int most)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	struct vm vm;

	if (kvm < 0)
		err(1, "/dev/kvm");
	cpuid.head.nent = 256;
	IOCTL(kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	vm = make_vm(true);
	pmu = pmu_of(&vm);
	free_vm(&vm);
	for (unsigned int i = 0; i < NR_CALLS; i++) {
		unsigned int nth = 1, failed = 0;
		bool good = true;

		while (nth <= most && live(kvm, i, nth, &failed, &good))
			nth++;
		check(good, "%s", calls[i].name);
		printf("# %u allocations%s, %u failures of the call\n", nth - 1,
		       nth > most ? " or more" : "", failed);
	}
}

/* ---- the module itself */

static int load(int file)
{
	return syscall(SYS_finit_module, file, "", 0);
}

static int unload(void)
{
	return syscall(SYS_delete_module, "kvm_vpmu", O_NONBLOCK);
}

static bool is_loaded(void)
{
	return !access("/sys/module/kvm_vpmu", F_OK);
}

static void loads(const char *path, unsigned int most)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	unsigned int failed = 0, nth;
	bool good = true, there = true;

	if (file < 0)
		err(1, "%s", path);
	for (nth = 1; nth <= most && there; nth++) {
		char text[16];
		int result;

		sprintf(text, "%u", nth);
		put("/sys/module/nth/parameters/nth", text);
		result = load(file);
		there = has_failed();
		failed += result < 0;
		if (result < 0 ? is_loaded() : unload() < 0) {
			printf("# allocation %u of loading: %s\n", nth, strerror(errno));
			good = false;
		}
	}
	check(good, "loading");
	printf("# %u allocations, %u failures\n", nth - 1, failed);
	good = !load(file);
	check(good, "loading without a fault");
	for (nth = 1, there = true, failed = 0; good && nth <= most && there; nth++) {
		int result;

		fail_at(nth);
		result = unload();
		there = has_failed();
		failed += result < 0;
		if (result < 0 ? unload() < 0 : is_loaded()) {
			printf("# allocation %u of unloading: %s\n", nth, strerror(errno));
			good = false;
		}
		good &= !load(file);
	}
	check(good, "unloading");
	printf("# %u allocations, %u failures\n", nth - 1, failed);
	check(!unload(), "unloading without a fault");
}

int main(int argc, char **argv)
{
	bool module = argc > 1 && argv[1][0] == '/';
	unsigned int most = argc > 1 + module ? atoi(argv[1 + module]) : 60;

	prepare_faults();
	if (module)
		loads(argv[1], most);
	else
		lives(most);
	return finish();
}
