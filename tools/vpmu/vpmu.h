/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmu: what the virtual PMUs of this host's VMs do, and how they do it.
 *
 * What all of the tool knows: the exit codes and the commands.
 */
#ifndef VPMU_H
#define VPMU_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit codes; they are in the man page, too. */
enum status {
	STATUS_OK = 0,
	STATUS_ERROR = 1,	/* the device, the kernel, stdout; a check that failed */
	STATUS_USAGE = 2,	/* wrong arguments; a VM's name that fits several */
	STATUS_NO_VM = 3,	/* no such VM, or it ended */
	/* of run, as env(1) and its like have them; else the status is the command's */
	STATUS_CANNOT_RUN = 126,
	STATUS_NOT_FOUND = 127,
};

/**
 * struct context - what a command runs in
 * @json: print JSON
 * @proc: where processes are looked up ("/proc")
 */
struct context {
	bool json;
	const char *proc;
};

/**
 * struct command - one word after "vpmu"
 * @name: that word
 * @summary: one line for "vpmu help"
 * @argp: its arguments; "vpmu help NAME" shows them
 * @run: does it; @argv[0] is for argp's messages
 */
struct command {
	const char *name;
	const char *summary;
	const struct argp *argp;
	enum status (*run)(struct context *ctx, int argc, char **argv);
};

extern const struct command check_command, events_command, export_command, info_command,
	list_command, map_command, pages_command, record_command, report_command, run_command,
	serve_command, set_command, stat_command, top_command;

/*
 * The option --json for a command's argp, as its child; that child's input is
 * the context, which parsers pass on in ARGP_KEY_INIT.
 */
extern const struct argp json_argp;

/* An option's argument @arg that is a number from 1 to @max: *@to; or argp's error about a @what. */
void argp_count(struct argp_state *state, const char *arg, const char *what, uint64_t max,
		uint64_t *to);

#endif
