// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-guest-map: what the host needs to name this Linux guest's functions and processes in a
 * profile ("vpmu report --guest-map").  The format is described in tools/vpmu/guest_map.h.
 */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "kernel.h"

const char *argp_program_version = "vpmu-guest-map 1";

/* Between two looks with --follow */
#define PAUSE_US	100000

/**
 * struct options - the arguments
 * @follow: look for new processes until a signal comes
 * @output: where to; NULL: stdout
 */
struct options {
	bool follow;
	const char *output;
};

/* A process that was printed: one that calls exec() has another page table then. */
struct seen {
	int pid;
	uint64_t root;
};

static struct seen *seen;
static size_t nr_seen;
static FILE *out;
static volatile sig_atomic_t ended;

static bool is_new(int pid, uint64_t root)
{
	size_t i;

	for (i = nr_seen; i--;)
		if (seen[i].pid == pid && seen[i].root == root)
			return false;
	seen = realloc(seen, (nr_seen + 1) * sizeof(*seen));
	if (!seen)
		errx(1, "out of memory");
	seen[nr_seen++] = (struct seen){ .pid = pid, .root = root };
	return true;
}

static void print_process(int pid, uint64_t root, const char *name)
{
	if (!is_new(pid, root))
		return;
	fprintf(out, "p %" PRIx64 " %x %s\n", root, pid, name);
	files_print(out, pid, root);
}

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'f':
		options->follow = true;
		return 0;
	case 'o':
		options->output = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option option_list[] = {
	{ "follow", 'f', NULL, 0, "Go on for new processes until Ctrl-C is pressed", 0 },
	{ "output", 'o', "FILE", 0, "Where to (stdout)", 0 },
	{ }
};
static const struct argp argp = {
	option_list, parse, NULL,
	"Write what functions and processes of this guest are called, for \"vpmu report --guest-map\" on "
	"the host. Run it as root in the guest, after what was recorded, or during it with --follow.",
	NULL, NULL, NULL
};

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = end };
	struct options options = { };

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	out = options.output ? fopen(options.output, "we") : stdout;
	if (!out)
		err(1, "%s", options.output);
	kernel_open();
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);

	fputs("vpmu-guest-map 1\n", out);
	kernel_print_functions(out);
	fprintf(out, "p %" PRIx64 " 0 kernel\n", kernel_root());
	do {
		bool all = kernel_processes(print_process);

		if (!all && !options.follow)
			warnx("processes came or went meanwhile: some may be missing");
		if (fflush(out))
			err(1, "%s", options.output ? options.output : "stdout");
		if (options.follow && !ended)
			usleep(PAUSE_US);
	} while (options.follow && !ended);
	if (fclose(out))
		err(1, "%s", options.output ? options.output : "stdout");
	return 0;
}
