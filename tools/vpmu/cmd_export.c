// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu export: recordings for other tools. */
#include "export.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "output.h"
#include "timeline.h"
#include "util.h"

/* ---- folded */

/* A line: @stack is its key. */
struct line {
	char *stack;
	uint64_t events;
};

static int compare_lines(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->stack, ((const struct line *)b)->stack);
}

static void add_frame(FILE *stack, const char *frame)
{
	if (ftell(stack))
		fputc(';', stack);
	for (; *frame; frame++)
		fputc(*frame == ';' ? ':' : *frame, stack);
}

/* The stack of a sample, to be freed */
static char *stack_of(const struct place *place)
{
	char *text;
	size_t size;
	FILE *stack = open_memstream(&text, &size);

	if (!stack)
		errx(STATUS_ERROR, "out of memory");
	if (place->vm)
		add_frame(stack, place->vm->name);
	add_frame(stack, place_kind_name(place->kind));
	if (*place->process)
		add_frame(stack, place->process);
	add_frame(stack, place->function);
	fclose(stack);
	return text;
}

static void add_line(void **lines, char *stack, uint64_t events)
{
	struct line key = { .stack = stack }, **found = tfind(&key, lines, compare_lines), *new;

	if (found) {
		free(stack);
		(*found)->events += events;
		return;
	}
	new = xrealloc(NULL, sizeof(*new));
	*new = (struct line){ .stack = stack, .events = events };
	if (!tsearch(new, lines, compare_lines))
		errx(STATUS_ERROR, "out of memory");
}

static void print_line(const void *node, VISIT visit, void *out)
{
	const struct line *line = *(struct line *const *)node;

	if (visit == postorder || visit == leaf)
		fprintf(out, "%s %" PRIu64 "\n", line->stack, line->events);
}

static void free_line(void *line)
{
	free(((struct line *)line)->stack);
	free(line);
}

void export_folded(const struct places *places, FILE *out)
{
	const struct recording *rec = places->recording;
	void *lines = NULL;
	size_t i;

	for (i = 0; i < rec->count; i++) {
		const struct recorded *at = &rec->record[i];
		struct place place;

		if (!recording_is_sample(rec, at))
			continue;
		place_of(places, at, &place);
		add_line(&lines, stack_of(&place), at->r.value);
	}
	twalk_r(lines, print_line, out);
	tdestroy(lines, free_line);
}

/* ---- trace */

struct trace {
	const struct recording *rec;
	struct json_stream stream;
	void *vcpus;
};

/* A vCPU that has a name in the trace already */
struct named {
	uint64_t vm;
	int32_t vcpu;
};

static int compare_named(const void *a, const void *b)
{
	const struct named *left = a, *right = b;

	if (left->vm != right->vm)
		return left->vm < right->vm ? -1 : 1;
	return (left->vcpu > right->vcpu) - (left->vcpu < right->vcpu);
}

/* An event of a vCPU, to be completed */
static struct json_object *new_event(const char *phase, const char *name, uint64_t vm, int32_t vcpu)
{
	struct json_object *event = json_object_new_object();

	json_object_object_add(event, "ph", json_object_new_string(phase));
	json_object_object_add(event, "name", json_object_new_string(name));
	json_object_object_add(event, "pid", json_object_new_uint64(vm));
	json_object_object_add(event, "tid", json_object_new_int(vcpu));
	return event;
}

/* Metadata: what a process or a thread is called; gives @text up. */
static void name(struct trace *trace, const char *what, uint64_t vm, int32_t vcpu, char *text)
{
	struct json_object *event = new_event("M", what, vm, vcpu);
	struct json_object *args = json_object_new_object();

	json_object_object_add(args, "name", json_object_new_string(text));
	json_object_object_add(event, "args", args);
	json_add(&trace->stream, NULL, event);
	free(text);
}

static void name_vcpu(struct trace *trace, uint64_t vm, int32_t vcpu)
{
	struct named key = { .vm = vm, .vcpu = vcpu }, *new;

	if (tfind(&key, &trace->vcpus, compare_named))
		return;
	new = xrealloc(NULL, sizeof(*new));
	*new = key;
	if (!tsearch(new, &trace->vcpus, compare_named))
		errx(STATUS_ERROR, "out of memory");
	name(trace, "process_name", vm, vcpu,
	     xasprintf("VM %s", place_vm_name(recording_vm(trace->rec, vm))));
	name(trace, "thread_name", vm, vcpu, xasprintf("vCPU %" PRId32, vcpu));
}

static struct json_object *us_json(const struct recording *rec, uint64_t ticks)
{
	return json_number(recording_ns(rec, ticks) / 1000);
}

static void add_interval(const struct interval *i, void *arg)
{
	struct trace *trace = arg;
	struct json_object *event, *args = json_object_new_object();

	name_vcpu(trace, i->vm, i->vcpu);
	event = new_event("X", timeline_state_name(i->state), i->vm, i->vcpu);
	json_object_object_add(event, "ts", us_json(trace->rec, i->from - trace->rec->begin.tsc));
	json_object_object_add(event, "dur", us_json(trace->rec, i->to - i->from));
	json_object_object_add(args, "cpu", json_object_new_int64(i->cpu));
	if (i->state == VCPU_LOADED)
		json_object_object_add(args, "kvm_us", us_json(trace->rec, i->kvm_ticks));
	json_object_object_add(event, "args", args);
	json_add(&trace->stream, NULL, event);
}

void export_trace(const struct places *places, FILE *out)
{
	struct trace trace = { .rec = places->recording, .stream = { .out = out } };

	json_open(&trace.stream, NULL, '{');
	json_add(&trace.stream, "displayTimeUnit", json_object_new_string("ns"));
	json_open(&trace.stream, "traceEvents", '[');
	timeline_run(places->recording, add_interval, &trace);
	json_close(&trace.stream, ']');
	json_close(&trace.stream, '}');
	tdestroy(trace.vcpus, free);
}

/* ---- arguments */

static const struct format {
	const char *name;
	void (*export)(const struct places *places, FILE *out);
} formats[] = {
	{ "folded", export_folded },
	{ "trace", export_trace },
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
			argp_error(state, "format '%s': folded or trace", arg);
		return 0;
	case 'o':
		a->output = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->format)
			argp_error(state, "missing --format");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status write_output(const struct arguments *a, const struct places *places)
{
	FILE *out = a->output ? fopen(a->output, "we") : stdout;
	bool good;

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
	{ "format", 'f', "FORMAT", 0, "folded: stacks for flame graphs; trace: what vCPUs did when, for "
	  "Perfetto", 0 },
	{ "output", 'o', "FILE", 0, "Where to (stdout)", 0 },
	{ }
};
static const struct argp_child children[] = { { &input_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, NULL, "Write a recording in the format of another tool.", children, NULL, NULL
};

const struct command export_command = {
	"export", "write a recording for other tools", &argp, run
};
