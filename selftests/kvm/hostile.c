// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hostile guest: random accesses to PMU registers and what lies around them, on several vCPUs, while
 * userspace and the host do what they can to disturb.  TAP.
 *
 *	hostile [--seed SEED] [--accesses N] [--vcpus V] [--seconds S] [--disturb WORD,...]
 *
 * Userspace writes a list of random operations into the guest's memory.  The guest executes all of them and
 * notes what it got.  A model of the registers then says whether that was right:
 *
 *  - a counter that is disabled has the value that was written last, 0 at first: no count of another VM
 *    or of the host shows up;
 *  - an event select has what was written;
 *  - a counter of retired instructions around a loop counts it exactly.
 *
 * Beside that, the bench's emulators raise #GP for a physical bit that is reserved, which the host's kernel
 * reports ("unchecked MSR access error"), and compare what guests read with their own counts (host/hostile.sh).
 *
 * The same seed and number of vCPUs give the same operations.  What disturbs is random by the same seed, but not
 * its time.
 */
#define _GNU_SOURCE
#include <argp.h>
#include <linux/kvm_vpmu.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "tap.h"
#include "guests.h"
#include <linux/kvm_vpmu_probe.h>

#include "profiles.h"

/* ---- the guest, in 32-bit protected mode without paging */

#define SIZE		0x80000
#define GDT		0x500
#define IDT		0x600
#define OPERATIONS	0x0e00	/* addresses of what executes them */
#define TSS(id)		(0x800u + 0x80 * (id))
#define SMM_CODE	0x38000	/* APM vol. 2, "SMM Resources": at reset */
#define AREA(id)	(0x40000u + 0x10000 * (id))
#define MOST_VCPUS	4

/* In a vCPU's area, which EBP points to */
#define KERNEL_STACK	0xf000
#define USER_STACK	0xe000
#define VMCB		0xc000	/* or VMXON region; zeros */
#define RECORDS		0x100

#define CODE0		0x08
#define DATA0		0x10
#define CODE3		0x1b
#define DATA3		0x23
#define TSS_SELECTOR	0x28
#define BACK		0x20	/* vector from user mode */

struct area {
	uint32_t index, nr;	/* of the records: the next one, and all */
	uint32_t record;	/* address of the current one */
	uint32_t nmis;
};

enum { WRMSR, RDMSR, RDPMC, CPUID, LOOP, HALT, IO, USER, NESTED, MEASURE, NR_OPERATIONS };

/* What the guest is to do, and what came of it */
struct record {
	uint32_t operation, ecx, eax, edx;
	uint32_t counter, select, loops;	/* of MEASURE, with its select register in ECX */
	uint32_t nmis;				/* that came meanwhile */
	uint32_t fault;				/* 0 or the vector */
	uint32_t reserved[7];
};

#define NR_RECORDS	256

extern const char hostile_start[], hostile_end[], hostile_gp[], hostile_ud[], hostile_nmi[];
extern const char hostile_back[], hostile_operations[], hostile_rsm[], hostile_rsm_end[];
asm(".pushsection .rodata\n"
    ".code32\n"
    ".globl hostile_start, hostile_end, hostile_gp, hostile_ud, hostile_nmi, hostile_back\n"
    ".globl hostile_operations, hostile_rsm, hostile_rsm_end\n"
    "hostile_start:\n"
    "	mov (%ebp), %esi\n"
    "	cmp 4(%ebp), %esi\n"
    "	jae 9f\n"
    "	shl $6, %esi\n"
    "	lea 0x100(%ebp, %esi), %esi\n"
    "	mov %esi, 8(%ebp)\n"
    "	mov (%esi), %ebx\n"
    "	mov 4(%esi), %ecx\n"
    "	mov 8(%esi), %eax\n"
    "	mov 12(%esi), %edx\n"
    "	jmp *0xe00(, %ebx, 4)\n"
    "9:	out %al, $0x10\n"
    "	jmp hostile_start\n"

    "op_wrmsr:\n"
    "	wrmsr\n"
    "	jmp op_done\n"
    "op_rdmsr:\n"
    "	rdmsr\n"
    "	jmp op_done\n"
    "op_rdpmc:\n"
    "	rdpmc\n"
    "	jmp op_done\n"
    "op_cpuid:\n"
    "	cpuid\n"
    "	jmp op_done\n"
    "op_loop:\n"
    "	dec %ecx\n"
    "	jnz op_loop\n"
    "	jmp op_done\n"
    "op_halt:\n"
    "	hlt\n"
    "	jmp op_done\n"
    "op_io:\n"
    "	out %al, $0x11\n"
    "	jmp op_done\n"
    "op_user:\n"
    "	lea 0xe000(%ebp), %edi\n"
    "	pushl $0x23\n"
    "	pushl %edi\n"
    "	pushl $2\n"
    "	pushl $0x1b\n"
    "	call 1f\n"
    "	rdpmc\n"
    "	int $0x20\n"
    "1:	iret\n"
    /* AMD: the VM exit of an entry that failed clears GIF.  Intel: each may be a #UD. */
    "op_nested:\n"
    "	testl $1, %edx\n"
    "	jnz 1f\n"
    "	vmrun %eax\n"
    "	stgi\n"
    "	jmp op_done\n"
    "1:	push %eax\n"
    "	push %eax\n"
    "	movl $0, 4(%esp)\n"
    "	vmxon (%esp)\n"
    "	vmlaunch\n"
    "	vmxoff\n"
    "	jmp op_done\n"
    /* From the WRMSR that starts the counter on, but not the one that stops it: 4 + 2 * loops */
    "op_measure:\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 16(%esi), %ecx\n"
    "	wrmsr\n"
    "	mov 12(%ebp), %ebx\n"
    "	mov 4(%esi), %ecx\n"
    "	mov 24(%esi), %edi\n"
    "	mov 20(%esi), %eax\n"
    "	wrmsr\n"
    "1:	dec %edi\n"
    "	jnz 1b\n"
    "	mov 4(%esi), %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	mov 12(%ebp), %edi\n"
    "	sub %ebx, %edi\n"
    "	mov %edi, 28(%esi)\n"
    "	mov 16(%esi), %ecx\n"
    "	rdmsr\n"
    "	jmp op_done\n"

    "hostile_gp:\n"
    "	mov $13, %ebx\n"
    "	jmp 1f\n"
    "hostile_ud:\n"
    "	mov $6, %ebx\n"
    "1:	mov 8(%ebp), %esi\n"
    "	mov %ebx, 32(%esi)\n"
    "	jmp op_done\n"
    "hostile_back:\n"
    "op_done:\n"
    "	lea 0xf000(%ebp), %esp\n"
    "	mov 8(%ebp), %esi\n"
    "	mov %eax, 8(%esi)\n"
    "	mov %edx, 12(%esi)\n"
    "	incl (%ebp)\n"
    "	jmp hostile_start\n"
    "hostile_nmi:\n"
    "	incl 12(%ebp)\n"
    "	iret\n"
    "hostile_end:\n"

    "hostile_operations:\n"
    "	.long op_wrmsr - hostile_start, op_rdmsr - hostile_start, op_rdpmc - hostile_start\n"
    "	.long op_cpuid - hostile_start, op_loop - hostile_start, op_halt - hostile_start\n"
    "	.long op_io - hostile_start, op_user - hostile_start, op_nested - hostile_start\n"
    "	.long op_measure - hostile_start\n"
    "hostile_rsm:\n"
    "	rsm\n"
    "hostile_rsm_end:\n"
    ".code64\n"
    ".popsection\n");

