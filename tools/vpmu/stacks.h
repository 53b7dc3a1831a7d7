/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Samples by their stacks. */
#ifndef STACKS_H
#define STACKS_H

#include "place.h"

/* Frames around the functions: VM, whose time, process */
#define STACK_OUTER	3
/* Frames of the deepest stack */
#define STACK_FRAMES	(STACK_OUTER + KVM_VPMU_STACK_MAX + 1)

/**
 * struct stack_line - samples with the same stack
 * @frames: names with ";" between them, the outermost first; a ";" in a name is a ":"
 * @vm: the first one is a VM
 * @kind: whose time
 * @events: how many the samples stand for
 */
struct stack_line {
	char *frames;
	bool vm;
	enum place_kind kind;
	uint64_t events;
};

/**
 * struct stacks - all samples of a recording
 * @line: by @frames, so that those that begin with the same frames are together
 * @count: how many
 * @samples: of all lines
 * @events: of all lines
 */
struct stacks {
	struct stack_line *line;
	size_t count;
	uint64_t samples, events;
};

void stacks_fold(struct stacks *stacks, const struct places *places);
void stacks_free(struct stacks *stacks);

/* The frames around the functions of @place, the outermost first.  Return: how many. */
unsigned int stack_outer(const struct place *place, const char *frame[STACK_OUTER]);

#endif
