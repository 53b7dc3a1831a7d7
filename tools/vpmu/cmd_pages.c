// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu pages: how much memory the vCPUs of a VM work with, and how much of that they share. */
#include "cmd.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fills.h"
#include "output.h"
#include "page_sets.h"
#include "util.h"

/* Numbers "per" are per so many events. */
#define PER	1000000

/**
 * struct pages_options - vpmu pages
 * @vm: which VM, as vm_find() takes it
 * @event: names of the events, NULL for those of this host's CPU
 * @fills: "SOURCE=EVENT,...", NULL for those of this host's CPU
 * @period: memory operations in a window
 * @windows: how many
 * @timeout: of each, in ns
 * @seconds: for how long to count fills, in ns
 */
struct pages_options {
	struct context *ctx;
	const char *vm;
	char *event[PAGE_EVENTS];
	char *fills;
	uint64_t period, windows, timeout, seconds;
};

/**
 * struct page_run - what is looked at
 * @options: how
 * @dev: the device
 * @vm: the VM
 * @name: of the events; NULL: there is none
 * @code: the events
 * @sets: what was found
 * @fill_events: events of fills, if @has_fills
 * @fills: what these counted
 */
struct page_run {
	const struct pages_options *options;
	struct device *dev;
	struct vm vm;
	const char *name[PAGE_EVENTS];
	struct event_code code[PAGE_EVENTS];
	struct page_sets sets;
	struct fill_events fill_events;
	bool has_fills;
	struct fills fills;
};

/* ---- events */

/*
 * Memory operations and stores, by libpfm4's names, of AMD's families 17h to 1Ah, 15h and 10h, and
 * of Intel's CPUs since Skylake.  Loads that store count as both, once as a memory operation.
 */
static const char *const known_events[][PAGE_EVENTS] = {
	{ "LS_DISPATCH:LD_DISPATCH:STORE_DISPATCH:LD_ST_DISPATCH",
	  "LS_DISPATCH:STORE_DISPATCH:LD_ST_DISPATCH" },
	{ "LS_DISPATCH:ALL", "LS_DISPATCH:STORES:LOAD_OP_STORES" },
	{ "DATA_CACHE_ACCESSES", NULL },
	{ "MEM_INST_RETIRED:ANY", "MEM_INST_RETIRED:ALL_STORES" },
};

/* All of @names that aren't NULL; the first has to be there. */
static bool encode(struct page_run *run, const char *const names[PAGE_EVENTS], char **why)
{
	int i;

	for (i = 0; i < PAGE_EVENTS; i++) {
		run->name[i] = names[i];
		if (names[i] && !event_encode(names[i], &run->code[i], why))
			return false;
	}
	return true;
}

static enum status find_events(struct page_run *run)
{
	const char *const *given = (const char *const *)run->options->event;
	char *why;
	size_t i;

	if (given[PAGE_MEMORY]) {
		if (encode(run, given, &why))
			return STATUS_OK;
		warnx("%s", why);
		free(why);
		return STATUS_USAGE;
	}
	for (i = 0; i < ARRAY_SIZE(known_events); i++) {
		if (encode(run, known_events[i], &why))
			return STATUS_OK;
		free(why);
	}
	warnx("no event for memory operations is known of this CPU: name one with --event");
	return STATUS_ERROR;
}

static enum status find_fills(struct page_run *run)
{
	char *why;

	if (!run->options->fills) {
		run->has_fills = fill_events_find(&run->fill_events);
		return STATUS_OK;
	}
	run->has_fills = true;
	if (fill_events_parse(&run->fill_events, run->options->fills, &why))
		return STATUS_OK;
	warnx("%s", why);
	free(why);
	return STATUS_USAGE;
}

/* ---- the VM */

static int by_id(const void *a, const void *b)
{
	const struct vcpu_pages *left = a, *right = b;

	return left->id < right->id ? -1 : left->id > right->id;
}

static int find_vcpus(struct page_run *run)
{
	struct page_sets *sets = &run->sets;
	struct kvm_vpmu_vcpu vcpu;
	int r;

	while (!(r = device_vcpu(run->dev, run->vm.info.id, sets->count, &vcpu))) {
		sets->vcpu = xgrow(sets->vcpu, sets->count, sizeof(*sets->vcpu));
		sets->vcpu[sets->count++] = (struct vcpu_pages){
			.id = vcpu.vcpu_id, .tid = vcpu.tid,
		};
	}
	if (r != -ENOENT || !sets->count)
		return r;
	qsort(sets->vcpu, sets->count, sizeof(*sets->vcpu), by_id);
	return 0;
}

