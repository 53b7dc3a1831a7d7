// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "output.h"
#include "util.h"

#define NEEDS_ADMIN	"changing settings needs CAP_SYS_ADMIN (run vpmu as root)"

#define TSC_NOT_FIT	"this host's TSC isn't fit for --tsc vcpu"

/* The VM's settings as they are now, for --json. */
static enum status print(struct device *dev, const struct context *ctx, __u64 id, FILE *out)
{
	enum status status = STATUS_NO_VM;
	struct vm_list list;
	int r = vm_list_get_one(&list, dev, ctx->proc, id);

	if (r) {
		device_complain(r);
		return STATUS_ERROR;
	}
	if (list.count) {
		json_print(out, vm_json(list.vm), true);
		status = STATUS_OK;
	}
	vm_list_free(&list);
	return status;
}

static enum status set_one(struct device *dev, const struct set_options *options, FILE *out,
			   FILE *messages)
{
	struct kvm_vpmu_settings settings = options->settings;
	enum status status;
	struct vm vm;
	int r;

	status = vm_lookup(dev, options->ctx->proc, options->vm, &vm, messages);
	if (status)
		return status;

	settings.id = vm.info.id;
	settings.fd = -1;
	r = device_set(dev, &settings);
	switch (r) {
	case 0:
		break;
	case -ENOENT:
		fprintf(messages, "vpmu: VM '%s' has ended\n", vm.name);
		return STATUS_NO_VM;
	case -EPERM:
		warnx(NEEDS_ADMIN);
		return STATUS_ERROR;
	case -EOPNOTSUPP:
		warnx(TSC_NOT_FIT);
		return STATUS_ERROR;
	default:
		device_complain(r);
		return STATUS_ERROR;
	}
	return options->ctx->json ? print(dev, options->ctx, settings.id, out) : STATUS_OK;
}

/* All VMs there are, one after the other; one that fails doesn't keep others from it. */
static enum status set_all(struct device *dev, const struct set_options *options, FILE *messages)
{
	struct kvm_vpmu_settings settings = options->settings;
	enum status status = STATUS_OK;
	struct kvm_vpmu_vm *vms;
	size_t count, i;
	int r = device_vms(dev, &vms, &count);

	if (r) {
		device_complain(r);
		return STATUS_ERROR;
	}
	settings.fd = -1;
	for (i = 0; i < count; i++) {
		settings.id = vms[i].id;
		r = device_set(dev, &settings);
		if (!r || r == -ENOENT)		/* set, or ended meanwhile */
			continue;
		status = STATUS_ERROR;
		if (r == -EPERM) {		/* for all of them */
			warnx(NEEDS_ADMIN);
			break;
		}
		fprintf(messages, "vpmu: VM #%llu (PID %d): %s\n", (unsigned long long)vms[i].id,
			vms[i].pid, r == -EOPNOTSUPP ? TSC_NOT_FIT : strerror(-r));
	}
	free(vms);
	return status;
}

/**
 * struct default_setting - a parameter of the module's that VMs to come begin with
 * @name: the parameter
 * @value: what to set; NULL for nothing
 * @old: what was set before
 */
struct default_setting {
	const char *name;
	const char *value;
	char *old;
};

static int set_default(struct device *dev, const struct default_setting *setting, FILE *messages)
{
	int r = device_set_parameter(dev, setting->name, setting->value);

	switch (r) {
	case 0:
		break;
	case -EACCES:
	case -EPERM:
		fprintf(messages, "vpmu: changing defaults needs root\n");
		break;
	case -EOPNOTSUPP:
		fprintf(messages, "vpmu: " TSC_NOT_FIT "\n");
		break;
	default:
		fprintf(messages, "vpmu: the module's parameter '%s': %s\n", setting->name,
			strerror(-r));
		break;
	}
	return r;
}

/* All these defaults, or none of them */
static enum status set_defaults(struct device *dev, const struct set_options *options,
				FILE *messages)
{
	const struct kvm_vpmu_settings *settings = &options->settings;
	struct default_setting defaults[] = {
		/* the one that a host may refuse goes first */
		{ "tsc", settings->fields & KVM_VPMU_SET_TSC ? vm_tsc_name(settings->tsc) : NULL,
		  NULL },
		{ "freeze", settings->fields & KVM_VPMU_SET_FREEZE ?
		  vm_freeze_name(settings->freeze) : NULL, NULL },
		{ "events", settings->fields & KVM_VPMU_SET_EVENTS ?
		  vm_events_name(settings->events) : NULL, NULL },
	};
	size_t i, done = 0;
	int r = 0;

	for (i = 0; i < ARRAY_SIZE(defaults); i++) {
		defaults[i].old = module_parameter(device_module(dev), defaults[i].name);
		if (!defaults[i].value || defaults[i].old)
			continue;
		fprintf(messages, "vpmu: the module has no parameter '%s': it is older than this tool\n",
			defaults[i].name);
		r = -ENOENT;
	}
	for (; !r && done < ARRAY_SIZE(defaults); done++)
		if (defaults[done].value)
			r = set_default(dev, &defaults[done], messages);
	/* the last one failed */
	for (i = 0; r && i + 1 < done; i++)
		if (defaults[i].value)
			device_set_parameter(dev, defaults[i].name, defaults[i].old);
	for (i = 0; i < ARRAY_SIZE(defaults); i++)
		free(defaults[i].old);
	return r ? STATUS_ERROR : STATUS_OK;
}

