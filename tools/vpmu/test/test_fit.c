// SPDX-License-Identifier: GPL-2.0-or-later
/* Models that are learnt, their file, and what is chosen by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fit.h"
#include "learn.h"
#include "util.h"

#define FEATURES	3

static char *folder, *path;

/* ---- samples, always the same */

/* -1 to 1 */
static double any(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return state / 2147483648.0 - 1;
}

static double plane(const double *feature)
{
	return 0.5 + 2 * feature[0] - 3 * feature[1] + 0.25 * feature[2];
}

static struct fit_sample any_sample(double noise)
{
	struct fit_sample sample = { .feature = { any(), 10 + any(), 100 * any() } };

	sample.target = plane(sample.feature) + noise * any();
	return sample;
}

static struct fit any_fit(size_t samples, double noise)
{
	struct fit fit = { .features = FEATURES };
	struct fit_sample sample;

	while (samples--) {
		sample = any_sample(noise);
		fit_add(&fit, "a", &sample);
	}
	return fit;
}

/* ---- regression */

static void a_plane_is_found(void **state)
{
	struct fit fit = any_fit(20, 0);
	struct prediction prediction;
	int i;

	for (i = 0; i < 10; i++) {
		struct fit_sample sample = any_sample(0);
		size_t j;

		/* Not outside of the others */
		for (j = 0; j < FEATURES; j++)
			sample.feature[j] = (sample.feature[j] +
					     fit.group->sample[0].feature[j]) / 2;
		prediction = fit_predict(&fit, "a", sample.feature);
		assert_true(fabs(prediction.value - plane(sample.feature)) < 1e-3);
		assert_true(prediction.band < 1e-2);
	}
	fit_free(&fit);
}

static void coefficients_are_those_of_the_plane(void **state)
{
	static const double slope[] = { 2, -3, 0.25 };
	struct fit fit = any_fit(20, 0);
	struct regression r;
	size_t j;

	regress(&r, fit.group->sample, fit.group->samples, FEATURES, 1e-9);
	assert_int_equal(r.unknowns, FEATURES + 1);
	assert_int_equal(r.matter, FEATURES + 1);
	for (j = 0; j < FEATURES; j++)
		assert_true(fabs(r.coefficient[j] / r.scale[j] - slope[j]) < 1e-6);
	free(r.residual);
	fit_free(&fit);
}

/* By Gauss's elimination, so as not to repeat Cholesky's mistakes */
static void solve(double a[FIT_UNKNOWNS][FIT_UNKNOWNS + 1], size_t n)
{
	size_t i, j, k;

	for (i = 0; i < n; i++) {
		for (j = 0; j < n; j++) {
			const double times = a[j][i] / a[i][i];

			for (k = i; k <= n && j != i; k++)
				a[j][k] -= times * a[i][k];
		}
	}
	for (i = 0; i < n; i++)
		a[i][n] /= a[i][i];
}

/* What a model of all samples but @left is wrong by about that, scaled as @r is */
static double wrong_without(const struct regression *r, const struct fit_group *group, size_t left)
{
	double a[FIT_UNKNOWNS][FIT_UNKNOWNS + 1] = { }, value = 0;
	size_t i, j, k;

	for (i = 0; i < group->samples; i++) {
		double x[FIT_UNKNOWNS] = { [FEATURES] = 1 };

		for (j = 0; j < FEATURES; j++)
			x[j] = (group->sample[i].feature[j] - r->mean[j]) / r->scale[j];
		for (j = 0; j <= FEATURES && i != left; j++) {
			for (k = 0; k <= FEATURES; k++)
				a[j][k] += x[j] * x[k];
			a[j][FEATURES + 1] += x[j] * group->sample[i].target;
		}
	}
	for (j = 0; j < FEATURES; j++)
		a[j][j] += r->ridge;
	solve(a, FEATURES + 1);
	for (j = 0; j < FEATURES; j++)
		value += a[j][FEATURES + 1] *
			 (group->sample[left].feature[j] - r->mean[j]) / r->scale[j];
	return group->sample[left].target - value - a[FEATURES][FEATURES + 1];
}

