// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/container_of.h>
#include <linux/printk.h>

#include "../compat/compat.h"
#include "hook.h"

static void notrace redirect(unsigned long ip, unsigned long parent_ip,
			     struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	struct hook *hook = container_of(ops, struct hook, ops);

	if (hook->when((void *)ftrace_regs_get_argument(fregs, 0)))
		compat_ftrace_set_ip(fregs, (unsigned long)hook->handler);
}

static void notrace watch(unsigned long ip, unsigned long parent_ip,
			  struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	struct hook *hook = container_of(ops, struct hook, ops);

	hook->entry((void *)ftrace_regs_get_argument(fregs, 0));
}

static int enable(struct hook *hook)
{
	int err;

	hook->ip = compat_resolve(hook->symbol);
	if (!hook->ip) {
		if (hook->without) {
			pr_info("%s not found: %s\n", hook->symbol, hook->without);
			return 0;
		}
		pr_err("%s not found in this kernel (is kvm_amd loaded?)\n",
		       hook->symbol);
		return -ENOENT;
	}

	hook->ops.func = hook->handler ? redirect : watch;
	hook->ops.flags = hook->handler ? FTRACE_OPS_FL_IPMODIFY : 0;
	if (hook->bind)
		hook->bind((void *)(hook->ip + MCOUNT_INSN_SIZE));

	err = ftrace_set_filter_ip(&hook->ops, hook->ip, 0, 0);
	if (err) {
		pr_err("%s can't be traced: error %d\n", hook->symbol, err);
		return err;
	}
	err = register_ftrace_function(&hook->ops);
	if (err) {
		if (err == -EBUSY)
			pr_err("%s is taken by another module or livepatch\n",
			       hook->symbol);
		else
			pr_err("%s can't be hooked: error %d\n", hook->symbol, err);
		ftrace_free_filter(&hook->ops);
		return err;
	}
	hook->active = true;
	return 0;
}

int hooks_enable(struct hook *hooks, unsigned int nr)
{
	unsigned int i;
	int err;

	for (i = 0; i < nr; i++) {
		err = enable(&hooks[i]);
		if (err) {
			hooks_disable(hooks, i);
			return err;
		}
	}
	return 0;
}

void hooks_disable(struct hook *hooks, unsigned int nr)
{
	while (nr--) {
		struct hook *hook = &hooks[nr];

		if (!hook->active)
			continue;
		unregister_ftrace_function(&hook->ops);
		ftrace_free_filter(&hook->ops);
		hook->active = false;
	}
}
