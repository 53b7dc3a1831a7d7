// SPDX-License-Identifier: GPL-2.0-or-later
#include "output.h"

#include <err.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* Between two columns */
#define GAP	"  "

static void out_of_memory(void)
{
	errx(1, "out of memory");
}

void table_init(struct table *table, const struct column *columns)
{
	const struct column *c;

	*table = (struct table){ .columns = columns, .scols = scols_new_table() };
	/* Nothing is cut off, on a narrow terminal neither; names are clean already: clean_text(). */
	if (!table->scols || scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_NEVER) ||
	    scols_table_enable_noencoding(table->scols, 1) ||
	    scols_table_set_column_separator(table->scols, GAP))
		out_of_memory();
	for (c = columns; c->title; c++)
		if (!scols_table_new_column(table->scols, c->title, 0,
					    c->align == RIGHT ? SCOLS_FL_RIGHT : 0))
			out_of_memory();
}

void table_add(struct table *table, const char *format, ...)
{
	va_list args;
	char *text;

	if (!table->cells)
		table->line = scols_table_new_line(table->scols, NULL);
	va_start(args, format);
	if (!table->line || vasprintf(&text, format, args) < 0)
		out_of_memory();
	va_end(args);
	if (scols_line_refer_data(table->line, table->cells, text))
		out_of_memory();
	table->cells = (table->cells + 1) % scols_table_get_ncols(table->scols);
}

size_t table_rows(const struct table *table)
{
	return scols_table_get_nlines(table->scols);
}

void table_print(struct table *table, FILE *out, int indent)
{
	const struct column *c;
	char *text, *line, *rest;

	if (scols_print_table_to_string(table->scols, &text))
		out_of_memory();
	/* The library pads the last cell, too. */
	for (rest = text; (line = strsep(&rest, "\n"));) {
		size_t length = strlen(line);

		while (length && line[length - 1] == ' ')
			length--;
		if (length)
			fprintf(out, "%*s%.*s\n", indent, "", (int)length, line);
	}
	free(text);
	/* Without rows the library prints no headings. */
	for (c = table->columns; !table_rows(table) && c->title; c++)
		fprintf(out, "%s%s", c->title, c[1].title ? GAP : "\n");
}

void table_free(struct table *table)
{
	scols_unref_table(table->scols);
}

/* @object as text, which it owns */
static const char *json_string(struct json_object *object, bool pretty)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
		    (pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : 0);
	const char *text;

	/* Debian 12's json-c breaks the line in "[]". */
	if (json_object_is_type(object, json_type_array) && !json_object_array_length(object))
		flags = 0;
	text = json_object_to_json_string_ext(object, flags);
	if (!text)
		out_of_memory();
	return text;
}

void json_print(FILE *out, struct json_object *object, bool pretty)
{
	fprintf(out, "%s\n", json_string(object, pretty));
	json_object_put(object);
}

/* json-c's */
#define JSON_INDENT	2

static void json_new_line(const struct json_stream *stream)
{
	if (stream->pretty)
		fprintf(stream->out, "\n%*s", stream->depth * JSON_INDENT, "");
}

static void json_begin(struct json_stream *stream, const char *key)
{
	if (stream->filled)
		fputc(',', stream->out);
	if (stream->depth)
		json_new_line(stream);
	if (key)
		fprintf(stream->out, stream->pretty ? "\"%s\": " : "\"%s\":", key);
	stream->filled = true;
}

void json_open(struct json_stream *stream, const char *key, char bracket)
{
	json_begin(stream, key);
	fputc(bracket, stream->out);
	stream->depth++;
	stream->filled = false;
}

void json_add(struct json_stream *stream, const char *key, struct json_object *object)
{
	const char *text = json_string(object, stream->pretty);

	json_begin(stream, key);
	for (;;) {
		size_t length = strcspn(text, "\n");

		fwrite(text, 1, length, stream->out);
		text += length;
		if (!*text++)
			break;
		json_new_line(stream);
	}
	json_object_put(object);
}

void json_close(struct json_stream *stream, char bracket)
{
	stream->depth--;
	if (stream->filled)
		json_new_line(stream);
	fputc(bracket, stream->out);
	stream->filled = true;
	if (!stream->depth)
		fputc('\n', stream->out);
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