static void each_is_left_out(void **state)
{
	struct fit fit = any_fit(15, 0.5);
	struct regression r;
	double squares = 0;
	size_t i;

	regress(&r, fit.group->sample, fit.group->samples, FEATURES, 0.7);
	for (i = 0; i < fit.group->samples; i++) {
		const double wrong = wrong_without(&r, fit.group, i);

		assert_true(fabs(r.residual[i] - wrong) < 1e-9);
		squares += wrong * wrong;
	}
	assert_true(fabs(r.squares - squares) < 1e-9);
	free(r.residual);
	fit_free(&fit);
}

static void bands_hold(void **state)
{
	struct fit fit = any_fit(100, 0.5);
	int i, known = 0, right = 0;

	for (i = 0; i < 1000; i++) {
		const struct fit_sample sample = any_sample(0.5);
		const struct prediction p = fit_predict(&fit, "a", sample.feature);

		known += isfinite(p.band);
		right += isfinite(p.band) && fabs(p.value - sample.target) <= p.band;
	}
	assert_in_range(known, 900, 1000);
	assert_true(right > 0.9 * known);
	fit_free(&fit);
}

/* Some are told well, others aren't: each has a band of its own. */
static void bands_are_those_of_the_neighbours(void **state)
{
	struct fit fit = { .features = 1 };
	struct fit_sample sample = { };
	double good = 0.5, bad = 9.5;
	int i;

	for (i = 0; i < 40; i++) {
		sample.feature[0] = i / 4.0;
		sample.target = i < 20 ? 1 : 1 + (i % 2 ? 0.5 : -0.5);
		fit_add(&fit, "a", &sample);
	}
	assert_true(fit_predict(&fit, "a", &good).band < 0.2);
	assert_true(fit_predict(&fit, "a", &bad).band > 0.8);
	fit_free(&fit);
}

/* x * x of 0 to 10, which a straight line is wrong about by up to 16 */
static struct fit parabola(void)
{
	struct fit fit = { .features = 1 };
	struct fit_sample sample = { };
	int i;

	for (i = 0; i <= 100; i++) {
		sample.feature[0] = i / 10.0;
		sample.target = pow(sample.feature[0], 2);
		fit_add(&fit, "a", &sample);
	}
	return fit;
}

static void neighbours_correct_what_is_not_linear(void **state)
{
	struct fit fit = parabola();
	double x;

	for (x = 0.45; x < 10; x += 1) {
		const struct prediction p = fit_predict(&fit, "a", &x);

		assert_true(fabs(p.value - x * x) < 0.5);
		assert_true(fabs(p.value - x * x) < 2 * p.band);
		assert_true(p.band < 3);
	}
	fit_free(&fit);
}

/* What was seen just so, several times, says more than what was seen nearby. */
static void what_was_seen_is_known_again(void **state)
{
	struct fit fit = { .features = 1 };
	struct fit_sample sample = { };
	double again = 5.5;
	int i;

	for (i = 0; i < 16; i++) {
		sample.feature[0] = i < 12 ? i : again;
		sample.target = i >= 12;
		fit_add(&fit, "a", &sample);
	}
	assert_true(fit_predict(&fit, "a", &again).value > 0.7);
	fit_free(&fit);
}

/* What is beyond all others by little is like the last one. */
static void the_outermost_is_like_itself(void **state)
{
	static const double last = 10, beyond = 10.1, far = 10.5;
	struct fit fit = parabola();

	assert_true(isfinite(fit_predict(&fit, "a", &last).band));
	assert_true(isfinite(fit_predict(&fit, "a", &beyond).band));
	assert_false(isfinite(fit_predict(&fit, "a", &far).band));
	fit_free(&fit);
}

static bool is_known(const struct fit *fit, double a, double b, double c)
{
	const double feature[] = { a, b, c };

	return isfinite(fit_predict(fit, "a", feature).band);
}

