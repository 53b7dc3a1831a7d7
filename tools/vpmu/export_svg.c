// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A flame graph, the outermost frames on top.  Each frame is an <svg> of its own, as that clips its
 * text.  Places across are shares of the width, so the script zooms by numbers alone.
 */
#include "export.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "stacks.h"
#include "util.h"
#include "vpmu.h"

/* Pixels: without the script the image is that wide; height of title and legend, and of a frame */
#define WIDTH	1200
#define TOP	48
#define FRAME	16
/* Frames of that many pixels are left out. */
#define LEAST	0.1

/**
 * struct box - a frame that isn't complete
 * @name: its name, which something else follows
 * @length: bytes of @name
 * @class: of CSS, which colours it
 * @from: events in front of it
 */
struct box {
	const char *name;
	int length;
	const char *class;
	uint64_t from;
};

/**
 * struct flame - the graph
 * @out: where frames go
 * @event: what was sampled
 * @events: all of them
 * @at: events up to here
 * @box: frames from the outermost to here
 * @depth: how many
 * @rows: how many there are of frames that aren't left out
 */
struct flame {
	FILE *out;
	const char *event;
	uint64_t events, at;
	struct box box[1 + STACK_FRAMES];
	unsigned int depth, rows;
};

static const char style[] =
	"<style>\n"
	"text{font:12px monospace;pointer-events:none}\n"
	"rect{fill:#d0d0d0}\n"
	".f,#search{cursor:pointer}\n"
	".f rect{stroke:#fff;stroke-width:.5}\n"
	".f:hover rect{stroke:#000}\n"
	"#search{pointer-events:all;text-decoration:underline}\n"
	".k0 rect{fill:#a5cf8d}\n"
	".k1 rect{fill:#7fcfc0}\n"
	".k2 rect{fill:#f5b35c}\n"
	".k3 rect{fill:#f08a7b}\n"
	".k4 rect{fill:#8fb8ee}\n"
	".k5 rect{fill:#c4a1e6}\n"
	".k6 rect{fill:#e6a1c6}\n"
	".f.hit rect{fill:#ff40ff}\n"
	"</style>\n";

static const char *const classes[PLACE_KINDS] = {
	"f k0", "f k1", "f k2", "f k3", "f k4", "f k5", "f k6",
};

/*
 * A frame's share begins at "x" and is "w" wide, in percent; "from" and "width" are of what is
 * shown.  Numbers have 6 decimals: what is left of a neighbour by rounding isn't shown.
 */
static const char script[] =
	"<script><![CDATA[\n"
	"'use strict';\n"
	"const root = document.documentElement;\n"
	"const frames = new Map();\n"
	"let from = 0, width = 100;\n"
	"for (const e of document.querySelectorAll('.f'))\n"
	"	frames.set(e, { x: parseFloat(e.getAttribute('x')),\n"
	"		w: parseFloat(e.getAttribute('width')), text: e.querySelector('text') });\n"
	"function show() {\n"
	"	const pixels = root.getBoundingClientRect().width;\n"
	"	for (const [e, f] of frames) {\n"
	"		const left = Math.max(f.x, from);\n"
	"		const right = Math.min(f.x + f.w, from + width);\n"
	"		const shown = right - left > 3e-6, share = (right - left) / width;\n"
	"		e.style.display = shown ? '' : 'none';\n"
	"		if (!shown)\n"
	"			continue;\n"
	"		e.setAttribute('x', (left - from) / width * 100 + '%');\n"
	"		e.setAttribute('width', share * 100 + '%');\n"
	"		f.text.style.display = share * pixels < 20 ? 'none' : '';\n"
	"	}\n"
	"}\n"
	"function zoom(f) {\n"
	"	from = f ? f.x : 0;\n"
	"	width = f ? f.w : 100;\n"
	"	show();\n"
	"}\n"
	"function search() {\n"
	"	const word = prompt('Names that contain');\n"
	"	if (word === null)\n"
	"		return;\n"
	"	let sum = 0, end = 0;\n"
	"	const hits = [];\n"
	"	for (const [e, f] of frames) {\n"
	"		const hit = word !== '' &&\n"
	"			f.text.textContent.toLowerCase().includes(word.toLowerCase());\n"
	"		e.classList.toggle('hit', hit);\n"
	"		if (hit)\n"
	"			hits.push(f);\n"
	"	}\n"
	"	/* A frame in another that was found doesn't count again. */\n"
	"	hits.sort((a, b) => a.x - b.x);\n"
	"	for (const f of hits) {\n"
	"		sum += Math.max(0, f.x + f.w - Math.max(f.x, end));\n"
	"		end = Math.max(end, f.x + f.w);\n"
	"	}\n"
	"	document.getElementById('found').textContent =\n"
	"		word === '' ? '' : word + ': ' + sum.toFixed(1) + '%';\n"
	"}\n"
	"root.addEventListener('click', event => {\n"
	"	const e = event.target.closest('.f, #search');\n"
	"	if (e && e.id === 'search')\n"
	"		search();\n"
	"	else if (e)\n"
	"		zoom(frames.get(e));\n"
	"});\n"
	"window.addEventListener('keydown', event => {\n"
	"	if (event.key === 'Escape')\n"
	"		zoom(null);\n"
	"	if (event.key !== 'f' || !(event.ctrlKey || event.metaKey))\n"
	"		return;\n"
	"	event.preventDefault();\n"
	"	search();\n"
	"});\n"
	"window.addEventListener('resize', show);\n"
	"root.setAttribute('width', '100%');\n"
	"show();\n"
	"]]></script>\n";

