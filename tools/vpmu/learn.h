/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What trials teach about this machine: which mapping is the better one for a VM, from what is
 * measured while it runs in the present one.
 */
#ifndef LEARN_H
#define LEARN_H

#include <json-c/json.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "cmd.h"
#include "domains.h"
#include "fills.h"
#include "fit.h"
#include "meter.h"
#include "trial.h"

/* The file by default */
#define LEARN_FILE	"/var/lib/vpmu/map.json"

/* So many windows have to tell the same. */
#define LEARN_WINDOWS	3

/* One of so many decisions at least is tried, so that mistakes are seen. */
#define LEARN_TRY	8

/**
 * struct learner - what keeps samples of this machine
 * @path: the file
 * @events: what counts where loads are from
 * @machine: what the file is of
 */
struct learner {
	const char *path;
	struct fill_events events;
	struct json_object *machine;
};

/**
 * struct situation - of a VM
 * @objective: what is better
 * @powercap: power is measured, and isn't a model's
 * @present: its mapping
 * @vcpus: how many
 * @domains: where it may run
 * @window: what was measured in @present, LEARN_WINDOWS times
 * @sum: of these
 */
struct situation {
	enum objective objective;
	bool powercap;
	enum mapping present;
	size_t vcpus;
	const struct domains *domains;
	struct progress window[LEARN_WINDOWS], sum;
};

/**
 * struct advice - what the models say
 * @mapping: the one to choose; MAPPINGS: a trial has to tell
 * @saves: how much less it takes in local than in interleaved, as a share of what it takes now:
 *	time for an instruction, power, or energy for an instruction; below 0, it takes more
 */
struct advice {
	enum mapping mapping;
	struct prediction saves;
};

/* They say nothing. */
#define NO_ADVICE	{ MAPPINGS, { NAN, INFINITY } }

/*
 * Begin, with the file @path and the events @fills ("SOURCE=EVENT,...", which is changed and kept),
 * or those known of this CPU if that is NULL.  Complains of what is wrong with them.
 */
enum status learner_open(struct learner *learner, const char *path, char *fills);

void learner_close(struct learner *learner);

struct advice learner_ask(const struct learner *learner, const struct situation *now);

/* Note that what it said was done. */
void learner_note(const struct learner *learner);

/* Learn from a trial behind @now; returns what learner_ask() should have said of @saves. */
double learner_learn(const struct learner *learner, const struct situation *now,
		     const struct trial *trial);

/* The mapping to choose in @present, if @saves is so; MAPPINGS: it isn't sure enough. */
enum mapping choose_by(enum mapping present, struct prediction saves);

#endif
