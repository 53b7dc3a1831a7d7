// SPDX-License-Identifier: GPL-2.0-or-later
#include "export.h"

#include <inttypes.h>

#include "stacks.h"

void export_folded(const struct places *places, FILE *out)
{
	struct stacks stacks;
	size_t i;

	stacks_fold(&stacks, places);
	for (i = 0; i < stacks.count; i++)
		fprintf(out, "%s %" PRIu64 "\n", stacks.line[i].frames, stacks.line[i].events);
	stacks_free(&stacks);
}
