// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Profiles of a CPU (linux/kvm_vpmu_profile.h): whose samples they have, which registers, that none
 * is missing; switches of a vCPU and the times between them.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include <linux/capability.h>
#include <linux/kvm_vpmu_profile.h>

#include "tap.h"
#include "events.h"
#include "files.h"
#include "guests.h"
#include "pin.h"
#include "profiles.h"
#include "registers.h"
#include "stats.h"
#include "waits.h"

#define RECORDS	16384
/* A sample costs the emulated host some 4,000 instructions, which are sampled, too. */
#define PERIOD	50021
#define RUNS	1200
#define PULSES	30

static int device;

static struct kvm_vpmu_profile instructions(void)
{
	return (struct kvm_vpmu_profile){
		.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS, .period = PERIOD,
		.flags = KVM_VPMU_PROFILE_SAMPLES, .records = RECORDS, .fd = -1,
	};
}

static struct kvm_vpmu_profile switches(void)
{
	return (struct kvm_vpmu_profile){
		.flags = KVM_VPMU_PROFILE_SWITCHES | KVM_VPMU_PROFILE_KVM_TIME,
		.records = RECORDS, .fd = -1,
	};
}

static struct kvm_vpmu_profile_count count_of(const struct profile *p)
{
	struct kvm_vpmu_profile_count c;

	if (read(p->fd, &c, sizeof(c)) != sizeof(c))
		err(1, "read() of a profile");
	return c;
}

static struct kvm_vpmu_vm vm_of(const struct vm *vm)
{
	struct kvm_vpmu_vm_of_fd of = { .fd = vm->fd };

	IOCTL(device, KVM_VPMU_GET_VM, &of);
	return of.vm;
}

static void refused(int error, const char *what, struct kvm_vpmu_profile profile)
{
	int fd = ioctl(device, KVM_VPMU_PROFILE, &profile);

	check(fd < 0 && errno == error, "refused: %s (%s)", what, fd < 0 ? strerror(errno) : "opened");
	if (fd >= 0)
		close(fd);
}

/* instructions(), but for one field */
#define WITH(field, number) \
	({ struct kvm_vpmu_profile with = instructions(); with.field = (number); with; })

