// SPDX-License-Identifier: GPL-2.0-or-later
#include "export.h"

#include <err.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>

#include "output.h"
#include "timeline.h"
#include "util.h"

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
