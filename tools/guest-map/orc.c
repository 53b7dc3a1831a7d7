// SPDX-License-Identifier: GPL-2.0-or-later
#include "orc.h"

#include <err.h>
#include <inttypes.h>
#include <search.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernel.h"

/* More than a kernel has: some 500,000 */
#define MAX_ENTRIES	(16 * 1024 * 1024)
/* More modules than a kernel has */
#define MAX_MODULES	10000
/* Entries in a line */
#define PER_LINE	64

/* As that of arch/x86/include/asm/orc_types.h */
struct orc_entry {
	int16_t sp_offset, bp_offset;
	uint16_t bits;
} __attribute__((packed));

/* Of the bits: registers and types.  Since Linux 6.4 a type has a bit more, and these numbers. */
#define SP_REG(bits)	((bits) & 15)
#define BP_REG(bits)	((bits) >> 4 & 15)
#define TYPE(bits)	((bits) >> 8 & 7)
enum { UNDEFINED, END, CALL };

/* Before: only types from CALL on */
#define OLD_TYPE(bits)	((bits) >> 8 & 3)
/* Where they begin, in struct orc_entry */
#define BITS		32

/*
 * Registers' numbers as lines "w" have them, which are those of Linux 6.1 to 6.12 (ORC_REG_...), by
 * the numbers of Linux 7.2 and 7.3.  No kernel uses AX.
 */
static const unsigned int later_registers[16] = { 0, 15, 2, 5, 4, 3, 6, 7, 1, 9, 8 };

/* The stack pointer's number in both */
#define SP		5
#define LATER_SP	3

/**
 * struct way - a way to unwind, of which there are few
 * @key: all of it
 * @number: in the order in which they were printed
 */
struct way {
	uint64_t key;
	unsigned int number;
};

static void *ways;
static unsigned int nr_ways;
static bool is_later;

static int compare(const void *a, const void *b)
{
	const struct way *left = a, *right = b;

	return (left->key > right->key) - (left->key < right->key);
}

static unsigned int type_of(const struct orc_entry *entry)
{
	int end = kernel_tables()->end;

	if (end < 0)
		return TYPE(entry->bits);
	if (entry->bits >> (end - BITS) & 1)
		return END;
	return SP_REG(entry->bits) ? CALL + OLD_TYPE(entry->bits) : UNDEFINED;
}

static unsigned int register_of(unsigned int number)
{
	return is_later ? later_registers[number] : number;
}

/* Its number; it's printed if it's new. */
static unsigned int way_of(const struct orc_entry *entry, FILE *out)
{
	unsigned int sp = register_of(SP_REG(entry->bits)), bp = register_of(BP_REG(entry->bits));
	unsigned int type = type_of(entry);
	struct way *way = malloc(sizeof(*way)), **found;

	if (!way)
		errx(1, "out of memory");
	*way = (struct way){
		.key = (uint64_t)(uint16_t)entry->sp_offset << 32 |
		       (uint64_t)(uint16_t)entry->bp_offset << 16 | sp << 12 | bp << 8 | type,
		.number = nr_ways,
	};
	found = tsearch(way, &ways, compare);
	if (!found)
		errx(1, "out of memory");
	if (*found != way) {
		free(way);
		return (*found)->number;
	}
	fprintf(out, "w %x %x %x %x %x %x\n", nr_ways, sp, (uint16_t)entry->sp_offset, bp,
		(uint16_t)entry->bp_offset, type);
	return nr_ways++;
}

/*
 * The table of @count entries at address @entry, and of where each begins at @ip: there, as so many
 * bytes from the number.
 */
static void print_table(uint64_t ip, uint64_t entry, size_t count, FILE *out)
{
	struct orc_entry *entries = calloc(count, sizeof(*entries));
	int32_t *ips = calloc(count, sizeof(*ips));
	unsigned int *way = calloc(count, sizeof(*way));
	uint64_t at, last = 0;
	size_t i;

	if (!entries || !ips || !way)
		errx(1, "out of memory");
	if (kernel_read(ip, ips, count * sizeof(*ips)) &&
	    kernel_read(entry, entries, count * sizeof(*entries))) {
		/* Each in front of the first line that has its number */
		for (i = 0; i < count; i++)
			way[i] = way_of(&entries[i], out);
		for (i = 0; i < count; i++, last = at) {
			at = ip + i * sizeof(*ips) + ips[i];
			if (i % PER_LINE == 0 || at < last)
				fprintf(out, "%sx %" PRIx64 " 0:%x", i ? "\n" : "", at, way[i]);
			else
				fprintf(out, " %" PRIx64 ":%x", at - last, way[i]);
		}
		fputc('\n', out);
	}
	free(entries);
	free(ips);
	free(way);
}

/*
 * Which numbers do registers have?  At nearly each function's first instruction, where the stack was
 * is 8 bytes from the stack pointer.  False: these are others.
 */
static bool find_registers(uint64_t entry, size_t count)
{
	struct orc_entry *entries = calloc(count, sizeof(*entries));
	size_t found[16] = { }, i;

	if (!entries)
		errx(1, "out of memory");
	if (!kernel_read(entry, entries, count * sizeof(*entries)))
		count = 0;
	for (i = 0; i < count; i++)
		if (entries[i].sp_offset == 8 && type_of(&entries[i]) == CALL)
			found[SP_REG(entries[i].bits)]++;
	free(entries);
	is_later = found[LATER_SP] > found[SP];
	return found[is_later ? LATER_SP : SP] > count / 100;
}

static uint64_t number(uint64_t address)
{
	uint64_t value;

	return kernel_read(address, &value, sizeof(value)) ? value : 0;
}

static void print_modules(const struct kernel_tables *tables, FILE *out)
{
	uint64_t at = number(tables->modules);
	unsigned int n;

	for (n = 0; at && at != tables->modules && n < MAX_MODULES; n++, at = number(at)) {
		uint64_t arch = at - tables->list + tables->arch;
		uint32_t count;

		if (kernel_read(arch + tables->module_count, &count, sizeof(count)) && count &&
		    count <= MAX_ENTRIES)
			print_table(number(arch + tables->module_ip),
				    number(arch + tables->module_entry), count, out);
	}
}

void orc_print(FILE *out)
{
	const struct kernel_tables *tables = kernel_tables();
	uint64_t count = (tables->ip_end - tables->ip) / sizeof(int32_t);

	if (!tables->ip || !tables->entry || !count || count > MAX_ENTRIES ||
	    !find_registers(tables->entry, count))
		return;
	print_table(tables->ip, tables->entry, count, out);
	if (tables->modules)
		print_modules(tables, out);
}
