// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A machine of two sockets with two CPUs each, whose memory takes time: docs/emulated-pmu-intel.md,
 * "Several sockets".  CPUs 0 and 1 are on one, 2 and 3 on the other.
 */
#include "pmu.h"

#define MSR_SOCKETS		0xc0de0200
#define MSR_TOTAL(source)	(0xc0de0210 + (source))

/* Where lines come from, and the cycles of all */
enum {
	PRIVATE, UPGRADE, LLC, MODIFIED, REMOTE, REMOTE_MODIFIED, MEMORY, REMOTE_MEMORY,
	NR_SOURCES, STALLS = NR_SOURCES,
};

static const char *const source_name[] = {
	"private", "upgrade", "LLC", "modified", "remote", "remote modified", "memory",
	"remote memory",
};

#define LINE	64
/* Not one line after the other, which would be a stream */
#define STRIDE	(2 * LINE)
#define LINES	8

static u8 area[512 * 1024] __attribute__((aligned(8192)));

/* An instruction that loads, stores, or does both */
enum use { LOAD, STORE, INC };

/*
 * touch(first, lines, stride, use): instructions of a turn are 8 at most, and none of them but one
 * accesses memory.
 */
asm(".balign 16\n"
    "touch:\n"
    "1:	cmp $1, %ecx\n"
    "	je 2f\n"
    "	ja 3f\n"
    "	mov (%rdi), %eax\n"
    "	jmp 4f\n"
    "2:	mov %eax, (%rdi)\n"
    "	jmp 4f\n"
    "3:	incl (%rdi)\n"
    "4:	add %rdx, %rdi\n"
    "	dec %rsi\n"
    "	jnz 1b\n"
    "	ret\n");
void touch(void *first, u64 lines, u64 stride, enum use use);

/* Loads, between two looks at one total: returns by how much that has grown. */
asm(".balign 16\n"
    "touch_total:\n"
    "	mov %rdx, %r10\n"
    "	rdmsr\n"
    "	mov %eax, %r11d\n"
    "1:	mov (%rdi), %eax\n"
    "	add %r10, %rdi\n"
    "	dec %rsi\n"
    "	jnz 1b\n"
    "	rdmsr\n"
    "	sub %r11d, %eax\n"
    "	ret\n");
u32 touch_total(void *first, u64 lines, u64 stride, u32 msr);

/* What a CPU does, and what is expected of that: so many lines from one source */
struct step {
	const char *name;
	int cpu;
	enum use use;
	int page;
	u64 source, cycles;
};

/* Loads by source: MEM_LOAD_RETIRED.L3_HIT, .L3_MISS, MEM_LOAD_L3_HIT_RETIRED.XSNP_HITM; others below */
static const u16 selects[] = { 0x04d1, 0x20d1, 0x04d2 };

static u16 select_of(u64 source)
{
	switch (source) {
	case MEMORY:
		return 0x01d3;
	case REMOTE_MEMORY:
		return 0x02d3;
	case REMOTE_MODIFIED:
		return 0x04d3;
	default:
		return 0x08d3;
	}
}

static void check_events(const struct step *s, const u64 *count)
{
	bool load = s->use != STORE, hit = s->source == LLC || s->source == MODIFIED, miss = s->source >= REMOTE;

	check_eq(count[0], load && hit ? LINES : 0, "%s: L3_HIT", s->name);
	check_eq(count[1], load && miss ? LINES : 0, "%s: L3_MISS", s->name);
	check_eq(count[2], load && s->source == MODIFIED ? LINES : 0, "%s: XSNP_HITM", s->name);
	check_eq(count[3], load && miss ? LINES : 0, "%s: event %x", s->name, select_of(s->source));
}

static void do_step(void *arg)
{
	const struct step *s = arg;
	u64 before[NR_SOURCES + 1], after[NR_SOURCES + 1], count[4];
	u8 *first = area + 4096 * s->page;
	enum use use = s->use;

	for (int i = 0; i < 4; i++) {
		wrmsr(ctr_msr(i), 0);
		wrmsr(ctl_msr(i), (i < 3 ? selects[i] : select_of(s->source)) | CTL_OS | CTL_EN);
	}
	/* The stack is in the private cache behind the first time. */
	for (int look = 0; look < 2; look++) {
		for (int i = 0; i <= NR_SOURCES; i++)
			before[i] = rdmsr(MSR_TOTAL(i));
		for (int i = 0; i < 4; i++)
			count[i] = rdmsr(ctr_msr(i));
		if (look)
			touch(first, LINES, STRIDE, use);
		for (int i = 0; i <= NR_SOURCES; i++)
			after[i] = rdmsr(MSR_TOTAL(i));
		for (int i = 0; i < 4; i++)
			count[i] = rdmsr(ctr_msr(i)) - count[i];
	}
	for (int i = PRIVATE + 1; i < NR_SOURCES; i++)
		check_eq(after[i] - before[i], i == (int)s->source ? LINES : 0, "%s: %s", s->name,
			 source_name[i]);
	check_eq(after[STALLS] - before[STALLS], LINES * s->cycles, "%s: cycles", s->name);
	check_events(s, count);
	pmu_reset();
}

