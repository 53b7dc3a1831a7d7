// SPDX-License-Identifier: GPL-2.0-or-later
/* What top shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "fake.h"
#include "rows.h"
#include "util.h"

/* Two looks at @vms VMs, a second from each other */
static void look(struct fake *fake, struct device *dev, unsigned int vms, struct sample *before,
		 struct sample *now)
{
	fake_init(fake, dev, vms);
	assert_int_equal(sample_take(before, dev, "/nonexistent", 0, SAMPLE_NO_EVENTS), 0);
	assert_int_equal(sample_take(now, dev, "/nonexistent", 0, SAMPLE_NO_EVENTS), 0);
	now->time = before->time + NS_PER_S;
}

static void rows_of_vcpus(void **state)
{
	struct sample before, now;
	char buf[NUMBER_SIZE];
	struct device dev;
	struct fake fake;
	struct rows rows;

	look(&fake, &dev, 3, &before, &now);
	rows_make(&rows, &now, &before, false);
	assert_int_equal(rows.count, 6);
	assert_int_equal(rows.row[3].vm->info.id, 2);
	assert_int_equal(rows.row[3].vcpu, 2);
	assert_string_equal(row_text(buf, &rows.row[3], ROW_ID), "#2");
	assert_string_equal(row_text(buf, &rows.row[3], ROW_PID), "1001");
	assert_string_equal(row_text(buf, &rows.row[3], ROW_VCPU), "2");
	assert_string_equal(row_text(buf, &rows.row[3], ROW_COUNTERS), "2");
	assert_string_equal(row_text(buf, &rows.row[3], ROW_EXITS), "1.00M");
	assert_string_equal(row_text(buf, &rows.row[3], ROW_EMULATED), "1000");
	assert_string_equal(row_text(buf, &rows.row[3], ROW_ACCESSES), "50.0");
	assert_string_equal(row_text(buf, &rows.row[3], ROW_PMIS), "0");
	/* 2 ms and 1 ms of 2 ms each */
	assert_string_equal(row_text(buf, &rows.row[3], ROW_RUN), "75.0%");
	rows_free(&rows);
	sample_free(&before);
	sample_free(&now);
}

static void rows_of_vms(void **state)
{
	struct sample before, now;
	char buf[NUMBER_SIZE];
	struct device dev;
	struct fake fake;
	struct rows rows;

	look(&fake, &dev, 3, &before, &now);
	rows_make(&rows, &now, &before, true);
	assert_int_equal(rows.count, 3);
	assert_int_equal(rows.row[1].vcpu, 2);
	assert_string_equal(row_text(buf, &rows.row[1], ROW_COUNTERS), "4");
	assert_string_equal(row_text(buf, &rows.row[1], ROW_EXITS), "2.00M");
	rows_free(&rows);
	sample_free(&before);
	sample_free(&now);
}

static void rates_need_two_looks(void **state)
{
	struct sample before, now;
	char buf[NUMBER_SIZE];
	struct device dev;
	struct fake fake;
	struct rows rows;

	look(&fake, &dev, 1, &before, &now);
	rows_make(&rows, &now, NULL, false);
	assert_string_equal(row_text(buf, &rows.row[0], ROW_EXITS), "-");
	assert_string_equal(row_text(buf, &rows.row[0], ROW_RUN), "-");
	assert_string_equal(row_text(buf, &rows.row[0], ROW_COUNTERS), "2");
	rows_free(&rows);
	/* a VM that wasn't there */
	before.vm[0].vm.info.id = 99;
	rows_make(&rows, &now, &before, false);
	assert_string_equal(row_text(buf, &rows.row[0], ROW_EXITS), "-");
	rows_free(&rows);
	/* the vCPU is another one */
	before.vm[0].vm.info.id = 1;
	before.vm[0].vcpu[0].vcpu_id = 99;
	rows_make(&rows, &now, &before, false);
	assert_string_equal(row_text(buf, &rows.row[0], ROW_EXITS), "-");
	assert_string_equal(row_text(buf, &rows.row[1], ROW_EXITS), "1.00M");
	rows_free(&rows);
	sample_free(&before);
	sample_free(&now);
}

