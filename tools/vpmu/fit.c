// SPDX-License-Identifier: GPL-2.0-or-later
#include "fit.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "util.h"

/* Of the format */
#define VERSION_KEY	"vpmu_map"
#define FIT_VERSION	1

/* How many of the samples that a VM is most like say how wrong a linear model is about it */
#define NEAR		8
/* Nearer than that, in deviations of features, isn't more alike. */
#define LIKE		0.1

/* ---- samples */

void fit_free(struct fit *fit)
{
	size_t i;

	for (i = 0; i < fit->groups; i++) {
		free(fit->group[i].name);
		free(fit->group[i].sample);
	}
	free(fit->group);
	*fit = (struct fit){ };
}

static struct fit_group *find_group(const struct fit *fit, const char *name)
{
	size_t i;

	for (i = 0; i < fit->groups; i++)
		if (!strcmp(fit->group[i].name, name))
			return &fit->group[i];
	return NULL;
}

static struct fit_group *get_group(struct fit *fit, const char *name)
{
	struct fit_group *group = find_group(fit, name);

	if (group)
		return group;
	fit->group = xgrow(fit->group, fit->groups, sizeof(*fit->group));
	group = &fit->group[fit->groups++];
	*group = (struct fit_group){ .name = xasprintf("%s", name) };
	return group;
}

void fit_add(struct fit *fit, const char *name, const struct fit_sample *sample)
{
	struct fit_group *group = get_group(fit, name);

	if (group->samples == FIT_SAMPLES) {
		group->samples--;
		memmove(group->sample, group->sample + 1,
			group->samples * sizeof(*group->sample));
	} else {
		group->sample = xgrow(group->sample, group->samples, sizeof(*group->sample));
	}
	group->sample[group->samples++] = *sample;
}

/* ---- linear regression */

static void standardise(struct regression *r, const struct fit_sample *sample, size_t samples)
{
	size_t i, j;

	r->matter = 1;
	for (j = 0; j < r->unknowns - 1; j++) {
		double sum = 0, squares = 0, deviation;

		for (i = 0; i < samples; i++)
			sum += sample[i].feature[j];
		r->mean[j] = sum / samples;
		for (i = 0; i < samples; i++)
			squares += pow(sample[i].feature[j] - r->mean[j], 2);
		deviation = sqrt(squares / samples);
		r->matter += deviation > FIT_SAME;
		r->scale[j] = deviation > FIT_SAME ? deviation : INFINITY;
	}
}

/* Standardised, 0 if it's the same in all samples; and 1 behind them */
static void row_of(const struct regression *r, const double *feature, double x[FIT_UNKNOWNS])
{
	size_t j;

	for (j = 0; j < r->unknowns - 1; j++)
		x[j] = (feature[j] - r->mean[j]) / r->scale[j];
	x[j] = 1;
}

/* Cholesky's factor L of A = L L' in place of A: Golub, Van Loan, Matrix Computations, 4.2 */
static void factorise(struct regression *r)
{
	size_t i, j, k;

	for (j = 0; j < r->unknowns; j++) {
		for (i = j; i < r->unknowns; i++) {
			double sum = r->factor[i][j];

			for (k = 0; k < j; k++)
				sum -= r->factor[i][k] * r->factor[j][k];
			r->factor[i][j] = i == j ? sqrt(sum) : sum / r->factor[j][j];
		}
	}
}

/* x becomes the solution of L y = x */
static void solve_lower(const struct regression *r, double *x)
{
	size_t i, k;

	for (i = 0; i < r->unknowns; i++) {
		for (k = 0; k < i; k++)
			x[i] -= r->factor[i][k] * x[k];
		x[i] /= r->factor[i][i];
	}
}

/* x becomes the solution of L' y = x */
static void solve_upper(const struct regression *r, double *x)
{
	size_t i, k;

	for (i = r->unknowns; i-- > 0;) {
		for (k = i + 1; k < r->unknowns; k++)
			x[i] -= r->factor[k][i] * x[k];
		x[i] /= r->factor[i][i];
	}
}