static void steps(void)
{
	static const struct step steps[] = {
		{ "own memory", 0, LOAD, 0, MEMORY, 150 },
		{ "memory of the other socket", 0, LOAD, 1, REMOTE_MEMORY, 250 },
		{ "again", 0, LOAD, 0, PRIVATE, 0 },
		{ "a neighbour's", 1, LOAD, 0, LLC, 40 },
		{ "from the other socket", 2, LOAD, 0, REMOTE, 250 },
		{ "store: others have copies", 0, STORE, 0, UPGRADE, 250 },
		{ "store: nobody has", 0, STORE, 0, PRIVATE, 0 },
		{ "modified by a neighbour", 1, LOAD, 0, MODIFIED, 60 },
		{ "store: a neighbour has a copy", 0, STORE, 0, UPGRADE, 40 },
		{ "modified on the other socket", 2, LOAD, 0, REMOTE_MODIFIED, 250 },
		{ "store: a neighbour has a copy, and the other socket", 3, STORE, 0, LLC, 250 },
		{ "store: modified by a neighbour", 2, STORE, 0, MODIFIED, 60 },
		{ "store: modified on the other socket", 1, STORE, 0, REMOTE_MODIFIED, 250 },
		{ "INC: modified on the other socket", 3, INC, 0, REMOTE_MODIFIED, 250 },
		{ "INC: modified by a neighbour", 2, INC, 0, MODIFIED, 60 },
		{ "store: memory", 3, STORE, 3, MEMORY, 150 },
		{ "store: memory of the other socket", 3, STORE, 2, REMOTE_MEMORY, 250 },
	};

	if (!t_begin("sockets/sources"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (steps[i].cpu)
			smp_run_on(steps[i].cpu, do_step, (void *)&steps[i]);
		else
			do_step((void *)&steps[i]);
	}
	t_end();
}

/* More than the private cache has, and less than the LLC */
static void capacity(void)
{
	u64 lines = 2048;

	if (!t_begin("sockets/capacity"))
		return;
	touch(area + 64 * 1024, lines, LINE, LOAD);
	check_eq(touch_total(area + 64 * 1024, lines, LINE, MSR_TOTAL(LLC)), lines,
		 "twice the private cache: from the LLC");
	check_eq(touch_total(area + 64 * 1024, lines, LINE, MSR_TOTAL(STALLS)), 40 * lines,
		 "twice the private cache: cycles");
	/* Of each set all but what was used first stay, as the stack is somewhere, too. */
	touch(area + 64 * 1024, 1024, LINE, LOAD);
	check_eq(touch_total(area + 64 * 1024 + 128 * LINE, 1024 - 128, LINE, MSR_TOTAL(STALLS)),
		 0, "what fits the private cache");
	t_end();
}

/* The port takes 60 cycles for a line, which a stream of a few instructions waits for. */
static void stream(void)
{
	u64 before, cycles, n = 1000;

	if (!t_begin("sockets/stream"))
		return;
	wrmsr(MSR_SOCKETS, 1);
	before = rdtsc();
	touch(area + 256 * 1024, n, LINE, LOAD);
	cycles = rdtsc() - before;
	check(cycles > 60 * n && cycles < 60 * n + 1000, "a stream: %lu cycles", cycles);
	t_end();
}

TESTS(sockets_tests)
{
	u64 value;

	/* QEMU's unknown registers read as 0. */
	if (!pmu.intel || nr_cpus != 4 || rdmsr_safe(MSR_SOCKETS, &value) != NO_FAULT)
		return;
	if (t_begin("sockets/registers")) {
		check_eq(value, 0, "off behind a reset");
		check(wrmsr_safe(MSR_SOCKETS, 2) != NO_FAULT, "2 is refused");
		check(wrmsr_safe(MSR_TOTAL(0), 0) != NO_FAULT, "totals are read only");
		check(rdmsr_safe(MSR_SOCKETS + 1, &value) != NO_FAULT, "nothing behind");
		check_eq(wrmsr_safe(MSR_SOCKETS, 1), NO_FAULT, "on");
		check_eq(rdmsr(MSR_SOCKETS), 1, "reads as on");
		t_end();
	}
	wrmsr(MSR_SOCKETS, 1);
	steps();
	capacity();
	stream();
	wrmsr(MSR_SOCKETS, 0);
}
