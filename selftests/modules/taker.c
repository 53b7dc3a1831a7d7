// SPDX-License-Identifier: GPL-2.0
/* Takes a function the way a livepatch does, so that nobody else can redirect it. */
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol = "kvm_pmu_get_msr";
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "the function to take (default: kvm_pmu_get_msr)");

static void notrace leave_alone(unsigned long ip, unsigned long parent_ip,
				struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
}

static struct ftrace_ops ops = {
	.func = leave_alone,
	.flags = FTRACE_OPS_FL_IPMODIFY,
};

static int __init taker_init(void)
{
	struct kprobe probe = { .symbol_name = symbol, .flags = KPROBE_FLAG_DISABLED };
	int err = register_kprobe(&probe);

	if (err)
		return err;
	err = ftrace_set_filter_ip(&ops, (unsigned long)probe.addr, 0, 0);
	unregister_kprobe(&probe);
	return err ?: register_ftrace_function(&ops);
}

static void __exit taker_exit(void)
{
	unregister_ftrace_function(&ops);
	ftrace_free_filter(&ops);
}

module_init(taker_init);
module_exit(taker_exit);
MODULE_DESCRIPTION("Takes a kernel function from other users of ftrace");
MODULE_LICENSE("GPL");
