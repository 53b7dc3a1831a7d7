// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A tiny VM whose counts are known by heart (tools/tinyvm), in a process of its own, which writes
 * "OUTCOME<tab>NAME<tab>TEXT" for each check.  What libraries say of an error comes as it is.
 */
#include "check.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/kvm_vpmu.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "device.h"
#include "util.h"

#include "tinyvm/guests.h"

/* In all, for a host that works well under a second: the bench's are slower by hundreds. */
#define TIME_LIMIT	120

/* Rounds of the loop, 2 instructions each */
#define LOOP		500000
/* Rounds of the sampler: 105 instructions, of them a CPUID, so a VM exit */
#define ROUNDS		2000
#define PERIOD		5000

static const struct device *device;

static void tell(enum check_outcome outcome, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void tell(enum check_outcome outcome, const char *name, const char *format, ...)
{
	va_list args;

	printf("%d\t%s\t", outcome, name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static struct kvm_vpmu_vcpu figures(const struct vm *vm)
{
	struct kvm_vpmu_vcpu vcpu = { .fd = vm->fd };

	if (ioctl(device->fd, KVM_VPMU_GET_VCPU, &vcpu))
		err(1, "KVM_VPMU_GET_VCPU");
	return vcpu;
}

/* Why a count is wrong, if the module's figures show that */
static void tell_wrong(const struct vm *vm, const char *name, uint64_t got, uint64_t wanted)
{
	struct kvm_vpmu_vcpu vcpu = figures(vm);
	const struct kvm_vpmu_counter *counter = &vcpu.counter[0];
	long long off = got - wanted;
	const char *why = "";

	if (counter->running_ns < counter->enabled_ns)
		why = ": host perf holds the counters; stop its pinned events";
	else if (vcpu.anomalies || (vcpu.exits > 100 && llabs(off) >= (long long)vcpu.exits / 2 &&
				    llabs(off) <= 2 * (long long)vcpu.exits))
		why = ": one for each VM entry; the module's parameter vmrun_counts is wrong for this CPU";
	tell(CHECK_FAILED, name, "%" PRIu64 ", should be %" PRIu64 " (%+lld)%s", got, wanted, off, why);
}

static void compare(const struct vm *vm, const char *name, uint64_t got, uint64_t wanted)
{
	if (got == wanted)
		tell(CHECK_OK, name, "%" PRIu64, got);
	else
		tell_wrong(vm, name, got, wanted);
}

/* Returns the error, 0 for none. */
static int set(const struct vm *vm, struct kvm_vpmu_settings settings)
{
	settings.fd = vm->fd;
	return ioctl(device->fd, KVM_VPMU_SET, &settings) ? errno : 0;
}

static void set_freeze(const struct vm *vm, uint32_t freeze)
{
	errno = set(vm, (struct kvm_vpmu_settings){
		.fields = KVM_VPMU_SET_FREEZE, .freeze = freeze,
	});
	if (errno)
		err(1, "KVM_VPMU_SET");
}

static int set_tsc(const struct vm *vm, uint32_t tsc)
{
	return set(vm, (struct kvm_vpmu_settings){ .fields = KVM_VPMU_SET_TSC, .tsc = tsc });
}

/* A VM that gets its PMU from the module, whatever the module's parameters say */
static struct vm make(unsigned int flags)
{
	struct vm vm = make_vm_attached(flags, device->fd);
	struct kvm_vpmu_vm_of_fd of_fd = { .fd = vm.fd };

	if (ioctl(device->fd, KVM_VPMU_GET_VM, &of_fd))
		errx(1, "the module gave the VM no PMU: dmesg may have the reason");
	set_freeze(&vm, KVM_VPMU_FREEZE_HYBRID);
	return vm;
}

/* Instructions and branches of a loop; the second time with what KVM completes before it */
static void loop(const char *beside)
{
	struct vm vm = make(0);
	struct pmu pmu = enabled_pmu(&vm);
	char name[64];

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOP });
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	put_counter(&vm, pmu, 1, BRANCHES | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	run_until(&vm, KVM_EXIT_IO);
	snprintf(name, sizeof(name), "instructions%s", beside);
	compare(&vm, name, counter(&vm, pmu, 0),
		loop_counts(INSTRUCTIONS, LOOP, true) + loop_counts(INSTRUCTIONS, LOOP, false));
	snprintf(name, sizeof(name), "branches%s", beside);
	compare(&vm, name, counter(&vm, pmu, 1),
		loop_counts(BRANCHES, LOOP, true) + loop_counts(BRANCHES, LOOP, false));
	free_vm(&vm);
}

/* Runs the sampler, whose CPUIDs KVM emulates; its VM is there until free_vm(). */
static struct vm run_sampler(uint64_t event, uint32_t freeze, uint64_t *count)
{
	struct vm vm = make(0);
	struct pmu pmu = enabled_pmu(&vm);

	set_freeze(&vm, freeze);
	load_code(&vm, sampler_start, sampler_end, (struct kvm_regs){ .rsi = ROUNDS });
	put_counter(&vm, pmu, 0, event | OS | EN, 0);
	run_until(&vm, KVM_EXIT_IO);
	*count = counter(&vm, pmu, 0);
	return vm;
}

/* Many VM exits, each for an instruction that KVM emulates */
static void exits(const char *beside)
{
	uint64_t count;
	struct vm vm = run_sampler(INSTRUCTIONS, KVM_VPMU_FREEZE_HYBRID, &count);
	char name[64];

	snprintf(name, sizeof(name), "emulated instructions%s", beside);
	compare(&vm, name, count, SAMPLER_INSTRUCTIONS(ROUNDS));
	free_vm(&vm);
}

/*
 * An interrupt for each PERIOD instructions.  When it comes depends on the CPU, which may execute
 * some more; whatever these are, all instructions count.
 */
static void overflows(void)
{
	struct vm vm = make(VM_APIC);
	struct pmu pmu = enabled_pmu(&vm);
	uint64_t samples, since, late;

	prepare_sampler(&vm, pmu, ROUNDS, PERIOD);
	run_until(&vm, KVM_EXIT_IO);
	samples = *word_at(&vm, SAMPLES);
	if (!samples) {
		tell(CHECK_FAILED, "overflow interrupts (NMI)", "none came");
		goto out;
	}
	since = counter(&vm, pmu, 0) - NEG(PERIOD) - HANDLER_COUNTED;
	late = SAMPLER_INSTRUCTIONS(ROUNDS) - HANDLER_COUNTED - since -
	       samples * (PERIOD - HANDLER_COUNTED);
	if (late > samples * PERIOD)
		tell(CHECK_FAILED, "overflow interrupts (NMI)", "%" PRIu64 ", should be %u", samples,
		     sampler_samples(ROUNDS, PERIOD));
	else
		tell(CHECK_OK, "overflow interrupts (NMI)",
		     "%" PRIu64 ", %.1f instructions late on average", samples,
		     (double)late / samples);
	compare(&vm, "instructions among interrupts", counter(&vm, pmu, 1),
		SAMPLER_INSTRUCTIONS(ROUNDS) + HANDLER_INSTRUCTIONS * samples);
out:
	free_vm(&vm);
}

#define VECTOR	0x61

/* One interrupt by a vector of the local APIC */
static void vector(void)
{
	struct vm vm = make(VM_APIC);
	struct pmu pmu = enabled_pmu(&vm);
	struct kvm_regs regs;

	prepare_sampler(&vm, pmu, ROUNDS, PERIOD);
	/* The handler sets the counter to 0: there is no second one. */
	handle_nmis(&vm, 0);
	*word_at(&vm, 4 * VECTOR) = NMI_HANDLER;
	set_apic(&vm, APIC_LVTPC, VECTOR);
	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	regs.rflags |= 0x200;
	IOCTL(vm.vcpu, KVM_SET_REGS, &regs);
	run_until(&vm, KVM_EXIT_IO);
	compare(&vm, "overflow interrupt (vector)", *word_at(&vm, SAMPLES), 1);
	free_vm(&vm);
}

/*
 * What a counter counts among VM exits in a freeze mode.  @gaps grows if it didn't count KVM's part,
 * as a host event had the physical counter meanwhile.
 */
static uint64_t frozen(uint32_t freeze, uint64_t event, uint64_t *gaps)
{
	uint64_t count;
	struct vm vm = run_sampler(event, freeze, &count);

	*gaps += figures(&vm).gaps;
	free_vm(&vm);
	return count;
}

/*
 * Which mode counts more is all that holds on each CPU.  A VM exit takes KVM some hundred cycles at
 * the least.
 */
static void freeze_modes(void)
{
	uint64_t gaps = 0;
	uint64_t guest = frozen(KVM_VPMU_FREEZE_GUEST, CYCLES, &gaps);
	uint64_t hybrid = frozen(KVM_VPMU_FREEZE_HYBRID, CYCLES, &gaps);
	uint64_t instructions = frozen(KVM_VPMU_FREEZE_VCPU, INSTRUCTIONS, &gaps);

	if (gaps) {
		tell(CHECK_NOTE, "freeze modes",
		     "host perf holds all counters, so KVM's work isn't counted for guests");
		return;
	}
	tell(guest + 100 * ROUNDS < hybrid ? CHECK_OK : CHECK_FAILED, "freeze modes: cycles",
	     "guest %" PRIu64 ", hybrid %" PRIu64 "%s", guest, hybrid,
	     guest + 100 * ROUNDS < hybrid ? "" : ": hybrid should have KVM's, too");
	tell(instructions > SAMPLER_INSTRUCTIONS(ROUNDS) + 100 * ROUNDS ? CHECK_OK : CHECK_FAILED,
	     "freeze modes: instructions", "vcpu %" PRIu64 ", hybrid %llu", instructions,
	     SAMPLER_INSTRUCTIONS(ROUNDS));
}

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

#define SLEEP_MS	100

/* How long a vCPU's TSC says that its thread has slept, in milliseconds; or -errno */
static double slept(uint32_t tsc)
{
	struct vm vm = make(0);
	struct timespec ms = { .tv_nsec = SLEEP_MS * 1000000 };
	int error = set_tsc(&vm, tsc);
	uint64_t ticks[2];
	double khz;

	if (error) {
		free_vm(&vm);
		return -error;
	}
	khz = ioctl(vm.vcpu, KVM_GET_TSC_KHZ, 0);
	load_code(&vm, rdtsc_start, rdtsc_end, (struct kvm_regs){ });
	run_until(&vm, KVM_EXIT_IO);
	while (nanosleep(&ms, &ms))
		;
	run_to_hlt(&vm);
	memcpy(ticks, vm.memory + TABLE, sizeof(ticks));
	free_vm(&vm);
	return (ticks[1] - ticks[0]) / khz;
}

static void virtual_tsc(void)
{
	double wall = slept(KVM_VPMU_TSC_WALL), vcpu = slept(KVM_VPMU_TSC_VCPU);

	if (wall < SLEEP_MS)
		tell(CHECK_FAILED, "TSC", "%.3f ms in %d ms of sleep", wall, SLEEP_MS);
	/* The thread goes to sleep and wakes up in less than half of that, also on slow hosts. */
	if (vcpu == -EOPNOTSUPP)
		tell(CHECK_NOTE, "virtual TSC", "this host's TSC isn't fit: no --tsc vcpu");
	else if (vcpu < 0)
		tell(CHECK_FAILED, "virtual TSC", "KVM_VPMU_SET: %s", strerror(-vcpu));
	else
		tell(vcpu < SLEEP_MS / 2 ? CHECK_OK : CHECK_FAILED, "virtual TSC",
		     "%.3f ms in %d ms of sleep, wall %.3f ms", vcpu, SLEEP_MS, wall);
}

/* An event of the host's that counts on this CPU, guests included; -1 if that isn't allowed */
static int host_event(int cpu, uint64_t config)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = config, .pinned = 1,
	};

	return syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void beside_perf(int cpu)
{
	int events[] = { host_event(cpu, PERF_COUNT_HW_INSTRUCTIONS),
			 host_event(cpu, PERF_COUNT_HW_CPU_CYCLES) };

	if (events[0] < 0) {
		tell(CHECK_SKIPPED, "beside host perf", "perf_event_open: %s", strerror(errno));
		return;
	}
	loop(" beside host perf");
	exits(" beside host perf");
	for (unsigned int i = 0; i < ARRAY_SIZE(events); i++)
		if (events[i] >= 0)
			close(events[i]);
}

static void run(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "CPU %d", cpu);
	loop("");
	exits("");
	overflows();
	vector();
	freeze_modes();
	virtual_tsc();
	beside_perf(cpu);
}