static void check_arguments(void)
{
	struct kvm_vpmu_profile what = instructions();
	struct kvm_vpmu_profile_count c;
	struct vm vm = make_vm(true), none = make_vm(false);
	char page[8];
	int fd;

	refused(EINVAL, "neither samples nor switches", WITH(flags, 0));
	refused(EINVAL, "an unknown flag", WITH(flags, KVM_VPMU_PROFILE_SAMPLES | 1 << 30));
	refused(EINVAL, "an event without samples", WITH(flags, KVM_VPMU_PROFILE_SWITCHES));
	refused(EINVAL, "no period", WITH(period, 0));
	refused(EINVAL, "a period of 2^63", WITH(period, 1ull << 63));
	refused(EINVAL, "an event of software", WITH(type, PERF_TYPE_SOFTWARE));
	refused(EINVAL, "100 records", WITH(records, 100));
	refused(EINVAL, "32 records", WITH(records, 32));
	refused(EINVAL, "131,072 records", WITH(records, 131072));
	refused(EINVAL, "a reserved field", WITH(reserved, 1));
	refused(EINVAL, "a descriptor of -2", WITH(fd, -2));
	refused(EINVAL, "a file that is no VM", WITH(fd, device));
	refused(EBADF, "no file", WITH(fd, 1000));
	refused(ENODEV, "a CPU that doesn't exist", WITH(cpu, 1 << 20));
	refused(ENOENT, "a number that no VM has", WITH(vm, 1ull << 60));
	refused(ENOENT, "a VM without a PMU", WITH(fd, none.fd));
	what.fd = vm.fd;
	what.vm = vm_of(&vm).id;
	refused(EINVAL, "both a number and a file", what);
	free_vm(&vm);
	free_vm(&none);

	what = instructions();
	fd = IOCTL(device, KVM_VPMU_PROFILE, &what);
	check(mmap(NULL, profile_size(RECORDS) / 2, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED,
	      "refused: half the ring");
	check(mmap(NULL, profile_size(RECORDS), PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED,
	      "refused: a private mapping");
	check(mmap(NULL, profile_size(RECORDS), PROT_READ, MAP_SHARED, fd, getpagesize()) == MAP_FAILED,
	      "refused: not from the beginning");
	check(read(fd, page, sizeof(page)) < 0 && errno == EINVAL, "refused: a short read()");
	check(read(fd, &c, sizeof(c)) == sizeof(c) && c.running_ns == c.enabled_ns,
	      "read() without a mapping");
	close(fd);
}

/* One of @vm in guest mode with RIP in the code */
static bool is_guests(const struct kvm_vpmu_record *r, uint64_t vm)
{
	return r->vm == vm && r->mode == KVM_VPMU_MODE_GUEST && r->vcpu == 0 && r->cpl == 0 &&
	       r->exit_reason == KVM_VPMU_EXIT_NONE && r->ip >= CODE &&
	       r->ip < CODE + (size_t)(spin_end - spin_start);
}

static bool is_host_s(const struct kvm_vpmu_record *r)
{
	bool kernel = r->mode == KVM_VPMU_MODE_HOST_KERNEL;

	return (kernel || r->mode == KVM_VPMU_MODE_HOST_USER) && r->ip >> 63 == kernel &&
	       !r->cr3 && r->cpl == KVM_VPMU_CPL_NONE;
}

/* All of a CPU, with one VM that counts its own instructions */
static void check_samples(const char *what, struct kvm_vpmu_profile profile)
{
	struct kvm_sregs sregs;
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	uint64_t id = vm_of(&vm).id, values = 0, guests = 0, before = 0, pid = getpid(), now;
	unsigned int strange = 0, other = 0, late = 0, foreign = 0;
	const struct kvm_vpmu_record *r;
	struct kvm_vpmu_profile_count c;
	struct profile p;

	load_spin(&vm);
	IOCTL(vm.vcpu, KVM_GET_SREGS, &sregs);
	sregs.cr3 = 0x123000;
	IOCTL(vm.vcpu, KVM_SET_SREGS, &sregs);

	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | USR | EN, 0);

	p = profile_open(device, profile);
	spin(&vm, 1000);
	c = count_of(&p);
	now = __rdtsc();
	while ((r = profile_next(&p))) {
		/* Reading is sampled, too. */
		if (r->tsc < now)
			values += r->value;
		late += r->tsc < before;
		before = r->tsc;
		if (is_guests(r, id)) {
			guests += r->value;
			foreign += r->cr3 != 0x123000;
		} else if (!is_host_s(r)) {
			strange++;
		}
		other += profile.fd < 0 && r->vm == id && (r->pid != pid || r->tid != pid);
	}
	printf("# %s: %llu counted, %llu sampled, %llu in the guest\n", what,
	       (unsigned long long)c.value, (unsigned long long)values, (unsigned long long)guests);
	is(p.ring->lost, 0, "%s: lost", what);
	is(p.ring->throttled, 0, "%s: throttled", what);
	is(strange, 0, "%s: neither of the guest nor of the host", what);
	is(foreign, 0, "%s: another CR3", what);
	is(other, 0, "%s: another task", what);
	is(late, 0, "%s: out of order", what);
	check(c.enabled_ns && c.running_ns == c.enabled_ns, "%s: the event ran all the time", what);
	/*
	 * One may come between the count and the time behind it.  Host perf makes one sample of
	 * overflows whose interrupt is later than a period (x86_perf_event_set_period()): so late
	 * is the emulated CPU's, once in 100,000 times.
	 */
	check(values + 3 * PERIOD > c.value && values <= c.value + PERIOD, "%s: none is missing",
	      what);
	/* An overflow in the NMI of the sample before is one of what that NMI interrupted. */
	check(guests + 2 * PERIOD >= SPIN_INSTRUCTIONS(1000) && guests <= c.value + 2 * PERIOD,
	      "%s: the guest's samples (%llu, wanted %llu)", what, (unsigned long long)guests,
	      SPIN_INSTRUCTIONS(1000));
	/* The OUT isn't completed yet. */
	is(counter(&vm, pmu, 0), SPIN_INSTRUCTIONS(1000), "%s: the guest's own count", what);
	profile_close(&p);
	free_vm(&vm);
}

/* What host perf leaves out, as there are too many samples, is counted. */
static void check_throttled(void)
{
	struct vm vm = make_vm(true);
	struct profile p;

	load_spin(&vm);
	profile_limit("1000");
	p = profile_open(device, instructions());
	spin(&vm, 1000);
	check(p.ring->throttled, "a limit: throttled %llu times", (unsigned long long)p.ring->throttled);
	profile_close(&p);
	profile_limit(PROFILE_NO_LIMIT);
	free_vm(&vm);
}

/* What the VM's events are behind some work */
static struct kvm_vpmu_events work_on(struct vm *vm)
{
	struct kvm_vpmu_events e = { .fd = vm->fd };

	spin(vm, 10);
	IOCTL(device, KVM_VPMU_GET_EVENTS, &e);
	return e;
}

/* The time in KVM is counted as long as such a profile is open, and no more than that. */
static void check_kvm_time(void)
{
	struct kvm_vpmu_profile what = instructions();
	struct vm vm = make_vm(true);
	int observer = open("/dev/kvm-vpmu", O_RDWR);
	struct kvm_vpmu_events e;
	struct profile p;
	uint64_t ticks;

	if (observer < 0)
		err(1, "/dev/kvm-vpmu");
	load_spin(&vm);
	what.flags |= KVM_VPMU_PROFILE_KVM_TIME;
	p = profile_open(device, what);
	e = work_on(&vm);
	check(e.count[KVM_VPMU_EVENT_TICKS_KVM], "with the time in KVM: %llu ticks",
	      (unsigned long long)e.count[KVM_VPMU_EVENT_TICKS_KVM]);
	is(e.observed, 0, "with the time in KVM: the VM's other events aren't observed");

	e = observe(observer, &vm);
	is(e.observed, 1, "beside an observer: they are");
	profile_close(&p);
	ticks = work_on(&vm).count[KVM_VPMU_EVENT_TICKS_KVM];
	check(ticks > e.count[KVM_VPMU_EVENT_TICKS_KVM], "the observer has the time when the profile has ended");
	close(observer);

	work_on(&vm);
	ticks = work_on(&vm).count[KVM_VPMU_EVENT_TICKS_KVM];
	is(work_on(&vm).count[KVM_VPMU_EVENT_TICKS_KVM], ticks, "the time isn't counted any more");
	free_vm(&vm);
}

/*
 * While KVM works for a guest that does nothing but CPUID, samples have that VM exit's code.
 * APM vol. 2, "SVM Intercept Codes"; the module doesn't know Intel's.
 */
#define EXIT_CPUID	0x72
/*
 * What else ends such a guest's stay in guest mode: the host's timer, however often its emulator
 * lets that come; a sample's own NMI; a page that isn't mapped yet; the OUT.
 */
#define EXIT_INTR	0x60
#define EXIT_NMI	0x61
#define EXIT_IOIO	0x7b
#define EXIT_NPF	0x400

static bool is_expected(uint32_t reason)
{
	return reason == EXIT_INTR || reason == EXIT_NMI || reason == EXIT_IOIO ||
	       reason == EXIT_NPF;
}

extern const char cpuids_start[], cpuids_end[];
asm(".code16\n"
    ".globl cpuids_start, cpuids_end\n"
    "cpuids_start:\n"
    "1:	xor %eax, %eax\n"
    "	cpuid\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "cpuids_end:\n"
    ".code64\n");

struct reasons {
	unsigned int cpuids, expected, others, none;
};

/* Of the samples in KVM */
static struct reasons count_reasons(struct profile *p, uint64_t vm)
{
	const struct kvm_vpmu_record *r;
	struct reasons n = {};

	while ((r = profile_next(p))) {
		if (r->vm != vm || r->mode != KVM_VPMU_MODE_HOST_KERNEL)
			continue;
		if (r->exit_reason == EXIT_CPUID)
			n.cpuids++;
		else if (r->exit_reason == KVM_VPMU_EXIT_NONE)
			n.none++;
		else if (is_expected(r->exit_reason))
			n.expected++;
		else
			n.others++;
	}
	return n;
}

static void check_reasons(void)
{
	struct vm vm = make_vm(true);
	uint64_t id = vm_of(&vm).id;
	struct reasons n;
	struct profile p;

	load_code(&vm, cpuids_start, cpuids_end, (struct kvm_regs){ .rsi = 1 });
	p = profile_open(device, instructions());
	for (unsigned int i = 0; i < 2000; i++)
		complete(&vm);
	n = count_reasons(&p, id);
	check(n.none && !n.cpuids && !n.expected && !n.others,
	      "samples in KVM before the first VM entry: no reason (%u)", n.none);
	/* The first entry needs page tables, which takes long where the kernel checks each access. */
	run_until(&vm, KVM_EXIT_IO);
	count_reasons(&p, id);
	load_code(&vm, cpuids_start, cpuids_end, (struct kvm_regs){ .rsi = 2000 });
	run_until(&vm, KVM_EXIT_IO);
	n = count_reasons(&p, id);
	printf("# in KVM: %u samples for CPUID, %u for what is expected, %u for others, "
	       "%u for none\n", n.cpuids, n.expected, n.others, n.none);
	if (on_intel())
		check(n.none && !n.cpuids && !n.expected && !n.others,
		      "samples in KVM: no VM exit's reason");
	else
		check(n.cpuids > 2 * n.expected && !n.none && !n.others,
		      "samples in KVM: the last VM exit's reason");
	profile_close(&p);
	free_vm(&vm);
}

/* Samples of one VM only, while another runs */
static void check_filter(void)
{
	struct vm a = make_vm(true), b = make_vm(true);
	struct kvm_vpmu_profile what = WITH(vm, vm_of(&a).id);
	const struct kvm_vpmu_record *r;
	unsigned int own = 0, others = 0;
	struct profile p;

	what.flags |= KVM_VPMU_PROFILE_SWITCHES;
	load_spin(&a);
	load_spin(&b);
	p = profile_open(device, what);
	spin(&b, 100);
	check(!profile_next(&p), "one VM: nothing of another");
	spin(&a, 100);
	spin(&b, 100);
	while ((r = profile_next(&p)))
		*(r->vm == what.vm ? &own : &others) += 1;
	check(own >= SPIN_INSTRUCTIONS(100) / PERIOD - 2, "one VM: %u records", own);
	is(others, 0, "one VM: of others");
	free_vm(&a);
	/* The number goes to nobody else. */
	spin(&b, 100);
	a = make_vm(true);
	load_spin(&a);
	while ((r = profile_next(&p)))
		;
	spin(&a, 100);
	check(!profile_next(&p), "a VM that has ended: nothing of the next");
	profile_close(&p);
	free_vm(&a);
	free_vm(&b);
}

/* This thread's effective capabilities: none, or all that it may have */
static void set_capabilities(bool all)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		err(1, "capget");
	for (unsigned int i = 0; i < 2; i++)
		data[i].effective = all ? data[i].permitted : 0;
	if (syscall(SYS_capset, &header, data))
		err(1, "capset");
}

