/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Callers in a guest's kernel that keeps no frame pointers. */
#ifndef UNWIND_H
#define UNWIND_H

#include <stddef.h>

#include "guest_map.h"

/*
 * Who called what is at @ip of the kernel, by the tables of @map and the @nr words of its stack at
 * @word (KVM_VPMU_WORDS_OFFSET): sets @caller to up to KVM_VPMU_STACK_MAX addresses, the innermost
 * first, each in the call, or where it was interrupted.  Ends where a word isn't known, as behind
 * the kernel's entry.  Return: how many.
 *
 * This is what Linux does in arch/x86/kernel/unwind_orc.c.
 */
unsigned int unwind_kernel(const struct guest_map *map, uint64_t ip, const uint64_t *word,
			   size_t nr, uint64_t *caller);

#endif
