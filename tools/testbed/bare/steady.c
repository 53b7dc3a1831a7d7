// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A machine that counts for ever, and sees by itself if a count is wrong: each round executes the
 * same instructions, so counters advance by the same numbers, and by those of the interrupt handler
 * for each overflow. Nothing here knows when a hypervisor stops it, or where it goes on.
 *
 * Prints a dot for each round, and a line for each wrong one. With "short" on the command line it is a
 * test like the others, and ends.
 */
#include "pmu.h"

#define LOOP		100000
#define PERIOD		43019
#define LEARN		32	/* rounds */
#define NR		2	/* counters of each round: instructions, branches */
#define SHORT		1000	/* rounds */

static volatile u64 pmis;

static bool on_pmi(struct regs *r)
{
	wrmsr(ctr_msr(NR), (read_pmc(NR) - PERIOD) & CTR_MASK);
	if (pmu.v2)
		wrmsr(MSR_GLOBAL_CLR, BIT(NR));
	pmis++;
	apic_write(APIC_EOI, 0);
	return true;
}

struct round {
	u64 count[NR], pmis;
	int64_t since;		/* since the last overflow, below 0 until the next one */
};

/* Interrupts are off: a round's end is one moment. */
static void end_round(struct round *r)
{
	for (int i = 0; i < NR; i++)
		r->count[i] = read_pmc(i);
	r->since = (int64_t)(read_pmc(NR) << 16) >> 16;
	r->pmis = pmis;
}

static void do_round(struct round *r)
{
	u64 n = LOOP;

	outb(0xe9, '.');
	asm volatile("sti\n1:	dec %0\n	jnz 1b\n	cli" : "+r"(n) : : "cc", "memory");
	end_round(r);
}

/* What a round takes without interrupts, and what each of these adds */
static struct { u64 plain[NR], handler[NR]; } want;

static void get_difference(const struct round *last, const struct round *now, struct round *d)
{
	for (int i = 0; i < NR; i++)
		d->count[i] = now->count[i] - last->count[i];
	d->pmis = now->pmis - last->pmis;
	d->since = now->since;
}

/* Whatever the answer is, it takes the same instructions: no branch here, and not inlined. */
__attribute__((noipa))
static bool is_wrong(const struct round *d, u64 relevant)
{
	u64 wrong = (u64)(d->since + PERIOD) > PERIOD + 1000;

	for (int i = 0; i < NR; i++)
		wrong |= d->count[i] ^ (want.plain[i] + d->pmis * want.handler[i]);
	return (wrong != 0) & relevant;
}

/* Rounds of which some have one interrupt more than others say what each takes. */
static void learn(const struct round *d)
{
	const struct round *few = d, *many = d;

	for (int i = 0; i < LEARN; i++) {
		if (d[i].pmis < few->pmis)
			few = &d[i];
		if (d[i].pmis > many->pmis)
			many = &d[i];
	}
	if (few->pmis == many->pmis)
		t_bail("all rounds have %lu interrupts", few->pmis);
	for (int i = 0; i < NR; i++) {
		want.handler[i] = (many->count[i] - few->count[i]) / (many->pmis - few->pmis);
		want.plain[i] = few->count[i] - few->pmis * want.handler[i];
	}
	print("\n# each round %lu instructions, %lu branches; each interrupt %lu, %lu\n",
	      want.plain[0], want.plain[1], want.handler[0], want.handler[1]);
	if (want.plain[0] < 2 * LOOP || want.plain[0] > 2 * LOOP + 200 ||
	    want.plain[1] < LOOP || want.plain[1] > LOOP + 50 ||
	    want.handler[0] < 30 || want.handler[0] > 200)
		t_bail("that can't be");
}

static void complain(u64 n, const struct round *d)
{
	print("\nwrong: round %lu: %lu interrupts, counter at %s%lu\n", n, d->pmis,
	      d->since < 0 ? "-" : "", d->since < 0 ? -d->since : d->since);
	for (int i = 0; i < NR; i++)
		print("wrong: round %lu: %lu %s, expected %lu\n", n, d->count[i], ev_name[i],
		      want.plain[i] + d->pmis * want.handler[i]);
}

void steady(void)
{
	static struct round first[LEARN];
	struct round r[2], d;
	u64 end = cmdline_has("short") ? SHORT : ~0ull, wrong = 0;
	u64 settled = 4 * LEARN;	/* from that round on */

	pmu_reset();
	handlers[VEC_STEADY] = on_pmi;
	apic_write(APIC_LVTPC, VEC_STEADY);
	wrmsr(ctr_msr(NR), NEG(PERIOD));
	wrmsr(ctl_msr(0), EV_INSN | CTL_OS | CTL_EN);
	wrmsr(ctl_msr(1), EV_BRANCH | CTL_OS | CTL_EN);
	wrmsr(ctl_msr(NR), EV_INSN | CTL_OS | CTL_INT | CTL_EN);

	do_round(&r[0]);
	for (u64 n = 1; n < end; n++) {
		struct round *last = &r[~n & 1], *now = &r[n & 1];

		do_round(now);
		get_difference(last, now, &d);
		first[n % LEARN] = d;
		/* What is printed is part of the next round. */
		if (is_wrong(&d, n >= settled)) {
			complain(n, &d);
			settled = n + 2;
			wrong++;
		}
		if (n == 2 * LEARN)
			learn(first);
	}
	pmu_reset();
	handlers[VEC_STEADY] = NULL;
	print("\n");
	if (t_begin("steady")) {
		check_eq(wrong, 0, "wrong rounds");
		t_end();
	}
}