static void nothing_is_known_of_what_is_unlike_all(void **state)
{
	struct fit fit = any_fit(100, 0.1);

	assert_true(is_known(&fit, 0, 10, 0));
	assert_false(is_known(&fit, 3, 10, 0));
	assert_false(is_known(&fit, 0, 0, 0));
	assert_false(is_known(&fit, 0, 10, 1000));
	assert_false(is_known(&fit, NAN, 10, 0));
	fit_free(&fit);
}

/* A feature that was the same for all says nothing of a VM for which it isn't. */
static void nothing_is_known_of_another_constant(void **state)
{
	struct fit fit = any_fit(100, 0.1);
	size_t i;

	for (i = 0; i < fit.group->samples; i++)
		fit.group->sample[i].feature[2] = 2 + FIT_SAME / 100 * any();
	assert_true(is_known(&fit, 0, 10, 2));
	assert_true(is_known(&fit, 0, 10, 2 - 1.5 * FIT_SAME));
	assert_false(is_known(&fit, 0, 10, 2 - 2.5 * FIT_SAME));
	assert_false(is_known(&fit, 0, 10, 4));
	fit_free(&fit);
}

static void nothing_is_known_by_few(void **state)
{
	struct fit none = { .features = FEATURES }, few = any_fit(FIT_LEAST - 1, 0.1);
	struct fit_sample sample;

	assert_false(is_known(&none, 0, 10, 0));
	sample = few.group->sample[0];
	assert_false(isfinite(fit_predict(&few, "a", sample.feature).band));
	fit_add(&few, "a", &sample);
	assert_true(isfinite(fit_predict(&few, "a", sample.feature).band));
	assert_false(isfinite(fit_predict(&few, "b", sample.feature).band));
	fit_free(&few);
	fit_free(&none);
}

/* Twice as many as unknowns: 9 features and 1 */
static void many_features_want_more(void **state)
{
	struct fit fit = { .features = 9 };
	struct fit_sample sample;
	size_t i, j;

	for (i = 0; i < 20; i++) {
		for (j = 0; j < fit.features; j++)
			sample.feature[j] = any();
		sample.target = any();
		if (i == 19)
			assert_false(isfinite(fit_predict(&fit, "a",
							  fit.group->sample[0].feature).band));
		fit_add(&fit, "a", &sample);
	}
	assert_true(isfinite(fit_predict(&fit, "a", fit.group->sample[0].feature).band));
	fit_free(&fit);
}

static void the_oldest_go(void **state)
{
	struct fit fit = { .features = 1 };
	struct fit_sample sample = { };
	int i;

	for (i = 0; i < FIT_SAMPLES + 2; i++) {
		sample.target = i;
		fit_add(&fit, "a", &sample);
	}
	fit_add(&fit, "b", &sample);
	assert_int_equal(fit.groups, 2);
	assert_int_equal(fit.group[0].samples, FIT_SAMPLES);
	assert_true(fit.group[0].sample[0].target == 2);
	assert_true(fit.group[0].sample[FIT_SAMPLES - 1].target == FIT_SAMPLES + 1);
	fit_free(&fit);
}

/* ---- what is chosen */

static void is_chosen(enum mapping present, double value, double band, int mapping)
{
	assert_int_equal(choose_by(present, (struct prediction){ value, band }), mapping);
}

static void the_better_one_is_chosen_if_that_is_sure(void **state)
{
	int m;

	for (m = 0; m < MAPPINGS; m++) {
		is_chosen(m, 0.5, 0.47, MAPPING_LOCAL);
		is_chosen(m, -0.5, 0.47, MAPPING_INTERLEAVED);
		is_chosen(m, 0.5, INFINITY, MAPPINGS);
		is_chosen(m, NAN, INFINITY, MAPPINGS);
		/* Neither is better than the other by MARGIN. */
		is_chosen(m, 0.005, 0.01, m);
	}
	is_chosen(MAPPING_NONE, 0.5, 0.49, MAPPINGS);
	is_chosen(MAPPING_NONE, -0.5, 0.49, MAPPINGS);
	is_chosen(MAPPING_NONE, 0.005, 0.016, MAPPINGS);
	/* It's better, or the other one isn't. */
	is_chosen(MAPPING_LOCAL, 0.5, 0.51, MAPPING_LOCAL);
	is_chosen(MAPPING_LOCAL, 0.5, 0.53, MAPPINGS);
	is_chosen(MAPPING_INTERLEAVED, -0.5, 0.51, MAPPING_INTERLEAVED);
	is_chosen(MAPPING_INTERLEAVED, -0.5, 0.53, MAPPINGS);
	is_chosen(MAPPING_INTERLEAVED, 0.5, 0.51, MAPPINGS);
}

