// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Spends 80 % of its cycles in one function and 20 % in another:
 *
 *	profile ROUNDS
 *
 * Both run the same loop, the one four times as long as the other.
 */
#include <stdlib.h>

#define UNIT	2000UL

static inline __attribute__((always_inline)) void spin(unsigned long n)
{
	asm volatile("1:\tnop\n\tdec %0\n\tjnz 1b" : "+r"(n) : : "cc");
}

__attribute__((noinline)) void eighty(void)
{
	spin(4 * UNIT);
}

__attribute__((noinline)) void twenty(void)
{
	spin(UNIT);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;

	while (rounds--) {
		eighty();
		twenty();
	}
	return 0;
}
