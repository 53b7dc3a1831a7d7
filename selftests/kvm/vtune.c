// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The register accesses of VTune's sampling drivers, by a guest, in their order: the lists in
 * docs/vtune.md, "Accesses of a run, in order", whose steps the comments number.  TAP.
 *
 * The guest does one access after the other as the test tells it, and NMIs interrupt it where its
 * counters overflow.  Its handler goes on doing what it is told.
 */
#include "tap.h"
#include "guests.h"

/* SDM vol. 4, "Architectural MSRs" */
#define MISC_ENABLE	0x1a0
#define DEBUGCTL	0x1d9
#define SELECT0		0x186
#define COUNTER0	0x0c1
#define FIXED0		0x309
#define FIXED_CTRL	0x38d
#define STATUS		0x38e
#define CONTROL		0x38f
#define RESET		0x390
#define PEBS_ENABLE	0x3f1
#define DS_AREA		0x600
#define X2APIC_LVTPC	0x834

#define FIXED_RDPMC	0x40000000

/* As in docs/vtune.md, but for the period, and without user mode: the guest has none. */
#define PERIOD		10007
#define START		NEG(PERIOD)
static const uint64_t selects[] = { 0x5200c0, 0x52003c, 0x5200c4, 0x5200c5 };
#define ALL		0x70000000full
#define FIXED_ALL	0x999
#define Z		0x0c00000000000000ull
#define OTHERS		0xc000000000000000ull

/* What the guest does next: TABLE */
enum { WRITE = 1, READ, RDPMC, WORK, RETURN };
struct order {
	uint32_t what, ecx, eax, edx;
};

/*
 * An OUT asks for the next order, and what came of the last one is at RESULT: EDX:EAX, and at
 * RESULT + 8 how many #GP there were.  SAMPLES counts NMIs, LAST_IP tells where the last one came.
 * Each handler's access has the same length: 2.
 */
extern const char orders_start[], orders_work[], orders_work_end[], orders_nmi[], orders_gp[],
	orders_end[];
asm(".code16\n"
    ".globl orders_start, orders_work, orders_work_end, orders_nmi, orders_gp, orders_end\n"
    "orders_start:\n"
    "next:\n"
    "	out %al, $0x10\n"
    "	mov 0x2100, %bl\n"
    "	mov 0x2104, %ecx\n"
    "	mov 0x2108, %eax\n"
    "	mov 0x210c, %edx\n"
    "	cmp $1, %bl\n"
    "	je write\n"
    "	cmp $2, %bl\n"
    "	je read\n"
    "	cmp $3, %bl\n"
    "	je pmc\n"
    "	cmp $4, %bl\n"
    "	je orders_work\n"
    "	popal\n"
    "	iretw\n"
    "write:	wrmsr\n"
    "	jmp next\n"
    "read:	rdmsr\n"
    "	jmp store\n"
    "pmc:	rdpmc\n"
    "store:	mov %eax, 0x2000\n"
    "	mov %edx, 0x2004\n"
    "	jmp next\n"
    "orders_work:\n"
    "	dec %ecx\n"
    "	jnz orders_work\n"
    "orders_work_end:\n"
    "	jmp next\n"
    "orders_nmi:\n"
    "	mov %sp, %bp\n"
    "	mov (%bp), %bx\n"
    "	mov %bx, 0x2204\n"
    "	incl 0x2200\n"
    "	pushal\n"
    "	jmp next\n"
    "orders_gp:\n"
    "	mov %sp, %bp\n"
    "	addw $2, (%bp)\n"
    "	incl 0x2008\n"
    "	iretw\n"
    "orders_end:\n"
    ".code64\n");

static struct vm vm;
static bool nmi;	/* the guest is in its handler */
static uint32_t faults;

static uint64_t order(uint32_t what, uint32_t ecx, uint64_t value)
{
	struct order o = { what, ecx, value, value >> 32 };
	uint32_t before = *word_at(&vm, SAMPLES);
	uint64_t result;

	memcpy(vm.memory + TABLE, &o, sizeof(o));
	run_until(&vm, KVM_EXIT_IO);
	if (what == RETURN)
		nmi = false;
	if (*word_at(&vm, SAMPLES) != before)
		nmi = true;
	memcpy(&result, vm.memory + RESULT, 8);
	return result;
}

/* Each says whether the guest got a #GP. */
static bool faulted(void)
{
	uint32_t before = faults;

	faults = *word_at(&vm, RESULT + 8);
	return faults != before;
}

static bool w(uint32_t msr, uint64_t value)
{
	order(WRITE, msr, value);
	return faulted();
}

