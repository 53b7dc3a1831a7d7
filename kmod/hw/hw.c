// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/percpu.h>
#include <linux/printk.h>
#include <asm/processor.h>

#include "hw.h"
#include "msr.h"

DEFINE_PER_CPU(struct hw_accesses, vpmu_hw_counts);
DEFINE_STATIC_CALL_NULL(vpmu_hw_stop, vpmu_hw_proto_stop);
DEFINE_STATIC_CALL_NULL(vpmu_hw_read, vpmu_hw_proto_read);
DEFINE_STATIC_CALL_NULL(vpmu_hw_write, vpmu_hw_proto_write);
DEFINE_STATIC_CALL_NULL(vpmu_hw_start, vpmu_hw_proto_start);

struct hw_accesses vpmu_hw_accesses(void)
{
	struct hw_accesses sum = { };
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct hw_accesses *a = per_cpu_ptr(&vpmu_hw_counts, cpu);

		sum.rdmsr += a->rdmsr;
		sum.wrmsr += a->wrmsr;
		sum.rdpmc += a->rdpmc;
	}
	return sum;
}

static const struct hw_ops *probe(void)
{
	if (boot_cpu_has(X86_FEATURE_HYBRID_CPU)) {
		pr_err("hybrid CPUs are not supported: their kinds of cores have different PMUs\n");
		return NULL;
	}
	switch (boot_cpu_data.x86_vendor) {
	case X86_VENDOR_AMD:
	case X86_VENDOR_HYGON:
		return vpmu_hw_amd_probe();
	case X86_VENDOR_INTEL:
		return vpmu_hw_intel_probe();
	default:
		pr_err("CPUs of this vendor (%s) are not supported, only AMD's and Intel's are\n",
		       boot_cpu_data.x86_vendor_id);
		return NULL;
	}
}

const struct hw_ops *vpmu_hw_probe(void)
{
	const struct hw_ops *ops = probe();

	if (!ops)
		return NULL;
	static_call_update(vpmu_hw_stop, ops->stop);
	static_call_update(vpmu_hw_read, ops->read);
	static_call_update(vpmu_hw_write, ops->write);
	static_call_update(vpmu_hw_start, ops->start);
	return ops;
}
