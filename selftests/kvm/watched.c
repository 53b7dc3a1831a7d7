// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Beside the host's NMI watchdog, a guest handles overflows as Linux does: its accesses need no VM exits
 * (lend_watchdog() of kmod/open.c), its registers are its own, and the watchdog counts on.  TAP.
 *
 *	watched [NAME]		NAME: of tests, while NMIs come (nmis.sh)
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>

#include "tap.h"
#include "guests.h"
#include "figures.h"
#include "files.h"
#include "host_pmu.h"
#include "pin.h"

#define ROUNDS	2000
#define SECONDS	60

/* For the guest: its counter's MSR and number, and its bit; what it reads in the first round */
#define COUNTER_MSR	TABLE
#define NUMBER		(TABLE + 4)
#define STATUS_BIT	(TABLE + 8)
#define LEFT		(TABLE + 12)

/*
 * ESI times: a counter overflows without an interrupt.  With global control 0 the guest reads the status and the
 * counter, sets that to ESI and reads it again, clears the status, and reads that.  RESULT: how often one was wrong.
 */
extern const char handler_start[], handler_end[];
asm(".code16\n"
    ".globl handler_start, handler_end\n"
    "handler_start:\n"
    "	xor %edi, %edi\n"
    "1:	mov 0x2100, %ecx\n"
    "	mov $-10, %eax\n"
    "	mov $0xffff, %edx\n"
    "	wrmsr\n"
    "	xor %edx, %edx\n"
    "	mov $0xc0000301, %ecx\n"
    "	mov $0x3f, %eax\n"
    "	wrmsr\n"
    "	mov $20, %ebp\n"
    "2:	dec %ebp\n"
    "	jnz 2b\n"
    "	xor %eax, %eax\n"
    "	wrmsr\n"
    "	dec %ecx\n"
    "	rdmsr\n"
    "	cmp 0x2108, %eax\n"
    "	je 3f\n"
    "	inc %edi\n"
    "3:	mov 0x2104, %ecx\n"
    "	rdpmc\n"
    "	cmpl $0, 0x210c\n"
    "	jne 4f\n"
    "	mov %eax, 0x210c\n"
    "4:	cmp 0x210c, %eax\n"
    "	je 5f\n"
    "	inc %edi\n"
    "5:	mov 0x2100, %ecx\n"
    "	mov %esi, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2104, %ecx\n"
    "	rdpmc\n"
    "	cmp %esi, %eax\n"
    "	je 6f\n"
    "	inc %edi\n"
    "6:	mov $0xc0000302, %ecx\n"
    "	mov 0x2108, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov $0xc0000300, %ecx\n"
    "	rdmsr\n"
    "	test %eax, %eax\n"
    "	jz 7f\n"
    "	inc %edi\n"
    "7:	dec %esi\n"
    "	jnz 1b\n"
    "	mov %edi, 0x2000\n"
    "	out %al, $0x10\n"
    "handler_end:\n"
    ".code64\n");

static struct pmu pmu;

static uint64_t host_select(unsigned int i)
{
	return host_msr(pmu.select + i * pmu.stride);
}

static uint64_t host_counter(unsigned int i)
{
	return host_msr(pmu.counter + i * pmu.stride);
}

/* The physical counter that the watchdog has; pmu.nr: none */
static unsigned int watchdogs(void)
{
	unsigned int i = 0;

	while (i < pmu.nr && !(host_select(i) & EN))
		i++;
	return i;
}

static struct vm make_handler(unsigned int i)
{
	struct vm vm = make_vm(true);

	put_counter(&vm, pmu, i, INSTRUCTIONS | OS | EN, 0);
	set_msr(&vm, GLOBAL_CONTROL, 0);
	load_code(&vm, handler_start, handler_end, (struct kvm_regs){ .rsi = ROUNDS });
	*word_at(&vm, COUNTER_MSR) = pmu.counter + i * pmu.stride;
	*word_at(&vm, NUMBER) = i;
	*word_at(&vm, STATUS_BIT) = 1u << i;
	*word_at(&vm, LEFT) = 0;
	return vm;
}

/* With counter @i, beside the watchdog's @its */
static void handles(int device, unsigned int i, unsigned int its, bool quiet, const char *name)
{
	uint64_t select = host_select(its), before, after;
	struct vm vm = make_handler(i);
	struct kvm_vpmu_vcpu v;

	before = host_counter(its);
	run_until(&vm, KVM_EXIT_IO);
	after = host_counter(its);
	v = figures(device, &vm);
	is(*word_at(&vm, RESULT), 0, "%s, counter %u: values that are wrong", name, i);
	if (quiet)
		/* The first round tells that the guest uses RDPMC. */
		check(v.open >= ROUNDS - 1, "%s, counter %u: registers were open at %llu VM entries", name, i, v.open);
	is(host_select(its), select, "%s, counter %u: what the watchdog counts", name, i);
	/* Its period is seconds: its counter is still below 0, or the NMI has set it anew. */
	check(before >> 47 & 1 && after >> 47 & 1 && after != before, "%s, counter %u: the watchdog counts, %#llx to %#llx",
	      name, i, (unsigned long long)before, (unsigned long long)after);
	free_vm(&vm);
}

/* Another host event, which somebody reads: it lends nothing. */
static void beside_another(int device, unsigned int its)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = PERF_COUNT_HW_INSTRUCTIONS, .pinned = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	int event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	uint64_t r[3];

	if (event < 0)
		err(1, "perf_event_open");
	handles(device, its, its, false, "beside another event");
	if (read(event, r, sizeof(r)) != sizeof(r))
		err(1, "read of a host event");
	is(r[2], r[1], "beside another event: its time running");
	close(event);
}

/* The guest does nothing else, and the watchdog's NMI comes.  Its period would be too long on a slow host. */
static void watchdog_barks(unsigned int its)
{
	int fd = open("/dev/cpu/0/msr", O_WRONLY | O_CLOEXEC);
	unsigned long before = interrupts("NMI", 0);
	time_t end = time(NULL) + SECONDS;
	uint64_t soon = NEG(100000000);
	unsigned int wrong = 0;

	if (fd < 0 || pwrite(fd, &soon, sizeof(soon), pmu.counter + its * pmu.stride) != sizeof(soon))
		err(1, "/dev/cpu/0/msr");
	close(fd);
	do {
		struct vm vm = make_handler(its);

		run_until(&vm, KVM_EXIT_IO);
		wrong += *word_at(&vm, RESULT);
		free_vm(&vm);
	} while (interrupts("NMI", 0) == before && time(NULL) < end);
	check(interrupts("NMI", 0) > before, "the watchdog's NMI comes");
	is(wrong, 0, "before it and around it: values that are wrong");
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "beside the watchdog";
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	struct vm vm;
	unsigned int its;

	if (device < 0)
		skip_all("no /dev/kvm-vpmu");
	if (on_intel())
		skip_all("Intel's CPUs hold NMIs less long");
	pin(0, 0);
	vm = make_vm(true);
	pmu = pmu_of(&vm);
	free_vm(&vm);
	if (!pmu.v2)
		skip_all("no PerfMonV2");
	its = watchdogs();
	if (its == pmu.nr)
		skip_all("no NMI watchdog");
	handles(device, its, its, argc < 2, name);
	handles(device, (its + 1) % pmu.nr, its, argc < 2, name);
	if (argc < 2) {
		beside_another(device, its);
		watchdog_barks(its);
	}
	return finish();
}