static bool r(uint32_t msr, uint64_t *value)
{
	*value = order(READ, msr, 0);
	return faulted();
}

static uint64_t p(uint32_t index)
{
	return order(RDPMC, index, 0);
}

static bool in_work(void)
{
	uint32_t ip = *word_at(&vm, LAST_IP) & 0xffff;

	return ip >= CODE + (orders_work - orders_start) &&
	       ip <= CODE + (orders_work_end - orders_start);
}

static struct vm make_guest(void)
{
	struct vm made = make_vm_with(VM_APIC, MEMORY);

	load_code(&made, orders_start, orders_end, (struct kvm_regs){ });
	*(uint16_t *)(made.memory + 4 * 13) = CODE + (orders_gp - orders_start);
	*(uint16_t *)(made.memory + 4 * 2) = CODE + (orders_nmi - orders_start);
	set_msr(&made, APIC_BASE, get_msr(&made, APIC_BASE) | 0xc00);	/* x2APIC */
	set_apic(&made, APIC_SPIV, 0x1ff);
	set_apic(&made, APIC_LVTPC, APIC_MASKED);
	*word_at(&made, SAMPLES) = 0;
	run_until(&made, KVM_EXIT_IO);
	nmi = false;
	faults = 0;
	return made;
}

/* As the guest sees it: KVM_GET_CPUID2 returns what userspace has set. */
static unsigned int version(void)
{
	unsigned int own = cpuid_of(&vm, 0xa).eax & 0xff;

	return own && intel_version() ? intel_version() : own;
}

/* DEC and JNZ in pieces, so that what is left behind an NMI isn't enough for the next one */
static bool work_to_nmi(void)
{
	for (int i = 0; i < 5 && !nmi; i++)
		order(WORK, PERIOD / 4, 0);
	return nmi;
}

/* sep5, with the paths of core2.c; @v4: and those of perfver4.c */
static void sep5(bool v4, bool z_faults)
{
	unsigned int unexpected = 0, missing = 0, elsewhere = 0, rounds = 0;
	uint64_t value, lvtpc, before, after, sampled = 0;

	vm = make_guest();
	/* 1 */
	r(MISC_ENABLE, &value);
	if (!(value & 1 << 12))
		check(w(PEBS_ENABLE, 0), "sep5: PEBS_ENABLE faults");
	/* 2 */
	unexpected += r(X2APIC_LVTPC, &lvtpc) + w(X2APIC_LVTPC, APIC_NMI);
	/* 3 */
	unexpected += r(DEBUGCTL, &value) + r(CONTROL, &value) + r(FIXED_CTRL, &value);
	/* 4 */
	if (v4)
		is(w(RESET, Z), z_faults, "sep5: bits 58 and 59 of global status reset %s",
		   z_faults ? "fault" : "are accepted");
	/* 5; without the freeze in DEBUGCTL, which KVM doesn't have */
	unexpected += w(CONTROL, 0) + w(RESET, ALL) + w(DEBUGCTL, 0) + w(FIXED_CTRL, FIXED_ALL);
	for (unsigned int i = 0; i < 4; i++)
		unexpected += w(SELECT0 + i, selects[i]);
	for (unsigned int i = 0; i < 4; i++)
		unexpected += w(COUNTER0 + i, START | 0xffff000000000000);
	for (unsigned int i = 0; i < 3; i++)
		unexpected += w(FIXED0 + i, START);
	is(p(0), START, "sep5: a legacy write's sign goes on to bit 47");
	/* Only fixed counter 0 is to interrupt here, so that each sample has one cause. */
	unexpected += w(FIXED_CTRL, 0x119);
	for (unsigned int i = 0; i < 4; i++)
		unexpected += w(SELECT0 + i, selects[i] & ~INT) + w(COUNTER0 + i, 0);
	/* 7, 8 */
	unexpected += w(X2APIC_LVTPC, APIC_NMI);
	unexpected += w(CONTROL, ALL) + w(DEBUGCTL, 0);
	before = p(0) - p(FIXED_RDPMC) + START;

	for (rounds = 0; rounds < 20; rounds++) {
		uint64_t status = 0, since;

		if (!work_to_nmi()) {
			missing++;
			continue;
		}
		elsewhere += !in_work();
		/* The entry masks itself. */
		unexpected += r(X2APIC_LVTPC, &value);
		missing += value != (APIC_NMI | APIC_MASKED);
		/* 10, 11, 12 */
		unexpected += r(STATUS, &status);
		missing += (status & ~(1ull << 33 | 1ull << 34 | 0xf)) != 1ull << 32;
		since = p(FIXED_RDPMC);
		unexpected += w(FIXED0, START);
		/* What passed before it was set again, by the counter that wasn't */
		sampled += PERIOD + since;
		unexpected += w(RESET, status);
		/* 15 */
		unexpected += w(X2APIC_LVTPC, APIC_NMI);
		if (v4)
			unexpected += w(RESET, Z) != z_faults;
		unexpected += w(CONTROL, ALL) + w(DEBUGCTL, 0);
		order(RETURN, 0, 0);
		unexpected += nmi;
	}
	is(missing, 0, "sep5: interrupts, masks and status bits that were missing, in %u rounds", rounds);
	is(elsewhere, 0, "sep5: samples that weren't in the work");
	/*
	 * From RDPMC of the fixed counter to its WRMSR the other one goes on: 3 instructions store
	 * and jump, OUT, 4 loads, 2 for the choice; the WRMSR itself counts in both.
	 */
	after = p(0) - p(FIXED_RDPMC) + START;
	is((after - before) & COUNTER_MASK, sampled + rounds * 11, "sep5: the same instructions, with samples and without");
	/* 17, 18, 20 */
	unexpected += w(CONTROL, 0);
	value = p(0);
	order(WORK, 1000, 0);
	is(p(0), value, "sep5: nothing counts after its stop");
	for (unsigned int i = 0; i < 4; i++)
		unexpected += w(SELECT0 + i, 0) + w(COUNTER0 + i, 0);
	unexpected += w(X2APIC_LVTPC, lvtpc) + w(DEBUGCTL, 0) + w(CONTROL, 0) + w(FIXED_CTRL, 0);
	is(unexpected, 0, "sep5: other faults, or their lack");
	free_vm(&vm);
}

