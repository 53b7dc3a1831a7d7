// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A message of protobuf may come in pieces: those of a list are appended to each other.  So a piece
 * is written as soon as it is known, and no more is held in memory than what samples share.
 */
#include "export.h"

#include <err.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "profile.pb-c.h"
#include "stacks.h"
#include "util.h"
#include "vpmu.h"

/* VM, place, process, vCPU, CPU */
#define LABELS	5

/**
 * struct labels - of a sample
 * @label: the labels
 * @pointer: to them, as protobuf-c has lists
 * @count: how many
 */
struct labels {
	Perftools__Profiles__Label label[LABELS], *pointer[LABELS];
	size_t count;
};

/**
 * struct gzip - a buffer of protobuf-c's that compresses what it gets
 * @base: the buffer
 * @z: zlib's state
 * @out: where to
 */
struct gzip {
	ProtobufCBuffer base;
	z_stream z;
	FILE *out;
};

/**
 * struct text - a text that was written
 * @text: the text
 * @number: its place in the table
 * @function: ID of the function with that name; 0: none yet
 * @mapping: ID of the mapping with that file; 0: none yet
 */
struct text {
	char *text;
	int64_t number;
	uint64_t function, mapping;
};

/**
 * struct place_id - a location that was written
 * @mapping: its mapping
 * @address: its address
 * @function: its function, as guests have different ones at an address
 * @id: its ID
 */
struct place_id {
	uint64_t mapping, address, function, id;
};

/**
 * struct pprof - the profile
 * @gzip: where pieces go
 * @texts: struct text by @text
 * @locations: struct place_id by all but @id
 * @text_count: how many there are of each
 * @function_count: likewise
 * @mapping_count: likewise
 * @location_count: likewise
 */
struct pprof {
	struct gzip gzip;
	void *texts, *locations;
	int64_t text_count;
	uint64_t function_count, mapping_count, location_count;
};

static void compress_all(struct gzip *gzip, int flush)
{
	unsigned char buffer[16384];

	do {
		gzip->z.next_out = buffer;
		gzip->z.avail_out = sizeof(buffer);
		deflate(&gzip->z, flush);
		fwrite(buffer, 1, sizeof(buffer) - gzip->z.avail_out, gzip->out);
	} while (!gzip->z.avail_out);
}

static void append(ProtobufCBuffer *base, size_t length, const uint8_t *data)
{
	struct gzip *gzip = (struct gzip *)base;

	gzip->z.next_in = (unsigned char *)data;
	gzip->z.avail_in = length;
	compress_all(gzip, Z_NO_FLUSH);
}

