/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of procfs and sysfs */
#ifndef SELFTESTS_FILES_H
#define SELFTESTS_FILES_H

#include <err.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static inline void put_string(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err(1, "%s", file);
	close(fd);
}

#endif
