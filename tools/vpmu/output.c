// SPDX-License-Identifier: GPL-2.0-or-later
#include "output.h"

#include <err.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "util.h"

void table_init(struct table *table, const struct column *column)
{
	*table = (struct table){ .column = column };
	while (column[table->columns].title)
		table->columns++;
}

void table_add(struct table *table, const char *format, ...)
{
	va_list args;

	table->cell = xrealloc(table->cell, (table->cells + 1) * sizeof(*table->cell));
	va_start(args, format);
	if (vasprintf(&table->cell[table->cells], format, args) < 0)
		errx(1, "out of memory");
	va_end(args);
	table->cells++;
}

static void print_row(const struct table *table, FILE *out, int indent, const int *width,
		      char **cells)
{
	int gap = indent;
	size_t c;

	for (c = 0; c < table->columns; c++) {
		const char *text = cells ? cells[c] : table->column[c].title;
		int blanks = width[c] - text_width(text);
		bool left = table->column[c].align == LEFT;

		/* Blanks before a text wait for it: there are none at the end of a line. */
		if (*text) {
			fprintf(out, "%*s%s", left ? gap : gap + blanks, "", text);
			gap = left ? blanks : 0;
		} else {
			gap += blanks;
		}
		gap += 2;
	}
	fputc('\n', out);
}

void table_print(struct table *table, FILE *out, int indent)
{
	int *width = xrealloc(NULL, table->columns * sizeof(*width));
	size_t i;

	for (i = 0; i < table->columns; i++)
		width[i] = text_width(table->column[i].title);
	for (i = 0; i < table->cells; i++) {
		int w = text_width(table->cell[i]);

		if (w > width[i % table->columns])
			width[i % table->columns] = w;
	}
	print_row(table, out, indent, width, NULL);
	for (i = 0; i < table->cells; i += table->columns)
		print_row(table, out, indent, width, table->cell + i);
	free(width);
	for (i = 0; i < table->cells; i++)
		free(table->cell[i]);
	free(table->cell);
	table->cell = NULL;
	table->cells = 0;
}

void json_print(FILE *out, struct json_object *object, bool pretty)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
		    (pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : 0);
	const char *text;

	/* Debian 12's json-c breaks the line in "[]". */
	if (json_object_is_type(object, json_type_array) && !json_object_array_length(object))
		flags = 0;
	text = json_object_to_json_string_ext(object, flags);
	if (!text)
		errx(1, "out of memory");
	fprintf(out, "%s\n", text);
	json_object_put(object);
}

struct json_object *json_number(double number)
{
	char text[NUMBER_SIZE];

	if (isnan(number))
		return NULL;
	snprintf(text, sizeof(text), "%.6f", number);
	return json_object_new_double_s(number, text);
}

struct json_object *json_text(const char *text)
{
	return text ? json_object_new_string(text) : NULL;
}

bool output_ok(void)
{
	bool failed = ferror(stdout);

	/* close() tells what a full disk or a network made of the last write. */
	errno = 0;
	if (fclose(stdout))
		failed = true;
	if (!failed)
		return true;
	if (errno)
		warn("stdout");
	else
		warnx("stdout: not all could be written");
	return false;
}
