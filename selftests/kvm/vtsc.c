// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a guest's TSC and its kvmclock tell while its vCPU shares a CPU with a
 * busy process.  TAP.
 *
 * The guest reads its TSC, works for a while, and reads it again.  With a
 * TSC per vCPU the difference is the time that the vCPU was on the CPU, as KVM
 * loads and puts it; with the wall's it is the time that passed.  kvmclock goes
 * with the wall in both.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <linux/kvm_vpmu.h>

#include "kernel.h"
#include "tap.h"
#include "vm.h"
#include "pin.h"
#include "trace.h"

#define PVCLOCK		0x4000		/* guest's address of struct pvclock */
#define MSR_SYSTEM_TIME	0x4b564d01	/* MSR_KVM_SYSTEM_TIME_NEW */

/* Documentation/virt/kvm/x86/msr.rst, "MSR_KVM_SYSTEM_TIME_NEW" */
struct pvclock {
	uint32_t version;
	uint32_t pad0;
	uint64_t tsc_timestamp;
	uint64_t system_time;
	uint32_t tsc_to_system_mul;
	int8_t tsc_shift;
	uint8_t flags;
	uint8_t pad[2];
};

#define PVCLOCK_TSC_STABLE	1

/* EBX rounds of work; the TSC before and after, and kvmclock's data with it */
extern const char tsc_start[], tsc_end[];
asm(".code16\n"
    ".globl tsc_start, tsc_end\n"
    "tsc_start:\n"
    "	mov $0x4b564d01, %ecx\n"
    "	mov $0x4001, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	out %al, $0x10\n"		/* the host looks at its clocks */
    "	rdtsc\n"
    "	mov %eax, 0x2100\n"
    "	mov %edx, 0x2104\n"
    "1:	dec %ebx\n"
    "	jnz 1b\n"
    "	rdtsc\n"
    "	mov %eax, 0x2108\n"
    "	mov %edx, 0x210c\n"
    "	hlt\n"
    "tsc_end:\n"
    ".code64\n");

static void compare(bool good, const char *mode, const char *what, double got, double wanted)
{
	check(good, "%s: %s (%.6f, wanted %.6f)", mode, what, got, wanted);
}

static bool within(double got, double wanted, double share)
{
	return got >= wanted * (1 - share) && got <= wanted * (1 + share);
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* What kvmclock tells at guest time @tsc, in seconds */
static double kvmclock(const struct pvclock *p, uint64_t tsc)
{
	uint64_t ticks = tsc - p->tsc_timestamp;

	if (p->tsc_shift < 0)
		ticks >>= -p->tsc_shift;
	else
		ticks <<= p->tsc_shift;
	return (p->system_time + (uint64_t)(((unsigned __int128)ticks *
					     p->tsc_to_system_mul) >> 32)) / 1e9;
}

static void run(const char *mode, uint32_t tsc)
{
	struct vm vm = make_vm(true);
	struct kvm_vpmu_settings s = {
		.fd = vm.fd, .fields = KVM_VPMU_SET_TSC, .tsc = tsc,
	};
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	struct kvm_clock_data host;
	struct pvclock pv;
	double khz, cpu, wall, guest;
	uint64_t ticks[2], start;
	unsigned int times;
	pid_t rival;

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	IOCTL(device, KVM_VPMU_SET, &s);
	khz = ioctl(vm.vcpu, KVM_GET_TSC_KHZ, 0);
	rival = fork();
	if (!rival)
		for (;;)
			;

	load_code(&vm, tsc_start, tsc_end, (struct kvm_regs){ .rbx = 400000000 });
	IOCTL(vm.vcpu, KVM_RUN, NULL);
	if (vm.run->exit_reason != KVM_EXIT_IO)
		errx(1, "the guest ended with exit reason %u", vm.run->exit_reason);
	clear_trace();
	wall = seconds(CLOCK_MONOTONIC);
	start = __builtin_ia32_rdtsc();
	run_to_hlt(&vm);
	wall = seconds(CLOCK_MONOTONIC) - wall;
	IOCTL(vm.fd, KVM_GET_CLOCK, &host);
	cpu = on_cpu(getpid(), start, __builtin_ia32_rdtsc(), &times) / khz / 1000;
	kill(rival, SIGKILL);
	waitpid(rival, NULL, 0);
	memcpy(ticks, vm.memory + TABLE, sizeof(ticks));
	memcpy(&pv, vm.memory + PVCLOCK, sizeof(pv));

	guest = (ticks[1] - ticks[0]) / khz / 1000;
	printf("# %s: guest %.6f s, on the CPU %.6f s in %u pieces, wall %.6f s\n", mode, guest, cpu,
	       times, wall);
	compare(times > 50 && wall > 1.5 * cpu, mode, "the vCPU had to share: seconds", wall,
		1.5 * cpu);
	wall = tsc == KVM_VPMU_TSC_VCPU ? cpu : wall;
	/* The tracer's own work is some 10 us of each piece there: of 200, 0.25 % of this time. */
	compare(within(guest, wall, kernel_is_slow() ? 0.0035 : 0.001), mode, "TSC, in seconds", guest, wall);
	/* The host's clock is read when the guest has ended. */
	compare(within(kvmclock(&pv, ticks[1]), host.clock / 1e9, 0.01), mode,
		"kvmclock, in seconds", kvmclock(&pv, ticks[1]), host.clock / 1e9);
	compare(!(pv.flags & PVCLOCK_TSC_STABLE) == (tsc == KVM_VPMU_TSC_VCPU), mode,
		"kvmclock says whether the TSC is the same on all vCPUs", pv.flags & 1,
		tsc != KVM_VPMU_TSC_VCPU);
	free_vm(&vm);
	close(device);
}

int main(void)
{

	pin(0, 0);
	start_tracing();
	run("wall", KVM_VPMU_TSC_WALL);
	run("vcpu", KVM_VPMU_TSC_VCPU);
	stop_tracing();
	return finish();
}
