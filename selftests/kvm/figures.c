// SPDX-License-Identifier: GPL-2.0-or-later
/* What the module says of a vCPU that stays in guest mode on another CPU meanwhile.  TAP. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "tap.h"
#include "events.h"
#include "figures.h"
#include "guests.h"
#include "pin.h"

#define READINGS	200

extern const char spin_start[], spin_end[];
asm(".code16\n"
    ".globl spin_start, spin_end\n"
    "spin_start:\n"
    "1:	jmp 1b\n"
    "spin_end:\n"
    ".code64\n");

static void on_signal(int signal)
{
	(void)signal;
}

static void *run(void *arg)
{
	const struct vm *vm = arg;

	pin(0, 1);
	if (!ioctl(vm->vcpu, KVM_RUN, NULL) || errno != EINTR)
		errx(1, "KVM_RUN: exit reason %u", vm->run->exit_reason);
	return NULL;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Each look brings the figures up to date, without the host's tick. */
static void fresh(int device, const struct vm *vm)
{
	uint64_t began = now(), took;
	struct kvm_vpmu_counter last = figures(device, vm).counter[0], first = last;
	unsigned int grown = 0;

	for (unsigned int i = 0; i < READINGS; i++) {
		struct kvm_vpmu_counter c = figures(device, vm).counter[0];

		grown += c.value > last.value && c.enabled_ns > last.enabled_ns;
		last = c;
	}
	took = now() - began;
	/* The thread may wait for its CPU meanwhile. */
	check(grown > READINGS / 4, "of %u looks, those with more instructions and time than the last: %u",
	      READINGS, grown);
	check(last.enabled_ns - first.enabled_ns <= took + took / 10 + 1000000,
	      "the counter was enabled for %llu ns of %llu",
	      (unsigned long long)(last.enabled_ns - first.enabled_ns), (unsigned long long)took);
	check(last.enabled_ns - first.enabled_ns >= took / 4, "and not for much less");
	is(last.running_ns, last.enabled_ns, "a counter that has a physical one: time running");
}

/* Somebody's first look has effect at once, and not when the vCPU is loaded again. */
static void observed(const struct vm *vm)
{
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	uint64_t ticks = 0;

	observe(device, vm);
	for (unsigned int i = 0; i < 100 && !ticks; i++) {
		usleep(1000);
		ticks = observe(device, vm).count[KVM_VPMU_EVENT_TICKS_KVM];
	}
	check(ticks, "ticks in KVM since the first look: %llu", (unsigned long long)ticks);
	close(device);
}

int main(void)
{
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;
	struct vm vm;

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip_all("needs two CPUs");
	sigaction(SIGUSR1, &action, NULL);
	pin(0, 0);
	vm = make_vm(true);
	put_counter(&vm, pmu_of(&vm), 0, INSTRUCTIONS | OS | EN, 0);
	load_code(&vm, spin_start, spin_end, (struct kvm_regs){ });
	if (pthread_create(&thread, NULL, run, &vm))
		errx(1, "no thread");
	while (!figures(device, &vm).counter[0].value)
		;
	fresh(device, &vm);
	observed(&vm);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	free_vm(&vm);
	return finish();
}
