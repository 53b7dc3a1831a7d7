// SPDX-License-Identifier: GPL-2.0-or-later
/* The arithmetic between physical and guest counters: kmod/count.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../kmod/count.h"

#define TOP	VPMU_COUNTER_MASK

static struct vpmu_count instructions(unsigned int filter)
{
	return (struct vpmu_count){ .class = VPMU_INSTRUCTION, .filter = filter };
}

static void adds_and_wraps_at_48_bits(void **state)
{
	u64 value = TOP - 1;

	assert_false(vpmu_count_add(&value, 1));
	assert_int_equal(value, TOP);
	assert_true(vpmu_count_add(&value, 1));
	assert_int_equal(value, 0);
	value = 5;
	assert_false(vpmu_count_add(&value, -3));
	assert_int_equal(value, 5);
}

static void entries(struct vpmu_tally *t, int level, int n)
{
	while (n--)
		vpmu_tally_entry(t, level);
}

static void emulated(struct vpmu_tally *t, enum vpmu_class class, int level, int n)
{
	while (n--)
		vpmu_tally_emulated(t, class, level);
}

static void gain_is_what_hardware_counted(void **state)
{
	struct vpmu_count c = { .class = VPMU_OTHER, .filter = VPMU_IN_USER };
	struct vpmu_tally t = { };

	assert_int_equal(vpmu_count_arm(&c, &t, 1000, 0), 1000);
	assert_int_equal(vpmu_count_sync(&c, &t, 1234), 234);
	/* one that stands still */
	assert_false(vpmu_count_wrapped(&c, 1234));
	assert_int_equal(vpmu_count_sync(&c, &t, 1234), 0);
	/* over the top of the physical counter */
	vpmu_count_arm(&c, &t, TOP, 0);
	assert_int_equal(vpmu_count_sync(&c, &t, 9), 10);
}

static void other_events_ignore_the_tally(void **state)
{
	struct vpmu_count c = { .class = VPMU_OTHER,
				.filter = VPMU_IN_USER | VPMU_IN_KERNEL };
	struct vpmu_tally t = { };

	vpmu_count_arm(&c, &t, 0, 0);
	entries(&t, VPMU_USER, 7);
	emulated(&t, VPMU_INSTRUCTION, VPMU_USER, 9);
	emulated(&t, VPMU_BRANCH, VPMU_USER, 9);
	assert_int_equal(vpmu_count_sync(&c, &t, 100), 100);
	assert_false(vpmu_count_headroom(&c, &t, 0) < 0);
}

static void entries_are_taken_out_by_level(void **state)
{
	struct vpmu_count user = instructions(VPMU_IN_USER);
	struct vpmu_count kernel = instructions(VPMU_IN_KERNEL);
	struct vpmu_count both = instructions(VPMU_IN_USER | VPMU_IN_KERNEL);
	struct vpmu_tally t = { };

	entries(&t, VPMU_KERNEL, 50);
	entries(&t, VPMU_USER, 60);

	vpmu_count_arm(&user, &t, 0, 0);
	vpmu_count_arm(&kernel, &t, 0, 0);
	vpmu_count_arm(&both, &t, 0, 0);
	entries(&t, VPMU_KERNEL, 3);
	entries(&t, VPMU_USER, 2);
	assert_int_equal(vpmu_count_sync(&user, &t, 1000), 998);
	assert_int_equal(vpmu_count_sync(&kernel, &t, 1000), 997);
	assert_int_equal(vpmu_count_sync(&both, &t, 1000), 995);
}

static void emulated_are_added_by_class_and_level(void **state)
{
	struct vpmu_count c = instructions(VPMU_IN_USER);
	struct vpmu_count b = { .class = VPMU_BRANCH, .filter = VPMU_IN_USER };
	struct vpmu_tally t = { };

	vpmu_count_arm(&c, &t, 0, 0);
	vpmu_count_arm(&b, &t, 0, 0);
	emulated(&t, VPMU_INSTRUCTION, VPMU_USER, 4);
	emulated(&t, VPMU_INSTRUCTION, VPMU_KERNEL, 100);
	emulated(&t, VPMU_BRANCH, VPMU_USER, 1);
	assert_int_equal(vpmu_count_sync(&c, &t, 10), 14);
	assert_int_equal(vpmu_count_sync(&b, &t, 3), 4);
}

/* An entry for each emulated instruction: nothing ever has to be rewritten. */
static void emulation_and_entries_cancel(void **state)
{
	struct vpmu_count c = instructions(VPMU_IN_USER);
	struct vpmu_tally t = { };
	u64 hw = vpmu_count_arm(&c, &t, TOP - 9, 1);
	int i;

	assert_int_equal(hw, TOP - 10);
	/* the entry after arming */
	entries(&t, VPMU_USER, 1);
	hw++;
	for (i = 0; i < 10; i++) {
		assert_false(vpmu_count_wrapped(&c, hw & TOP));
		emulated(&t, VPMU_INSTRUCTION, VPMU_USER, 1);
		assert_false(vpmu_count_headroom(&c, &t, 1) < 0);
		entries(&t, VPMU_USER, 1);
		hw++;
	}
	/* overflows at the tenth, as the guest's counter does */
	assert_true(vpmu_count_wrapped(&c, hw & TOP));
	assert_int_equal(vpmu_count_sync(&c, &t, hw & TOP), 10);
}

