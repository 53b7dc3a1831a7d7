/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/kvm-vpmu; uapi/linux/kvm_vpmu.h describes its ioctls and who may do what. */
#ifndef VPMU_CHARDEV_H
#define VPMU_CHARDEV_H

/* Create and remove the device. */
int vpmu_chardev_init(void);
void vpmu_chardev_exit(void);

#endif
