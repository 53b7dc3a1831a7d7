// SPDX-License-Identifier: GPL-2.0
/* The PMU that the guest's CPUID enumerates. */
#include <linux/bits.h>
#include <linux/module.h>

#include "compat/compat.h"
#include "cpuid.h"

/* IA32_PERF_CAPABILITIES: SDM vol. 3, "Full-Width Writes to Performance Counter Registers" */
#define PERF_CAP_FULL_WIDTH	BIT_ULL(13)

static struct kvm_cpuid_entry2 *find_cpuid(struct kvm_vcpu *vcpu, u32 function)
{
	int i;

	for (i = 0; i < vcpu->arch.cpuid_nent; i++)
		if (vcpu->arch.cpuid_entries[i].function == function)
			return &vcpu->arch.cpuid_entries[i];
	return NULL;
}

/* CPUID bits: AMD APM vol. 3, appendix E, functions 8000_0001h and 8000_0022h. */
static struct guest_config amd_config(struct kvm_vcpu *vcpu)
{
	const struct kvm_cpuid_entry2 *entry;

	entry = find_cpuid(vcpu, 0x80000022);
	if (entry && (entry->eax & BIT(0)))
		return (struct guest_config){
			.set = entry->ebx & 0xf ? GUEST_AMD_V2 : GUEST_NONE,
			.general = entry->ebx & 0xf,
		};
	entry = find_cpuid(vcpu, 0x80000001);
	if (entry && (entry->ecx & BIT(23)))
		return (struct guest_config){ .set = GUEST_AMD_CORE, .general = 6 };
	return (struct guest_config){ .set = GUEST_AMD_LEGACY, .general = 4 };
}

static unsigned int intel_version;

static int set_intel_version(const char *text, const struct kernel_param *param)
{
	unsigned int version;
	int err = kstrtouint(text, 0, &version);

	if (err)
		return err;
	if (version && (version < 2 || version > 5))
		return -EINVAL;
	intel_version = version;
	return 0;
}

static const struct kernel_param_ops intel_version_ops = {
	.set = set_intel_version,
	.get = param_get_uint,
};

module_param_cb(intel_version, &intel_version_ops, &intel_version, 0444);
MODULE_PARM_DESC(intel_version,
		 "Version of Intel's architectural PMU that guests see, 2 to 5 (default: as their CPUID has it, which is 2 with KVM)");

/* CPUID bits: SDM vol. 2, "CPUID", leaves 01H and 0AH */
#define VERSION		GENMASK(7, 0)
#define FIXED_COUNTERS	GENMASK(4, 0)
#define NO_ANY_THREAD	BIT(15)

void vpmu_cpuid_show_version(struct kvm_vcpu *vcpu, struct vpmu_leaf *own)
{
	struct kvm_cpuid_entry2 *entry = find_cpuid(vcpu, 0xa);

	if (!intel_version || own->eax || !entry || !(entry->eax & VERSION))
		return;
	*own = (struct vpmu_leaf){ .eax = entry->eax, .ecx = entry->ecx, .edx = entry->edx };
	entry->eax = (entry->eax & ~VERSION) | intel_version;
	/* From version 5 on there is a mask of fixed counters, too. */
	entry->ecx = intel_version >= 5 ? BIT(entry->edx & FIXED_COUNTERS) - 1 : 0;
	if (intel_version >= 5)
		entry->edx |= NO_ANY_THREAD;
}

void vpmu_cpuid_hide_version(struct kvm_vcpu *vcpu, struct vpmu_leaf *own)
{
	struct kvm_cpuid_entry2 *entry = find_cpuid(vcpu, 0xa);

	if (own->eax && entry) {
		entry->eax = own->eax;
		entry->ecx = own->ecx;
		entry->edx = own->edx;
	}
	own->eax = 0;
}

void vpmu_cpuid_limit_capabilities(struct kvm_vcpu *vcpu)
{
	if (vpmu_compat_on_intel())
		vcpu->arch.perf_capabilities &= PERF_CAP_FULL_WIDTH;
}

static struct guest_config intel_config(struct kvm_vcpu *vcpu, struct vpmu_leaf *own)
{
	struct kvm_cpuid_entry2 *entry = find_cpuid(vcpu, 0xa);
	struct guest_config config = { };

	if (!entry || !(entry->eax & VERSION))
		return config;
	vpmu_cpuid_show_version(vcpu, own);
	config.set = GUEST_INTEL;
	config.version = entry->eax & VERSION;
	config.general = entry->eax >> 8 & 0xff;
	/* Version 1 has no fixed counters, and no global registers. */
	config.fixed = config.version > 1 ? entry->edx & FIXED_COUNTERS : 0;

	vcpu->arch.ia32_misc_enable_msr |= MSR_IA32_MISC_ENABLE_PEBS_UNAVAIL |
					   MSR_IA32_MISC_ENABLE_BTS_UNAVAIL;
	entry = find_cpuid(vcpu, 1);
	config.full_width = entry && (entry->ecx & BIT(15)) &&
			    (vcpu->arch.perf_capabilities & PERF_CAP_FULL_WIDTH);
	/* HLE and RTM, as intel_pmu_refresh() has it */
	entry = find_cpuid(vcpu, 7);
	config.tsx = entry && (entry->ebx & (BIT(4) | BIT(11))) &&
		     (boot_cpu_has(X86_FEATURE_HLE) || boot_cpu_has(X86_FEATURE_RTM));
	return config;
}

struct guest_config vpmu_cpuid_config(struct kvm_vcpu *vcpu, struct vpmu_leaf *own)
{
	/* KVM's own verdict covers its module parameter and KVM_PMU_CAP_DISABLE. */
	if (!vcpu->arch.pmu.version)
		return (struct guest_config){ };
	return vpmu_compat_on_intel() ? intel_config(vcpu, own) : amd_config(vcpu);
}
