// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How long a probe looks at a vCPU's page tables, on the machine that this runs on: the module's own loops (kmod/scan.h)
 * over page tables in user space.
 *
 *	scan
 *
 * Prints one line "NAME VALUE" each, in ms for 40,960 pages: the look that begins a window (begin_N), and the one that
 * ends it (end_N), with N of 100 pages accessed, every second one of these written to.  Each is the median of many.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/cdefs.h>
#include <time.h>

/* As the kernel has it, for the loops */
#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)	(*(volatile __typeof__(x) *)&(x) = (value))

#include "../../../kmod/scan.h"

#define PAGES	40960
#define TABLE	512
#define RUNS	501

/* AMD's (kmod/compat/mmu.h): Intel's are others, at the same cost. */
static const struct vpmu_scan_bits bits = { .present = BIT_ULL(11), .accessed = BIT_ULL(5), .dirty = BIT_ULL(6) };

static u64 *tables[PAGES / TABLE];
static u64 mapped[PAGES / VPMU_SCAN_PAGES], accessed[PAGES / VPMU_SCAN_PAGES], written[PAGES / VPMU_SCAN_PAGES];

/* As probe.c does for the mapping of a page */
static u64 clear(u64 *at, u64 entry)
{
	entry &= ~(bits.accessed | bits.dirty);
	WRITE_ONCE(*at, entry);
	return entry;
}

/* A page in its own place in memory, as a table of the kernel's is */
static void make_tables(void)
{
	for (unsigned int i = 0; i < PAGES / TABLE; i++) {
		tables[i] = aligned_alloc(TABLE * sizeof(u64), TABLE * sizeof(u64));
		if (!tables[i])
			err(1, "a table");
	}
}

/* The guest accesses @percent of the pages.  Return: how many these are. */
static unsigned int access_pages(unsigned int percent)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < PAGES; i++) {
		u64 entry = bits.present | (u64)i << 12;

		if (i * 7919u % 100 < percent)
			entry |= bits.accessed | (nr++ & 1 ? bits.dirty : 0);
		tables[i / TABLE][i % TABLE] = entry;
	}
	return nr;
}

static void begin(void)
{
	for (unsigned int i = 0; i < PAGES; i += VPMU_SCAN_PAGES)
		mapped[i / VPMU_SCAN_PAGES] = vpmu_scan_begin(&tables[i / TABLE][i % TABLE], bits, clear);
}

static void end(void)
{
	for (unsigned int i = 0; i < PAGES; i += VPMU_SCAN_PAGES) {
		unsigned int word = i / VPMU_SCAN_PAGES;

		mapped[word] = vpmu_scan_end(&tables[i / TABLE][i % TABLE], bits, &accessed[word], &written[word]);
	}
}

static unsigned int count(const u64 *set)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < PAGES / VPMU_SCAN_PAGES; i++)
		n += __builtin_popcountll(set[i]);
	return n;
}

/* Each look finds all. */
static void check_mapped(void)
{
	if (count(mapped) != PAGES)
		errx(1, "%u of %u pages mapped", count(mapped), PAGES);
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double time_of(void (*look)(void))
{
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	look();
	clock_gettime(CLOCK_MONOTONIC, &after);
	return (after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) / 1e6;
}

static void measure(unsigned int percent)
{
	static double begins[RUNS], ends[RUNS];

	for (unsigned int i = 0; i < RUNS; i++) {
		unsigned int nr = access_pages(percent);

		ends[i] = time_of(end);
		check_mapped();
		if (count(accessed) != nr || count(written) != nr / 2)
			errx(1, "%u of %u pages accessed, %u written", count(accessed), nr, count(written));
		begins[i] = time_of(begin);
		check_mapped();
	}
	qsort(begins, RUNS, sizeof(*begins), compare);
	qsort(ends, RUNS, sizeof(*ends), compare);
	printf("begin_%u %.4f\nend_%u %.4f\n", percent, begins[RUNS / 2], percent, ends[RUNS / 2]);
}

int main(void)
{
	make_tables();
	measure(0);
	measure(14);
	measure(50);
	measure(100);
	return 0;
}
