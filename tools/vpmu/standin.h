/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stand-ins for programs, libraries and kernel modules that other machines have: ELF files with
 * symbols and nothing else, for tools that look for symbols in files.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct standin_symbol - a function
 * @offset: where in the file, and behind the address at which the file is mapped
 * @size: its length in bytes
 * @name: its name
 */
struct standin_symbol {
	uint64_t offset, size;
	const char *name;
};

/*
 * Write file @path, for a mapping of @length bytes.  An address in the file is its offset.  False,
 * with a message: that failed.
 */
bool standin_write(const char *path, uint64_t length, const struct standin_symbol *symbol,
		   size_t symbols);

#endif
