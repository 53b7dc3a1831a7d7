/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A host on which a guest's registers may be open (kmod/open.c). */
#ifndef OPEN_REGISTERS_H
#define OPEN_REGISTERS_H

#include <stdlib.h>

#include "files.h"

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

/* Host perf has no event, until the test ends. */
static inline void let_registers_open(void)
{
	int fd = open(WATCHDOG, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, watchdog, 1) != 1)
		err(1, WATCHDOG);
	close(fd);
	put_string(WATCHDOG, "0");
	atexit(restore_host);
}

#endif
