/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that processes have mapped, and the functions in them. */
#ifndef FILES_H
#define FILES_H

#include <stdint.h>
#include <stdio.h>

/*
 * Print the executable mappings of process @pid with the page table at @root, as lines "m"; in front
 * of these, the files that weren't printed yet and their functions, as lines "f" and "y".
 */
void files_print(FILE *out, int pid, uint64_t root);

#endif
