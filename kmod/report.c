// SPDX-License-Identifier: GPL-2.0
/* What /dev/kvm-vpmu reports: VMs, vCPUs, figures; uapi/linux/kvm_vpmu.h describes the ioctls. */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/math64.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <asm/tsc.h>
#include <uapi/linux/kvm_vpmu.h>

#include "compat/compat.h"
#include "event.h"
#include "observe.h"
#include "report.h"
#include "sched.h"
#include "vcpu.h"

struct file *vpmu_get_vm_file(int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (!vpmu_compat_file_is_vm(file)) {
		fput(file);
		return ERR_PTR(-EINVAL);
	}
	return file;
}

/*
 * The same capability as perf's for other users' processes; a user namespace's root doesn't have
 * it.
 */
bool vpmu_may_read_all(void)
{
	return perfmon_capable();
}

/* The same where the caller just gets less otherwise: no entry in the audit log */
static bool is_privileged(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_PERFMON) ||
	       ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

/* A VM's number reveals how many VMs there were before, and the PID is the host's. */
static void describe_vm(const struct vpmu_vm *vm, bool privileged, struct kvm_vpmu_vm *out)
{
	*out = (struct kvm_vpmu_vm) {
		.id = privileged ? vm->id : 0,
		.pid = privileged ? vm->kvm->userspace_pid : 0,
		.vcpus = vm->nr,
		.freeze = vm->freeze,
		.tsc = vm->tsc,
		.events = vm->events,
	};
}

/*
 * Describe the first @room VMs in @out.
 *
 * Return: how many VMs there are.
 */
static u32 describe_vms(struct kvm_vpmu_vm *out, u32 room)
{
	struct vpmu_vm *vm;
	u32 n = 0;

	mutex_lock(&vpmu_vms_lock);
	list_for_each_entry(vm, &vpmu_vms, node) {
		if (n < room)
			describe_vm(vm, true, &out[n]);
		n++;
	}
	mutex_unlock(&vpmu_vms_lock);
	return n;
}

