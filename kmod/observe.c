// SPDX-License-Identifier: GPL-2.0
/*
 * Who in the host observes the hypervisor's events of which VM, or of all.  What KVM has no
 * statistic of costs something at each VM exit, so nothing of that is counted while nobody looks.
 * An observer is an open file: a tool that is killed leaves nothing behind.
 */
#include <linux/slab.h>

#include "observe.h"
#include "vcpu.h"

static struct vpmu_observer *find_observer(struct vpmu_vm *vm, const void *who)
{
	struct vpmu_observer *o;

	list_for_each_entry(o, &vm->observers, node)
		if (o->who == who)
			return o;
	return NULL;
}

static void note_observers(struct vpmu_vm *vm)
{
	enum vpmu_observed observed = vpmu_least_observed();
	const struct vpmu_observer *o;

	list_for_each_entry(o, &vm->observers, node)
		observed = max(observed, o->what);
	if (observed == vm->observed)
		return;
	WRITE_ONCE(vm->observed, observed);
	vpmu_vm_kick(vm);
}

int vpmu_observe(struct vpmu_vm *vm, const void *who, enum vpmu_observed what)
{
	struct vpmu_observer *o;

	lockdep_assert_held(&vpmu_vms_lock);
	if (find_observer(vm, who))
		return 0;
	o = kmalloc(sizeof(*o), GFP_KERNEL_ACCOUNT);
	if (!o)
		return -ENOMEM;
	o->who = who;
	o->what = what;
	list_add(&o->node, &vm->observers);
	note_observers(vm);
	return 0;
}

void vpmu_observe_end(const void *who)
{
	struct vpmu_observer *o;
	struct vpmu_vm *vm;

	mutex_lock(&vpmu_vms_lock);
	list_for_each_entry(vm, &vpmu_vms, node) {
		o = find_observer(vm, who);
		if (!o)
			continue;
		list_del(&o->node);
		kfree(o);
		note_observers(vm);
	}
	mutex_unlock(&vpmu_vms_lock);
}

static void note_observers_of_all(int change)
{
	struct vpmu_vm *vm;

	mutex_lock(&vpmu_vms_lock);
	vpmu_all_observed += change;
	list_for_each_entry(vm, &vpmu_vms, node)
		note_observers(vm);
	mutex_unlock(&vpmu_vms_lock);
}

void vpmu_observe_all(void)
{
	note_observers_of_all(1);
}

void vpmu_observe_all_end(void)
{
	note_observers_of_all(-1);
}
