// SPDX-License-Identifier: GPL-2.0-or-later
#include "perf_file.h"

#include <string.h>

#include "util.h"

/* What perf writes strings' lengths as multiples of (NAME_ALIGN of tools/perf/util/header.c) */
#define STRING_ALIGN	64

/* Features (tools/perf/util/header.h), in the order in which their sections are in a file */
enum { HOSTNAME = 3, OSRELEASE = 4, VERSION_OF = 5, ARCH = 6, NRCPUS = 7, EVENT_DESC = 12 };

struct section {
	uint64_t offset, size;
};

struct file_header {
	char magic[8];
	uint64_t size, attr_size;
	struct section attrs, data, event_types;
	uint64_t features[4];
};

/* perf of any version takes attributes of the first length. */
#define ATTR_SIZE	PERF_ATTR_SIZE_VER0

struct file_attr {
	char attr[ATTR_SIZE];
	struct section ids;
};

static void fill_attr(const struct perf_file_event *event, char to[ATTR_SIZE])
{
	struct perf_event_attr attr = event->attr;

	attr.size = ATTR_SIZE;
	memcpy(to, &attr, ATTR_SIZE);
}

/* ---- records */

static void add(struct perf_record *record, const void *data, size_t size)
{
	if (record->size + size > PERF_RECORD_SIZE)
		size = PERF_RECORD_SIZE - record->size;
	memcpy(record->data + record->size, data, size);
	record->size += size;
}

void perf_record_begin(struct perf_record *record, uint32_t type, uint16_t misc)
{
	const struct perf_event_header header = { .type = type, .misc = misc };

	record->size = 0;
	add(record, &header, sizeof(header));
}

void perf_record_u32(struct perf_record *record, uint32_t value)
{
	add(record, &value, sizeof(value));
}

void perf_record_u64(struct perf_record *record, uint64_t value)
{
	add(record, &value, sizeof(value));
}

void perf_record_text(struct perf_record *record, const char *text)
{
	static const char zeros[8];

	add(record, text, strlen(text) + 1);
	add(record, zeros, -record->size % 8);
}

void perf_record_end(struct perf_record *record, FILE *out)
{
	((struct perf_event_header *)record->data)->size = record->size;
	fwrite(record->data, record->size, 1, out);
}

/* ---- features */

static void write_u32(FILE *out, uint32_t value)
{
	fwrite(&value, sizeof(value), 1, out);
}

static void write_string(FILE *out, const char *text)
{
	size_t length = strlen(text) + 1;
	size_t whole = (length + STRING_ALIGN - 1) / STRING_ALIGN * STRING_ALIGN;

	write_u32(out, whole);
	fwrite(text, length, 1, out);
	for (; length < whole; length++)
		fputc(0, out);
}

static void write_events(FILE *out, const struct perf_file *file)
{
	size_t i;

	write_u32(out, file->events);
	write_u32(out, ATTR_SIZE);
	for (i = 0; i < file->events; i++) {
		const struct perf_file_event *event = &file->event[i];
		char attr[ATTR_SIZE];

		fill_attr(event, attr);
		fwrite(attr, sizeof(attr), 1, out);
		write_u32(out, event->ids);
		write_string(out, event->name);
		fwrite(event->id, sizeof(*event->id), event->ids, out);
	}
}

static void write_feature(FILE *out, const struct perf_file *file, unsigned int feature)
{
	switch (feature) {
	case HOSTNAME:
		write_string(out, file->host);
		break;
	case OSRELEASE:
		write_string(out, file->release);
		break;
	case VERSION_OF:
		write_string(out, file->version);
		break;
	case ARCH:
		write_string(out, "x86_64");
		break;
	case NRCPUS:
		/* There and online */
		write_u32(out, file->cpus);
		write_u32(out, file->cpus);
		break;
	default:
		write_events(out, file);
	}
}

static const unsigned int features[] = { HOSTNAME, OSRELEASE, VERSION_OF, ARCH, NRCPUS, EVENT_DESC };

/* A table of all features' sections, then these */
static void write_features(FILE *out, const struct perf_file *file)
{
	struct section table[ARRAY_SIZE(features)] = { };
	off_t at = ftello(out);
	size_t i;

	fwrite(table, sizeof(table), 1, out);
	for (i = 0; i < ARRAY_SIZE(features); i++) {
		table[i].offset = ftello(out);
		write_feature(out, file, features[i]);
		table[i].size = ftello(out) - table[i].offset;
	}
	fseeko(out, at, SEEK_SET);
	fwrite(table, sizeof(table), 1, out);
}

/* ---- the file */

static void write_attrs(FILE *out, const struct perf_file *file, uint64_t ids_at)
{
	size_t i;

	for (i = 0; i < file->events; i++) {
		const struct perf_file_event *event = &file->event[i];
		struct file_attr attr = {
			.ids = { ids_at, event->ids * sizeof(*event->id) },
		};

		fill_attr(event, attr.attr);
		fwrite(&attr, sizeof(attr), 1, out);
		ids_at += attr.ids.size;
	}
}

void perf_file_write(const struct perf_file *file, FILE *out)
{
	struct file_header header = {
		.magic = "PERFILE2", .size = sizeof(header), .attr_size = sizeof(struct file_attr),
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(features); i++)
		header.features[0] |= 1ull << features[i];
	header.attrs.offset = sizeof(header);
	for (i = 0; i < file->events; i++)
		header.attrs.offset += file->event[i].ids * sizeof(*file->event[i].id);
	header.attrs.size = file->events * sizeof(struct file_attr);
	header.data.offset = header.attrs.offset + header.attrs.size;
	header.data.size = file->size;

	fwrite(&header, sizeof(header), 1, out);
	for (i = 0; i < file->events; i++)
		fwrite(file->event[i].id, sizeof(*file->event[i].id), file->event[i].ids, out);
	write_attrs(out, file, sizeof(header));
	fwrite(file->data, file->size, 1, out);
	write_features(out, file);
}