#define MEASURED(loops)		(4 + 2ull * (loops))
#define NMI_INSTRUCTIONS	2

/* ---- randomness: xorshift, as each stream has to be the same again */

struct random {
	uint64_t state;
};

static struct random seeded(uint64_t seed, uint64_t stream)
{
	struct random r = { (seed + 1) * 0x9e3779b97f4a7c15ull ^ (stream + 1) * 0xbf58476d1ce4e5b9ull };

	return r;
}

static uint64_t any(struct random *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state * 0x2545f4914f6cdd1dull;
}

static unsigned int below(struct random *r, unsigned int n)
{
	return (any(r) >> 32) % n;
}

/* ---- what to do it all with */

static uint64_t seed = 1, wanted = 100000;
static unsigned int nr_vcpus = 2, seconds = 600;

enum { PERF = 1, OTHERS = 2, DEVICE = 4, PARAMETERS = 8, HOTPLUG = 16, FILTERS = 32, SNAPSHOTS = 64,
       IOCTLS = 128, SMI = 256 };
static const char *const disturbances[] = {
	"perf", "others", "device", "parameters", "hotplug", "filters", "snapshots",
	"ioctls", "smi",
};

#define NR_DISTURBANCES	(sizeof(disturbances) / sizeof(*disturbances))

static unsigned int disturb = (1u << NR_DISTURBANCES) - 1;

static int device;

/* Shared by all processes */
static struct shared {
	atomic_bool end;
	atomic_ullong accesses, faults, measured, compared, others, snapshots, halts, smis;
	atomic_ullong perf_events, requests, windows, settings, plugged;
	atomic_ullong wrong;
	/* Held while a CPU comes, and while a VM goes: see cpu_hotplug.c */
	pthread_mutex_t vms_stay;
} *shared;

static struct pmu pmu;

/* ---- the registers */

#define X2APIC_LVTPC	0x834

enum kind { OTHER, SELECT, COUNTER, COUNTER_LOW, FIXED_CONTROL };

static struct msr {
	uint32_t number;
	enum kind kind;
	unsigned int i;	/* of the counter */
} msrs[128];
static unsigned int nr_msrs;

static void add(uint32_t number, enum kind kind, unsigned int i)
{
	if (nr_msrs == sizeof(msrs) / sizeof(*msrs))
		errx(1, "too many registers");
	msrs[nr_msrs++] = (struct msr){ number, kind, i };
}

static void add_others(uint32_t first, uint32_t last)
{
	while (first <= last)
		add(first++, OTHER, 0);
}

/* Those that the guest has are what the model knows; the others shouldn't be there. */
static void find_msrs(void)
{
	for (unsigned int i = 0; i < pmu.nr; i++) {
		add(pmu.select + i * pmu.stride, SELECT, i);
		add(pmu.counter + i * pmu.stride, COUNTER, i);
		if (on_intel())
			add(INTEL_COUNTER0_LOW + i, COUNTER_LOW, i);
		else if (i < NR_LEGACY && pmu.select != LEGACY_SELECT0) {
			add(LEGACY_SELECT0 + i, SELECT, i);
			add(LEGACY_COUNTER0 + i, COUNTER, i);
		}
	}
	for (unsigned int n = 0; n < pmu.fixed; n++)
		add(INTEL_FIXED0 + n, COUNTER, pmu.nr + n);
	if (on_intel()) {
		add(INTEL_FIXED_CONTROL, FIXED_CONTROL, 0);
		add_others(INTEL_STATUS, INTEL_STATUS_RESET + 1);
		add_others(INTEL_SELECT0 + pmu.nr, INTEL_SELECT0 + pmu.nr + 1);
		add_others(INTEL_COUNTER0 + pmu.nr, INTEL_COUNTER0 + pmu.nr + 1);
		add_others(INTEL_FIXED0 + pmu.fixed, INTEL_FIXED0 + pmu.fixed);
	} else {
		if (pmu.select != CORE_SELECT0)
			add_others(CORE_SELECT0, CORE_SELECT0 + 3);
		add_others(CORE_SELECT0 + 2 * NR_CORE, CORE_SELECT0 + 2 * NR_CORE + 3);
		add_others(AMD_STATUS - 1, STATUS_SET + 1);
		/* The north bridge's, and the VM_HSAVE_PA and VM_CR of a hypervisor */
		add_others(0xc0010230, 0xc0010231);
		add(0xc0010114, OTHER, 0);
		add(0xc0010117, OTHER, 0);
	}
	/* The other vendor's */
	add(on_intel() ? CORE_SELECT0 : INTEL_SELECT0, OTHER, 0);
	add(on_intel() ? CORE_COUNTER0 : INTEL_COUNTER0, OTHER, 0);
	add(on_intel() ? AMD_CONTROL : INTEL_CONTROL, OTHER, 0);
	/* PERF_CAPABILITIES, PEBS, DEBUGCTL, DS_AREA, MISC_ENABLE, MPERF, APERF, TSC, x2APIC's LVTPC */
	static const uint32_t around[] = { 0x345, 0x3f1, 0x3f6, 0x600, 0x1a0, 0xe7, 0xe8, 0x10, X2APIC_LVTPC, 0x329 };

	for (unsigned int i = 0; i < sizeof(around) / sizeof(*around); i++)
		add(around[i], OTHER, 0);
	for (unsigned int n = 0x480; on_intel() && n < 0x492; n += 3)
		add(n, OTHER, 0);
}

static const struct msr *find_msr(uint32_t number)
{
	for (unsigned int i = 0; i < nr_msrs; i++)
		if (msrs[i].number == number)
			return &msrs[i];
	return NULL;
}

/* ---- the model of a vCPU's PMU */

struct model {
	uint64_t select[MOST_COUNTERS];
	bool enabled[MOST_COUNTERS];	/* by the select or the field of the fixed control, not globally */
	uint64_t value[MOST_COUNTERS];
	bool known[MOST_COUNTERS];	/* of the value */
};

