// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two counters that overflow shortly after one another, the second while the host
 * already deals with the first: each is seen, and the host's kernel knows what all of its NMIs
 * are for.  TAP.
 */
#include "tap.h"
#include "sampler.h"

#define LOOPS		200
#define STEP		25
#define STEPS		400	/* up to the cycles of a VM exit and an NMI */

/* LOOPS times 2 instructions, then an OUT; the NMIs' handler counts them. */
extern const char spin_start[], spin_end[], note_start[], note_end[];
asm(".code16\n"
    "spin_start:\n"
    "	mov %esi, %edi\n"
    "1:	dec %edi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "spin_end:\n"
    "note_start:\n"
    "	incl 0x2200\n"
    "	iretw\n"
    "note_end:\n"
    ".code64\n");

/* One that came after the last round's OUT */
static void forget_nmis(struct vm *vm)
{
	struct kvm_vcpu_events events;

	IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &events);
	events.nmi.pending = 0;
	events.nmi.masked = 0;
	IOCTL(vm->vcpu, KVM_SET_VCPU_EVENTS, &events);
	set_apic(vm, APIC_LVTPC, APIC_NMI);
}

int main(void)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	unsigned int before = unknown_nmis(), lost = 0, wrong = 0;
	struct pmu pmu = pmu_of(&vm);

	*word_at(&vm, SAMPLES) = 0;
	handle_nmis_with(&vm, note_start, note_end);
	for (unsigned int i = 0; i < STEPS; i++) {
		load_code(&vm, spin_start, spin_end, (struct kvm_regs){ .rsi = LOOPS });
		forget_nmis(&vm);
		*word_at(&vm, SAMPLES) = 0;
		/* The first in the loop; in freeze mode "hybrid" cycles go on in the host. */
		put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN, NEG(LOOPS));
		put_counter(&vm, pmu, 1, CYCLES | OS | INT | EN, NEG(LOOPS + i * STEP));
		run_until(&vm, KVM_EXIT_IO);
		/* Both may have been pending at once. */
		lost += *word_at(&vm, SAMPLES) < 1 || *word_at(&vm, SAMPLES) > 2;
		wrong += counter(&vm, pmu, 0) != LOOPS + 1 + (2 + UNMASK_INSTRUCTIONS) * *word_at(&vm, SAMPLES);
		put_counter(&vm, pmu, 0, 0, 0);
		put_counter(&vm, pmu, 1, 0, 0);
	}
	is(lost, 0, "overflows without an interrupt, of %u", STEPS);
	is(wrong, 0, "wrong counts");
	is(unknown_nmis(), before, "NMIs that the host's kernel didn't know");
	free_vm(&vm);
	return finish();
}
