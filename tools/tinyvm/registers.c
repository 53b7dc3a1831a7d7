// SPDX-License-Identifier: GPL-2.0-or-later
/* The registers of a guest's PMU. */
#include "vm.h"
#include "registers.h"

struct kvm_cpuid_entry2 cpuid_of(const struct vm *vm, uint32_t leaf)
{
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + 256 * sizeof(cpuid->entries[0]));
	struct kvm_cpuid_entry2 found = { };

	cpuid->nent = 256;
	IOCTL(vm->vcpu, KVM_GET_CPUID2, cpuid);
	for (unsigned int i = 0; i < cpuid->nent; i++) {
		if (cpuid->entries[i].function == leaf) {
			found = cpuid->entries[i];
			break;
		}
	}
	free(cpuid);
	return found;
}

struct pmu pmu_of(const struct vm *vm)
{
	struct pmu pmu = { NR_LEGACY, 0, false, LEGACY_SELECT0, LEGACY_COUNTER0, 1 };
	struct kvm_cpuid_entry2 leaf;

	if (on_intel()) {
		/* SDM vol. 2, "CPUID", leaf 0AH */
		leaf = cpuid_of(vm, 0xa);
		return (struct pmu){ leaf.eax >> 8 & 0xff, leaf.edx & 0x1f, true, INTEL_SELECT0,
				     INTEL_COUNTER0, 1 };
	}
	if (cpuid_of(vm, 0x80000001).ecx & 1 << 23)
		pmu = (struct pmu){ NR_CORE, 0, false, CORE_SELECT0, CORE_COUNTER0, 2 };
	pmu.v2 = cpuid_of(vm, 0x80000022).eax & 1;
	return pmu;
}

struct pmu enabled_pmu(struct vm *vm)
{
	struct pmu pmu = pmu_of(vm);

	if (pmu.fixed)
		set_msr(vm, GLOBAL_CONTROL, counter_bits(pmu));
	return pmu;
}

unsigned int intel_version(void)
{
	FILE *f = fopen("/sys/module/kvm_vpmu/parameters/intel_version", "r");
	unsigned int version;

	if (!f || fscanf(f, "%u", &version) != 1)
		err(1, "intel_version");
	fclose(f);
	return version;
}