/* What software may set and expects to read: event, unit mask, USR, OS, edge, INT, EN, INV, CMASK */
#define SELECT_BITS	0xffd7ffffull

static struct model reset_model(void)
{
	struct model m = { };

	for (unsigned int i = 0; i < MOST_COUNTERS; i++)
		m.known[i] = true;
	return m;
}

static void enable(struct model *m, unsigned int i, bool on)
{
	m->enabled[i] = on;
	if (on)
		m->known[i] = false;
}

static void model_write(struct model *m, const struct msr *r, uint64_t value)
{
	switch (r->kind) {
	case SELECT:
		m->select[r->i] = value;
		enable(m, r->i, value & EN);
		break;
	case COUNTER_LOW:
		value = (int32_t)value;
		/* fallthrough */
	case COUNTER:
		m->value[r->i] = value & COUNTER_MASK;
		m->known[r->i] = !m->enabled[r->i];
		break;
	case FIXED_CONTROL:
		for (unsigned int n = 0; n < pmu.fixed; n++)
			enable(m, pmu.nr + n, value >> 4 * n & 3);
		break;
	case OTHER:
		break;
	}
}

/* Return: is that right? */
static bool model_read(struct model *m, enum kind kind, unsigned int i, uint64_t value)
{
	switch (kind) {
	case SELECT:
		return !((value ^ m->select[i]) & SELECT_BITS);
	case COUNTER:
	case COUNTER_LOW:
		if (value & ~COUNTER_MASK)
			return false;
		if (m->known[i])
			return value == m->value[i];
		m->value[i] = value;
		m->known[i] = !m->enabled[i];
		return true;
	case FIXED_CONTROL:
	case OTHER:
		return true;
	}
	return false;
}

/* ---- operations */

static uint64_t any_value(struct random *r, const struct msr *m)
{
	static const uint64_t events[] = { 0xc0, 0xc2, 0xc4, 0x3c, 0x76, 0xd1, 0x0, 0x1c2, 0x2e, 0xffff };
	uint64_t value;

	switch (below(r, 8)) {
	case 0:
		return any(r);
	case 1:
		return any(r) & any(r) & any(r);
	case 2:
		return 1ull << below(r, 64);
	case 3:
		return below(r, 2) ? 0 : ~0ull;
	default:
		break;
	}
	switch (m->kind) {
	case SELECT:
		value = events[below(r, sizeof(events) / sizeof(*events))] | (any(r) & 0x7 << 16);
		value |= below(r, 2) ? EN : 0;
		value |= below(r, 2) ? INT : 0;
		if (!on_intel() && !below(r, 4))
			value |= 1ull << (40 + below(r, 2));	/* GuestOnly, HostOnly */
		return value;
	case COUNTER:
	case COUNTER_LOW:
		return below(r, 2) ? NEG(below(r, 2000)) : any(r) & COUNTER_MASK;
	case FIXED_CONTROL:
		return any(r) & 0xbbb;
	case OTHER:
		break;
	}
	if (m->number == GLOBAL_CONTROL)
		return counter_bits(pmu) & (any(r) | any(r));
	if (m->number == X2APIC_LVTPC)
		return APIC_NMI;
	return any(r) & counter_bits(pmu);
}

/*
 * The local APIC's delivery modes (APM vol. 2, "Local Vector Table"): an overflow's SMI comes with an
 * RSM, which the loop's counter has, and INIT ends the guest.  Neither is for LVTPC here.
 */
static uint64_t harmless(uint64_t lvtpc)
{
	unsigned int mode = lvtpc >> 8 & 7;

	return mode == 2 || mode == 5 ? lvtpc & ~(7ull << 8) : lvtpc;
}

static struct record any_record(struct random *r, unsigned int id)
{
	const struct msr *m = &msrs[below(r, nr_msrs)];
	struct record rec = { .operation = RDMSR, .ecx = m->number };
	uint64_t value;

	switch (below(r, 64)) {
	case 0 ... 27:
		rec.operation = WRMSR;
		value = any_value(r, m);
		if (m->number == X2APIC_LVTPC)
			value = harmless(value);
		rec.eax = value;
		rec.edx = value >> 32;
		break;
	case 28 ... 43:
		break;
	case 44 ... 51:
		rec.operation = RDPMC;
		rec.ecx = below(r, 16) ? below(r, 8) : any(r);
		if (on_intel() && below(r, 2))
			rec.ecx = 1u << 30 | below(r, 4);
		break;
	case 52:
		rec.operation = CPUID;
		rec.eax = below(r, 2) ? 0xa : 0x80000022;
		rec.ecx = 0;
		break;
	case 53 ... 56:
		rec.operation = LOOP;
		rec.ecx = 1 + below(r, 3000);
		break;
	case 57:
		rec.operation = below(r, 16) ? IO : HALT;
		break;
	case 58 ... 59:
		rec.operation = USER;
		rec.ecx = below(r, 8);
		break;
	case 60:
		rec.operation = NESTED;
		rec.eax = AREA(id) + VMCB;
		rec.edx = on_intel();
		break;
	default:
		rec.operation = MEASURE;
		rec.loops = 1 + below(r, 300);
		rec.counter = below(r, pmu.nr);
		rec.ecx = pmu.select + rec.counter * pmu.stride;
		rec.counter = counter_msr(pmu, rec.counter);
		rec.select = event_here(INSTRUCTIONS | OS | EN);
		break;
	}
	return rec;
}

/* Measuring needs the counters enabled by the global control, too: a record before it. */
static unsigned int any_records(struct random *r, unsigned int id, struct record *records)
{
	unsigned int n = 0;

	while (n < NR_RECORDS - 1) {
		struct record rec = any_record(r, id);

		if (rec.operation == MEASURE && (on_intel() || pmu.v2)) {
			uint64_t all = counter_bits(pmu);

			records[n++] = (struct record){
				.operation = WRMSR, .ecx = GLOBAL_CONTROL, .eax = all, .edx = all >> 32,
			};
		}
		records[n++] = rec;
	}
	return n;
}

/* ---- a VM */

struct vcpu {
	unsigned int id;
	int fd;
	struct kvm_run *run;
	struct vm *vm;
	struct random random;
	struct model model;
	struct record todo[NR_RECORDS];
	unsigned int nr;
	bool counts_known;	/* no filter, and a freeze mode in which instructions are the guest's */
	bool unchecked;
};

static struct area *area_of(const struct vm *vm, unsigned int id)
{
	return (struct area *)(vm->memory + AREA(id));
}

static struct record *records_of(const struct vm *vm, unsigned int id)
{
	return (struct record *)(vm->memory + AREA(id) + RECORDS);
}

