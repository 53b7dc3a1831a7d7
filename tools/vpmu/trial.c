// SPDX-License-Identifier: GPL-2.0-or-later
#include "trial.h"

const char *objective_name(enum objective objective)
{
	static const char *const names[OBJECTIVES] = { "performance", "power", "energy", "none" };

	return names[objective];
}

double score(enum objective objective, const struct progress *p)
{
	switch (objective) {
	case FOR_POWER:
		return p->seconds / p->joules;
	case FOR_ENERGY:
		return p->instructions / p->joules;
	default:
		return p->instructions / p->runnable;
	}
}

void trial_init(struct trial *trial, const struct meter *meter, enum objective objective,
		enum mapping present)
{
	int i;

	*trial = (struct trial){ .objective = objective, .present = present };
	for (i = 0; i < MAPPINGS; i++)
		progress_init(&trial->sum[i], meter);
}

void trial_add(struct trial *trial, const struct meter *meter, const struct progress p[MAPPINGS])
{
	int i, j;

	for (i = 0; i < MAPPINGS; i++) {
		for (j = 0; j < MAPPINGS; j++)
			trial->beats[i][j] += score(trial->objective, &p[i]) >
					      score(trial->objective, &p[j]) * (1 + ROUND_MARGIN);
		progress_sum(&trial->sum[i], meter, &p[i]);
	}
	trial->rounds++;
}

/* Each round has a vote: a mapping that is better by chance isn't so in all of them. */
static bool wins_rounds(const struct trial *trial, enum mapping a, enum mapping b)
{
	return trial->beats[a][b] == trial->rounds;
}

/* Most trials of a VM that is where it should be end behind one round. */
bool trial_is_open(const struct trial *trial)
{
	int m;

	for (m = 0; m < MAPPINGS; m++)
		if (m != (int)trial->present && wins_rounds(trial, m, trial->present))
			return true;
	/* From none to the better one of the others, which isn't compared with none. */
	return trial->present == MAPPING_NONE &&
	       (wins_rounds(trial, MAPPING_LOCAL, MAPPING_INTERLEAVED) ||
		wins_rounds(trial, MAPPING_INTERLEAVED, MAPPING_LOCAL));
}

static bool beats(const struct trial *trial, enum mapping a, enum mapping b)
{
	return wins_rounds(trial, a, b) && score(trial->objective, &trial->sum[a]) >
					   score(trial->objective, &trial->sum[b]) * (1 + MARGIN);
}

/*
 * Local and interleaved vCPUs are compared with each other.  The scheduler may leave vCPUs for a
 * while where they were tried before, so that what it makes of them isn't known from a trial: where
 * that seems to be no worse than the better one, it's no reason to trust in it.
 */
enum mapping trial_winner(const struct trial *trial)
{
	enum mapping best = trial->present;

	if (beats(trial, MAPPING_LOCAL, MAPPING_INTERLEAVED))
		best = MAPPING_LOCAL;
	else if (beats(trial, MAPPING_INTERLEAVED, MAPPING_LOCAL))
		best = MAPPING_INTERLEAVED;
	return beats(trial, MAPPING_NONE, best) ? MAPPING_NONE : best;
}

double trial_lost(const struct trial *trial, enum mapping mapping)
{
	double lost = 0;
	int m;

	for (m = 0; m < MAPPINGS; m++)
		lost += trial->ns[m] / 1e9 * (1 - score(trial->objective, &trial->sum[m]) /
				score(trial->objective, &trial->sum[mapping]));
	return lost;
}

void trial_free(struct trial *trial)
{
	int i;

	for (i = 0; i < MAPPINGS; i++)
		progress_free(&trial->sum[i]);
}
