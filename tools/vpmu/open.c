// SPDX-License-Identifier: GPL-2.0-or-later
/* The real device. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "device.h"
#include "module.h"

static int call(struct device *dev, unsigned long request, void *arg)
{
	int r = ioctl(dev->fd, request, arg);

	return r < 0 ? -errno : r;
}

int device_connect(struct device *dev)
{
	int fd = open(DEVICE_PATH, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*dev = (struct device){ .call = call, .fd = fd };
	return 0;
}

/* Out of the way of programs and shells that use low descriptors without asking */
#define INHERITED_FD	100

int device_inherit(struct device *dev)
{
	int fd = fcntl(dev->fd, F_DUPFD, INHERITED_FD);

	/* Not with so small a limit of descriptors: as it is then */
	if (fd < 0)
		return fcntl(dev->fd, F_SETFD, 0) ? -errno : 0;
	close(dev->fd);
	dev->fd = fd;
	return 0;
}

const char *device_module(const struct device *dev)
{
	(void)dev;
	return "/sys/module/kvm_vpmu";
}

int device_set_parameter(struct device *dev, const char *name, const char *value)
{
	return module_set_parameter(device_module(dev), name, value);
}

void device_disconnect(struct device *dev)
{
	close(dev->fd);
}
