// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* KPTI's page table for user mode is behind the kernel's (PTI_PGTABLE_SWITCH_BIT of Linux). */
#define KPTI_USER	0x1000ull

/* The first address of a kernel: half of them, with 4 or 5 levels of page tables */
#define KERNEL_START	(1ull << 63)

/**
 * struct entry - a line
 * @key: what lines of one kind are sorted by first: the page table, or a file's or process's number
 * @start: and then: an address, an offset, a TSC
 * @end: behind the last one; 0: not known
 * @offset: of a mapping: in its file; of a process: its PID
 * @number: of a process: its number
 * @file: of a mapping: the file's number
 * @name: of all others
 * @module: of a function of the kernel: its module; NULL: the kernel itself
 */
struct entry {
	uint64_t key, start, end, offset, file, number;
	char *name, *module;
};

struct entries {
	struct entry *entry;
	size_t count, room;
};

/* Which way (guest_map.way) is that from an address on */
struct row {
	uint64_t start;
	unsigned int way;
};

struct guest_process {
	struct entry entry;
};

struct guest_map {
	struct entries function, process, end, file, symbol, mapping;
	struct guest_unwind *way;
	size_t ways;
	struct row *row;
	size_t rows;
	bool no_frames, user_roots;
};

static void add(struct entries *entries, struct entry entry, const char *name)
{
	if (entries->count == entries->room) {
		entries->room = 2 * entries->room + 64;
		entries->entry = xrealloc(entries->entry, entries->room * sizeof(entry));
	}
	if (name) {
		entry.name = xasprintf("%s", name);
		clean_text(entry.name);
	}
	entries->entry[entries->count++] = entry;
}

/* "NAME [MODULE]" in two */
static void split_module(struct entry *entry)
{
	size_t length = strlen(entry->name);
	char *bracket = strrchr(entry->name, '[');

	if (!bracket || bracket == entry->name || bracket[-1] != ' ' ||
	    entry->name[length - 1] != ']')
		return;
	entry->name[length - 1] = 0;
	entry->module = xasprintf("%s", bracket + 1);
	bracket[-1] = 0;
}

/* What is behind @n numbers in @line: a name */
static const char *behind(const char *line, unsigned int n)
{
	/* The line's letter is the first word. */
	for (n++; n; n--) {
		line += strcspn(line, " ");
		line += strspn(line, " ");
	}
	return *line ? line : NULL;
}

/* @text: SP OFFSET BP OFFSET TYPE */
static bool read_way(struct guest_map *map, const char *text)
{
	unsigned int number, sp, sp_offset, bp, bp_offset, type;

	if (sscanf(text, "%x %x %x %x %x %x", &number, &sp, &sp_offset, &bp, &bp_offset, &type) != 6 ||
	    number != map->ways)
		return false;
	map->way = xgrow(map->way, map->ways, sizeof(*map->way));
	map->way[map->ways++] = (struct guest_unwind){
		.sp_reg = sp, .sp_offset = sp_offset, .bp_reg = bp, .bp_offset = bp_offset, .type = type,
	};
	return true;
}

/* @text: START STEP:WAY... */
static bool read_rows(struct guest_map *map, const char *text)
{
	char *end;
	uint64_t start = strtoull(text, &end, 16);

	for (text = end; *text == ' '; text = end) {
		struct row row;

		start += strtoull(text, &end, 16);
		if (*end != ':')
			return false;
		row = (struct row){ .start = start, .way = strtoul(end + 1, &end, 16) };
		if (row.way >= map->ways)
			return false;
		map->row = xgrow(map->row, map->rows, sizeof(row));
		map->row[map->rows++] = row;
	}
	return !*text;
}

/* Lines of kinds that aren't known are skipped: later versions may have some. */
static bool read_line(struct guest_map *map, const char *line)
{
	uint64_t n[5] = { };
	int numbers = sscanf(line + 1, "%" SCNx64 "%" SCNx64 "%" SCNx64 "%" SCNx64 "%" SCNx64,
			     &n[0], &n[1], &n[2], &n[3], &n[4]);

	switch (*line) {
	case 'k':
		if (numbers < 1 || !behind(line, 1))
			return false;
		add(&map->function, (struct entry){ .start = n[0] }, behind(line, 1));
		split_module(&map->function.entry[map->function.count - 1]);
		return true;
	case 'o':
		map->no_frames = true;
		return true;
	case 'p':
		if (numbers < 4 || !behind(line, 4))
			return false;
		add(&map->process, (struct entry){
			.key = n[1], .start = n[3], .number = n[0], .offset = n[2],
		}, behind(line, 4));
		return true;
	case 'e':
		if (numbers < 2)
			return false;
		add(&map->end, (struct entry){ .key = n[0], .end = n[1] }, NULL);
		return true;
	case 'u':
		map->user_roots = true;
		return true;
	case 'w':
		return read_way(map, line + 1);
	case 'x':
		return read_rows(map, line + 1);
	case 'f':
		if (numbers < 1 || !behind(line, 1))
			return false;
		add(&map->file, (struct entry){ .key = n[0] }, behind(line, 1));
		return true;
	case 'y':
		if (numbers < 3 || !behind(line, 3))
			return false;
		add(&map->symbol, (struct entry){
			.key = n[0], .start = n[1], .end = n[2] ? n[1] + n[2] : 0,
		}, behind(line, 3));
		return true;
	case 'm':
		if (numbers < 5)
			return false;
		add(&map->mapping, (struct entry){
			.key = n[0], .start = n[1], .end = n[2], .offset = n[3], .file = n[4],
		}, NULL);
		return true;
	default:
		return true;
	}
}

