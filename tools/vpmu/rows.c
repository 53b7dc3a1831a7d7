// SPDX-License-Identifier: GPL-2.0-or-later
#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define NAME_LEAST	8
#define NAME_MOST	32

/* In the order of importance: what goes last when the terminal is narrow comes first. */
static const enum row_column importance[] = {
	ROW_NAME, ROW_VCPU, ROW_EXITS, ROW_RUN, ROW_PMIS, ROW_ANOMALIES, ROW_PID, ROW_ACCESSES,
	ROW_EMULATED, ROW_ID, ROW_COUNTERS, ROW_GAPS, ROW_BORROWED, ROW_RDPMCS, ROW_EVICTED,
};

static const struct {
	const char *title;
	int width;
} columns[] = {
	[ROW_ID] = { "ID", 5 },
	[ROW_PID] = { "PID", 7 },
	[ROW_NAME] = { "NAME", 0 },
	[ROW_VCPU] = { "vCPU", 4 },
	[ROW_COUNTERS] = { "CTRS", 4 },
	[ROW_RUN] = { "RUN%", 6 },
	[ROW_EXITS] = { "EXITS/s", 7 },
	[ROW_EMULATED] = { "EMUL/s", 6 },
	[ROW_PMIS] = { "PMIS/s", 6 },
	[ROW_ACCESSES] = { "MSRS/s", 6 },
	[ROW_RDPMCS] = { "RDPMC/s", 7 },
	[ROW_BORROWED] = { "BORROW/s", 8 },
	[ROW_EVICTED] = { "EVICT/s", 7 },
	[ROW_GAPS] = { "GAPS/s", 6 },
	[ROW_ANOMALIES] = { "ANOM/s", 6 },
};

int row_width(enum row_column column)
{
	return columns[column].width;
}

const char *row_title(enum row_column column)
{
	return columns[column].title;
}

/* What a vCPU did, or several together. */
struct sum {
	double figure[FIGURES];
	double enabled, running;
	unsigned int counters;
	bool known;
};

static void add(struct sum *sum, const struct kvm_vpmu_vcpu *vcpu,
		const struct kvm_vpmu_vcpu *before)
{
	enum figure f;
	unsigned int i;

	for (i = 0; i < vcpu->counters; i++)
		sum->counters += !!(vcpu->counter[i].flags & KVM_VPMU_COUNTER_ENABLED);
	if (!before)
		return;
	sum->known = true;
	for (f = 0; f < FIGURES; f++)
		sum->figure[f] += figure(vcpu, f) - figure(before, f);
	for (i = 0; i < vcpu->counters && i < before->counters; i++) {
		sum->enabled += vcpu->counter[i].enabled_ns - before->counter[i].enabled_ns;
		sum->running += vcpu->counter[i].running_ns - before->counter[i].running_ns;
	}
}

static void append(struct rows *rows, const struct vm *vm, __u32 vcpu, const struct sum *sum,
		   double seconds)
{
	const double *n = sum->figure;
	struct row *row;
	int i;

	rows->row = xrealloc(rows->row, (rows->count + 1) * sizeof(*rows->row));
	row = &rows->row[rows->count++];
	*row = (struct row){ .vm = vm, .vcpu = vcpu };
	row->value[ROW_ID] = vm->info.id;
	row->value[ROW_PID] = vm->info.pid;
	row->value[ROW_VCPU] = vcpu;
	row->value[ROW_COUNTERS] = sum->counters;
	row->value[ROW_RUN] = sum->enabled > 0 ? 100 * sum->running / sum->enabled : NAN;
	row->value[ROW_EXITS] = n[FIGURE_EXITS];
	row->value[ROW_EMULATED] = n[FIGURE_EMULATED];
	row->value[ROW_PMIS] = n[FIGURE_PMIS];
	row->value[ROW_ACCESSES] = n[FIGURE_READS] + n[FIGURE_WRITES];
	row->value[ROW_RDPMCS] = n[FIGURE_RDPMCS];
	row->value[ROW_BORROWED] = n[FIGURE_BORROWED];
	row->value[ROW_EVICTED] = n[FIGURE_EVICTED];
	row->value[ROW_GAPS] = n[FIGURE_GAPS];
	row->value[ROW_ANOMALIES] = n[FIGURE_ANOMALIES];
	for (i = ROW_EXITS; i < ROW_COLUMNS; i++)
		row->value[i] = sum->known ? row->value[i] / seconds : NAN;
}

