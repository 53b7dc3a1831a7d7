// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Calls a function from itself, and spends nearly all of its time at the end of that:
 *
 *	recursive DEPTH ROUNDS
 *
 * main() calls down(), which calls itself DEPTH - 1 times, and then spin().  All have frames.
 */
#include <stdlib.h>

__attribute__((noinline)) static void spin(void)
{
	unsigned long n = 100000;
	volatile char local;

	/* GCC leaves out the frame of a function that doesn't use the stack. */
	local = 0;
	(void)local;
	asm volatile("1:\tnop\n\tdec %0\n\tjnz 1b" : "+r"(n) : : "cc");
}

__attribute__((noinline)) static void down(unsigned long depth)
{
	if (depth > 1)
		down(depth - 1);
	else
		spin();
	/* No jump, but a call */
	asm volatile("" : : : "memory");
}

int main(int argc, char **argv)
{
	unsigned long depth = argc > 1 ? strtoul(argv[1], NULL, 0) : 50;
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 1000;

	while (rounds--)
		down(depth);
	return 0;
}
