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
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "kernel.h"
#include "orc.h"
#include "processes.h"

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

static FILE *out;
static volatile sig_atomic_t ended;

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

/* One for each that a process has mapped, until its functions were read */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void look(const struct options *options)
{
	if (!processes_look() && !options->follow)
		warnx("processes came or went meanwhile: some may be missing");
	if (fflush(out))
		err(1, "%s", options->output ? options->output : "stdout");
}

static uint64_t now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000ull + time.tv_nsec / 1000;
}

/* Look, and between two looks read files, until a signal comes. */
static void follow(const struct options *options)
{
	bool ready = false;

	/* Those that follow are short. */
	setpriority(PRIO_PROCESS, 0, -20);
	while (!ended) {
		uint64_t next = now_us() + PAUSE_US, now;
		bool more = true;

		while (more && now_us() < next)
			more = files_print_functions(out);
		if (!more && !ready) {
			fprintf(stderr, "vpmu-guest-map: ready; Ctrl-C ends it\n");
			fputs("r\n", out);
			ready = true;
		}
		now = now_us();
		if (now < next && !ended)
			usleep(next - now);
		look(options);
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = end };
	struct options options = { };

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	out = options.output ? fopen(options.output, "we") : stdout;
	if (!out)
		err(1, "%s", options.output);
	kernel_open();
	allow_files();
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);

	fputs("vpmu-guest-map 1\n", out);
	if (kernel_has_user_roots())
		fputs("u\n", out);
	kernel_print_functions(out);
	orc_print(out);
	fprintf(out, "p 0 %" PRIx64 " 0 0 kernel\n", kernel_root());
	if (!processes_open(out, options.follow))
		warnx("this kernel doesn't tell when processes come and go (CONFIG_PROC_EVENTS): "
		      "those that live for less than 0.2 s have no name");
	look(&options);
	while (!options.follow && files_print_functions(out))
		;
	if (options.follow)
		follow(&options);
	/* What the last look found is printed when it's there still. */
	look(&options);
	while (files_print_functions(out))
		;
	if (fclose(out))
		err(1, "%s", options.output ? options.output : "stdout");
	return 0;
}