/*
 * Page frames to look at: all that the VMM has in its address space, behind the hole that the memory
 * of a PC has below 4 GiB.  Where that isn't enough, the module says so.
 */
static uint64_t guess_pages(const struct page_run *run)
{
	char *path = xasprintf("%s/%d/statm", run->options->ctx->proc, run->vm.info.pid);
	FILE *file = fopen(path, "re");
	uint64_t pages = 0;

	free(path);
	if (file) {
		if (fscanf(file, "%" SCNu64, &pages) != 1)
			pages = 0;
		fclose(file);
	}
	pages += (1ull << 32) / getpagesize();
	if (pages >= KVM_VPMU_PROBE_MAX_PAGES)
		return KVM_VPMU_PROBE_MAX_PAGES;
	return (pages + KVM_VPMU_PROBE_PAGES - 1) / KVM_VPMU_PROBE_PAGES * KVM_VPMU_PROBE_PAGES;
}

/* ---- windows */

/* So many vCPUs from @first on that one probe takes them */
static size_t group_size(const struct page_sets *sets, size_t first)
{
	size_t n = 1;

	while (first + n < sets->count &&
	       sets->vcpu[first + n].id - sets->vcpu[first].id < KVM_VPMU_PROBE_MAX_VCPUS)
		n++;
	return n;
}

/*
 * A page counts from the window on that follows the vCPU's first access: the first window is for
 * that only.
 */
static int probe_group(struct page_run *run, size_t first, size_t vcpus)
{
	const uint32_t timeout = run->options->timeout / 1000000;
	struct page_sets *sets = &run->sets;
	struct kvm_vpmu_probe what = {
		.vm = run->vm.info.id, .fd = -1, .first = sets->vcpu[first].id,
		.nr = sets->vcpu[first + vcpus - 1].id - sets->vcpu[first].id + 1,
		.period = run->options->period, .pages = sets->words * 64,
	};
	struct probe probe;
	uint64_t i;
	int r;

	for (; what.events < PAGE_EVENTS && run->name[what.events]; what.events++) {
		what.type[what.events] = run->code[what.events].type;
		what.config[what.events] = run->code[what.events].config;
	}
	r = probe_open(&probe, run->dev, &what, vcpus);
	if (r)
		return r;
	r = probe_window(&probe, timeout);
	for (i = 0; r >= 0 && i < run->options->windows; i++) {
		r = probe_window(&probe, timeout);
		if (r >= 0)
			page_sets_add(sets, first, &probe);
	}
	probe_close(&probe);
	return r < 0 ? r : 0;
}

static int probe_all(struct page_run *run, uint64_t pages)
{
	size_t first, vcpus;
	int r = 0;

	page_sets_clear(&run->sets, pages / 64);
	for (first = 0; !r && first < run->sets.count; first += vcpus) {
		vcpus = group_size(&run->sets, first);
		r = probe_group(run, first, vcpus);
	}
	return r;
}

static uint32_t all_flags(const struct page_sets *sets)
{
	uint32_t flags = 0;
	size_t i;

	for (i = 0; i < sets->count; i++)
		flags |= sets->vcpu[i].flags;
	return flags;
}

static int look(struct page_run *run)
{
	uint64_t pages = guess_pages(run);
	int r;

	for (;;) {
		r = probe_all(run, pages);
		if (r || !(all_flags(&run->sets) & KVM_VPMU_PROBED_BEYOND) ||
		    pages >= KVM_VPMU_PROBE_MAX_PAGES)
			return r;
		pages *= 2;
		if (pages > KVM_VPMU_PROBE_MAX_PAGES)
			pages = KVM_VPMU_PROBE_MAX_PAGES;
	}
}

/* ---- fills */

static enum status count_fills(struct page_run *run)
{
	const struct page_sets *sets = &run->sets;
	int *tid = xrealloc(NULL, (sets->count + 1) * sizeof(*tid)), r;
	size_t i;

	for (i = 0; i < sets->count; i++)
		tid[i] = sets->vcpu[i].tid;
	r = fills_count(&run->fill_events, tid, sets->count, run->options->seconds, &run->fills);
	free(tid);
	if (!r)
		return STATUS_OK;
	if (r == -ESRCH) {
		warnx("%s has ended", run->vm.name);
		return STATUS_NO_VM;
	}
	warnx("where loads are from: %s", strerror(-r));
	return STATUS_ERROR;
}

