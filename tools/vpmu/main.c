// SPDX-License-Identifier: GPL-2.0-or-later
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "util.h"
#include "vpmu.h"

const char *argp_program_version = "vpmu " VERSION;

static const struct command *const commands[] = {
	&check_command, &events_command, &export_command, &info_command, &list_command,
	&map_command, &pages_command, &record_command, &report_command, &run_command, &serve_command, &set_command, &stat_command, &top_command,
};

/**
 * struct arguments - vpmu's own
 * @ctx: for the command
 * @command: index of the command in argv; 0 if there is none
 */
struct arguments {
	struct context ctx;
	int command;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->ctx;
		return 0;
	case ARGP_KEY_ARG:
		/* What follows is the command's. */
		arguments->command = state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "missing command");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The list of commands, behind argp's own text. */
static char *filter(int key, const char *text, void *input)
{
	char *list;
	size_t i;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	list = xasprintf("Commands:\n");
	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		char *longer = xasprintf("%s  %-10s %s\n", list, commands[i]->name,
					 commands[i]->summary);

		free(list);
		list = longer;
	}
	return list;
}

static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	NULL, parse, "COMMAND [ARGUMENT...]\nhelp [COMMAND]",
	"See and set what the virtual PMUs of this host's VMs do.\v ", children, filter, NULL
};

static const struct command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

static enum status unknown(const char *name)
{
	warnx("unknown command '%s' (see vpmu help)", name);
	return STATUS_USAGE;
}

static enum status run(const struct command *command, struct context *ctx, int argc, char **argv)
{
	enum status status;

	/* for argp's messages */
	argv[0] = xasprintf("vpmu %s", command->name);
	status = command->run(ctx, argc, argv);
	free(argv[0]);
	return status;
}

/* Does --help of the command, or of all. */
static enum status help(int argc, char **argv)
{
	const struct command *command;
	char option[] = "--help", *args[] = { "vpmu", option, NULL };

	if (argc > 2) {
		warnx("unexpected argument '%s'", argv[2]);
		return STATUS_USAGE;
	}
	if (argc < 2 || !strcmp(argv[1], "help")) {
		argp_parse(&argp, 2, args, ARGP_IN_ORDER, NULL, &(struct arguments){ });
		return STATUS_OK;
	}
	command = find_command(argv[1]);
	if (!command)
		return unknown(argv[1]);
	return run(command, &(struct context){ }, 2, args);
}

/* So that no file that we open, the device above all, becomes one of these. */
static void reserve_standard_files(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* the wrong way round: using it stays an error */
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			exit(STATUS_ERROR);
	}
}

/* However the program ends: argp ends it, too. */
static void check_output(void)
{
	if (!output_ok())
		_exit(STATUS_ERROR);
}

int main(int argc, char **argv)
{
	struct arguments arguments = { .ctx.proc = "/proc" };
	const struct command *command;
	char *name;

	reserve_standard_files();
	setlocale(LC_CTYPE, "");
	setlocale(LC_COLLATE, "");
	argp_err_exit_status = STATUS_USAGE;
	atexit(check_output);

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
	argc -= arguments.command;
	argv += arguments.command;
	name = argv[0];
	if (!strcmp(name, "help"))
		return help(argc, argv);
	command = find_command(name);
	if (!command)
		return unknown(name);
	return run(command, &arguments.ctx, argc, argv);
}
