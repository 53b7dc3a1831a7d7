// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "hypervisor.h"
#include "openmetrics.h"
#include "output.h"
#include "sample.h"
#include "util.h"

/* Figures of a vCPU, in lines of so many columns */
#define FIGURES_PER_LINE	4

/* What reports are made of. */
struct report {
	const struct event_names *names;
	const struct sample *now;
	const struct sample *before;	/* NULL: totals */
	FILE *out;
};

static double seconds(const struct report *report)
{
	return (double)(report->now->time - report->before->time) / NS_PER_S;
}

static double figure_rate(const struct report *report, const struct kvm_vpmu_vcpu *vcpu,
			  const struct kvm_vpmu_vcpu *before, enum figure f)
{
	return before ? (figure(vcpu, f) - figure(before, f)) / seconds(report) : NAN;
}

static double counter_rate(const struct report *report, const struct kvm_vpmu_vcpu *vcpu,
			   const struct kvm_vpmu_vcpu *before, unsigned int i)
{
	__u64 gain;

	return counter_gain(vcpu, before, i, &gain) ? gain / seconds(report) : NAN;
}

static struct json_object *counter_json(const struct report *report,
					const struct kvm_vpmu_vcpu *vcpu,
					const struct kvm_vpmu_vcpu *before, unsigned int i)
{
	const struct kvm_vpmu_counter *counter = &vcpu->counter[i];
	struct json_object *o = json_object_new_object();
	char name[EVENT_NAME_SIZE];

	event_name(report->names, vcpu->registers, counter->select, name);
	json_object_object_add(o, "index", json_object_new_int(i));
	json_object_object_add(o, "select", json_object_new_uint64(counter->select));
	json_object_object_add(o, "event", json_text(counter->select ? name : NULL));
	json_object_object_add(o, "interrupts",
			       json_object_new_boolean(!!(counter->select & EVENT_INT)));
	json_object_object_add(o, "enabled",
			       json_object_new_boolean(!!(counter->flags & KVM_VPMU_COUNTER_ENABLED)));
	json_object_object_add(o, "denied",
			       json_object_new_boolean(!!(counter->flags & KVM_VPMU_COUNTER_DENIED)));
	json_object_object_add(o, "borrows",
			       json_object_new_boolean(!!(counter->flags & KVM_VPMU_COUNTER_BORROWS)));
	json_object_object_add(o, "value", json_object_new_uint64(counter->value));
	json_object_object_add(o, "enabled_ns", json_object_new_uint64(counter->enabled_ns));
	json_object_object_add(o, "running_ns", json_object_new_uint64(counter->running_ns));
	if (report->before)
		json_object_object_add(o, "rate",
				       json_number(counter_rate(report, vcpu, before, i)));
	return o;
}

/* How many of event @e have come, or came in a second; NAN if nobody has counted them */
static double event_count(const struct report *report, const struct kvm_vpmu_events *events,
			  const struct kvm_vpmu_events *before, const struct hypervisor_event *e)
{
	if (report->before)
		return before ? (events->count[e->umask] - before->count[e->umask]) / seconds(report) :
				NAN;
	return hypervisor_event_needs_observer(e) ? NAN : events->count[e->umask];
}

/* Totals as far as they are known, or rates */
static struct json_object *events_json(const struct report *report,
				       const struct kvm_vpmu_events *events,
				       const struct kvm_vpmu_events *before)
{
	struct json_object *o = json_object_new_object();
	const struct hypervisor_event *e;

	for (e = hypervisor_events; e->name; e++) {
		double n = event_count(report, events, before, e);

		json_object_object_add(o, e->name, report->before || isnan(n) ?
				       json_number(n) :
				       json_object_new_uint64(events->count[e->umask]));
	}
	return o;
}

