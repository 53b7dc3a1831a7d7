// SPDX-License-Identifier: GPL-2.0
/*
 * Faults in a module's init function: once parameter nth is written, the nth allocation from the
 * next do_init_module() on fails.  With fail-nth alone, allocations of the kernel's loader would
 * fail before, and the loader warns of these itself (jump_label_module_notify(),
 * event_define_fields()).
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>

static unsigned int nth;
module_param(nth, uint, 0644);
MODULE_PARM_DESC(nth, "which allocation of the next module's init fails; 0: none");

#ifdef CONFIG_FAULT_INJECTION

static int begin(struct kprobe *probe, struct pt_regs *regs)
{
	current->fail_nth = nth;
	nth = 0;
	return 0;
}

static struct kprobe probe = { .symbol_name = "do_init_module", .pre_handler = begin };

static int __init nth_init(void)
{
	return register_kprobe(&probe);
}

static void __exit nth_exit(void)
{
	unregister_kprobe(&probe);
}

#else

static int __init nth_init(void)
{
	return -EOPNOTSUPP;
}

static void __exit nth_exit(void)
{
}

#endif

module_init(nth_init);
module_exit(nth_exit);
MODULE_DESCRIPTION("Lets allocations of a module's init fail");
MODULE_LICENSE("GPL");
