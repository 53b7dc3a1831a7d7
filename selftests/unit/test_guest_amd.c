// SPDX-License-Identifier: GPL-2.0-or-later
/* AMD's register sets as a guest sees them: kmod/guest/amd.c. */
#include "test_guest.h"

static struct guest_pmu make(enum guest_set set, unsigned int nr)
{
	struct guest_config config = { .set = set, .general = nr };
	struct guest_pmu pmu;

	vpmu_guest_reset(&pmu, &config);
	return pmu;
}

static void no_pmu_has_no_registers(void **state)
{
	struct guest_pmu pmu = make(GUEST_NONE, 6);
	u32 msr;

	assert_int_equal(pmu.nr, 0);
	for (msr = 0xc0010000; msr < 0xc0010300; msr++)
		expect(&pmu, msr, GUEST_REG_NONE, 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 0) < 0);
}

static void legacy_has_four(void **state)
{
	struct guest_pmu pmu = make(GUEST_AMD_LEGACY, 4);
	unsigned int i;

	for (i = 0; i < 4; i++) {
		expect(&pmu, 0xc0010000 + i, GUEST_REG_SELECT, i);
		expect(&pmu, 0xc0010004 + i, GUEST_REG_COUNTER, i);
		assert_int_equal(pmu.ops->by_rdpmc(&pmu, i), i);
	}
	expect(&pmu, 0xc0010008, GUEST_REG_NONE, 0);
	expect(&pmu, 0xc0010200, GUEST_REG_NONE, 0);
	expect(&pmu, 0xc0000301, GUEST_REG_NONE, 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 4) < 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 0x40000000) < 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 0xffffffff) < 0);
}

static void core_has_six_and_the_aliases(void **state)
{
	struct guest_pmu pmu = make(GUEST_AMD_CORE, 6);
	unsigned int i;

	for (i = 0; i < 6; i++) {
		expect(&pmu, 0xc0010200 + 2 * i, GUEST_REG_SELECT, i);
		expect(&pmu, 0xc0010201 + 2 * i, GUEST_REG_COUNTER, i);
	}
	expect(&pmu, 0xc0010003, GUEST_REG_SELECT, 3);
	expect(&pmu, 0xc0010007, GUEST_REG_COUNTER, 3);
	expect(&pmu, 0xc001020c, GUEST_REG_NONE, 0);
	expect(&pmu, 0xc00101ff, GUEST_REG_NONE, 0);
	for (i = 0; i < 4; i++)
		expect(&pmu, 0xc0000300 + i, GUEST_REG_NONE, 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 6) < 0);
}

static void v2_has_the_global_registers(void **state)
{
	struct guest_pmu pmu = make(GUEST_AMD_V2, 6);

	expect(&pmu, 0xc0000300, GUEST_REG_STATUS, 0);
	expect(&pmu, 0xc0000301, GUEST_REG_CONTROL, 0);
	expect(&pmu, 0xc0000302, GUEST_REG_STATUS_CLEAR, 0);
	expect(&pmu, 0xc0000303, GUEST_REG_STATUS_SET, 0);
	expect(&pmu, 0xc0000304, GUEST_REG_NONE, 0);
	assert_int_equal(pmu.control, 0x3f);
}

static void fewer_counters_mean_fewer_registers(void **state)
{
	struct guest_pmu pmu = make(GUEST_AMD_V2, 2);

	expect(&pmu, 0xc0010202, GUEST_REG_SELECT, 1);
	expect(&pmu, 0xc0010204, GUEST_REG_NONE, 0);
	expect(&pmu, 0xc0010002, GUEST_REG_NONE, 0);
	assert_int_equal(vpmu_guest_counter_mask(&pmu), 3);
}

static void reserved_select_bits_are_dropped(void **state)
{
	assert_int_equal(vpmu_guest_amd.select_bits, 0x0fffdfffffULL & ~BIT_ULL(19));
	/* host only, guest only, the reserved ones, pin control */
	assert_int_equal(vpmu_guest_amd.select_bits &
			 (BIT_ULL(41) | BIT_ULL(40) | BIT_ULL(42) | BIT_ULL(63) | BIT_ULL(36) |
			  BIT_ULL(19) | BIT_ULL(21)), 0);
}

