// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a VM exit costs, and what the guest's counters see of it: a guest that
 * executes nothing but one instruction that exits, or is interrupted by its counter,
 * against the emulator's oracle.
 *
 *	exits [--of OPERATION] [--no-pmu] [--freeze MODE] [--off] [SELECT...]
 *
 * The guest counts with these event selects, one counter each; with --off, its global
 * control is 0.  Prints one
 * line "NAME VALUE" each: of an iteration, the oracle's counts, and what the
 * counters read.  An iteration's share is the difference between many
 * iterations and few, each in the run of many that the host's timer disturbed
 * least.  The VM has an APIC, as KVM's mediated vPMU wants it, and QEMU's filter of MSRs.
 */
#define _GNU_SOURCE
#include <argp.h>

#include <linux/kvm_vpmu.h>

#include "vm.h"
#include "registers.h"
#include "pin.h"
#include "profiles.h"
#include "oracle.h"
#include "cost.h"

#define MAX_COUNTERS	6
#define ITERATIONS	50
/*
 * Fewer, but more than the VM exits that kvm_vpmu looks at behind an access to a register
 * (VPMU_WATCHED_EXITS): without any, the guest's accesses before and behind are one burst, which is
 * cheaper.
 */
#define FEW		10
#define RUNS		150

/*
 * Behind the table, for operations: the first counter's select, global control, and the
 * numbers of registers
 */
#define OWN		0x2160
#define SELECT		"0x2160"
#define CONTROL		"0x2164"
#define SELECT_MSR	"0x2168"
#define COUNTER_MSR	"0x216c"
#define STRIDE		"0x2170"
#define CONTROL_MSR	"0x2174"
#define CONTROL_MASK	"0x2178"
struct own {
	uint32_t select, control, select_msr, counter_msr, stride, control_msr, control_mask;
};

#define NMI_HANDLER	0x3800

/*
 * EBX iterations of @operation, ESI counters whose selects are in the table; it
 * then holds their values.
 */
#define GUEST(name, operation)				\
	extern const char name##_start[], name##_finish[], name##_end[]; \
	asm(".code16\n"					\
	    #name "_start:\n"				\
	    "	mov %ebx, %ebp\n"			\
	    "	xor %edi, %edi\n"			\
	    "1:	cmp %esi, %edi\n"			\
	    "	je 2f\n"				\
	    "	mov %edi, %ecx\n"			\
	    "	imull " STRIDE ", %ecx\n"		\
	    "	addl " COUNTER_MSR ", %ecx\n"		\
	    "	xor %eax, %eax\n"			\
	    "	xor %edx, %edx\n"			\
	    "	wrmsr\n"				\
	    "	subl " COUNTER_MSR ", %ecx\n"		\
	    "	addl " SELECT_MSR ", %ecx\n"		\
	    "	mov 0x2100(,%edi,8), %eax\n"		\
	    "	mov 0x2104(,%edi,8), %edx\n"		\
	    "	wrmsr\n"				\
	    "	inc %edi\n"				\
	    "	jmp 1b\n"				\
	    "2:	test %ebp, %ebp\n"			\
	    "	jz 4f\n"				\
	    "3:\n" operation				\
	    "	dec %ebp\n"				\
	    "	jnz 3b\n"				\
	    #name "_finish:\n"				\
	    "4:	xor %edi, %edi\n"			\
	    "5:	cmp %esi, %edi\n"			\
	    "	je 6f\n"				\
	    "	mov %edi, %ecx\n"			\
	    "	imull " STRIDE ", %ecx\n"		\
	    "	addl " SELECT_MSR ", %ecx\n"		\
	    "	xor %eax, %eax\n"			\
	    "	xor %edx, %edx\n"			\
	    "	wrmsr\n"				\
	    "	subl " SELECT_MSR ", %ecx\n"		\
	    "	addl " COUNTER_MSR ", %ecx\n"		\
	    "	rdmsr\n"				\
	    "	mov %eax, 0x2100(,%edi,8)\n"		\
	    "	mov %edx, 0x2104(,%edi,8)\n"		\
	    "	inc %edi\n"				\
	    "	jmp 5b\n"				\
	    "6:	out %al, $0x10\n"			\
	    #name "_end:\n"				\
	    ".code64\n")

