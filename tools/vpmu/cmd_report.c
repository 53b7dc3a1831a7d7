// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu report: tables of a recording. */
#include "report.h"

#include <err.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "input.h"
#include "output.h"
#include "timeline.h"
#include "util.h"

/**
 * struct row - samples that a table has in one row
 * @kind: whose time
 * @vm: the VM; NULL: none
 * @process: the process; "" where the table doesn't tell processes
 * @function: the function; "" where the table doesn't tell functions
 * @module: file or module
 * @value: events that the samples stand for
 * @samples: how many samples
 * @total: events of samples in the function and in those that it has called; by call graphs
 * @last: number of the sample that was added to @total last
 */
struct row {
	enum place_kind kind;
	const struct vm *vm;
	char *process, *function, *module;
	uint64_t value, samples, total, last;
};

/**
 * struct rows - a table
 * @root: tsearch()'s
 * @row: all rows, by their totals and values once they are sorted
 * @count: how many
 * @value: events of all
 * @samples: samples of all
 */
struct rows {
	void *root;
	struct row **row;
	size_t count;
	uint64_t value, samples;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	int r;

	if (left->kind != right->kind)
		return left->kind < right->kind ? -1 : 1;
	if (left->vm != right->vm)
		return left->vm < right->vm ? -1 : 1;
	r = strcmp(left->process, right->process);
	if (!r)
		r = strcmp(left->function, right->function);
	return r ? r : strcmp(left->module, right->module);
}

static struct row *new_row(struct rows *rows, const struct row *key)
{
	struct row *row = xrealloc(NULL, sizeof(*row));

	*row = (struct row){
		.kind = key->kind, .vm = key->vm, .process = xasprintf("%s", key->process),
		.function = xasprintf("%s", key->function), .module = xasprintf("%s", key->module),
	};
	rows->row = xgrow(rows->row, rows->count, sizeof(*rows->row));
	rows->row[rows->count++] = row;
	return row;
}

static struct row *find_row(struct rows *rows, const struct row *key)
{
	struct row **found = tfind(key, &rows->root, compare_rows), *row;

	if (found)
		return *found;
	row = new_row(rows, key);
	if (!tsearch(row, &rows->root, compare_rows))
		errx(STATUS_ERROR, "out of memory");
	return row;
}

/* Add the sample that is the table's last one to a total: once, however often it's on the stack. */
static void add_total(struct rows *rows, struct row *row, uint64_t value)
{
	if (row->last == rows->samples)
		return;
	row->last = rows->samples;
	row->total += value;
}

static void add_row(struct rows *rows, const struct row *key, uint64_t value)
{
	struct row *row = find_row(rows, key);

	row->value += value;
	row->samples++;
	rows->value += value;
	rows->samples++;
	add_total(rows, row, value);
}

static int by_value(const void *a, const void *b)
{
	const struct row *left = *(struct row *const *)a, *right = *(struct row *const *)b;

	/* Without call graphs, both are the same. */
	if (left->total != right->total)
		return left->total < right->total ? 1 : -1;
	if (left->value != right->value)
		return left->value < right->value ? 1 : -1;
	return compare_rows(left, right);
}

static void sort_rows(struct rows *rows)
{
	if (rows->count)
		qsort(rows->row, rows->count, sizeof(*rows->row), by_value);
}

static void keep(void *row)
{
	(void)row;
}

static void free_rows(struct rows *rows)
{
	size_t i;

	tdestroy(rows->root, keep);
	for (i = 0; i < rows->count; i++) {
		free(rows->row[i]->process);
		free(rows->row[i]->function);
		free(rows->row[i]->module);
		free(rows->row[i]);
	}
	free(rows->row);
}

/* ---- the samples */

/**
 * struct report - all that is printed
 * @rec: the recording
 * @options: how
 * @who: by kind, VM and the host's processes
 * @function: by function
 * @guests: samples in guest mode
 * @stacks: those with a call graph
 * @vcpu: each vCPU's times
 * @guest: by @vcpu: events of its samples in guest mode, by kind
 * @vcpus: how many
 */
struct report {
	const struct recording *rec;
	const struct report_options *options;
	struct rows who, function;
	uint64_t guests, stacks;
	struct vcpu_times *vcpu;
	uint64_t (*guest)[PLACE_KINDS];
	size_t vcpus;
};

static bool is_wanted(const struct report *report, const struct vm *vm)
{
	return !report->options->vm || (vm && vm->info.id == report->options->vm->info.id);
}

static void add_to_vcpu(struct report *report, const struct kvm_vpmu_record *r,
			const struct place *place)
{
	size_t i;

	for (i = 0; i < report->vcpus; i++)
		if (report->vcpu[i].vm == r->vm && report->vcpu[i].vcpu == r->vcpu)
			report->guest[i][place->kind] += r->value;
}

