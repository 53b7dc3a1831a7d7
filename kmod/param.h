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

extern const struct kernel_param_ops vpmu_param_ops;

/* Behind the definition of "struct vpmu_param param_NAME" */
#define VPMU_PARAM(name, description)						\
	module_param_cb(name, &vpmu_param_ops, &param_##name, 0644);		\
	MODULE_PARM_DESC(name, description);					\
	__MODULE_PARM_TYPE(name, "charp")

#endif
