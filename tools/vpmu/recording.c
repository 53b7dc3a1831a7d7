// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "util.h"

struct moment moment_now(void)
{
	uint64_t before = __rdtsc();
	struct moment m = { .ns = clock_ns(CLOCK_MONOTONIC_RAW) };

	m.tsc = before + (__rdtsc() - before) / 2;
	m.time = clock_ns(CLOCK_REALTIME);
	return m;
}

struct json_object *moment_json(struct moment moment)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "tsc", json_object_new_uint64(moment.tsc));
	json_object_object_add(object, "ns", json_object_new_uint64(moment.ns));
	json_object_object_add(object, "time", json_object_new_uint64(moment.time));
	return object;
}

/* ---- writing */

bool recording_write_head(FILE *file)
{
	struct recording_head head = { .magic = RECORDING_MAGIC, .version = RECORDING_VERSION };

	return fwrite(&head, sizeof(head), 1, file) == 1;
}

static bool write_chunk(FILE *file, struct recording_chunk chunk, const void *data)
{
	return fwrite(&chunk, sizeof(chunk), 1, file) == 1 &&
	       (!chunk.size || fwrite(data, chunk.size, 1, file) == 1);
}

bool recording_write_json(FILE *file, enum recording_chunk_type type, struct json_object *object)
{
	const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
	struct recording_chunk chunk = { .type = type, .size = strlen(text) };

	return write_chunk(file, chunk, text);
}

bool recording_write_records(FILE *file, unsigned int cpu, const struct kvm_vpmu_record *record,
			     size_t count)
{
	struct recording_chunk chunk = {
		.type = RECORDING_RECORDS, .cpu = cpu, .size = count * sizeof(*record),
	};

	return write_chunk(file, chunk, record);
}

bool recording_write_map(FILE *file, const struct recording_map *map)
{
	struct recording_chunk chunk = {
		.type = RECORDING_MAP, .size = sizeof(map->vm) + map->size,
	};

	return fwrite(&chunk, sizeof(chunk), 1, file) == 1 &&
	       fwrite(&map->vm, sizeof(map->vm), 1, file) == 1 &&
	       fwrite(map->text, 1, map->size, file) == map->size;
}

/* ---- reading */

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	if (object)
		json_object_object_get_ex(object, key, &value);
	return value;
}

static uint64_t number(struct json_object *object, const char *key)
{
	return json_object_get_uint64(member(object, key));
}

/* A string of json-c's own, which is fit for terminals then; NULL: there is none. */
static const char *text(struct json_object *object, const char *key)
{
	struct json_object *value = member(object, key);
	char *string = json_object_is_type(value, json_type_string) ?
		       (char *)json_object_get_string(value) : NULL;

	if (string)
		clean_text(string);
	return string;
}

