// SPDX-License-Identifier: GPL-2.0-or-later
/* The arguments that all commands take, or some. */
#include "vpmu.h"

#include <inttypes.h>
#include <stddef.h>

#include "util.h"

static error_t parse_json(int key, char *arg, struct argp_state *state)
{
	struct context *ctx = state->input;

	(void)arg;
	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	ctx->json = true;
	return 0;
}

static const struct argp_option json_options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ }
};

const struct argp json_argp = { json_options, parse_json, NULL, NULL, NULL, NULL, NULL };

void argp_count(struct argp_state *state, const char *arg, const char *what, uint64_t max,
		uint64_t *to)
{
	if (!parse_number(arg, max, to))
		argp_error(state, "%s '%s': a number from 1 to %" PRIu64, what, arg, max);
}
