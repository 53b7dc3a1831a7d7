/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A host on which a guest's registers may be open (kmod/open.c). */
#ifndef OPEN_REGISTERS_H
#define OPEN_REGISTERS_H

#include <stdlib.h>

#include "tap.h"
#include "guests.h"
#include "files.h"
#include "pin.h"

#define OPEN_PARAMETER	"/sys/module/kvm_vpmu/parameters/open_registers"
#define RDPMC_PARAMETER	"/sys/module/kvm_vpmu/parameters/open_rdpmc"
#define WATCHDOG	"/proc/sys/kernel/nmi_watchdog"

static char watchdog[2];

static void restore_host(void)
{
	put_string(OPEN_PARAMETER, "Y");
	put_string(RDPMC_PARAMETER, "Y");
	put_string(WATCHDOG, watchdog);
}

/* The module's device, and the PMU that guests have; without the module there is nothing to test. */
static inline int open_device(struct pmu *pmu)
{
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	struct vm vm;

	if (device < 0)
		skip_all("no /dev/kvm-vpmu");
	vm = make_vm(true);
	*pmu = pmu_of(&vm);
	free_vm(&vm);
	return device;
}

/* Host perf has no event, until the test ends, which goes on on CPU 0. */
static inline void let_registers_open(void)
{
	int fd = open(WATCHDOG, O_RDONLY | O_CLOEXEC);

	pin(0, 0);
	if (fd < 0 || read(fd, watchdog, 1) != 1)
		err(1, WATCHDOG);
	close(fd);
	put_string(WATCHDOG, "0");
	atexit(restore_host);
}

#endif
