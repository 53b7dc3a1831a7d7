/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's kernel, for what nothing but its version or its debugfs shows. */
#ifndef SELFTESTS_KERNEL_H
#define SELFTESTS_KERNEL_H

#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static inline bool kernel_at_least(unsigned int major, unsigned int minor)
{
	unsigned int has_major, has_minor;
	struct utsname name;

	if (uname(&name) || sscanf(name.release, "%u.%u", &has_major, &has_minor) != 2)
		err(1, "the kernel's version");
	return has_major > major || (has_major == major && has_minor >= minor);
}

/* Does it look for mistakes (fault injection, KCSAN)?  Each of its functions takes several times as long. */
static inline bool kernel_is_slow(void)
{
	return !access("/sys/kernel/debug/failslab", F_OK) || !access("/sys/kernel/debug/kcsan", F_OK);
}

/* Has it a function of that name, in itself or in a module? */
static inline bool kernel_has(const char *function)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	bool found = false;
	char name[128];

	if (!file)
		err(1, "/proc/kallsyms");
	while (!found && fscanf(file, "%*s %*s %127s%*[^\n]", name) == 1)
		found = !strcmp(name, function);
	fclose(file);
	return found;
}

#endif
