/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two looks of a probe's window at the entries of a page table (probe.c).
 *
 * This is compiled in user space too, where tools/bench/programs/scan.c measures what a look costs.
 * That has READ_ONCE() and __always_inline of its own.
 */
#ifndef VPMU_SCAN_H
#define VPMU_SCAN_H

#include "types.h"

#ifdef __KERNEL__
#include <linux/compiler.h>
#endif

/* Pages of a bitmap's word */
#define VPMU_SCAN_PAGES	64

/**
 * struct vpmu_scan_bits - bits of an entry
 * @present: maps a page
 * @accessed: a vCPU has accessed the page since that bit was cleared
 * @dirty: a vCPU has written to the page since that bit was cleared
 */
struct vpmu_scan_bits {
	u64 present;
	u64 accessed;
	u64 dirty;
};

/**
 * vpmu_scan_begin() - a window begins
 * @table: entries of VPMU_SCAN_PAGES pages
 * @bits: see there
 * @clear: clears the accessed and the dirty bit of an entry, and returns what the entry is then
 *
 * Return: which entries map a page.
 */
static __always_inline u64 vpmu_scan_begin(u64 *table, struct vpmu_scan_bits bits,
					   u64 (*clear)(u64 *at, u64 entry))
{
	u64 mapped = 0;
	unsigned int i;

	for (i = 0; i < VPMU_SCAN_PAGES; i++) {
		u64 entry = READ_ONCE(table[i]);

		if (entry & (bits.accessed | bits.dirty))
			entry = clear(&table[i], entry);
		if (entry & bits.present)
			mapped |= BIT_ULL(i);
	}
	return mapped;
}

/**
 * vpmu_scan_end() - a window ends
 * @table: entries of VPMU_SCAN_PAGES pages
 * @bits: see there
 * @accessed: which pages a vCPU has accessed
 * @written: which pages a vCPU has written to
 *
 * Return: which entries map a page.
 */
static __always_inline u64 vpmu_scan_end(const u64 *table, struct vpmu_scan_bits bits,
					 u64 *accessed, u64 *written)
{
	u64 mapped = 0;
	unsigned int i;

	*accessed = 0;
	*written = 0;
	for (i = 0; i < VPMU_SCAN_PAGES; i++) {
		u64 entry = READ_ONCE(table[i]);

		if (!(entry & bits.present))
			continue;
		mapped |= BIT_ULL(i);
		if (!(entry & (bits.accessed | bits.dirty)))
			continue;
		if (entry & bits.accessed)
			*accessed |= BIT_ULL(i);
		if (entry & bits.dirty)
			*written |= BIT_ULL(i);
	}
	return mapped;
}

#endif
