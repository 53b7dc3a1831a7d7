// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who may do what with /dev/kvm-vpmu: each request as users with different
 * rights, as docs/threat-model.md promises.  TAP.
 *
 * A child process takes the rights of a user; its results come back in shared
 * memory.  The device has the group and the mode of the udev rule meanwhile.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/kvm_vpmu_probe.h>
#include <linux/kvm_vpmu_profile.h>
#include <linux/perf_event.h>

#include "tap.h"
#include "vm.h"
#include "registers.h"

#define DEVICE		"/dev/kvm-vpmu"
/* Anybody, and the group that may open the device */
#define USER		54321
#define GROUP		54322

/* The identity of the vCPU of a user's own VM */
#define OWN_VCPU	3

/* What is asked for, in this order */
enum request {
	INFO, LIST, READ_NUMBER, READ_NO_NUMBER, EVENTS_NUMBER, PROFILE_ALL, PROFILE_NUMBER,
	PROBE_NUMBER, SET_NUMBER, SET_NO_NUMBER, VM_OWN, READ_OWN, EVENTS_OWN, PROFILE_OWN, PROBE_OWN, SET_OWN,
	CHOOSE_OWN, CHOOSE_NEW, CHOOSE_FILE,
	VM_OTHER, READ_OTHER, EVENTS_OTHER, PROFILE_OTHER, PROBE_OTHER, SET_OTHER, CHOOSE_OTHER,
	REQUESTS
};

static const char *const names[REQUESTS] = {
	[INFO] = "GET_INFO",
	[LIST] = "GET_VMS",
	[READ_NUMBER] = "GET_VCPU by the number of another's VM",
	[READ_NO_NUMBER] = "GET_VCPU by a number that no VM has",
	[EVENTS_NUMBER] = "GET_EVENTS by the number of another's VM",
	[PROFILE_ALL] = "PROFILE of all that a CPU does",
	[PROFILE_NUMBER] = "PROFILE by the number of another's VM",
	[PROBE_NUMBER] = "PROBE by the number of another's VM",
	[SET_NUMBER] = "SET by the number of another's VM",
	[SET_NO_NUMBER] = "SET by a number that no VM has",
	[VM_OWN] = "GET_VM by its VM's file",
	[READ_OWN] = "GET_VCPU by its VM's file",
	[EVENTS_OWN] = "GET_EVENTS by its VM's file",
	[PROFILE_OWN] = "PROFILE by its VM's file",
	[PROBE_OWN] = "PROBE by its VM's file",
	[SET_OWN] = "SET by its VM's file",
	[CHOOSE_OWN] = "ATTACH by the file of its VM, which has a vCPU",
	[CHOOSE_NEW] = "ATTACH by the file of its VM without a vCPU",
	[CHOOSE_FILE] = "ATTACH for its own VMs to come",
	[VM_OTHER] = "GET_VM by a file that isn't a VM",
	[READ_OTHER] = "GET_VCPU by a file that isn't a VM",
	[EVENTS_OTHER] = "GET_EVENTS by a file that isn't a VM",
	[PROFILE_OTHER] = "PROFILE by a file that isn't a VM",
	[PROBE_OTHER] = "PROBE by a file that isn't a VM",
	[SET_OTHER] = "SET by a file that isn't a VM",
	[CHOOSE_OTHER] = "ATTACH by a file that isn't a VM",
};

/* What a user found */
struct found {
	int set_up;			/* errno of what the user needs; 0 */
	int opened;			/* errno of open(); 0 */
	int error[REQUESTS];		/* errno of each request; 0 */
	struct kvm_vpmu_info info;
	struct kvm_vpmu_vm vm;
	struct kvm_vpmu_vcpu vcpu;
};

static struct found *found;

static int device;

/* Another's VM: the test's, which has a counter running */
static struct vm vm;
static struct kvm_vpmu_vm victim;

extern const char halt_start[], halt_end[];
asm(".code16\n"
    ".globl halt_start, halt_end\n"
    "halt_start:\n"
    "	hlt\n"
    "halt_end:\n"
    ".code64\n");

/* ---- users */

static bool be_root(void)
{
	return true;
}

static bool be(gid_t group)
{
	return !setgroups(1, &group) && !setresgid(group, group, group) &&
	       !setresuid(USER, USER, USER);
}