/*
 * The leverage x' A^-1 x, by L y = x: Montgomery, Peck, Vining, Introduction to Linear Regression
 * Analysis, 4.2 and 6.2
 */
double regression_value(const struct regression *r, const double *feature, double *leverage)
{
	double x[FIT_UNKNOWNS], value = 0;
	size_t j;

	row_of(r, feature, x);
	for (j = 0; j < r->unknowns; j++)
		value += r->coefficient[j] * x[j];
	if (!leverage)
		return value;
	solve_lower(r, x);
	*leverage = 0;
	for (j = 0; j < r->unknowns; j++)
		*leverage += x[j] * x[j];
	return value;
}

/*
 * Without sample i a model is wrong by e_i / (1 - h_i) there, with its residual and leverage in the
 * model that has it: Allen, The Relationship between Variable Selection and Data Augmentation and a
 * Method for Prediction (Technometrics 1974), also for ridge regression.
 */
static void leave_each_out(struct regression *r, const struct fit_sample *sample, size_t samples)
{
	size_t i;

	r->residual = xrealloc(NULL, samples * sizeof(*r->residual));
	r->limit = r->squares = 0;
	for (i = 0; i < samples; i++) {
		double leverage, value = regression_value(r, sample[i].feature, &leverage);

		r->residual[i] = (sample[i].target - value) / (1 - leverage);
		r->squares += r->residual[i] * r->residual[i];
		r->limit = fmax(r->limit, leverage);
	}
}

/* Hoerl, Kennard, Ridge Regression (Technometrics 1970), by the normal equations */
void regress(struct regression *r, const struct fit_sample *sample, size_t samples, size_t features,
	     double ridge)
{
	double x[FIT_UNKNOWNS];
	size_t i, j, k;

	*r = (struct regression){ .unknowns = features + 1, .ridge = ridge };
	standardise(r, sample, samples);
	for (j = 0; j < features; j++)
		r->factor[j][j] = ridge;
	for (i = 0; i < samples; i++) {
		row_of(r, sample[i].feature, x);
		for (j = 0; j < r->unknowns; j++) {
			for (k = 0; k <= j; k++)
				r->factor[j][k] += x[j] * x[k];
			r->coefficient[j] += x[j] * sample[i].target;
		}
	}
	factorise(r);
	solve_lower(r, r->coefficient);
	solve_upper(r, r->coefficient);
	leave_each_out(r, sample, samples);
}

/* Of some, the ridge with which models are the least wrong about the sample that they don't have */
static void regress_best(struct regression *best, const struct fit_group *group, size_t features)
{
	static const double ridges[] = { 1e-6, 1e-4, 1e-3, 1e-2 };
	size_t i;

	regress(best, group->sample, group->samples, features, ridges[0] * group->samples);
	for (i = 1; i < ARRAY_SIZE(ridges); i++) {
		struct regression r;

		regress(&r, group->sample, group->samples, features, ridges[i] * group->samples);
		if (r.squares < best->squares) {
			free(best->residual);
			*best = r;
		} else {
			free(r.residual);
		}
	}
}

/* ---- predictions */

/**
 * struct near - the samples that something is most like
 * @count: how many
 * @index: of each
 * @far: from each, squared
 */
struct near {
	size_t count, index[NEAR];
	double far[NEAR];
};

/* Squared, in deviations of features */
static double distance(const struct regression *r, const double *a, const double *b)
{
	double sum = 0;
	size_t j;

	for (j = 0; j < r->unknowns - 1; j++)
		sum += pow((a[j] - b[j]) / r->scale[j], 2);
	return sum;
}

/* The samples that are most like @feature, but for that of number @except, the nearest first */
static void find_near(struct near *near, const struct regression *r, const struct fit_group *group,
		      const double *feature, size_t except)
{
	size_t i, j;

	near->count = 0;
	for (i = 0; i < group->samples; i++) {
		double far = distance(r, group->sample[i].feature, feature);

		if (i == except || (near->count == NEAR && far >= near->far[NEAR - 1]))
			continue;
		if (near->count < NEAR)
			near->count++;
		for (j = near->count - 1; j && near->far[j - 1] > far; j--) {
			near->far[j] = near->far[j - 1];
			near->index[j] = near->index[j - 1];
		}
		near->far[j] = far;
		near->index[j] = i;
	}
}

