// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Code that is written to. The emulator translates code, so it has to notice each store to what it
 * translated. Stores of other CPUs are in t-smp.c.
 */
#include "svm.h"

/*
 * Page tables of their own. The first GiB is the identity map, but for
 *  - the virtual address that equals @table's physical one: that is @code;
 *  - WINDOW, which @table maps.
 * So the emulator's TLB gets two entries of one number, a virtual and a physical (or nested
 * guest's physical) one, for different pages.
 */
static struct {
	u64 pml4[512], pdpt[512], pd[512];
	u64 around[512];	/* the 2 MiB around @table, in small pages */
	u64 table[512];		/* WIN_* are in use, the second half is code */
	u8 code[4096];
} area __attribute__((aligned(4096)));

#define LARGE		0x200000ull
#define WINDOW		(WIN_VA - LARGE)	/* no memory that anybody needs */

enum { WIN_DATA, WIN_CODE, WIN_ALIAS };		/* @code; @table, twice */

#define PTE		0x67			/* D, A, U, W, P */
#define TABLE_CODE	0x800

#define OLD	1
#define NEW	2

static u32 seen_old, seen_new;

static volatile u8 *window(int page, u32 offset)
{
	return (volatile u8 *)(WINDOW + page * 4096ull + offset);
}

static u32 call(volatile u8 *code)
{
	return ((u32 (*)(void))code)();
}

static void put_code(u8 *at, u32 value)
{
	at[0] = 0xb8;		/* MOV imm32,%eax */
	memcpy(at + 1, &value, 4);
	at[5] = 0xc3;		/* RET */
}

static void make_tables(void)
{
	u64 va = (u64)area.table, base = va & ~(LARGE - 1);
	u64 *host_pml4 = (u64 *)(read_cr3() & ~0xfffull);
	u64 *host_pdpt = (u64 *)(host_pml4[0] & ~0xfffull);

	memcpy(area.pml4, host_pml4, 4096);
	memcpy(area.pdpt, host_pdpt, 4096);
	memcpy(area.pd, (void *)(host_pdpt[0] & ~0xfffull), 4096);
	area.pml4[0] = (u64)area.pdpt | PTE;
	area.pdpt[0] = (u64)area.pd | PTE;
	area.pd[base / LARGE] = (u64)area.around | PTE;
	area.pd[WINDOW / LARGE] = (u64)area.table | PTE;
	for (int i = 0; i < 512; i++)
		area.around[i] = (base + i * 4096ull) | PTE;
	area.around[(va - base) / 4096] = (u64)area.code | PTE;

	memset(area.table, 0, sizeof(area.table));
	area.table[WIN_DATA] = (u64)area.code | PTE;
	area.table[WIN_CODE] = (u64)area.table | PTE;
	area.table[WIN_ALIAS] = (u64)area.table | PTE;
	put_code((u8 *)area.table + TABLE_CODE, 0);
	put_code(area.code, OLD);
}

/*
 * With these tables: the code in @table is overwritten, so that stores to that page needn't be
 * noticed any more. The emulator draws this conclusion for the page's (guest) physical number
 *  - if @walk, when it next walks the page, as it may have to set an accessed bit;
 *  - else with the store itself: by an alias that isn't in the TLB yet, nested paging comes to
 *    the page by that number.
 * A store to @code, whose virtual address is that number, has to be noticed all the same. For code
 * of one's own the store is enough (APM vol. 2, "Self-Modifying Code").
 */
static void overwrite(void *walk, void *arg1)
{
	volatile u8 *code = (volatile u8 *)area.table;

	seen_old = call(code);
	call(window(WIN_CODE, TABLE_CODE));
	/* Next to the code: the TLB knows now that the page may be written. */
	code[0x800] = 0;
	if (walk) {
		*window(WIN_CODE, TABLE_CODE) = 0xcc;
		/* No new page: a fault on it in nested page tables would flush the TLB. */
		*window(WIN_DATA, 0);
	} else {
		*window(WIN_ALIAS, TABLE_CODE) = 0xcc;
	}
	*(volatile u32 *)(code + 1) = NEW;
	seen_new = call(code);
}

TESTS(code_tests)
{
	static const struct {
		const char *name;
		bool guest, npt;
		u64 walk;
	} t[] = {
		{ "walk", false, false, true },
		{ "guest/walk", true, false, true },
		{ "npt/walk", true, true, true },
		{ "npt/store", true, true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		if (!t_begin("code/overwritten/%s", t[i].name))
			continue;
		if (t[i].guest && !svm_supported()) {
			t_skip("no SVM");
			t_end();
			continue;
		}
		seen_old = seen_new = 0;
		make_tables();
		if (t[i].guest) {
			svm_enable(true);
			guest_init(0, t[i].npt, overwrite, (void *)t[i].walk, NULL);
			this_guest()->vmcb->cr3 = (u64)area.pml4;
			guest_loop();
			svm_enable(false);
		} else {
			u64 cr3 = read_cr3();

			write_cr3((u64)area.pml4);
			overwrite((void *)t[i].walk, NULL);
			write_cr3(cr3);
		}
		check_eq(seen_old, OLD, "what the code returned at first");
		check_eq(seen_new, NEW, "what it returned after the store to it");
		t_end();
	}
}
