// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which pages each vCPU accesses and writes (linux/kvm_vpmu_probe.h): the sets are those of guests
 * whose pages are known, whatever the host does with these meanwhile.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sysinfo.h>

#include <linux/kvm_vpmu_probe.h>

#include "tap.h"
#include "files.h"
#include "guests.h"
#include "pages.h"

#define SETS		KVM_VPMU_PROBE_PAGES
#define PERIOD		200000
/* In ms: much longer than a window of that many instructions takes */
#define LONG		20000

static int device;

static struct kvm_vpmu_probe probe_of(const struct vm *vm)
{
	return (struct kvm_vpmu_probe){
		.fd = vm->fd, .nr = 2, .events = 2, .period = PERIOD, .pages = SETS,
		.type = { PERF_TYPE_HARDWARE, PERF_TYPE_HARDWARE },
		.config = { PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
	};
}

/* An open probe and its mapping */
struct probe {
	int fd;
	unsigned int nr;
	uint8_t *area;
};

static size_t part_size(void)
{
	return PAGE + 2 * SETS / 8;
}

static struct probe open_probe(struct kvm_vpmu_probe what)
{
	struct probe p = { .fd = IOCTL(device, KVM_VPMU_PROBE, &what), .nr = what.nr };

	p.area = mmap(NULL, p.nr * part_size(), PROT_READ, MAP_SHARED, p.fd, 0);
	if (p.area == MAP_FAILED)
		err(1, "mapping a probe");
	return p;
}

static void close_probe(struct probe *p)
{
	munmap(p->area, p->nr * part_size());
	close(p->fd);
}

static int window(const struct probe *p, uint32_t timeout)
{
	return ioctl(p->fd, KVM_VPMU_PROBE_WINDOW, &timeout);
}

static const struct kvm_vpmu_probed *probed(const struct probe *p, unsigned int i)
{
	return (const void *)(p->area + i * part_size());
}

/*
 * A window in which the host takes no page away: it may do so at any time (kcompactd), and the window
 * says so.
 */
static void undisturbed_window(const struct probe *p)
{
	uint64_t disturbed;
	unsigned int i = 0;

	do {
		disturbed = 0;
		window(p, LONG);
		for (unsigned int j = 0; j < p->nr; j++)
			disturbed += probed(p, j)->fresh + probed(p, j)->gone;
	} while (disturbed && ++i < 10);
}

static bool has(const struct probe *p, unsigned int i, bool written, unsigned int frame)
{
	const uint64_t *set = (const void *)(p->area + i * part_size() + PAGE + (written ? SETS / 8 : 0));

	return set[frame / 64] >> frame % 64 & 1;
}

/* Pages that are in vCPU @i's sets and shouldn't be, and the other way round */
struct wrong {
	unsigned int false_accessed, false_written, missing;
};

static struct wrong compare(const struct probe *p, unsigned int i, const struct work *w)
{
	struct wrong wrong = { };

