/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Members of the kernel's structures: its BTF, see Documentation/bpf/btf.rst of Linux. */
#ifndef BTF_H
#define BTF_H

#include <stdint.h>

/* Read file @path.  Ends the program with a message if there is none, or it's broken. */
void btf_open(const char *path);
void btf_close(void);

/*
 * The offset in bits of member @name of struct @type; the member may be in structures and unions
 * without a name.  -1: there is none.
 */
int64_t btf_member(const char *type, const char *name);

#endif
