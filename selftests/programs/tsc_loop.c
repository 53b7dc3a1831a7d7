// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Works for a while, in a guest, and tells how far the TSC went meanwhile:
 *
 *	tsc_loop ID ROUNDS
 *
 * prints "ID TICKS". CPUID with a leaf of its own (and ID, and 0 or 1) before
 * and after lets the host see when that was: the last one of each counts.
 */
#include <stdio.h>
#include <stdlib.h>

#define LEAF	0x4b56504d
#define SOON	1000000		/* ticks, of some 20000 that a CPUID takes */

/* Again, if this program had to wait for the CPU between the CPUID and the TSC */
static unsigned long long mark(unsigned int id, unsigned int end)
{
	unsigned long long before, after;
	int tries = 100;

	do {
		unsigned int a = LEAF, b, c = 2 * id + end, d;

		before = __builtin_ia32_rdtsc();
		asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
		after = __builtin_ia32_rdtsc();
	} while (after - before > SOON && --tries);
	return after;
}

int main(int argc, char **argv)
{
	unsigned int id = argc > 1 ? atoi(argv[1]) : 0;
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 1000;
	unsigned long long start, ticks;

	start = mark(id, 0);
	asm volatile("1:\tdec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
	/* The TSC comes after the mark, here as above. */
	ticks = mark(id, 1) - start;
	printf("%u %llu\n", id, ticks);
	return 0;
}