static bool be_member(void)
{
	return be(GROUP);
}

static bool be_nobody(void)
{
	return be(USER);
}

static bool keep(uint32_t capability)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { };

	if (prctl(PR_SET_KEEPCAPS, 1) || !be(GROUP))
		return false;
	data[CAP_TO_INDEX(capability)].permitted = CAP_TO_MASK(capability);
	data[CAP_TO_INDEX(capability)].effective = CAP_TO_MASK(capability);
	return !syscall(SYS_capset, &head, data);
}

static bool be_perfmon(void)
{
	return keep(CAP_PERFMON);
}

static bool be_admin(void)
{
	return keep(CAP_SYS_ADMIN);
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return good;
}

/* Root, with all capabilities, in a user namespace of its own */
static bool enter_namespace(unsigned int user)
{
	char map[50];

	if (unshare(CLONE_NEWUSER))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", user);
	return write_file("/proc/self/uid_map", map) && !setresuid(0, 0, 0);
}

static bool be_namespace_root(void)
{
	/* Else /proc/self isn't ours after setresuid(). */
	return be(GROUP) && !prctl(PR_SET_DUMPABLE, 1) && enter_namespace(USER);
}

/* The same for the host's root, whom the device belongs to */
static bool be_contained_root(void)
{
	return enter_namespace(0);
}

static const struct user {
	const char *name;
	bool (*be)(void);
	bool opens, reads_all, sets_all;
	bool inherits;		/* the device, open, of root */
} users[] = {
	{ "root", be_root, true, true, true, false },
	{ "a user with CAP_SYS_ADMIN", be_admin, true, true, true, false },
	{ "a user with CAP_PERFMON", be_perfmon, true, true, false, false },
	{ "a member of the group", be_member, true, false, false, false },
	{ "a user of none", be_nobody, false, false, false, false },
	{ "a user of none who got the device", be_nobody, true, false, false, true },
	{ "root of a member's user namespace", be_namespace_root, true, false, false, false },
	{ "the host's root in a user namespace", be_contained_root, true, false, false, false },
};

/* ---- requests, in the child */

static void ask(int fd, enum request request, unsigned long number, void *arg)
{
	found->error[request] = ioctl(fd, number, arg) ? errno : 0;
}

static void ask_profile(int fd, enum request request, uint64_t id, int own)
{
	struct kvm_vpmu_profile p = {
		.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS,
		.period = 1000000, .records = KVM_VPMU_PROFILE_MIN_RECORDS,
		.flags = KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_SWITCHES, .vm = id, .fd = own,
	};
	int profile = ioctl(fd, KVM_VPMU_PROFILE, &p);

	found->error[request] = profile < 0 ? errno : 0;
	if (profile >= 0)
		close(profile);
}

static void ask_probe(int fd, enum request request, uint64_t id, int own)
{
	struct kvm_vpmu_probe p = {
		.type = { PERF_TYPE_HARDWARE }, .config = { PERF_COUNT_HW_INSTRUCTIONS }, .events = 1,
		.period = 1000000, .pages = KVM_VPMU_PROBE_PAGES, .nr = 1, .vm = id, .fd = own,
		.first = own >= 0 ? OWN_VCPU : 0,
	};
	int probe = ioctl(fd, KVM_VPMU_PROBE, &p);

	found->error[request] = probe < 0 ? errno : 0;
	if (probe >= 0)
		close(probe);
}

/* This thread is the one that runs the vCPU, which executes nothing. */
static bool run_once(int vcpu)
{
	struct kvm_run *run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);

	if (run == MAP_FAILED)
		return false;
	run->immediate_exit = 1;
	return ioctl(vcpu, KVM_RUN, NULL) < 0 && errno == EINTR;
}