/* The VM's owner, who has no capability */
static void check_owner(void)
{
	struct kvm_vpmu_profile all = instructions(), what = instructions();
	struct vm vm = make_vm(true);
	uint64_t id = vm_of(&vm).id, guests = 0;
	unsigned int others = 0;
	const struct kvm_vpmu_record *r;
	struct profile p;

	set_capabilities(false);
	what.fd = vm.fd;
	what.flags |= KVM_VPMU_PROFILE_SWITCHES | KVM_VPMU_PROFILE_KVM_TIME;
	load_spin(&vm);
	refused(EPERM, "everything, to a VM's owner", all);
	all.vm = id;
	refused(EPERM, "a VM by its number, to its owner", all);
	p = profile_open(device, what);
	refused(EBUSY, "another profile of the VM", what);
	spin(&vm, 1000);
	while ((r = profile_next(&p))) {
		if (r->type == KVM_VPMU_RECORD_SAMPLE && is_guests(r, id))
			guests += r->value;
		else
			others += r->type == KVM_VPMU_RECORD_SAMPLE;
		others += r->pid || r->tid || r->vm != id;
	}
	is(others, 0, "a VM's owner: what isn't of the guest");
	/* Each stay in guest mode but the last may end before the interrupt of an overflow. */
	check(llabs((long long)(guests - SPIN_INSTRUCTIONS(1000))) <= 20 * PERIOD,
	      "a VM's owner: the guest's samples (%llu, wanted %llu)", (unsigned long long)guests,
	      SPIN_INSTRUCTIONS(1000));
	profile_close(&p);
	p = profile_open(device, what);
	profile_close(&p);
	set_capabilities(true);
	free_vm(&vm);
}