static struct json_object *vcpu_json(const struct report *report, const struct kvm_vpmu_vcpu *vcpu,
				     const struct kvm_vpmu_events *events)
{
	const struct kvm_vpmu_vcpu *before = sample_find(report->before, vcpu);
	struct json_object *o = json_object_new_object(), *array = json_object_new_array();
	enum figure f;
	unsigned int i;

	json_object_object_add(o, "index", json_object_new_int64(vcpu->index));
	json_object_object_add(o, "vcpu_id", json_object_new_int64(vcpu->vcpu_id));
	json_object_object_add(o, "registers", json_text(vm_registers_name(vcpu->registers)));
	for (f = 0; f < FIGURES; f++)
		json_object_object_add(o, figure_name(f), json_object_new_uint64(figure(vcpu, f)));
	json_object_object_add(o, "descheduled_tsc",
			       json_object_new_uint64(vcpu->descheduled_tsc));
	if (report->before) {
		struct json_object *rates = json_object_new_object();

		for (f = 0; f < FIGURES; f++)
			json_object_object_add(rates, figure_name(f),
					       json_number(figure_rate(report, vcpu, before, f)));
		json_object_object_add(o, "rates", rates);
	}
	if (events) {
		json_object_object_add(o, "tsc_khz", json_object_new_int64(events->tsc_khz));
		json_object_object_add(o, report->before ? "event_rates" : "events",
				       events_json(report, events,
						   sample_find_events(report->before, vcpu)));
	}
	json_object_object_add(o, "counters", json_object_new_int64(vcpu->counters));
	for (i = 0; i < vcpu->counters; i++)
		json_object_array_add(array, counter_json(report, vcpu, before, i));
	json_object_object_add(o, "counter", array);
	return o;
}

static void stream_vm(const struct report *report, const struct sample_vm *vm,
		      struct json_stream *stream)
{
	struct json_object *o = vm_json(&vm->vm);
	size_t c;

	json_open(stream, NULL, '{');
	json_object_object_foreach(o, key, value)
		json_add(stream, key, json_object_get(value));
	json_object_put(o);
	json_open(stream, "vcpu", '[');
	for (c = 0; c < vm->vcpus; c++)
		json_add(stream, NULL, vcpu_json(report, &vm->vcpu[c],
						 vm->events ? &vm->events[c] : NULL));
	json_close(stream, ']');
	json_close(stream, '}');
}

static void print_json(const struct report *report)
{
	struct json_stream stream = { .out = report->out, .pretty = !report->before };
	struct timeval tv;
	size_t v;

	if (report->before) {
		gettimeofday(&tv, NULL);
		json_open(&stream, NULL, '{');
		json_add(&stream, "time", json_number(tv.tv_sec + tv.tv_usec / 1e6));
		json_add(&stream, "interval", json_number(seconds(report)));
	}
	json_open(&stream, report->before ? "vms" : NULL, '[');
	for (v = 0; v < report->now->vms; v++)
		stream_vm(report, &report->now->vm[v], &stream);
	json_close(&stream, ']');
	if (report->before)
		json_close(&stream, '}');
}

/* The figures, several in a line, in columns. */
static void print_figures(const struct report *report, const struct kvm_vpmu_vcpu *vcpu)
{
	const struct kvm_vpmu_vcpu *before = sample_find(report->before, vcpu);
	char text[FIGURES][NUMBER_SIZE];
	int width[FIGURES_PER_LINE] = { };
	enum figure f;

	for (f = 0; f < FIGURES; f++) {
		int w;

		if (report->before)
			format_rate(text[f], figure_rate(report, vcpu, before, f));
		else
			format_count(text[f], figure(vcpu, f));
		w = strlen(text[f]);
		if (w > width[f % FIGURES_PER_LINE])
			width[f % FIGURES_PER_LINE] = w;
	}
	for (f = 0; f < FIGURES; f++) {
		int column = f % FIGURES_PER_LINE;

		fprintf(report->out, "%s%-9s %*s%s", column ? "   " : "  ", figure_name(f),
			width[column] < 6 ? 6 : width[column], text[f],
			column == FIGURES_PER_LINE - 1 || f == FIGURES - 1 ? "\n" : "");
	}
	if (vcpu->anomalies)
		fprintf(report->out, "  ! anomalies: %llu VM entries weren't counted as expected, counts are wrong\n",
			(unsigned long long)vcpu->anomalies);
}

