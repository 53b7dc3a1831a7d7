/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's tables for unwinding: Documentation/arch/x86/orc-unwinder.rst of Linux. */
#ifndef ORC_H
#define ORC_H

#include <stdio.h>

/* Print those of the kernel and its modules, as lines "w" and "x".  None: it has frame pointers. */
void orc_print(FILE *out);

#endif