GUEST(cpuid, "	xor %eax, %eax\n"
	     "	cpuid\n");
/* MSRs that KVM needs least for: a constant, and one that it ignores (kvm_set_msr_common()) */
GUEST(rdmsr, "	mov $0x17, %ecx\n"
	     "	rdmsr\n");
GUEST(wrmsr, "	mov $0x79, %ecx\n"
	     "	xor %eax, %eax\n"
	     "	xor %edx, %edx\n"
	     "	wrmsr\n");
GUEST(rdmsr_counter, "	mov " COUNTER_MSR ", %ecx\n"
		     "	rdmsr\n");
GUEST(rdpmc, "	xor %ecx, %ecx\n"
	     "	rdpmc\n");
GUEST(wrmsr_counter, "	mov " COUNTER_MSR ", %ecx\n"
		     "	xor %eax, %eax\n"
		     "	xor %edx, %edx\n"
		     "	wrmsr\n");
GUEST(wrmsr_select, "	mov " SELECT_MSR ", %ecx\n"
		    "	mov " SELECT ", %eax\n"
		    "	xor %edx, %edx\n"
		    "	wrmsr\n");
/* Off, on, off, ... */
GUEST(toggle_select, "	mov " SELECT_MSR ", %ecx\n"
		     "	xorl $0x400000, " SELECT "\n"
		     "	mov " SELECT ", %eax\n"
		     "	xor %edx, %edx\n"
		     "	wrmsr\n");
/* All of them at once */
GUEST(toggle_all, "	mov " CONTROL_MSR ", %ecx\n"
		  "	mov " CONTROL_MASK ", %eax\n"
		  "	xorl %eax, " CONTROL "\n"
		  "	mov " CONTROL ", %eax\n"
		  "	xor %edx, %edx\n"
		  "	wrmsr\n");


/* The first counter overflows in a loop; with no_pmi, it doesn't. */
#define OVERFLOW_FROM(value, turns)		\
	"	mov " COUNTER_MSR ", %ecx\n"	\
	"	mov $" value ", %eax\n"	\
	"	mov $0xffff, %edx\n"		\
	"	wrmsr\n"			\
	"	mov $" turns ", %ecx\n"	\
	"7:	dec %ecx\n"			\
	"	jnz 7b\n"

GUEST(pmi, OVERFLOW_FROM("-40", "60"));
GUEST(first_pmi, OVERFLOW_FROM("-40", "60"));
GUEST(no_pmi, OVERFLOW_FROM("-1000000", "60"));
/* Cycles, which may count in the host as well */
GUEST(handled_pmi, OVERFLOW_FROM("-20000", "12000"));

extern const char iret_start[], iret_end[], handler_start[], handler_end[];
extern const char fault_start[], fault_end[];
asm(".code16\n"
    /* As Linux: amd_pmu_v2_handle_irq(), which begins the next period, a long one here */
    "handler_start:\n"
    "	pushal\n"
    "	mov " CONTROL_MSR ", %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	dec %ecx\n"	/* status */
    "	rdmsr\n"
    "	mov %eax, %ebx\n"
    "	xor %ecx, %ecx\n"
    "	rdpmc\n"
    "	mov " COUNTER_MSR ", %ecx\n"
    "	mov $-1000000, %eax\n"
    "	mov $0xffff, %edx\n"
    "	wrmsr\n"
    "	mov " CONTROL_MSR ", %ecx\n"
    "	inc %ecx\n"	/* of status bits to clear */
    "	mov %ebx, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	dec %ecx\n"
    "	mov " CONTROL_MASK ", %eax\n"
    "	wrmsr\n"
    "	popal\n"
    "	iretw\n"
    "handler_end:\n"
    "iret_start:\n"
    "	iretw\n"
    "iret_end:\n"
    /* The HLT of vm.h's wouldn't end KVM_RUN here. */
    "fault_start:\n"
    "	out %al, $0x11\n"
    "fault_end:\n"
    ".code64\n");