/* A ring of 64 records; what userspace writes there */
static void check_full(void)
{
	struct kvm_vpmu_profile what = switches();
	struct vm vm = make_vm(true);
	struct profile p;
	uint64_t head, records, had;

	what.records = 64;
	load_code(&vm, outs_start, outs_end, (struct kvm_regs){ 0 });
	p = profile_open(device, what);
	for (unsigned int i = 0; i < 50; i++)
		run_until(&vm, KVM_EXIT_IO);
	is(p.ring->head, 64, "a full ring: records");
	/* There may be preemptions, too. */
	check(p.ring->lost >= 2 * 50 - 64, "a full ring: %llu lost",
	      (unsigned long long)p.ring->lost);
	for (records = 0; profile_next(&p); records++)
		;
	is(records, 64, "a full ring: read");
	run_until(&vm, KVM_EXIT_IO);
	had = p.ring->head;
	check(had >= 66, "a full ring that was read (%llu)", (unsigned long long)had);

	/* Whatever is written there, the module knows better. */
	p.ring->head = 12345;
	p.ring->tail = 1ull << 63;
	run_until(&vm, KVM_EXIT_IO);
	head = p.ring->head;
	check(head == had, "a wrong tail: nothing more (%llu)", (unsigned long long)head);
	p.ring->tail = had;
	run_until(&vm, KVM_EXIT_IO);
	check(p.ring->head >= had + 2, "the right one again (%llu)",
	      (unsigned long long)p.ring->head);
	profile_close(&p);
	free_vm(&vm);
}

