/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text out, the command line, and TAP.
 */
#ifndef BARE_LIB_H
#define BARE_LIB_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BIT(n)		(1ull << (n))

void *memset(void *dst, int c, size_t n);
void *memcpy(void *dst, const void *src, size_t n);
int strcmp(const char *a, const char *b);

__attribute__((format(printf, 1, 2)))
void print(const char *fmt, ...);

void cmdline_init(const char *line);
/* Is there a word that equals @word? */
bool cmdline_has(const char *word);
/* The number of a word like skid=8, else 0 */
u64 cmdline_number(const char *name);

/*
 * One line of TAP: t_begin() tells whether the command line selects it, the checks between
 * it and t_end() decide on it. A test that checks nothing fails.
 */
__attribute__((format(printf, 1, 2)))
bool t_begin(const char *fmt, ...);
void t_end(void);
void t_skip(const char *why);
/* pmu.c: why the test of this name isn't for this processor, or NULL */
const char *t_unfit(const char *name);
_Noreturn void t_done(void);
__attribute__((format(printf, 1, 2)))
_Noreturn void t_bail(const char *fmt, ...);

/* For checks on any CPU. Both return whether the check passed. */
__attribute__((format(printf, 3, 4)))
bool check_eq(u64 got, u64 want, const char *fmt, ...);
__attribute__((format(printf, 2, 3)))
bool check(bool ok, const char *fmt, ...);

struct test {
	void (*fn)(void);
};

#define TESTS(f)							\
	static void f(void);						\
	static const struct test f##_entry				\
	__attribute__((section(".tests"), used)) = { f };		\
	static void f(void)

#endif