static const struct operation {
	const char *name, *start, *finish, *end;
} operations[] = {
#define OPERATION(name) { #name, name##_start, name##_finish, name##_end }
	OPERATION(cpuid),
	OPERATION(rdmsr),
	OPERATION(wrmsr),
	OPERATION(rdmsr_counter),
	OPERATION(rdpmc),
	OPERATION(wrmsr_counter),
	OPERATION(wrmsr_select),
	OPERATION(toggle_select),
	OPERATION(toggle_all),
	OPERATION(pmi),
	OPERATION(first_pmi),
	OPERATION(no_pmi),
	OPERATION(handled_pmi),
#undef OPERATION
};

struct counts {
	struct cost cost;
	uint64_t counter[MAX_COUNTERS];
};

static const struct operation *operation = operations;
static bool pmu = true, off, observed, timed;
static int freeze = -1;
static uint64_t selects[MAX_COUNTERS];
static unsigned int nr;
static int msr;

/* The guest's NMIs: they are the counters' */
static void prepare_nmis(struct vm *vm)
{
	struct kvm_vcpu_events events;
	uint32_t handler = NMI_HANDLER;

	if (operation->start == handled_pmi_start)
		memcpy(vm->memory + NMI_HANDLER, handler_start, handler_end - handler_start);
	else
		memcpy(vm->memory + NMI_HANDLER, iret_start, iret_end - iret_start);
	/* This one comes once: it ends the run, and leaves NMIs blocked. */
	if (operation->start == first_pmi_start)
		handler = CODE + (operation->finish - operation->start);
	memcpy(vm->memory + 4 * 2, &handler, sizeof(handler));
	IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &events);
	events.nmi.masked = 0;
	IOCTL(vm->vcpu, KVM_SET_VCPU_EVENTS, &events);
	/* SDM vol. 3, "Local Vector Table": a PMI has masked this. */
	if (on_intel())
		set_apic(vm, APIC_LVTPC, APIC_NMI);
}

static void run_once(struct vm *vm, unsigned int iterations, struct counts *c)
{
	struct pmu has = pmu_of(vm);
	uint32_t all = (1 << has.nr) - 1;
	struct own own = {
		selects[0], all, has.select, has.counter, has.stride, GLOBAL_CONTROL, all,
	};
	struct cost before;

	load_code(vm, operation->start, operation->end,
		  (struct kvm_regs){ .rbx = iterations, .rsi = nr });
	memcpy(vm->memory + TABLE, selects, sizeof(selects));
	memcpy(vm->memory + OWN, &own, sizeof(own));
	prepare_nmis(vm);
	if (off)
		set_msr(vm, GLOBAL_CONTROL, 0);
	read_cost(msr, &before);
	run_until(vm, KVM_EXIT_IO);
	if (vm->run->io.port != 0x10)
		errx(1, "the guest has no such register");
	read_cost(msr, &c->cost);
	subtract_cost(&c->cost, &before);
	memcpy(c->counter, vm->memory + TABLE, sizeof(c->counter));
}

/* The run in which the host did least. */
static struct counts best(struct vm *vm, unsigned int iterations)
{
	struct counts min, c;

	run_once(vm, iterations, &min);
	for (int i = 0; i < RUNS; i++) {
		run_once(vm, iterations, &c);
		if (less_disturbed(&c.cost, &min.cost))
			min = c;
	}
	return min;
}

