/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of procfs and sysfs */
#ifndef SELFTESTS_FILES_H
#define SELFTESTS_FILES_H

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void put_string(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err(1, "%s", file);
	close(fd);
}

/* How many interrupts of @kind, as /proc/interrupts names it ("NMI"), CPU @cpu has had; all CPUs are online */
static inline unsigned long interrupts(const char *kind, unsigned int cpu)
{
	FILE *file = fopen("/proc/interrupts", "re");
	const size_t length = strlen(kind);
	unsigned long n = 0;
	char line[4096];

	if (!file)
		err(1, "/proc/interrupts");
	while (fgets(line, sizeof(line), file)) {
		char *at = line + strspn(line, " ");

		if (strncmp(at, kind, length) || at[length] != ':')
			continue;
		at += length + 1;
		for (unsigned int i = 0; i <= cpu; i++)
			n = strtoul(at, &at, 10);
		break;
	}
	fclose(file);
	return n;
}

#endif