static void vms_that_end_are_left_out(void **state)
{
	struct sample now;
	struct device dev;
	struct fake fake;

	fake_init(&fake, &dev, 3);
	fake.ended[0] = true;
	assert_int_equal(sample_take(&now, &dev, "/nonexistent", 0, SAMPLE_NO_EVENTS), 0);
	assert_int_equal(now.vms, 2);
	assert_int_equal(now.vm[0].vm.info.id, 2);
	sample_free(&now);
	assert_int_equal(sample_take(&now, &dev, "/nonexistent", 1, SAMPLE_NO_EVENTS), 0);
	assert_int_equal(now.vms, 0);
	sample_free(&now);
}

static void order_is(struct rows *rows, enum row_column column, bool reverse, const char *ids)
{
	char got[10] = "";
	size_t i;

	rows_sort(rows, column, reverse);
	for (i = 0; i < rows->count; i++)
		got[i] = '0' + rows->row[i].vm->info.id;
	assert_string_equal(got, ids);
}

static void sorted(void **state)
{
	struct vm vm[] = {
		{ .info = { .id = 3, .pid = 10 }, .name = "b" },
		{ .info = { .id = 1, .pid = 30 }, .name = "c" },
		{ .info = { .id = 2, .pid = 20 }, .name = "a" },
		{ .info = { .id = 4, .pid = 40 }, .name = "d" },
	};
	struct row row[4];
	struct rows rows = { row, 4 };
	int i;

	for (i = 0; i < 4; i++) {
		row[i] = (struct row){ .vm = &vm[i] };
		row[i].value[ROW_ID] = vm[i].info.id;
		row[i].value[ROW_PID] = vm[i].info.pid;
		row[i].value[ROW_EXITS] = vm[i].info.id == 4 ? NAN : vm[i].info.id * 10;
		row[i].value[ROW_RUN] = vm[i].info.id == 1 ? 50 : 100;
	}
	order_is(&rows, ROW_ID, false, "1234");
	order_is(&rows, ROW_ID, true, "4321");
	order_is(&rows, ROW_PID, false, "3214");
	order_is(&rows, ROW_NAME, false, "2314");
	order_is(&rows, ROW_EXITS, false, "3214");
	order_is(&rows, ROW_EXITS, true, "1234");
	/* what didn't run comes first */
	order_is(&rows, ROW_RUN, false, "1234");
	/* all the same: by number */
	order_is(&rows, ROW_GAPS, false, "1234");
}

static int used(const bool shown[ROW_COLUMNS], int name)
{
	int c, width = 0;

	for (c = 0; c < ROW_COLUMNS; c++) {
		if (shown[c])
			width += (width > 0) + (c == ROW_NAME ? name : row_width(c));
	}
	return width;
}

static void columns_fit_any_width(void **state)
{
	bool shown[ROW_COLUMNS];
	int width, name, c, n, before = 0;

	for (width = 1; width <= 300; width++) {
		name = rows_layout(width, shown);
		if (used(shown, name) > width)
			fail_msg("%d columns take %d", width, used(shown, name));
		for (c = n = 0; c < ROW_COLUMNS; c++)
			n += shown[c];
		assert_true(n >= before);
		before = n;
		if (width >= 80)
			assert_true(shown[ROW_NAME] && shown[ROW_VCPU] && shown[ROW_EXITS] &&
				    shown[ROW_RUN] && shown[ROW_ANOMALIES] && shown[ROW_PID]);
	}
	for (c = 0; c < ROW_COLUMNS; c++)
		assert_true(c == ROW_NAME || (int)strlen(row_title(c)) <= row_width(c));
	assert_int_equal(before, ROW_COLUMNS);
	assert_int_equal(name, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_vcpus),
		cmocka_unit_test(rows_of_vms),
		cmocka_unit_test(rates_need_two_looks),
		cmocka_unit_test(vms_that_end_are_left_out),
		cmocka_unit_test(sorted),
		cmocka_unit_test(columns_fit_any_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
