/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which process had which page table, and when. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Print to @out from now on.  @follow: processes come and go meanwhile, and the kernel is to tell
 * when.  False: it doesn't, so that a process has a name only between two looks that both found it.
 */
bool processes_open(FILE *out, bool follow);

/*
 * Look at all processes, and print lines "p", "e", "f" and "m" of those that were found the same by
 * the look before, or have ended since.  False: the list changed meanwhile, and some may be
 * missing.
 */
bool processes_look(void);

#endif
