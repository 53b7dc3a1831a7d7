/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory, numbers and text. */
#ifndef UTIL_H
#define UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define NS_PER_S	1000000000ull

/* The time of @clock, in ns */
uint64_t clock_ns(clockid_t clock);

/* realloc() that ends the program if there is no memory. */
void *xrealloc(void *p, size_t size);

/* Room for one more in array @p of @count members of @size bytes: more at each power of two */
void *xgrow(void *p, size_t count, size_t size);

/* printf() into memory that the caller frees; ends the program if there is none. */
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Room for any text of the functions below */
#define NUMBER_SIZE	32

/* 1234567 as "1,234,567" */
char *format_count(char buf[NUMBER_SIZE], uint64_t n);

/* Nanoseconds as seconds: "1,234.567 s" */
char *format_time(char buf[NUMBER_SIZE], uint64_t ns);

/* A rate per second as "1,234", below 100 as "12.3"; "-" for one that isn't known (NaN) */
char *format_rate(char buf[NUMBER_SIZE], double rate);

/* The same in at most 6 characters: "0", "12.3", "1234", "12.3k", "123k", "1.23M" */
char *format_short(char buf[NUMBER_SIZE], double rate);

/* part/whole in percent, rounded down so that only all is "100.0%" */
char *format_share(char buf[NUMBER_SIZE], uint64_t part, uint64_t whole);

/* Seconds, with fractions, from 0.01 to 86400. */
bool parse_seconds(const char *text, uint64_t *ns);

/* A decimal number from 1 to @max, without sign or blanks. */
bool parse_number(const char *text, uint64_t max, uint64_t *n);

/*
 * Make @text harmless for terminals, JSON and XML: control characters, what isn't
 * UTF-8 and what no XML has become '?'.
 */
void clean_text(char *text);

/* How many columns of a terminal @text takes. */
int text_width(const char *text);

/* Bytes of the longest beginning of @text that takes at most @width columns. */
int text_fit(const char *text, int width);

#endif
