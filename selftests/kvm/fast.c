// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Accesses to PMU registers that are completed right behind the VM exit (kmod/fast.c): most of a guest's
 * are, they are exact, and those that KVM has more to do for aren't among them.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "tap.h"
#include "sampler.h"
#include "figures.h"
#include "host_pmu.h"
#include "leaves.h"
#include "pin.h"

#define DB_VECTOR	1
#define VECTOR		0x40

/* MSRs, for the guests */
#define RUNNING		TABLE		/* of counter 0 */
#define STOPPED		(TABLE + 4)	/* of the last one, which doesn't count */

/*
 * ESI times: RDPMC and RDMSR of a running counter, whose difference is known, and WRMSR and RDMSR of another
 * one.  RESULT: how many of them were wrong.
 */
#define ROUND_INSTRUCTIONS	17
#define ROUND_ACCESSES		4
extern const char accesses_start[], accesses_end[];
asm(".code16\n"
    ".globl accesses_start, accesses_end\n"
    "accesses_start:\n"
    "	xor %ebp, %ebp\n"
    "1:	xor %ecx, %ecx\n"
    "	rdpmc\n"
    "	mov %eax, %ebx\n"
    "	mov 0x2100, %ecx\n"
    "	rdmsr\n"
    "	sub %ebx, %eax\n"
    "	cmp $3, %eax\n"
    "	je 2f\n"
    "	inc %ebp\n"
    "2:	mov 0x2104, %ecx\n"
    "	mov %esi, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	rdmsr\n"
    "	cmp %esi, %eax\n"
    "	je 3f\n"
    "	inc %ebp\n"
    "3:	dec %esi\n"
    "	jnz 1b\n"
    "	mov %ebp, 0x2000\n"
    "	out %al, $0x10\n"
    "accesses_end:\n"
    ".code64\n");

/* RDPMC, and behind it the instruction at "once" with ECX, EDX and EAX from EBX, EDI and ESI */
extern const char once_start[], once_rdpmc[], once_rdmsr[], once_wrmsr[], once_end[];
asm(".code16\n"
    ".globl once_start, once_rdpmc, once_rdmsr, once_wrmsr, once_end\n"
    "once_start:\n"
    "	xor %ecx, %ecx\n"
    "	rdpmc\n"
    "	mov %ebx, %ecx\n"
    "	mov %edi, %edx\n"
    "	mov %esi, %eax\n"
    "	jmp *%bp\n"
    "once_rdpmc:\n"
    "	rdpmc\n"
    "	out %al, $0x10\n"
    "once_rdmsr:\n"
    "	rdmsr\n"
    "	out %al, $0x10\n"
    "once_wrmsr:\n"
    "	wrmsr\n"
    "	out %al, $0x10\n"
    "once_end:\n"
    ".code64\n");

/* For ever, or ESI times */
extern const char ever_start[], ever_end[], times_start[], times_rdpmc[], times_end[];
asm(".code16\n"
    ".globl ever_start, ever_end, times_start, times_rdpmc, times_end\n"
    "ever_start:\n"
    "	xor %ecx, %ecx\n"
    "1:	rdpmc\n"
    "	jmp 1b\n"
    "ever_end:\n"
    "times_start:\n"
    "	xor %ecx, %ecx\n"
    "	inc %ecx\n"
    "1:	rdpmc\n"
    "times_rdpmc:\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "times_end:\n"
    ".code64\n");

/* ESI times: the select at TABLE off, and to EBX */
extern const char toggle_start[], toggle_end[];
asm(".code16\n"
    ".globl toggle_start, toggle_end\n"
    "toggle_start:\n"
    "	mov 0x2100, %ecx\n"
    "1:	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov %ebx, %eax\n"
    "	wrmsr\n"
    "	dec %esi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "toggle_end:\n"
    ".code64\n");

