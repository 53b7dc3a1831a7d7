// SPDX-License-Identifier: GPL-2.0-or-later
#include "domains.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <stdlib.h>

#include "util.h"

const char *mapping_name(enum mapping mapping)
{
	static const char *const names[] = {
		[MAPPING_NONE] = "none", [MAPPING_LOCAL] = "local",
		[MAPPING_INTERLEAVED] = "interleaved",
	};

	return names[mapping];
}

static void add(struct domains *domains, hwloc_topology_t topology, hwloc_obj_t object,
		const cpu_set_t *allowed)
{
	struct domain domain = { };

	hwloc_cpuset_to_glibc_sched_affinity(topology, object->cpuset, &domain.cpus,
					     sizeof(domain.cpus));
	CPU_AND(&domain.cpus, &domain.cpus, allowed);
	domain.count = CPU_COUNT(&domain.cpus);
	if (!domain.count)
		return;
	domains->domain = xgrow(domains->domain, domains->count, sizeof(*domains->domain));
	domains->domain[domains->count++] = domain;
}

bool domains_find(struct domains *domains, const cpu_set_t *allowed)
{
	hwloc_obj_type_t type = HWLOC_OBJ_L3CACHE;
	hwloc_topology_t topology;
	hwloc_obj_t object = NULL;

	*domains = (struct domains){ };
	if (hwloc_topology_init(&topology))
		return false;
	if (hwloc_topology_load(topology)) {
		hwloc_topology_destroy(topology);
		return false;
	}
	if (hwloc_get_nbobjs_by_type(topology, type) < 1)
		type = HWLOC_OBJ_PACKAGE;
	while ((object = hwloc_get_next_obj_by_type(topology, type, object)))
		add(domains, topology, object, allowed);
	hwloc_topology_destroy(topology);
	return true;
}

void domains_free(struct domains *domains)
{
	free(domains->domain);
}

/* The largest first, of those of a size the least busy */
static int by_room(const void *a, const void *b)
{
	const struct domain *left = *(const struct domain *const *)a,
			    *right = *(const struct domain *const *)b;

	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	if (left->busy != right->busy)
		return left->busy < right->busy ? -1 : 1;
	/* qsort() has no order of equals. */
	return left < right ? -1 : left > right;
}

/* How many CPUs the first of @order have that have one for each vCPU; of all, if they don't */
static size_t room_of(const struct domain **order, size_t domains, size_t vcpus)
{
	size_t i, room = 0;

	for (i = 0; i < domains && room < vcpus; i++)
		room += order[i]->count;
	return room;
}

/* The one that has CPU @at, if the CPUs of all are counted in this order */
static const struct domain *domain_at(const struct domain **order, size_t at)
{
	for (; at >= (*order)->count; order++)
		at -= (*order)->count;
	return *order;
}

void domains_place(const struct domains *domains, enum mapping mapping, size_t vcpus,
		   cpu_set_t *cpus)
{
	const struct domain **order = xrealloc(NULL, domains->count * sizeof(*order));
	size_t i, room;

	for (i = 0; i < domains->count; i++)
		order[i] = &domains->domain[i];
	qsort(order, domains->count, sizeof(*order), by_room);
	room = room_of(order, domains->count, vcpus);
	for (i = 0; i < vcpus; i++) {
		if (mapping == MAPPING_LOCAL)
			cpus[i] = domain_at(order, room < vcpus ? i * room / vcpus : i)->cpus;
		else
			cpus[i] = order[i % domains->count]->cpus;
	}
	free(order);
}

char *domains_cpus(const cpu_set_t *cpus)
{
	hwloc_bitmap_t bitmap = hwloc_bitmap_alloc();
	char *text;
	int cpu;

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, cpus))
			hwloc_bitmap_set(bitmap, cpu);
	if (hwloc_bitmap_list_asprintf(&text, bitmap) < 0)
		text = xasprintf("?");
	hwloc_bitmap_free(bitmap);
	return text;
}