static struct json_object *defaults_json(struct device *dev)
{
	struct json_object *o = json_object_new_object();
	const char *const names[] = { "freeze", "tsc", "events" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		char *value = module_parameter(device_module(dev), names[i]);

		json_object_object_add(o, names[i], json_text(value));
		free(value);
	}
	return o;
}

/* What --all and --default have set, as it is now */
static enum status print_many(struct device *dev, const struct set_options *options, FILE *out)
{
	struct json_stream stream = { .out = out, .pretty = true };
	struct vm_list list = { };
	size_t i;
	int r = options->all ? vm_list_get(&list, dev, options->ctx->proc) : 0;

	if (r) {
		device_complain(r);
		return STATUS_ERROR;
	}
	if (options->defaults) {
		json_open(&stream, NULL, '{');
		json_add(&stream, "default", defaults_json(dev));
	}
	if (options->all) {
		json_open(&stream, options->defaults ? "vms" : NULL, '[');
		for (i = 0; i < list.count; i++)
			json_add(&stream, NULL, vm_json(&list.vm[i]));
		json_close(&stream, ']');
	}
	if (options->defaults)
		json_close(&stream, '}');
	vm_list_free(&list);
	return STATUS_OK;
}

enum status set_run(struct device *dev, const struct set_options *options, FILE *out,
		    FILE *messages)
{
	enum status status = STATUS_OK;

	if (options->vm)
		return set_one(dev, options, out, messages);
	/* first, so that no VM begins in between with what was the default */
	if (options->defaults)
		status = set_defaults(dev, options, messages);
	if (options->all && set_all(dev, options, messages))
		status = STATUS_ERROR;
	if (options->ctx->json && print_many(dev, options, out))
		status = STATUS_ERROR;
	return status;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct set_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = options->ctx;
		return 0;
	case 'f':
		if (!vm_freeze_parse(arg, &options->settings.freeze))
			argp_error(state, "--freeze: '%s' is not hybrid, guest or vcpu", arg);
		options->settings.fields |= KVM_VPMU_SET_FREEZE;
		return 0;
	case 't':
		if (!vm_tsc_parse(arg, &options->settings.tsc))
			argp_error(state, "--tsc: '%s' is not wall or vcpu", arg);
		options->settings.fields |= KVM_VPMU_SET_TSC;
		return 0;
	case 'e':
		if (!vm_events_parse(arg, &options->settings.events))
			argp_error(state, "--events: '%s' is not on or off", arg);
		options->settings.fields |= KVM_VPMU_SET_EVENTS;
		return 0;
	case 'a':
		options->all = true;
		return 0;
	case 'd':
		options->defaults = true;
		return 0;
	case ARGP_KEY_ARG:
		if (options->vm)
			argp_error(state, "unexpected argument '%s'", arg);
		options->vm = arg;
		return 0;
	case ARGP_KEY_END:
		if (options->vm && (options->all || options->defaults))
			argp_error(state, "unexpected argument '%s': --all and --default take no VM",
				   options->vm);
		if (!options->vm && !options->all && !options->defaults)
			argp_error(state, "missing VM");
		if (!options->settings.fields)
			argp_error(state, "nothing to set: use --freeze, --tsc or --events");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct set_options options = { .ctx = ctx };
	struct device dev;
	enum status status;

	argp_parse(set_command.argp, argc, argv, 0, NULL, &options);
	if (device_open(&dev))
		return STATUS_ERROR;
	status = set_run(&dev, &options, stdout, stderr);
	device_close(&dev);
	return status;
}

static const struct argp_option option_list[] = {
	{ "freeze", 'f', "MODE", 0, "when counters are frozen: hybrid, guest or vcpu", 0 },
	{ "tsc", 't', "MODE", 0, "what the guest's TSC is: wall or vcpu", 0 },
	{ "events", 'e', "on|off", 0, "whether the guest can count the hypervisor's events", 0 },
	{ "all", 'a', NULL, 0, "of all VMs that there are", 0 },
	{ "default", 'd', NULL, 0, "of VMs to come, until the module is unloaded", 0 },
	{ }
};
static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, "VM\n--all\n--default",
	"Change settings of a VM, which is a PID, a name or #ID, of all VMs, or of VMs to come. "
	"A running guest follows at once.",
	children, NULL, NULL
};

const struct command set_command = { "set", "change settings of VMs", &argp, run };