/* @key: the row of the function that was sampled */
static void add_callers(struct report *report, const struct places *places,
			const struct recorded *recorded, const struct row *key)
{
	struct frame caller[KVM_VPMU_STACK_MAX];
	unsigned int callers = place_callers(places, recorded, caller), i;
	struct row row = *key;

	report->stacks += !!callers;
	for (i = 0; i < callers; i++) {
		row.function = (char *)caller[i].function;
		row.module = (char *)caller[i].module;
		add_total(&report->function, find_row(&report->function, &row), recorded->r.value);
	}
}

static void add_sample(struct report *report, const struct places *places,
		       const struct recorded *recorded)
{
	struct place place;
	struct row key;

	place_of(places, recorded, &place);
	if (!is_wanted(report, place.vm))
		return;
	key = (struct row){
		.kind = place.kind, .vm = place.vm, .process = (char *)"", .function = (char *)"",
		.module = (char *)"",
	};
	if (place.kind == PLACE_HOST || place.kind >= PLACE_KERNEL)
		key.process = (char *)place.process;
	add_row(&report->who, &key, recorded->r.value);
	key.process = (char *)place.process;
	key.function = (char *)place.function;
	key.module = (char *)place.module;
	add_row(&report->function, &key, recorded->r.value);
	if (place.kind < PLACE_KERNEL)
		return;
	report->guests++;
	add_callers(report, places, recorded, &key);
	add_to_vcpu(report, &recorded->r, &place);
}

static void fill(struct report *report, const struct places *places)
{
	const struct recording *rec = report->rec;
	size_t i;

	report->vcpus = timeline_sum(rec, &report->vcpu);
	report->guest = xrealloc(NULL, (report->vcpus + 1) * sizeof(*report->guest));
	memset(report->guest, 0, (report->vcpus + 1) * sizeof(*report->guest));
	for (i = 0; i < rec->count; i++)
		if (recording_is_sample(rec, &rec->record[i]))
			add_sample(report, places, &rec->record[i]);
	sort_rows(&report->who);
	sort_rows(&report->function);
}

static void free_report(struct report *report)
{
	free_rows(&report->who);
	free_rows(&report->function);
	free(report->vcpu);
	free(report->guest);
}

/* ---- text */

static void print_head(const struct report *report, FILE *out)
{
	const struct recording *rec = report->rec;
	double ns = recording_ns(rec, rec->end.tsc - rec->begin.tsc);
	char day[64], samples[NUMBER_SIZE], number[NUMBER_SIZE], lost[NUMBER_SIZE];
	time_t time = rec->begin.time / NS_PER_S;

	strftime(day, sizeof(day), "%F %T", localtime(&time));
	fprintf(out, "%s, Linux %s, %s, %u CPUs, %s\n", rec->host ? rec->host : "?",
		rec->kernel ? rec->kernel : "?", day, rec->cpus, format_time(number, ns));
	fprintf(out, "%s, %s %s: %s samples, %s records lost\n", rec->event,
		rec->frequency ? "samples per second and CPU:" : "a sample each",
		format_count(number, rec->frequency ? rec->frequency : rec->period),
		format_count(samples, report->who.samples), format_count(lost, rec->lost));
	if (!rec->end_info)
		fprintf(out, "The recording was killed: no names, and times aren't known.\n");
	if (rec->stacks.count)
		fprintf(out, "Call graphs: %s of %s samples in guests\n",
			format_count(samples, report->stacks), format_count(number, report->guests));
	if (rec->throttled)
		fprintf(out, "Host perf paused the event %s times, as there were too many samples.\n",
			format_count(number, rec->throttled));
	if (rec->running < rec->enabled)
		fprintf(out, "The event counted for %s of the time, as counters were needed "
			"for others.\n", format_share(number, rec->running, rec->enabled));
}

/* Rows of @rows, with their functions if @functions is true */
static void print_rows(const struct report *report, const struct rows *rows, bool functions,
		       FILE *out)
{
	static const struct column columns[] = {
		{ "TOTAL", RIGHT }, { "SHARE", RIGHT }, { "SAMPLES", RIGHT }, { "VM", LEFT },
		{ "WHERE", LEFT }, { "PROCESS", LEFT }, { "FUNCTION", LEFT }, { "MODULE", LEFT }, { }
	}, who[] = {
		{ "SHARE", RIGHT }, { "SAMPLES", RIGHT }, { "VM", LEFT }, { "WHERE", LEFT },
		{ "PROCESS", LEFT }, { }
	};
	bool totals = functions && report->rec->stacks.count;
	struct table table;
	size_t i;

	table_init(&table, !functions ? who : totals ? columns : columns + 1);
	for (i = 0; i < rows->count && i < report->options->limit; i++) {
		const struct row *row = rows->row[i];
		char share[NUMBER_SIZE], samples[NUMBER_SIZE];

		if (totals)
			table_add(&table, "%s", format_share(share, row->total, rows->value));
		table_add(&table, "%s", format_share(share, row->value, rows->value));
		table_add(&table, "%s", format_count(samples, row->samples));
		table_add(&table, "%s", row->vm ? row->vm->name : "-");
		table_add(&table, "%s", place_kind_name(row->kind));
		table_add(&table, "%s", *row->process ? row->process : "-");
		if (!functions)
			continue;
		table_add(&table, "%s", row->function);
		table_add(&table, "%s", *row->module ? row->module : "-");
	}
	table_print(&table, out, 0);
	table_free(&table);
}

