// SPDX-License-Identifier: GPL-2.0-or-later
/* The arguments that all commands take. */
#include "vpmu.h"

#include <stddef.h>

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
