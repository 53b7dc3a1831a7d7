// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Works for a while, in a guest, and tells how far the TSC went meanwhile:
 *
 *	clocked ID ROUNDS
 *
 * prints "ID TICKS". CPUID with a leaf of its own (and ID, and 0 or 1) before
 * and after lets the host see when that was.
 */
#include <stdio.h>
#include <stdlib.h>

#define LEAF	0x4b56504d

static unsigned long long mark(unsigned int id, unsigned int end)
{
	unsigned int a = LEAF, b, c = 2 * id + end, d;

	asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d) : : "memory");
	return __builtin_ia32_rdtsc();
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