/* A physical counter below 0 would overflow at once, and again after each arming. */
static void zero_is_not_armed_below_zero(void **state)
{
	struct vpmu_count c = instructions(VPMU_IN_KERNEL);
	struct vpmu_tally t = { };
	u64 value = 0;
	u64 hw = vpmu_count_arm(&c, &t, value, 1);

	assert_int_equal(hw, 0);
	entries(&t, VPMU_KERNEL, 1);
	hw++;
	assert_false(vpmu_count_wrapped(&c, hw));
	assert_int_equal(vpmu_count_sync(&c, &t, hw + 7), 7);
	assert_int_equal(vpmu_count_arm(&c, &t, 1, 1), 0);
}

/* Entries let the physical counter get ahead; it falls back by as much, and nothing is lost. */
static void falls_back_to_the_guests_value(void **state)
{
	struct vpmu_count c = instructions(VPMU_IN_KERNEL);
	struct vpmu_tally t = { };
	u64 hw = vpmu_count_arm(&c, &t, TOP - 100, 1);

	entries(&t, VPMU_KERNEL, 3);
	hw += 3 + 10;
	/* and the next one */
	assert_int_equal(vpmu_count_headroom(&c, &t, 1), 3);
	assert_true(vpmu_count_fall_back(&c, &hw, 3));
	assert_int_equal(vpmu_count_headroom(&c, &t, 1), 0);
	entries(&t, VPMU_KERNEL, 1);
	hw++;
	assert_int_equal(hw, TOP - 90);
	assert_int_equal(vpmu_count_sync(&c, &t, hw), 10);
	/* not once it has overflowed, which is still to be seen */
	hw = 5;
	assert_false(vpmu_count_fall_back(&c, &hw, 1));
	assert_int_equal(hw, 5);
	assert_true(vpmu_count_wrapped(&c, hw));
	/* and not below 0 */
	hw = vpmu_count_arm(&c, &t, 1, 0);
	assert_false(vpmu_count_fall_back(&c, &hw, 2));
	assert_true(vpmu_count_fall_back(&c, &hw, 1));
	assert_int_equal(hw, 0);
}

static void lag_shows_where_entries_do_not_count(void **state)
{
	struct vpmu_count c = instructions(VPMU_IN_KERNEL);
	struct vpmu_tally t = { };

	vpmu_count_arm(&c, &t, 5, 0);
	assert_false(vpmu_count_headroom(&c, &t, 0) < 0);
	emulated(&t, VPMU_INSTRUCTION, VPMU_KERNEL, 1);
	assert_true(vpmu_count_headroom(&c, &t, 0) < 0);
	assert_false(vpmu_count_headroom(&c, &t, 1) < 0);
	/* after synchronization the lag is known, until armed again */
	assert_int_equal(vpmu_count_sync(&c, &t, 5), 1);
	assert_true(vpmu_count_headroom(&c, &t, 0) < 0);
	vpmu_count_arm(&c, &t, 6, 0);
	assert_false(vpmu_count_headroom(&c, &t, 0) < 0);
}

static void entries_that_hardware_did_not_count_show(void **state)
{
	struct vpmu_count c = instructions(VPMU_IN_KERNEL);
	struct vpmu_tally t = { };

	vpmu_count_arm(&c, &t, 0, 0);
	entries(&t, VPMU_KERNEL, 5);
	assert_int_equal(vpmu_count_sync(&c, &t, 3), -2);
}

/* Early by the entries in between, and then exact. */
static void early_overflow_is_told_from_the_guests(void **state)
{
	struct vpmu_count c = { .class = VPMU_BRANCH, .filter = VPMU_IN_USER };
	struct vpmu_tally t = { };
	u64 value = TOP - 99;	/* 100 to go */
	u64 hw = vpmu_count_arm(&c, &t, value, 1);

	entries(&t, VPMU_USER, 11);
	hw = (hw + 11 + 90) & TOP;
	assert_true(vpmu_count_wrapped(&c, hw));
	assert_false(vpmu_count_add(&value, vpmu_count_sync(&c, &t, hw)));
	assert_int_equal(value, TOP - 9);
	hw = vpmu_count_arm(&c, &t, value, 1);
	entries(&t, VPMU_USER, 1);
	hw = (hw + 1 + 9) & TOP;
	assert_false(vpmu_count_wrapped(&c, hw));
	hw = (hw + 1) & TOP;
	assert_true(vpmu_count_wrapped(&c, hw));
	assert_true(vpmu_count_add(&value, vpmu_count_sync(&c, &t, hw)));
	assert_int_equal(value, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_and_wraps_at_48_bits),
		cmocka_unit_test(gain_is_what_hardware_counted),
		cmocka_unit_test(other_events_ignore_the_tally),
		cmocka_unit_test(entries_are_taken_out_by_level),
		cmocka_unit_test(emulated_are_added_by_class_and_level),
		cmocka_unit_test(emulation_and_entries_cancel),
		cmocka_unit_test(zero_is_not_armed_below_zero),
		cmocka_unit_test(falls_back_to_the_guests_value),
		cmocka_unit_test(lag_shows_where_entries_do_not_count),
		cmocka_unit_test(entries_that_hardware_did_not_count_show),
		cmocka_unit_test(early_overflow_is_told_from_the_guests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