/* With TF set: RDPMC, RDMSR and WRMSR, and the handler of #DB, which counts these at RESULT. */
#define TRAPPED_INSTRUCTIONS	10
extern const char trapped_start[], trapped_db[], trapped_end[];
asm(".code16\n"
    ".globl trapped_start, trapped_db, trapped_end\n"
    "trapped_start:\n"
    "	pushf\n"
    "	pop %ax\n"
    "	or $0x100, %ax\n"
    "	push %ax\n"
    "	popf\n"
    "	xor %ecx, %ecx\n"
    "	rdpmc\n"
    "	mov 0x2100, %ecx\n"
    "	rdmsr\n"
    "	mov 0x2104, %ecx\n"
    "	mov %esi, %eax\n"
    "	wrmsr\n"
    "	rdmsr\n"
    "	wrmsr\n"
    "	rdmsr\n"
    "	out %al, $0x10\n"
    "trapped_db:\n"
    "	incl 0x2000\n"
    "	iretw\n"
    "trapped_end:\n"
    ".code64\n");

/* An interrupt is pending, and STI holds it back up to the end of the access.  RESULT: where it came. */
extern const char shadow_start[], shadow_rdpmc[], shadow_handler[], shadow_end[];
asm(".code16\n"
    ".globl shadow_start, shadow_rdpmc, shadow_handler, shadow_end\n"
    "shadow_start:\n"
    "	xor %ecx, %ecx\n"
    "	rdpmc\n"
    "	sti\n"
    "	rdpmc\n"
    "shadow_rdpmc:\n"
    "	nop\n"
    "	nop\n"
    "	out %al, $0x10\n"
    "shadow_handler:\n"
    "	pop %ax\n"
    "	movzx %ax, %eax\n"
    "	mov %eax, 0x2000\n"
    "	out %al, $0x10\n"
    "shadow_end:\n"
    ".code64\n");

static int device;

/* Code that finds RUNNING and STOPPED, with ESI */
static void load(struct vm *vm, struct pmu pmu, const char *start, const char *end, unsigned int esi)
{
	load_code(vm, start, end, (struct kvm_regs){ .rsi = esi });
	*word_at(vm, RUNNING) = pmu.counter;
	*word_at(vm, STOPPED) = counter_msr(pmu, pmu.nr - 1);
	put_counter(vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
}

#define ROUNDS	1000

/* The first one is for KVM, and any behind some other VM exits. */
static void check_accesses(struct vm *vm, struct pmu pmu, const char *name)
{
	uint64_t before = figures(device, vm).fast;

	load(vm, pmu, accesses_start, accesses_end, ROUNDS);
	run_until(vm, KVM_EXIT_IO);
	is(*word_at(vm, RESULT), 0, "%s: values that are wrong", name);
	/* And XOR and MOV; the OUT is still to be completed. */
	is(counter(vm, pmu, 0), ROUND_INSTRUCTIONS * ROUNDS + 2, "%s: instructions", name);
	check(figures(device, vm).fast - before >= ROUND_ACCESSES * ROUNDS * 9 / 10,
	      "%s: %llu of %u accesses were completed behind the VM exit", name,
	      figures(device, vm).fast - before, ROUND_ACCESSES * ROUNDS);
}

static void plain(void)
{
	struct vm vm = make_vm(true);
	struct kvm_vpmu_vcpu v;

	check_accesses(&vm, pmu_of(&vm), "a guest");
	v = figures(device, &vm);
	check(v.fast <= v.reads + v.writes + v.rdpmcs, "each of them is among all accesses");
	check(v.rdpmcs == ROUNDS && v.writes >= ROUNDS && v.reads >= 2 * ROUNDS, "all accesses are in the figures");
	is(v.emulated, ROUND_ACCESSES * ROUNDS, "each of the guest's is an instruction that was emulated");
	free_vm(&vm);
}

/* What the host's counters count: their selects, and the control of Intel's fixed ones */
static unsigned int host_selects(struct pmu pmu, uint64_t *selects)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < pmu.nr; i++)
		selects[nr++] = host_msr(pmu.select + i * pmu.stride);
	if (on_intel())
		selects[nr++] = host_msr(INTEL_FIXED_CONTROL);
	return nr;
}