static void ask_all(int fd)
{
	struct kvm_vpmu_vm list_room[4];
	struct kvm_vpmu_vms list = { .vms = (uintptr_t)list_room, .room = 4 };
	struct kvm_vpmu_vcpu v = { .vm = victim.id };
	struct kvm_vpmu_settings s = {
		.id = victim.id, .fd = -1, .fields = KVM_VPMU_SET_FREEZE,
		.freeze = KVM_VPMU_FREEZE_VCPU,
	};
	struct kvm_vpmu_attach attach = { .attach = KVM_VPMU_ATTACH_YES };
	struct kvm_vpmu_events e = { .flags = KVM_VPMU_EVENTS_OBSERVE };
	struct kvm_vpmu_vm_of_fd of;
	int own = ioctl(vm.kvm, KVM_CREATE_VM, 0), new = ioctl(vm.kvm, KVM_CREATE_VM, 0);
	int vcpu = ioctl(own, KVM_CREATE_VCPU, OWN_VCPU);

	if (own < 0 || new < 0 || vcpu < 0 || !run_once(vcpu)) {
		found->set_up = errno;
		return;
	}
	memset(&found->info, 0xff, sizeof(found->info));
	ask(fd, INFO, KVM_VPMU_GET_INFO, &found->info);
	ask(fd, LIST, KVM_VPMU_GET_VMS, &list);
	ask(fd, READ_NUMBER, KVM_VPMU_GET_VCPU, &v);
	v = (struct kvm_vpmu_vcpu){ .vm = ~0ull };
	ask(fd, READ_NO_NUMBER, KVM_VPMU_GET_VCPU, &v);
	e.vm = victim.id;
	ask(fd, EVENTS_NUMBER, KVM_VPMU_GET_EVENTS, &e);
	ask_profile(fd, PROFILE_ALL, 0, -1);
	ask_profile(fd, PROFILE_NUMBER, victim.id, -1);
	ask_probe(fd, PROBE_NUMBER, victim.id, -1);
	ask(fd, SET_NUMBER, KVM_VPMU_SET, &s);
	s.id = ~0ull;
	ask(fd, SET_NO_NUMBER, KVM_VPMU_SET, &s);

	of = (struct kvm_vpmu_vm_of_fd){ .fd = own };
	ask(fd, VM_OWN, KVM_VPMU_GET_VM, &of);
	found->vm = of.vm;
	found->vcpu = (struct kvm_vpmu_vcpu){ .fd = own };
	ask(fd, READ_OWN, KVM_VPMU_GET_VCPU, &found->vcpu);
	e = (struct kvm_vpmu_events){ .fd = own, .flags = KVM_VPMU_EVENTS_OBSERVE };
	ask(fd, EVENTS_OWN, KVM_VPMU_GET_EVENTS, &e);
	ask_profile(fd, PROFILE_OWN, 0, own);
	ask_probe(fd, PROBE_OWN, 0, own);
	s.id = 0;
	s.fd = own;
	ask(fd, SET_OWN, KVM_VPMU_SET, &s);
	attach.fd = own;
	ask(fd, CHOOSE_OWN, KVM_VPMU_ATTACH, &attach);
	attach.fd = new;
	ask(fd, CHOOSE_NEW, KVM_VPMU_ATTACH, &attach);
	attach.fd = -1;
	ask(fd, CHOOSE_FILE, KVM_VPMU_ATTACH, &attach);

	of = (struct kvm_vpmu_vm_of_fd){ .fd = vm.kvm };
	ask(fd, VM_OTHER, KVM_VPMU_GET_VM, &of);
	v = (struct kvm_vpmu_vcpu){ .fd = vm.kvm };
	ask(fd, READ_OTHER, KVM_VPMU_GET_VCPU, &v);
	e.fd = vm.kvm;
	ask(fd, EVENTS_OTHER, KVM_VPMU_GET_EVENTS, &e);
	ask_profile(fd, PROFILE_OTHER, 0, vm.kvm);
	ask_probe(fd, PROBE_OTHER, 0, vm.kvm);
	s.fd = vm.kvm;
	ask(fd, SET_OTHER, KVM_VPMU_SET, &s);
	attach.fd = vm.kvm;
	ask(fd, CHOOSE_OTHER, KVM_VPMU_ATTACH, &attach);
}