/* How many elements array @key of @object has; 0 if there is none */
static size_t length(struct json_object *object, const char *key)
{
	struct json_object *array = member(object, key);

	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static struct json_object *element(struct json_object *object, const char *key, size_t i)
{
	return json_object_array_get_idx(member(object, key), i);
}

static struct moment read_moment(struct json_object *object)
{
	return (struct moment){
		.tsc = number(object, "tsc"), .ns = number(object, "ns"),
		.time = number(object, "time"),
	};
}

static void read_info(struct recording *rec)
{
	rec->event = text(rec->info, "event");
	if (!rec->event)
		rec->event = "";
	rec->host = text(rec->info, "host");
	rec->kernel = text(rec->info, "kernel");
	rec->period = number(rec->info, "period");
	rec->frequency = number(rec->info, "frequency");
	rec->cpus = number(rec->info, "cpus");
	rec->begin = read_moment(member(rec->info, "begin"));
}

static void read_totals(struct recording *rec)
{
	size_t i;

	for (i = 0; i < length(rec->end_info, "cpu"); i++) {
		struct json_object *cpu = element(rec->end_info, "cpu", i);

		rec->lost += number(cpu, "lost");
		rec->throttled += number(cpu, "throttled");
		rec->enabled += number(cpu, "enabled_ns");
		rec->running += number(cpu, "running_ns");
	}
}

static int compare_vms(const void *a, const void *b)
{
	const struct vm *left = a, *right = b;

	return (left->info.id > right->info.id) - (left->info.id < right->info.id);
}

static void read_clock(struct guest_clock *clock, struct json_object *from)
{
	*clock = (struct guest_clock){
		.known = from != NULL && number(from, "bits") < 64, .bits = number(from, "bits"),
		.offset = number(from, "offset"), .ratio = number(from, "ratio"),
	};
}

static void read_vms(struct recording *rec)
{
	size_t i;

	rec->vms = length(rec->end_info, "vm");
	rec->vm = xrealloc(NULL, (rec->vms + 1) * sizeof(*rec->vm));
	for (i = 0; i < rec->vms; i++) {
		struct json_object *from = element(rec->end_info, "vm", i);
		const char *name = text(from, "name");
		struct vm *vm = &rec->vm[i];

		*vm = (struct vm){
			.info = { .id = number(from, "id"), .pid = number(from, "pid") },
		};
		snprintf(vm->name, sizeof(vm->name), "%s", name ? name : "?");
		/* Once more, as a character may have been cut off. */
		clean_text(vm->name);
		read_clock(&vm->clock, member(from, "clock"));
	}
	qsort(rec->vm, rec->vms, sizeof(*rec->vm), compare_vms);
}

static int compare_names(const void *a, const void *b)
{
	const struct recording_name *left = a, *right = b;

	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return (left->ip > right->ip) - (left->ip < right->ip);
}

static void read_names(struct recording *rec)
{
	size_t i;

	rec->names = length(rec->end_info, "name");
	rec->name = xrealloc(NULL, (rec->names + 1) * sizeof(*rec->name));
	for (i = 0; i < rec->names; i++) {
		struct json_object *from = element(rec->end_info, "name", i);
		const char *name = text(from, "name");

		rec->name[i] = (struct recording_name){
			.pid = number(from, "pid"), .ip = number(from, "ip"),
			.name = name ? name : "?", .module = text(from, "module"),
		};
	}
	qsort(rec->name, rec->names, sizeof(*rec->name), compare_names);
}

static int compare_records(const void *a, const void *b)
{
	const struct recorded *left = a, *right = b;

	if (left->r.tsc != right->r.tsc)
		return left->r.tsc < right->r.tsc ? -1 : 1;
	/* KVM_VPMU_PUT_READ is in front of the LOAD with the same TSC. */
	return (left->r.type < right->r.type) - (left->r.type > right->r.type);
}

static int compare_stacks(const void *a, const void *b)
{
	const struct recorded_stack *left = a, *right = b;

	if (left->vm != right->vm)
		return left->vm < right->vm ? -1 : 1;
	if (left->vcpu != right->vcpu)
		return left->vcpu < right->vcpu ? -1 : 1;
	return (left->tsc > right->tsc) - (left->tsc < right->tsc);
}

static void sort_stacks(struct recorded_stacks *stacks)
{
	if (stacks->count)
		qsort(stacks->stack, stacks->count, sizeof(*stacks->stack), compare_stacks);
}

/* The one of @stacks that record @r begins, or goes on with */
static struct recorded_stack *stack_of(struct recording *rec, struct recorded_stacks *stacks,
				       const struct kvm_vpmu_record *r)
{
	struct recorded_stack new = {
		.tsc = r->tsc, .vm = r->vm, .vcpu = r->vcpu, .first = rec->addresses,
	};
	struct recorded_stack *last = stacks->count ? &stacks->stack[stacks->count - 1] : NULL;

	if (last && last->why == KVM_VPMU_STACK_MORE && !compare_stacks(last, &new))
		return last;
	stacks->stack = xgrow(stacks->stack, stacks->count, sizeof(*stacks->stack));
	stacks->stack[stacks->count] = new;
	return &stacks->stack[stacks->count++];
}

/* Records of a stack are next to each other in a ring. */
static bool add_stack(struct recording *rec, const struct kvm_vpmu_record *r)
{
	bool words = r->type == KVM_VPMU_RECORD_WORDS;
	struct recorded_stack *stack = stack_of(rec, words ? &rec->words : &rec->stacks, r);
	unsigned int i;

	if (r->nr > KVM_VPMU_STACK_RECORD)
		return false;
	for (i = 0; i < r->nr; i++) {
		rec->address = xgrow(rec->address, rec->addresses, sizeof(*rec->address));
		rec->address[rec->addresses++] = r->address[i];
	}
	stack->nr += r->nr;
	stack->why = r->mode;
	return true;
}

static bool read_records(struct recording *rec, FILE *file, const struct recording_chunk *chunk)
{
	size_t count = chunk->size / sizeof(struct kvm_vpmu_record), i;

	if (chunk->size % sizeof(struct kvm_vpmu_record))
		return false;
	/* Twice as much each time that there is no room */
	if (!rec->count || (rec->count + count) * sizeof(*rec->record) > rec->room) {
		rec->room = 2 * (rec->count + count) * sizeof(*rec->record);
		rec->record = xrealloc(rec->record, rec->room);
	}
	for (i = 0; i < count; i++) {
		struct recorded *to = &rec->record[rec->count];

		to->cpu = chunk->cpu;
		if (fread(&to->r, sizeof(to->r), 1, file) != 1)
			return false;
		if (to->r.type != KVM_VPMU_RECORD_STACK && to->r.type != KVM_VPMU_RECORD_WORDS)
			rec->count++;
		else if (!add_stack(rec, &to->r))
			return false;
	}
	return true;
}

static struct json_object *read_json(FILE *file, const struct recording_chunk *chunk)
{
	char *buffer = xrealloc(NULL, chunk->size + 1);
	struct json_object *object = NULL;

	if (fread(buffer, 1, chunk->size, file) == chunk->size) {
		buffer[chunk->size] = 0;
		object = json_tokener_parse(buffer);
	}
	free(buffer);
	return object;
}

static bool read_map(struct recording *rec, FILE *file, const struct recording_chunk *chunk)
{
	struct recording_map map = { .size = chunk->size - sizeof(map.vm) };

	if (chunk->size < sizeof(map.vm) || fread(&map.vm, sizeof(map.vm), 1, file) != 1)
		return false;
	map.text = xrealloc(NULL, map.size + 1);
	if (fread(map.text, 1, map.size, file) != map.size) {
		free(map.text);
		return false;
	}
	rec->map = xgrow(rec->map, rec->maps, sizeof(*rec->map));
	rec->map[rec->maps++] = map;
	return true;
}

static bool read_chunk(struct recording *rec, FILE *file, const struct recording_chunk *chunk)
{
	switch (chunk->type) {
	case RECORDING_INFO:
		if (rec->info)
			return false;
		rec->info = read_json(file, chunk);
		return rec->info;
	case RECORDING_RECORDS:
		return read_records(rec, file, chunk);
	case RECORDING_END:
		if (rec->end_info)
			return false;
		rec->end_info = read_json(file, chunk);
		return rec->end_info;
	case RECORDING_MAP:
		return read_map(rec, file, chunk);
	default:
		return !fseeko(file, chunk->size, SEEK_CUR);
	}
}

/* The last chunk of a recording that was killed may be a part of one. */
static bool read_chunks(struct recording *rec, FILE *file, off_t size)
{
	struct recording_chunk chunk;

	while (fread(&chunk, sizeof(chunk), 1, file) == 1) {
		if (chunk.size > (uint64_t)(size - ftello(file)))
			return rec->info;
		if (!read_chunk(rec, file, &chunk))
			return false;
	}
	return rec->info;
}

static bool read_head(FILE *file)
{
	struct recording_head head;

	return fread(&head, sizeof(head), 1, file) == 1 &&
	       !memcmp(head.magic, RECORDING_MAGIC, sizeof(head.magic)) &&
	       head.version == RECORDING_VERSION;
}

static off_t file_size(FILE *file)
{
	off_t size;

	if (fseeko(file, 0, SEEK_END))
		return -1;
	size = ftello(file);
	rewind(file);
	return size;
}

static bool read_file(struct recording *rec, FILE *file, const char *path, FILE *messages)
{
	off_t size = file_size(file);

	if (size < 0 || !read_head(file)) {
		fprintf(messages, "vpmu: %s: not a recording of this version of vpmu\n", path);
		return false;
	}
	if (!read_chunks(rec, file, size)) {
		fprintf(messages, "vpmu: %s: broken\n", path);
		return false;
	}
	return true;
}

bool recording_read(struct recording *rec, const char *path, FILE *messages)
{
	FILE *file = fopen(path, "re");
	bool good;

	*rec = (struct recording){ };
	if (!file) {
		fprintf(messages, "vpmu: %s: %s\n", path, strerror(errno));
		return false;
	}
	good = read_file(rec, file, path, messages);
	fclose(file);
	if (!good) {
		recording_free(rec);
		return false;
	}

	read_info(rec);
	read_totals(rec);
	read_vms(rec);
	read_names(rec);
	if (rec->count)
		qsort(rec->record, rec->count, sizeof(*rec->record), compare_records);
	sort_stacks(&rec->stacks);
	sort_stacks(&rec->words);
	rec->end = read_moment(member(rec->end_info, "end"));
	if (!rec->end.tsc && rec->count)
		rec->end.tsc = rec->record[rec->count - 1].r.tsc;
	return true;
}

void recording_free(struct recording *rec)
{
	size_t i;

	for (i = 0; i < rec->maps; i++)
		free(rec->map[i].text);
	free(rec->map);
	json_object_put(rec->info);
	json_object_put(rec->end_info);
	free(rec->record);
	free(rec->stacks.stack);
	free(rec->words.stack);
	free(rec->address);
	free(rec->vm);
	free(rec->name);
}

const struct recording_name *recording_find(const struct recording *rec, uint32_t pid, uint64_t ip)
{
	struct recording_name key = { .pid = pid, .ip = ip };

	return bsearch(&key, rec->name, rec->names, sizeof(key), compare_names);
}

bool recording_is_sample(const struct recording *rec, const struct recorded *recorded)
{
	const struct kvm_vpmu_record *r = &recorded->r;

	return r->type == KVM_VPMU_RECORD_SAMPLE && r->tsc >= rec->begin.tsc &&
	       r->tsc <= rec->end.tsc;
}

static const struct recorded_stack *find_stack(const struct recorded_stacks *stacks,
					       const struct kvm_vpmu_record *r)
{
	const struct recorded_stack key = { .tsc = r->tsc, .vm = r->vm, .vcpu = r->vcpu };

	if (r->mode != KVM_VPMU_MODE_GUEST || !stacks->count)
		return NULL;
	return bsearch(&key, stacks->stack, stacks->count, sizeof(key), compare_stacks);
}

const struct recorded_stack *recording_stack(const struct recording *rec,
					     const struct recorded *recorded)
{
	return find_stack(&rec->stacks, &recorded->r);
}

const struct recorded_stack *recording_words(const struct recording *rec,
					     const struct recorded *recorded)
{
	return recorded->r.cpl == 3 ? NULL : find_stack(&rec->words, &recorded->r);
}

const struct vm *recording_vm(const struct recording *rec, uint64_t id)
{
	struct vm key = { .info = { .id = id } };

	return bsearch(&key, rec->vm, rec->vms, sizeof(key), compare_vms);
}

static double ns_per_tick(const struct recording *rec)
{
	if (rec->end.ns <= rec->begin.ns || rec->end.tsc <= rec->begin.tsc)
		return 0;
	return (double)(rec->end.ns - rec->begin.ns) / (rec->end.tsc - rec->begin.tsc);
}

double recording_ns(const struct recording *rec, uint64_t ticks)
{
	return ticks * ns_per_tick(rec);
}

uint64_t recording_ticks(const struct recording *rec, uint64_t ns)
{
	double ratio = ns_per_tick(rec);

	return ratio ? ns / ratio : 0;
}