	for (unsigned int frame = 0; frame < SETS; frame++) {
		bool accessed = has(p, i, false, frame), written = has(p, i, true, frame);

		wrong.false_accessed += accessed && !is_accessed(w, frame);
		wrong.false_written += written && !is_written(w, frame);
		wrong.missing += (!accessed && is_accessed(w, frame)) || (!written && is_written(w, frame));
	}
	return wrong;
}

/* Those that the guest accesses: the code's is one more. */
static unsigned int pages_of(const struct work *w)
{
	return w->reads + w->writes + 1;
}

static void exact(const struct probe *p, unsigned int i, const struct work *w, uint32_t state,
		  const char *name)
{
	const struct kvm_vpmu_probed *out = probed(p, i);
	struct wrong wrong = compare(p, i, w);

	check(!wrong.false_accessed && !wrong.false_written && !wrong.missing,
	      "%s: vCPU %u: the sets (%u and %u pages too many, %u missing; %llu accessed, %llu written)",
	      name, i, wrong.false_accessed, wrong.false_written, wrong.missing,
	      (unsigned long long)out->accessed, (unsigned long long)out->written);
	check(out->state == state && !out->flags && !out->fresh && !out->gone,
	      "%s: vCPU %u: state %u, flags %u, %llu fresh, %llu gone", name, i, out->state, out->flags,
	      (unsigned long long)out->fresh, (unsigned long long)out->gone);
	is(out->accessed, pages_of(w), "%s: vCPU %u: accessed", name, i);
	is(out->written, w->writes, "%s: vCPU %u: written", name, i);
}

static const struct work first = { 32, 40, 100, 30, 0 }, second = { 50, 60, 120, 50, 0 };

/* Both vCPUs work, and are probed. */
static struct probe begin_both(struct worker worker[2])
{
	make_workers(worker);
	begin_work(&worker[0], first);
	begin_work(&worker[1], second);
	return open_probe(probe_of(&worker[0].vm));
}

static void end_both(struct worker worker[2], struct probe *p)
{
	end_work(&worker[0]);
	end_work(&worker[1]);
	close_probe(p);
	free_workers(worker);
}

static void check_two(void)
{
	static const struct work other = { 200, 3, 60, 5, 0 };
	unsigned int early = 0;
	struct worker worker[2];
	struct probe p;

	p = begin_both(worker);
	is(window(&p, LONG), 2, "two vCPUs: both have had a window");
	for (unsigned int i = 0; i < 2; i++)
		window(&p, LONG);
	undisturbed_window(&p);
	exact(&p, 0, &first, KVM_VPMU_PROBED_WHOLE, "two vCPUs");
	exact(&p, 1, &second, KVM_VPMU_PROBED_WHOLE, "two vCPUs");
	for (unsigned int i = 0; i < 2; i++) {
		const struct kvm_vpmu_probed *out = probed(&p, i);

		is(out->vcpu, i, "two vCPUs: the number");
		check(out->count[0] >= PERIOD && out->count[0] < PERIOD + PERIOD / 10,
		      "two vCPUs: %llu instructions", (unsigned long long)out->count[0]);
		/* Two in seven instructions of the inner loops */
		check(out->count[1] > out->count[0] / 4 && out->count[1] < out->count[0] / 3,
		      "two vCPUs: %llu branches", (unsigned long long)out->count[1]);
		check(out->end > out->begin, "two vCPUs: the end is behind the begin");
		is(out->mapped, out->accessed, "two vCPUs: nothing else is mapped");
	}

	/* What one that is over has left behind doesn't end the next one. */
	for (unsigned int i = 0; i < 100; i++) {
		window(&p, 0);
		window(&p, LONG);
		for (unsigned int j = 0; j < 2; j++)
			early += probed(&p, j)->state != KVM_VPMU_PROBED_WHOLE || probed(&p, j)->count[0] < PERIOD;
	}
	is(early, 0, "two vCPUs: windows that ended early");

	end_work(&worker[0]);
	begin_work(&worker[0], other);
	window(&p, LONG);
	undisturbed_window(&p);
	exact(&p, 0, &other, KVM_VPMU_PROBED_WHOLE, "others");
	exact(&p, 1, &second, KVM_VPMU_PROBED_WHOLE, "others");
	check(probed(&p, 0)->mapped > probed(&p, 0)->accessed, "others: those of before stay mapped");
	close_probe(&p);

	/* They share page tables again; a new probe finds those of before. */
	p = open_probe(probe_of(&worker[0].vm));
	window(&p, LONG);
	undisturbed_window(&p);
	exact(&p, 0, &other, KVM_VPMU_PROBED_WHOLE, "once more");
	exact(&p, 1, &second, KVM_VPMU_PROBED_WHOLE, "once more");
	end_both(worker, &p);
}

/* The guest accesses a page behind those that it is asked for, too. */
static void check_beyond(void)
{
	struct kvm_userspace_memory_region region = {
		.slot = 7, .guest_phys_addr = (uint64_t)SETS * PAGE, .memory_size = 16 * PAGE,
	};
	struct kvm_sregs sregs;
	struct kvm_vpmu_probe what;
	struct worker worker[2];
	struct probe p;

	make_workers(worker);
	region.userspace_addr = (uintptr_t)worker[0].vm.memory;
	IOCTL(worker[0].vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	/* The stack's only word is in the page of the code, which is there, too. */
	IOCTL(worker[0].vm.vcpu, KVM_GET_SREGS, &sregs);
	sregs.ss.base = region.guest_phys_addr;
	IOCTL(worker[0].vm.vcpu, KVM_SET_SREGS, &sregs);
	begin_work(&worker[0], first);
	what = probe_of(&worker[0].vm);
	what.nr = 1;
	p = open_probe(what);
	window(&p, LONG);
	window(&p, LONG);
	is(probed(&p, 0)->flags, KVM_VPMU_PROBED_BEYOND, "a page beyond: said");
	is(probed(&p, 0)->accessed, pages_of(&first), "a page beyond: the others are there");
	close_probe(&p);
	what.pages = 2 * SETS;
	p.fd = IOCTL(device, KVM_VPMU_PROBE, &what);
	window(&p, LONG);
	window(&p, LONG);
	p.area = mmap(NULL, PAGE + 4 * SETS / 8, PROT_READ, MAP_SHARED, p.fd, 0);
	if (p.area == MAP_FAILED)
		err(1, "mapping a probe");
	is(probed(&p, 0)->flags, 0, "with that page: not said");
	is(probed(&p, 0)->accessed, pages_of(&first) + 1, "with that page: it's there");
	munmap(p.area, PAGE + 4 * SETS / 8);
	close(p.fd);
	end_work(&worker[0]);
	free_workers(worker);
}

static const struct work warm = { 32, 40, 100, 30, 3 }, passes = { 40, 20, 110, 10, 1000 };

/* Passes of vCPU 0 that begin within a window; then the host takes so many of the pages away. */
struct later {
	struct worker *worker;
	unsigned int taken;
};

static void *work_later(void *arg)
{
	struct later *later = arg;

	usleep(100000);
	begin_work(later->worker, passes);
	pthread_join(later->worker->thread, NULL);
	madvise(later->worker->vm.memory + passes.first_read * PAGE, later->taken * PAGE, MADV_DONTNEED);
	return NULL;
}

/* A window that the guest's end leaves open.  Return: what KVM_VPMU_PROBE_WINDOW did */
static int short_window(struct worker *worker, const struct probe *p, unsigned int taken)
{
	struct later later = { .worker = worker, .taken = taken };
	unsigned int i = 0;
	pthread_t thread;
	int had;

	do {
		begin_work(worker, warm);
		pthread_join(worker->thread, NULL);
		if (pthread_create(&thread, NULL, work_later, &later))
			errx(1, "no thread");
		had = window(p, 2000);
		pthread_join(thread, NULL);
		/* See undisturbed_window(). */
	} while ((probed(p, 0)->fresh || probed(p, 0)->gone != taken) && ++i < 5);
	return had;
}

/* Such a window, and a vCPU that doesn't run */
static void check_short(void)
{
	const unsigned int taken = 5;
	struct kvm_vpmu_probe what;
	struct worker worker[2];
	struct probe p;

	make_workers(worker);
	what = probe_of(&worker[0].vm);
	what.period = 1ull << 40;
	p = open_probe(what);
	is(window(&p, 10), 0, "idle: no window");
	is(probed(&p, 0)->state, KVM_VPMU_PROBED_NOT, "idle: the vCPU didn't run");

	is(short_window(worker, &p, 0), 1, "short: one vCPU has had a window");
	exact(&p, 0, &passes, KVM_VPMU_PROBED_SHORT, "short");
	is(probed(&p, 0)->mapped, pages_of(&warm), "short: mapped");
	/* AMD: VM entries count (APM vol. 2, "Performance Counters"). */
	check(probed(&p, 0)->count[0] - instructions_of(&passes) < 50, "short: %llu instructions, the guest has %llu",
	      (unsigned long long)probed(&p, 0)->count[0], (unsigned long long)instructions_of(&passes));
	is(probed(&p, 1)->state, KVM_VPMU_PROBED_NOT, "short: the other one didn't run");
	is(probed(&p, 1)->accessed, 0, "short: the other one's sets are empty");

	is(short_window(worker, &p, taken), 1, "taken away: one vCPU has had a window");
	is(probed(&p, 0)->gone, taken, "taken away: said");
	is(probed(&p, 0)->mapped, pages_of(&warm) - taken, "taken away: mapped");
	is(probed(&p, 0)->accessed, pages_of(&passes) - taken, "taken away: accessed");
	is(probed(&p, 0)->written, passes.writes, "taken away: written");
	close_probe(&p);
	free_workers(worker);
}

/* What others do to the VM while windows go on, again and again */
struct disturber {
	void (*disturb)(struct worker *worker);
	struct worker *worker;
	pthread_t thread;
	volatile bool stop;
};

static void *disturb(void *arg)
{
	struct disturber *d = arg;

	while (!d->stop) {
		d->disturb(d->worker);
		usleep(500);
	}
	return NULL;
}

/* The host takes data pages away. */
static void press(struct worker *worker)
{
	madvise(worker->vm.memory + 32 * PAGE, 200 * PAGE, MADV_DONTNEED);
}

/* Userspace changes the VM's memory, so that KVM drops all page tables. */
static void change_slots(struct worker *worker)
{
	struct kvm_userspace_memory_region region = {
		.slot = 7, .guest_phys_addr = 1 << 30, .memory_size = PAGE,
		.userspace_addr = (uintptr_t)worker->vm.memory,
	};

	IOCTL(worker->vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	region.memory_size = 0;
	IOCTL(worker->vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
}

struct sums {
	uint64_t fresh;
	unsigned int false_accessed, false_written, replaced;
};

static bool any_fresh(const struct sums *sums)
{
	return sums->fresh > 1000;
}

static bool any_replaced(const struct sums *sums)
{
	return sums->replaced > 0;
}

/*
 * No page is in a set that shouldn't be, whatever happens to the pages; and then all are again.
 * At least 100 windows, and then as many as it takes until @seen: how often the disturber runs
 * within a window depends on the machine's load.
 */
static struct sums check_disturbed(void (*what)(struct worker *worker),
				   bool (*seen)(const struct sums *sums), const char *name)
{
	struct disturber d = { .disturb = what };
	struct sums sums = { };
	struct worker worker[2];
	struct probe p;

	p = begin_both(worker);
	d.worker = worker;
	if (pthread_create(&d.thread, NULL, disturb, &d))
		errx(1, "no thread");
	for (unsigned int i = 0; i < 100 || (i < 5000 && !seen(&sums)); i++) {
		window(&p, LONG);
		for (unsigned int j = 0; j < 2; j++) {
			struct wrong wrong = compare(&p, j, j ? &second : &first);

			sums.false_accessed += wrong.false_accessed;
			sums.false_written += wrong.false_written;
			sums.fresh += probed(&p, j)->fresh;
			sums.replaced += !!(probed(&p, j)->flags & KVM_VPMU_PROBED_REPLACED);
		}
	}
	d.stop = true;
	pthread_join(d.thread, NULL);
	is(sums.false_accessed, 0, "%s: accessed pages that weren't", name);
	is(sums.false_written, 0, "%s: written pages that weren't", name);
	window(&p, LONG);
	undisturbed_window(&p);
	exact(&p, 0, &first, KVM_VPMU_PROBED_WHOLE, name);
	exact(&p, 1, &second, KVM_VPMU_PROBED_WHOLE, name);
	end_both(worker, &p);
	return sums;
}

static void check_pressure(void)
{
	struct sums sums = check_disturbed(press, any_fresh, "pressure");

	check(any_fresh(&sums), "pressure: pages came back (%llu)", (unsigned long long)sums.fresh);
	is(sums.replaced, 0, "pressure: the page tables stay");
}

static void check_slots(void)
{
	struct sums sums = check_disturbed(change_slots, any_replaced, "memory slots");

	check(any_replaced(&sums), "memory slots: page tables were replaced within %u windows", sums.replaced);
}

/* No page is missing in the dirty log: KVM's, and its own bits are cleared. */
static void check_log(void)
{
	uint64_t bitmap[GUEST_PAGES / 64];
	struct kvm_userspace_memory_region region = { .memory_size = GUEST_PAGES * PAGE };
	struct kvm_dirty_log log = { .dirty_bitmap = bitmap };
	unsigned int missing = 0, wrong = 0, logged = 0;
	struct worker worker[2];
	struct probe p;

	p = begin_both(worker);
	region.userspace_addr = (uintptr_t)worker[0].vm.memory;
	window(&p, LONG);
	region.flags = KVM_MEM_LOG_DIRTY_PAGES;
	IOCTL(worker[0].vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	for (unsigned int i = 0; i < 20; i++) {
		struct wrong w;

		IOCTL(worker[0].vm.fd, KVM_GET_DIRTY_LOG, &log);
		window(&p, LONG);
		memset(bitmap, 0, sizeof(bitmap));
		IOCTL(worker[0].vm.fd, KVM_GET_DIRTY_LOG, &log);
		for (unsigned int frame = 0; frame < GUEST_PAGES; frame++) {
			bool dirty = bitmap[frame / 64] >> frame % 64 & 1;

			missing += !dirty && (is_written(&first, frame) || is_written(&second, frame));
			logged += dirty;
		}
		w = compare(&p, 0, &first);
		wrong += w.false_accessed + w.false_written;
	}
	check(logged > 0, "dirty log: %u pages", logged);
	is(missing, 0, "dirty log: written pages that it hasn't");
	is(wrong, 0, "dirty log: pages too many in the sets");
	region.flags = 0;
	IOCTL(worker[0].vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	window(&p, LONG);
	undisturbed_window(&p);
	exact(&p, 0, &first, KVM_VPMU_PROBED_WHOLE, "without the log again");
	end_both(worker, &p);
}

/* The guest's own counters are exact, whatever the probes do. */
static void check_counters(void)
{
	const struct work work = { 32, 40, 100, 30, 100000 };
	struct kvm_vpmu_probe what;
	struct worker worker[2];
	unsigned int windows = 0;
	struct pmu pmu;
	struct probe p;

	make_workers(worker);
	pmu = pmu_of(&worker[0].vm);
	put_counter(&worker[0].vm, pmu, 0, EN | OS | USR | INSTRUCTIONS, 0);
	what = probe_of(&worker[0].vm);
	what.nr = 1;
	p = open_probe(what);
	begin_work(&worker[0], work);
	for (; pthread_tryjoin_np(worker[0].thread, NULL); windows++)
		window(&p, 100);
	/* As many as the machine has time for */
	check(windows >= 3, "a guest's counter: %u windows", windows);
	is(counter(&worker[0].vm, pmu, 0), instructions_of(&work), "a guest's counter");
	close_probe(&p);
	free_workers(worker);
}

/* The vCPU's thread moves to the next CPU, if there is one. */
static void migrate(struct worker *worker)
{
	static unsigned int n;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(n++ % get_nprocs(), &cpus);
	if (pthread_setaffinity_np(worker->thread, sizeof(cpus), &cpus))
		errx(1, "moving a vCPU's thread");
}

/* All of that, and KVM logs dirty pages for a while. */
static void disturb_all(struct worker *worker)
{
	struct kvm_userspace_memory_region region = {
		.flags = KVM_MEM_LOG_DIRTY_PAGES, .memory_size = GUEST_PAGES * PAGE,
		.userspace_addr = (uintptr_t)worker->vm.memory,
	};

	press(worker);
	migrate(worker);
	change_slots(worker);
	IOCTL(worker->vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	migrate(worker);
	press(worker);
	region.flags = 0;
	IOCTL(worker->vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
}

/* Host perf's events, of all (Documentation/ABI/testing/sysfs-kernel-slab); 0: this kernel doesn't tell. */
static unsigned long host_events(void)
{
	static const char shrink[] = "/sys/kernel/slab/perf_event/shrink";
	FILE *file = fopen("/sys/kernel/slab/perf_event/objects", "re");
	unsigned long n = 0;

	if (!file)
		return 0;
	/* What CPUs have set aside isn't told apart.  RCU frees some a while later. */
	sleep(1);
	put_string(shrink, "1");
	if (fscanf(file, "%lu", &n) != 1)
		errx(1, "events in the kernel's heap");
	fclose(file);
	return n;
}

/* A guest's counter is exact while probes come and go, and nothing is left of these. */
static void check_many(unsigned int probes)
{
	struct disturber d = { .disturb = disturb_all };
	struct kvm_vpmu_probe what;
	struct worker worker[2];
	struct kvm_regs regs;
	unsigned int windows = 0;
	unsigned long before;
	struct pmu pmu;

	make_workers(worker);
	pmu = pmu_of(&worker[0].vm);
	put_counter(&worker[0].vm, pmu, 0, EN | OS | USR | INSTRUCTIONS, 0);
	before = host_events();
	what = probe_of(&worker[0].vm);
	what.nr = 1;
	what.period = 5000;
	begin_work(&worker[0], first);
	d.worker = worker;
	if (pthread_create(&d.thread, NULL, disturb, &d))
		errx(1, "no thread");
	for (unsigned int i = 0; i < probes; i++) {
		struct probe p = open_probe(what);

		windows += window(&p, 100);
		close_probe(&p);
	}
	d.stop = true;
	pthread_join(d.thread, NULL);
	end_work(&worker[0]);
	check(windows > probes * 9 / 10, "%u probes: %u windows", probes, windows);
	/* EBP is the passes that are left; the last one ended before it was counted. */
	IOCTL(worker[0].vm.vcpu, KVM_GET_REGS, &regs);
	is(counter(&worker[0].vm, pmu, 0), (-(uint32_t)regs.rbp + 1ull) * instructions_of_pass(&first) - 2,
	   "%u probes: a guest's counter", probes);
	free_workers(worker);
	if (before)
		check(host_events() < before + probes / 2, "%u probes: events of the host's that are left", probes);
	else
		skip("this kernel doesn't tell", "%u probes: events of the host's that are left", probes);
}

/* How many kB of huge pages the process has */
static unsigned int huge_kb(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	unsigned int kb = 0;
	char line[128];

	if (!file)
		err(1, "/proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "AnonHugePages: %u", &kb) == 1)
			break;
	fclose(file);
	return kb;
}

struct slot {
	const struct vm *vm;
	struct kvm_userspace_memory_region region;
};

static void *set_later(void *arg)
{
	struct slot *slot = arg;

	usleep(100000);
	IOCTL(slot->vm->fd, KVM_SET_USER_MEMORY_REGION, &slot->region);
	return NULL;
}

/*
 * A dirty log ends within a window.  Then KVM maps huge pages where it can: that takes all pages of
 * the window's begin away, or (up to 6.12) gives them back one by one.
 */
static void check_log_end(const struct vm *vm, struct kvm_userspace_memory_region region)
{
	struct slot slot = { .vm = vm, .region = region };
	struct kvm_vpmu_probe what = probe_of(vm);
	const uint64_t pages = pages_of(&first);
	uint64_t gone, fresh;
	pthread_t thread;
	struct probe p;

	what.nr = 1;
	what.period = 1ull << 40;
	p = open_probe(what);
	region.flags = KVM_MEM_LOG_DIRTY_PAGES;
	IOCTL(vm->fd, KVM_SET_USER_MEMORY_REGION, &region);
	window(&p, 100);
	if (pthread_create(&thread, NULL, set_later, &slot))
		errx(1, "no thread");
	window(&p, 1000);
	pthread_join(thread, NULL);
	gone = probed(&p, 0)->gone;
	fresh = probed(&p, 0)->fresh;
	check(gone ? gone == pages : fresh >= pages, "huge pages, the end of a dirty log: %llu gone, %llu fresh",
	      (unsigned long long)gone, (unsigned long long)fresh);
	is(probed(&p, 0)->mapped, 0, "huge pages, the end of a dirty log: no page is left");
	close_probe(&p);
}

/* The host has the guest's memory as one huge page. */
#define HUGE	(2u << 20)

static void check_huge(void)
{
	struct kvm_userspace_memory_region region = { };
	struct worker worker = { .vm = make_vm(true) };
	uint8_t *memory = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *aligned = memory + (-(uintptr_t)memory & (HUGE - 1));
	struct kvm_vpmu_probe what = probe_of(&worker.vm);
	unsigned int changed = 0;
	struct wrong wrong;
	struct probe p;

	if (memory == MAP_FAILED || madvise(aligned, HUGE, MADV_HUGEPAGE)) {
		skip("the host has none", "huge pages");
		return;
	}
	memcpy(aligned, worker.vm.memory, MEMORY);
	IOCTL(worker.vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	region.userspace_addr = (uintptr_t)aligned;
	region.memory_size = HUGE;
	IOCTL(worker.vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	munmap(worker.vm.memory, worker.vm.size);
	worker.vm.memory = aligned;
	worker.vm.size = HUGE;
	check(huge_kb() * 1024 >= HUGE, "huge pages: the memory is one");
	begin_work(&worker, first);
	what.nr = 1;
	p = open_probe(what);
	window(&p, LONG);
	undisturbed_window(&p);
	exact(&p, 0, &first, KVM_VPMU_PROBED_WHOLE, "huge pages");
	close_probe(&p);
	check_log_end(&worker.vm, region);

	p = open_probe(what);
	/*
	 * When a dirty log ends, KVM of Linux 6.14 and later maps huge pages there.  What is in one of them
	 * is no page table, whatever it looks like.
	 */
	memset(aligned, 0xff, PAGE);
	region.flags = KVM_MEM_LOG_DIRTY_PAGES;
	IOCTL(worker.vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	window(&p, LONG);
	region.flags = 0;
	IOCTL(worker.vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	for (unsigned int i = 0; i < 3; i++)
		window(&p, LONG);
	wrong = compare(&p, 0, &first);
	is(wrong.false_accessed + wrong.false_written, 0, "huge pages behind a dirty log: pages too many");
	for (unsigned int i = 0; i < PAGE; i++)
		changed += aligned[i] != 0xff;
	is(changed, 0, "huge pages behind a dirty log: the guest's memory isn't changed");
	end_work(&worker);
	close_probe(&p);
	free_vm(&worker.vm);
	munmap(memory, 2 * HUGE);
}

/* The VM is closed before the probe. */
static void check_end(void)
{
	struct worker worker[2];
	struct probe p;

	make_workers(worker);
	begin_work(&worker[0], first);
	p = open_probe(probe_of(&worker[0].vm));
	window(&p, 100);
	end_work(&worker[0]);
	free_workers(worker);
	is(window(&p, 10), 0, "the VM is closed: no window");
	close_probe(&p);
}

static void refused(int error, const char *what, struct kvm_vpmu_probe probe)
{
	int fd = ioctl(device, KVM_VPMU_PROBE, &probe);

	check(fd < 0 && errno == error, "refused: %s (%s)", what, fd < 0 ? strerror(errno) : "opened");
	if (fd >= 0)
		close(fd);
}

/* probe_of() this VM, but for one field */
#define WITH(field, number) \
	({ struct kvm_vpmu_probe with = probe_of(&vm); with.field = (number); with; })

static void check_arguments(void)
{
	struct vm vm = make_vm(true), none = make_vm(false);
	struct probe p;

	refused(EINVAL, "no vCPU", WITH(nr, 0));
	refused(EINVAL, "16 vCPUs", WITH(nr, 16));
	refused(EINVAL, "no event", WITH(events, 0));
	refused(EINVAL, "3 events", WITH(events, 3));
	refused(EINVAL, "an event of software", WITH(type[1], PERF_TYPE_SOFTWARE));
	refused(EINVAL, "an event that host perf doesn't know", WITH(config[1], PERF_COUNT_HW_MAX));
	refused(EINVAL, "no period", WITH(period, 0));
	refused(EINVAL, "a period of 2^63", WITH(period, 1ull << 63));
	refused(EINVAL, "no pages", WITH(pages, 0));
	refused(EINVAL, "100 pages", WITH(pages, 100));
	refused(EINVAL, "2^29 pages", WITH(pages, 1ull << 29));
	refused(EINVAL, "both a number and a file", WITH(vm, 1));
	refused(EINVAL, "neither", WITH(fd, -1));
	refused(EINVAL, "a descriptor of -2", WITH(fd, -2));
	refused(EINVAL, "a file that is no VM", WITH(fd, device));
	refused(EBADF, "no file", WITH(fd, 1000));
	refused(ENOENT, "a VM without a PMU", WITH(fd, none.fd));
	refused(ENOENT, "a vCPU that doesn't exist", WITH(first, 1));
	p = open_probe(WITH(nr, 1));
	refused(EBUSY, "a second probe", probe_of(&vm));
	check(ioctl(p.fd, KVM_VPMU_PROBE_WINDOW, NULL) < 0 && errno == EFAULT, "refused: no timeout");
	check(ioctl(p.fd, KVM_VPMU_GET_INFO, NULL) < 0 && errno == ENOTTY, "refused: another ioctl");
	check(mmap(NULL, part_size(), PROT_READ | PROT_WRITE, MAP_SHARED, p.fd, 0) == MAP_FAILED,
	      "refused: to write there");
	check(mprotect(p.area, PAGE, PROT_READ | PROT_WRITE), "refused: to write there later");
	check(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, p.fd, 0) == MAP_FAILED, "refused: a part of the mapping");
	close_probe(&p);
	p = open_probe(WITH(nr, 1));
	check(p.fd >= 0, "once it is closed: another one");
	close_probe(&p);
	free_vm(&vm);
	free_vm(&none);
}

/* With an argument: only so many probes, while a guest counts */
int main(int argc, char **argv)
{
	struct kvm_vpmu_probe what;
	struct vm vm;
	int probe;

	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	vm = make_vm(true);
	what = probe_of(&vm);
	probe = ioctl(device, KVM_VPMU_PROBE, &what);
	if (probe < 0 && errno == EOPNOTSUPP)
		skip_all("KVM's page tables have no accessed and dirty bits here");
	close(probe);
	free_vm(&vm);
	if (argc > 1) {
		check_many(strtoul(argv[1], NULL, 0));
		return finish();
	}
	check_arguments();
	check_two();
	check_short();
	check_beyond();
	check_pressure();
	check_slots();
	check_log();
	check_counters();
	check_many(200);
	check_huge();
	check_end();
	return finish();
}
