// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VM of one vCPU straight on the KVM API, which starts in milliseconds:
 *
 *	rawvm [--no-pmu] [--rounds R] count N
 *		the guest counts the instructions of a loop of N times 2
 *		instructions; prints what its counter read, for each of R rounds
 *	rawvm [--no-pmu] probe MSR...
 *		the guest reads each MSR: prints "MSR value" or "MSR #GP"
 *	rawvm write MSR VALUE
 *		the guest writes an MSR and reads it back: prints as above
 *	rawvm rdpmc INDEX...
 *		the same with RDPMC
 *	rawvm hold
 *		a VM with a running counter that stays until stdin ends
 *
 * --no-pmu takes the PMU from the VM by KVM_CAP_PMU_CAPABILITY.
 *
 * The guest is in real mode at CPL 0, and its code is written out below.
 */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY		0x10000
#define CODE		0x1000
#define RESULT		0x2000
#define GP_HANDLER	0x3000
#define STACK		0x8000

#define PERF_LEGACY_CTL0	0xc0010000
#define PERF_LEGACY_CTR0	0xc0010004
#define SELECT			0x4200c0	/* EN, OS, retired instructions */

/* Guest code; the symbols are its bounds. */
extern const char count_start[], count_end[], rdmsr_start[], rdmsr_end[];
extern const char wrmsr_start[], wrmsr_end[], rdpmc_start[], rdpmc_end[];
extern const char hold_start[], hold_end[], gp_start[], gp_end[];

asm(".code16\n"
    ".globl count_start, count_end\n"
    /* EBX is N; leaves the count in EDX:EAX: 2 N + 4 instructions, see count() */
    "count_start:\n"
    "	mov $0xc0010004, %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov $0xc0010000, %ecx\n"
    "	mov $0x4200c0, %eax\n"
    "	wrmsr\n"		/* starts, and is counted */
    "	mov %ebx, %esi\n"
    "1:	dec %esi\n"
    "	jnz 1b\n"
    "	mov $0xc0010000, %ecx\n"
    "	xor %eax, %eax\n"
    "	wrmsr\n"		/* stops, and is not */
    "	mov $0xc0010004, %ecx\n"
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
    "wrmsr_start:\n"
    "	wrmsr\n"
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
    ".globl hold_start, hold_end\n"
    "hold_start:\n"
    "	mov $0xc0010000, %ecx\n"
    "	mov $0x4200c0, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "1:	mov $1000, %ecx\n"
    "2:	loop 2b\n"
    "	hlt\n"
    "	jmp 1b\n"
    "hold_end:\n"
    ".globl gp_start, gp_end\n"
    "gp_start:\n"
    "	movb $1, 0x2008\n"
    "	hlt\n"
    "gp_end:\n"
    ".code64\n");

static bool no_pmu;
static unsigned long rounds = 1;

struct vm {
	int kvm, fd, vcpu;
	uint8_t *memory;
	struct kvm_run *run;
};

static void xioctl(int fd, unsigned long request, void *arg, const char *name)
{
	if (ioctl(fd, request, arg) < 0)
		err(1, "%s", name);
}

#define IOCTL(fd, request, arg)	xioctl(fd, request, arg, #request)

