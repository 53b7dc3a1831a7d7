/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What top shows, without the screen: rows, their order, and columns that fit. */
#ifndef ROWS_H
#define ROWS_H

#include "sample.h"

/* Columns from left to right */
enum row_column {
	ROW_ID,
	ROW_PID,
	ROW_NAME,
	ROW_VCPU,
	ROW_COUNTERS,
	ROW_RUN,
	ROW_EXITS,
	ROW_EMULATED,
	ROW_PMIS,
	ROW_ACCESSES,
	ROW_RDPMCS,
	ROW_BORROWED,
	ROW_EVICTED,
	ROW_GAPS,
	ROW_ANOMALIES,
	ROW_COLUMNS,
};

/**
 * struct row - a vCPU, or a VM
 * @vm: which
 * @vcpu: the vCPU's KVM identity; of a VM the number of its vCPUs
 * @value: what the numeric columns show: rates per second, NaN if there was no
 *	earlier look
 */
struct row {
	const struct vm *vm;
	__u32 vcpu;
	double value[ROW_COLUMNS];
};

/**
 * struct rows - all of them
 * @row: the rows
 * @count: how many
 */
struct rows {
	struct row *row;
	size_t count;
};

/* Width of a column that isn't ROW_NAME, and its title */
int row_width(enum row_column column);
const char *row_title(enum row_column column);

/*
 * The rows of @now, which has to stay; rates against @before, which may be
 * NULL.  One for each vCPU, or for each VM.
 */
void rows_make(struct rows *rows, const struct sample *now, const struct sample *before,
	       bool by_vm);

/* Free what @rows holds. */
void rows_free(struct rows *rows);

/*
 * Sort by @column: numbers with the largest, identities and names with the
 * smallest first, unknown numbers last; @reverse for the opposite.
 */
void rows_sort(struct rows *rows, enum row_column column, bool reverse);

/*
 * Choose columns that fit in @width, the most important ones, and tell how wide
 * ROW_NAME gets.
 */
int rows_layout(int width, bool shown[ROW_COLUMNS]);

/* What @row shows in @column (not ROW_NAME). */
char *row_text(char *buf, const struct row *row, enum row_column column);

#endif
