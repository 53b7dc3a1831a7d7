// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <err.h>
#include <errno.h>
#include <unistd.h>

/**
 * struct run_options - vpmu run
 * @attach: KVM_VPMU_ATTACH_...; DEFAULT until it was given
 * @command: the command and its arguments, with NULL at the end
 */
struct run_options {
	__u32 attach;
	char **command;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run_options *options = state->input;
	__u32 attach = KVM_VPMU_ATTACH_NO;

	(void)arg;
	switch (key) {
	case 'n':
		attach = KVM_VPMU_ATTACH_YES;
		/* fall through */
	case 'f':
		if (options->attach && options->attach != attach)
			argp_error(state, "--on and --off can't be combined");
		options->attach = attach;
		return 0;
	case ARGP_KEY_ARG:
		/* What follows is the command's. */
		options->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!options->attach)
			argp_error(state, "missing --on or --off");
		if (!options->command)
			argp_error(state, "missing COMMAND");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

enum status run_exec(char **command)
{
	int error;

	execvp(command[0], command);
	error = errno;
	warn("%s", command[0]);
	return error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct run_options options = { .attach = KVM_VPMU_ATTACH_DEFAULT };
	enum status status;
	struct device dev;
	int r;

	(void)ctx;
	argp_parse(run_command.argp, argc, argv, ARGP_IN_ORDER, NULL, &options);
	if (device_open(&dev))
		return STATUS_ERROR;
	r = device_pass_on(&dev, options.attach);
	if (r) {
		device_complain(r);
		device_close(&dev);
		return STATUS_ERROR;
	}
	status = run_exec(options.command);
	device_close(&dev);
	return status;
}

static const struct argp_option option_list[] = {
	{ "off", 'f', NULL, 0, "VMs of COMMAND keep KVM's own virtual PMU", 0 },
	{ "on", 'n', NULL, 0, "VMs of COMMAND get one of kvm_vpmu, even with attach=explicit", 0 },
	{ }
};
static const struct argp argp = {
	option_list, parse, "COMMAND [ARGUMENT...]",
	"Run a command whose VMs, and those of its children, get a virtual PMU of kvm_vpmu or don't.",
	NULL, NULL, NULL
};

const struct command run_command = {
	"run", "run a command, its VMs with or without a PMU of kvm_vpmu", &argp, run
};
