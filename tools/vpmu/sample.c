// SPDX-License-Identifier: GPL-2.0-or-later
#include "sample.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "event.h"
#include "util.h"

/* Counters have 48 bits, AMD APM vol. 2, "Performance Counter MSRs". */
#define COUNTER_MASK	((1ull << 48) - 1)

#define FIGURE(name)	{ #name, offsetof(struct kvm_vpmu_vcpu, name) }

static const struct {
	const char *name;
	size_t offset;
} figures[] = {
	[FIGURE_EXITS] = FIGURE(exits),
	[FIGURE_EMULATED] = FIGURE(emulated),
	[FIGURE_OVERFLOWS] = FIGURE(overflows),
	[FIGURE_IN_KVM] = FIGURE(in_kvm),
	[FIGURE_PMIS] = FIGURE(pmis),
	[FIGURE_EARLY] = FIGURE(early),
	[FIGURE_READS] = FIGURE(reads),
	[FIGURE_WRITES] = FIGURE(writes),
	[FIGURE_RDPMCS] = FIGURE(rdpmcs),
	[FIGURE_FAST] = FIGURE(fast),
	[FIGURE_OPEN] = FIGURE(open),
	[FIGURE_EVICTED] = FIGURE(evicted),
	[FIGURE_BORROWED] = FIGURE(borrowed),
	[FIGURE_GAPS] = FIGURE(gaps),
	[FIGURE_ANOMALIES] = FIGURE(anomalies),
};

const char *figure_name(enum figure figure)
{
	return figures[figure].name;
}

__u64 figure(const struct kvm_vpmu_vcpu *vcpu, enum figure figure)
{
	return *(const __u64 *)((const char *)vcpu + figures[figure].offset);
}

__u64 sample_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Look at the vCPUs of @vm: -ENOENT if it has ended. */
static int look(struct sample_vm *vm, struct device *dev, enum sample_events events)
{
	__u32 i;

	vm->vcpu = xrealloc(NULL, vm->vm.info.vcpus * sizeof(*vm->vcpu));
	if (events != SAMPLE_NO_EVENTS)
		vm->events = xrealloc(NULL, vm->vm.info.vcpus * sizeof(*vm->events));
	for (i = 0; i < vm->vm.info.vcpus; i++) {
		int r = device_vcpu(dev, vm->vm.info.id, i, &vm->vcpu[i]);

		if (!r && events != SAMPLE_NO_EVENTS)
			r = device_events(dev, vm->vm.info.id, i, events == SAMPLE_ALL_EVENTS,
					  &vm->events[i]);
		if (r)
			return r;
		vm->vcpus = i + 1;
	}
	return 0;
}

static void free_vm(struct sample_vm *vm)
{
	free(vm->vcpu);
	free(vm->events);
}

int sample_take(struct sample *sample, struct device *dev, const char *proc, __u64 id,
		enum sample_events events)
{
	struct vm_list list;
	size_t i;
	int r;

	*sample = (struct sample){ };
	r = id ? vm_list_get_one(&list, dev, proc, id) : vm_list_get(&list, dev, proc);
	if (r)
		return r;
	sample->vm = xrealloc(NULL, list.count * sizeof(*sample->vm));
	for (i = 0; i < list.count; i++) {
		struct sample_vm *vm = &sample->vm[sample->vms];

		*vm = (struct sample_vm){ .vm = list.vm[i] };
		r = look(vm, dev, events);
		if (!r) {
			sample->vms++;
			continue;
		}
		free_vm(vm);
		if (r != -ENOENT)
			break;
		r = 0;
	}
	vm_list_free(&list);
	if (r)
		sample_free(sample);
	sample->time = sample_now();
	return r;
}

void sample_free(struct sample *sample)
{
	size_t i;

	for (i = 0; i < sample->vms; i++)
		free_vm(&sample->vm[i]);
	free(sample->vm);
	*sample = (struct sample){ };
}

/* The VM of a vCPU in an earlier sample that had this vCPU, too */
static const struct sample_vm *find_vm(const struct sample *before,
				       const struct kvm_vpmu_vcpu *vcpu)
{
	size_t v;

	for (v = 0; before && v < before->vms; v++) {
		const struct sample_vm *vm = &before->vm[v];

		if (vm->vm.info.id != vcpu->vm)
			continue;
		if (vcpu->index < vm->vcpus && vm->vcpu[vcpu->index].vcpu_id == vcpu->vcpu_id)
			return vm;
		return NULL;
	}
	return NULL;
}

const struct kvm_vpmu_vcpu *sample_find(const struct sample *before,
					const struct kvm_vpmu_vcpu *vcpu)
{
	const struct sample_vm *vm = find_vm(before, vcpu);

	return vm ? &vm->vcpu[vcpu->index] : NULL;
}

const struct kvm_vpmu_events *sample_find_events(const struct sample *before,
						 const struct kvm_vpmu_vcpu *vcpu)
{
	const struct sample_vm *vm = find_vm(before, vcpu);

	return vm ? &vm->events[vcpu->index] : NULL;
}

bool counter_used(const struct kvm_vpmu_counter *counter)
{
	return counter->select || counter->value || counter->enabled_ns;
}

bool counter_gain(const struct kvm_vpmu_vcpu *vcpu, const struct kvm_vpmu_vcpu *before,
		  unsigned int i, __u64 *gain)
{
	const struct kvm_vpmu_counter *now = &vcpu->counter[i], *then;

	if (!before || i >= before->counters)
		return false;
	then = &before->counter[i];
	/* All but "enabled", which guests flip around each sequence that they count */
	if ((now->select ^ then->select) & ~EVENT_EN)
		return false;
	/* A guest that samples sets its counter back at each overflow. */
	if (now->select & EVENT_INT && vcpu->overflows != before->overflows &&
	    vcpu->writes != before->writes)
		return false;
	*gain = (now->value - then->value) & COUNTER_MASK;
	/* Nothing counts that far: set back. */
	return *gain <= COUNTER_MASK / 2;
}
