// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vCPUs that change CPUs while these come and go (CPU hotplug): two of one VM,
 * each with its own counters, and a VM that is interrupted by its counter's
 * overflows.  TAP.
 *
 *	cpu_hotplug [CYCLES]
 *
 * It takes more cycles if one of them wasn't on both CPUs yet.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "tap.h"
#include "guests.h"

#define ONLINE			"/sys/devices/system/cpu/cpu1/online"

#define ROUNDS			400	/* of the sampler */
#define PERIOD			2500

static const uint64_t events[] = { INSTRUCTIONS, BRANCHES, CONDITIONAL };

#define NR_EVENTS	3

struct runner {
	struct vm vm;
	struct pmu pmu;
	uint32_t n;
	pthread_t thread;
	atomic_int tid;
	unsigned int rounds, wrong;
	atomic_uint on[2];
};

static atomic_bool stop;

/*
 * Held while the CPU comes, and while a VM goes: kvm_online_cpu() walks KVM's list
 * of VMs without the lock under which they leave it. A VM that goes meanwhile crashes
 * the host, with the module or without (docs/known-issues.md).
 */
static pthread_mutex_t vms_stay = PTHREAD_MUTEX_INITIALIZER;

static void note_cpu(struct runner *r)
{
	int cpu = sched_getcpu();

	if (cpu == 0 || cpu == 1)
		r->on[cpu]++;
}

static void compare(struct runner *r, unsigned int i, uint64_t wanted)
{
	uint64_t got = counter(&r->vm, r->pmu, i);

	if (got == wanted)
		return;
	if (r->wrong++ < 5)
		printf("# N %u, round %u, counter %u: %llu, expected %llu\n", r->n, r->rounds, i,
		       (unsigned long long)got, (unsigned long long)wanted);
}

static void *run_loop(void *arg)
{
	struct runner *r = arg;
	uint64_t value[NR_EVENTS] = { };

	r->tid = syscall(SYS_gettid);
	for (unsigned int i = 0; i < NR_EVENTS; i++)
		put_counter(&r->vm, r->pmu, i, events[i] | OS | EN, 0);
	for (; !stop; r->rounds++) {
		run_until(&r->vm, KVM_EXIT_IO);
		note_cpu(r);
		for (unsigned int i = 0; i < NR_EVENTS; i++) {
			value[i] += loop_counts(events[i], r->n, !r->rounds);
			compare(r, i, value[i]);
		}
	}
	return NULL;
}

/* A new sampler each time, so that VMs come and go, too */
static void *run_sampler(void *arg)
{
	struct runner *r = arg;
	uint32_t samples = sampler_samples(ROUNDS, PERIOD);

	r->tid = syscall(SYS_gettid);
	for (; !stop; r->rounds++) {
		r->vm = make_sampler(ROUNDS, PERIOD);
		r->pmu = pmu_of(&r->vm);
		run_until(&r->vm, KVM_EXIT_IO);
		note_cpu(r);
		if (*word_at(&r->vm, SAMPLES) != samples && r->wrong++ < 5)
			printf("# %u interrupts, expected %u\n", *word_at(&r->vm, SAMPLES), samples);
		compare(r, 1, SAMPLER_INSTRUCTIONS(ROUNDS) + HANDLER_INSTRUCTIONS * (uint64_t)samples);
		pthread_mutex_lock(&vms_stay);
		free_vm(&r->vm);
		pthread_mutex_unlock(&vms_stay);
	}
	return NULL;
}

static bool set_online(bool online)
{
	int fd = open(ONLINE, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, online ? "1" : "0", 1) == 1;

	close(fd);
	return good;
}

/* Where the CPU is gone it stays where it is. */
static void move(const struct runner *r, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(r->tid, sizeof(set), &set);
}

static bool has_moved(const struct runner *r, unsigned int times)
{
	return r->on[0] >= times && r->on[1] >= times;
}

/* The third one's rounds are long: on a busy machine there are few. */
static bool have_moved(const struct runner runner[3])
{
	return has_moved(&runner[0], 10) && has_moved(&runner[1], 10) && has_moved(&runner[2], 1);
}

int main(int argc, char **argv)
{
	unsigned int cycles = argc > 1 ? atoi(argv[1]) : 12, cycle = 0;
	struct runner runner[3] = { };
	unsigned int failed = 0;

	if (access(ONLINE, W_OK) || sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip_all("needs a second CPU that can be taken offline");

	runner[0].vm = make_vm(true);
	runner[0].pmu = pmu_of(&runner[0].vm);
	runner[1] = runner[0];
	add_vcpu(&runner[1].vm, 1);
	for (unsigned int i = 0; i < 2; i++) {
		runner[i].n = 50000 * (i + 1);
		load_code(&runner[i].vm, loop_start, loop_end,
			  (struct kvm_regs){ .rsi = runner[i].n });
		pthread_create(&runner[i].thread, NULL, run_loop, &runner[i]);
	}
	pthread_create(&runner[2].thread, NULL, run_sampler, &runner[2]);

	for (; cycle < cycles || (cycle < 20 * cycles && !have_moved(runner)); cycle++) {
		for (unsigned int i = 0; i < 3; i++)
			move(&runner[i], (cycle + i) % 2);
		usleep(100000);
		for (unsigned int i = 0; i < 3; i++)
			move(&runner[i], (cycle + i + 1) % 2);
		usleep(20000 * (cycle % 4));
		failed += !set_online(false);
		usleep(50000);
		pthread_mutex_lock(&vms_stay);
		failed += !set_online(true);
		pthread_mutex_unlock(&vms_stay);
		/* Anywhere until then */
		usleep(50000);
	}
	stop = true;
	for (unsigned int i = 0; i < 3; i++) {
		pthread_join(runner[i].thread, NULL);
		printf("# %u rounds, seen %u times on CPU 0, %u on CPU 1\n", runner[i].rounds,
		       runner[i].on[0], runner[i].on[1]);
	}
	is(failed, 0, "CPU 1 went and came %u times: failures", cycle);
	for (unsigned int i = 0; i < 2; i++) {
		check(has_moved(&runner[i], 10), "vCPU %u of two: was on both CPUs", i);
		is(runner[i].wrong, 0, "vCPU %u of two: wrong counts", i);
	}
	check(has_moved(&runner[2], 1), "samplers: were on both CPUs");
	is(runner[2].wrong, 0, "samplers: wrong counts");
	free_vm(&runner[0].vm);
	close(runner[1].vm.vcpu);
	return finish();
}
