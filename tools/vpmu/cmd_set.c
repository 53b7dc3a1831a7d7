// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <err.h>
#include <errno.h>
#include <string.h>

#include "output.h"

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

enum status set_run(struct device *dev, const struct set_options *options, FILE *out,
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
		warnx("to change settings needs CAP_SYS_ADMIN (run vpmu as root)");
		return STATUS_ERROR;
	case -EOPNOTSUPP:
		warnx("this host's TSC isn't fit for --tsc vcpu");
		return STATUS_ERROR;
	default:
		device_complain(r);
		return STATUS_ERROR;
	}
	return options->ctx->json ? print(dev, options->ctx, settings.id, out) : STATUS_OK;
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
	case ARGP_KEY_ARG:
		if (options->vm)
			argp_error(state, "'%s': set takes one VM", arg);
		options->vm = arg;
		return 0;
	case ARGP_KEY_END:
		if (!options->vm)
			argp_error(state, "which VM?");
		if (!options->settings.fields)
			argp_error(state, "set what?");
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
	{ }
};
static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, "VM",
	"Change settings of a VM, which is a PID, a name or #ID; a running guest follows at once.",
	children, NULL, NULL
};

const struct command set_command = { "set", "change settings of a VM", &argp, run };