/* What switches say of the time from the first LOAD to the last PUT */
struct times {
	uint64_t loaded, in_kvm, runnable_ns, waits[5];
	unsigned int loads, puts[5], strange;
	uint64_t first, last;
};

static struct times add_up(struct profile *p, uint64_t id)
{
	struct times t = {};
	const struct kvm_vpmu_record *r;
	uint64_t since = 0;
	unsigned int why = KVM_VPMU_PUT_USER;
	bool loaded = false;

	while ((r = profile_next(p))) {
		if (r->type == KVM_VPMU_RECORD_SAMPLE || r->type == KVM_VPMU_RECORD_AWAY)
			continue;
		t.strange += r->vm != id || loaded == (r->type == KVM_VPMU_RECORD_LOAD) ||
			     r->tsc < since || r->mode > KVM_VPMU_PUT_READ;
		if (r->type == KVM_VPMU_RECORD_LOAD) {
			if (t.loads++) {
				t.waits[why] += r->tsc - since;
				t.runnable_ns += r->value;
			} else {
				t.first = r->tsc;
			}
		} else {
			why = r->mode % 5;
			t.puts[why]++;
			t.loaded += r->tsc - since;
			t.in_kvm += r->value;
			t.strange += r->value > r->tsc - since;
			t.last = r->tsc;
		}
		loaded = r->type == KVM_VPMU_RECORD_LOAD;
		since = r->tsc;
	}
	t.strange += loaded;
	return t;
}

static void check_switches(void)
{
	struct vm vm = make_vm(true);
	uint64_t delays[2], wall[2];
	struct kvm_vpmu_events before, after;
	struct profile p;
	struct times t;
	pid_t rival;

	load_code(&vm, outs_start, outs_end, (struct kvm_regs){ 0 });
	fflush(stdout);
	rival = fork();
	if (!rival)
		for (;;)
			;
	p = profile_open(device, switches());
	observe(device, &vm);
	run_until(&vm, KVM_EXIT_IO);
	/* Other ioctls are no switches. */
	get_msr(&vm, 0x10);
	t = add_up(&p, vm_of(&vm).id);
	is(t.strange, 0, "switches: of other ioctls");
	before = observe(device, &vm);
	wall[0] = __rdtsc();
	delays[0] = run_delay();
	for (unsigned int i = 0; i < RUNS; i++)
		run_until(&vm, KVM_EXIT_IO);
	delays[1] = run_delay();
	wall[1] = __rdtsc();
	after = observe(device, &vm);
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);
	t = add_up(&p, vm_of(&vm).id);
	printf("# switches: %u to userspace, %u preempted, %u halted, %u blocked\n",
	       t.puts[KVM_VPMU_PUT_USER], t.puts[KVM_VPMU_PUT_PREEMPTED],
	       t.puts[KVM_VPMU_PUT_HALTED], t.puts[KVM_VPMU_PUT_BLOCKED]);
	is(t.strange, 0, "switches: of others, out of order or twice");
	is(t.puts[KVM_VPMU_PUT_USER], RUNS, "switches: returns to userspace");
	check(t.puts[KVM_VPMU_PUT_PREEMPTED] >= 3, "switches: preempted");
	is(t.puts[KVM_VPMU_PUT_HALTED] + t.puts[KVM_VPMU_PUT_BLOCKED], 0, "switches: no other reason");
	is(t.loaded + t.waits[0] + t.waits[1], t.last - t.first, "switches: the times' sum");
	check(t.last - t.first <= wall[1] - wall[0], "switches: no more than has passed");
	/* What is in front of the first LOAD and behind the last PUT */
	check(wall[1] - wall[0] - (t.last - t.first) <=
	      ticks(&vm, delays[1] - delays[0]) + (wall[1] - wall[0]) / 10,
	      "switches: nearly all that has passed");
	check(t.runnable_ns <= delays[1] - delays[0] && t.runnable_ns,
	      "switches: %llu ns runnable, by schedstat %llu at most",
	      (unsigned long long)t.runnable_ns, (unsigned long long)(delays[1] - delays[0]));
	check(ticks(&vm, t.runnable_ns) <= t.waits[0] + t.waits[1],
	      "switches: not runnable for longer than not loaded");
	check(ticks(&vm, t.runnable_ns) >= t.waits[1] - t.waits[1] / 20,
	      "switches: runnable while preempted");
	is(t.in_kvm, after.count[KVM_VPMU_EVENT_TICKS_KVM] - before.count[KVM_VPMU_EVENT_TICKS_KVM],
	   "switches: ticks in KVM");
	profile_close(&p);
	free_vm(&vm);
}