static void put_gate(uint8_t *memory, unsigned int vector, uint32_t address, unsigned int dpl)
{
	uint32_t gate[2] = { CODE0 << 16 | (address & 0xffff), (address & 0xffff0000) | 0x8e00 | dpl << 13 };

	memcpy(memory + IDT + 8 * vector, gate, 8);
}

static uint32_t address_of(const char *label)
{
	return CODE + (label - hostile_start);
}

/* SDM vol. 3, "Segment Descriptors", "Interrupt Descriptor Table", "Task-State Segment (TSS)" */
static void fill_memory(uint8_t *memory)
{
	static const uint64_t gdt[] = {
		0, 0x00cf9b000000ffff, 0x00cf93000000ffff, 0x00cffb000000ffff, 0x00cff3000000ffff,
	};
	const uint32_t *offsets = (const uint32_t *)hostile_operations;

	memcpy(memory + GDT, gdt, sizeof(gdt));
	memcpy(memory + CODE, hostile_start, hostile_end - hostile_start);
	memcpy(memory + SMM_CODE, hostile_rsm, hostile_rsm_end - hostile_rsm);
	for (unsigned int i = 0; i < NR_OPERATIONS; i++) {
		uint32_t address = CODE + offsets[i];

		memcpy(memory + OPERATIONS + 4 * i, &address, 4);
	}
	put_gate(memory, 2, address_of(hostile_nmi), 0);
	put_gate(memory, 6, address_of(hostile_ud), 0);
	put_gate(memory, 13, address_of(hostile_gp), 0);
	put_gate(memory, BACK, address_of(hostile_back), 3);
	for (unsigned int id = 0; id < MOST_VCPUS; id++) {
		uint32_t tss[2] = { AREA(id) + KERNEL_STACK, DATA0 };
		uint32_t revision = 0x12;

		memcpy(memory + TSS(id) + 4, tss, sizeof(tss));
		memcpy(memory + AREA(id) + VMCB, &revision, on_intel() ? 4 : 0);
	}
}

static struct kvm_segment segment(unsigned int selector, unsigned int type, unsigned int s)
{
	return (struct kvm_segment){
		.limit = 0xffffffff, .selector = selector, .type = type, .s = s, .present = 1,
		.dpl = selector & 3, .db = s, .g = 1,
	};
}

/*
 * The emulator's reference of a vCPU starts anew with an entry in real mode at offset 0 (docs/emulated-pmu.md).
 * There is an OUT.
 */
static void enter_at_0(struct vm *vm, struct kvm_run *run)
{
	struct kvm_regs regs = { .rflags = 2 };
	struct kvm_sregs sregs;

	memcpy(vm->memory, "\xe6\x12", 2);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	vm->run = run;
	run_until(vm, KVM_EXIT_IO);
}

static void start_vcpu(struct vm *vm, unsigned int id, struct kvm_run *run)
{
	struct kvm_mp_state runnable = { .mp_state = KVM_MP_STATE_RUNNABLE };
	struct kvm_regs regs = {
		.rip = CODE, .rflags = 2, .rbp = AREA(id), .rsp = AREA(id) + KERNEL_STACK,
	};
	struct kvm_sregs sregs;

	IOCTL(vm->vcpu, KVM_SET_MP_STATE, &runnable);
	enter_at_0(vm, run);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs = segment(CODE0, 0xb, 1);
	sregs.ss = segment(DATA0, 0x3, 1);
	sregs.ds = segment(DATA3, 0x3, 1);
	sregs.es = sregs.fs = sregs.gs = sregs.ds;
	sregs.tr = segment(TSS_SELECTOR, 0xb, 0);
	sregs.tr.base = TSS(id);
	sregs.tr.limit = 0x67;
	sregs.tr.g = 0;
	sregs.gdt = (struct kvm_dtable){ .base = GDT, .limit = 0x2f };
	sregs.idt = (struct kvm_dtable){ .base = IDT, .limit = 8 * BACK + 7 };
	sregs.cr0 |= 1;
	sregs.cr4 |= on_intel() ? 1 << 13 : 0;		/* VMXE */
	sregs.efer |= on_intel() ? 0 : 1 << 12;		/* SVME */
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	set_msr(vm, APIC_BASE, get_msr(vm, APIC_BASE) | X2APIC_ENABLE);
	set_apic(vm, APIC_SPIV, 0x1ff);
	set_apic(vm, APIC_LVTPC, APIC_NMI);
}

static void choose_freeze(int vm, unsigned int freeze)
{
	struct kvm_vpmu_settings s = { .fd = vm, .fields = KVM_VPMU_SET_FREEZE, .freeze = freeze };

	IOCTL(device, KVM_VPMU_SET, &s);
}

