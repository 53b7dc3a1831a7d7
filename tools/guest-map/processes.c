// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A page table's address says whose a sample is only while the process has it: the next process may
 * get the same memory.  So each use of a page table, a "life" here, has a begin and an end.  The
 * kernel's events tell both, looks at the kernel's memory tell which page table it is.
 *
 * A look may find a process within exec(), with the new page table and the old name: the event
 * comes later.  So a life is printed when the next look finds it again, or when the process has ended,
 * or when it has another page table behind exec().
 */
#include "processes.h"

#include <err.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "events.h"
#include "files.h"
#include "kernel.h"

/* CLOCK_MONOTONIC may be that much slower or faster than the TSC: MAXFREQ of linux/timex.h */
#define MAX_DRIFT	(500e-6)

/**
 * struct life - a process, from fork() or exec() to exec() or exit()
 * @number: what its lines have; 0: no page table is known yet
 * @process: what the last look found
 * @begin: from when on, as TSC
 * @seen: it was there then
 * @end: the last thread whose end was told; 0: none
 * @look: the last look that found it
 * @other: the last look found another page table
 * @printed: in the file
 * @before: what it was in front of exec(), if that has still to be printed, or else dropped
 */
struct life {
	uint64_t number;
	struct kernel_process process;
	uint64_t begin, seen, end;
	unsigned int look;
	bool printed, other;
	struct life *before;
};

/* By process IDs: see MAX_PROCESSES.  Memory that isn't used isn't taken. */
static struct life **life_of;

/* Those that there are */
static struct life **lives;
static size_t nr_lives, room;

/* What a look finds */
static struct kernel_process *found;
static size_t nr_found, found_room;

static FILE *out;
static uint64_t last_number;
static unsigned int looks;

/* ---- time */

/* At the same time */
static struct {
	uint64_t tsc, ns;
} now;

static void take_time(void)
{
	uint64_t shortest = UINT64_MAX;
	unsigned int i;

	/* The one that was least disturbed */
	for (i = 0; i < 5; i++) {
		struct timespec time;
		uint64_t before = __rdtsc(), behind;

		clock_gettime(CLOCK_MONOTONIC, &time);
		behind = __rdtsc();
		if (behind - before >= shortest)
			continue;
		shortest = behind - before;
		now.tsc = before + shortest / 2;
		now.ns = time.tv_sec * 1000000000ull + time.tv_nsec;
	}
}

static uint64_t tsc_of(uint64_t ns)
{
	double ticks = ((double)now.ns - (double)ns) * kernel_tsc_khz() / 1e6;

	return ticks < (double)now.tsc ? now.tsc - (int64_t)ticks : 0;
}

/* A TSC in front of which the process wasn't there */
static uint64_t beginning(const struct kernel_process *process)
{
	double age = now.ns > process->began ? now.ns - process->began : 0;

	return tsc_of(process->began + age * MAX_DRIFT);
}

/* ---- lives */

static void print(struct life *life)
{
	fprintf(out, "p %" PRIx64 " %" PRIx64 " %x %" PRIx64 " %s\n", life->number,
		life->process.root, life->process.pid, life->begin, life->process.name);
	life->printed = true;
}

static bool is_possible(int pid)
{
	return pid > 0 && pid < MAX_PROCESSES;
}

static void detach(struct life *life)
{
	size_t i;

	life_of[life->process.pid] = NULL;
	for (i = 0; i < nr_lives; i++)
		if (lives[i] == life) {
			lives[i] = lives[--nr_lives];
			break;
		}
}

static void forget(struct life *life)
{
	detach(life);
	free(life->before);
	free(life);
}

static void end_at(struct life *life, uint64_t tsc)
{
	if (life->number && !life->printed)
		print(life);
	if (life->number)
		fprintf(out, "e %" PRIx64 " %" PRIx64 "\n", life->number, tsc);
	forget(life);
}

static struct life *begin_at(int pid, uint64_t tsc)
{
	struct life *life = calloc(1, sizeof(*life));

	if (nr_lives == room) {
		room = 2 * room + 64;
		lives = realloc(lives, room * sizeof(*lives));
	}
	if (!life || !lives)
		errx(1, "out of memory");
	life->process.pid = pid;
	life->begin = tsc;
	life->look = looks;
	lives[nr_lives++] = life;
	life_of[pid] = life;
	return life;
}

