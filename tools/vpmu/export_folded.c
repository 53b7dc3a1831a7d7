// SPDX-License-Identifier: GPL-2.0-or-later
#include "export.h"

#include <err.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* A line: @stack is its key. */
struct line {
	char *stack;
	uint64_t events;
};

static int compare_lines(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->stack, ((const struct line *)b)->stack);
}

static void add_frame(FILE *stack, const char *frame)
{
	if (ftell(stack))
		fputc(';', stack);
	for (; *frame; frame++)
		fputc(*frame == ';' ? ':' : *frame, stack);
}

/* The stack of a sample, to be freed */
static char *stack_of(const struct places *places, const struct recorded *sample)
{
	struct frame caller[KVM_VPMU_STACK_MAX];
	unsigned int callers = place_callers(places, sample, caller);
	struct place place;
	char *text;
	size_t size;
	FILE *stack = open_memstream(&text, &size);

	if (!stack)
		errx(STATUS_ERROR, "out of memory");
	place_of(places, sample, &place);
	if (place.vm)
		add_frame(stack, place.vm->name);
	add_frame(stack, place_kind_name(place.kind));
	if (*place.process)
		add_frame(stack, place.process);
	while (callers)
		add_frame(stack, caller[--callers].function);
	add_frame(stack, place.function);
	fclose(stack);
	return text;
}

static void add_line(void **lines, char *stack, uint64_t events)
{
	struct line key = { .stack = stack }, **found = tfind(&key, lines, compare_lines), *new;

	if (found) {
		free(stack);
		(*found)->events += events;
		return;
	}
	new = xrealloc(NULL, sizeof(*new));
	*new = (struct line){ .stack = stack, .events = events };
	if (!tsearch(new, lines, compare_lines))
		errx(STATUS_ERROR, "out of memory");
}

static void print_line(const void *node, VISIT visit, void *out)
{
	const struct line *line = *(struct line *const *)node;

	if (visit == postorder || visit == leaf)
		fprintf(out, "%s %" PRIu64 "\n", line->stack, line->events);
}

static void free_line(void *line)
{
	free(((struct line *)line)->stack);
	free(line);
}

void export_folded(const struct places *places, FILE *out)
{
	const struct recording *rec = places->recording;
	void *lines = NULL;
	size_t i;

	for (i = 0; i < rec->count; i++) {
		const struct recorded *at = &rec->record[i];

		if (recording_is_sample(rec, at))
			add_line(&lines, stack_of(places, at), at->r.value);
	}
	twalk_r(lines, print_line, out);
	tdestroy(lines, free_line);
}
