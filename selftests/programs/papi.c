// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counts a loop of its own with PAPI, in user mode:
 *
 *	papi COUNT
 *
 * prints instructions, branches, and the same as read while the counters go on (which PAPI
 * does by RDPMC).
 */
#include <err.h>
#include <papi.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call)								\
	do {									\
		int result = call;						\
		if (result != PAPI_OK)						\
			errx(1, "%s: %s", #call, PAPI_strerror(result));	\
	} while (0)

/* nop, dec, jnz: 3 instructions and 1 branch each time */
static void loop(unsigned long n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tnop\n\tdec %0\n\tjnz 1b\n2:" : "+r"(n) : : "cc");
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	long long stopped[2], before[2], after[2];
	int set = PAPI_NULL;

	if (PAPI_library_init(PAPI_VER_CURRENT) != PAPI_VER_CURRENT)
		errx(1, "PAPI_library_init");
	OK(PAPI_create_eventset(&set));
	OK(PAPI_add_named_event(set, "PAPI_TOT_INS"));
	OK(PAPI_add_named_event(set, "PAPI_BR_INS"));

	OK(PAPI_start(set));
	loop(n);
	OK(PAPI_stop(set, stopped));

	OK(PAPI_start(set));
	OK(PAPI_read(set, before));
	OK(PAPI_read(set, before));
	loop(n);
	OK(PAPI_read(set, after));
	OK(PAPI_stop(set, NULL));

	printf("%lld %lld %lld %lld\n", stopped[0], stopped[1], after[0] - before[0], after[1] - before[1]);
	return 0;
}
