// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Host events of topdown metrics that come and go while a guest counts on fixed counters.  Host
 * perf then writes the register that fixed counters share, from a copy that has none of the
 * guest's.  TAP.
 *
 * The host's events take turns (multiplexing) on the one fixed counter that guests don't get.  No
 * NMI watchdog: the fixed counter of cycles is to be free.
 */
#define _GNU_SOURCE
#include <linux/kvm_vpmu.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "tap.h"
#include "guests.h"
#include "host_pmu.h"
#include "pin.h"
#include "trace.h"

#define LOOPS	2000000
#define ROUNDS	25
#define INTERVAL	"/sys/bus/event_source/devices/cpu/perf_event_mux_interval_ms"
/* Milliseconds that the host's events run, at least: an instruction takes 1 ns there. */
#define TURNS	(2ull * LOOPS * ROUNDS / 1000000 / 2)

/* INTEL_TD_METRIC_RETIRING of Linux arch/x86/include/asm/perf_event.h */
#define RETIRING	0x8000

static int host_event(uint64_t config, bool user, int group)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_RAW, .size = sizeof(attr), .config = config,
		/* Different fields of the register, or host perf has nothing to write. */
		.exclude_kernel = user, .exclude_user = !user,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, 0, group, 0);

	if (fd < 0)
		err(1, "perf_event_open of %#llx", (unsigned long long)config);
	return fd;
}

/* So that counters of the same event count the same */
static void count_in_guest_only(const struct vm *vm)
{
	struct kvm_vpmu_settings settings = {
		.fd = vm->fd, .fields = KVM_VPMU_SET_FREEZE, .freeze = KVM_VPMU_FREEZE_GUEST,
	};
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	IOCTL(device, KVM_VPMU_SET, &settings);
	close(device);
}

/*
 * Two groups, one for each mode, of the first @nr events: what does the guest count meanwhile?
 * General counters 0 and 1 are its reference: one of two counters of cycles is on a fixed one.
 */
static void beside(const char *name, unsigned int nr)
{
	static const uint64_t configs[] = { SLOTS, RETIRING };
	uint64_t instructions = 0, turns = 0, wrong = 0, differ = 0;
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int events[2][2];

	count_in_guest_only(&vm);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = LOOPS });
	put_counter(&vm, pmu, 0, CYCLES | OS | EN, 0);
	put_counter(&vm, pmu, 1, BRANCHES | OS | EN, 0);
	put_fixed(&vm, 0, FIXED_OS, 0);
	put_fixed(&vm, 1, FIXED_OS, 0);
	set_msr(&vm, INTEL_CONTROL, counter_bits(pmu));

	for (unsigned int user = 0; user < 2; user++)
		for (unsigned int i = 0; i < nr; i++)
			events[user][i] = host_event(configs[i], user, i ? events[user][0] : -1);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		run_until(&vm, KVM_EXIT_IO);
		instructions += loop_counts(INSTRUCTIONS, LOOPS, !round);
		wrong += counter(&vm, pmu, pmu.nr) != instructions;
		differ += counter(&vm, pmu, pmu.nr + 1) != counter(&vm, pmu, 0);
	}
	is(counter(&vm, pmu, 1), LOOPS + (uint64_t)(ROUNDS - 1) * (LOOPS + 1),
	   "%s: branches, on a general counter", name);
	is(wrong, 0, "%s: rounds with wrong instructions", name);
	is(differ, 0, "%s: rounds in which two counters of cycles differ", name);
	for (unsigned int user = 0; user < 2; user++) {
		for (unsigned int i = 0; i < nr; i++) {
			struct {
				uint64_t value, enabled, running;
			} r;

			if (read(events[user][i], &r, sizeof(r)) != sizeof(r))
				err(1, "read of an event");
			check(r.running && r.running < r.enabled,
			      "%s: the host's event %#llx of %s: %llu, in %llu of %llu ns",
			      name, (unsigned long long)configs[i],
			      user ? "user mode" : "the kernel", (unsigned long long)r.value,
			      (unsigned long long)r.running, (unsigned long long)r.enabled);
			turns += r.running / 1000000;
		}
	}
	check(turns >= TURNS, "%s: milliseconds of the host's events, %llu", name,
	      (unsigned long long)turns);
	for (unsigned int user = 0; user < 2; user++)
		for (unsigned int i = nr; i--;)
			close(events[user][i]);
	free_vm(&vm);
}

int main(void)
{
	if (!host_has_slots())
		skip_all("this CPU has no counter of slots");
	pin(0, 0);
	put_string(INTERVAL, "1");
	beside("slots", 1);
	beside("slots and a metric", 2);
	return finish();
}