/* A VM with @nr vCPUs, whose descriptors go to @vcpus, on @memory; they are as after a reset. */
static struct vm make_hostile(unsigned int nr, struct vcpu *vcpus, uint8_t *memory)
{
	struct kvm_vpmu_attach attach = { .attach = KVM_VPMU_ATTACH_YES };
	struct kvm_userspace_memory_region region = {
		.memory_size = SIZE, .userspace_addr = (uintptr_t)memory,
	};
	struct vm vm = { .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), .size = SIZE, .memory = memory };

	if (vm.kvm < 0)
		err(1, "/dev/kvm");
	vm.fd = ioctl(vm.kvm, KVM_CREATE_VM, 0);
	if (vm.fd < 0)
		err(1, "KVM_CREATE_VM");
	attach.fd = vm.fd;
	IOCTL(device, KVM_VPMU_ATTACH, &attach);
	IOCTL(vm.fd, KVM_CREATE_IRQCHIP, NULL);
	IOCTL(vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	region.slot = 1 << 16;	/* as SMM sees it */
	IOCTL(vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
	for (unsigned int id = 0; id < nr; id++) {
		add_vcpu(&vm, id);
		vcpus[id].id = id;
		vcpus[id].fd = vm.vcpu;
		vcpus[id].run = vm.run;
	}
	choose_freeze(vm.fd, KVM_VPMU_FREEZE_HYBRID);
	return vm;
}

static void end_hostile(struct vm *vm, unsigned int nr, struct vcpu *vcpus)
{
	size_t size = ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	for (unsigned int id = 0; id < nr; id++) {
		munmap(vcpus[id].run, size);
		close(vcpus[id].fd);
	}
	close(vm->fd);
	close(vm->kvm);
}

static uint8_t *make_memory(void)
{
	uint8_t *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		err(1, "mmap");
	fill_memory(memory);
	return memory;
}

/* ---- running and checking */

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static void wrong(const struct vcpu *v, unsigned int n, uint64_t got, uint64_t expected)
{
	static const char *const names[] = {
		"WRMSR", "RDMSR", "RDPMC", "CPUID", "LOOP", "HLT", "OUT", "user", "nested", "measure",
	};

	if (shared->wrong++ > 5)
		return;
	pthread_mutex_lock(&printing);
	printf("# vCPU %u, record %u: got %#llx, expected %#llx; up to there:\n", v->id, n,
	       (unsigned long long)got, (unsigned long long)expected);
	for (unsigned int i = n > 24 ? n - 24 : 0; i <= n; i++) {
		const struct record *in = &v->todo[i], *out = &records_of(v->vm, v->id)[i];

		printf("#   %s %#x %#x:%#x -> %#x:%#x%s", names[in->operation], in->ecx, in->edx, in->eax,
		       out->edx, out->eax, out->fault ? " fault" : "");
		if (in->operation == MEASURE)
			printf(" loops %u, NMIs %u", in->loops, out->nmis);
		puts("");
	}
	fflush(stdout);
	pthread_mutex_unlock(&printing);
}

static void check_value(struct vcpu *v, unsigned int n, enum kind kind, unsigned int i, uint64_t value)
{
	bool was_known = kind == SELECT || v->model.known[i];
	uint64_t expected = kind == SELECT ? v->model.select[i] : v->model.value[i];

	shared->compared += was_known;
	if (!model_read(&v->model, kind, i, value))
		wrong(v, n, value, expected);
}

static void check_rdpmc(struct vcpu *v, unsigned int n, uint32_t index, uint64_t value)
{
	unsigned int i = index;

	if (on_intel() && index & 1u << 30)
		i = pmu.nr + (index & ~(1u << 30));
	else if (i >= pmu.nr)
		return wrong(v, n, value, 0);
	if (i >= nr_counters(pmu))
		return wrong(v, n, value, 0);
	check_value(v, n, COUNTER, i, value);
}

static void check_measure(struct vcpu *v, unsigned int n, const struct record *in, const struct record *out)
{
	uint64_t value = (uint64_t)out->edx << 32 | out->eax, expected = MEASURED(in->loops);
	const struct msr *select = find_msr(in->ecx);

	if (out->fault)
		return wrong(v, n, out->fault, 0);
	v->model.select[select->i] = 0;
	v->model.enabled[select->i] = false;
	v->model.known[select->i] = true;
	v->model.value[select->i] = value;
	if (!v->counts_known)
		return;
	shared->measured++;
	/* An NMI right before the counter starts, or behind its end, isn't counted. */
	if (value < expected || value > expected + NMI_INSTRUCTIONS * out->nmis ||
	    (value - expected) % NMI_INSTRUCTIONS)
		wrong(v, n, value, expected);
}

static void check_records(struct vcpu *v)
{
	const struct record *done = records_of(v->vm, v->id);

	for (unsigned int n = 0; n < v->nr; n++) {
		const struct record *in = &v->todo[n], *out = &done[n];
		uint64_t value = (uint64_t)out->edx << 32 | out->eax;
		const struct msr *m = find_msr(in->ecx);

		shared->accesses += in->operation <= CPUID || in->operation == USER;
		shared->accesses += in->operation == MEASURE ? 5 : 0;
		shared->faults += !!out->fault;
		if (v->unchecked)
			continue;
		if (in->operation == MEASURE) {
			check_measure(v, n, in, out);
			continue;
		}
		if (out->fault)
			continue;
		switch (in->operation) {
		case WRMSR:
			model_write(&v->model, m, (uint64_t)in->edx << 32 | in->eax);
			break;
		case RDMSR:
			check_value(v, n, m->kind, m->i, value);
			break;
		case RDPMC:
		case USER:
			check_rdpmc(v, n, in->ecx, value);
			break;
		}
	}
}

static void refill(struct vcpu *v)
{
	struct area *a = area_of(v->vm, v->id);

	v->nr = any_records(&v->random, v->id, v->todo);
	memcpy(records_of(v->vm, v->id), v->todo, v->nr * sizeof(*v->todo));
	a->index = 0;
	a->nr = v->nr;
}

/* The vCPU's thread has been interrupted within KVM_RUN, or HLT waits. */
static void interfere(struct vcpu *v)
{
	const struct area *a = area_of(v->vm, v->id);
	unsigned int operation = a->index < v->nr ? v->todo[a->index].operation : LOOP;
	struct vm vm = { .kvm = v->vm->kvm, .fd = v->vm->fd, .vcpu = v->fd, .run = v->run };
	struct kvm_vpmu_vcpu figures = { .fd = vm.fd, .index = v->id };

	if (operation == HALT) {
		IOCTL(v->fd, KVM_NMI, NULL);
		shared->halts++;
	} else if (disturb & SMI && operation != MEASURE && v->id == 0) {
		/* All vCPUs have the same place for their state in SMM: only one goes there. */
		IOCTL(v->fd, KVM_SMI, NULL);
		shared->smis++;
	}
	get_msr(&vm, pmu.counter);
	get_msr(&vm, GLOBAL_CONTROL * (on_intel() || pmu.v2) + pmu.select * !(on_intel() || pmu.v2));
	IOCTL(device, KVM_VPMU_GET_VCPU, &figures);
}

/* Userspace's own accesses, between two lists */
static void access_by_ioctl(struct vcpu *v)
{
	struct vm vm = { .kvm = v->vm->kvm, .fd = v->vm->fd, .vcpu = v->fd, .run = v->run };
	const struct msr *m = &msrs[below(&v->random, 2 * pmu.nr)];
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry;
	} one = { .head.nmsrs = 1, .entry.index = m->number };

	if (m->kind != SELECT && m->kind != COUNTER)
		return;
	if (below(&v->random, 2)) {
		one.entry.data = any_value(&v->random, m);
		if (ioctl(v->fd, KVM_SET_MSRS, &one) == 1)
			model_write(&v->model, m, one.entry.data);
	} else if (!model_read(&v->model, m->kind, m->i, get_msr(&vm, m->number))) {
		printf("# vCPU %u: KVM_GET_MSRS of %#x isn't as expected\n", v->id, m->number);
		shared->wrong++;
	}
}

static void nothing(int signal)
{
	(void)signal;
}

static void restart(timer_t timer)
{
	struct itimerspec often = { { 0, 7000000 }, { 0, 7000000 } };

	if (timer_settime(timer, 0, &often, NULL))
		err(1, "timer_settime");
}

static timer_t start_timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	timer_t timer;

	event._sigev_un._tid = gettid();
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		err(1, "timer_create");
	restart(timer);
	return timer;
}

#define LISTS	10	/* of a VM, from one snapshot to the next */

