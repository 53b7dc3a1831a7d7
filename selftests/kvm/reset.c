// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A vCPU is reset: by INIT and SIPI, from its VM's other vCPU and from userspace,
 * which leave its PMU alone; and by userspace's writes to its registers, as a VMM
 * must do it that wants them reset (QEMU 10.0 writes none of AMD's).  TAP.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "tap.h"
#include "guests.h"

#define N		100
#define MSR_APIC_BASE	0x1b
#define X2APIC		0xc00		/* enabled, in x2APIC mode */

/*
 * Sends INIT and SIPI to the vCPU in EBX, by its x2APIC's ICR, and leaves.
 * APM vol. 2, "Interrupt Command Register"
 */
extern const char sender_start[], sender_end[];
asm(".code16\n"
    ".globl sender_start, sender_end\n"
    "sender_start:\n"
    "	mov $0x830, %ecx\n"
    "	mov %ebx, %edx\n"
    "	mov $0x4500, %eax\n"
    "	wrmsr\n"
    "	mov $0x4601, %eax\n"	/* to 0x1000, where the code is */
    "	wrmsr\n"
    "	out %al, $0x11\n"
    "	jmp sender_start\n"
    "sender_end:\n"
    ".code64\n");

#define SENDER	0x6000

static const uint64_t events[] = { INSTRUCTIONS, BRANCHES, TAKEN, CONDITIONAL };

#define NR_EVENTS	4

/* The first fixed counter goes along, if there is one, and counts instructions. */
#define NR_VALUES	(NR_EVENTS + 1)
#define FIXED		NR_EVENTS

static void start(struct vm *vm, struct pmu pmu, uint64_t *value)
{
	value[FIXED] = 7777;
	if (pmu.fixed)
		put_fixed(vm, 0, FIXED_OS, value[FIXED]);
	for (unsigned int i = 0; i < NR_EVENTS; i++) {
		value[i] = 1000 * i;
		put_counter(vm, pmu, i, events[i] | OS | EN, value[i]);
	}
}

static void check_values(struct vm *vm, struct pmu pmu, const uint64_t *value, const char *name)
{
	static const char * const names[] = {
		"instructions", "branches", "taken branches", "conditional branches",
	};

	for (unsigned int i = 0; i < NR_EVENTS; i++)
		is(counter(vm, pmu, i), value[i], "%s: %s", name, names[i]);
	if (pmu.fixed)
		is(counter(vm, pmu, pmu.nr), value[FIXED], "%s: fixed counter", name);
}

static void add(uint64_t *value, bool first)
{
	for (unsigned int i = 0; i < NR_EVENTS; i++)
		value[i] += loop_counts(events[i], N, first);
	value[FIXED] += loop_counts(INSTRUCTIONS, N, first);
}

/* Instructions besides the loop's */
static void add_instructions(uint64_t *value, unsigned int n)
{
	value[0] += n;
	value[FIXED] += n;
}

/* INIT clears the general registers but EDX, so the loop's count comes from here. */
extern const char woken_start[], woken_end[];
asm(".code16\n"
    ".globl woken_start, woken_end\n"
    "woken_start:\n"
    "	xor %cx, %cx\n"
    "	mov %cx, %ds\n"
    "	mov $100, %esi\n"
    "1:	mov %esi, %edi\n"
    "2:	dec %edi\n"
    "	jnz 2b\n"
    "	xor %eax, %eax\n"
    "	cpuid\n"
    "	out %al, $0x10\n"
    "	jmp 1b\n"
    "woken_end:\n"
    ".code64\n");

#define WOKEN_INSTRUCTIONS	3	/* more than the loop has at first */

static void set_state(struct vm *vm, uint32_t state)
{
	struct kvm_mp_state s = { state };

	IOCTL(vm->vcpu, KVM_SET_MP_STATE, &s);
}

static uint32_t state(struct vm *vm)
{
	struct kvm_mp_state s;

	IOCTL(vm->vcpu, KVM_GET_MP_STATE, &s);
	return s.mp_state;
}

static void x2apic(struct vm *vm)
{
	struct kvm_sregs sregs;

	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.apic_base |= X2APIC;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	set_apic(vm, APIC_SPIV, 0x1ff);
}

static void *run_thread(void *vm)
{
	run_until(vm, KVM_EXIT_IO);
	return NULL;
}

static void by_apic(void)
{
	struct vm sender = make_vm_with(VM_APIC, MEMORY), vm = sender;
	uint64_t value[NR_VALUES];
	struct kvm_regs regs;
	pthread_t thread;
	struct pmu pmu;

	add_vcpu(&vm, 1);
	pmu = enabled_pmu(&vm);
	x2apic(&sender);
	x2apic(&vm);
	memcpy(vm.memory + SENDER, sender_start, sender_end - sender_start);
	load_code(&sender, woken_start, woken_end, (struct kvm_regs){ .rbx = 1 });
	IOCTL(sender.vcpu, KVM_GET_REGS, &regs);
	regs.rip = SENDER;
	IOCTL(sender.vcpu, KVM_SET_REGS, &regs);

	/* It has never run: it waits for these. */
	is(state(&vm), KVM_MP_STATE_UNINITIALIZED, "by APIC: the second vCPU's state at first");
	start(&vm, pmu, value);
	pthread_create(&thread, NULL, run_thread, &vm);
	run_until(&sender, KVM_EXIT_IO);
	pthread_join(thread, NULL);
	is(vm.run->io.port, 0x10, "by APIC: the second vCPU runs");
	add(value, true);
	add_instructions(value, WOKEN_INSTRUCTIONS);
	check_values(&vm, pmu, value, "by APIC, at first");

	for (int round = 0; round < 3; round++) {
		/* Only INIT and SIPI get it out of here; its exit is completed first. */
		run_until(&vm, KVM_EXIT_IO);
		add(value, false);
		run_until(&sender, KVM_EXIT_IO);
		run_until(&vm, KVM_EXIT_IO);
		/* The OUT it left with is complete, the JMP behind it isn't reached. */
		add_instructions(value, 1);
		add(value, true);
		add_instructions(value, WOKEN_INSTRUCTIONS);
	}
	check_values(&vm, pmu, value, "by APIC, again and again");
	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	is(get_msr(&vm, pmu.select), INSTRUCTIONS | OS | EN, "by APIC: its event select");
	free_vm(&vm);
	close(sender.vcpu);
}

static void by_userspace(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	uint64_t value[NR_VALUES];
	struct kvm_vcpu_events e;
	struct pmu pmu = enabled_pmu(&vm);

	load_code(&vm, woken_start, woken_end, (struct kvm_regs){ });
	start(&vm, pmu, value);
	run_until(&vm, KVM_EXIT_IO);
	add(value, true);
	add_instructions(value, WOKEN_INSTRUCTIONS);
	for (int round = 0; round < 3; round++) {
		IOCTL(vm.vcpu, KVM_GET_VCPU_EVENTS, &e);
		e.flags |= KVM_VCPUEVENT_VALID_SIPI_VECTOR;
		e.sipi_vector = CODE >> 12;
		set_state(&vm, KVM_MP_STATE_INIT_RECEIVED);
		check_values(&vm, pmu, value, "after INIT by userspace");
		set_state(&vm, KVM_MP_STATE_SIPI_RECEIVED);
		IOCTL(vm.vcpu, KVM_SET_VCPU_EVENTS, &e);
		run_until(&vm, KVM_EXIT_IO);
		add_instructions(value, 1);	/* the OUT */
		add(value, true);
		add_instructions(value, WOKEN_INSTRUCTIONS);
		check_values(&vm, pmu, value, "after SIPI by userspace");
	}
	free_vm(&vm);
}

/*
 * Userspace writes a reset vCPU's registers.  What counted until then, and an interrupt on its way,
 * are the past.
 */
static void by_registers(bool control_first)
{
	const char *name = control_first ? "by registers, control first" : "by registers, control last";
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = enabled_pmu(&vm);
	uint64_t value[NR_VALUES];
	unsigned int left = 0;

	for (int round = 0; round < 3; round++) {
		load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
		handle_nmis(&vm, 0);
		start(&vm, pmu, value);
		put_counter(&vm, pmu, 3, INSTRUCTIONS | OS | INT | EN, NEG(50));
		run_until(&vm, KVM_EXIT_IO);
		is(*word_at(&vm, SAMPLES), 1, "%s: it counted", name);

		if (pmu.v2 && control_first)
			set_msr(&vm, GLOBAL_CONTROL, 0);
		for (unsigned int i = 0; i < pmu.nr; i++) {
			set_msr(&vm, pmu.counter + i * pmu.stride, 0);
			set_msr(&vm, pmu.select + i * pmu.stride, 0);
		}
		for (unsigned int n = 0; n < pmu.fixed; n++)
			put_fixed(&vm, n, 0, 0);
		if (pmu.v2) {
			set_msr(&vm, GLOBAL_STATUS, 0);
			if (!control_first)
				set_msr(&vm, GLOBAL_CONTROL, 0);
		}
		load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
		run_until(&vm, KVM_EXIT_IO);
		run_until(&vm, KVM_EXIT_IO);
		for (unsigned int i = 0; i < pmu.nr; i++)
			left += counter(&vm, pmu, i) || get_msr(&vm, pmu.select + i * pmu.stride);
		for (unsigned int n = 0; n < pmu.fixed; n++)
			left += counter(&vm, pmu, pmu.nr + n) || get_msr(&vm, INTEL_FIXED_CONTROL);
		is(left, 0, "%s: registers that aren't 0 after it", name);
		if (pmu.v2) {
			is(get_msr(&vm, GLOBAL_STATUS), 0, "%s: status", name);
			start(&vm, pmu, value);
			run_until(&vm, KVM_EXIT_IO);
			check_values(&vm, pmu, value, "control cleared");
			set_msr(&vm, GLOBAL_CONTROL, counter_bits(pmu));
		}
		load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
		start(&vm, pmu, value);
		run_until(&vm, KVM_EXIT_IO);
		add(value, true);
		check_values(&vm, pmu, value, name);
	}
	free_vm(&vm);
}

int main(void)
{
	by_apic();
	by_userspace();
	by_registers(true);
	by_registers(false);
	return finish();
}
