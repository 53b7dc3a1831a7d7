/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that processes have mapped, and the functions in them. */
#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Print the executable mappings of the process with thread @thread to @lines, as lines "m" with
 * @number; and to @out the files that weren't printed yet, as lines "f".
 */
void files_print(FILE *out, FILE *lines, int thread, uint64_t number);

/* Print the functions of the next one of these files, as lines "y".  False: there is none. */
bool files_print_functions(FILE *out);

#endif