static void *spin_long(void *arg)
{
	pin(0, 1);
	spin(arg, 30000);
	return NULL;
}

/* read() looks at a vCPU that is loaded for long. */
static void check_read(void)
{
	struct kvm_vpmu_profile what = switches();
	const struct kvm_vpmu_record *r;
	struct vm vm = make_vm(true);
	uint64_t before, behind;
	pthread_t thread;
	struct profile p;
	struct times t;

	what.cpu = 1;
	load_spin(&vm);
	if (pthread_create(&thread, NULL, spin_long, &vm))
		errx(1, "no thread");
	usleep(200000);
	p = profile_open(device, what);
	before = __rdtsc();
	count_of(&p);
	/* There may be a switch in between. */
	while ((r = profile_next(&p)) && (r->type != KVM_VPMU_RECORD_PUT || r->tsc < before))
		;
	check(r && r->mode == KVM_VPMU_PUT_READ && r->tsc <= __rdtsc(),
	      "read(): a vCPU loaded before");
	usleep(100000);
	count_of(&p);
	/* Short of what the other one has of time in KVM */
	count_of(&p);
	behind = __rdtsc();
	pthread_join(thread, NULL);
	t = add_up(&p, vm_of(&vm).id);
	is(t.strange, 0, "read(): of others, out of order or twice");
	is(t.puts[KVM_VPMU_PUT_READ], 2, "read(): others");
	is(t.puts[KVM_VPMU_PUT_USER], 1, "read(): behind that the end");
	check(t.first < behind && t.last > behind && t.in_kvm < t.loaded,
	      "read(): %llu ticks in KVM of %llu", (unsigned long long)t.in_kvm,
	      (unsigned long long)t.loaded);
	is(t.loaded + t.waits[1] + t.waits[2] + t.waits[3], t.last - t.first,
	   "read(): the times' sum");
	profile_close(&p);
	free_vm(&vm);
}

/* HLTs, which the APIC's timer ends */
static void check_halts(void)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_HALT_POLL, .args = { 0 } };
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	uint64_t before, after;
	struct profile p;
	struct times t;

	load_code(&vm, pulses_start, pulses_end, (struct kvm_regs){ .rsi = PULSES });
	IOCTL(vm.fd, KVM_ENABLE_CAP, &cap);
	prepare_pulses(&vm);
	p = profile_open(device, switches());
	before = kvm_stat(&vm, "halt_wait_ns");
	run_until(&vm, KVM_EXIT_IO);
	after = kvm_stat(&vm, "halt_wait_ns");
	t = add_up(&p, vm_of(&vm).id);
	is(t.strange, 0, "halts: of others, out of order or twice");
	/* A thread that is woken for nothing is put again. */
	check(t.puts[KVM_VPMU_PUT_HALTED] >= PULSES, "halts: each (%u)",
	      t.puts[KVM_VPMU_PUT_HALTED]);
	printf("# %llu ticks halted, by KVM's statistics %llu\n",
	       (unsigned long long)t.waits[KVM_VPMU_PUT_HALTED],
	       (unsigned long long)ticks(&vm, after - before));
	/* KVM's has the switch of tasks as well. */
	check(t.waits[KVM_VPMU_PUT_HALTED] <= ticks(&vm, after - before) &&
	      t.waits[KVM_VPMU_PUT_HALTED] >= ticks(&vm, (after - before) / 100 * 95),
	      "halts: as long as KVM's statistics say");
	profile_close(&p);
	free_vm(&vm);
}

