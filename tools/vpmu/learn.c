// SPDX-License-Identifier: GPL-2.0-or-later
#include "learn.h"

#include <cpuid.h>
#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "util.h"

/*
 * Behind loads by their sources.  Domains, and CPUs of the largest one, aren't the same for all
 * VMs: some may not use all.
 */
enum { SPEED, LOAD, CROWD, DOMAINS, OTHERS };

static const char *const other_names[OTHERS] = {
	[SPEED] = "instructions/ns", [LOAD] = "load/vCPU", [CROWD] = "vCPUs/CPU of a domain",
	[DOMAINS] = "domains",
};

_Static_assert(FILL_SOURCES + OTHERS <= FIT_FEATURES, "room for all features");

static size_t count_features(const struct learner *learner)
{
	size_t n = OTHERS;
	int i;

	for (i = 0; i < FILL_SOURCES; i++)
		n += !!learner->events.name[i];
	return n;
}

/* ---- the machine */

/*
 * As perf names CPUs ("GenuineIntel-6-55-4"): AMD APM vol. 3, Intel SDM vol. 2, CPUID, functions 0
 * and 1.
 */
static char *cpu_name(void)
{
	unsigned int a = 0, b, c, d, vendor[3] = { };
	unsigned int family, model;

	__get_cpuid(0, &a, &vendor[0], &vendor[2], &vendor[1]);
	__get_cpuid(1, &a, &b, &c, &d);
	family = a >> 8 & 15;
	model = a >> 4 & 15;
	if (family == 6 || family == 15)
		model |= a >> 12 & 0xf0;
	if (family == 15)
		family += a >> 20 & 0xff;
	return xasprintf("%.12s-%u-%X-%X", (const char *)vendor, family, model, a & 15);
}

static struct json_object *domains_json(void)
{
	struct json_object *o = json_object_new_array();
	struct domains domains;
	cpu_set_t all;
	size_t i;

	memset(&all, 0xff, sizeof(all));
	if (domains_find(&domains, &all))
		for (i = 0; i < domains.count; i++)
			json_object_array_add(o, json_object_new_int64(domains.domain[i].count));
	domains_free(&domains);
	return o;
}

static struct json_object *machine_json(const struct learner *learner)
{
	struct json_object *features = json_object_new_array(), *events = json_object_new_array();
	struct json_object *o = json_object_new_object();
	char *cpu = cpu_name();
	int i;

	for (i = 0; i < FILL_SOURCES; i++) {
		if (!learner->events.name[i])
			continue;
		json_object_array_add(features, json_object_new_string(fill_name(i)));
		json_object_array_add(events, json_object_new_string(learner->events.name[i]));
	}
	for (i = 0; i < OTHERS; i++)
		json_object_array_add(features, json_object_new_string(other_names[i]));
	json_object_object_add(o, "cpu", json_object_new_string(cpu));
	free(cpu);
	json_object_object_add(o, "domains", domains_json());
	json_object_object_add(o, "features", features);
	json_object_object_add(o, "events", events);
	return o;
}

/* ---- the file */

static bool load(const struct learner *learner, struct fit *fit)
{
	char *why;

	if (fit_load(fit, learner->path, learner->machine, count_features(learner), &why))
		return true;
	warnx("%s", why);
	free(why);
	return false;
}

/* To be changed, and to be given to store(); negative: that can't be. */
static int load_locked(const struct learner *learner, struct fit *fit)
{
	int lock = fit_lock(learner->path);

	if (lock < 0) {
		warnx("%s: %s", learner->path, strerror(-lock));
	} else if (!load(learner, fit)) {
		close(lock);
		return -1;
	}
	return lock;
}

static void store(const struct learner *learner, struct fit *fit, int lock)
{
	char *why;

	if (!fit_save(fit, learner->path, learner->machine, &why)) {
		warnx("%s", why);
		free(why);
	}
	close(lock);
	fit_free(fit);
}

enum status learner_open(struct learner *learner, const char *path, char *fills)
{
	struct fit fit;
	char *why;
	int lock;

	*learner = (struct learner){ .path = path };
	if (fills && !fill_events_parse(&learner->events, fills, &why)) {
		warnx("%s", why);
		free(why);
		return STATUS_USAGE;
	}
	if (!fills && !fill_events_find(&learner->events)) {
		warnx("no events of where loads are from are known of this CPU: name some with --fills");
		return STATUS_ERROR;
	}
	learner->machine = machine_json(learner);
	/* Also whether it can be written */
	lock = load_locked(learner, &fit);
	if (lock < 0)
		return STATUS_ERROR;
	close(lock);
	fit_free(&fit);
	return STATUS_OK;
}