/* Nearer ones weigh more: Shepard, A Two-Dimensional Interpolation Function (ACM 1968) */
static double weight_of(const struct near *near, size_t i)
{
	return 1 / (near->far[i] + LIKE * LIKE);
}

/* What the linear model is wrong by in that place */
static double wrong_near(const struct near *near, const struct regression *r)
{
	double sum = 0, weight = 0;
	size_t i;

	for (i = 0; i < near->count; i++) {
		sum += weight_of(near, i) * r->residual[near->index[i]];
		weight += weight_of(near, i);
	}
	return sum / weight;
}

/*
 * The deviation of what is still wrong then about these samples, each told from others: features
 * tell some targets better than others.
 */
static double deviation_near(const struct near *near, const struct regression *r,
			     const struct fit_group *group)
{
	double sum = 0, weight = 0;
	size_t i;

	for (i = 0; i < near->count; i++) {
		const size_t sample = near->index[i];
		struct near others;

		find_near(&others, r, group, group->sample[sample].feature, sample);
		sum += weight_of(near, i) * pow(r->residual[sample] - wrong_near(&others, r), 2);
		weight += weight_of(near, i);
	}
	return sqrt(sum / weight);
}

/* What is the same in all samples isn't in the model, which is for VMs that have it, too. */
static bool has_the_same(const struct regression *r, const double *feature)
{
	size_t j;

	for (j = 0; j < r->unknowns - 1; j++)
		if (isinf(r->scale[j]) && fabs(feature[j] - r->mean[j]) > 2 * FIT_SAME)
			return false;
	return true;
}

/* A leverage that is larger than each sample's is extrapolation: Montgomery, Peck, Vining, 3.8. */
static bool is_like_samples(const struct regression *r, const struct near *near, double leverage)
{
	return leverage <= r->limit || near->far[0] <= LIKE * LIKE;
}

/* A new observation's deviation is sqrt(1 + h) times that of all: Montgomery, Peck, Vining, 3.5. */
struct prediction fit_predict(const struct fit *fit, const char *name, const double *feature)
{
	const struct fit_group *group = find_group(fit, name);
	struct prediction prediction = { NAN, INFINITY };
	struct regression r;
	struct near near;
	double leverage;

	if (!group || group->samples < FIT_LEAST)
		return prediction;
	regress_best(&r, group, fit->features);
	find_near(&near, &r, group, feature, group->samples);
	prediction.value = regression_value(&r, feature, &leverage) + wrong_near(&near, &r);
	if (is_like_samples(&r, &near, leverage) && has_the_same(&r, feature) &&
	    group->samples >= 2 * r.matter)
		prediction.band = 2 * deviation_near(&near, &r, group) * sqrt(1 + leverage);
	free(r.residual);
	return prediction;
}

/* ---- the file */

static bool load_sample(struct fit *fit, const char *group, struct json_object *row)
{
	double number[1 + FIT_FEATURES];
	struct fit_sample sample = { };
	size_t i;

	if (!json_object_is_type(row, json_type_array) ||
	    json_object_array_length(row) != 1 + fit->features)
		return false;
	for (i = 0; i <= fit->features; i++) {
		struct json_object *o = json_object_array_get_idx(row, i);

		number[i] = json_object_get_double(o);
		if ((!json_object_is_type(o, json_type_double) &&
		     !json_object_is_type(o, json_type_int)) || !isfinite(number[i]))
			return false;
	}
	sample.target = number[0];
	memcpy(sample.feature, number + 1, fit->features * sizeof(*number));
	fit_add(fit, group, &sample);
	return true;
}