static void *run_vcpu(void *arg)
{
	timer_t timer = start_timer();
	struct vcpu *v = arg;

	for (unsigned int list = 0; list < LISTS && !shared->end; list++) {
		refill(v);
		for (;;) {
			if (ioctl(v->fd, KVM_RUN, NULL)) {
				if (errno != EINTR && errno != EAGAIN)
					err(1, "KVM_RUN");
				interfere(v);
				/* That takes longer than a period on a slow host, and the guest is to run, too. */
				restart(timer);
				continue;
			}
			if (v->run->exit_reason == KVM_EXIT_INTR)
				continue;
			if (v->run->exit_reason != KVM_EXIT_IO)
				errx(1, "the guest ended with exit reason %u", v->run->exit_reason);
			if (v->run->io.port == 0x10)
				break;
		}
		check_records(v);
		if (!v->unchecked && disturb & IOCTLS)
			access_by_ioctl(v);
	}
	timer_delete(timer);
	return NULL;
}

static void run_vcpus(struct vm *vm, unsigned int nr, struct vcpu *vcpus)
{
	pthread_t threads[MOST_VCPUS];

	for (unsigned int id = 0; id < nr; id++) {
		vcpus[id].vm = vm;
		pthread_create(&threads[id], NULL, run_vcpu, &vcpus[id]);
	}
	for (unsigned int id = 0; id < nr; id++)
		pthread_join(threads[id], NULL);
}

/* ---- snapshots: the same guest in another VM */

#define MOST_SAVED	64

struct state {
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry entry[MOST_SAVED];
	} msrs;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct kvm_lapic_state apic;
	struct kvm_vcpu_events events;
	struct kvm_mp_state mp;
};

static void save_msr(struct state *s, uint32_t number)
{
	if (s->msrs.head.nmsrs == MOST_SAVED)
		errx(1, "too many registers to save");
	s->msrs.entry[s->msrs.head.nmsrs++].index = number;
}

/* Global control comes last, so that nothing counts before. */
static void save(int vcpu, struct state *s)
{
	s->msrs.head.nmsrs = 0;
	for (unsigned int i = 0; i < nr_counters(pmu); i++)
		save_msr(s, counter_msr(pmu, i));
	for (unsigned int i = 0; i < pmu.nr; i++)
		save_msr(s, pmu.select + i * pmu.stride);
	if (pmu.fixed)
		save_msr(s, INTEL_FIXED_CONTROL);
	if (on_intel() || pmu.v2) {
		save_msr(s, GLOBAL_STATUS);
		save_msr(s, GLOBAL_CONTROL);
	}
	IOCTL(vcpu, KVM_GET_MP_STATE, &s->mp);
	IOCTL(vcpu, KVM_GET_REGS, &s->regs);
	IOCTL(vcpu, KVM_GET_SREGS, &s->sregs);
	IOCTL(vcpu, KVM_GET_LAPIC, &s->apic);
	IOCTL(vcpu, KVM_GET_VCPU_EVENTS, &s->events);
	IOCTL(vcpu, KVM_GET_MSRS, &s->msrs);
}

static void restore(int vcpu, struct state *s)
{
	IOCTL(vcpu, KVM_SET_MP_STATE, &s->mp);
	IOCTL(vcpu, KVM_SET_SREGS, &s->sregs);
	IOCTL(vcpu, KVM_SET_REGS, &s->regs);
	IOCTL(vcpu, KVM_SET_LAPIC, &s->apic);
	IOCTL(vcpu, KVM_SET_VCPU_EVENTS, &s->events);
	if (IOCTL(vcpu, KVM_SET_MSRS, &s->msrs) != (int)s->msrs.head.nmsrs)
		errx(1, "a register can't be restored");
}

/* The OUT that the guest is at was emulated, but KVM completes it at the next KVM_RUN. */
static void complete_vcpu(struct vcpu *v)
{
	v->run->immediate_exit = 1;
	if (!ioctl(v->fd, KVM_RUN, NULL) || errno != EINTR)
		errx(1, "KVM_RUN with immediate_exit");
	v->run->immediate_exit = 0;
}

static void snapshot(struct vm *vm, struct vcpu *vcpus)
{
	static struct state states[MOST_VCPUS];
	struct vcpu fresh[MOST_VCPUS] = { };
	struct vm other;

	for (unsigned int id = 0; id < nr_vcpus; id++) {
		complete_vcpu(&vcpus[id]);
		save(vcpus[id].fd, &states[id]);
	}
	other = make_hostile(nr_vcpus, fresh, vm->memory);
	for (unsigned int id = 0; id < nr_vcpus; id++)
		restore(fresh[id].fd, &states[id]);
	end_hostile(vm, nr_vcpus, vcpus);
	for (unsigned int id = 0; id < nr_vcpus; id++) {
		vcpus[id].fd = fresh[id].fd;
		vcpus[id].run = fresh[id].run;
	}
	*vm = other;
	shared->snapshots++;
}

static void set_any_filter(int vm, struct random *r)
{
	struct {
		struct kvm_pmu_event_filter head;
		uint64_t events[4];
	} f = { .head = { .action = below(r, 2) ? KVM_PMU_EVENT_ALLOW : KVM_PMU_EVENT_DENY,
			  .nevents = below(r, 4), .fixed_counter_bitmap = below(r, 16) } };
	static const uint64_t events[] = { 0xc0, 0xc2, 0xc4, 0x76, 0x3c };

	for (unsigned int i = 0; i < 4; i++)
		f.events[i] = events[below(r, 5)];
	IOCTL(vm, KVM_SET_PMU_EVENT_FILTER, &f);
}

static void set_no_filter(int vm)
{
	struct kvm_pmu_event_filter f = { .action = KVM_PMU_EVENT_DENY };

	IOCTL(vm, KVM_SET_PMU_EVENT_FILTER, &f);
}

/* The VM that is checked, until it has made as many accesses */
static void checked(void)
{
	uint8_t *memory = make_memory();
	struct random r = seeded(seed, 0);
	static struct vcpu vcpus[MOST_VCPUS];
	time_t start = time(NULL);
	uint64_t tenths = 0;
	struct vm vm = make_hostile(nr_vcpus, vcpus, memory);

	for (unsigned int id = 0; id < nr_vcpus; id++) {
		vm.vcpu = vcpus[id].fd;
		start_vcpu(&vm, id, vcpus[id].run);
		vcpus[id].random = seeded(seed, 1 + id);
		vcpus[id].model = reset_model();
	}
	while (shared->accesses < wanted && time(NULL) < start + seconds && !shared->wrong) {
		bool filtered = disturb & FILTERS && !below(&r, 4);

		if (filtered)
			set_any_filter(vm.fd, &r);
		for (unsigned int id = 0; id < nr_vcpus; id++)
			vcpus[id].counts_known = !filtered;
		run_vcpus(&vm, nr_vcpus, vcpus);
		if (filtered)
			set_no_filter(vm.fd);
		if (disturb & SNAPSHOTS && !below(&r, 2))
			snapshot(&vm, vcpus);
		/* A million takes long. */
		if (shared->accesses * 10 / wanted > tenths) {
			tenths = shared->accesses * 10 / wanted;
			printf("# %llu accesses, %lld s\n", shared->accesses, (long long)(time(NULL) - start));
			fflush(stdout);
		}
	}
	end_hostile(&vm, nr_vcpus, vcpus);
	munmap(memory, SIZE);
}

