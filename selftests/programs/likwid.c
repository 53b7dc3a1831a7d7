// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A loop between likwid's marks, for likwid-perfctr -m:
 *
 *	likwid COUNT
 */
#include <stdlib.h>

#define LIKWID_PERFMON
#include <likwid-marker.h>

/* nop, dec, jnz: 3 instructions and 1 branch each time */
static void loop(unsigned long n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tnop\n\tdec %0\n\tjnz 1b\n2:" : "+r"(n) : : "cc");
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;

	LIKWID_MARKER_INIT;
	LIKWID_MARKER_REGISTER("loop");
	LIKWID_MARKER_START("loop");
	loop(n);
	LIKWID_MARKER_STOP("loop");
	LIKWID_MARKER_CLOSE;
	return 0;
}