static enum status complain(const struct page_run *run, int error)
{
	switch (error) {
	case -EBUSY:
		warnx("%s: another program looks at its pages", run->vm.name);
		return STATUS_ERROR;
	case -EOPNOTSUPP:
		warnx("KVM's page tables have no accessed and dirty bits on this host, or not for this VM");
		return STATUS_ERROR;
	case -EINVAL:
		warnx("this host doesn't count %s", run->name[PAGE_MEMORY]);
		return STATUS_ERROR;
	case -ENOENT:
		warnx("%s has ended, or this host doesn't count %s", run->vm.name,
		      run->name[PAGE_MEMORY]);
		return STATUS_NO_VM;
	default:
		device_complain(error);
		return STATUS_ERROR;
	}
}

/* ---- output */

static struct json_object *vcpu_json(const struct page_run *run, size_t i)
{
	const struct vcpu_pages *v = &run->sets.vcpu[i];
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "vcpu", json_object_new_int64(v->id));
	json_object_object_add(o, "tid", json_object_new_int(v->tid));
	json_object_object_add(o, "windows", json_object_new_int64(v->windows));
	json_object_object_add(o, "whole", json_object_new_int64(v->whole));
	json_object_object_add(o, "memory_operations",
			       json_object_new_uint64(v->count[PAGE_MEMORY]));
	json_object_object_add(o, "stores", run->name[PAGE_STORES] ?
			       json_object_new_uint64(v->count[PAGE_STORES]) : NULL);
	json_object_object_add(o, "mapped", json_object_new_uint64(v->mapped));
	json_object_object_add(o, "fresh", json_object_new_uint64(v->fresh));
	json_object_object_add(o, "gone", json_object_new_uint64(v->gone));
	json_object_object_add(o, "accessed", json_object_new_uint64(
			       page_set_size(&run->sets, i, PAGES_ACCESSED)));
	json_object_object_add(o, "written", json_object_new_uint64(
			       page_set_size(&run->sets, i, PAGES_WRITTEN)));
	json_object_object_add(o, "replaced",
			       json_object_new_boolean(v->flags & KVM_VPMU_PROBED_REPLACED));
	json_object_object_add(o, "not_counted",
			       json_object_new_boolean(v->flags & KVM_VPMU_PROBED_NO_COUNT));
	json_object_object_add(o, "beyond",
			       json_object_new_boolean(v->flags & KVM_VPMU_PROBED_BEYOND));
	return o;
}

static struct json_object *metric_json(struct page_metric metric)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "pages", json_number(metric.pages));
	json_object_object_add(o, "per_million_memory_operations",
			       json_number(metric.per[PAGE_MEMORY] * PER));
	json_object_object_add(o, "per_million_stores",
			       json_number(metric.per[PAGE_STORES] * PER));
	return o;
}

static struct json_object *metrics_json(const struct page_sets *sets)
{
	struct json_object *o = json_object_new_object(), *r = json_object_new_object(),
			   *s = json_object_new_object();

	json_object_object_add(r, "accessed", metric_json(page_metric_r(sets, PAGES_ACCESSED)));
	json_object_object_add(r, "written", metric_json(page_metric_r(sets, PAGES_WRITTEN)));
	json_object_object_add(s, "accessed", metric_json(page_metric_s(sets, PAGES_ACCESSED)));
	json_object_object_add(s, "written", metric_json(page_metric_s(sets, PAGES_WRITTEN)));
	json_object_object_add(o, "r", r);
	json_object_object_add(o, "s", s);
	return o;
}

static double fill_share(const struct fills *fills, int source)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < FILL_SOURCES; i++)
		sum += fills->loads[i];
	return sum ? (double)fills->loads[source] / sum : NAN;
}

static struct json_object *fills_json(const struct page_run *run)
{
	struct json_object *o = json_object_new_object(), *sources = json_object_new_object();
	int i;

	json_object_object_add(o, "seconds", json_number(run->fills.seconds));
	json_object_object_add(o, "counted", json_number(run->fills.counted));
	for (i = 0; i < FILL_SOURCES; i++) {
		struct json_object *source;

		if (!run->fill_events.name[i])
			continue;
		source = json_object_new_object();
		json_object_object_add(source, "event", json_text(run->fill_events.name[i]));
		json_object_object_add(source, "loads",
				       json_object_new_uint64(run->fills.loads[i]));
		json_object_object_add(source, "share", json_number(fill_share(&run->fills, i)));
		json_object_object_add(sources, fill_name(i), source);
	}
	json_object_object_add(o, "from", sources);
	return o;
}