static bool load_samples(struct fit *fit, struct json_object *groups)
{
	size_t i;

	if (!json_object_is_type(groups, json_type_object))
		return false;
	json_object_object_foreach(groups, name, rows) {
		if (!json_object_is_type(rows, json_type_array))
			return false;
		for (i = 0; i < json_object_array_length(rows); i++)
			if (!load_sample(fit, name, json_object_array_get_idx(rows, i)))
				return false;
	}
	return true;
}

/* What is wrong; NULL: nothing */
static const char *load(struct fit *fit, struct json_object *file, struct json_object *machine)
{
	struct json_object *version, *untried;

	if (!json_object_is_type(file, json_type_object) ||
	    !json_object_object_get_ex(file, VERSION_KEY, &version))
		return "isn't a file of vpmu map --fit";
	if (json_object_get_int64(version) != FIT_VERSION)
		return "is of another version of vpmu";
	if (!json_object_equal(json_object_object_get(file, "machine"), machine))
		return "is of another machine, or other events";
	if (!json_object_object_get_ex(file, "untried", &untried) ||
	    !json_object_is_type(untried, json_type_int) ||
	    !load_samples(fit, json_object_object_get(file, "samples")))
		return "is damaged";
	fit->untried = json_object_get_uint64(untried);
	return NULL;
}

bool fit_load(struct fit *fit, const char *path, struct json_object *machine, size_t features,
	      char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct json_object *file;
	const char *wrong;

	*fit = (struct fit){ .features = features };
	if (fd < 0) {
		if (errno == ENOENT)
			return true;
		*why = xasprintf("%s: %s", path, strerror(errno));
		return false;
	}
	file = json_object_from_fd(fd);
	close(fd);
	wrong = file ? load(fit, file, machine) : "isn't JSON";
	json_object_put(file);
	if (!wrong)
		return true;
	*why = xasprintf("%s %s: it is left alone, and --fit wants another FILE", path, wrong);
	fit_free(fit);
	return false;
}

static struct json_object *samples_json(const struct fit *fit, const struct fit_group *group)
{
	struct json_object *rows = json_object_new_array();
	size_t i, j;

	for (i = 0; i < group->samples; i++) {
		const struct fit_sample *sample = &group->sample[i];
		struct json_object *row = json_object_new_array();

		json_object_array_add(row, json_object_new_double(sample->target));
		for (j = 0; j < fit->features; j++)
			json_object_array_add(row, json_object_new_double(sample->feature[j]));
		json_object_array_add(rows, row);
	}
	return rows;
}

static struct json_object *file_json(const struct fit *fit, struct json_object *machine)
{
	struct json_object *o = json_object_new_object(), *samples = json_object_new_object();
	size_t i;

	for (i = 0; i < fit->groups; i++)
		json_object_object_add(samples, fit->group[i].name,
				       samples_json(fit, &fit->group[i]));
	json_object_object_add(o, VERSION_KEY, json_object_new_int(FIT_VERSION));
	json_object_object_add(o, "machine", json_object_get(machine));
	json_object_object_add(o, "untried", json_object_new_uint64(fit->untried));
	json_object_object_add(o, "samples", samples);
	return o;
}

/* With errno; false: the file isn't whole. */
static bool write_file(const char *path, struct json_object *o)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	bool good;

	if (!file) {
		json_object_put(o);
		return false;
	}
	json_print(file, o, false);
	good = !fflush(file) && !fsync(fd);
	return !fclose(file) && good;
}

bool fit_save(const struct fit *fit, const char *path, struct json_object *machine, char **why)
{
	char *part = xasprintf("%s.part", path);
	bool good = write_file(part, file_json(fit, machine)) && !rename(part, path);

	if (!good) {
		*why = xasprintf("%s: %s", path, strerror(errno));
		unlink(part);
	}
	free(part);
	return good;
}

int fit_lock(const char *path)
{
	char *copy = xasprintf("%s", path);
	const char *folder = dirname(copy);
	int fd = -1, error = 0;

	/* The file itself is replaced, and can't be what is locked. */
	if (!mkdir(folder, 0755) || errno == EEXIST)
		fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX))
		error = errno;
	free(copy);
	if (!error)
		return fd;
	if (fd >= 0)
		close(fd);
	return -error;
}