/* ---- disturbances, each a process of its own */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Longer if the work since the last pause took long: guests are to run, too, on a slow host. */
static void pause_ms(unsigned int ms)
{
	static uint64_t awake;
	uint64_t worked = awake ? now_ns() - awake : 0, ns = ms * 1000000ull;
	struct timespec t;

	if (ns < 8 * worked)
		ns = 8 * worked;
	t = (struct timespec){ ns / 1000000000, ns % 1000000000 };
	nanosleep(&t, NULL);
	awake = now_ns();
}

static void put_word(const char *path, const char *word)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, word, strlen(word)) > 0)
		shared->settings++;
	close(fd);
}

/* Another VM, which does the same, in any mode, and is killed */
static void be_other(struct random r)
{
	static struct vcpu vcpus[MOST_VCPUS];
	unsigned int nr = 1 + below(&r, 2);
	uint8_t *memory = make_memory();
	struct vm vm = make_hostile(nr, vcpus, memory);

	for (unsigned int id = 0; id < nr; id++) {
		vm.vcpu = vcpus[id].fd;
		start_vcpu(&vm, id, vcpus[id].run);
		vcpus[id].random = seeded(any(&r), id);
		vcpus[id].unchecked = true;
	}
	for (;;) {
		choose_freeze(vm.fd, below(&r, 3));
		set_any_filter(vm.fd, &r);
		run_vcpus(&vm, nr, vcpus);
	}
}

static void run_others(struct random r)
{
	while (!shared->end) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			be_other(r);
		}
		any(&r);
		pause_ms(20 + below(&r, 2000));
		pthread_mutex_lock(&shared->vms_stay);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pthread_mutex_unlock(&shared->vms_stay);
		shared->others++;
	}
}

static void run_perf(struct random r)
{
	unsigned int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int events[8];

	memset(events, -1, sizeof(events));
	while (!shared->end) {
		int *fd = &events[below(&r, 8)];
		struct perf_event_attr attr = {
			.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = below(&r, 2),
			.pinned = below(&r, 2), .exclude_guest = below(&r, 2), .exclude_kernel = below(&r, 2),
			.sample_period = below(&r, 2) ? 10000 + below(&r, 100000) : 0,
		};

		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		if (below(&r, 3)) {
			*fd = syscall(SYS_perf_event_open, &attr, -1, below(&r, cpus), -1, PERF_FLAG_FD_CLOEXEC);
			shared->perf_events += *fd >= 0;
		}
		pause_ms(1 + below(&r, 30));
	}
}

static const unsigned long requests[] = {
	KVM_VPMU_GET_INFO, KVM_VPMU_GET_VMS, KVM_VPMU_SET, KVM_VPMU_GET_VCPU, KVM_VPMU_GET_VM, KVM_VPMU_ATTACH,
	KVM_VPMU_GET_EVENTS, KVM_VPMU_PROFILE, KVM_VPMU_PROBE,
};

/* Return: a file, or -1.  The VM may be 0, for all. */
static int open_profile(struct random *r, int device, uint64_t vm)
{
	struct kvm_vpmu_profile p = {
		.flags = 1 + below(r, 63), .period = 20000 + below(r, 1000000), .vm = vm, .fd = -1,
		.cpu = below(r, sysconf(_SC_NPROCESSORS_ONLN)), .records = KVM_VPMU_PROFILE_MIN_RECORDS,
		.config = below(r, 2) ? PERF_COUNT_HW_INSTRUCTIONS : PERF_COUNT_HW_CPU_CYCLES,
	};

	if (p.flags & KVM_VPMU_PROFILE_FREQUENCY)
		p.period = 1 + below(r, 2000);
	if (!(p.flags & KVM_VPMU_PROFILE_SAMPLES)) {
		p.config = p.period = 0;
		p.flags &= ~KVM_VPMU_PROFILE_STACKS;
	}
	if (!(p.flags & KVM_VPMU_PROFILE_STACKS))
		p.flags &= ~KVM_VPMU_PROFILE_WORDS;
	return ioctl(device, KVM_VPMU_PROFILE, &p);
}

/* The ring's head, as anybody could write it; records are overwritten only when read. */
static void use_profile(struct random *r, int profile)
{
	size_t size = profile_size(KVM_VPMU_PROFILE_MIN_RECORDS);
	struct kvm_vpmu_ring *ring;

	ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, profile, 0);
	if (ring == MAP_FAILED)
		return;
	ring->tail = below(r, 2) ? ring->head : any(r);
	if (below(r, 2))
		ring->head = any(r);
	munmap(ring, size);
}

