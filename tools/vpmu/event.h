/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of events: from a guest's event select register back to what libpfm4
 * calls it, and from a name to what host perf counts.
 */
#ifndef EVENT_H
#define EVENT_H

#include <perfmon/pfmlib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Event select registers: AMD APM vol. 2, "Performance Event-Select Registers"; Intel SDM
 * vol. 3, "Architectural Performance Monitoring", which has 8 bits of the event code only
 */
#define EVENT_CODE(select)	(((select) & 0xff) | ((select) >> 24 & 0xf00))
#define EVENT_UMASK(select)	((unsigned int)((select) >> 8 & 0xff))
#define EVENT_USR		(1ull << 16)
#define EVENT_OS		(1ull << 17)
#define EVENT_EDGE		(1ull << 18)
#define EVENT_INT		(1ull << 20)
#define EVENT_EN		(1ull << 22)
#define EVENT_INV		(1ull << 23)
#define EVENT_CMASK(select)	((unsigned int)((select) >> 24 & 0xff))

/* One event of a table: its code and libpfm's number. */
struct event_entry {
	uint32_t code;
	int index;
};

/**
 * struct event_table - the events of one CPU family
 * @pmu: libpfm's name of it; NULL if there is no table
 * @entry: the events
 * @count: how many
 */
struct event_table {
	const char *pmu;
	struct event_entry *entry;
	size_t count;
};

/**
 * struct event_names - all tables that were asked for
 * @host: of the CPU that libpfm detects, which is what counts
 * @registers: if it detects none: of a CPU with the same registers as the
 *	vCPU, by KVM_VPMU_REGISTERS_...
 * @intel: of the Intel CPU that it detects; if it detects none, of another one
 */
struct event_names {
	struct event_table host;
	struct event_table registers[4];
	struct event_table intel;
};

/* Room for event_name() */
#define EVENT_NAME_SIZE		256

/*
 * Prepare @names.  Without libpfm, or with a CPU that it doesn't know, there
 * are fewer names, or none; that is no error.
 */
void event_names_init(struct event_names *names);

/* The same, with @host the PMU that libpfm calls @pmu; false if it knows none. */
bool event_names_init_pmu(struct event_names *names, const char *pmu);

/* Free what @names holds. */
void event_names_free(struct event_names *names);

/*
 * The name of what the event select @select of a vCPU with @registers counts,
 * as libpfm takes it: EVENT[:UMASK]...[:MODIFIER]...  A unit mask without a
 * name is ":0xNN", an event without a name "rNNN" as perf takes it: event code
 * bits 11:8 in bits 35:32, unit mask, event code bits 7:0.  (Where a unit mask
 * has groups, on family 10h, libpfm would add defaults of those not named.)
 */
void event_name(const struct event_names *names, uint32_t registers, uint64_t select,
		char buf[EVENT_NAME_SIZE]);

/* An event of this host's CPU counters, as struct perf_event_attr has it */
struct event_code {
	uint32_t type;
	uint64_t config;
};

/*
 * The event that perf's rNNN, or a name of libpfm4's, is.  False: *@why, to be freed, says why there
 * is none.
 */
bool event_encode(const char *name, struct event_code *code, char **why);

#endif