static void print_json(const struct page_run *run, FILE *out)
{
	struct json_object *o = vm_json(&run->vm), *vcpus = json_object_new_array();
	size_t i;

	for (i = 0; i < run->sets.count; i++)
		json_object_array_add(vcpus, vcpu_json(run, i));
	json_object_object_add(o, "memory_event", json_text(run->name[PAGE_MEMORY]));
	json_object_object_add(o, "store_event", json_text(run->name[PAGE_STORES]));
	json_object_object_add(o, "period", json_object_new_uint64(run->options->period));
	json_object_object_add(o, "vcpu", vcpus);
	json_object_object_add(o, "metrics", metrics_json(&run->sets));
	json_object_object_add(o, "fills", run->has_fills ? fills_json(run) : NULL);
	json_print(out, o, true);
}

static void print_vcpus(const struct page_run *run, FILE *out)
{
	static const struct column columns[] = {
		{ "VCPU", RIGHT }, { "THREAD", RIGHT }, { "WINDOWS", RIGHT }, { "MEMORY-OPS", RIGHT },
		{ "STORES", RIGHT }, { "MAPPED", RIGHT }, { "ACCESSED", RIGHT }, { "WRITTEN", RIGHT }, { }
	};
	struct table table;
	size_t i;

	table_init(&table, columns);
	for (i = 0; i < run->sets.count; i++) {
		const struct vcpu_pages *v = &run->sets.vcpu[i];
		char text[NUMBER_SIZE];

		table_add(&table, "%" PRIu32, v->id);
		table_add(&table, "%" PRId32, v->tid);
		table_add(&table, "%u", v->windows);
		table_add(&table, "%s", format_count(text, v->count[PAGE_MEMORY]));
		table_add(&table, "%s", run->name[PAGE_STORES] ?
			  format_count(text, v->count[PAGE_STORES]) : "-");
		table_add(&table, "%s", format_count(text, v->mapped));
		table_add(&table, "%s", format_count(text,
						     page_set_size(&run->sets, i, PAGES_ACCESSED)));
		table_add(&table, "%s", format_count(text,
						     page_set_size(&run->sets, i, PAGES_WRITTEN)));
	}
	table_print(&table, out, 0);
	table_free(&table);
}

static void add_number(struct table *table, double number)
{
	if (isnan(number))
		table_add(table, "-");
	else
		table_add(table, "%.1f", number);
}

static void add_metric(struct table *table, const char *name, struct page_metric metric)
{
	table_add(table, "%s", name);
	add_number(table, metric.pages);
	add_number(table, metric.per[PAGE_MEMORY] * PER);
	add_number(table, metric.per[PAGE_STORES] * PER);
}

static void print_metrics(const struct page_sets *sets, FILE *out)
{
	static const struct column columns[] = {
		{ "PAGES OF A VCPU", LEFT }, { "PAGES", RIGHT }, { "PER 1M MEMORY-OPS", RIGHT },
		{ "PER 1M STORES", RIGHT }, { }
	};
	struct table table;

	table_init(&table, columns);
	add_metric(&table, "accessed", page_metric_r(sets, PAGES_ACCESSED));
	add_metric(&table, "written", page_metric_r(sets, PAGES_WRITTEN));
	add_metric(&table, "accessed by another, too", page_metric_s(sets, PAGES_ACCESSED));
	add_metric(&table, "written by another, too", page_metric_s(sets, PAGES_WRITTEN));
	table_print(&table, out, 0);
	table_free(&table);
}

static void print_fills(const struct page_run *run, FILE *out)
{
	static const struct column columns[] = {
		{ "LOADS FROM", LEFT }, { "LOADS", RIGHT }, { "PER SECOND", RIGHT }, { "SHARE", RIGHT },
		{ }
	};
	const struct fills *fills = &run->fills;
	struct table table;
	int i;

	table_init(&table, columns);
	for (i = 0; i < FILL_SOURCES; i++) {
		char text[NUMBER_SIZE];

		if (!run->fill_events.name[i])
			continue;
		table_add(&table, "%s", fill_text(i));
		table_add(&table, "%s", format_count(text, fills->loads[i]));
		table_add(&table, "%s", format_count(text, fills->loads[i] / fills->seconds));
		if (isnan(fill_share(fills, i)))
			table_add(&table, "-");
		else
			table_add(&table, "%.1f%%", 100 * fill_share(fills, i));
	}
	table_print(&table, out, 0);
	table_free(&table);
}

