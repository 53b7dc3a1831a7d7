// SPDX-License-Identifier: GPL-2.0
/* /dev/kvm-vpmu; uapi/linux/kvm_vpmu.h describes its ioctls and who may do what. */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <uapi/linux/kvm_vpmu.h>
#include <uapi/linux/kvm_vpmu_probe.h>
#include <uapi/linux/kvm_vpmu_profile.h>

#include "attach.h"
#include "chardev.h"
#include "observe.h"
#include "probe.h"
#include "profile.h"
#include "report.h"
#include "vcpu.h"
#include "vtsc.h"

static long set_settings(const struct kvm_vpmu_settings *s, struct vpmu_vm *vm)
{
	int err = 0;

	if (!vm)
		return -ENOENT;
	if (s->fields & KVM_VPMU_SET_TSC)
		err = vpmu_vtsc_set(vm, s->tsc);
	if (err)
		return err;
	if (s->fields & KVM_VPMU_SET_FREEZE)
		WRITE_ONCE(vm->freeze, s->freeze);
	if (s->fields & KVM_VPMU_SET_EVENTS)
		WRITE_ONCE(vm->events, s->events);
	vpmu_vm_kick(vm);
	return 0;
}

#define ALL_FIELDS	(KVM_VPMU_SET_FREEZE | KVM_VPMU_SET_TSC | KVM_VPMU_SET_EVENTS)

static long set_vm(void __user *arg)
{
	struct kvm_vpmu_settings s;
	struct file *file = NULL;
	long err;

	if (copy_from_user(&s, arg, sizeof(s)))
		return -EFAULT;
	if (s.reserved || (s.fields & ~ALL_FIELDS))
		return -EINVAL;
	if ((s.fields & KVM_VPMU_SET_FREEZE) && s.freeze > KVM_VPMU_FREEZE_VCPU)
		return -EINVAL;
	if ((s.fields & KVM_VPMU_SET_TSC) && s.tsc > KVM_VPMU_TSC_VCPU)
		return -EINVAL;
	if ((s.fields & KVM_VPMU_SET_EVENTS) && s.events > KVM_VPMU_EVENTS_ON)
		return -EINVAL;
	/* Either the number or the file names the VM. */
	if (s.id ? s.fd >= 0 : s.fd < 0)
		return -EINVAL;
	if (s.id && !capable(CAP_SYS_ADMIN))
		return -EPERM;

	if (!s.id) {
		file = vpmu_get_vm_file(s.fd);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	mutex_lock(&vpmu_vms_lock);
	err = set_settings(&s, file ? vpmu_find_vm_by_file(file) : vpmu_find_vm(s.id));
	mutex_unlock(&vpmu_vms_lock);
	if (file)
		fput(file);
	return err;
}

static long set_choice(struct file *device_file, const void __user *arg)
{
	struct kvm_vpmu_attach attach;
	struct file *file;
	long err;

	if (copy_from_user(&attach, arg, sizeof(attach)))
		return -EFAULT;
	if (attach.reserved || attach.attach > KVM_VPMU_ATTACH_NO)
		return -EINVAL;

	if (attach.fd == -1) {
		vpmu_attach_choose_by_file(device_file, attach.attach);
		return 0;
	}
	file = vpmu_get_vm_file(attach.fd);
	if (IS_ERR(file))
		return PTR_ERR(file);
	err = vpmu_attach_choose(file->private_data, attach.attach);
	fput(file);
	return err;
}

static long device_ioctl(struct file *file, unsigned int request, unsigned long arg)
{
	void __user *to = (void __user *)arg;

	switch (request) {
	case KVM_VPMU_GET_INFO:
		return vpmu_get_info(to);
	case KVM_VPMU_GET_VMS:
		return vpmu_get_vms(to);
	case KVM_VPMU_SET:
		return set_vm(to);
	case KVM_VPMU_GET_VCPU:
		return vpmu_get_vcpu(to);
	case KVM_VPMU_GET_VM:
		return vpmu_get_vm(to);
	case KVM_VPMU_ATTACH:
		return set_choice(file, to);
	case KVM_VPMU_GET_EVENTS:
		return vpmu_get_events(file, to);
	case KVM_VPMU_PROFILE:
		return vpmu_profile_open(to);
	case KVM_VPMU_PROBE:
		return vpmu_probe_open(to);
	default:
		return -ENOTTY;
	}
}

static int device_open(struct inode *inode, struct file *file)
{
	/* misc_open() has left a pointer there. */
	file->private_data = NULL;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	vpmu_attach_choose_by_file(file, KVM_VPMU_ATTACH_DEFAULT);
	vpmu_observe_end(file);
	return 0;
}

static const struct file_operations device_fops = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
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

int vpmu_chardev_init(void)
{
	vpmu_attach_init(&device_fops);
	return misc_register(&device);
}

void vpmu_chardev_exit(void)
{
	misc_deregister(&device);
	vpmu_attach_forget_all();
}