/* How much of @ticks in guest mode was in @kind, by the samples of vCPU @i */
static uint64_t ticks_of(const struct report *report, size_t i, enum place_kind kind)
{
	const struct vcpu_times *t = &report->vcpu[i];
	uint64_t ticks = t->in[VCPU_LOADED] - t->kvm, all = 0;
	unsigned int k;

	for (k = PLACE_KERNEL; k < PLACE_KINDS; k++)
		all += report->guest[i][k];
	return all ? (double)ticks * report->guest[i][kind] / all : 0;
}

static void print_vcpus(const struct report *report, FILE *out)
{
	static const struct column columns[] = {
		{ "VM", LEFT }, { "VCPU", RIGHT }, { "GUEST", RIGHT }, { "KERNEL", RIGHT },
		{ "USER", RIGHT }, { "KVM", RIGHT }, { "HALTED", RIGHT }, { "STOLEN", RIGHT },
		{ "WAITING", RIGHT }, { "VMM", RIGHT }, { "UNKNOWN", RIGHT }, { }
	};
	uint64_t whole = report->rec->end.tsc - report->rec->begin.tsc;
	struct table table;
	size_t i;

	table_init(&table, columns);
	for (i = 0; i < report->vcpus; i++) {
		const struct vcpu_times *t = &report->vcpu[i];
		const struct vm *vm = recording_vm(report->rec, t->vm);
		const uint64_t ticks[] = {
			t->in[VCPU_LOADED] - t->kvm, ticks_of(report, i, PLACE_KERNEL),
			ticks_of(report, i, PLACE_USER), t->kvm, t->in[VCPU_HALTED],
			t->in[VCPU_STOLEN], t->in[VCPU_WAITING], t->in[VCPU_VMM],
			t->in[VCPU_UNKNOWN],
		};
		char share[NUMBER_SIZE];
		size_t k;

		if (!is_wanted(report, vm))
			continue;
		table_add(&table, "%s", place_vm_name(vm));
		table_add(&table, "%" PRId32, t->vcpu);
		for (k = 0; k < ARRAY_SIZE(ticks); k++)
			table_add(&table, "%s", format_share(share, ticks[k], whole));
	}
	table_print(&table, out, 0);
	table_free(&table);
}

static void print_text(const struct report *report, FILE *out)
{
	print_head(report, out);
	fprintf(out, "\nWho\n");
	print_rows(report, &report->who, false, out);
	if (report->vcpus) {
		fprintf(out, "\nvCPUs' time\n");
		print_vcpus(report, out);
	}
	fprintf(out, "\nFunctions\n");
	print_rows(report, &report->function, true, out);
}

/* ---- JSON */

static void add_vm(struct json_object *object, const struct vm *vm)
{
	json_object_object_add(object, "vm", vm ? json_object_new_uint64(vm->info.id) : NULL);
	json_object_object_add(object, "vm_name", json_text(vm ? vm->name : NULL));
}

static struct json_object *row_json(const struct row *row)
{
	struct json_object *object = json_object_new_object();

	add_vm(object, row->vm);
	json_object_object_add(object, "where", json_object_new_string(place_kind_name(row->kind)));
	json_object_object_add(object, "process", json_text(*row->process ? row->process : NULL));
	if (*row->function) {
		json_object_object_add(object, "total", json_object_new_uint64(row->total));
		json_object_object_add(object, "function", json_object_new_string(row->function));
		json_object_object_add(object, "module",
				       json_text(*row->module ? row->module : NULL));
	}
	json_object_object_add(object, "value", json_object_new_uint64(row->value));
	json_object_object_add(object, "samples", json_object_new_uint64(row->samples));
	return object;
}

static void add_rows(struct json_stream *stream, const char *key, const struct rows *rows)
{
	size_t i;

	json_open(stream, key, '[');
	for (i = 0; i < rows->count; i++)
		json_add(stream, NULL, row_json(rows->row[i]));
	json_close(stream, ']');
}

static struct json_object *ns_json(const struct report *report, uint64_t ticks)
{
	return json_object_new_uint64(recording_ns(report->rec, ticks) + 0.5);
}

