/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guests in 64-bit mode, with page tables and call graphs.  Include vm.h first. */
#ifndef SELFTESTS_LONG_MODE_H
#define SELFTESTS_LONG_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "vm.h"

/* APM vol. 2, "Long-Mode Page Translation" */
#define PRESENT		1ull
#define WRITABLE	2ull
#define USER		4ull
#define ACCESSED	0x20ull
#define LARGE		0x80ull

/* The guest's memory, and in it page tables, a page each, from the highest one on */
#define SIZE		0x400000
#define TABLES		0x100000
#define ROOT		(TABLES + 10 * 4096)

/**
 * struct mode - what a guest is like
 * @name: for messages
 * @base: where its memory is mapped
 * @levels: of page tables, 4 or 5
 * @leaf: in which of them its pages are, from 1 (4 KiB) to 3 (1 GiB)
 * @user: at privilege level 3
 * @apic: with a local APIC
 */
struct mode {
	const char *name;
	uint64_t base;
	unsigned int levels;
	unsigned int leaf;
	bool user;
	bool apic;
};

/*
 * Make @vm such a guest, about to execute the code from @start to @end, at CODE behind its base,
 * with the stack at STACK.  False, and no VM: this CPU can't.
 */
bool make_long_mode(struct vm *vm, const struct mode *m, const char *start, const char *end,
		    struct kvm_regs regs);

/* Page table @nth; with pages of 4 KiB, the entry of the page at @offset of the guest's memory */
uint64_t *table(const struct vm *vm, unsigned int nth);
uint64_t *leaf_entry(const struct vm *vm, uint64_t offset);

/*
 * A guest that goes RDI calls deep, then executes RSI times 2,003 instructions, and an OUT.
 * deep_leaf is where it does, deep_return behind the calls but the first, deep_behind behind that.
 */
extern const char deep_start[], deep_behind[], deep_return[], deep_leaf[], deep_end[];
#define DEEP_INSTRUCTIONS(n)	((n) * 2003ull)

#endif