/* ---- the file */

static struct json_object *machine(const char *name)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "cpu", json_object_new_string(name));
	return o;
}

static void save(const struct fit *fit, const char *name)
{
	struct json_object *o = machine(name);
	char *why;

	assert_true(fit_save(fit, path, o, &why));
	json_object_put(o);
}

static bool load(struct fit *fit, const char *name, size_t features, char **why)
{
	struct json_object *o = machine(name);
	bool good = fit_load(fit, path, o, features, why);

	json_object_put(o);
	return good;
}

static void what_is_saved_is_loaded(void **state)
{
	struct fit fit = any_fit(30, 0.3), other;
	struct fit_sample sample = any_sample(1);
	struct stat s;
	char *why;
	size_t i, j;

	fit_add(&fit, "b", &sample);
	fit.untried = 5;
	umask(022);
	save(&fit, "x");
	assert_int_equal(stat(path, &s), 0);
	assert_int_equal(s.st_mode & 0777, 0644);
	assert_true(load(&other, "x", FEATURES, &why));
	assert_int_equal(other.untried, 5);
	assert_int_equal(other.groups, 2);
	assert_string_equal(other.group[1].name, "b");
	assert_int_equal(other.group[0].samples, 30);
	for (i = 0; i < 30; i++) {
		assert_true(fit.group[0].sample[i].target == other.group[0].sample[i].target);
		for (j = 0; j < FEATURES; j++)
			assert_true(fit.group[0].sample[i].feature[j] ==
				    other.group[0].sample[i].feature[j]);
	}
	fit_free(&fit);
	fit_free(&other);
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void is_refused(const char *text, const char *because)
{
	char buf[256] = "";
	struct fit fit;
	FILE *file;
	char *why;

	put(path, text);
	assert_false(load(&fit, "x", FEATURES, &why));
	if (!strstr(why, because))
		fail_msg("'%s' isn't said of %s: %s", because, text, why);
	free(why);
	file = fopen(path, "r");
	assert_int_equal(fread(buf, 1, sizeof(buf) - 1, file), strlen(text));
	assert_string_equal(buf, text);
	fclose(file);
}

#define HEAD	"{\"vpmu_map\":1,\"machine\":{\"cpu\":\"x\"},"

static void what_is_no_such_file_is_refused(void **state)
{
	is_refused("", "isn't JSON");
	is_refused("{\"vpmu_map\":1,\"mach", "isn't JSON");
	is_refused("[]", "isn't a file of vpmu map");
	is_refused("{\"version\":1}", "isn't a file of vpmu map");
	is_refused("{\"vpmu_map\":2,\"machine\":{\"cpu\":\"x\"}}", "another version");
	is_refused("{\"vpmu_map\":1,\"machine\":{\"cpu\":\"y\"}}", "another machine");
	is_refused("{\"vpmu_map\":1}", "another machine");
	is_refused(HEAD "\"untried\":0}", "damaged");
	is_refused(HEAD "\"samples\":{}}", "damaged");
	is_refused(HEAD "\"untried\":0,\"samples\":[]}", "damaged");
	is_refused(HEAD "\"untried\":0,\"samples\":{\"a\":1}}", "damaged");
	is_refused(HEAD "\"untried\":0,\"samples\":{\"a\":[[1,2,3]]}}", "damaged");
	is_refused(HEAD "\"untried\":0,\"samples\":{\"a\":[[1,2,3,4,5]]}}", "damaged");
	is_refused(HEAD "\"untried\":0,\"samples\":{\"a\":[[1,2,3,\"4\"]]}}", "damaged");
	is_refused(HEAD "\"untried\":0,\"samples\":{\"a\":[[1,2,3,NaN]]}}", "damaged");
}

static void a_file_that_is_not_there_is_empty(void **state)
{
	struct fit fit;
	char *why;

	unlink(path);
	assert_true(load(&fit, "x", FEATURES, &why));
	assert_int_equal(fit.groups, 0);
	assert_int_equal(fit.features, FEATURES);
}

static void one_that_cannot_be_written_stays(void **state)
{
	struct fit fit = any_fit(3, 0), other;
	struct json_object *o = machine("x");
	char *why, *part = xasprintf("%s.part", path), *elsewhere = xasprintf("%s/else", folder);

	save(&fit, "x");
	fit_add(&fit, "b", &fit.group->sample[0]);
	assert_int_equal(mkdir(part, 0700), 0);
	assert_false(fit_save(&fit, path, o, &why));
	assert_non_null(strstr(why, path));
	free(why);
	rmdir(part);
	/* Nor is another one written instead. */
	assert_int_equal(symlink(elsewhere, part), 0);
	assert_false(fit_save(&fit, path, o, &why));
	assert_int_equal(access(elsewhere, F_OK), -1);
	free(why);
	assert_true(load(&other, "x", FEATURES, &why));
	assert_int_equal(other.groups, 1);
	fit_free(&other);
	fit_free(&fit);
	json_object_put(o);
	/* What was left of one that was killed is no obstacle. */
	unlink(part);
	put(part, "{\"vpmu_m");
	save(&fit, "x");
	free(part);
	free(elsewhere);
}

static void one_at_a_time(void **state)
{
	char *deep = xasprintf("%s/new/map.json", folder), *far = xasprintf("%s/a/b/c", folder);
	int lock, status;
	pid_t pid;

	lock = fit_lock(deep);
	assert_true(lock >= 0);
	pid = fork();
	if (!pid) {
		alarm(1);
		fit_lock(deep);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
	close(lock);
	lock = fit_lock(deep);
	assert_true(lock >= 0);
	close(lock);
	assert_true(fit_lock(far) < 0);
	*strrchr(deep, '/') = 0;
	rmdir(deep);
	free(deep);
	free(far);
}

static int make_folder(void **state)
{
	char name[] = "/tmp/test_fit.XXXXXX";

	folder = mkdtemp(name) ? xasprintf("%s", name) : NULL;
	if (!folder)
		return 1;
	path = xasprintf("%s/map.json", folder);
	return 0;
}

static int remove_folder(void **state)
{
	unlink(path);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(a_plane_is_found),
		cmocka_unit_test(coefficients_are_those_of_the_plane),
		cmocka_unit_test(each_is_left_out),
		cmocka_unit_test(bands_hold),
		cmocka_unit_test(bands_are_those_of_the_neighbours),
		cmocka_unit_test(neighbours_correct_what_is_not_linear),
		cmocka_unit_test(what_was_seen_is_known_again),
		cmocka_unit_test(the_outermost_is_like_itself),
		cmocka_unit_test(nothing_is_known_of_what_is_unlike_all),
		cmocka_unit_test(nothing_is_known_of_another_constant),
		cmocka_unit_test(nothing_is_known_by_few),
		cmocka_unit_test(many_features_want_more),
		cmocka_unit_test(the_oldest_go),
		cmocka_unit_test(the_better_one_is_chosen_if_that_is_sure),
		cmocka_unit_test(what_is_saved_is_loaded),
		cmocka_unit_test(what_is_no_such_file_is_refused),
		cmocka_unit_test(a_file_that_is_not_there_is_empty),
		cmocka_unit_test(one_that_cannot_be_written_stays),
		cmocka_unit_test(one_at_a_time),
	};

	return cmocka_run_group_tests(all, make_folder, remove_folder);
}
