// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counters of cycles, which go on in the host (freeze modes "hybrid" and "vcpu"), while
 * userspace saves a vCPU by several ioctls, in QEMU's order: what is pending comes before the
 * counters.  Nothing may count between the ioctls, and no overflow's interrupt may be
 * lost.  The figure "in_kvm" has the overflows that came in the host.  TAP.
 */
#include "tap.h"
#include "guests.h"
#include "figures.h"

#define LOOPS		200
#define STEPS		400

/* ESI times 2 instructions, then an OUT; the NMIs' handler counts them. */
extern const char work_start[], work_end[], tell_start[], tell_end[];
asm(".code16\n"
    "work_start:\n"
    "1:	mov %esi, %edi\n"
    "2:	dec %edi\n"
    "	jnz 2b\n"
    "	out %al, $0x10\n"
    "	jmp 1b\n"
    "work_end:\n"
    "tell_start:\n"
    "	incl 0x2200\n"
    "	iretw\n"
    "tell_end:\n"
    ".code64\n");

struct saved {
	struct kvm_vcpu_events events;
	uint64_t value, status;
};

/* kvm_arch_get_registers() of QEMU 10.0, as far as the ioctls take no buffer of unknown size */
static struct saved save(struct vm *vm, struct pmu pmu)
{
	struct kvm_debugregs debugregs;
	struct kvm_lapic_state lapic;
	struct kvm_mp_state state;
	struct kvm_xsave xsave;
	struct kvm_sregs sregs;
	struct kvm_xcrs xcrs;
	struct kvm_regs regs;
	struct saved s = { };

	IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &s.events);
	IOCTL(vm->vcpu, KVM_GET_MP_STATE, &state);
	IOCTL(vm->vcpu, KVM_GET_REGS, &regs);
	IOCTL(vm->vcpu, KVM_GET_XSAVE, &xsave);
	IOCTL(vm->vcpu, KVM_GET_XCRS, &xcrs);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	s.value = counter(vm, pmu, 0);
	if (pmu.v2)
		s.status = get_msr(vm, GLOBAL_STATUS);
	IOCTL(vm->vcpu, KVM_GET_LAPIC, &lapic);
	IOCTL(vm->vcpu, KVM_GET_DEBUGREGS, &debugregs);
	return s;
}

/* No interrupt is on its way. */
static void forget_nmis(struct vm *vm)
{
	struct kvm_vcpu_events events;

	IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &events);
	events.nmi.injected = 0;
	events.nmi.pending = 0;
	events.nmi.masked = 0;
	events.flags |= KVM_VCPUEVENT_VALID_NMI_PENDING;
	IOCTL(vm->vcpu, KVM_SET_VCPU_EVENTS, &events);
	set_apic(vm, APIC_LVTPC, APIC_NMI);
	*word_at(vm, SAMPLES) = 0;
}

static int device;

static void set_freeze(struct vm *vm, unsigned int freeze)
{
	struct kvm_vpmu_settings s = {
		.fd = vm->fd, .fields = KVM_VPMU_SET_FREEZE, .freeze = freeze,
	};

	IOCTL(device, KVM_VPMU_SET, &s);
}

/* One round, and what userspace saves behind it; the counter overflows behind @period cycles. */
static struct saved round_of(struct vm *vm, struct pmu pmu, uint64_t period)
{
	put_counter(vm, pmu, 0, 0, 0);
	forget_nmis(vm);
	if (pmu.v2)
		set_msr(vm, GLOBAL_STATUS, 0);
	put_counter(vm, pmu, 0, CYCLES | OS | INT | EN, NEG(period));
	run_until(vm, KVM_EXIT_IO);
	return save(vm, pmu);
}

/* The cycles of a round, on this kernel: the shortest of some */
static uint64_t cycles_of_round(struct vm *vm, struct pmu pmu)
{
	uint64_t least = COUNTER_MASK;

	for (unsigned int i = 0; i < 10; i++) {
		uint64_t cycles = round_of(vm, pmu, COUNTER_MASK / 2).value - NEG(COUNTER_MASK / 2);

		if (cycles < least)
			least = cycles;
	}
	return least;
}

static struct vm make_work(unsigned int freeze, unsigned int loops, struct pmu *pmu)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);

	*pmu = pmu_of(&vm);
	set_freeze(&vm, freeze);
	load_code(&vm, work_start, work_end, (struct kvm_regs){ .rsi = loops });
	handle_nmis_with(&vm, tell_start, tell_end);
	if (pmu->v2)
		set_msr(&vm, GLOBAL_CONTROL, counter_bits(*pmu));
	return vm;
}

static void saves(unsigned int freeze, const char *name)
{
	unsigned int over = 0, lost = 0, moved = 0, odd = 0;
	struct pmu pmu;
	struct vm vm = make_work(freeze, LOOPS, &pmu);
	struct kvm_vpmu_vcpu v;
	uint64_t most;

	most = 2 * cycles_of_round(&vm, pmu);
	for (unsigned int i = 1; i <= STEPS; i++) {
		struct saved first, second;
		bool wrapped;

		first = round_of(&vm, pmu, most * i / STEPS);
		second = save(&vm, pmu);

		wrapped = first.value < COUNTER_MASK / 2;
		over += wrapped;
		lost += wrapped && !*word_at(&vm, SAMPLES) && !first.events.nmi.pending &&
			!first.events.nmi.injected;
		odd += pmu.v2 && (first.status & 1) != wrapped;
		moved += second.value != first.value;
	}
	printf("# %s: %u overflows\n", name, over);
	check(over >= STEPS / 20 && over <= STEPS * 19 / 20, "%s: overflows in some rounds", name);
	is(lost, 0, "%s: overflows whose interrupt isn't saved", name);
	is(odd, 0, "%s: status unlike the counter", name);
	is(moved, 0, "%s: saves between which the counter moved", name);
	v = figures(device, &vm);
	if (freeze == KVM_VPMU_FREEZE_GUEST)
		is(v.in_kvm, 0, "%s: overflows while KVM worked", name);
	else
		check(v.in_kvm && v.in_kvm <= v.overflows, "%s: overflows while KVM worked: %llu of %llu", name,
		      v.in_kvm, v.overflows);
	free_vm(&vm);
}

#define LONG_LOOPS	1000000

/* The guest works much longer than KVM. */
static void in_guest(void)
{
	struct pmu pmu;
	struct vm vm = make_work(KVM_VPMU_FREEZE_HYBRID, LONG_LOOPS, &pmu);
	struct kvm_vpmu_vcpu v;
	uint64_t cycles;

	cycles = cycles_of_round(&vm, pmu);
	for (unsigned int i = 0; i < 10; i++)
		round_of(&vm, pmu, cycles / 2);
	v = figures(device, &vm);
	check(v.in_kvm < v.overflows, "a long loop: overflows while KVM worked: %llu of %llu", v.in_kvm,
	      v.overflows);
	free_vm(&vm);
}

int main(void)
{
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	saves(KVM_VPMU_FREEZE_GUEST, "guest");
	saves(KVM_VPMU_FREEZE_HYBRID, "hybrid");
	saves(KVM_VPMU_FREEZE_VCPU, "vcpu");
	in_guest();
	return finish();
}
