/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Aligned columns and JSON. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <json-c/json.h>
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
 * @column: the columns, up to one without a title
 * @columns: how many
 * @cell: what is in them, row by row
 * @cells: how many
 */
struct table {
	const struct column *column;
	size_t columns;
	char **cell;
	size_t cells;
};

/* Begin a table without rows. */
void table_init(struct table *table, const struct column *column);

/* Add the next cell of the row. */
void table_add(struct table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Print headings and rows, @indent blanks before each; forget the rows. */
void table_print(struct table *table, FILE *out, int indent);

/* Print @object in one line, or pretty, with a newline behind it; gives it up. */
void json_print(FILE *out, struct json_object *object, bool pretty);

/* A number with 6 decimals; null if it is NaN. */
struct json_object *json_number(double number);

/* A string; null if it is NULL. */
struct json_object *json_text(const char *text);

/* To be called at the end: did all that was printed on stdout get there? */
bool output_ok(void);

#endif
