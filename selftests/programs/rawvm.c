// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a guest finds at its PMU's registers:
 *
 *	rawvm [--no-pmu] [--rounds R] count N
 *		the guest counts the instructions of a loop of N times 2
 *		instructions; prints what its counter read, for each of R rounds.  N has at
 *		most 32 bits.
 *	rawvm restored N
 *		the same with a counter that userspace has started before the first VM entry:
 *		2 N + 3 instructions
 *	rawvm [--no-pmu] probe MSR...
 *		the guest reads each MSR: prints "MSR value" or "MSR #GP"
 *	rawvm write MSR VALUE...
 *		the guest writes an MSR and reads it back: prints as above.  With MSR/OTHER
 *		it reads OTHER
 *	rawvm rdpmc INDEX...
 *		the same with RDPMC
 *	rawvm cpuid LEAF
 *		what the guest's CPUID says: prints EAX, EBX, ECX, EDX
 *	rawvm invalid
 *		enters a guest whose state no CPU accepts, a few times: prints KVM's exit reason
 *	rawvm halt N
 *		halts N times for 20 ms, and computes in between (AMD)
 *	rawvm [--fixed] hold
 *		a VM with a running counter that stays until stdin ends; with --fixed Intel's fixed
 *		counters run, too.  For each byte of stdin the VM gets another vCPU.
 *	rawvm pages FIRST READS FIRST WRITES FIRST READS FIRST WRITES
 *		a VM of two vCPUs, each of which loads from so many pages from page frame FIRST
 *		on and adds to so many others (struct work of pages.h), until stdin ends
 *	rawvm demand OWN WRITES BOTH WRITES COMPUTE
 *		a VM of two vCPUs that want caches, memory or each other's data (struct demand of
 *		shared.h), until stdin ends.  For each byte of stdin: their passes so far
 *
 * --no-pmu takes the PMU from the VM by KVM_CAP_PMU_CAPABILITY.
 */
#include <argp.h>

#include "vm.h"
#include "guests.h"
#include "pages.h"
#include "registers.h"
#include "shared.h"
#include "waits.h"

/* Guest code; the symbols are its bounds. */
extern const char count_start[], count_loop[], count_end[], rdmsr_start[], rdmsr_end[];
extern const char wrmsr_start[], wrmsr_end[], rdpmc_start[], rdpmc_end[];
extern const char cpuid_start[], cpuid_end[];
extern const char hold_start[], hold_end[];

asm(".code16\n"
    ".globl count_start, count_loop, count_end\n"
    /*
     * EBX is N, TABLE has the numbers of counter 0 and its select; leaves the count in EDX:EAX:
     * 2 N + 4 instructions, see count()
     */
    "count_start:\n"
    "	mov 0x2100, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 0x2104, %ecx\n"
    "	mov $0x4200c0, %eax\n"	/* EN, OS, retired instructions */
    "	wrmsr\n"		/* starts, and is counted */
    "count_loop:\n"
    "	mov %ebx, %esi\n"
    "1:	dec %esi\n"
    "	jnz 1b\n"
    "	mov 0x2104, %ecx\n"
    "	xor %eax, %eax\n"
    "	wrmsr\n"		/* stops, and is not */
    "	mov 0x2100, %ecx\n"
    "	rdmsr\n"
    "	mov %eax, 0x2000\n"
    "	mov %edx, 0x2004\n"
    "	hlt\n"
    "count_end:\n"
    ".globl rdmsr_start, rdmsr_end\n"
    "rdmsr_start:\n"
    "	rdmsr\n"
    "	mov %eax, 0x2000\n"
    "	mov %edx, 0x2004\n"
    "	hlt\n"
    "rdmsr_end:\n"
    ".globl wrmsr_start, wrmsr_end\n"
    /* EBX is what to read. */
    "wrmsr_start:\n"
    "	wrmsr\n"
    "	mov %ebx, %ecx\n"
    "	rdmsr\n"
    "	mov %eax, 0x2000\n"
    "	mov %edx, 0x2004\n"
    "	hlt\n"
    "wrmsr_end:\n"
    ".globl rdpmc_start, rdpmc_end\n"
    "rdpmc_start:\n"
    "	rdpmc\n"
    "	mov %eax, 0x2000\n"
    "	mov %edx, 0x2004\n"
    "	hlt\n"
    "rdpmc_end:\n"
    ".globl cpuid_start, cpuid_end\n"
    "cpuid_start:\n"
    "	cpuid\n"
    "	mov %eax, 0x2100\n"
    "	mov %ebx, 0x2104\n"
    "	mov %ecx, 0x2108\n"
    "	mov %edx, 0x210c\n"
    "	hlt\n"
    "cpuid_end:\n"
    ".globl hold_start, hold_end\n"
    "hold_start:\n"
    "	mov 0x2104, %ecx\n"
    "	mov $0x4200c0, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "1:	mov $1000, %ecx\n"
    "2:	loop 2b\n"
    "	hlt\n"
    "	jmp 1b\n"
    "hold_end:\n"
    ".code64\n");

