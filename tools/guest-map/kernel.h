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

/* Has each process two page tables (KPTI)? */
bool kernel_has_user_roots(void);

/* The TSC's frequency */
unsigned int kernel_tsc_khz(void);

/* More processes than a kernel can have: PID_MAX_LIMIT of linux/threads.h */
#define MAX_PROCESSES	(4 * 1024 * 1024)

/* TASK_COMM_LEN of linux/sched.h */
#define COMM_SIZE	16

/**
 * struct kernel_process - a process that has memory of its own
 * @pid: its ID
 * @thread: the ID of a thread that hasn't ended: procfs shows no memory of one that has
 * @root: physical address of its page table
 * @began: fork(), by CLOCK_MONOTONIC, in ns
 * @code: how many pages of executable mappings it has
 * @name: its name
 */
struct kernel_process {
	int pid, thread;
	uint64_t root, began, code;
	char name[COMM_SIZE + 1];
};

/*
 * Call @call for each of these.  False: the list of processes changed meanwhile, and some may be
 * missing.
 */
bool kernel_processes(void (*call)(const struct kernel_process *process));

#endif
