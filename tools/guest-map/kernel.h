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

/**
 * struct kernel_tables - where the kernel's tables for unwinding are (CONFIG_UNWINDER_ORC)
 * @ip: address of the first function's offset; 0: there are no such tables
 * @ip_end: behind the last one
 * @entry: of the first struct orc_entry
 * @modules: of the list of modules
 * @list: offsets in bytes: of that list's member in struct module
 * @arch: see there
 * @module_count: in struct mod_arch_specific
 * @module_ip: see there
 * @module_entry: see there
 * @end: offset in bits of a struct orc_entry's bit for the end of a stack, before Linux 6.4; else -1
 */
struct kernel_tables {
	uint64_t ip, ip_end, entry, modules;
	unsigned int list, arch, module_count, module_ip, module_entry;
	int end;
};

const struct kernel_tables *kernel_tables(void);

/* Read the kernel's memory.  False: there is none at @address. */
bool kernel_read(uint64_t address, void *to, size_t size);

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