void learner_close(struct learner *learner)
{
	json_object_put(learner->machine);
}

/* ---- samples */

/* Power that is measured, and that of the model, aren't the same. */
static char *group_name(const struct situation *now, enum mapping mapping)
{
	return xasprintf("%s%s, %s", objective_name(now->objective),
			 now->objective != FOR_PERFORMANCE && !now->powercap ? " by the model" : "",
			 mapping_name(mapping));
}

/*
 * Linear models are right for a CPU that waits for each load for a time that its source has: in
 * another mapping, loads have other sources, and the sum of these times changes.  So loads are per
 * us in which vCPUs were runnable, not per instruction.
 */
static void features_of(const struct learner *learner, const struct situation *now,
			const struct progress *p, double feature[FIT_FEATURES])
{
	double *other = feature;
	size_t largest = 1, i;

	for (i = 0; i < FILL_SOURCES; i++)
		if (learner->events.name[i])
			*other++ = p->loads[i] / p->runnable / 1e6;
	for (i = 0; i < now->domains->count; i++)
		if (now->domains->domain[i].count > largest)
			largest = now->domains->domain[i].count;
	other[SPEED] = p->instructions / p->runnable / 1e9;
	other[LOAD] = p->runnable / p->seconds / now->vcpus;
	other[CROWD] = (double)now->vcpus / largest;
	other[DOMAINS] = now->domains->count;
}

enum mapping choose_by(enum mapping present, struct prediction saves)
{
	double least = saves.value - saves.band, most = saves.value + saves.band;

	if (least > MARGIN)
		return MAPPING_LOCAL;
	if (most < -MARGIN)
		return MAPPING_INTERLEAVED;
	/* It's enough to know that the other one isn't better. */
	if ((present == MAPPING_INTERLEAVED || least > -MARGIN) &&
	    (present == MAPPING_LOCAL || most < MARGIN))
		return present;
	return MAPPINGS;
}

static struct prediction predict(const struct learner *learner, const struct fit *fit,
				 const struct situation *now, const struct progress *p)
{
	double feature[FIT_FEATURES] = { };
	char *group = group_name(now, now->present);
	struct prediction prediction;

	features_of(learner, now, p, feature);
	prediction = fit_predict(fit, group, feature);
	free(group);
	return prediction;
}

struct advice learner_ask(const struct learner *learner, const struct situation *now)
{
	struct advice advice = NO_ADVICE;
	struct fit fit;
	int i;

	if (!load(learner, &fit))
		return advice;
	advice.saves = predict(learner, &fit, now, &now->sum);
	advice.mapping = choose_by(now->present, advice.saves);
	for (i = 0; i < LEARN_WINDOWS; i++)
		if (choose_by(now->present, predict(learner, &fit, now, &now->window[i])) !=
		    advice.mapping)
			advice.mapping = MAPPINGS;
	if (fit.untried >= LEARN_TRY - 1)
		advice.mapping = MAPPINGS;
	fit_free(&fit);
	return advice;
}

void learner_note(const struct learner *learner)
{
	struct fit fit;
	int lock = load_locked(learner, &fit);

	if (lock < 0)
		return;
	fit.untried++;
	store(learner, &fit, lock);
}

/* Idle vCPUs have no features. */
static bool is_whole(const struct fit_sample *sample)
{
	size_t i;

	for (i = 0; i < FIT_FEATURES; i++)
		if (!isfinite(sample->feature[i]))
			return false;
	return isfinite(sample->target);
}

double learner_learn(const struct learner *learner, const struct situation *now,
		     const struct trial *trial)
{
	double saves = 1 / score(trial->objective, &trial->sum[MAPPING_INTERLEAVED]) -
		       1 / score(trial->objective, &trial->sum[MAPPING_LOCAL]);
	double told = saves * score(now->objective, &now->sum);
	struct fit fit;
	int m, lock = load_locked(learner, &fit);

	if (lock < 0)
		return told;
	for (m = 0; m < MAPPINGS; m++) {
		const struct progress *p = m == (int)now->present ? &now->sum : &trial->sum[m];
		struct fit_sample sample = { .target = saves * score(now->objective, p) };
		char *group = group_name(now, m);

		/* What the scheduler makes of it isn't seen in a trial: trial_winner() */
		features_of(learner, now, p, sample.feature);
		if ((m != MAPPING_NONE || (int)now->present == m) && is_whole(&sample))
			fit_add(&fit, group, &sample);
		free(group);
	}
	fit.untried = 0;
	store(learner, &fit, lock);
	return told;
}
