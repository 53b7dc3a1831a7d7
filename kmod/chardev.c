// SPDX-License-Identifier: GPL-2.0
/* /dev/kvm-vpmu; uapi/linux/kvm_vpmu.h describes its ioctls. */
#include <linux/file.h>
#include <linux/math64.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <asm/tsc.h>
#include <uapi/linux/kvm_vpmu.h>

#include "compat/compat.h"
#include "vpmu.h"

static struct vpmu_vm *find_vm(u64 id)
{
	struct vpmu_vm *vm;

	lockdep_assert_held(&vpmu_vms_lock);
	list_for_each_entry(vm, &vpmu_vms, node)
		if (vm->id == id)
			return vm;
	return NULL;
}

static void describe_vm(const struct vpmu_vm *vm, struct kvm_vpmu_vm *out)
{
	*out = (struct kvm_vpmu_vm) {
		.id = vm->id,
		.pid = vm->kvm->userspace_pid,
		.vcpus = vm->nr,
		.freeze = vm->freeze,
		.tsc = vm->tsc,
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
			describe_vm(vm, &out[n]);
		n++;
	}
	mutex_unlock(&vpmu_vms_lock);
	return n;
}

static long get_info(void __user *arg)
{
	struct hw_accesses accesses = hw_accesses();
	struct kvm_vpmu_info info = {
		.abi = KVM_VPMU_ABI,
		.counters = vpmu_hw->nr,
		.vms = describe_vms(NULL, 0),
		.rdmsr = accesses.rdmsr,
		.wrmsr = accesses.wrmsr,
		.rdpmc = accesses.rdpmc,
	};

	strscpy(info.hardware, vpmu_hw->name, sizeof(info.hardware));
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/*
 * The caller's memory may belong to a userfaultfd or a FUSE file: an access to
 * it takes as long as the caller likes.  KVM needs vpmu_vms_lock to create and
 * destroy vCPUs, so nothing is copied while it is held.
 */
static long get_vms(void __user *arg)
{
	struct kvm_vpmu_vm *out;
	struct kvm_vpmu_vms list;
	u32 room, stored;
	long err = 0;

	if (copy_from_user(&list, arg, sizeof(list)))
		return -EFAULT;

	/* Do it again if VMs came between the two looks. */
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

static struct vpmu_vm *find_vm_by_file(const struct file *file)
{
	struct vpmu_vm *vm;

	lockdep_assert_held(&vpmu_vms_lock);
	/* A file of KVM's may be a vCPU's or a device's, which no VM equals. */
	list_for_each_entry(vm, &vpmu_vms, node)
		if (vm->kvm == file->private_data)
			return vm;
	return NULL;
}

/* The file of a VM, which @fd is; the caller puts it. */
static struct file *get_vm_file(int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (!compat_file_is_vm(file)) {
		fput(file);
		return ERR_PTR(-EINVAL);
	}
	return file;
}

static long get_vm(void __user *arg)
{
	struct kvm_vpmu_vm_of_fd out;
	struct vpmu_vm *vm;
	struct file *file;

	if (copy_from_user(&out, arg, sizeof(out)))
		return -EFAULT;
	if (out.reserved)
		return -EINVAL;

	file = get_vm_file(out.fd);
	if (IS_ERR(file))
		return PTR_ERR(file);
	mutex_lock(&vpmu_vms_lock);
	vm = find_vm_by_file(file);
	if (vm)
		describe_vm(vm, &out.vm);
	mutex_unlock(&vpmu_vms_lock);
	fput(file);

	if (!vm)
		return -ENOENT;
	return copy_to_user(arg, &out, sizeof(out)) ? -EFAULT : 0;
}

static void nothing(void *unused)
{
}

/* Let the VM's vCPUs have a look at their settings before they go on. */
static void kick_vm(struct vpmu_vm *vm)
{
	struct vpmu_vcpu *vv;

	list_for_each_entry(vv, &vm->vcpus, sibling) {
		int cpu;

		kvm_make_request(KVM_REQ_PMU, vv->hot.vcpu);
		/* An interrupt makes it exit, if it is there. */
		cpu = READ_ONCE(vv->hot.vcpu->cpu);
		if (cpu >= 0)
			smp_call_function_single(cpu, nothing, NULL, false);
	}
}

static long set_settings(const struct kvm_vpmu_settings *s, struct vpmu_vm *vm)
{
	int err = 0;

	if (!vm)
		return -ENOENT;
	if (s->fields & KVM_VPMU_SET_TSC)
		err = vtsc_set(vm, s->tsc);
	if (err)
		return err;
	if (s->fields & KVM_VPMU_SET_FREEZE)
		WRITE_ONCE(vm->freeze, s->freeze);
	kick_vm(vm);
	return 0;
}

static long set_vm(void __user *arg)
{
	struct kvm_vpmu_settings s;
	struct file *file = NULL;
	long err;

	if (copy_from_user(&s, arg, sizeof(s)))
		return -EFAULT;
	if (s.reserved || (s.fields & ~(KVM_VPMU_SET_FREEZE | KVM_VPMU_SET_TSC)))
		return -EINVAL;
	if ((s.fields & KVM_VPMU_SET_FREEZE) && s.freeze > KVM_VPMU_FREEZE_VCPU)
		return -EINVAL;
	if ((s.fields & KVM_VPMU_SET_TSC) && s.tsc > KVM_VPMU_TSC_VCPU)
		return -EINVAL;
	/* One of the two names the VM. */
	if (s.id ? s.fd >= 0 : s.fd < 0)
		return -EINVAL;

	if (!s.id) {
		file = get_vm_file(s.fd);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	mutex_lock(&vpmu_vms_lock);
	err = set_settings(&s, file ? find_vm_by_file(file) : find_vm(s.id));
	mutex_unlock(&vpmu_vms_lock);
	if (file)
		fput(file);
	return err;
}

/* On the CPU where a vCPU seems to be: bring its counters up to date. */
static void refresh(void *arg)
{
	struct vpmu_vcpu *vv = arg;

	if (this_cpu_read(vpmu_cpu.vv) == vv)
		switch_refresh(vv);
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
	if (guest_counting(&vv->guest, i))
		out->flags |= KVM_VPMU_COUNTER_ENABLED;
	if (vv->denied & BIT_ULL(i))
		out->flags |= KVM_VPMU_COUNTER_DENIED;
	if (c->borrows)
		out->flags |= KVM_VPMU_COUNTER_BORROWS;
}

static u32 registers(const struct guest_pmu *guest)
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
	int cpu = READ_ONCE(vv->hot.vcpu->cpu);
	unsigned int i;

	/* If it is put or moves meanwhile, that brings it up to date. */
	if (cpu >= 0)
		smp_call_function_single(cpu, refresh, vv, true);

	out->vcpu_id = vv->hot.vcpu->vcpu_id;
	out->registers = registers(&vv->guest);
	out->counters = vv->guest.nr;
	out->exits = vv->hot.vcpu->stat.exits;
	out->emulated = vv->hot.emulated;
	out->overflows = vv->stats.overflows;
	out->pmis = vv->stats.pmis;
	out->early = vv->stats.early;
	out->reads = vv->stats.reads;
	out->writes = vv->stats.writes;
	out->rdpmcs = vv->stats.rdpmcs;
	out->evicted = vv->stats.evicted;
	out->borrowed = vv->stats.borrowed;
	out->gaps = vv->stats.gaps;
	out->anomalies = vv->stats.anomalies;
	out->descheduled_tsc = vv->stats.descheduled_tsc;
	for (i = 0; i < vv->guest.nr; i++)
		describe_counter(vv, i, &out->counter[i]);
}

static long get_vcpu(void __user *arg)
{
	struct kvm_vpmu_vcpu __user *to = arg;
	struct kvm_vpmu_vcpu *out;
	struct vpmu_vcpu *vv;
	struct vpmu_vm *vm;
	long err = -ENOENT;
	u32 n = 0;

	BUILD_BUG_ON(VPMU_MAX_COUNTERS > KVM_VPMU_COUNTERS);
	out = kzalloc(sizeof(*out), GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	if (get_user(out->vm, &to->vm) || get_user(out->index, &to->index)) {
		kfree(out);
		return -EFAULT;
	}

	mutex_lock(&vpmu_vms_lock);
	vm = find_vm(out->vm);
	if (vm) {
		list_for_each_entry(vv, &vm->vcpus, sibling) {
			if (n++ != out->index)
				continue;
			describe_vcpu(vv, out);
			err = 0;
			break;
		}
	}
	mutex_unlock(&vpmu_vms_lock);

	if (!err && copy_to_user(to, out, sizeof(*out)))
		err = -EFAULT;
	kfree(out);
	return err;
}

static long device_ioctl(struct file *file, unsigned int request, unsigned long arg)
{
	void __user *to = (void __user *)arg;

	switch (request) {
	case KVM_VPMU_GET_INFO:
		return get_info(to);
	case KVM_VPMU_GET_VMS:
		return get_vms(to);
	case KVM_VPMU_SET:
		return set_vm(to);
	case KVM_VPMU_GET_VCPU:
		return get_vcpu(to);
	case KVM_VPMU_GET_VM:
		return get_vm(to);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations device_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kvm-vpmu",
	.fops = &device_fops,
	.mode = 0600,
};

int chardev_init(void)
{
	return misc_register(&device);
}

void chardev_exit(void)
{
	misc_deregister(&device);
}