static struct json_object *vcpu_json(const struct report *report, size_t i)
{
	const struct vcpu_times *t = &report->vcpu[i];
	const struct vm *vm = recording_vm(report->rec, t->vm);
	struct json_object *object = json_object_new_object();
	unsigned int state;

	add_vm(object, vm);
	json_object_object_add(object, "pid", vm ? json_object_new_int(vm->info.pid) : NULL);
	json_object_object_add(object, "vcpu", json_object_new_int(t->vcpu));
	json_object_object_add(object, "guest_ns",
			       ns_json(report, t->in[VCPU_LOADED] - t->kvm));
	json_object_object_add(object, "kvm_ns", ns_json(report, t->kvm));
	for (state = 0; state < VCPU_STATES; state++) {
		char *key;

		if (state == VCPU_LOADED)
			continue;
		key = xasprintf("%s_ns", timeline_state_name(state));
		json_object_object_add(object, key, ns_json(report, t->in[state]));
		free(key);
	}
	json_object_object_add(object, "preempted", json_object_new_uint64(t->stolen));
	return object;
}

static void print_json(const struct report *report, FILE *out)
{
	const struct recording *rec = report->rec;
	struct json_stream stream = { .out = out };
	size_t i;

	json_open(&stream, NULL, '{');
	json_add(&stream, "recording", json_object_get(rec->info));
	json_add(&stream, "complete", json_object_new_boolean(rec->end_info != NULL));
	json_add(&stream, "ns", ns_json(report, rec->end.tsc - rec->begin.tsc));
	json_add(&stream, "ticks", json_object_new_uint64(rec->end.tsc - rec->begin.tsc));
	json_add(&stream, "samples", json_object_new_uint64(report->who.samples));
	json_add(&stream, "guest_samples", json_object_new_uint64(report->guests));
	json_add(&stream, "call_graphs", json_object_new_uint64(report->stacks));
	json_add(&stream, "lost", json_object_new_uint64(rec->lost));
	json_add(&stream, "throttled", json_object_new_uint64(rec->throttled));
	json_add(&stream, "enabled_ns", json_object_new_uint64(rec->enabled));
	json_add(&stream, "running_ns", json_object_new_uint64(rec->running));
	add_rows(&stream, "who", &report->who);
	json_open(&stream, "vcpus", '[');
	for (i = 0; i < report->vcpus; i++)
		if (is_wanted(report, recording_vm(rec, report->vcpu[i].vm)))
			json_add(&stream, NULL, vcpu_json(report, i));
	json_close(&stream, ']');
	add_rows(&stream, "functions", &report->function);
	json_close(&stream, '}');
}

void report_run(const struct places *places, const struct report_options *options, FILE *out)
{
	struct report report = { .rec = places->recording, .options = options };

	fill(&report, places);
	if (options->json)
		print_json(&report, out);
	else
		print_text(&report, out);
	free_report(&report);
}

/* ---- arguments */

/**
 * struct arguments - vpmu report
 * @ctx: the context
 * @input: what to read
 * @vm: of which VM only; NULL: all
 * @limit: rows of a table
 */
struct arguments {
	struct context *ctx;
	struct input_options input;
	const char *vm;
	uint64_t limit;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = a->ctx;
		state->child_inputs[1] = &a->input;
		return 0;
	case 'n':
		if (!parse_number(arg, UINT32_MAX, &a->limit))
			argp_error(state, "rows '%s': a number from 1", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (a->vm)
			argp_error(state, "unexpected argument '%s'", arg);
		a->vm = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct arguments a = { .ctx = ctx, .input = { .file = RECORDING_FILE }, .limit = 20 };
	struct report_options options = { };
	struct input input;
	enum status status;
	struct vm vm;

	argp_parse(report_command.argp, argc, argv, ARGP_IN_ORDER, NULL, &a);
	status = input_open(&input, &a.input);
	if (status)
		return status;
	options.json = ctx->json;
	options.limit = a.limit;
	if (a.vm) {
		status = input_find_vm(&input, a.vm, &vm);
		options.vm = &vm;
	}
	if (!status)
		report_run(&input.places, &options, stdout);
	input_close(&input);
	return status;
}

static const struct argp_option option_list[] = {
	{ "rows", 'n', "N", 0, "At most N rows of a table (20)", 0 },
	{ }
};
static const struct argp_child children[] = {
	{ &json_argp, 0, NULL, 0 }, { &input_argp, 0, NULL, 0 }, { }
};
static const struct argp argp = {
	option_list, parse, "[VM]",
	"Print what a recording has of the host and its VMs, or of one VM: whose time it was, what the "
	"vCPUs did, and the functions that take most.",
	children, NULL, NULL
};

const struct command report_command = {
	"report", "print a recording: whose time, which functions", &argp, run
};
