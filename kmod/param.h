/* SPDX-License-Identifier: GPL-2.0 */
/* Module parameters whose values are words, writable by root at any time. */
#ifndef VPMU_PARAM_H
#define VPMU_PARAM_H

#include <linux/moduleparam.h>
#include <linux/types.h>

/**
 * struct vpmu_param - a parameter
 * @words: its values
 * @nr: how many
 * @value: which one it has, by READ_ONCE()
 * @refuse: an error number for a value that this host can't have, else 0; NULL if each is fine
 */
struct vpmu_param {
	const char *const *words;
	size_t nr;
	u32 value;
	int (*refuse)(u32 value);
};

/* For module_param_cb() with the address of a struct vpmu_param; the type is "charp". */
extern const struct kernel_param_ops vpmu_param_ops;

#endif
