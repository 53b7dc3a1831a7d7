/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmu report behind its arguments, for its command and for tests. */
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "cmd.h"
#include "place.h"

/**
 * struct report_options - vpmu report
 * @json: print JSON, which has all rows
 * @vm: of which VM only; NULL: all
 * @limit: rows of a table
 */
struct report_options {
	bool json;
	const struct vm *vm;
	uint64_t limit;
};

void report_run(const struct places *places, const struct report_options *options, FILE *out);

#endif
