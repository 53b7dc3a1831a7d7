/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a trial of all mappings says: which is the better one. */
#ifndef TRIAL_H
#define TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "domains.h"
#include "meter.h"

/* A mapping has to be better than the present one by that in all rounds together, and in each */
#define MARGIN		0.02
#define ROUND_MARGIN	0.01

/* What is better */
enum objective { FOR_PERFORMANCE, FOR_POWER, FOR_ENERGY, FOR_NONE, OBJECTIVES };

const char *objective_name(enum objective objective);

/* More is better; NaN: nothing was measured. */
double score(enum objective objective, const struct progress *p);

/**
 * struct trial - of all mappings
 * @objective: what is better
 * @present: the mapping before the trial
 * @sum: what was measured in each
 * @ns: how long the VM was in each, also before that was measured
 * @beats: in how many rounds the one was better than the other, by ROUND_MARGIN
 * @rounds: how many there were
 */
struct trial {
	enum objective objective;
	enum mapping present;
	struct progress sum[MAPPINGS];
	uint64_t ns[MAPPINGS];
	uint64_t beats[MAPPINGS][MAPPINGS];
	uint64_t rounds;
};

/* Begin one, of what @meter measures. */
void trial_init(struct trial *trial, const struct meter *meter, enum objective objective,
		enum mapping present);

/* Add what was measured in a round, in each mapping. */
void trial_add(struct trial *trial, const struct meter *meter, const struct progress p[MAPPINGS]);

/* May rounds after these still change the mapping? */
bool trial_is_open(const struct trial *trial);

/* The mapping that it is for; @trial->present if none is better. */
enum mapping trial_winner(const struct trial *trial);

/* What it cost: so many seconds in @mapping would have done the rest.  NaN: it had no round. */
double trial_lost(const struct trial *trial, enum mapping mapping);

void trial_free(struct trial *trial);

#endif
