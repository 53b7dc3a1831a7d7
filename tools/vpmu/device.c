// SPDX-License-Identifier: GPL-2.0-or-later
#include "device.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* Of the interface's versions, the first that has all that this tool asks for */
#define NEEDED_ABI	1

int device_hello(struct device *dev)
{
	int r = dev->call(dev, KVM_VPMU_GET_INFO, &dev->info);

	if (r)
		return r;
	dev->info.hardware[sizeof(dev->info.hardware) - 1] = 0;
	return dev->info.abi < NEEDED_ABI ? -EPROTO : 0;
}

static char *explain_open(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		return xasprintf("%s: %s (is kvm_vpmu loaded?)", DEVICE_PATH, strerror(-error));
	case -EACCES:
	case -EPERM:
		return xasprintf("%s: %s (root and members of group kvm may open it)", DEVICE_PATH,
				 strerror(-error));
	default:
		return device_explain(error);
	}
}

char *device_explain(int error)
{
	switch (error) {
	case -EPERM:
		return xasprintf("seeing the VMs of others needs CAP_PERFMON (run vpmu as root)");
	case -ENOTTY:
		return xasprintf("%s: the module is older than this tool and has no such request",
				 DEVICE_PATH);
	default:
		return xasprintf("%s: %s", DEVICE_PATH, strerror(-error));
	}
}

void device_complain(int error)
{
	char *why = device_explain(error);

	warnx("%s", why);
	free(why);
}

int device_try(struct device *dev, char **why)
{
	int r = device_connect(dev);

	if (r) {
		*why = explain_open(r);
		return r;
	}
	r = device_hello(dev);
	if (!r)
		return 0;
	if (r == -EPROTO)
		*why = xasprintf("the module's interface has version %u, this tool needs %u or later",
				 dev->info.abi, NEEDED_ABI);
	else
		*why = device_explain(r);
	device_close(dev);
	return r;
}

int device_open(struct device *dev)
{
	char *why;
	int r = device_try(dev, &why);

	if (r) {
		warnx("%s", why);
		free(why);
	}
	return r;
}

void device_close(struct device *dev)
{
	free(dev->vm);
	device_disconnect(dev);
}

int device_vms(struct device *dev, struct kvm_vpmu_vm **vms, size_t *count)
{
	struct kvm_vpmu_vm *list = NULL;
	__u32 room = 16;

	/* More may come between two requests: leave room for some. */
	for (;;) {
		struct kvm_vpmu_vms request = { .room = room };
		int r;

		list = xrealloc(list, room * sizeof(*list));
		request.vms = (uintptr_t)list;
		r = dev->call(dev, KVM_VPMU_GET_VMS, &request);
		if (r) {
			free(list);
			return r;
		}
		if (request.count <= room) {
			*vms = list;
			*count = request.count;
			return 0;
		}
		room = request.count + request.count / 8 + 16;
	}
}

int device_set(struct device *dev, const struct kvm_vpmu_settings *settings)
{
	struct kvm_vpmu_settings copy = *settings;

	return dev->call(dev, KVM_VPMU_SET, &copy);
}

int device_pass_on(struct device *dev, __u32 attach)
{
	struct kvm_vpmu_attach request = { .fd = -1, .attach = attach };
	int r = dev->call(dev, KVM_VPMU_ATTACH, &request);

	return r ? r : device_inherit(dev);
}

int device_vcpu(struct device *dev, __u64 vm, __u32 index, struct kvm_vpmu_vcpu *vcpu)
{
	int r;

	*vcpu = (struct kvm_vpmu_vcpu){ .vm = vm, .index = index };
	r = dev->call(dev, KVM_VPMU_GET_VCPU, vcpu);
	if (!r && vcpu->counters > KVM_VPMU_COUNTERS)
		vcpu->counters = KVM_VPMU_COUNTERS;
	return r;
}

int device_events(struct device *dev, __u64 vm, __u32 index, bool observe,
		  struct kvm_vpmu_events *events)
{
	*events = (struct kvm_vpmu_events){
		.vm = vm, .index = index, .flags = observe ? KVM_VPMU_EVENTS_OBSERVE : 0,
	};
	return dev->call(dev, KVM_VPMU_GET_EVENTS, events);
}
