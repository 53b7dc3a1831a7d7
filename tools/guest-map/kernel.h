/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the running kernel knows: its functions, and the page table of each process. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Find what the functions below need: symbols (/proc/kallsyms), types (/sys/kernel/btf/vmlinux) and
 * memory (/proc/kcore).  Ends the program with a message if one of them is missing.
 */
void kernel_open(void);

/* Print the kernel's functions, as lines "k". */
void kernel_print_functions(FILE *out);

/* Physical address of the kernel's own page table */
uint64_t kernel_root(void);

/*
 * Call @call for each process that has memory of its own, with the physical address of its page
 * table.  False: the list of processes changed meanwhile, and some may be missing.
 */
bool kernel_processes(void (*call)(int pid, uint64_t root, const char *name));

#endif
