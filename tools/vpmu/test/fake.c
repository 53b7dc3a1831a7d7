// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fake.h"

static int get_vms(struct fake *fake, struct kvm_vpmu_vms *request)
{
	struct kvm_vpmu_vm *to = (void *)(uintptr_t)request->vms;
	unsigned int i;

	fake->looks++;
	fake->vms += fake->growing;
	request->count = fake->vms;
	for (i = 0; i < fake->vms && i < request->room; i++)
		to[i] = fake->vm[i];
	return 0;
}

static struct kvm_vpmu_vm *find(struct fake *fake, __u64 id)
{
	unsigned int i;

	for (i = 0; i < fake->vms; i++) {
		if (fake->vm[i].id == id && !fake->ended[i] &&
		    (!fake->ends[i] || fake->looks < fake->ends[i]))
			return &fake->vm[i];
	}
	return NULL;
}

static int set(struct fake *fake, const struct kvm_vpmu_settings *settings)
{
	struct kvm_vpmu_vm *vm = find(fake, settings->id);

	fake->set = *settings;
	if (fake->set_error)
		return fake->set_error;
	if (!vm)
		return -ENOENT;
	if (fake->set_errors[vm - fake->vm])
		return fake->set_errors[vm - fake->vm];
	if (settings->fields & KVM_VPMU_SET_FREEZE)
		vm->freeze = settings->freeze;
	if (settings->fields & KVM_VPMU_SET_TSC)
		vm->tsc = settings->tsc;
	if (settings->fields & KVM_VPMU_SET_EVENTS)
		vm->events = settings->events;
	return 0;
}

/* What a vCPU has after @n looks */
static void fill(struct kvm_vpmu_vcpu *vcpu, __u64 n)
{
	vcpu->vcpu_id = vcpu->index * 2;
	vcpu->registers = KVM_VPMU_REGISTERS_AMD_V2;
	vcpu->counters = 6;
	vcpu->exits = 1000000 * n + vcpu->index;
	vcpu->emulated = 1000 * n;
	vcpu->overflows = 30;
	vcpu->pmis = 29;
	vcpu->early = 4;
	vcpu->reads = 50 * n;
	vcpu->writes = 60;
	vcpu->rdpmcs = 7;
	vcpu->fast = 12;
	vcpu->open = 13;
	vcpu->in_kvm = 14;
	vcpu->evicted = 8;
	vcpu->borrowed = 9;
	vcpu->gaps = 10;
	vcpu->descheduled_tsc = 11;
	/* instructions, user and kernel, all of the time */
	vcpu->counter[0] = (struct kvm_vpmu_counter){
		.select = 0x4300c0, .value = 1234567 * n,
		.enabled_ns = 2000000 * n, .running_ns = 2000000 * n,
		.flags = KVM_VPMU_COUNTER_ENABLED,
	};
	/* cycles, user, with interrupts; half of the time */
	vcpu->counter[1] = (struct kvm_vpmu_counter){
		.select = 0x510076, .value = (1ull << 48) - 1000 + 600 * n,
		.enabled_ns = 2000000 * n, .running_ns = 1000000 * n,
		.flags = KVM_VPMU_COUNTER_ENABLED | KVM_VPMU_COUNTER_BORROWS,
	};
	vcpu->counter[1].value &= (1ull << 48) - 1;
	/* set back each time */
	vcpu->counter[5] = (struct kvm_vpmu_counter){
		.select = 0x4f, .value = 5000 - n, .flags = KVM_VPMU_COUNTER_DENIED,
	};
}

static int get_vcpu(struct fake *fake, struct kvm_vpmu_vcpu *vcpu)
{
	struct kvm_vpmu_vm *vm = find(fake, vcpu->vm);

	if (!vm || vcpu->index >= vm->vcpus)
		return -ENOENT;
	fill(vcpu, fake->looks);
	return 0;
}

static int get_events(struct fake *fake, struct kvm_vpmu_events *e)
{
	struct kvm_vpmu_vm *vm = find(fake, e->vm);

	if (!vm || e->index >= vm->vcpus)
		return -ENOENT;
	fake->event_flags = e->flags;
	e->vcpu_id = e->index * 2;
	e->observed = e->flags & KVM_VPMU_EVENTS_OBSERVE;
	e->tsc_khz = 1;
	e->count[KVM_VPMU_EVENT_EXITS] = 1000000 * fake->looks + e->index;
	e->count[KVM_VPMU_EVENT_EXITS_IO] = 2000 * fake->looks;
	e->count[KVM_VPMU_EVENT_TICKS_HALTED] = 10 * fake->looks;
	if (!e->observed)
		return 0;
	e->count[KVM_VPMU_EVENT_EXITS_CPUID] = 500 * fake->looks;
	e->count[KVM_VPMU_EVENT_TICKS_STEAL] = 20 * fake->looks;
	return 0;
}

static int call(struct device *dev, unsigned long request, void *arg)
{
	struct fake *fake = dev->data;

	if (request == KVM_VPMU_GET_INFO) {
		fake->info.vms = fake->vms;
		*(struct kvm_vpmu_info *)arg = fake->info;
		return 0;
	}
	if (fake->error)
		return fake->error;
	switch (request) {
	case KVM_VPMU_GET_VMS:
		return get_vms(fake, arg);
	case KVM_VPMU_SET:
		return set(fake, arg);
	case KVM_VPMU_GET_VCPU:
		return get_vcpu(fake, arg);
	case KVM_VPMU_GET_EVENTS:
		return get_events(fake, arg);
	case KVM_VPMU_ATTACH:
		fake->attach = *(struct kvm_vpmu_attach *)arg;
		return 0;
	default:
		return -ENOTTY;
	}
}

void fake_init(struct fake *fake, struct device *dev, unsigned int vms)
{
	unsigned int i;

	*fake = (struct fake){
		.info = { .abi = KVM_VPMU_ABI, .counters = 6, .hardware = "fake" },
		.vms = vms,
	};
	for (i = 0; i < FAKE_VMS; i++)
		fake->vm[i] = (struct kvm_vpmu_vm){ .id = i + 1, .pid = FAKE_PID + i, .vcpus = 2 };
	*dev = (struct device){ .call = call, .data = fake, .info = fake->info };
}