static void measure(void)
{
	struct vm vm = make_vm_with(VM_APIC | (pmu ? 0 : VM_NO_PMU), MEMORY);
	bool once = operation->start == first_pmi_start;
	unsigned int iterations = once ? 1 : ITERATIONS, some = once ? 0 : FEW;
	struct counts many, few;
	char name[16];

	filter_as_qemu(&vm);
	if (freeze >= 0) {
		struct kvm_vpmu_settings s = {
			.fd = vm.fd, .fields = KVM_VPMU_SET_FREEZE, .freeze = freeze,
		};
		int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);

		struct kvm_vpmu_events e = { .fd = vm.fd, .flags = KVM_VPMU_EVENTS_OBSERVE };

		if (device < 0)
			err(1, "/dev/kvm-vpmu");
		IOCTL(device, KVM_VPMU_SET, &s);
		if (observed)
			IOCTL(device, KVM_VPMU_GET_EVENTS, &e);
		if (timed)
			profile_open(device, (struct kvm_vpmu_profile){
				.flags = KVM_VPMU_PROFILE_SWITCHES | KVM_VPMU_PROFILE_KVM_TIME,
				.records = KVM_VPMU_PROFILE_MAX_RECORDS, .fd = -1,
			});
	}
	memcpy(vm.memory + GP_HANDLER, fault_start, fault_end - fault_start);
	set_apic(&vm, APIC_SPIV, 0x1ff);
	set_apic(&vm, APIC_LVTPC, APIC_NMI);
	many = best(&vm, iterations + some);
	few = best(&vm, some);

	subtract_cost(&many.cost, &few.cost);
	print_cost(&many.cost, iterations, NULL);
	for (unsigned int i = 0; i < nr; i++) {
		int64_t gained = many.counter[i] - few.counter[i];

		snprintf(name, sizeof(name), "counter%u", i);
		printf("%s %.2f\n", name, (double)gained / iterations);
	}
	free_vm(&vm);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char * const modes[] = { "hybrid", "guest", "vcpu" };
	char *end;

	switch (key) {
	case 'o':
		operation = NULL;
		for (unsigned int i = 0; i < sizeof(operations) / sizeof(*operations); i++)
			if (!strcmp(arg, operations[i].name))
				operation = &operations[i];
		if (!operation)
			argp_error(state, "no operation '%s'", arg);
		return 0;
	case 'p':
		pmu = false;
		return 0;
	case 'f':
		for (int i = 0; i < 3; i++)
			if (!strcmp(arg, modes[i]))
				freeze = i;
		if (freeze < 0)
			argp_error(state, "no freeze mode '%s'", arg);
		return 0;
	case 'v':
		observed = true;
		return 0;
	case 't':
		timed = true;
		return 0;
	case 'O':
		off = true;
		return 0;
	case ARGP_KEY_ARG:
		if (nr == MAX_COUNTERS)
			argp_error(state, "too many counters");
		selects[nr++] = strtoull(arg, &end, 0);
		if (*end || end == arg)
			argp_error(state, "'%s' is no event select", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "of", 'o', "OPERATION", 0, "what the guest executes: cpuid (default), rdmsr, wrmsr, "
		  "rdmsr_counter, rdpmc, wrmsr_counter, wrmsr_select, toggle_select, toggle_all, "
		  "pmi, first_pmi (up to its handler), no_pmi, handled_pmi (as Linux does)", 0 },
		{ "no-pmu", 'p', NULL, 0, "the VM has no PMU", 0 },
		{ "freeze", 'f', "MODE", 0, "its freeze mode: hybrid, guest or vcpu", 0 },
		{ "observed", 'v', NULL, 0, "with --freeze: the host looks at the hypervisor's events", 0 },
		{ "timed", 't', NULL, 0, "with --freeze: the host profiles the time in KVM", 0 },
		{ "off", 'O', NULL, 0, "all its counters are off, by global control", 0 },
		{ }
	};
	static const struct argp argp = {
		options, parse, "[SELECT...]", "What a VM exit costs", NULL, NULL, NULL
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	pin(0, 0);
	msr = open_oracle(0);
	measure();
	return 0;
}