/* Host events on all counters: the guest's borrows one, and isn't on it when an access is completed. */
static void borrowed(void)
{
	struct kvm_regs toggle = { .rsi = ROUNDS };
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .pinned = 1,
	};
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	int events[MOST_COUNTERS];
	uint64_t before[MOST_COUNTERS], behind[MOST_COUNTERS];
	unsigned int nr;

	for (unsigned int i = 0; i < MOST_COUNTERS; i++) {
		/* One on Intel's fixed counter, too */
		attr.config = i ? PERF_COUNT_HW_BRANCH_INSTRUCTIONS : PERF_COUNT_HW_INSTRUCTIONS;
		events[i] = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	}
	nr = host_selects(pmu, before);
	check_accesses(&vm, pmu, "a counter that borrows");
	check(figures(device, &vm).borrowed, "it did");
	toggle.rbx = event_here(INSTRUCTIONS | OS | EN);
	load_code(&vm, toggle_start, toggle_end, toggle);
	*word_at(&vm, TABLE) = pmu.select;
	run_until(&vm, KVM_EXIT_IO);
	host_selects(pmu, behind);
	check(!memcmp(before, behind, nr * sizeof(*before)), "host events: as before");
	for (unsigned int i = 0; i < MOST_COUNTERS; i++)
		close(events[i]);
	free_vm(&vm);
}

/* A debugger sees each instruction. */
static void stepped(void)
{
	struct kvm_guest_debug debug = { .control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP };
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	unsigned int steps = 0;

	load(&vm, pmu, accesses_start, accesses_end, 5);
	IOCTL(vm.vcpu, KVM_SET_GUEST_DEBUG, &debug);
	while (!ioctl(vm.vcpu, KVM_RUN, NULL) && vm.run->exit_reason == KVM_EXIT_DEBUG && steps < 1000)
		steps++;
	is(vm.run->exit_reason, KVM_EXIT_IO, "a debugger: the guest's end");
	is(steps, ROUND_INSTRUCTIONS * 5 + 2, "a debugger: steps");
	is(figures(device, &vm).fast, 0, "a debugger: accesses completed behind the VM exit");
	free_vm(&vm);
}

/* The guest is its own debugger: #DB comes behind each instruction but POPF. */
static void traps_itself(void)
{
	struct vm vm = make_vm(true);

	load(&vm, pmu_of(&vm), trapped_start, trapped_end, 5);
	*word_at(&vm, 4 * DB_VECTOR) = CODE + (trapped_db - trapped_start);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, RESULT), TRAPPED_INSTRUCTIONS, "the guest's own TF: #DBs");
	free_vm(&vm);
}

static void interrupt_shadow(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	uint64_t before;

	handle_nmis(&vm, 0);
	load_code(&vm, shadow_start, shadow_end, (struct kvm_regs){ });
	*word_at(&vm, 4 * VECTOR) = CODE + (shadow_handler - shadow_start);
	put_counter(&vm, pmu_of(&vm), 0, INSTRUCTIONS | OS | EN, 0);
	/* Eight words, 10h apart */
	set_apic(&vm, APIC_IRR + VECTOR / 32 * 16, 1u << VECTOR % 32);
	before = figures(device, &vm).fast;
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, RESULT), CODE + (uint32_t)(shadow_rdpmc - shadow_start),
	   "an interrupt that STI holds back: right behind the access");
	check(figures(device, &vm).fast > before, "that was completed behind the VM exit");
	free_vm(&vm);
}

/* What a guest does at "once", and how it ends */
static uint32_t once(struct vm *vm, const char *what, uint32_t ecx, uint64_t value)
{
	load_code(vm, once_start, once_end, (struct kvm_regs){
		.rbx = ecx, .rdi = value >> 32, .rsi = (uint32_t)value, .rbp = CODE + (what - once_start),
	});
	if (ioctl(vm->vcpu, KVM_RUN, NULL))
		err(1, "KVM_RUN");
	return vm->run->exit_reason;
}