/* What the reader should see about a counter: the share that it ran, if that isn't all. */
static void add_note(struct table *table, const struct kvm_vpmu_counter *counter,
		     __u64 enabled_ns, __u64 running_ns)
{
	char share[NUMBER_SIZE] = "";
	const char *why = "";

	if (running_ns < enabled_ns)
		format_share(share, running_ns, enabled_ns);
	if (counter->flags & KVM_VPMU_COUNTER_DENIED)
		why = "denied";
	else if (counter->flags & KVM_VPMU_COUNTER_BORROWS)
		why = "borrows";
	table_add(table, "%s%s%s%s", *share ? "! ran " : "", share, *share && *why ? ", " : "",
		  why);
}

static void print_counters(const struct report *report, const struct kvm_vpmu_vcpu *vcpu)
{
	static const struct column total_columns[] = {
		{ "CTR", RIGHT }, { "EVENT", LEFT }, { "INT", LEFT }, { "STATE", LEFT },
		{ "VALUE", RIGHT }, { "ENABLED", RIGHT }, { "RUNNING", RIGHT }, { "NOTE", LEFT }, { }
	};
	static const struct column rate_columns[] = {
		{ "CTR", RIGHT }, { "EVENT", LEFT }, { "INT", LEFT }, { "STATE", LEFT },
		{ "VALUE/s", RIGHT }, { "ENABLED", RIGHT }, { "RUNNING", RIGHT }, { "NOTE", LEFT }, { }
	};
	const struct kvm_vpmu_vcpu *before = sample_find(report->before, vcpu);
	struct table table;
	unsigned int i;

	table_init(&table, report->before ? rate_columns : total_columns);
	for (i = 0; i < vcpu->counters; i++) {
		const struct kvm_vpmu_counter *counter = &vcpu->counter[i];
		__u64 enabled = counter->enabled_ns, running = counter->running_ns;
		char name[EVENT_NAME_SIZE], text[NUMBER_SIZE];

		if (!counter_used(counter))
			continue;
		event_name(report->names, vcpu->registers, counter->select, name);
		table_add(&table, "%u", i);
		table_add(&table, "%s", counter->select ? name : "-");
		table_add(&table, "%s", counter->select & EVENT_INT ? "int" : "-");
		table_add(&table, "%s", counter->flags & KVM_VPMU_COUNTER_ENABLED ? "on" : "off");
		if (!report->before) {
			table_add(&table, "%s", format_count(text, counter->value));
			table_add(&table, "%s", format_time(text, enabled));
			table_add(&table, "%s", format_time(text, running));
		} else {
			__u64 time = report->now->time - report->before->time;

			table_add(&table, "%s",
				  format_rate(text, counter_rate(report, vcpu, before, i)));
			if (before && i < before->counters) {
				enabled -= before->counter[i].enabled_ns;
				running -= before->counter[i].running_ns;
				table_add(&table, "%s", format_share(text, enabled, time));
				table_add(&table, "%s", format_share(text, running, time));
			} else {
				enabled = running = 0;
				table_add(&table, "-");
				table_add(&table, "-");
			}
		}
		add_note(&table, counter, enabled, running);
	}
	if (table_rows(&table))
		table_print(&table, report->out, 2);
	else
		fprintf(report->out, "  no counter was used\n");
	table_free(&table);
}

