/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests to /dev/kvm-vpmu, see <linux/kvm_vpmu.h>.
 *
 * Functions return 0, or a file descriptor, or a negative error number, as the kernel does.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <linux/kvm_vpmu.h>
#include <stdbool.h>
#include <stddef.h>

#define DEVICE_PATH	"/dev/kvm-vpmu"

struct vm;

/**
 * struct device - an open device
 * @call: does an ioctl; tests have their own
 * @fd: for @call
 * @data: for @call
 * @info: what the device told about the host when it was opened
 * @vm: the VMs at the last look, for vm.c: it reads the name of each once
 * @vms: how many
 */
struct device {
	int (*call)(struct device *dev, unsigned long request, void *arg);
	int fd;
	void *data;
	struct kvm_vpmu_info info;
	struct vm *vm;
	size_t vms;
};

/*
 * Give @dev its @call, @fd and @data.  In open.c, for the real device; the
 * tests link something else there.
 */
int device_connect(struct device *dev);

/* Give up what device_connect() took. */
void device_disconnect(struct device *dev);

/*
 * Let programs that this one executes inherit the open device.  Beside
 * device_connect().
 */
int device_inherit(struct device *dev);

/* The module's folder of sysfs, for module.h.  Beside device_connect(). */
const char *device_module(const struct device *dev);

/*
 * Set a parameter of the module's, which holds for VMs to come: 0 or a negative error
 * number.  Beside device_connect().
 */
int device_set_parameter(struct device *dev, const char *name, const char *value);

/*
 * Connect @dev and ask for its @info.  If that fails, or the device is too
 * old, a message goes to stderr.
 */
int device_open(struct device *dev);

/* The same, but the message is *@why, to be freed. */
int device_try(struct device *dev, char **why);

/* The opposite. */
void device_close(struct device *dev);

/* Ask for @dev->info.  -EPROTO: the interface is older than this tool needs. */
int device_hello(struct device *dev);

/*
 * List VMs: *@vms is an array of *@count, in the order of their numbers, to be
 * freed by the caller.
 */
int device_vms(struct device *dev, struct kvm_vpmu_vm **vms, size_t *count);

/* Change what @settings says. */
int device_set(struct device *dev, const struct kvm_vpmu_settings *settings);

/*
 * Choose (KVM_VPMU_ATTACH_...) which virtual PMU VMs get that are created by this process
 * and by programs that it executes, for as long as they have the device open.
 */
int device_pass_on(struct device *dev, __u32 attach);

/* Look at vCPU @index of VM @vm.  -ENOENT: there is none (any more). */
int device_vcpu(struct device *dev, __u64 vm, __u32 index, struct kvm_vpmu_vcpu *vcpu);

/*
 * Read the hypervisor's events of vCPU @index of VM @vm.  With @observe, all of them are counted
 * from now on, for as long as the device is open.  -ENOENT: as above.
 */
int device_events(struct device *dev, __u64 vm, __u32 index, bool observe,
		  struct kvm_vpmu_events *events);

/*
 * What the failure of a request with error number @error (negative) means for the user; to be
 * freed.
 */
char *device_explain(int error);

/* The same, to stderr. */
void device_complain(int error);

#endif