static void counting_needs_enable_level_and_control(void **state)
{
	struct guest_pmu pmu = make(GUEST_AMD_V2, 6);

	vpmu_guest_set_select(&pmu, 2, 0xc0 | USR);
	assert_false(vpmu_guest_counting(&pmu, 2));
	vpmu_guest_set_select(&pmu, 2, 0xc0 | EN);
	assert_false(vpmu_guest_counting(&pmu, 2));
	vpmu_guest_set_select(&pmu, 2, 0xc0 | EN | USR);
	assert_true(vpmu_guest_counting(&pmu, 2));
	vpmu_guest_set_control(&pmu, 0x3b);
	assert_false(vpmu_guest_counting(&pmu, 2));
	vpmu_guest_set_control(&pmu, 0x04);
	assert_true(vpmu_guest_counting(&pmu, 2));
	assert_false(vpmu_guest_interrupts(&pmu, 2));
	pmu.select[2] |= INT;
	assert_true(vpmu_guest_interrupts(&pmu, 2));
}

static void classes(void **state)
{
	struct guest_pmu pmu = make(GUEST_AMD_CORE, 6);

	pmu.select[0] = 0xc0 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_INSTRUCTION);
	pmu.select[0] = 0xc2 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_BRANCH);
	pmu.select[0] = 0x76 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
	/* event select bits 11:8 are bits 35:32 */
	pmu.select[0] = 0x1000000c0ULL | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
	/* CMASK 1 is one event a cycle, more isn't; INV counts the others */
	pmu.select[0] = 0x010000c0 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_INSTRUCTION);
	pmu.select[0] = 0x020000c0 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
	pmu.select[0] = 0x018000c0 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
}

static void filters(void **state)
{
	struct guest_pmu pmu = make(GUEST_AMD_CORE, 6);

	pmu.select[1] = OS;
	assert_int_equal(vpmu_guest_filter(&pmu, 1), VPMU_IN_KERNEL);
	pmu.select[1] = USR;
	assert_int_equal(vpmu_guest_filter(&pmu, 1), VPMU_IN_USER);
	pmu.select[1] = OS | USR;
	assert_int_equal(vpmu_guest_filter(&pmu, 1), VPMU_IN_KERNEL | VPMU_IN_USER);
	pmu.select[1] = 0;
	assert_int_equal(vpmu_guest_filter(&pmu, 1), 0);
}

static void speculative_events_are_those_of_the_cpu(void **state)
{
	struct guest_pmu pmu = { };

	pmu = make(GUEST_AMD_V2, 6);
	for (unsigned int event = 0; event < 0x200; event++) {
		bool retired = (event >= 0xc0 && event <= 0xcc) || event == 0xd1 ||
			       (event >= 0x1c0 && event <= 0x1cc) || event == 0x1d0 ||
			       event == 0x003 || event == 0x005 || event == 0x008 ||
			       (event >= 0x00a && event <= 0x00d);

		pmu.select[1] = EN | OS | (event & 0xff) | (u64)(event >> 8) << 32;
		assert_int_equal(vpmu_guest_speculative(&pmu, 1), !retired);
		pmu.select[1] |= BIT_ULL(23);	/* INV: cycles without */
		assert_true(vpmu_guest_speculative(&pmu, 1));
	}
	/* family 10h has other events there */
	pmu = make(GUEST_AMD_LEGACY, 4);
	pmu.select[0] = EN | OS | 0xd0ULL | 1ULL << 32;
	assert_true(vpmu_guest_speculative(&pmu, 0));
	pmu.select[0] = EN | OS | 0xc2;
	assert_false(vpmu_guest_speculative(&pmu, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speculative_events_are_those_of_the_cpu),
		cmocka_unit_test(no_pmu_has_no_registers),
		cmocka_unit_test(legacy_has_four),
		cmocka_unit_test(core_has_six_and_the_aliases),
		cmocka_unit_test(v2_has_the_global_registers),
		cmocka_unit_test(fewer_counters_mean_fewer_registers),
		cmocka_unit_test(reserved_select_bits_are_dropped),
		cmocka_unit_test(counting_needs_enable_level_and_control),
		cmocka_unit_test(classes),
		cmocka_unit_test(filters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