/* The hypervisor's events that have come; times with their share of the time, if that is known. */
static void print_events(const struct report *report, const struct kvm_vpmu_vcpu *vcpu,
			 const struct kvm_vpmu_events *events)
{
	static const struct column total_columns[] = {
		{ "EVENT", LEFT }, { "COUNT", RIGHT }, { "NOTE", LEFT }, { }
	};
	static const struct column rate_columns[] = {
		{ "EVENT", LEFT }, { "COUNT/s", RIGHT }, { "NOTE", LEFT }, { }
	};
	const struct kvm_vpmu_events *before = sample_find_events(report->before, vcpu);
	const struct hypervisor_event *e;
	struct table table;

	table_init(&table, report->before ? rate_columns : total_columns);
	for (e = hypervisor_events; e->name; e++) {
		double n = event_count(report, events, before, e);
		char text[NUMBER_SIZE];

		if (isnan(n) || n == 0)
			continue;
		table_add(&table, "%s", e->name);
		if (report->before)
			table_add(&table, "%s", format_rate(text, n));
		else
			table_add(&table, "%s", format_count(text, events->count[e->umask]));
		if (report->before && e->umask >= KVM_VPMU_EVENT_TICKS_KVM && events->tsc_khz)
			table_add(&table, "%s",
				  format_share(text, n / 1000, events->tsc_khz));
		else
			table_add(&table, "%s", "");
	}
	if (table_rows(&table))
		table_print(&table, report->out, 2);
	else
		fprintf(report->out, "  no event of the hypervisor came\n");
	table_free(&table);
}

static void print_vm(const struct report *report, const struct sample_vm *vm)
{
	size_t c;

	fprintf(report->out, "VM #%llu  %s  PID %d  freeze %s  tsc %s\n",
		(unsigned long long)vm->vm.info.id, vm->vm.name, vm->vm.info.pid,
		or_unknown(vm_freeze_name(vm->vm.info.freeze)),
		or_unknown(vm_tsc_name(vm->vm.info.tsc)));
	for (c = 0; c < vm->vcpus; c++) {
		const struct kvm_vpmu_vcpu *vcpu = &vm->vcpu[c];
		char text[NUMBER_SIZE];

		fprintf(report->out, "\nvCPU %u  registers %s  %u counters", vcpu->vcpu_id,
			or_unknown(vm_registers_name(vcpu->registers)), vcpu->counters);
		if (vcpu->descheduled_tsc)
			fprintf(report->out, "  descheduled %s ticks",
				format_count(text, vcpu->descheduled_tsc));
		fputc('\n', report->out);
		print_figures(report, vcpu);
		if (vm->events)
			print_events(report, vcpu, &vm->events[c]);
		print_counters(report, vcpu);
	}
}

void stat_print_vm(const struct event_names *names, const struct sample *now,
		   const struct sample *before, const struct sample_vm *vm, FILE *out)
{
	print_vm(&(struct report){ names, now, before, out }, vm);
}

static void print(const struct report *report)
{
	size_t v;

	if (report->before) {
		time_t now = time(NULL);
		char text[NUMBER_SIZE] = "";
		struct tm tm;

		if (localtime_r(&now, &tm))
			strftime(text, sizeof(text), "%H:%M:%S", &tm);
		fprintf(report->out, "=== %s, per second, over %.3f s\n", text, seconds(report));
	}
	if (!report->now->vms)
		fprintf(report->out, "no VM has a virtual PMU of kvm_vpmu\n");
	for (v = 0; v < report->now->vms; v++) {
		if (v)
			fputc('\n', report->out);
		print_vm(report, &report->now->vm[v]);
	}
	if (report->before)
		fputc('\n', report->out);
}

