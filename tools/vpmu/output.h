/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Aligned columns and JSON. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <json-c/json.h>
#include <libsmartcols.h>
#include <stdbool.h>
#include <stdio.h>

/**
 * struct column - of a table
 * @title: its heading
 * @align: RIGHT for numbers, LEFT for text
 */
struct column {
	const char *title;
	enum { RIGHT, LEFT } align;
};

/**
 * struct table - rows of text
 * @columns: the columns, up to one without a title
 * @scols: libsmartcols' table
 * @line: its last row
 * @cells: how many cells the row has, 0 when they are all there
 */
struct table {
	const struct column *columns;
	struct libscols_table *scols;
	struct libscols_line *line;
	size_t cells;
};

/* Begin a table without rows. */
void table_init(struct table *table, const struct column *columns);

/* Add the next cell of the row. */
void table_add(struct table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

size_t table_rows(const struct table *table);

/* Print headings and rows, @indent blanks before each. */
void table_print(struct table *table, FILE *out, int indent);

void table_free(struct table *table);

/* Print @object in one line, or pretty, with a newline behind it; gives it up. */
void json_print(FILE *out, struct json_object *object, bool pretty);

/**
 * struct json_stream - a document that is printed while it is made, as json_print() prints it
 * @out: where to
 * @pretty: as of json_print()
 * @depth: arrays and objects that are open
 * @filled: the innermost has a member
 *
 * That of many vCPUs is too large to be held in memory.
 */
struct json_stream {
	FILE *out;
	bool pretty;
	int depth;
	bool filled;
};

/* Begin an array ('[') or object ('{'): member @key of an object; NULL if it is none's. */
void json_open(struct json_stream *stream, const char *key, char bracket);

/* Print a member; gives @object up. */
void json_add(struct json_stream *stream, const char *key, struct json_object *object);

/* End what was begun last, with ']' or '}'; the outermost with a newline behind it. */
void json_close(struct json_stream *stream, char bracket);

/* A number with 6 decimals; null if it is NaN. */
struct json_object *json_number(double number);

/* A string; null if it is NULL. */
struct json_object *json_text(const char *text);

/* To be called at the end: did all that was printed on stdout get there? */
bool output_ok(void);

#endif
