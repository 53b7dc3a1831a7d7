// SPDX-License-Identifier: GPL-2.0
/*
 * kvm_vpmu: a virtual PMU for KVM guests on unmodified kernels.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "compat/compat.h"
#include "compat/host.h"
#include "hook/hook.h"
#include "borrow.h"
#include "chardev.h"
#include "counter.h"
#include "measure.h"
#include "open.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static int __init vpmu_module_init(void)
{
	int err;

	err = vpmu_compat_lookup_init();
	if (err)
		return err;
	vpmu_hw = vpmu_hw_probe();
	if (!vpmu_hw)
		return -ENODEV;

	err = vpmu_compat_init();
	if (err)
		return err;
	err = vpmu_compat_host_init();
	if (err)
		goto put_compat;
	vpmu_measure_init();
	vpmu_hooks_choose();
	err = vpmu_hooks_find(vpmu_hooks, vpmu_nr_hooks);
	if (err)
		goto put_compat;
	err = vpmu_compat_tested();
	if (err)
		goto put_compat;

	vpmu_counter_init();
	vpmu_borrow_init();
	err = vpmu_hooks_enable();
	if (err)
		goto end_borrow;
	vpmu_open_init();
	/* Behind the hook that forgets the choices for a VM when the VM is freed */
	err = vpmu_chardev_init();
	if (err) {
		pr_err("no device: error %d\n", err);
		goto disable_hooks;
	}

	vpmu_hooks_ready();
	pr_info("%s, %u counters; VMs started from now on use them\n",
		vpmu_hw->name, vpmu_hw->nr);
	return 0;

disable_hooks:
	vpmu_hooks_disable();
end_borrow:
	vpmu_borrow_exit();
put_compat:
	vpmu_compat_exit();
	return err;
}

/* No vCPU of ours is left: each holds a reference to the module. */
static void __exit vpmu_module_exit(void)
{
	vpmu_hooks_disable();
	vpmu_chardev_exit();
	vpmu_borrow_exit();
	vpmu_counter_exit();
	vpmu_compat_exit();
}

module_init(vpmu_module_init);
module_exit(vpmu_module_exit);

MODULE_AUTHOR("The kvm-vpmu developers");
MODULE_DESCRIPTION("Virtual PMU for KVM guests");
MODULE_LICENSE("GPL");
#ifdef VPMU_VERSION
MODULE_VERSION(VPMU_VERSION);
#endif
