/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recordings in the formats of others: export_FORMAT.c */
#ifndef EXPORT_H
#define EXPORT_H

#include <stdio.h>

#include "place.h"

/*
 * A line for each place: "FRAME;FRAME;... EVENTS", the outermost first, as flamegraph.pl, speedscope
 * and others take them.  Frames of a guest: VM, "guest user" and so on, process, function; of the
 * host: "host", process, function.  A ";" in a name becomes ":".
 */
void export_folded(const struct places *places, FILE *out);

/*
 * The same as a flame graph, in one SVG file that needs nothing else: width by events, colour by
 * whose time it is.  A click on a frame shows it alone, with its callers and what it has called; a
 * search marks names.
 */
void export_svg(const struct places *places, FILE *out);

/*
 * All samples as pprof takes them, compressed (gzip).  The frames are those of export_folded(),
 * functions with addresses; labels are "vm", "where", "process", "vcpu" and "cpu".
 */
void export_pprof(const struct places *places, FILE *out);

/*
 * What each vCPU did when, as JSON for Perfetto and chrome://tracing ("Trace Event Format"): a
 * process for each VM, a thread for each vCPU, times in us since the beginning.
 */
void export_trace(const struct places *places, FILE *out);

/*
 * perf.data of perf record --kcore's kind: @dir is made if need be, with the file "data" for "perf
 * report -i DIR", and stand-ins for the files of the host and the guests (standin.h).  Samples in
 * guests are of a machine for each VM.  Beside what was sampled there are two events, of times in ns
 * that vCPUs were halted or stolen.  False, with a message: that failed.
 */
bool export_perf(const struct places *places, const char *dir);

#endif