static bool no_pmu, fixed;
static unsigned long rounds = 1;

static uint64_t result(const struct vm *vm)
{
	return *(uint64_t *)(vm->memory + RESULT);
}

static void print_result(const struct vm *vm, const char *name)
{
	if (vm->memory[RESULT + 8])
		printf("%s #GP\n", name);
	else
		printf("%s %#llx\n", name, (unsigned long long)result(vm));
}

/* Counter 0, which all register sets of a vendor have */
static void tell_counter(const struct vm *vm)
{
	const uint32_t msrs[] = {
		on_intel() ? INTEL_COUNTER0_LOW : LEGACY_COUNTER0,
		on_intel() ? INTEL_SELECT0 : LEGACY_SELECT0,
	};

	memcpy(vm->memory + TABLE, msrs, sizeof(msrs));
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno || !*text || *end)
		errx(2, "'%s' is not a number", text);
	return value;
}

/*
 * Counted: the WRMSR that starts, mov, N times dec and jnz, mov, xor; not the
 * WRMSR that stops.
 */
static void count(uint32_t n)
{
	struct vm vm = make_vm(!no_pmu);

	tell_counter(&vm);
	while (rounds--) {
		load_code(&vm, count_start, count_end, (struct kvm_regs){ .rbx = n });
		run_to_hlt(&vm);
		printf("%llu\n", (unsigned long long)result(&vm));
	}
	free_vm(&vm);
}

static void count_restored(uint32_t n)
{
	struct vm vm = make_vm(true);

	tell_counter(&vm);
	load_code(&vm, count_loop, count_end, (struct kvm_regs){ .rbx = n });
	set_msr(&vm, LEGACY_COUNTER0, 0);
	set_msr(&vm, LEGACY_SELECT0, 0x4200c0);
	run_to_hlt(&vm);
	printf("%llu\n", (unsigned long long)result(&vm));
	free_vm(&vm);
}

static void one(const char *name, const char *start, const char *end,
		struct kvm_regs regs)
{
	struct vm vm = make_vm(!no_pmu);

	load_code(&vm, start, end, regs);
	run_to_hlt(&vm);
	print_result(&vm, name);
	free_vm(&vm);
}

/* @name: MSR or MSR/OTHER */
static void write_read(const char *name, uint64_t value)
{
	const char *slash = strchr(name, '/');
	char *msr = strndup(name, slash ? (size_t)(slash - name) : strlen(name));
	struct kvm_regs regs = { .rcx = number(msr), .rax = value & 0xffffffff, .rdx = value >> 32 };

	regs.rbx = slash ? number(slash + 1) : regs.rcx;
	one(name, wrmsr_start, wrmsr_end, regs);
	free(msr);
}

static void print_cpuid(uint32_t leaf)
{
	struct vm vm = make_vm(!no_pmu);
	const uint32_t *e = (const uint32_t *)(vm.memory + TABLE);

	load_code(&vm, cpuid_start, cpuid_end, (struct kvm_regs){ .rax = leaf });
	run_to_hlt(&vm);
	printf("%#x %#x %#x %#x\n", e[0], e[1], e[2], e[3]);
	free_vm(&vm);
}

/* APM vol. 2, "Canonicalization and Consistency Checks": long mode, and a CS both of 64 and 32 bits */
static void enter_invalid(void)
{
	struct vm vm = make_vm(!no_pmu);
	struct kvm_sregs sregs;
	int i;

	IOCTL(vm.vcpu, KVM_GET_SREGS, &sregs);
	sregs.cr0 |= 0x80000001;	/* PG, PE */
	sregs.cr4 |= 0x20;		/* PAE */
	sregs.efer |= 0x500;		/* LMA, LME */
	sregs.cs.l = 1;
	sregs.cs.db = 1;
	IOCTL(vm.vcpu, KVM_SET_SREGS, &sregs);
	for (i = 0; i < 5; i++)
		IOCTL(vm.vcpu, KVM_RUN, NULL);
	printf("exit reason %u\n", vm.run->exit_reason);
	free_vm(&vm);
}

