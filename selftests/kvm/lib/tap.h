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

__attribute__((format(printf, 2, 3)))
bool check(bool good, const char *format, ...);

/* The reason goes behind the name. */
__attribute__((format(printf, 2, 3)))
void skip(const char *reason, const char *format, ...);

__attribute__((format(printf, 3, 4)))
bool is(uint64_t got, uint64_t wanted, const char *format, ...);

int finish(void);

/* There is nothing to test here at all: end. */
void skip_all(const char *reason);

#endif