static void sleep_until(__u64 time)
{
	struct timespec ts = { time / NS_PER_S, time % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* Look, for @options; a VM that was asked for has to be there. */
static enum status look(struct sample *sample, struct device *dev,
			const struct stat_options *options, const struct vm *vm, FILE *messages)
{
	enum sample_events events = SAMPLE_NO_EVENTS;
	int r;

	if (options->events)
		events = options->interval ? SAMPLE_ALL_EVENTS : SAMPLE_EVENTS;
	r = sample_take(sample, dev, options->ctx->proc, vm ? vm->info.id : 0, events);

	if (r) {
		device_complain(r);
		return STATUS_ERROR;
	}
	if (vm && !sample->vms) {
		fprintf(messages, "vpmu: VM '%s' has ended\n", vm->name);
		sample_free(sample);
		return STATUS_NO_VM;
	}
	return STATUS_OK;
}

enum status stat_run(struct device *dev, const struct event_names *names,
		     const struct stat_options *options, FILE *out, FILE *messages)
{
	void (*show)(const struct report *report) = options->ctx->json ? print_json : print;
	struct sample now, before;
	struct vm found, *vm = NULL;
	enum status status;
	uint64_t n;
	__u64 next;

	if (options->vm) {
		vm = &found;
		status = vm_lookup(dev, options->ctx->proc, options->vm, vm, messages);
		if (status)
			return status;
	}

	status = look(&now, dev, options, vm, messages);
	if (status)
		return status;
	if (options->openmetrics)
		openmetrics_print(out, dev, &now);
	else if (!options->interval)
		show(&(struct report){ names, &now, NULL, out });
	next = now.time;
	for (n = 0; options->interval && (!options->reports || n < options->reports); n++) {
		before = now;
		next += options->interval;
		sleep_until(next);
		status = look(&now, dev, options, vm, messages);
		if (status) {
			sample_free(&before);
			return status;
		}
		show(&(struct report){ names, &now, &before, out });
		sample_free(&before);
		/* Each report as soon as it is there; output_ok() complains at the end. */
		if (fflush(out))
			break;
		/* Late, after SIGSTOP say: don't make up for it by a short interval. */
		if (now.time > next + options->interval / 2)
			next = now.time;
	}
	sample_free(&now);
	return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stat_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = options->ctx;
		return 0;
	case 'e':
		options->events = true;
		return 0;
	case 'i':
		if (!parse_seconds(arg, &options->interval))
			argp_error(state, "--interval: '%s' is not from 0.01 to 86400 seconds", arg);
		return 0;
	case 'n':
		if (!parse_number(arg, UINT64_MAX, &options->reports))
			argp_error(state, "--count: '%s' is not a number greater than 0", arg);
		return 0;
	case 'o':
		options->openmetrics = true;
		return 0;
	case ARGP_KEY_ARG:
		if (options->vm)
			argp_error(state, "unexpected argument '%s'", arg);
		options->vm = arg;
		return 0;
	case ARGP_KEY_END:
		if (options->openmetrics && options->ctx->json)
			argp_error(state, "--openmetrics or --json, not both");
		if (options->openmetrics && options->events)
			argp_error(state, "--openmetrics has no events: not with --events");
		if (options->openmetrics && (options->interval || options->reports))
			argp_error(state, "--openmetrics prints totals, once: not with --interval or --count");
		if (options->reports && !options->interval)
			options->interval = NS_PER_S;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct stat_options options = { .ctx = ctx };
	struct event_names names;
	struct device dev;
	enum status status;

	argp_parse(stat_command.argp, argc, argv, 0, NULL, &options);
	if (device_open(&dev))
		return STATUS_ERROR;
	event_names_init(&names);
	status = stat_run(&dev, &names, &options, stdout, stderr);
	event_names_free(&names);
	device_close(&dev);
	return status;
}

static const struct argp_option option_list[] = {
	{ "events", 'e', NULL, 0, "the hypervisor's events, too", 0 },
	{ "interval", 'i', "SEC", 0, "report rates per second, every SEC seconds", 0 },
	{ "count", 'n', "COUNT", 0, "end after COUNT reports (interval: 1 s by default)", 0 },
	{ "openmetrics", 'o', NULL, 0, "print totals in the text format of OpenMetrics", 0 },
	{ }
};
static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, "[VM]",
	"Show what the virtual PMUs of a VM (a PID, a name or #ID), or of all, did since the vCPUs were created.",
	children, NULL, NULL
};

const struct command stat_command = { "stat", "show counters and figures of vCPUs", &argp, run };