/* ---- vCPUs that aren't loaded */

asm(".code16\n"
    "hlt_start:\n"
    "	cli\n"
    "	hlt\n"
    "hlt_end:\n"
    ".code64\n");
extern char hlt_start[], hlt_end[];

static void do_nothing(__attribute__((unused)) int signal)
{
}

/* Until a signal comes */
static void *run_until_signal(void *arg)
{
	const struct vm *vm = arg;

	pin(0, 0);
	check(ioctl(vm->vcpu, KVM_RUN, 0) < 0 && errno == EINTR, "absent: ended by a signal");
	return NULL;
}

static void set_realtime(bool on)
{
	const struct sched_param param = { .sched_priority = on };

	if (sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &param))
		err(1, "SCHED_FIFO");
}

/* Signal a thread of this CPU, which can't run before set_realtime(false), or this one sleeps. */
static void signal_held(pthread_t thread)
{
	set_realtime(true);
	pthread_kill(thread, SIGUSR1);
}

/* What read() says of @vm, which is all that it says; .mode UINT8_MAX: nothing, or something else */
static struct kvm_vpmu_record look_at(struct profile *p, const struct vm *vm)
{
	struct kvm_vpmu_record found = { .mode = UINT8_MAX };
	uint64_t before = __rdtsc(), id = vm_of(vm).id;
	const struct kvm_vpmu_record *r;
	unsigned int others = 0;

	/* Switches of before */
	while (profile_next(p))
		;
	count_of(p);
	while ((r = profile_next(p))) {
		if (r->type == KVM_VPMU_RECORD_AWAY && r->vm == id && r->tsc > before &&
		    found.mode == UINT8_MAX && !r->tid && r->vcpu == 0)
			found = *r;
		else
			others++;
	}
	return others ? (struct kvm_vpmu_record){ .mode = UINT8_MAX } : found;
}

#define WAIT	20000000

static void wait_for(uint64_t ticks)
{
	uint64_t begin = __rdtsc();

	while (__rdtsc() - begin <= ticks)
		;
}

static void check_absent(void)
{
	struct kvm_vpmu_profile what = switches();
	struct vm vm = make_vm_with(VM_APIC, MEMORY), other = make_vm(true);
	/* By an ioctl, for which there is no time while the vCPU runs */
	uint64_t wait = ticks(&vm, WAIT);
	uint64_t sent[2], looked[2];
	struct kvm_vpmu_record r;
	const struct kvm_vpmu_record *load;
	struct profile p;
	pthread_t thread;

	load_code(&vm, hlt_start, hlt_end, (struct kvm_regs){ 0 });
	load_spin(&other);
	spin(&other, 1);
	what.vm = vm_of(&vm).id;
	p = profile_open(device, what);
	r = look_at(&p, &vm);
	is(r.mode, KVM_VPMU_PUT_USER, "absent: not yet run");

	if (pthread_create(&thread, NULL, run_until_signal, &vm))
		errx(1, "no thread");
	usleep(200000);
	r = look_at(&p, &vm);
	is(r.mode, KVM_VPMU_PUT_HALTED, "absent: halted");
	is(r.value, 0, "absent: not runnable while halted");
	sent[0] = __rdtsc();
	signal_held(thread);
	sent[1] = __rdtsc();
	wait_for(wait);
	looked[0] = __rdtsc();
	r = look_at(&p, &vm);
	looked[1] = __rdtsc();
	wait_for(wait);
	is(r.mode, KVM_VPMU_PUT_HALTED, "absent: halted, and woken");
	printf("# runnable for %llu ns\n", (unsigned long long)r.value);
	check(ticks(&vm, r.value) >= looked[0] - sent[1] && ticks(&vm, r.value) <= looked[1] - sent[0],
	      "absent: runnable since the signal");
	set_realtime(false);
	pthread_join(thread, NULL);
	load = profile_next(&p);
	check(load && load->type == KVM_VPMU_RECORD_LOAD &&
	      ticks(&vm, load->value) <= load->tsc - r.tsc &&
	      load->value >= WAIT,
	      "absent: the LOAD counts from then on (%llu ns)",
	      load ? (unsigned long long)load->value : 0);
	r = look_at(&p, &vm);
	is(r.mode, KVM_VPMU_PUT_USER, "absent: KVM_RUN has returned");
	profile_close(&p);

	what.vm = vm_of(&other).id;
	p = profile_open(device, what);
	r = look_at(&p, &other);
	is(r.mode, KVM_VPMU_PUT_USER, "absent: one VM of two");
	profile_close(&p);
	free_vm(&vm);
	free_vm(&other);
}

