// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include "output.h"
#include "vm.h"

struct json_object *vm_json(const struct vm *vm)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "id", json_object_new_uint64(vm->info.id));
	json_object_object_add(o, "pid", json_object_new_int(vm->info.pid));
	json_object_object_add(o, "name", json_text(vm->name));
	json_object_object_add(o, "vcpus", json_object_new_int64(vm->info.vcpus));
	json_object_object_add(o, "freeze", json_text(vm_freeze_name(vm->info.freeze)));
	json_object_object_add(o, "tsc", json_text(vm_tsc_name(vm->info.tsc)));
	json_object_object_add(o, "events", json_text(vm_events_name(vm->info.events)));
	return o;
}

const char *or_unknown(const char *name)
{
	return name ? name : "?";
}

static void print(const struct vm_list *list, FILE *out)
{
	static const struct column columns[] = {
		{ "ID", RIGHT }, { "PID", RIGHT }, { "NAME", LEFT }, { "vCPUs", RIGHT },
		{ "FREEZE", LEFT }, { "TSC", LEFT }, { "EVENTS", LEFT }, { }
	};
	struct table table;
	size_t i;

	table_init(&table, columns);
	for (i = 0; i < list->count; i++) {
		const struct vm *vm = &list->vm[i];

		table_add(&table, "#%llu", (unsigned long long)vm->info.id);
		table_add(&table, "%d", vm->info.pid);
		table_add(&table, "%s", vm->name);
		table_add(&table, "%u", vm->info.vcpus);
		table_add(&table, "%s", or_unknown(vm_freeze_name(vm->info.freeze)));
		table_add(&table, "%s", or_unknown(vm_tsc_name(vm->info.tsc)));
		table_add(&table, "%s", or_unknown(vm_events_name(vm->info.events)));
	}
	table_print(&table, out, 0);
	table_free(&table);
}

enum status list_run(struct device *dev, const struct context *ctx, FILE *out)
{
	struct vm_list list;
	int r = vm_list_get(&list, dev, ctx->proc);

	if (r) {
		device_complain(r);
		return STATUS_ERROR;
	}
	if (ctx->json) {
		struct json_object *array = json_object_new_array();
		size_t i;

		for (i = 0; i < list.count; i++)
			json_object_array_add(array, vm_json(&list.vm[i]));
		json_print(out, array, true);
	} else {
		print(&list, out);
	}
	vm_list_free(&list);
	return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->input;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct device dev;
	enum status status;

	argp_parse(list_command.argp, argc, argv, 0, NULL, ctx);
	if (device_open(&dev))
		return STATUS_ERROR;
	status = list_run(&dev, ctx, stdout);
	device_close(&dev);
	return status;
}

static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	NULL, parse, "", "List the VMs that have a virtual PMU of kvm_vpmu.", children, NULL, NULL
};

const struct command list_command = { "list", "list the VMs", &argp, run };
