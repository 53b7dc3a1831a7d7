// SPDX-License-Identifier: GPL-2.0-or-later
#include "event.h"

#include <linux/kvm_vpmu.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypervisor.h"
#include "util.h"

/* More names than these for one unit mask are harder to read than a number. */
#define MAX_UMASK_NAMES	3

/* CPUs that have a vCPU's registers, for hosts that libpfm doesn't know */
static const char *const pmu_of_registers[] = {
	[KVM_VPMU_REGISTERS_AMD_LEGACY] = "amd64_fam10h_barcelona",
	[KVM_VPMU_REGISTERS_AMD_CORE] = "amd64_fam19h_zen3",
	[KVM_VPMU_REGISTERS_AMD_V2] = "amd64_fam19h_zen4",
};

/* Fill @table with the events of the PMU @info. */
static void load(struct event_table *table, const pfm_pmu_info_t *info)
{
	int i;

	table->pmu = info->name;
	for (i = info->first_event; i >= 0; i = pfm_get_event_next(i)) {
		pfm_event_info_t event = { .size = sizeof(event) };

		if (pfm_get_event_info(i, PFM_OS_NONE, &event) != PFM_SUCCESS)
			continue;
		table->entry = xrealloc(table->entry, (table->count + 1) * sizeof(*table->entry));
		table->entry[table->count++] = (struct event_entry){ event.code, i };
	}
}

/* libpfm's PMU of what all Intel CPUs have; it is present beside the CPU's own */
#define INTEL_ARCHITECTURAL	"ix86arch"

/* The same for Intel's registers */
#define INTEL_PMU		"skl"

static bool is_intel(uint32_t registers)
{
	return registers >= KVM_VPMU_REGISTERS_INTEL &&
	       registers < KVM_VPMU_REGISTERS_INTEL + 0x100;
}

/* Is it the core's PMU of a CPU that is there, of that vendor? */
static bool is_core(const pfm_pmu_info_t *info, bool intel)
{
	if (!info->is_present || info->type != PFM_PMU_TYPE_CORE)
		return false;
	if (!intel)
		return !strncmp(info->name, "amd64_", 6);
	return strncmp(info->name, "amd64_", 6) && strncmp(info->name, "perf", 4) &&
	       strcmp(info->name, INTEL_ARCHITECTURAL);
}

/* Find the PMU called @name, or, if that is NULL, the core's that is present. */
static bool find(struct event_table *table, const char *name, bool intel)
{
	int i;

	for (i = 0; i < PFM_PMU_MAX; i++) {
		pfm_pmu_info_t info = { .size = sizeof(info) };

		if (pfm_get_pmu_info(i, &info) != PFM_SUCCESS)
			continue;
		if (name ? strcmp(info.name, name) != 0 : !is_core(&info, intel))
			continue;
		load(table, &info);
		return true;
	}
	return false;
}

void event_names_init(struct event_names *names)
{
	unsigned int i;

	*names = (struct event_names){ };
	if (pfm_initialize() != PFM_SUCCESS || find(&names->host, NULL, false))
		return;
	if (!find(&names->intel, NULL, true))
		find(&names->intel, INTEL_PMU, true);
	for (i = 0; i < ARRAY_SIZE(pmu_of_registers); i++) {
		if (pmu_of_registers[i])
			find(&names->registers[i], pmu_of_registers[i], false);
	}
}

bool event_names_init_pmu(struct event_names *names, const char *pmu)
{
	*names = (struct event_names){ };
	return pfm_initialize() == PFM_SUCCESS && find(&names->host, pmu, false);
}

void event_names_free(struct event_names *names)
{
	unsigned int i;

	free(names->host.entry);
	free(names->intel.entry);
	for (i = 0; i < ARRAY_SIZE(names->registers); i++)
		free(names->registers[i].entry);
	*names = (struct event_names){ };
}

struct text {
	char *at;
	size_t room;
};

static void add(struct text *text, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text->at, text->room, format, args);
	va_end(args);
	if (n < 0)
		return;
	if ((size_t)n >= text->room)
		n = text->room - 1;
	text->at += n;
	text->room -= n;
}

/* Attribute @i of @event, if that is a unit mask. */
static bool get_umask(const pfm_event_info_t *event, int i, pfm_event_attr_info_t *attr)
{
	*attr = (pfm_event_attr_info_t){ .size = sizeof(*attr) };
	return pfm_get_event_attr_info(event->idx, i, PFM_OS_NONE, attr) == PFM_SUCCESS &&
	       attr->type == PFM_ATTR_UMASK && !attr->equiv;
}

/*
 * The unit mask: what has its very value if there is such a name; else the
 * names of its bits, if it consists of flags.  There are unit masks with fields
 * of several bits, where a name of one bit is just one of the field's values.
 */
