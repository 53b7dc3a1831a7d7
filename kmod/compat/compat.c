// SPDX-License-Identifier: GPL-2.0
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/utsname.h>

#include "compat.h"

/* So that a test can see what happens on a kernel that nobody has looked at. */
#ifndef COMPAT_KERNEL
#define COMPAT_KERNEL	LINUX_VERSION_CODE
#endif

DEFINE_STATIC_CALL_NULL(compat_get_cpl, compat_proto_get_cpl);
DEFINE_STATIC_CALL_NULL(find_cpuid, compat_proto_find_cpuid);
DEFINE_STATIC_CALL_NULL(module_address, compat_proto_module_address);

static struct module *vendor_module;

unsigned long compat_resolve(const char *symbol)
{
	/* Disabled: nothing is patched, we only want the address. */
	struct kprobe probe = { .symbol_name = symbol, .flags = KPROBE_FLAG_DISABLED };
	unsigned long address;

	if (register_kprobe(&probe))
		return 0;
	address = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	return address;
}

static unsigned long require(const char *symbol)
{
	unsigned long address = compat_resolve(symbol);

	if (!address)
		pr_err("%s not found in this kernel (is kvm_amd loaded?)\n", symbol);
	return address;
}

static bool version_known(void)
{
	switch (COMPAT_KERNEL >> 8) {
	case KERNEL_VERSION(6, 12, 0) >> 8:
		return true;
	default:
		return false;
	}
}

int compat_init(void)
{
	unsigned long cpl, cpuid, address;

	if (!version_known()) {
		pr_err("kernel %s is not supported, only 6.12 is\n",
		       init_utsname()->release);
		return -EOPNOTSUPP;
	}

	cpl = require("svm_get_cpl");
	if (!cpl)
		return -ENOENT;
	cpuid = require("kvm_find_cpuid_entry");
	if (!cpuid)
		return -ENOENT;
	address = require("__module_address");
	if (!address)
		return -ENOENT;
	static_call_update(compat_get_cpl, (void *)cpl);
	static_call_update(find_cpuid, (void *)cpuid);
	static_call_update(module_address, (void *)address);

	/*
	 * The vendor module must not be replaced by another load of it, whose
	 * functions would not be hooked.  It holds kvm itself.
	 */
	preempt_disable();
	vendor_module = static_call(module_address)(cpl);
	if (vendor_module && !try_module_get(vendor_module))
		vendor_module = NULL;
	preempt_enable();
	if (!vendor_module) {
		pr_err("kvm_amd is being unloaded or is built in\n");
		return -ENOENT;
	}
	return 0;
}

void compat_exit(void)
{
	module_put(vendor_module);
}

/* CPUID bits: AMD APM vol. 3, appendix E, functions 8000_0001h and 8000_0022h. */
enum guest_set compat_guest_set(struct kvm_vcpu *vcpu, unsigned int *nr)
{
	struct kvm_cpuid_entry2 *entry;

	*nr = 0;
	/* KVM's own verdict covers its module parameter and KVM_PMU_CAP_DISABLE. */
	if (!vcpu->arch.pmu.version)
		return GUEST_NONE;

	entry = static_call(find_cpuid)(vcpu, 0x80000022);
	if (entry && (entry->eax & BIT(0))) {
		*nr = entry->ebx & 0xf;
		return *nr ? GUEST_AMD_V2 : GUEST_NONE;
	}
	entry = static_call(find_cpuid)(vcpu, 0x80000001);
	if (entry && (entry->ecx & BIT(23))) {
		*nr = 6;
		return GUEST_AMD_CORE;
	}
	*nr = 4;
	return GUEST_AMD_LEGACY;
}

enum vpmu_class compat_event_class(u64 event)
{
	return guest_event_class(event);
}