static struct vm make_vm(void)
{
	struct vm vm = { .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC) };
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY };
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 entries[256];
	} cpuid = { .head.nent = 256 };

	if (vm.kvm < 0)
		err(1, "/dev/kvm");
	vm.fd = ioctl(vm.kvm, KVM_CREATE_VM, 0);
	if (vm.fd < 0)
		err(1, "KVM_CREATE_VM");
	if (no_pmu) {
		struct kvm_enable_cap cap = { .cap = KVM_CAP_PMU_CAPABILITY,
					      .args[0] = KVM_PMU_CAP_DISABLE };

		IOCTL(vm.fd, KVM_ENABLE_CAP, &cap);
	}
	vm.memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm.memory == MAP_FAILED)
		err(1, "mmap");
	region.userspace_addr = (uintptr_t)vm.memory;
	IOCTL(vm.fd, KVM_SET_USER_MEMORY_REGION, &region);

	vm.vcpu = ioctl(vm.fd, KVM_CREATE_VCPU, 0);
	if (vm.vcpu < 0)
		err(1, "KVM_CREATE_VCPU");
	IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
	IOCTL(vm.vcpu, KVM_SET_CPUID2, &cpuid);
	vm.run = mmap(NULL, ioctl(vm.kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
		      PROT_READ | PROT_WRITE, MAP_SHARED, vm.vcpu, 0);
	if (vm.run == MAP_FAILED)
		err(1, "mmap of the vCPU");

	/* #GP, vector 13 of the real-mode table at 0 */
	memcpy(vm.memory + GP_HANDLER, gp_start, gp_end - gp_start);
	*(uint16_t *)(vm.memory + 4 * 13) = GP_HANDLER;
	return vm;
}

static void load_code(struct vm *vm, const char *start, const char *end,
		      struct kvm_regs regs)
{
	struct kvm_sregs sregs;

	memcpy(vm->memory + CODE, start, end - start);
	memset(vm->memory + RESULT, 0, 16);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	regs.rip = CODE;
	regs.rsp = STACK;
	regs.rflags = 2;
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
}

static void run_to_hlt(struct vm *vm)
{
	IOCTL(vm->vcpu, KVM_RUN, NULL);
	if (vm->run->exit_reason != KVM_EXIT_HLT)
		errx(1, "the guest ended with exit reason %u", vm->run->exit_reason);
}

static void free_vm(struct vm *vm)
{
	close(vm->vcpu);
	close(vm->fd);
	close(vm->kvm);
	munmap(vm->memory, MEMORY);
}

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
static void count(uint64_t n)
{
	struct vm vm = make_vm();

	while (rounds--) {
		load_code(&vm, count_start, count_end, (struct kvm_regs){ .rbx = n });
		run_to_hlt(&vm);
		printf("%llu\n", (unsigned long long)result(&vm));
	}
	free_vm(&vm);
}

static void one(const char *name, const char *start, const char *end,
		struct kvm_regs regs)
{
	struct vm vm = make_vm();

	load_code(&vm, start, end, regs);
	run_to_hlt(&vm);
	print_result(&vm, name);
	free_vm(&vm);
}

static void hold(void)
{
	struct vm vm = make_vm();
	char c;

	load_code(&vm, hold_start, hold_end, (struct kvm_regs){ });
	run_to_hlt(&vm);
	puts("running");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	free_vm(&vm);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
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
			count(number(argv[1]));
		} else if (!strcmp(argv[0], "probe") && argc >= 2) {
			for (i = 1; i < argc; i++)
				one(argv[i], rdmsr_start, rdmsr_end,
				    (struct kvm_regs){ .rcx = number(argv[i]) });
		} else if (!strcmp(argv[0], "rdpmc") && argc >= 2) {
			for (i = 1; i < argc; i++)
				one(argv[i], rdpmc_start, rdpmc_end,
				    (struct kvm_regs){ .rcx = number(argv[i]) });
		} else if (!strcmp(argv[0], "write") && argc == 3) {
			uint64_t value = number(argv[2]);

			one(argv[1], wrmsr_start, wrmsr_end,
			    (struct kvm_regs){ .rcx = number(argv[1]),
					       .rax = value & 0xffffffff,
					       .rdx = value >> 32 });
		} else if (!strcmp(argv[0], "hold") && argc == 1) {
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
		{ "no-pmu", 'p', NULL, 0, "the VM has no PMU", 0 },
		{ "rounds", 'r', "R", 0, "how often to count (1)", 0 },
		{ }
	};
	static const struct argp argp = {
		options, parse,
		"count N\nprobe MSR...\nwrite MSR VALUE\nrdpmc INDEX...\nhold",
		"A tiny VM that uses its performance counters", NULL, NULL, NULL
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	return 0;
}
