/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TAP output for tests in C, as kselftest users know it: check() and skip()
 * print a line each, finish() the plan.
 */
#ifndef SELFTESTS_TAP_H
#define SELFTESTS_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Documentation/dev-tools/kselftest.rst: the exit status of a test that didn't run */
#define TAP_SKIPPED	4

static int tap_tests, tap_failed, tap_skips;

__attribute__((constructor))
static void tap_start(void)
{
	puts("TAP version 13");
	fflush(stdout);
}

static inline void tap_line(const char *result, const char *directive, const char *format,
			    va_list args)
{
	printf("%s %d - ", result, ++tap_tests);
	vprintf(format, args);
	puts(directive);
	fflush(stdout);
}

__attribute__((format(printf, 2, 3)))
static inline bool check(bool good, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tap_line(good ? "ok" : "not ok", "", format, args);
	va_end(args);
	tap_failed += !good;
	return good;
}

/* The reason goes behind the name. */
__attribute__((format(printf, 2, 3)))
static inline void skip(const char *reason, const char *format, ...)
{
	char directive[200];
	va_list args;

	snprintf(directive, sizeof(directive), " # SKIP %s", reason);
	va_start(args, format);
	tap_line("ok", directive, format, args);
	va_end(args);
	tap_skips++;
}

__attribute__((format(printf, 3, 4)))
static inline bool is(uint64_t got, uint64_t wanted, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tap_line(got == wanted ? "ok" : "not ok", "", format, args);
	va_end(args);
	tap_failed += got != wanted;
	if (got != wanted)
		printf("# got %lld (%#llx), expected %lld (%#llx)\n", (long long)got,
		       (unsigned long long)got, (long long)wanted, (unsigned long long)wanted);
	return got == wanted;
}

static inline int finish(void)
{
	printf("1..%d\n", tap_tests);
	if (tap_failed)
		return 1;
	return tap_skips == tap_tests ? TAP_SKIPPED : 0;
}

/* There is nothing to test here at all: end. */
static inline void skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	exit(TAP_SKIPPED);
}

#endif