/* A vCPU that halts already when the recording begins, and waits for its CPU later */
static void check_halted_before(void)
{
	struct kvm_vpmu_profile what = switches();
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	uint64_t wait = ticks(&vm, WAIT);
	const struct kvm_vpmu_record *load;
	struct kvm_vpmu_record r;
	struct profile p;
	pthread_t thread;

	load_code(&vm, hlt_start, hlt_end, (struct kvm_regs){ 0 });
	if (pthread_create(&thread, NULL, run_until_signal, &vm))
		errx(1, "no thread");
	usleep(200000);
	what.vm = vm_of(&vm).id;
	p = profile_open(device, what);
	r = look_at(&p, &vm);
	is(r.mode, KVM_VPMU_PUT_HALTED, "halted before");
	is(r.value, 0, "halted before: not runnable");
	signal_held(thread);
	wait_for(wait);
	set_realtime(false);
	pthread_join(thread, NULL);
	load = profile_next(&p);
	check(load && load->type == KVM_VPMU_RECORD_LOAD && load->value >= WAIT &&
	      ticks(&vm, load->value) <= load->tsc - r.tsc,
	      "halted before: the LOAD says how long it was runnable (%llu ns)",
	      load ? (unsigned long long)load->value : 0);
	profile_close(&p);
	free_vm(&vm);
}

static void *spin_here(void *arg)
{
	pin(0, 0);
	spin(arg, 30000);
	return NULL;
}

static void check_preempted(void)
{
	struct vm vm = make_vm(true);
	struct kvm_vpmu_record r;
	struct profile p;
	pthread_t thread;

	load_spin(&vm);
	p = profile_open(device, switches());
	if (pthread_create(&thread, NULL, spin_here, &vm))
		errx(1, "no thread");
	set_realtime(true);
	usleep(100000);
	r = look_at(&p, &vm);
	is(r.mode, KVM_VPMU_PUT_PREEMPTED, "absent: preempted");
	is(r.value, 0, "absent: preempted, and no more");
	set_realtime(false);
	pthread_join(thread, NULL);
	profile_close(&p);
	free_vm(&vm);
}

/* What a vCPU waited for while there was no profile is no part of the next one. */
static void check_outdated(void)
{
	struct vm vm = make_vm(true);
	const struct kvm_vpmu_record *r;
	struct profile p;
	uint64_t before;
	pid_t rival;

	load_spin(&vm);
	p = profile_open(device, switches());
	spin(&vm, 1);
	profile_close(&p);
	before = run_delay();
	fflush(stdout);
	rival = fork();
	if (!rival)
		for (;;)
			;
	while (run_delay() - before < 10000000)
		;
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);
	p = profile_open(device, switches());
	spin(&vm, 1);
	r = profile_next(&p);
	check(r && r->type == KVM_VPMU_RECORD_LOAD, "outdated: a LOAD");
	is(r ? r->value : 1, 0, "outdated: nothing of before the profile");
	profile_close(&p);
	free_vm(&vm);
}

int main(void)
{
	const struct sigaction action = { .sa_handler = do_nothing };

	sigaction(SIGUSR1, &action, NULL);
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	pin(0, 0);
	profile_unthrottle();
	profile_warm_up(device);
	check_arguments();
	check_samples("all of a CPU", instructions());
	check_throttled();
	check_kvm_time();
	check_reasons();
	check_filter();
	check_owner();
	check_full();
	check_switches();
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		check_read();
	check_absent();
	check_halted_before();
	check_preempted();
	check_outdated();
	/* On an emulated Intel host that guest's HLT never ends, without the module as with it. */
	if (on_intel())
		skip("the HLT never ends there", "halts");
	else
		check_halts();
	return finish();
}
