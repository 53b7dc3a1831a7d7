/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Models that are learnt from samples: a number is told from features by linear regression.  A file
 * keeps the samples; a prediction is made from all there are.
 */
#ifndef FIT_H
#define FIT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Features at most, and the coefficients of these and of 1 */
#define FIT_FEATURES	10
#define FIT_UNKNOWNS	(FIT_FEATURES + 1)

/* A model has so many samples at most; the oldest go. */
#define FIT_SAMPLES	1000

/* It says nothing with less than that, or than twice as many as it has unknowns that matter. */
#define FIT_LEAST	12

/* A feature with a smaller deviation is the same in all samples; its unit has to fit to that. */
#define FIT_SAME	0.05

/**
 * struct fit_sample - what was seen once
 * @target: what is to be told
 * @feature: what it is to be told from
 */
struct fit_sample {
	double target;
	double feature[FIT_FEATURES];
};

/**
 * struct fit_group - what one model is of
 * @name: of it
 * @sample: the oldest first
 * @samples: how many
 */
struct fit_group {
	char *name;
	struct fit_sample *sample;
	size_t samples;
};

/**
 * struct fit - what a file has
 * @features: of each sample
 * @group: one for each model
 * @groups: how many
 * @untried: decisions by the models since one was tried last
 */
struct fit {
	size_t features;
	struct fit_group *group;
	size_t groups;
	uint64_t untried;
};

/**
 * struct prediction - what a model says
 * @value: the target
 * @band: most often it's no more or less than by that; infinite: it isn't known
 */
struct prediction {
	double value, band;
};

void fit_free(struct fit *fit);

/* Add @sample to the model @group, of which there may be none yet. */
void fit_add(struct fit *fit, const char *group, const struct fit_sample *sample);

/*
 * What the model @group says of @feature.  Its band is infinite where it has too few samples, and
 * for features that none of them is like; then the value may be NaN.
 */
struct prediction fit_predict(const struct fit *fit, const char *group, const double *feature);

/*
 * What the file @path has of @machine, which says what samples are of: samples of another one are
 * none.  Without such a file, nothing.  False: *@why, to be freed, says what is wrong with it.
 */
bool fit_load(struct fit *fit, const char *path, struct json_object *machine, size_t features,
	      char **why);

/*
 * Replace it, at once: a reader finds the one or the other.  Its folder is made if there is none.
 * False: *@why, to be freed, says why it isn't.
 */
bool fit_save(const struct fit *fit, const char *path, struct json_object *machine, char **why);

/*
 * Keep others that call this from the file until the result is closed, for loading and saving it.
 * A negative error number: it can't be.
 */
int fit_lock(const char *path);

/* ---- below that, for tests */

/**
 * struct regression - a linear model, of standardised features
 * @unknowns: features and 1
 * @matter: how many of them aren't the same in all samples
 * @mean: of each feature
 * @scale: its standard deviation; infinite: it's the same in all samples
 * @ridge: what is added to the diagonal, but not for 1
 * @factor: Cholesky's, lower, of the normal equations' matrix
 * @coefficient: of each feature, that of 1 last
 * @limit: the largest leverage of a sample
 * @squares: of all @residual
 * @residual: of each sample, what a model without it is wrong by
 */
struct regression {
	size_t unknowns, matter;
	double mean[FIT_FEATURES], scale[FIT_FEATURES];
	double ridge;
	double factor[FIT_UNKNOWNS][FIT_UNKNOWNS];
	double coefficient[FIT_UNKNOWNS];
	double limit, squares;
	double *residual;
};

/* Of @samples samples, 1 or more; @ridge is above 0.  @residual is to be freed. */
void regress(struct regression *r, const struct fit_sample *sample, size_t samples, size_t features,
	     double ridge);

/* What it says of @feature; and its leverage, if that isn't NULL */
double regression_value(const struct regression *r, const double *feature, double *leverage);

#endif