long vpmu_get_info(void __user *arg)
{
	struct kvm_vpmu_info info = {
		.abi = KVM_VPMU_ABI,
		.counters = vpmu_hw->nr,
	};

	/* These reveal what VMs of others do. */
	if (is_privileged()) {
		struct hw_accesses accesses = vpmu_hw_accesses();

		info.vms = describe_vms(NULL, 0);
		info.rdmsr = accesses.rdmsr;
		info.wrmsr = accesses.wrmsr;
		info.rdpmc = accesses.rdpmc;
	}
	strscpy(info.hardware, vpmu_hw->name, sizeof(info.hardware));
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/*
 * The caller's memory may belong to a userfaultfd or a FUSE file: an access to
 * it takes as long as the caller likes.  KVM needs vpmu_vms_lock to create and
 * destroy vCPUs, so nothing is copied while it is held.
 */
long vpmu_get_vms(void __user *arg)
{
	struct kvm_vpmu_vm *out;
	struct kvm_vpmu_vms list;
	u32 room, stored;
	long err = 0;

	if (copy_from_user(&list, arg, sizeof(list)))
		return -EFAULT;
	if (!vpmu_may_read_all())
		return -EPERM;

	/* Once more if VMs were created in between */
	do {
		room = min(list.room, describe_vms(NULL, 0));
		out = kvcalloc(room, sizeof(*out), GFP_KERNEL_ACCOUNT);
		if (!out)
			return -ENOMEM;
		list.count = describe_vms(out, room);
		stored = min(list.count, list.room);
		if (stored > room)
			kvfree(out);
	} while (stored > room);

	if (copy_to_user(u64_to_user_ptr(list.vms), out, array_size(stored, sizeof(*out))))
		err = -EFAULT;
	kvfree(out);
	if (err)
		return err;
	return copy_to_user(arg, &list, sizeof(list)) ? -EFAULT : 0;
}

long vpmu_get_vm(void __user *arg)
{
	bool privileged = is_privileged();
	struct kvm_vpmu_vm_of_fd out;
	struct vpmu_vm *vm;
	struct file *file;

	if (copy_from_user(&out, arg, sizeof(out)))
		return -EFAULT;
	if (out.reserved || out.vm.reserved)
		return -EINVAL;

	file = vpmu_get_vm_file(out.fd);
	if (IS_ERR(file))
		return PTR_ERR(file);
	mutex_lock(&vpmu_vms_lock);
	vm = vpmu_find_vm_by_file(file);
	if (vm)
		describe_vm(vm, privileged, &out.vm);
	mutex_unlock(&vpmu_vms_lock);
	fput(file);

	if (!vm)
		return -ENOENT;
	return copy_to_user(arg, &out, sizeof(out)) ? -EFAULT : 0;
}

/*
 * Call @function on the CPU where the vCPU is loaded, if it is.  KVM leaves vcpu->cpu as it was
 * when it puts the vCPU: an idle one needs no interrupt of a CPU that runs something else by now.
 * The vCPU may be put or move meanwhile.
 */
static void call_where_loaded(const struct vpmu_vcpu *vv, smp_call_func_t function, void *arg)
{
	if (READ_ONCE(vv->loaded))
		smp_call_function_single(READ_ONCE(vv->hot.vcpu->cpu), function, arg, true);
}

/* On the CPU where a vCPU seems to be loaded */
static void update_counters(void *arg)
{
	struct vpmu_vcpu *vv = arg;

	if (this_cpu_read(vpmu_cpu.vv) == vv)
		vpmu_sched_update_all(vv);
}

static u64 to_ns(u64 ticks)
{
	return mul_u64_u32_div(ticks, NSEC_PER_MSEC, tsc_khz);
}

static void describe_counter(const struct vpmu_vcpu *vv, unsigned int i,
			     struct kvm_vpmu_counter *out)
{
	const struct vpmu_counter *c = &vv->counter[i];

	out->select = vv->guest.select[i];
	out->value = vv->guest.value[i];
	out->enabled_ns = to_ns(c->enabled);
	out->running_ns = to_ns(c->running);
	if (vpmu_guest_counting(&vv->guest, i))
		out->flags |= KVM_VPMU_COUNTER_ENABLED;
	if (vv->denied & BIT(i))
		out->flags |= KVM_VPMU_COUNTER_DENIED;
	if (vv->borrowing & BIT(i))
		out->flags |= KVM_VPMU_COUNTER_BORROWS;
}

static u32 register_set(const struct guest_pmu *guest)
{
	switch (guest->set) {
	case GUEST_AMD_LEGACY:
		return KVM_VPMU_REGISTERS_AMD_LEGACY;
	case GUEST_AMD_CORE:
		return KVM_VPMU_REGISTERS_AMD_CORE;
	case GUEST_AMD_V2:
		return KVM_VPMU_REGISTERS_AMD_V2;
	case GUEST_INTEL:
		return KVM_VPMU_REGISTERS_INTEL + guest->version;
	case GUEST_NONE:
		break;
	}
	return KVM_VPMU_REGISTERS_NONE;
}

static void describe_vcpu(struct vpmu_vcpu *vv, struct kvm_vpmu_vcpu *out)
{
	unsigned int i;

	/* If it is put or moves meanwhile, that brings it up to date. */
	call_where_loaded(vv, update_counters, vv);

	out->vcpu_id = vv->hot.vcpu->vcpu_id;
	out->tid = is_privileged() ? vpmu_compat_thread(vv->hot.vcpu) : 0;
	out->registers = register_set(&vv->guest);
	out->counters = vv->guest.nr;
	out->exits = vv->hot.vcpu->stat.exits;
	out->emulated = vv->hot.emulated;
	out->overflows = vv->stats.overflows;
	out->pmis = vv->stats.pmis;
	out->early = vv->stats.early;
	out->reads = vv->stats.reads;
	out->writes = vv->stats.writes;
	out->rdpmcs = vv->stats.rdpmcs;
	out->fast = vv->stats.fast;
	out->open = vv->stats.open;
	out->in_kvm = vv->stats.in_kvm;
	out->evicted = vv->stats.evicted;
	out->borrowed = vv->stats.borrowed;
	out->gaps = vv->stats.gaps;
	out->anomalies = vv->stats.anomalies;
	out->descheduled_tsc = vv->stats.descheduled_tsc;
	for (i = 0; i < vv->guest.nr; i++)
		describe_counter(vv, i, &out->counter[i]);
}

static bool vcpu_reserved_is_0(const struct kvm_vpmu_vcpu *v)
{
	unsigned int i;

	if (v->tid)
		return false;
	for (i = 0; i < KVM_VPMU_COUNTERS; i++)
		if (v->counter[i].reserved ||
		    memchr_inv(v->counter[i].reserved2, 0, sizeof(v->counter[i].reserved2)))
			return false;
	return true;
}

/*
 * Who may read a VM?  The VM is named by its number @id, or by @fd; beside a number, 0 is no file.
 * Sets *@file to the VM's file, which the caller puts, or NULL.
 */
static long open_vm(u64 id, s32 fd, struct file **file)
{
	*file = NULL;
	if (id && fd)
		return -EINVAL;
	if (id)
		return vpmu_may_read_all() ? 0 : -EPERM;
	*file = vpmu_get_vm_file(fd);
	return PTR_ERR_OR_ZERO(*file);
}

/* vCPU @index of the VM that open_vm() has opened; NULL: none (any more) */
static struct vpmu_vcpu *find_vcpu(u64 id, const struct file *file, u32 index)
{
	struct vpmu_vm *vm = file ? vpmu_find_vm_by_file(file) : vpmu_find_vm(id);
	struct vpmu_vcpu *vv;

	if (!vm)
		return NULL;
	list_for_each_entry(vv, &vm->vcpus, sibling)
		if (!index--)
			return vv;
	return NULL;
}

long vpmu_get_vcpu(void __user *arg)
{
	struct kvm_vpmu_vcpu *in, *out;
	struct vpmu_vcpu *vv;
	struct file *file;
	long err;

	BUILD_BUG_ON(VPMU_MAX_COUNTERS > KVM_VPMU_COUNTERS);
	in = memdup_user(arg, sizeof(*in));
	if (IS_ERR(in))
		return PTR_ERR(in);
	out = kzalloc(sizeof(*out), GFP_KERNEL);
	err = out ? 0 : -ENOMEM;
	if (!err && !vcpu_reserved_is_0(in))
		err = -EINVAL;
	if (!err)
		err = open_vm(in->vm, in->fd, &file);
	if (err)
		goto free;

	out->vm = in->vm;
	out->index = in->index;
	out->fd = in->fd;
	mutex_lock(&vpmu_vms_lock);
	vv = find_vcpu(in->vm, file, in->index);
	if (vv)
		describe_vcpu(vv, out);
	mutex_unlock(&vpmu_vms_lock);
	if (file)
		fput(file);
	if (!vv)
		err = -ENOENT;
	else if (copy_to_user(arg, out, sizeof(*out)))
		err = -EFAULT;
free:
	kfree(out);
	kfree(in);
	return err;
}

/* A request for a vCPU's events, and whether @out is filled in */
struct events_request {
	struct vpmu_vcpu *vv;
	struct kvm_vpmu_events *out;
	bool done;
};

static void read_events(struct events_request *r)
{
	unsigned int event;

	for (event = 0; event < KVM_VPMU_EVENT_MASKS; event++)
		r->out->count[event] = vpmu_event_figure(r->vv, event);
	r->done = true;
}

/* On the CPU where the vCPU seems to be loaded */
static void read_events_there(void *arg)
{
	struct events_request *r = arg;

	if (this_cpu_read(vpmu_cpu.vv) == r->vv)
		read_events(r);
}

static void describe_events(struct vpmu_vcpu *vv, struct kvm_vpmu_events *out)
{
	struct events_request r = { .vv = vv, .out = out };

	call_where_loaded(vv, read_events_there, &r);
	if (!r.done)
		read_events(&r);
	out->vcpu_id = vv->hot.vcpu->vcpu_id;
	out->observed = vv->vm->observed == VPMU_OBSERVE_EVENTS;
	out->tsc_khz = vv->hot.vcpu->arch.virtual_tsc_khz;
}

long vpmu_get_events(const struct file *device_file, void __user *arg)
{
	struct kvm_vpmu_events *e;
	struct vpmu_vcpu *vv;
	struct file *file;
	long err = -EINVAL;

	e = memdup_user(arg, sizeof(*e));
	if (IS_ERR(e))
		return PTR_ERR(e);
	if (!memchr_inv(e->reserved2, 0, sizeof(e->reserved2)) &&
	    !(e->flags & ~KVM_VPMU_EVENTS_OBSERVE))
		err = open_vm(e->vm, e->fd, &file);
	if (err)
		goto free;

	mutex_lock(&vpmu_vms_lock);
	vv = find_vcpu(e->vm, file, e->index);
	if (!vv)
		err = -ENOENT;
	else if (e->flags & KVM_VPMU_EVENTS_OBSERVE)
		err = vpmu_observe(vv->vm, device_file, VPMU_OBSERVE_EVENTS);
	if (!err)
		describe_events(vv, e);
	mutex_unlock(&vpmu_vms_lock);
	if (file)
		fput(file);
	if (!err && copy_to_user(arg, e, sizeof(*e)))
		err = -EFAULT;
free:
	kfree(e);
	return err;
}
