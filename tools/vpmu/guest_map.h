/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest's addresses and page tables are called: files of vpmu-guest-map, which runs in the
 * guest.  Lines of text; numbers are hexadecimal, names are up to the end of the line:
 *
 *	vpmu-guest-map 1
 *	k START NAME		a function of the kernel; module's as "NAME [MODULE]"
 *	r			all that was there at first is told in front of this (--follow)
 *	o			the kernel has no frame pointers (CONFIG_UNWINDER_ORC)
 *	w NUMBER SP OFFSET BP OFFSET TYPE	a way to unwind: struct guest_unwind
 *	x START STEP:WAY STEP:WAY...	from START in the kernel, STEP bytes further each time, the
 *				way with that number
 *	u			a process has two page tables (KPTI): that for user mode is in the
 *				page behind the other
 *	p NUMBER ROOT PID BEGIN NAME	a process has the page table at physical address ROOT; BEGIN:
 *				since then, the guest's TSC
 *	e NUMBER END		until then; the process has ended, or called exec()
 *	f NUMBER PATH		a file that processes have mapped
 *	y NUMBER OFFSET SIZE NAME	a function in that file, at OFFSET
 *	m PROCESS START END OFFSET NUMBER	a mapping of that process, by its number: file NUMBER
 *				from OFFSET
 *
 * When a process has ended, the next one may get its page table's memory.  So a page table's address
 * alone doesn't tell whose it is.  Lines may be in any order.
 */
#ifndef GUEST_MAP_H
#define GUEST_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct guest_map;
struct guest_process;

/* Read file @path; NULL with a message on @messages: it is none. */
struct guest_map *guest_map_read(const char *path, FILE *messages);

/* The same of @size bytes of @text; @name is for the message. */
struct guest_map *guest_map_parse(char *text, size_t size, const char *name, FILE *messages);

void guest_map_free(struct guest_map *map);

/*
 * The process that had the page table at physical address @root when the guest's TSC was *@tsc.
 * NULL: not known.  If @tsc is NULL, only a page table that one process alone had tells.
 */
const struct guest_process *guest_map_process(const struct guest_map *map, uint64_t root,
					      const uint64_t *tsc);

/* Its name; NULL if @process is NULL. */
const char *guest_process_name(const struct guest_process *process);

/* Its PID in the guest; 0 if @process is NULL. */
uint32_t guest_process_pid(const struct guest_process *process);

/*
 * The function at address @ip of @process, or of the kernel.  NULL: not known.  *@module is the file
 * or module, "kernel" for the kernel itself; NULL: not known.  *@offset is where in a file @ip is,
 * which is the same in each process; else @ip.
 */
const char *guest_map_function(const struct guest_map *map, const struct guest_process *process,
			       uint64_t ip, const char **module, uint64_t *offset);

/* Linux 6.12 arch/x86/include/asm/orc_types.h; vpmu-guest-map translates other versions' numbers. */
enum guest_unwind_register {
	UNWIND_UNDEFINED, UNWIND_PREV_SP, UNWIND_DX, UNWIND_DI, UNWIND_BP, UNWIND_SP, UNWIND_R10,
	UNWIND_R13, UNWIND_BP_INDIRECT, UNWIND_SP_INDIRECT
};
enum guest_unwind_type {
	UNWIND_TYPE_UNDEFINED, UNWIND_TYPE_END, UNWIND_TYPE_CALL, UNWIND_TYPE_REGS,
	UNWIND_TYPE_REGS_PARTIAL
};

/**
 * struct guest_unwind - how to find the caller
 * @sp_reg: where the stack was in front of the call: so far from this register
 * @sp_offset: see there
 * @bp_reg: where RBP was saved: so far from this register, or from that stack
 * @bp_offset: see there
 * @type: what is on the stack there
 */
struct guest_unwind {
	uint8_t sp_reg, bp_reg, type;
	int16_t sp_offset, bp_offset;
};

/* The same for address @ip of the kernel; NULL: not known */
const struct guest_unwind *guest_map_unwind(const struct guest_map *map, uint64_t ip);

/* Do the kernel's functions keep frame pointers? */
bool guest_map_has_frames(const struct guest_map *map);

#endif