/* Some windows of a VM's vCPUs, whole or not */
static void use_probe(struct random *r, int device, uint64_t vm)
{
	struct kvm_vpmu_probe p = {
		.vm = vm, .fd = -1, .nr = 1 + below(r, 4), .events = 1 + below(r, 2),
		.config = { PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
		.period = 1000 + below(r, 1000000), .pages = KVM_VPMU_PROBE_PAGES,
	};
	int probe = ioctl(device, KVM_VPMU_PROBE, &p);

	if (probe < 0)
		return;
	for (unsigned int i = below(r, 5); i; i--) {
		uint32_t timeout = below(r, 10);

		shared->windows += ioctl(probe, KVM_VPMU_PROBE_WINDOW, &timeout) > 0;
	}
	close(probe);
}

/* No VM is named by a descriptor here, and freeze modes are changed between those that count the same. */
static void run_device(struct random r)
{
	while (!shared->end) {
		unsigned char garbage[2048];
		struct kvm_vpmu_settings s = {
			.id = 1 + below(&r, 50), .fd = -1, .fields = KVM_VPMU_SET_FREEZE | KVM_VPMU_SET_TSC,
			.freeze = below(&r, 2), .tsc = below(&r, 2),
		};
		struct kvm_vpmu_events e = { .flags = KVM_VPMU_EVENTS_OBSERVE };
		struct kvm_vpmu_vcpu v = { .vm = s.id, .index = below(&r, 3) };
		struct kvm_vpmu_vm all[4];
		struct kvm_vpmu_vms list = { .vms = (uintptr_t)all, .room = 4 };
		int fd = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
		unsigned long request = requests[below(&r, sizeof(requests) / sizeof(*requests))];
		int profile = -1;

		/* Settings of random VMs: none with garbage, which might be a mode that counts otherwise. */
		for (unsigned int i = 0; i < sizeof(garbage); i++)
			garbage[i] = any(&r) & any(&r) & any(&r);
		if (request == KVM_VPMU_PROFILE)
			profile = ioctl(fd, request, garbage);
		else if (request == KVM_VPMU_PROBE)
			close(ioctl(fd, request, garbage));
		else if (request != KVM_VPMU_SET)
			ioctl(fd, request, garbage);
		ioctl(fd, any(&r), garbage);
		ioctl(fd, request, (void *)any(&r));
		if (!ioctl(fd, KVM_VPMU_GET_VMS, &list) && list.count)
			s.id = v.vm = e.vm = all[below(&r, list.count < 4 ? list.count : 4)].id;
		ioctl(fd, KVM_VPMU_SET, &s);
		ioctl(fd, KVM_VPMU_GET_VCPU, &v);
		/* The VM is observed until the file is closed. */
		ioctl(fd, KVM_VPMU_GET_EVENTS, &e);
		if (profile < 0)
			profile = open_profile(&r, fd, below(&r, 2) ? e.vm : 0);
		use_probe(&r, fd, e.vm);
		pause_ms(1 + below(&r, 5));
		close(fd);
		if (profile >= 0) {
			use_profile(&r, profile);
			pause_ms(below(&r, 5));
			close(profile);
		}
		shared->requests += 8;
	}
}

static void run_parameters(struct random r)
{
	/* Not "vcpu", as the honest guest's count would be another one */
	static const char *const freeze[] = { "hybrid", "guest", "nothing" };
	static const char *const tsc[] = { "wall", "vcpu", "" };
	static const char *const attach[] = { "auto", "explicit", "3" };

	while (!shared->end) {
		put_word("/sys/module/kvm_vpmu/parameters/freeze", freeze[below(&r, 3)]);
		put_word("/sys/module/kvm_vpmu/parameters/tsc", tsc[below(&r, 3)]);
		put_word("/sys/module/kvm_vpmu/parameters/attach", attach[below(&r, 3)]);
		/* The host's NMI watchdog takes its counters, and gives them back. */
		put_word("/proc/sys/kernel/nmi_watchdog", below(&r, 2) ? "1" : "0");
		pause_ms(10 + below(&r, 300));
	}
	put_word("/sys/module/kvm_vpmu/parameters/freeze", "hybrid");
	put_word("/sys/module/kvm_vpmu/parameters/tsc", "wall");
	put_word("/sys/module/kvm_vpmu/parameters/attach", "auto");
}

static void run_hotplug(struct random r)
{
	static const char cpu1[] = "/sys/devices/system/cpu/cpu1/online";

	while (!shared->end && !access(cpu1, W_OK)) {
		pause_ms(300 + below(&r, 2000));
		put_word(cpu1, "0");
		pause_ms(below(&r, 300));
		pthread_mutex_lock(&shared->vms_stay);
		put_word(cpu1, "1");
		pthread_mutex_unlock(&shared->vms_stay);
		shared->plugged++;
	}
}

static const struct {
	unsigned int bit;
	void (*run)(struct random r);
} disturbers[] = {
	{ PERF, run_perf }, { OTHERS, run_others }, { DEVICE, run_device }, { PARAMETERS, run_parameters },
	{ HOTPLUG, run_hotplug },
};

#define NR_DISTURBERS	(sizeof(disturbers) / sizeof(*disturbers))

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 's':
		seed = strtoull(arg, NULL, 0);
		return 0;
	case 'a':
		wanted = strtoull(arg, NULL, 0);
		return 0;
	case 'v':
		nr_vcpus = atoi(arg);
		if (nr_vcpus < 1 || nr_vcpus > MOST_VCPUS)
			argp_error(state, "1 to %u vCPUs", MOST_VCPUS);
		return 0;
	case 't':
		seconds = atoi(arg);
		return 0;
	case 'd':
		disturb = 0;
		for (char *word = strtok(arg, ","); word; word = strtok(NULL, ",")) {
			unsigned int i = 0;

			while (i < NR_DISTURBANCES && strcmp(word, disturbances[i]))
				i++;
			if (i == NR_DISTURBANCES && strcmp(word, "none"))
				argp_error(state, "no disturbance '%s'", word);
			disturb |= i < NR_DISTURBANCES ? 1u << i : 0;
		}
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "seed", 's', "SEED", 0, "of all that is random (1)", 0 },
		{ "accesses", 'a', "N", 0, "how many accesses (100000)", 0 },
		{ "vcpus", 'v', "V", 0, "how many vCPUs (2)", 0 },
		{ "seconds", 't', "S", 0, "end after so long (600)", 0 },
		{ "disturb", 'd', "WORD,...", 0,
		  "perf, others, device, parameters, hotplug, filters, snapshots, ioctls, smi (all), or none", 0 },
		{ }
	};
	static const struct argp argp = { options, parse, NULL, "A hostile guest", NULL, NULL, NULL };
	pid_t pids[NR_DISTURBERS] = { };
	pthread_mutexattr_t of_processes;
	struct vm vm;
	time_t start = time(NULL);

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	signal(SIGUSR1, nothing);
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		err(1, "mmap");
	pthread_mutexattr_init(&of_processes);
	pthread_mutexattr_setpshared(&of_processes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->vms_stay, &of_processes);
	vm = make_vm_attached(0, device);
	pmu = pmu_of(&vm);
	free_vm(&vm);
	find_msrs();
	printf("# seed %llu\n", (unsigned long long)seed);
	fflush(stdout);

	for (unsigned int i = 0; i < NR_DISTURBERS; i++) {
		if (!(disturb & disturbers[i].bit))
			continue;
		pids[i] = fork();
		if (pids[i] < 0)
			err(1, "fork");
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGTERM);
			disturbers[i].run(seeded(seed, 1000 + i));
			_exit(0);
		}
	}
	checked();
	shared->end = true;
	for (unsigned int i = 0; i < NR_DISTURBERS; i++)
		if (pids[i])
			waitpid(pids[i], NULL, 0);

	printf("# %llu accesses, %llu of them faults, in %lld s; %llu values compared, %llu loops measured\n",
	       shared->accesses, shared->faults, (long long)(time(NULL) - start), shared->compared,
	       shared->measured);
	printf("# %llu SMIs, %llu HLTs, %llu snapshots; %llu VMs killed, %llu events of perf, %llu requests, %llu windows of probes, %llu settings, %llu CPUs offline\n",
	       shared->smis, shared->halts, shared->snapshots, shared->others, shared->perf_events,
	       shared->requests, shared->windows, shared->settings, shared->plugged);
	is(shared->wrong, 0, "values that are wrong");
	check(shared->accesses >= wanted, "%llu accesses", (unsigned long long)wanted);
	check(shared->compared && shared->measured, "values were compared, and loops measured");
	return finish();
}
