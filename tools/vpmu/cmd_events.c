// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <cpuid.h>
#include <err.h>
#include <errno.h>
#include <linux/kvm_vpmu.h>
#include <stdlib.h>
#include <string.h>

#include "hypervisor.h"
#include "output.h"
#include "util.h"

/**
 * struct events_options - vpmu events
 * @perf: names of events to print as an argument of perf's -e; NULL for a list of all
 * @each: with them perf record -c 1 samples each event (KVM_VPMU_EVENT_TWICE)
 * @intel: as an Intel CPU has them, not AMD's
 */
struct events_options {
	struct context *ctx;
	const char *perf;
	bool each, intel;
};

/* As perf's event syntax has it (perf-list(1), "EVENT DESCRIPTORS"), with the name to show */
static char *perf_event(const struct hypervisor_event *e, bool each, bool intel)
{
	return xasprintf("cpu/event=0x%llx,umask=0x%02x,name=%s/",
			 (unsigned long long)hypervisor_event_code(intel),
			 e->umask | (each ? KVM_VPMU_EVENT_TWICE : 0), e->name);
}

/* As perf takes it, and libpfm4's PMU perf_raw */
static char *raw_event(const struct hypervisor_event *e, bool intel)
{
	return xasprintf("r%llx", (unsigned long long)hypervisor_event_select(e, intel));
}

static struct json_object *event_json(const struct hypervisor_event *e, bool intel)
{
	struct json_object *o = json_object_new_object();
	char *perf = perf_event(e, false, intel), *raw = raw_event(e, intel);

	json_object_object_add(o, "name", json_text(e->name));
	json_object_object_add(o, "event", json_object_new_int64(hypervisor_event_code(intel)));
	json_object_object_add(o, "umask", json_object_new_int64(e->umask));
	json_object_object_add(o, "raw", json_text(raw));
	json_object_object_add(o, "perf", json_text(perf));
	json_object_object_add(o, "description", json_text(e->description));
	free(perf);
	free(raw);
	return o;
}

static void print_json(bool intel)
{
	struct json_object *array = json_object_new_array();
	const struct hypervisor_event *e;

	for (e = hypervisor_events; e->name; e++)
		json_object_array_add(array, event_json(e, intel));
	json_print(stdout, array, true);
}

static void print(bool intel)
{
	static const struct column columns[] = {
		{ "NAME", LEFT }, { "RAW", LEFT }, { "DESCRIPTION", LEFT }, { }
	};
	const struct hypervisor_event *e;
	struct table table;

	table_init(&table, columns);
	for (e = hypervisor_events; e->name; e++) {
		char *raw = raw_event(e, intel);

		table_add(&table, "%s", e->name);
		table_add(&table, "%s", raw);
		table_add(&table, "%s", e->description);
		free(raw);
	}
	table_print(&table, stdout, 0);
	table_free(&table);
}

static enum status print_perf(const char *names, bool each, bool intel)
{
	char *copy = xasprintf("%s", names), *line = xasprintf("%s", ""), *rest = copy, *name;
	enum status status = STATUS_OK;

	while ((name = strsep(&rest, ",")) != NULL) {
		const struct hypervisor_event *e = hypervisor_event_find(name);
		char *event, *longer;

		if (!e) {
			warnx("no event '%s' (see vpmu events)", name);
			status = STATUS_USAGE;
			break;
		}
		event = perf_event(e, each, intel);
		longer = xasprintf("%s%s%s", line, *line ? "," : "", event);
		free(event);
		free(line);
		line = longer;
	}
	if (status == STATUS_OK)
		puts(line);
	free(line);
	free(copy);
	return status;
}

static bool on_intel(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct events_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = options->ctx;
		return 0;
	case 'e':
		options->each = true;
		return 0;
	case 'p':
		options->perf = arg;
		return 0;
	case 'v':
		if (strcmp(arg, "amd") && strcmp(arg, "intel"))
			argp_error(state, "--vendor: '%s' is not amd or intel", arg);
		options->intel = !strcmp(arg, "intel");
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	case ARGP_KEY_END:
		if (options->perf && options->ctx->json)
			argp_error(state, "--perf and --json exclude each other");
		if (options->each && !options->perf)
			argp_error(state, "--each needs --perf");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct events_options options = { .ctx = ctx, .intel = on_intel() };

	argp_parse(events_command.argp, argc, argv, 0, NULL, &options);
	if (options.perf)
		return print_perf(options.perf, options.each, options.intel);
	if (ctx->json)
		print_json(options.intel);
	else
		print(options.intel);
	return STATUS_OK;
}

static const struct argp_option argp_options[] = {
	{ "each", 'e', NULL, 0, "with --perf: for perf record -c 1, which samples every other event else",
	  0 },
	{ "perf", 'p', "NAME[,NAME...]", 0, "print these events as perf's option -e takes them", 0 },
	{ "vendor", 'v', "amd|intel", 0, "as CPUs of this vendor have them; this CPU's by default",
	  0 },
	{ }
};

static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	argp_options, parse, NULL,
	"List the hypervisor's events, which guests can count after \"vpmu set --events on\".",
	children, NULL, NULL
};

const struct command events_command = {
	"events", "the hypervisor's events, for guests' perf", &argp, run
};
