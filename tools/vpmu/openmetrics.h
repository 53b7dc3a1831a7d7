/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Figures in the text format of OpenMetrics 1.0, for Prometheus and its like. */
#ifndef OPENMETRICS_H
#define OPENMETRICS_H

#include <stdio.h>

#include "sample.h"

/* The format's media type */
#define OPENMETRICS_TYPE	"application/openmetrics-text; version=1.0.0; charset=utf-8"

/*
 * Print the host, as @dev told when it was opened, and all that @sample has.
 *
 * Nothing that a guest chooses is there: neither what its counters counted nor the events that
 * it selected, each of which would be a new time series.
 */
void openmetrics_print(FILE *out, const struct device *dev, const struct sample *sample);

#endif