static void apply(const struct event *event)
{
	struct life *life = is_possible(event->pid) ? life_of[event->pid] : NULL;
	uint64_t tsc = tsc_of(event->ns);

	if (!is_possible(event->pid))
		return;
	if (event->kind == EVENT_EXIT) {
		if (life)
			life->end = tsc;
		return;
	}
	if (life && event->kind == EVENT_EXEC && !life->printed) {
		detach(life);
		/* No look has seen what it was since then. */
		free(life->before);
		life->before = NULL;
		life->end = tsc;
		begin_at(event->pid, tsc)->before = life;
		return;
	}
	if (life)
		end_at(life, life->end && event->kind == EVENT_FORK ? life->end : tsc);
	begin_at(event->pid, tsc);
}

/* With the same page table, it was within exec() already. */
static void print_before(struct life *life)
{
	struct life *before = life->before;

	if (before && before->number && before->process.root != life->process.root) {
		print(before);
		fprintf(out, "e %" PRIx64 " %" PRIx64 "\n", before->number, before->end);
	}
	free(before);
	life->before = NULL;
}

/* All that was told up to now */
static bool read_events(void)
{
	take_time();
	return events_read(apply);
}

/* The mappings, unless it calls exec() while they are read: then they are another program's. */
static void print_files(const struct life *life)
{
	const struct kernel_process process = life->process;
	uint64_t number = life->number;
	char *text = NULL;
	size_t size = 0;
	FILE *lines = open_memstream(&text, &size);

	if (!lines)
		errx(1, "out of memory");
	files_print(out, lines, process.thread, number);
	fclose(lines);
	read_events();
	life = life_of[process.pid];
	if (life && life->number == number)
		fwrite(text, size, 1, out);
	free(text);
}

/* ---- a look */

static void note(const struct kernel_process *process)
{
	if (!is_possible(process->pid))
		return;
	if (nr_found == found_room) {
		found_room = 2 * found_room + 64;
		found = realloc(found, found_room * sizeof(*found));
		if (!found)
			errx(1, "out of memory");
	}
	found[nr_found++] = *process;
}

/* A process that a look found, which began at @tsc; @told: all events up to now are known */
static void update(const struct kernel_process *process, uint64_t tsc, bool told)
{
	struct life *life = life_of[process->pid];
	uint64_t code;

	/* It began after the look had: that may have found what the process was before. */
	if (life && !life->number && life->begin >= tsc)
		return;
	if (life && life->number && life->process.root != process->root) {
		life->look = looks;
		/* The event will come, unless the kernel couldn't tell. */
		if (told && !life->other) {
			life->other = true;
			return;
		}
		end_at(life, life->seen);
		life = NULL;
	}
	if (!life)
		life = begin_at(process->pid, looks == 1 ? beginning(process) : now.tsc);
	else if (!life->number && !told && looks > 1)
		life->begin = now.tsc;
	code = life->process.code;
	if (!life->number) {
		life->process = *process;
		life->number = ++last_number;
		code = 0;
		print_before(life);
	} else if (!life->printed) {
		print(life);
	}
	life->process.code = process->code;
	life->process.thread = process->thread;
	life->look = looks;
	life->seen = tsc;
	life->other = false;
	/* That was another thread. */
	if (life->end < tsc)
		life->end = 0;
	if (code != process->code)
		print_files(life);
}

static void end_others(bool told)
{
	size_t i;

	for (i = nr_lives; i--;) {
		struct life *life = lives[i];

		if (life->look == looks)
			continue;
		if (life->end)
			end_at(life, life->end);
		/* If the event is still to come, its memory alone has ended. */
		else if (!told || looks - life->look > 1)
			end_at(life, life->seen);
	}
}

bool processes_look(void)
{
	uint64_t begin;
	bool all, told;
	size_t i;

	looks++;
	nr_found = 0;
	take_time();
	begin = now.tsc;
	all = kernel_processes(note);
	told = read_events();
	for (i = 0; i < nr_found; i++)
		update(&found[i], begin, told);
	if (all)
		end_others(told);
	return all;
}

bool processes_open(FILE *to, bool follow)
{
	out = to;
	life_of = calloc(MAX_PROCESSES, sizeof(*life_of));
	if (!life_of)
		errx(1, "out of memory");
	return !follow || events_open();
}