void rows_make(struct rows *rows, const struct sample *now, const struct sample *before, bool by_vm)
{
	double seconds = before ? (double)(now->time - before->time) / NS_PER_S : 1;
	size_t v, c;

	*rows = (struct rows){ };
	for (v = 0; v < now->vms; v++) {
		const struct sample_vm *vm = &now->vm[v];
		struct sum sum = { };

		for (c = 0; c < vm->vcpus; c++) {
			if (!by_vm)
				sum = (struct sum){ };
			add(&sum, &vm->vcpu[c], sample_find(before, &vm->vcpu[c]));
			if (!by_vm)
				append(rows, &vm->vm, vm->vcpu[c].vcpu_id, &sum, seconds);
		}
		if (by_vm)
			append(rows, &vm->vm, vm->vcpus, &sum, seconds);
	}
}

void rows_free(struct rows *rows)
{
	free(rows->row);
	*rows = (struct rows){ };
}

struct order {
	enum row_column column;
	bool reverse;
};

static int by_value(double a, double b)
{
	return a < b ? -1 : a > b;
}

static int compare(const void *one, const void *other, void *data)
{
	const struct row *a = one, *b = other;
	const struct order *order = data;
	enum row_column column = order->column;
	int r;

	if (column == ROW_NAME) {
		r = strcoll(a->vm->name, b->vm->name);
	} else if (isnan(a->value[column]) || isnan(b->value[column])) {
		/* last, either way */
		r = isnan(a->value[column]) - isnan(b->value[column]);
		if (r)
			return r;
	} else {
		r = by_value(a->value[column], b->value[column]);
		if (column > ROW_VCPU && column != ROW_RUN)
			r = -r;
	}
	if (r)
		return order->reverse ? -r : r;
	r = by_value(a->vm->info.id, b->vm->info.id);
	return r ? r : by_value(a->vcpu, b->vcpu);
}

void rows_sort(struct rows *rows, enum row_column column, bool reverse)
{
	struct order order = { column, reverse };

	if (rows->count)
		qsort_r(rows->row, rows->count, sizeof(*rows->row), compare, &order);
}

int rows_layout(int width, bool shown[ROW_COLUMNS])
{
	int left = width - NAME_LEAST;
	size_t i;

	memset(shown, 0, ROW_COLUMNS * sizeof(*shown));
	for (i = 0; i < ARRAY_SIZE(importance); i++) {
		enum row_column column = importance[i];

		if (column != ROW_NAME && columns[column].width + 1 > left)
			break;
		shown[column] = true;
		if (column != ROW_NAME)
			left -= columns[column].width + 1;
	}
	left += NAME_LEAST;
	return left < 0 ? 0 : left > NAME_MOST ? NAME_MOST : left;
}

char *row_text(char *buf, const struct row *row, enum row_column column)
{
	switch (column) {
	case ROW_ID:
		snprintf(buf, NUMBER_SIZE, "#%llu", (unsigned long long)row->vm->info.id);
		return buf;
	case ROW_PID:
	case ROW_VCPU:
	case ROW_COUNTERS:
		snprintf(buf, NUMBER_SIZE, "%.0f", row->value[column]);
		return buf;
	case ROW_RUN:
		if (isnan(row->value[column]))
			strcpy(buf, "-");
		else
			format_share(buf, row->value[column] * 1000, 100000);
		return buf;
	default:
		return format_short(buf, row->value[column]);
	}
}