/* Accesses that the module knows of and that KVM completed */
static int64_t slow_accesses(const struct vm *vm)
{
	struct kvm_vpmu_vcpu v = figures(device, vm);

	return v.reads + v.writes + v.rdpmcs - v.fast;
}

/* An overflow without an interrupt, behind the RDPMC: the status' bit is set when the guest reads the status. */
static void status(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	struct kvm_regs regs;

	if (pmu.v2) {
		put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, NEG(4));
		is(once(&vm, once_rdmsr, GLOBAL_STATUS, 0), KVM_EXIT_IO, "a guest reads the status");
		IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
		is(regs.rax, 1, "an overflow without an interrupt: the status");
	} else {
		skip("no PerfMonV2", "an overflow without an interrupt");
	}
	free_vm(&vm);
}

static void faults(struct vm *vm, const char *what, uint32_t ecx, uint64_t value, const char *name)
{
	int64_t before = slow_accesses(vm);

	is(once(vm, what, ecx, value), KVM_EXIT_HLT, "%s: the guest ends in its handler", name);
	is(vm->memory[RESULT + 8], 1, "%s: #GP", name);
	check(slow_accesses(vm) >= before, "%s: isn't completed behind the VM exit", name);
}

static void general_protection(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	faults(&vm, once_rdpmc, 31, 0, "RDPMC of no counter");
	faults(&vm, once_rdmsr, on_intel() ? CORE_SELECT0 : INTEL_SELECT0 + 8, 0, "RDMSR of no register");
	faults(&vm, once_wrmsr, on_intel() ? CORE_SELECT0 : INTEL_SELECT0 + 8, 0, "WRMSR of no register");
	if (on_intel()) {
		faults(&vm, once_wrmsr, INTEL_SELECT0, 1ull << 40, "WRMSR of a reserved bit");
		faults(&vm, once_wrmsr, INTEL_STATUS, 0, "WRMSR of a register to read");
	}
	free_vm(&vm);
}

/* AMD: a write drops them.  Intel: the above. */
static void reserved_bits(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	uint32_t select = pmu.select + pmu.stride, counter = pmu.counter + pmu.stride;
	uint64_t before = figures(device, &vm).fast;

	is(once(&vm, once_wrmsr, select, ~(1ull << 22)), KVM_EXIT_IO, "WRMSR of all bits of a select but EN");
	is(get_msr(&vm, select), 0xfff97ffffull, "what it keeps");
	is(once(&vm, once_wrmsr, counter, ~0ull), KVM_EXIT_IO, "WRMSR of all bits of a counter");
	is(get_msr(&vm, counter), (1ull << 48) - 1, "what that keeps");
	if (pmu.v2) {
		is(once(&vm, once_wrmsr, GLOBAL_CONTROL, ~0ull), KVM_EXIT_IO, "WRMSR of all bits of global control");
		is(get_msr(&vm, GLOBAL_CONTROL), (1ull << pmu.nr) - 1, "what that keeps");
	}
	is(figures(device, &vm).fast - before, pmu.v2 ? 5 : 3,
	   "all but the first RDPMC were completed behind the VM exit");
	free_vm(&vm);
}

static void no_control(void)
{
	struct cpuid cpuid = { .head.nent = 256 };
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	if (pmu.v2) {
		IOCTL(vm.kvm, KVM_GET_SUPPORTED_CPUID, &cpuid);
		leaf(&cpuid, 0x80000022)->eax &= ~1u;
		if (set_cpuid(&vm, &cpuid))
			err(1, "KVM_SET_CPUID2");
		put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
		faults(&vm, once_wrmsr, GLOBAL_CONTROL, 1, "WRMSR of global control, without PerfMonV2");
	} else {
		skip("no PerfMonV2", "a guest without PerfMonV2");
	}
	free_vm(&vm);
}

static void qemus_filter(void)
{
	struct vm vm = make_vm(true);

	filter_as_qemu(&vm);
	check_accesses(&vm, pmu_of(&vm), "QEMU's filter");
	free_vm(&vm);
}