/* vtsspp: on before anything is set, and overflows are what isn't negative */
static void vtsspp(void)
{
	unsigned int unexpected = 0, missing = 0, rounds;
	uint64_t value, reset, control, fixed;

	vm = make_guest();
	/* 2, 3 */
	unexpected += r(RESET, &reset) + r(CONTROL, &control) + r(DEBUGCTL, &value);
	is(reset, 0, "vtsspp: global status reset reads 0");
	unexpected += w(RESET, 0) + w(CONTROL, 0) + w(DEBUGCTL, 0) + w(X2APIC_LVTPC, APIC_NMI);
	/* 4 */
	check(r(DS_AREA, &value) && w(PEBS_ENABLE, 0), "vtsspp: DS_AREA and PEBS_ENABLE fault");
	for (rounds = 0; rounds < 20; rounds++) {
		/* 6 */
		unexpected += w(CONTROL, ALL) + w(RESET, ALL | OTHERS);
		/* 7: fixed counter 0 leads, general counter 2 goes along */
		unexpected += w(FIXED0, START) + r(FIXED_CTRL, &fixed) + w(FIXED_CTRL, fixed | 9);
		unexpected += w(COUNTER0 + 2, START) + w(SELECT0 + 2, selects[2]);
		if (!work_to_nmi()) {
			missing++;
			continue;
		}
		missing += !in_work();
		/* 8, 9 */
		unexpected += w(SELECT0 + 2, 0) + w(FIXED_CTRL, 0);
		unexpected += r(STATUS, &value);
		missing += !(value & 1ull << 32);
		unexpected += r(FIXED0, &value);
		missing += !!(value & 1ull << 47);
		unexpected += r(COUNTER0 + 2, &value);
		missing += !(value & 1ull << 47);
		unexpected += w(X2APIC_LVTPC, APIC_NMI);
		order(RETURN, 0, 0);
	}
	is(missing, 0, "vtsspp: overflows that weren't as they should, in %u rounds", rounds);
	/* 10, 11 */
	for (unsigned int i = 0; i < 4; i++)
		unexpected += w(SELECT0 + i, 0) + w(COUNTER0 + i, 0);
	unexpected += w(FIXED_CTRL, 0) + w(RESET, 0) + w(CONTROL, 0) + w(DEBUGCTL, 0);
	unexpected += w(RESET, reset) + w(CONTROL, control);
	is(unexpected, 0, "vtsspp: other faults");
	free_vm(&vm);
}

int main(void)
{
	unsigned int v;

	vm = make_vm_with(VM_APIC, MEMORY);
	v = version();
	free_vm(&vm);
	if (v < 2)
		skip_all("VTune is for Intel's CPUs");
	sep5(false, false);
	sep5(true, v < 4);
	vtsspp();
	return finish();
}
