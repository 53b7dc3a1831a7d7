// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static bool read_number(const char *folder, const char *file, uint64_t *value)
{
	char *path = xasprintf("%s/%s", folder, file);
	FILE *f = fopen(path, "re");
	bool good = false;
	int64_t number;

	free(path);
	if (!f)
		return false;
	/* The offset is printed as a signed number. */
	good = fscanf(f, "%" SCNi64, &number) == 1;
	*value = number;
	fclose(f);
	return good;
}

/* While a nested guest runs, the offset is that guest's. */
static bool is_nested(const char *folder)
{
	uint64_t nested;

	return read_number(folder, "guest_mode", &nested) && nested;
}

static bool read_vcpu(struct guest_clock *clock, const char *folder)
{
	uint64_t bits;

	if (is_nested(folder) || !read_number(folder, "tsc-offset", &clock->offset) ||
	    is_nested(folder))
		return false;
	/* Without these files the CPU can't scale. */
	if (read_number(folder, "tsc-scaling-ratio", &clock->ratio) &&
	    read_number(folder, "tsc-scaling-ratio-frac-bits", &bits) && bits < 64) {
		clock->bits = bits;
	} else {
		clock->ratio = 1;
		clock->bits = 0;
	}
	return true;
}

static bool is_same(const struct guest_clock *a, const struct guest_clock *b)
{
	return a->offset == b->offset && a->ratio == b->ratio && a->bits == b->bits;
}

/* False: the vCPUs' clocks differ. */
static bool read_vcpus(struct guest_clock *clock, const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool same = true;

	while (dir && same && (entry = readdir(dir))) {
		struct guest_clock vcpu = { };
		char *path;

		if (strncmp(entry->d_name, "vcpu", 4))
			continue;
		path = xasprintf("%s/%s", folder, entry->d_name);
		if (read_vcpu(&vcpu, path)) {
			same = !clock->known || is_same(clock, &vcpu);
			*clock = vcpu;
			clock->known = true;
		}
		free(path);
	}
	if (dir)
		closedir(dir);
	return same;
}

/* False: several VMs, or vCPUs that differ */
static bool read_clock(struct guest_clock *clock, const char *folder, int pid)
{
	char *prefix = xasprintf("%d-", pid);
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool one = true, same = true, found = false;

	while (dir && (entry = readdir(dir))) {
		char *path;

		if (strncmp(entry->d_name, prefix, strlen(prefix)))
			continue;
		one = !found;
		found = true;
		path = xasprintf("%s/%s", folder, entry->d_name);
		same = same && read_vcpus(clock, path);
		free(path);
		if (!one)
			break;
	}
	if (dir)
		closedir(dir);
	free(prefix);
	return one && same;
}

void guest_clock_look(struct guest_clock *clock, const char *folder, int pid)
{
	struct guest_clock now = { };

	if (pid <= 0 || clock->changed)
		return;
	if (!read_clock(&now, folder, pid) ||
	    (now.known && clock->known && !is_same(&now, clock))) {
		*clock = (struct guest_clock){ .changed = true };
		return;
	}
	/* A VM that has ended had it until then. */
	if (now.known)
		*clock = now;
}

uint64_t guest_clock_tsc(const struct guest_clock *clock, uint64_t tsc)
{
	return (uint64_t)(((unsigned __int128)tsc * clock->ratio) >> clock->bits) + clock->offset;
}