static void filtered(void)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_X86_USER_SPACE_MSR,
		.args[0] = KVM_MSR_EXIT_REASON_FILTER | KVM_MSR_EXIT_REASON_INVAL | KVM_MSR_EXIT_REASON_UNKNOWN,
	};
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);

	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | EN, 0);
	deny_writes(&vm, pmu.counter);
	/* The first access behind a new filter reads that. */
	faults(&vm, once_wrmsr, pmu.counter, 5, "a filter of writes");
	faults(&vm, once_wrmsr, pmu.counter, 5, "a filter of writes, again");
	if (pmu.v2) {
		deny_writes(&vm, GLOBAL_CONTROL);
		faults(&vm, once_wrmsr, GLOBAL_CONTROL, 1, "a filter of global control");
		faults(&vm, once_wrmsr, GLOBAL_CONTROL, 1, "a filter of global control, again");
	}
	deny_reads(&vm, pmu.counter);
	faults(&vm, once_rdmsr, pmu.counter, 0, "a filter");
	IOCTL(vm.fd, KVM_ENABLE_CAP, &cap);
	is(once(&vm, once_rdmsr, pmu.counter, 0), KVM_EXIT_X86_RDMSR, "userspace completes what is filtered");
	is(vm.run->msr.index, pmu.counter, "the register");
	vm.run->msr.data = 0x123456789;
	run_until(&vm, KVM_EXIT_IO);
	is(once(&vm, once_wrmsr, 0xc0010300, 5), KVM_EXIT_X86_WRMSR, "userspace completes what is unknown");
	is(vm.run->msr.data, 5, "its value");
	free_vm(&vm);
}

/*
 * The guest makes accesses only, and ends KVM_RUN for a signal all the same.  A slow host gets to none in the time that
 * the signal leaves.
 */
static void interrupted(void)
{
	struct vm vm = make_vm(true);
	unsigned int runs = 0, ended = 0;

	load_code(&vm, ever_start, ever_end, (struct kvm_regs){ });
	put_counter(&vm, pmu_of(&vm), 0, INSTRUCTIONS | OS | EN, 0);
	do {
		signal_after(scaled(50000));
		ended += ioctl(vm.vcpu, KVM_RUN, NULL) && errno == EINTR;
		signal_after(0);
		runs++;
	} while (!figures(device, &vm).fast && runs < 20);
	is(ended, runs, "a signal ends KVM_RUN");
	check(figures(device, &vm).fast, "accesses were completed behind the VM exit");
	free_vm(&vm);
}

/* An access is the instruction at which a counter overflows: the interrupt comes right behind it. */
static void overflows(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	unsigned int wrong = 0;

	handle_nmis(&vm, 0);
	for (unsigned int n = 1; n <= 30; n++) {
		/* The N-th RDPMC is the last of 3 * N instructions. */
		load_code(&vm, times_start, times_end, (struct kvm_regs){ .rsi = 100 });
		*word_at(&vm, SAMPLES) = 0;
		put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(3 * n));
		run_until(&vm, KVM_EXIT_IO);
		if (*word_at(&vm, SAMPLES) != 1 ||
		    *word_at(&vm, LAST_IP) != CODE + (uint32_t)(times_rdpmc - times_start)) {
			printf("# RDPMC %u: %u interrupts, the last at %#x\n", n, *word_at(&vm, SAMPLES),
			       *word_at(&vm, LAST_IP));
			wrong++;
		}
		set_apic(&vm, APIC_LVTPC, APIC_NMI);
	}
	is(wrong, 0, "overflows at an access: interrupts that aren't where they belong");
	check(figures(device, &vm).fast > 30 * 90, "%llu of 3,000 accesses were completed behind the VM exit",
	      figures(device, &vm).fast);
	free_vm(&vm);
}

int main(void)
{
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		skip_all("no /dev/kvm-vpmu");
	pin(0, 0);
	plain();
	qemus_filter();
	borrowed();
	stepped();
	traps_itself();
	interrupt_shadow();
	status();
	general_protection();
	if (!on_intel()) {
		reserved_bits();
		no_control();
	}
	filtered();
	interrupted();
	overflows();
	return finish();
}
