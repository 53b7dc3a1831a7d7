// SPDX-License-Identifier: GPL-2.0
/*
 * Lets a kernel function fail: each call returns an error at once.  Stock kernels have no fault
 * injection; a kprobe that leaves the function does the same (kernel/fail_function.c).
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol;
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "the function that fails");

static int error = -ENOMEM;
module_param(error, int, 0444);
MODULE_PARM_DESC(error, "what it returns (default: -ENOMEM)");

/* In the function's place; a kprobe can't take the return address from the stack. */
static noinline notrace void just_return(void)
{
	barrier();
}

static int notrace leave(struct kprobe *probe, struct pt_regs *regs)
{
	regs->ip = (unsigned long)just_return;
	regs->ax = error;
	return 1;
}

static struct kprobe probe = { .pre_handler = leave };

static int __init fail_init(void)
{
	probe.symbol_name = symbol;
	return register_kprobe(&probe);
}

static void __exit fail_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(fail_init);
module_exit(fail_exit);
MODULE_DESCRIPTION("Lets a kernel function fail");
MODULE_LICENSE("GPL");