static void open_gzip(struct gzip *gzip, FILE *out)
{
	*gzip = (struct gzip){ .base.append = append, .out = out };
	/* 16 more bits: in gzip's format, whose time is 0 then */
	if (deflateInit2(&gzip->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16,
			 MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
		errx(STATUS_ERROR, "out of memory");
}

static void close_gzip(struct gzip *gzip)
{
	compress_all(gzip, Z_FINISH);
	deflateEnd(&gzip->z);
}

static void write_piece(struct pprof *pprof, const Perftools__Profiles__Profile *piece)
{
	protobuf_c_message_pack_to_buffer(&piece->base, &pprof->gzip.base);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(((const struct text *)a)->text, ((const struct text *)b)->text);
}

static int compare_locations(const void *a, const void *b)
{
	return memcmp(a, b, offsetof(struct place_id, id));
}

/* What *@tree has for @key; if there is none, a copy of its @size bytes, with *@is_new true */
static void *find_or_add(void **tree, const void *key, size_t size,
			 int (*compare)(const void *a, const void *b), bool *is_new)
{
	void **found = tfind(key, tree, compare), *new;

	*is_new = !found;
	if (found)
		return *found;
	new = xrealloc(NULL, size);
	memcpy(new, key, size);
	if (!tsearch(new, tree, compare))
		errx(STATUS_ERROR, "out of memory");
	return new;
}

static struct text *add_text(struct pprof *pprof, const char *string)
{
	struct text key = { .text = (char *)string };
	Perftools__Profiles__Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
	struct text *text;
	bool is_new;

	text = find_or_add(&pprof->texts, &key, sizeof(key), compare_texts, &is_new);
	if (!is_new)
		return text;
	/* The caller's may be a buffer. */
	text->text = xasprintf("%s", string);
	text->number = pprof->text_count++;
	piece.n_string_table = 1;
	piece.string_table = &text->text;
	write_piece(pprof, &piece);
	return text;
}

static int64_t number_of(struct pprof *pprof, const char *string)
{
	return add_text(pprof, string)->number;
}

static uint64_t add_function(struct pprof *pprof, const char *name)
{
	Perftools__Profiles__Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Function function = PERFTOOLS__PROFILES__FUNCTION__INIT;
	struct text *text = add_text(pprof, name);

	if (text->function)
		return text->function;
	text->function = ++pprof->function_count;
	function.id = text->function;
	function.name = function.system_name = text->number;
	piece.n_function = 1;
	piece.function = (Perftools__Profiles__Function *[]){ &function };
	write_piece(pprof, &piece);
	return text->function;
}

/* 0 for "", which isn't known. */
static uint64_t add_mapping(struct pprof *pprof, const char *file)
{
	Perftools__Profiles__Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Mapping mapping = PERFTOOLS__PROFILES__MAPPING__INIT;
	struct text *text;

	if (!*file)
		return 0;
	text = add_text(pprof, file);
	if (text->mapping)
		return text->mapping;
	text->mapping = ++pprof->mapping_count;
	mapping.id = text->mapping;
	mapping.filename = text->number;
	/* Else pprof would look for functions of a guest in a file of the host's with that name. */
	mapping.has_functions = true;
	piece.n_mapping = 1;
	piece.mapping = (Perftools__Profiles__Mapping *[]){ &mapping };
	write_piece(pprof, &piece);
	return text->mapping;
}

static uint64_t add_location(struct pprof *pprof, const char *module, uint64_t address,
			     const char *name)
{
	struct place_id key = {
		.mapping = add_mapping(pprof, module), .address = address,
		.function = add_function(pprof, name),
	}, *known;
	Perftools__Profiles__Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Location location = PERFTOOLS__PROFILES__LOCATION__INIT;
	Perftools__Profiles__Line line = PERFTOOLS__PROFILES__LINE__INIT;
	bool is_new;

	known = find_or_add(&pprof->locations, &key, sizeof(key), compare_locations, &is_new);
	if (!is_new)
		return known->id;
	known->id = ++pprof->location_count;
	line.function_id = known->function;
	location.id = known->id;
	location.mapping_id = known->mapping;
	location.address = known->address;
	location.n_line = 1;
	location.line = (Perftools__Profiles__Line *[]){ &line };
	piece.n_location = 1;
	piece.location = (Perftools__Profiles__Location *[]){ &location };
	write_piece(pprof, &piece);
	return known->id;
}

static void add_string(struct pprof *pprof, struct labels *labels, const char *key,
		       const char *string)
{
	Perftools__Profiles__Label *label = &labels->label[labels->count++];

	label->key = number_of(pprof, key);
	label->str = number_of(pprof, string);
}

/* pprof skips a number 0 without a unit, and without one takes the key for it. */
static void add_number(struct pprof *pprof, struct labels *labels, const char *key, int64_t number)
{
	Perftools__Profiles__Label *label = &labels->label[labels->count++];

	label->key = label->num_unit = number_of(pprof, key);
	label->num = number;
}

static void add_labels(struct pprof *pprof, struct labels *labels, const struct place *place,
		       const struct recorded *at)
{
	size_t i;

	for (i = 0; i < LABELS; i++) {
		perftools__profiles__label__init(&labels->label[i]);
		labels->pointer[i] = &labels->label[i];
	}
	labels->count = 0;
	if (place->vm)
		add_string(pprof, labels, "vm", place->vm->name);
	add_string(pprof, labels, "where", place_kind_name(place->kind));
	if (*place->process)
		add_string(pprof, labels, "process", place->process);
	/* A VM's process may have been outside KVM, for no vCPU. */
	if (place->vm && at->r.vcpu >= 0)
		add_number(pprof, labels, "vcpu", at->r.vcpu);
	add_number(pprof, labels, "cpu", at->cpu);
}

static size_t add_locations(struct pprof *pprof, uint64_t *id, const struct places *places,
			    const struct recorded *at, const struct place *place)
{
	struct frame caller[KVM_VPMU_STACK_MAX];
	unsigned int callers = place_callers(places, at, caller), outer, i;
	const char *frame[STACK_OUTER];
	size_t n = 0;

	id[n++] = add_location(pprof, place->module, at->r.ip, place->function);
	for (i = 0; i < callers; i++)
		id[n++] = add_location(pprof, caller[i].module, caller[i].ip, caller[i].function);
	for (outer = stack_outer(place, frame); outer; outer--)
		id[n++] = add_location(pprof, "", 0, frame[outer - 1]);
	return n;
}

static void add_sample(struct pprof *pprof, const struct places *places, const struct recorded *at)
{
	Perftools__Profiles__Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__Sample sample = PERFTOOLS__PROFILES__SAMPLE__INIT;
	int64_t value[] = { 1, at->r.value };
	uint64_t location[STACK_FRAMES];
	struct labels labels;
	struct place place;

	place_of(places, at, &place);
	sample.location_id = location;
	sample.n_location_id = add_locations(pprof, location, places, at, &place);
	sample.value = value;
	sample.n_value = ARRAY_SIZE(value);
	add_labels(pprof, &labels, &place, at);
	sample.label = labels.pointer;
	sample.n_label = labels.count;
	piece.n_sample = 1;
	piece.sample = (Perftools__Profiles__Sample *[]){ &sample };
	write_piece(pprof, &piece);
}

/* All that there is once */
static void add_head(struct pprof *pprof, const struct recording *rec)
{
	Perftools__Profiles__Profile piece = PERFTOOLS__PROFILES__PROFILE__INIT;
	Perftools__Profiles__ValueType samples = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	Perftools__Profiles__ValueType events = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
	char *comment = xasprintf("%s, Linux %s, vpmu " VERSION, rec->host ? rec->host : "?",
				  rec->kernel ? rec->kernel : "?");

	/* Number 0 has to be "". */
	number_of(pprof, "");
	samples.type = number_of(pprof, "samples");
	events.type = number_of(pprof, rec->event);
	samples.unit = events.unit = number_of(pprof, "count");
	piece.n_sample_type = 2;
	piece.sample_type = (Perftools__Profiles__ValueType *[]){ &samples, &events };
	piece.default_sample_type = events.type;
	if (rec->period) {
		piece.period_type = &events;
		piece.period = rec->period;
	}
	piece.time_nanos = rec->begin.time;
	piece.duration_nanos = recording_ns(rec, rec->end.tsc - rec->begin.tsc);
	piece.n_comment = 1;
	piece.comment = (int64_t []){ number_of(pprof, comment) };
	write_piece(pprof, &piece);
	free(comment);
}

static void free_text(void *text)
{
	free(((struct text *)text)->text);
	free(text);
}

void export_pprof(const struct places *places, FILE *out)
{
	const struct recording *rec = places->recording;
	struct pprof pprof = { };
	size_t i;

	open_gzip(&pprof.gzip, out);
	add_head(&pprof, rec);
	for (i = 0; i < rec->count; i++)
		if (recording_is_sample(rec, &rec->record[i]))
			add_sample(&pprof, places, &rec->record[i]);
	close_gzip(&pprof.gzip);
	tdestroy(pprof.texts, free_text);
	tdestroy(pprof.locations, free);
}
