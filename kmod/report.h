/* SPDX-License-Identifier: GPL-2.0 */
/* What /dev/kvm-vpmu reports: the ioctls KVM_VPMU_GET_..., as in uapi/linux/kvm_vpmu.h. */
#ifndef VPMU_REPORT_H
#define VPMU_REPORT_H

#include <linux/fs.h>

long vpmu_get_info(void __user *arg);
long vpmu_get_vms(void __user *arg);
long vpmu_get_vm(void __user *arg);
long vpmu_get_vcpu(void __user *arg);
/* @file: the device's, by which the request was made */
long vpmu_get_events(const struct file *file, void __user *arg);

/*
 * The file of a VM with descriptor @fd, which the caller puts; -EBADF: no file, -EINVAL: another
 * kind of file.
 */
struct file *vpmu_get_vm_file(int fd);

/* May the caller read what VMs of others do? */
bool vpmu_may_read_all(void);

#endif
