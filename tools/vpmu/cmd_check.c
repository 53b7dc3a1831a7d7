// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <cpuid.h>
#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "output.h"
#include "util.h"

/**
 * struct check_options - vpmu check
 * @report: a file for all that a bug report needs; NULL for none
 */
struct check_options {
	struct context *ctx;
	const char *report;
};

static const char *const outcomes[] = {
	[CHECK_OK] = "ok", [CHECK_NOTE] = "note", [CHECK_SKIPPED] = "skipped",
	[CHECK_FAILED] = "FAILED",
};

static size_t count(const struct checks *checks, enum check_outcome outcome)
{
	size_t n = 0, i;

	for (i = 0; i < checks->count; i++)
		n += checks->list[i].outcome == outcome;
	return n;
}

static struct json_object *checks_json(const struct checks *checks)
{
	struct json_object *array = json_object_new_array();
	size_t i;

	for (i = 0; i < checks->count; i++) {
		const struct check *check = &checks->list[i];
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "outcome", json_text(outcomes[check->outcome]));
		json_object_object_add(o, "name", json_text(check->name));
		json_object_object_add(o, "text", json_text(check->text));
		json_object_array_add(array, o);
	}
	return array;
}

/*
 * The leaves that a PMU depends on: SDM vol. 2, "CPUID"; APM vol. 3, appendix E.  None has a serial
 * number.
 */
static struct json_object *cpuid_json(void)
{
	static const unsigned int leaves[] = {
		0, 1, 7, 0xa, 0x1a, 0x1c, 0x23, 0x80000000, 0x80000001, 0x80000007, 0x8000000a,
		0x80000022,
	};
	struct json_object *object = json_object_new_object();
	size_t i;

	for (i = 0; i < ARRAY_SIZE(leaves); i++) {
		char name[NUMBER_SIZE], value[4 * 11 + 1];
		unsigned int a, b, c, d;

		if (!__get_cpuid_count(leaves[i], 0, &a, &b, &c, &d))
			continue;
		/* The APIC's number: which CPU this is doesn't matter. */
		if (leaves[i] == 1)
			b &= 0xffffff;
		snprintf(name, sizeof(name), "%#x", leaves[i]);
		snprintf(value, sizeof(value), "%#010x %#010x %#010x %#010x", a, b, c, d);
		json_object_object_add(object, name, json_text(value));
	}
	return object;
}

static enum status write_report(const char *path, const struct checks *checks)
{
	struct json_object *report = json_object_new_object();
	FILE *f = fopen(path, "we");

	if (!f) {
		warn("%s", path);
		json_object_put(report);
		return STATUS_ERROR;
	}
	json_object_object_add(report, "vpmu", json_text(VERSION));
	json_object_object_add(report, "checks", checks_json(checks));
	json_object_object_add(report, "cpuid", cpuid_json());
	json_print(f, report, true);
	if (ferror(f) | fclose(f)) {
		warnx("%s: could not be written", path);
		return STATUS_ERROR;
	}
	return STATUS_OK;
}

static void print(const struct checks *checks, FILE *out)
{
	static const struct column columns[] = {
		{ "RESULT", LEFT }, { "CHECK", LEFT }, { "FOUND", LEFT }, { }
	};
	struct table table;
	size_t i;

	table_init(&table, columns);
	for (i = 0; i < checks->count; i++) {
		table_add(&table, "%s", outcomes[checks->list[i].outcome]);
		table_add(&table, "%s", checks->list[i].name);
		table_add(&table, "%s", checks->list[i].text);
	}
	table_print(&table, out, 0);
	table_free(&table);
	fprintf(out, "%zu ok, %zu failed, %zu skipped\n", count(checks, CHECK_OK),
		count(checks, CHECK_FAILED), count(checks, CHECK_SKIPPED));
}

static enum status check_run(const struct check_options *options, FILE *out)
{
	struct checks checks = { };
	const char *kinds[2];
	enum status status;
	int cpus[2];
	size_t n, i;

	check_host(&checks);
	n = check_cpus(cpus, kinds, ARRAY_SIZE(cpus));
	for (i = 0; i < n; i++) {
		char *label = xasprintf("%s %d", kinds[i], cpus[i]);

		check_guest(&checks, cpus[i], label);
		free(label);
	}
	if (options->ctx->json)
		json_print(out, checks_json(&checks), true);
	else
		print(&checks, out);
	status = count(&checks, CHECK_FAILED) ? STATUS_ERROR : STATUS_OK;
	if (options->report && write_report(options->report, &checks))
		status = STATUS_ERROR;
	for (i = 0; i < checks.count; i++) {
		free(checks.list[i].name);
		free(checks.list[i].text);
	}
	free(checks.list);
	return status;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct check_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = options->ctx;
		return 0;
	case 'r':
		options->report = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "report", 'r', "FILE", 0, "write all that a bug report needs to FILE (JSON)", 0 }, { }
};

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct check_options options = { .ctx = ctx };

	argp_parse(check_command.argp, argc, argv, 0, NULL, &options);
	return check_run(&options, stdout);
}

static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	argp_options, parse, "",
	"Check this host: is it fit for kvm_vpmu, and do guests count right? A tiny VM of the "
	"tool's own runs for some seconds.",
	children, NULL, NULL
};

const struct command check_command = { "check", "check that this host counts right", &argp, run };
