// SPDX-License-Identifier: GPL-2.0
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "param.h"

static int set(const char *word, const struct kernel_param *kp)
{
	struct vpmu_param *param = kp->arg;
	int value = __sysfs_match_string(param->words, param->nr, word);
	int err;

	if (value < 0)
		return value;
	err = param->refuse ? param->refuse(value) : 0;
	if (err)
		return err;
	WRITE_ONCE(param->value, value);
	return 0;
}

static int get(char *buffer, const struct kernel_param *kp)
{
	const struct vpmu_param *param = kp->arg;

	return sysfs_emit(buffer, "%s\n", param->words[READ_ONCE(param->value)]);
}

const struct kernel_param_ops vpmu_param_ops = {
	.set = set,
	.get = get,
};
