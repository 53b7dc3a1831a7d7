// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ftrace.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>

#include "hook.h"

static struct hook *hooks;
static unsigned int nr_hooks;

static void notrace hook_ftrace_handler(unsigned long ip, unsigned long parent_ip,
					struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	unsigned int i;

	for (i = 0; i < nr_hooks; i++) {
		if (hooks[i].ip != ip)
			continue;
		if (hooks[i].pre((void *)vpmu_compat_ftrace_argument(fregs, 0),
				 vpmu_compat_ftrace_argument(fregs, 1)))
			vpmu_compat_ftrace_set_ip(fregs, (unsigned long)hooks[i].handler);
		return;
	}
}

/*
 * Two ops for all functions, as each takes grace periods to remove.  Functions that are only
 * watched stay free for a livepatch.
 */
static struct ftrace_ops redirecting = {
	.func = hook_ftrace_handler,
	.flags = FTRACE_OPS_FL_IPMODIFY,
};

static struct ftrace_ops watching = {
	.func = hook_ftrace_handler,
};

/* Registering all of them at once failed: find the symbol that fails alone. */
static void hook_report_error(int err)
{
	static struct ftrace_ops one = {
		.func = hook_ftrace_handler,
		.flags = FTRACE_OPS_FL_IPMODIFY,
	};
	const char *symbol = NULL;
	unsigned int i;

	for (i = 0; i < nr_hooks && !symbol; i++) {
		if (!hooks[i].handler || hooks[i].stub || !hooks[i].ip)
			continue;
		if (ftrace_set_filter_ip(&one, hooks[i].ip, 0, 1) ||
		    register_ftrace_function(&one))
			symbol = hooks[i].symbol;
		else
			unregister_ftrace_function(&one);
	}
	ftrace_free_filter(&one);

	if (symbol && err == -EBUSY)
		pr_err("%s is taken by another module or livepatch\n", symbol);
	else
		pr_err("%s can't be hooked: error %d\n",
		       symbol ? symbol : "a function", err);
}

static int find(struct hook *hook)
{
	hook->ip = 0;
	if (hook->needed && !hook->needed())
		return 0;
	hook->ip = vpmu_compat_resolve(hook->symbol);
	if (!hook->ip) {
		if (hook->missing_msg) {
			pr_info("%s not found: %s\n", hook->symbol, hook->missing_msg);
			return 0;
		}
		pr_err("%s not found in this kernel (is %s loaded?)\n", hook->symbol,
		       vpmu_compat_kvm_module());
		return -ENOENT;
	}
	if (hook->bind)
		hook->bind((void *)(hook->ip + MCOUNT_INSN_SIZE));
	return 0;
}

static int add_to_filter(const struct hook *hook)
{
	if (hook->stub || !hook->ip)
		return 0;
	return ftrace_set_filter_ip(hook->handler ? &redirecting : &watching, hook->ip, 0, 0);
}

static int enable_stub(struct hook *hook)
{
	int err;

	if (!hook->stub || !hook->ip)
		return 0;
	hook->direct.ip = hook->ip;
	hook->direct.stub = (unsigned long)hook->stub;
	err = vpmu_compat_direct_enable(&hook->direct);
	if (err == -EBUSY)
		pr_err("%s is taken by another module or livepatch\n", hook->symbol);
	else if (err)
		pr_err("%s can't be hooked: error %d\n", hook->symbol, err);
	hook->direct_enabled = !err;
	return err;
}

static void disable_stubs(void)
{
	unsigned int i;

	for (i = 0; i < nr_hooks; i++) {
		if (hooks[i].direct_enabled)
			vpmu_compat_direct_disable(&hooks[i].direct);
		hooks[i].direct_enabled = false;
	}
}

int vpmu_hooks_find(struct hook *table, unsigned int nr)
{
	unsigned int i;
	int err;

	hooks = table;
	nr_hooks = nr;
	for (i = 0; i < nr; i++) {
		err = find(&table[i]);
		if (err)
			return err;
	}
	return 0;
}

int vpmu_hooks_enable(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < nr_hooks; i++) {
		err = add_to_filter(&hooks[i]);
		if (err)
			goto free;
	}

	err = register_ftrace_function(&watching);
	if (err) {
		pr_err("the kernel can't be traced: error %d\n", err);
		goto free;
	}
	err = register_ftrace_function(&redirecting);
	if (err) {
		unregister_ftrace_function(&watching);
		hook_report_error(err);
		goto free;
	}
	for (i = 0; i < nr_hooks; i++) {
		err = enable_stub(&hooks[i]);
		if (err) {
			vpmu_hooks_disable();
			return err;
		}
	}
	return 0;

free:
	ftrace_free_filter(&redirecting);
	ftrace_free_filter(&watching);
	return err;
}

void vpmu_hooks_disable(void)
{
	disable_stubs();
	unregister_ftrace_function(&redirecting);
	unregister_ftrace_function(&watching);
	ftrace_free_filter(&redirecting);
	ftrace_free_filter(&watching);
	/* A task may have been preempted in a stub, or in a function called by one. */
	synchronize_rcu_tasks();
}
