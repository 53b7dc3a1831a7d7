// SPDX-License-Identifier: GPL-2.0-or-later
#include "module.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

/* The first line of a file, to be freed; NULL if there is none */
static char *read_line(char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	free(path);
	if (!f)
		return NULL;
	if (getline(&line, &size, f) < 0) {
		free(line);
		line = NULL;
	} else {
		line[strcspn(line, "\n")] = 0;
		clean_text(line);
	}
	fclose(f);
	return line;
}

char *module_version(const char *module)
{
	return read_line(xasprintf("%s/version", module));
}

char *module_parameter(const char *module, const char *name)
{
	return read_line(xasprintf("%s/parameters/%s", module, name));
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* alphasort() has the order of the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

void module_parameters(struct parameters *parameters, const char *module)
{
	char *path = xasprintf("%s/parameters", module);
	struct dirent **entries;
	int i, n = scandir(path, &entries, visible, by_name);

	free(path);
	*parameters = (struct parameters){ };
	if (n < 0)
		return;
	parameters->list = xrealloc(NULL, n * sizeof(*parameters->list));
	for (i = 0; i < n; i++) {
		struct parameter *p = &parameters->list[parameters->count++];

		p->value = module_parameter(module, entries[i]->d_name);
		p->name = xasprintf("%s", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

void parameters_free(struct parameters *parameters)
{
	size_t i;

	for (i = 0; i < parameters->count; i++) {
		free(parameters->list[i].name);
		free(parameters->list[i].value);
	}
	free(parameters->list);
	*parameters = (struct parameters){ };
}

int module_set_parameter(const char *module, const char *name, const char *value)
{
	char *path = xasprintf("%s/parameters/%s", module, name);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), r = 0;	/* as the shell's > */

	free(path);
	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		r = -errno;
	close(fd);
	return r;
}
