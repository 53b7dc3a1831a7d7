/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the vCPUs of a VM can be: groups of CPUs that share a last-level cache. */
#ifndef DOMAINS_H
#define DOMAINS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * struct domain - CPUs that share a last-level cache, or a socket where hwloc knows no such cache
 * @cpus: those of them that a VM may use
 * @count: how many
 * @busy: how many of them others have kept busy, on average
 */
struct domain {
	cpu_set_t cpus;
	unsigned int count;
	double busy;
};

/**
 * struct domains - all that have a CPU that the VM may use
 * @domain: these
 * @count: how many
 */
struct domains {
	struct domain *domain;
	size_t count;
};

/* Ways to place vCPUs, after Bae et al. (HPDC 2012) */
enum mapping {
	MAPPING_NONE,		/* wherever the VM may run: the scheduler decides */
	MAPPING_LOCAL,		/* in as few domains as have a CPU for each vCPU */
	MAPPING_INTERLEAVED,	/* spread over all domains */
	MAPPINGS,
};

const char *mapping_name(enum mapping mapping);

/* Find those with CPUs of @allowed; false, with errno: the machine's topology isn't known. */
bool domains_find(struct domains *domains, const cpu_set_t *allowed);

void domains_free(struct domains *domains);

/*
 * Give each of @vcpus vCPUs its CPUs, local or interleaved: @cpus has room for them.  Local vCPUs are
 * in the domains with the most CPUs, of these in those that are least busy; neighbours by number are
 * neighbours there.
 */
void domains_place(const struct domains *domains, enum mapping mapping, size_t vcpus,
		   cpu_set_t *cpus);

/* CPUs as text, to be freed: "0-3,8" */
char *domains_cpus(const cpu_set_t *cpus);

#endif
