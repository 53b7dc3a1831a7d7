// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/printk.h>
#include <asm/processor.h>

#include "hw.h"

const struct hw_ops *hw_probe(void)
{
	switch (boot_cpu_data.x86_vendor) {
	case X86_VENDOR_AMD:
	case X86_VENDOR_HYGON:
		return hw_amd_probe();
	default:
		pr_err("CPUs of this vendor (%s) are not supported, only AMD's are\n",
		       boot_cpu_data.x86_vendor_id);
		return NULL;
	}
}