static int compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	return (left->start > right->start) - (left->start < right->start);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static void sort(struct entries *entries)
{
	if (entries->count)
		qsort(entries->entry, entries->count, sizeof(*entries->entry), compare);
}

static bool read_lines(struct guest_map *map, FILE *file)
{
	char *line = NULL;
	size_t room = 0;
	bool good;

	good = getline(&line, &room, file) > 0 && !strcmp(line, "vpmu-guest-map 1\n");
	while (good && getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		good = read_line(map, line);
	}
	free(line);
	return good;
}

/* The last entry with @key that doesn't start behind @start; NULL: none */
static struct entry *last(const struct entries *entries, uint64_t key, uint64_t start)
{
	const struct entry wanted = { .key = key, .start = start };
	size_t low = 0, high = entries->count;
	struct entry *found;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare(&entries->entry[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	found = &entries->entry[low - 1];
	return found->key == key ? found : NULL;
}

/* The same, unless it ends in front of @start */
static const struct entry *find(const struct entries *entries, uint64_t key, uint64_t start)
{
	const struct entry *found = last(entries, key, start);

	return found && (!found->end || start < found->end) ? found : NULL;
}

static void find_ends(struct guest_map *map)
{
	size_t i;

	for (i = 0; i < map->process.count; i++) {
		struct entry *process = &map->process.entry[i];
		const struct entry *end = last(&map->end, process->number, 0);

		process->end = end ? end->end : 0;
	}
}

static struct guest_map *read_file(FILE *file, const char *name, FILE *messages)
{
	struct guest_map *map;
	bool good;

	if (!file) {
		fprintf(messages, "vpmu: %s: %s\n", name, strerror(errno));
		return NULL;
	}
	map = xrealloc(NULL, sizeof(*map));
	*map = (struct guest_map){ };
	good = read_lines(map, file);
	fclose(file);
	if (!good) {
		fprintf(messages, "vpmu: %s: not a file of vpmu-guest-map\n", name);
		guest_map_free(map);
		return NULL;
	}
	sort(&map->function);
	sort(&map->process);
	sort(&map->end);
	find_ends(map);
	sort(&map->file);
	sort(&map->symbol);
	sort(&map->mapping);
	if (map->rows)
		qsort(map->row, map->rows, sizeof(*map->row), compare_rows);
	return map;
}

struct guest_map *guest_map_read(const char *path, FILE *messages)
{
	return read_file(fopen(path, "re"), path, messages);
}

struct guest_map *guest_map_parse(char *text, size_t size, const char *name, FILE *messages)
{
	return read_file(fmemopen(text, size, "r"), name, messages);
}

static void free_entries(struct entries *entries)
{
	size_t i;

	for (i = 0; i < entries->count; i++) {
		free(entries->entry[i].name);
		free(entries->entry[i].module);
	}
	free(entries->entry);
}

void guest_map_free(struct guest_map *map)
{
	if (!map)
		return;
	free_entries(&map->function);
	free_entries(&map->process);
	free_entries(&map->end);
	free_entries(&map->file);
	free_entries(&map->symbol);
	free_entries(&map->mapping);
	free(map->way);
	free(map->row);
	free(map);
}

/* A child of vfork() has its parent's page table until it calls exec(): the later one is it. */
static const struct entry *at_time(const struct guest_map *map, uint64_t root, uint64_t tsc)
{
	const struct entry *process = last(&map->process, root, tsc), *first = map->process.entry;

	while (process && process->end && tsc >= process->end)
		process = process > first && process[-1].key == root ? process - 1 : NULL;
	return process;
}

static const struct entry *at_any_time(const struct guest_map *map, uint64_t root)
{
	const struct entry *process = last(&map->process, root, UINT64_MAX);

	if (process && process > map->process.entry && process[-1].key == root)
		return NULL;
	return process;
}

const struct guest_process *guest_map_process(const struct guest_map *map, uint64_t root,
					      const uint64_t *tsc)
{
	if (map->user_roots)
		root &= ~KPTI_USER;
	return (const struct guest_process *)(tsc ? at_time(map, root, *tsc) :
					      at_any_time(map, root));
}

const char *guest_process_name(const struct guest_process *process)
{
	return process ? process->entry.name : NULL;
}

uint32_t guest_process_pid(const struct guest_process *process)
{
	return process ? process->entry.offset : 0;
}

const char *guest_map_function(const struct guest_map *map, const struct guest_process *process,
			       uint64_t ip, const char **module, uint64_t *offset)
{
	const struct entry *mapping, *file, *symbol;

	*module = NULL;
	*offset = ip;
	if (ip >= KERNEL_START) {
		symbol = find(&map->function, 0, ip);
		*module = symbol && symbol->module ? symbol->module : "kernel";
		return symbol ? symbol->name : NULL;
	}
	mapping = process ? find(&map->mapping, process->entry.number, ip) : NULL;
	if (!mapping)
		return NULL;
	file = find(&map->file, mapping->file, 0);
	if (file)
		*module = file->name;
	*offset = ip - mapping->start + mapping->offset;
	symbol = find(&map->symbol, mapping->file, *offset);
	return symbol ? symbol->name : NULL;
}

const struct guest_unwind *guest_map_unwind(const struct guest_map *map, uint64_t ip)
{
	size_t low = 0, high = map->rows;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (map->row[middle].start <= ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &map->way[map->row[low - 1].way] : NULL;
}

bool guest_map_has_frames(const struct guest_map *map)
{
	return !map->no_frames;
}