/* @length bytes of @text, which is clean */
static void print_text(FILE *out, const char *text, int length)
{
	for (; length--; text++)
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*text, out);
		}
}

static double percent(const struct flame *flame, uint64_t events)
{
	return flame->events ? 100.0 * events / flame->events : 0;
}

/* Complete the innermost box. */
static void close_box(struct flame *flame)
{
	const struct box *box = &flame->box[--flame->depth];
	uint64_t events = flame->at - box->from;
	char count[NUMBER_SIZE], share[NUMBER_SIZE];

	if (percent(flame, events) * WIDTH / 100 < LEAST)
		return;
	if (flame->rows <= flame->depth)
		flame->rows = flame->depth + 1;
	fprintf(flame->out,
		"<svg class=\"%s\" x=\"%.6f%%\" y=\"%u\" width=\"%.6f%%\" height=\"%u\"><title>",
		box->class, percent(flame, box->from), TOP + FRAME * flame->depth,
		percent(flame, events), FRAME);
	print_text(flame->out, box->name, box->length);
	fprintf(flame->out, "\n%s ", format_count(count, events));
	print_text(flame->out, flame->event, strlen(flame->event));
	fprintf(flame->out, ", %s</title><rect width=\"100%%\" height=\"100%%\"/>"
		"<text x=\"3\" y=\"12\">", format_share(share, events, flame->events));
	print_text(flame->out, box->name, box->length);
	fputs("</text></svg>\n", flame->out);
}

static void close_boxes(struct flame *flame, unsigned int depth)
{
	while (flame->depth > depth)
		close_box(flame);
}

/* Begin a box at @depth, unless it is that which is there. */
static void open_box(struct flame *flame, unsigned int depth, struct box box)
{
	const struct box *there = &flame->box[depth];

	if (depth < flame->depth && there->length == box.length &&
	    !memcmp(there->name, box.name, box.length))
		return;
	close_boxes(flame, depth);
	flame->box[flame->depth++] = box;
}

static void add_line(struct flame *flame, const struct stack_line *line)
{
	const char *name = line->frames, *end;
	unsigned int depth = 1;

	for (;; name = end + 1, depth++) {
		end = strchrnul(name, ';');
		open_box(flame, depth, (struct box){
			.name = name, .length = end - name, .from = flame->at,
			.class = depth == 1 && line->vm ? "f" : classes[line->kind],
		});
		if (!*end)
			break;
	}
	flame->at += line->events;
}

static void print_legend(FILE *out)
{
	unsigned int kind;

	for (kind = 0; kind < PLACE_KINDS; kind++)
		fprintf(out, "<g class=\"k%u\"><rect x=\"%u\" y=\"28\" width=\"12\" height=\"12\"/>"
			"<text x=\"%u\" y=\"38\">%s</text></g>\n", kind, 3 + 120 * kind,
			19 + 120 * kind, place_kind_name(kind));
}

static void print_head(const struct recording *rec, uint64_t count, unsigned int rows, FILE *out)
{
	char samples[NUMBER_SIZE];
	char *title = xasprintf("%s, %s, %s samples", rec->event, rec->host ? rec->host : "?",
				format_count(samples, count));

	fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\">\n<title>",
		WIDTH, TOP + FRAME * rows);
	print_text(out, title, strlen(title));
	fprintf(out, "</title>\n%s<rect width=\"100%%\" height=\"100%%\" style=\"fill:#fff\"/>\n"
		"<text x=\"3\" y=\"16\">", style);
	print_text(out, title, strlen(title));
	fputs("</text>\n<text id=\"search\" x=\"60%\" y=\"16\">search</text>\n"
	      "<text id=\"found\" x=\"68%\" y=\"16\"/>\n", out);
	print_legend(out);
	free(title);
}

void export_svg(const struct places *places, FILE *out)
{
	const struct recording *rec = places->recording;
	struct stacks stacks;
	struct flame flame;
	char *frames;
	size_t size, i;

	stacks_fold(&stacks, places);
	/* Their height is to be known before they are printed. */
	flame = (struct flame){
		.out = open_memstream(&frames, &size), .event = rec->event,
		.events = stacks.events, .depth = 1,
		.box = { { .name = "all", .length = 3, .class = "f" } },
	};
	if (!flame.out)
		errx(STATUS_ERROR, "out of memory");
	for (i = 0; i < stacks.count; i++)
		add_line(&flame, &stacks.line[i]);
	close_boxes(&flame, 0);
	if (fclose(flame.out))
		errx(STATUS_ERROR, "out of memory");
	print_head(rec, stacks.samples, flame.rows, out);
	fprintf(out, "%s%s</svg>\n", frames, script);
	free(frames);
	stacks_free(&stacks);
}
