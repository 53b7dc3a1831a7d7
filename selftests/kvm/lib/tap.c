// SPDX-License-Identifier: GPL-2.0-or-later
/* TAP output. */
#include "tap.h"

static int tap_tests, tap_failed, tap_skips;

__attribute__((constructor))
static void tap_start(void)
{
	puts("TAP version 13");
	fflush(stdout);
}

static void tap_line(const char *result, const char *directive, const char *format,
		     va_list args)
{
	printf("%s %d - ", result, ++tap_tests);
	vprintf(format, args);
	puts(directive);
	fflush(stdout);
}

bool check(bool good, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tap_line(good ? "ok" : "not ok", "", format, args);
	va_end(args);
	tap_failed += !good;
	return good;
}

void skip(const char *reason, const char *format, ...)
{
	char directive[200];
	va_list args;

	snprintf(directive, sizeof(directive), " # SKIP %s", reason);
	va_start(args, format);
	tap_line("ok", directive, format, args);
	va_end(args);
	tap_skips++;
}

bool is(uint64_t got, uint64_t wanted, const char *format, ...)
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

int finish(void)
{
	printf("1..%d\n", tap_tests);
	if (tap_failed)
		return 1;
	return tap_skips == tap_tests ? TAP_SKIPPED : 0;
}

void skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	exit(TAP_SKIPPED);
}