/* What makes the numbers less than they should be */
static void print_notes(const struct page_run *run)
{
	const struct page_sets *sets = &run->sets;
	uint32_t flags = all_flags(sets);
	size_t i, idle = 0, fewer = 0;
	uint64_t gone = 0;

	for (i = 0; i < sets->count; i++) {
		gone += sets->vcpu[i].gone;
		idle += !sets->vcpu[i].windows;
		fewer += sets->vcpu[i].whole < sets->vcpu[i].windows;
	}
	if (idle)
		warnx("%zu of %zu vCPUs didn't run, and aren't in the averages", idle, sets->count);
	if (fewer)
		warnx("windows of %zu vCPUs ended by the timeout: they have fewer operations", fewer);
	if (flags & KVM_VPMU_PROBED_REPLACED)
		warnx("KVM has replaced page tables meanwhile: pages are missing");
	if (gone)
		warnx("the host has taken away %llu pages meanwhile: they are missing",
		      (unsigned long long)gone);
	if (flags & KVM_VPMU_PROBED_NO_COUNT)
		warnx("host perf had no counter: operations are missing");
	if (flags & KVM_VPMU_PROBED_BEYOND)
		warnx("the VM has more memory than can be looked at: pages are missing");
	if (run->has_fills && run->fills.counted < 1)
		warnx("host perf had too few counters: where loads are from was counted for %.0f%% of the time, and is estimated",
		      100 * run->fills.counted);
}

static enum status pages_run(struct page_run *run, FILE *out)
{
	int r = find_vcpus(run);
	enum status status;

	if (!r)
		r = look(run);
	if (r)
		return complain(run, r);
	status = run->has_fills ? count_fills(run) : STATUS_OK;
	if (status)
		return status;
	print_notes(run);
	if (run->options->ctx->json) {
		print_json(run, out);
		return STATUS_OK;
	}
	print_vcpus(run, out);
	fputc('\n', out);
	print_metrics(&run->sets, out);
	if (run->has_fills) {
		fputc('\n', out);
		print_fills(run, out);
	}
	return STATUS_OK;
}

/* ---- arguments */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct pages_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = options->ctx;
		return 0;
	case 'c':
		argp_count(state, arg, "count", INT64_MAX, &options->period);
		return 0;
	case 'e':
		options->event[PAGE_MEMORY] = strsep(&arg, ",");
		options->event[PAGE_STORES] = arg;
		return 0;
	case 'f':
		options->fills = arg;
		return 0;
	case 'n':
		argp_count(state, arg, "windows", 1000, &options->windows);
		return 0;
	case 's':
		if (!parse_seconds(arg, &options->seconds))
			argp_error(state, "seconds '%s': from 0.01 to 86400", arg);
		return 0;
	case 't':
		if (!parse_seconds(arg, &options->timeout))
			argp_error(state, "timeout '%s': seconds from 0.01 to 86400", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (options->vm)
			argp_error(state, "unexpected argument '%s'", arg);
		options->vm = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "missing VM");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct pages_options options = {
		.ctx = ctx, .period = 10000000, .windows = 3, .timeout = NS_PER_S,
		.seconds = NS_PER_S,
	};
	struct device dev;
	struct page_run run = { .options = &options, .dev = &dev };
	enum status status;

	argp_parse(pages_command.argp, argc, argv, 0, NULL, &options);
	status = find_events(&run);
	if (!status)
		status = find_fills(&run);
	if (status)
		return status;
	if (device_open(&dev))
		return STATUS_ERROR;
	status = vm_lookup(&dev, ctx->proc, options.vm, &run.vm, stderr);
	if (!status)
		status = pages_run(&run, stdout);
	page_sets_free(&run.sets);
	device_close(&dev);
	return status;
}

static const struct argp_option option_list[] = {
	{ "count", 'c', "N", 0, "A window is N memory operations of the vCPU (10000000)", 0 },
	{ "event", 'e', "MEMORY[,STORES]", 0,
	  "What memory operations and stores are: libpfm4's names, or rNNN as perf has it", 0 },
	{ "fills", 'f', "SOURCE=EVENT,...", 0,
	  "Count these for where loads are from: cache, near-cache, memory, far-cache, far-modified, far-memory", 0 },
	{ "seconds", 's', "SECONDS", 0, "Count where loads are from for so long (1)", 0 },
	{ "timeout", 't', "SECONDS", 0, "A window ends after that at the latest (1)", 0 },
	{ "windows", 'n', "N", 0, "So many windows (3): pages are those that each of them has", 0 },
	{ }
};
static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, "VM",
	"Show how many pages of memory a VM's vCPUs work with, and how many of them they share.",
	children, NULL, NULL
};

const struct command pages_command = {
	"pages", "show how much memory vCPUs use and share", &argp, run
};