static void add_umask(struct text *text, const pfm_event_info_t *event, unsigned int umask)
{
	unsigned int flags = 0, wide = 0, names = 0;
	pfm_event_attr_info_t attr;
	int i, any = 0;

	for (i = 0; i < event->nattrs; i++) {
		if (!get_umask(event, i, &attr))
			continue;
		any = 1;
		if (attr.code == umask) {
			add(text, ":%s", attr.name);
			return;
		}
		if (__builtin_popcountll(attr.code) == 1)
			flags |= attr.code;
	}
	if (!any && !umask)
		return;
	for (i = 0; i < event->nattrs; i++) {
		if (get_umask(event, i, &attr) && __builtin_popcountll(attr.code) > 1 &&
		    (attr.code & flags) != flags)
			wide = 1;
	}
	if (umask && !wide && !(umask & ~flags) &&
	    __builtin_popcount(umask) <= MAX_UMASK_NAMES) {
		for (i = 0; i < event->nattrs; i++) {
			if (get_umask(event, i, &attr) && (attr.code & umask & ~names) &&
			    __builtin_popcountll(attr.code) == 1) {
				add(text, ":%s", attr.name);
				names |= attr.code;
			}
		}
		return;
	}
	add(text, ":0x%x", umask);
}

static bool add_event(struct text *text, const struct event_table *table, uint64_t select)
{
	size_t i;

	for (i = 0; i < table->count; i++) {
		pfm_event_info_t event = { .size = sizeof(event) };

		if (table->entry[i].code != EVENT_CODE(select) ||
		    pfm_get_event_info(table->entry[i].index, PFM_OS_NONE, &event) != PFM_SUCCESS)
			continue;
		add(text, "%s", event.name);
		add_umask(text, &event, EVENT_UMASK(select));
		return true;
	}
	return false;
}

/* Has the unit mask of @event that very value somewhere? */
static bool knows_umask(const pfm_event_info_t *event, unsigned int umask)
{
	pfm_event_attr_info_t attr;
	bool any = false;
	int i;

	for (i = 0; i < event->nattrs; i++) {
		if (!get_umask(event, i, &attr))
			continue;
		any = true;
		if (attr.code == umask)
			return true;
	}
	return !any && !umask;
}

/*
 * Intel's tables have some events by their unit mask's name, others as an event of its own,
 * whose code is that with the unit mask.  Take what says most.
 */
static bool add_intel_event(struct text *text, const struct event_table *table, uint64_t select)
{
	enum { NOTHING, BY_CODE, BY_UMASK, WHOLE } found = NOTHING;
	pfm_event_info_t best = { .size = sizeof(best) };
	size_t i;

	for (i = 0; i < table->count; i++) {
		pfm_event_info_t event = { .size = sizeof(event) };
		uint32_t code = table->entry[i].code;
		int now;

		if ((code != (select & 0xffff) && code != (select & 0xff)) ||
		    pfm_get_event_info(table->entry[i].index, PFM_OS_NONE, &event) != PFM_SUCCESS)
			continue;
		now = code > 0xff ? WHOLE :
		      knows_umask(&event, EVENT_UMASK(select)) ? BY_UMASK : BY_CODE;
		if (now > (int)found) {
			found = now;
			best = event;
		}
	}
	if (found == NOTHING)
		return false;
	add(text, "%s", best.name);
	if (found != WHOLE)
		add_umask(text, &best, EVENT_UMASK(select));
	return true;
}

void event_name(const struct event_names *names, uint32_t registers, uint64_t select,
		char buf[EVENT_NAME_SIZE])
{
	const struct hypervisor_event *hypervisor = hypervisor_event_of(select, is_intel(registers));
	const struct event_table *table = &names->host;
	struct text text = { buf, EVENT_NAME_SIZE };

	buf[0] = 0;
	if (hypervisor) {
		add(&text, "%s", hypervisor->name);
	} else if (is_intel(registers)) {
		if (!add_intel_event(&text, &names->intel, select))
			add(&text, "r%llx", (unsigned long long)(select & 0xffff));
	} else {
		if (!table->pmu && registers < ARRAY_SIZE(names->registers))
			table = &names->registers[registers];
		if (!add_event(&text, table, select))
			add(&text, "r%llx", (unsigned long long)(select & 0xf0000ffffull));
	}

	/* libpfm takes both levels for granted when none is named. */
	if (!(select & (EVENT_USR | EVENT_OS)))
		add(&text, ":u=0:k=0");
	if (select & EVENT_USR)
		add(&text, ":u");
	if (select & EVENT_OS)
		add(&text, ":k");
	if (select & EVENT_EDGE)
		add(&text, ":e");
	if (select & EVENT_INV)
		add(&text, ":i");
	if (EVENT_CMASK(select))
		add(&text, ":c=%u", EVENT_CMASK(select));
}