/* A line of the child's, "OUTCOME<tab>NAME<tab>TEXT"; else what a library says of an error */
static void take(struct checks *checks, const char *label, char *line)
{
	char *outcome = strsep(&line, "\t"), *name = strsep(&line, "\t"), *full;

	full = xasprintf("%s: %s", label, line ? name : "tiny VM");
	if (line)
		check_add(checks, atoi(outcome), full, "%s", line);
	else
		check_add(checks, CHECK_FAILED, full, "%s", outcome);
	free(full);
}

void check_guest(struct checks *checks, int cpu, const char *label)
{
	struct device dev;
	char *line = NULL;
	size_t size = 0;
	int fds[2], status;
	FILE *in;
	pid_t child;

	if (device_connect(&dev))
		return;
	fflush(NULL);
	if (pipe(fds) || (child = fork()) < 0)
		err(1, "a process for the tiny VM");
	if (!child) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		device = &dev;
		alarm(TIME_LIMIT);
		run(cpu);
		_exit(0);
	}
	close(fds[1]);
	in = fdopen(fds[0], "r");
	while (getline(&line, &size, in) > 0) {
		line[strcspn(line, "\n")] = 0;
		take(checks, label, line);
	}
	free(line);
	fclose(in);
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status)) {
		line = xasprintf("ended by signal %d%s", WTERMSIG(status),
				 WTERMSIG(status) == SIGALRM ? ": too slow" : "");
		take(checks, label, line);
		free(line);
	}
	device_disconnect(&dev);
}
