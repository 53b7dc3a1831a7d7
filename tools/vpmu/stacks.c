// SPDX-License-Identifier: GPL-2.0-or-later
#include "stacks.h"

#include <err.h>
#include <search.h>
#include <stdlib.h>

#include "util.h"
#include "vpmu.h"

/* A ";" is in front of all else: "a;b" follows "a", and not "a b". */
static int rank(char c)
{
	return c == ';' ? 1 : c ? (unsigned char)c + 1 : 0;
}

static int compare_lines(const void *a, const void *b)
{
	const char *left = ((const struct stack_line *)a)->frames;
	const char *right = ((const struct stack_line *)b)->frames;

	while (*left && *left == *right) {
		left++;
		right++;
	}
	return rank(*left) - rank(*right);
}

unsigned int stack_outer(const struct place *place, const char *frame[STACK_OUTER])
{
	unsigned int n = 0;

	if (place->vm)
		frame[n++] = place->vm->name;
	frame[n++] = place_kind_name(place->kind);
	if (*place->process)
		frame[n++] = place->process;
	return n;
}

static void add_frame(FILE *stack, const char *frame)
{
	if (ftell(stack))
		fputc(';', stack);
	for (; *frame; frame++)
		fputc(*frame == ';' ? ':' : *frame, stack);
}

/* The line of a sample; its frames are to be freed. */
static struct stack_line line_of(const struct places *places, const struct recorded *sample)
{
	struct frame caller[KVM_VPMU_STACK_MAX];
	unsigned int callers = place_callers(places, sample, caller), outer, i;
	const char *frame[STACK_OUTER];
	struct stack_line line;
	struct place place;
	size_t size;
	FILE *stack = open_memstream(&line.frames, &size);

	if (!stack)
		errx(STATUS_ERROR, "out of memory");
	place_of(places, sample, &place);
	outer = stack_outer(&place, frame);
	for (i = 0; i < outer; i++)
		add_frame(stack, frame[i]);
	while (callers)
		add_frame(stack, caller[--callers].function);
	add_frame(stack, place.function);
	if (fclose(stack))
		errx(STATUS_ERROR, "out of memory");
	line.vm = place.vm;
	line.kind = place.kind;
	line.events = sample->r.value;
	return line;
}

/* Gives @line up. */
static void add_line(void **lines, struct stack_line line)
{
	struct stack_line **found = tfind(&line, lines, compare_lines), *new;

	if (found) {
		(*found)->events += line.events;
		free(line.frames);
		return;
	}
	new = xrealloc(NULL, sizeof(*new));
	*new = line;
	if (!tsearch(new, lines, compare_lines))
		errx(STATUS_ERROR, "out of memory");
}

static void take_line(const void *node, VISIT visit, void *arg)
{
	struct stacks *stacks = arg;

	if (visit != postorder && visit != leaf)
		return;
	stacks->line = xgrow(stacks->line, stacks->count, sizeof(*stacks->line));
	stacks->line[stacks->count++] = **(struct stack_line *const *)node;
}

void stacks_fold(struct stacks *stacks, const struct places *places)
{
	const struct recording *rec = places->recording;
	void *lines = NULL;
	size_t i;

	*stacks = (struct stacks){ };
	for (i = 0; i < rec->count; i++) {
		const struct recorded *at = &rec->record[i];

		if (!recording_is_sample(rec, at))
			continue;
		add_line(&lines, line_of(places, at));
		stacks->samples++;
		stacks->events += at->r.value;
	}
	twalk_r(lines, take_line, stacks);
	tdestroy(lines, free);
}

void stacks_free(struct stacks *stacks)
{
	size_t i;

	for (i = 0; i < stacks->count; i++)
		free(stacks->line[i].frames);
	free(stacks->line);
}
