/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files as perf record writes them.  Sources: tools/perf/Documentation/perf.data-file-format.txt of
 * Linux, linux/perf_event.h, tools/lib/perf/include/perf/event.h.
 */
#ifndef PERF_FILE_H
#define PERF_FILE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The longest record, as perf's sizes are of 16 bits */
#define PERF_RECORD_SIZE	65528

/* struct perf_record_id_index of perf's own: the machine of an ID */
#define PERF_RECORD_ID_INDEX	69

/**
 * struct perf_record - a record while it is made
 * @data: the bytes, with the head
 * @size: how many
 */
struct perf_record {
	char data[PERF_RECORD_SIZE + 1];
	size_t size;
};

void perf_record_begin(struct perf_record *record, uint32_t type, uint16_t misc);
void perf_record_u32(struct perf_record *record, uint32_t value);
void perf_record_u64(struct perf_record *record, uint64_t value);

/* Text with as many zeros behind it as make the record's length a multiple of 8 */
void perf_record_text(struct perf_record *record, const char *text);

/* Write the record to @out: records behind each other. */
void perf_record_end(struct perf_record *record, FILE *out);

/**
 * struct perf_file_event - an event
 * @attr: as perf_event_open() takes it
 * @name: its name
 * @id: samples' identifiers that belong to the event
 * @ids: how many
 */
struct perf_file_event {
	struct perf_event_attr attr;
	const char *name;
	const uint64_t *id;
	size_t ids;
};

/**
 * struct perf_file - what a file has
 * @event: the events, whose attributes have the same sample_type
 * @events: how many
 * @data: records
 * @size: their bytes
 * @host: the machine's name
 * @release: its kernel
 * @version: of the program that recorded
 * @cpus: how many CPUs
 */
struct perf_file {
	const struct perf_file_event *event;
	size_t events;
	const char *data;
	size_t size;
	const char *host, *release, *version;
	uint32_t cpus;
};

/* Errors show in ferror(@out). */
void perf_file_write(const struct perf_file *file, FILE *out);

#endif
