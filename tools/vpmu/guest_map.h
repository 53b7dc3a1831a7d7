/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest's addresses and page tables are called: files of vpmu-guest-map, which runs in the
 * guest.  Lines of text; numbers are hexadecimal, names are up to the end of the line:
 *
 *	vpmu-guest-map 1
 *	k START NAME		a function of the kernel; module's as "NAME [MODULE]"
 *	o			the kernel has no frame pointers (CONFIG_UNWINDER_ORC)
 *	p ROOT PID NAME		a process; ROOT: its page table's physical address
 *	f NUMBER PATH		a file that processes have mapped
 *	y NUMBER OFFSET SIZE NAME	a function in that file, at OFFSET
 *	m ROOT START END OFFSET NUMBER	a mapping of that process: file NUMBER from OFFSET
 *
 * With two page tables for each process (KPTI), that for user mode is in the page behind the other.
 */
#ifndef GUEST_MAP_H
#define GUEST_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct guest_map;

/* Read file @path; NULL with a message on @messages: it is none. */
struct guest_map *guest_map_read(const char *path, FILE *messages);

void guest_map_free(struct guest_map *map);

/* The process with the page table at physical address @root; NULL: not known. */
const char *guest_map_process(const struct guest_map *map, uint64_t root);

/* The same process's PID in the guest; 0: not known */
uint32_t guest_map_pid(const struct guest_map *map, uint64_t root);

/*
 * The function at address @ip of the process with that page table, or of the kernel.  NULL: not
 * known.  *@module is the file or module, "kernel" for the kernel itself; NULL: not known.
 */
const char *guest_map_function(const struct guest_map *map, uint64_t root, uint64_t ip,
			       const char **module);

/* Do the kernel's functions keep frame pointers? */
bool guest_map_has_frames(const struct guest_map *map);

#endif
