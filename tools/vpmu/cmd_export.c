// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu export: recordings for other tools. */
#include "export.h"

#include <err.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "util.h"

static const struct format {
	const char *name;
	void (*export)(const struct places *places, FILE *out);
	/* Or a folder of files */
	bool (*export_dir)(const struct places *places, const char *dir);
	/* Not for terminals */
	bool binary;
} formats[] = {
	{ "folded", .export = export_folded },
	{ "perf", .export_dir = export_perf },
	{ "pprof", .export = export_pprof, .binary = true },
	{ "svg", .export = export_svg },
	{ "trace", .export = export_trace },
};

/**
 * struct arguments - vpmu export
 * @input: what to read
 * @format: what to write
 * @output: where to; NULL: stdout
 */
struct arguments {
	struct input_options input;
	const struct format *format;
	const char *output;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	size_t i;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->input;
		return 0;
	case 'f':
		for (i = 0; i < ARRAY_SIZE(formats); i++)
			if (!strcmp(arg, formats[i].name))
				a->format = &formats[i];
		if (!a->format)
			argp_error(state, "format '%s': folded, perf, pprof, svg or trace", arg);
		return 0;
	case 'o':
		a->output = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->format)
			argp_error(state, "missing --format");
		if (a->format->export_dir && !a->output)
			argp_error(state, "--format %s needs a folder: --output", a->format->name);
		if (a->format->binary && !a->output && isatty(STDOUT_FILENO))
			argp_error(state, "--format %s isn't for terminals: missing --output",
				   a->format->name);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status write_output(const struct arguments *a, const struct places *places)
{
	FILE *out;
	bool good;

	if (a->format->export_dir)
		return a->format->export_dir(places, a->output) ? STATUS_OK : STATUS_ERROR;
	out = a->output ? fopen(a->output, "we") : stdout;
	if (!out) {
		warn("%s", a->output);
		return STATUS_ERROR;
	}
	a->format->export(places, out);
	/* What can't be written to stdout is noticed at the end. */
	if (!a->output)
		return STATUS_OK;
	good = !ferror(out);
	if (fclose(out) || !good) {
		warn("%s", a->output);
		return STATUS_ERROR;
	}
	return STATUS_OK;
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct arguments a = { .input = { .file = RECORDING_FILE } };
	struct input input;
	enum status status;

	(void)ctx;
	argp_parse(export_command.argp, argc, argv, ARGP_IN_ORDER, NULL, &a);
	status = input_open(&input, &a.input);
	if (status)
		return status;
	status = write_output(&a, &input.places);
	input_close(&input);
	return status;
}

static const struct argp_option option_list[] = {
	{ "format", 'f', "FORMAT", 0, "folded: stacks for flame graphs; perf: a folder for perf report; "
	  "pprof: samples for pprof and others; svg: a flame graph; trace: what vCPUs did when, for Perfetto",
	  0 },
	{ "output", 'o', "FILE", 0, "Where to (stdout); for perf, a folder", 0 },
	{ }
};
static const struct argp_child children[] = { { &input_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, NULL, "Write a recording in the format of another tool.", children, NULL, NULL
};

const struct command export_command = {
	"export", "write a recording for other tools", &argp, run
};