static void hold(void)
{
	struct vm vm = make_vm(!no_pmu);
	unsigned int vcpus = 0;
	char c;

	tell_counter(&vm);
	if (fixed) {
		struct pmu pmu = pmu_of(&vm);
		unsigned int i;

		for (i = 0; i < pmu.fixed; i++)
			put_fixed(&vm, i, FIXED_OS, 0);
		set_msr(&vm, INTEL_CONTROL, counter_bits(pmu));
	}
	load_code(&vm, hold_start, hold_end, (struct kvm_regs){ });
	run_to_hlt(&vm);
	puts("running");
	fflush(stdout);
	while (read(0, &c, 1) > 0) {
		if (ioctl(vm.fd, KVM_CREATE_VCPU, ++vcpus) < 0)
			err(1, "KVM_CREATE_VCPU");
		printf("%u more\n", vcpus);
		fflush(stdout);
	}
	free_vm(&vm);
}

static void halt(uint64_t n)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);

	prepare_pulses(&vm);
	while (n--) {
		load_code(&vm, pulses_start, pulses_end, (struct kvm_regs){ .rsi = 1 });
		run_until(&vm, KVM_EXIT_IO);
		load_spin(&vm);
		spin(&vm, 100);
	}
	free_vm(&vm);
}

static void access_pages(char **numbers)
{
	struct worker worker[2];
	unsigned int i;
	char c;

	make_workers(worker);
	for (i = 0; i < 2; i++, numbers += 4)
		begin_work(&worker[i], (struct work){
			number(numbers[0]), number(numbers[1]), number(numbers[2]), number(numbers[3]), 0,
		});
	puts("running");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	for (i = 0; i < 2; i++)
		end_work(&worker[i]);
	free_workers(worker);
}

static void demand(char **numbers)
{
	struct pair pair;
	char c;

	begin_pair(&pair, (struct demand){
		number(numbers[0]), number(numbers[1]), number(numbers[2]), number(numbers[3]),
		number(numbers[4]),
	});
	puts("running");
	fflush(stdout);
	while (read(0, &c, 1) > 0) {
		printf("%u\n", passes_of(&pair));
		fflush(stdout);
	}
	end_pair(&pair);
}

/* The guest's loop counter is EBX. */
static uint32_t loops(const char *arg)
{
	uint64_t n = number(arg);

	if (!n || n > UINT32_MAX)
		errx(1, "not a number of loops from 1 to %u: %s", UINT32_MAX, arg);
	return n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'f':
		fixed = true;
		return 0;
	case 'p':
		no_pmu = true;
		return 0;
	case 'r':
		rounds = number(arg);
		return 0;
	case ARGP_KEY_ARGS: {
		char **argv = state->argv + state->next;
		int i, argc = state->argc - state->next;

		if (!strcmp(argv[0], "count") && argc == 2) {
			count(loops(argv[1]));
		} else if (!strcmp(argv[0], "probe") && argc >= 2) {
			for (i = 1; i < argc; i++)
				one(argv[i], rdmsr_start, rdmsr_end,
				    (struct kvm_regs){ .rcx = number(argv[i]) });
		} else if (!strcmp(argv[0], "rdpmc") && argc >= 2) {
			for (i = 1; i < argc; i++)
				one(argv[i], rdpmc_start, rdpmc_end,
				    (struct kvm_regs){ .rcx = number(argv[i]) });
		} else if (!strcmp(argv[0], "write") && argc >= 3 && argc % 2) {
			for (i = 1; i < argc; i += 2)
				write_read(argv[i], number(argv[i + 1]));
		} else if (!strcmp(argv[0], "cpuid") && argc == 2) {
			print_cpuid(number(argv[1]));
		} else if (!strcmp(argv[0], "restored") && argc == 2) {
			count_restored(loops(argv[1]));
		} else if (!strcmp(argv[0], "invalid") && argc == 1) {
			enter_invalid();
		} else if (!strcmp(argv[0], "halt") && argc == 2) {
			halt(number(argv[1]));
		} else if (!strcmp(argv[0], "pages") && argc == 9) {
			access_pages(argv + 1);
		} else if (!strcmp(argv[0], "demand") && argc == 6) {
			demand(argv + 1);
		} else if (!strcmp(argv[0], "hold")) {
			/* More arguments are for who looks at the command line. */
			hold();
		} else {
			argp_usage(state);
		}
		return 0;
	}
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "fixed", 'f', NULL, 0, "hold: fixed counters run, too", 0 },
		{ "no-pmu", 'p', NULL, 0, "the VM has no PMU", 0 },
		{ "rounds", 'r', "R", 0, "how often to count (1)", 0 },
		{ }
	};
	static const struct argp argp = {
		options, parse,
		"count N\nprobe MSR...\nwrite MSR VALUE...\nrdpmc INDEX...\ncpuid LEAF\nhalt N\nhold\npages FIRST READS FIRST WRITES...\ndemand OWN WRITES BOTH WRITES COMPUTE",
		"A tiny VM that uses its performance counters", NULL, NULL, NULL
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	return 0;
}