static void try_as(const struct user *user)
{
	int inherited = -1, fd;

	close(vm.fd);
	close(vm.vcpu);
	if (user->inherits)
		inherited = dup(device);
	close(device);
	if (!user->be()) {
		found->set_up = errno;
		return;
	}
	fd = inherited >= 0 ? inherited : open(DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		found->opened = errno;
	else
		ask_all(fd);
}

/* ---- what is expected, in the test itself */

static int expected(const struct user *user, enum request request)
{
	switch (request) {
	case LIST:
	case READ_NUMBER:
	case EVENTS_NUMBER:
	case PROFILE_ALL:
	case PROFILE_NUMBER:
	case PROBE_NUMBER:
		return user->reads_all ? 0 : EPERM;
	case READ_NO_NUMBER:
		return user->reads_all ? ENOENT : EPERM;
	case SET_NUMBER:
		return user->sets_all ? 0 : EPERM;
	case SET_NO_NUMBER:
		return user->sets_all ? ENOENT : EPERM;
	case CHOOSE_OWN:
		return EBUSY;
	case VM_OTHER:
	case READ_OTHER:
	case EVENTS_OTHER:
	case PROFILE_OTHER:
	case PROBE_OTHER:
	case SET_OTHER:
	case CHOOSE_OTHER:
		return EINVAL;
	default:
		return 0;
	}
}

static void look_at_victim(void)
{
	struct kvm_vpmu_vm_of_fd of = { .fd = vm.fd };

	if (ioctl(device, KVM_VPMU_GET_VM, &of))
		err(1, "KVM_VPMU_GET_VM");
	victim = of.vm;
}

static void set_victim(uint32_t freeze)
{
	struct kvm_vpmu_settings s = {
		.fd = vm.fd, .fields = KVM_VPMU_SET_FREEZE, .freeze = freeze,
	};

	if (ioctl(device, KVM_VPMU_SET, &s))
		err(1, "KVM_VPMU_SET");
}

static void test(const struct user *user)
{
	const char *name = user->name;
	pid_t child;

	set_victim(KVM_VPMU_FREEZE_HYBRID);
	memset(found, 0, sizeof(*found));
	fflush(stdout);
	child = fork();
	if (!child) {
		try_as(user);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	look_at_victim();

	if (found->set_up) {
		/* User namespaces may be forbidden; nothing else may fail. */
		if (user->be == be_namespace_root && found->set_up == EPERM)
			skip("needs user namespaces for users", "%s", name);
		else
			is(found->set_up, 0, "%s: has a VM", name);
		return;
	}
	is(found->opened, user->opens ? 0 : EACCES, "%s: opening the device", name);
	if (found->opened)
		return;
	for (int i = 0; i < REQUESTS; i++)
		is(found->error[i], expected(user, i), "%s: %s", name, names[i]);

	check(victim.freeze == (user->sets_all ? KVM_VPMU_FREEZE_VCPU : KVM_VPMU_FREEZE_HYBRID),
	      "%s: another's VM is %s", name, user->sets_all ? "set" : "as it was");
	check(found->info.abi == KVM_VPMU_ABI && found->info.counters && found->info.hardware[0],
	      "%s: learns the host's PMU", name);
	if (user->reads_all)
		check(found->info.vms >= 2 && (found->info.rdmsr || found->info.wrmsr),
		      "%s: learns what all VMs do together", name);
	else
		check(!found->info.vms && !found->info.rdmsr && !found->info.wrmsr &&
		      !found->info.rdpmc, "%s: learns nothing of what other VMs do", name);
	check(found->vm.vcpus == 1 && !found->vm.freeze &&
	      found->vcpu.vcpu_id == OWN_VCPU,
	      "%s: learns all of its own VM", name);
	if (user->reads_all)
		check(found->vm.id > victim.id && found->vm.pid == child && found->vcpu.tid == child,
		      "%s: learns its VM's number, PID and thread", name);
	else
		check(!found->vm.id && !found->vm.pid && !found->vcpu.vm && !found->vcpu.tid,
		      "%s: doesn't learn its VM's number, PID and thread", name);
}

int main(void)
{
	struct stat before;

	if (getuid())
		skip_all("needs root");
	device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, DEVICE);
	vm = make_vm(true);
	set_msr(&vm, on_intel() ? INTEL_SELECT0 : LEGACY_SELECT0, 0x4300c0);
	load_code(&vm, halt_start, halt_end, (struct kvm_regs){ });
	run_to_hlt(&vm);
	look_at_victim();
	found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (found == MAP_FAILED || stat(DEVICE, &before) || chown(DEVICE, 0, GROUP) ||
	    chmod(DEVICE, 0660))
		err(1, DEVICE);

	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++)
		test(&users[i]);

	if (chown(DEVICE, before.st_uid, before.st_gid) || chmod(DEVICE, before.st_mode & 07777))
		err(1, DEVICE);
	return finish();
}
