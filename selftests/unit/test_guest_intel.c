// SPDX-License-Identifier: GPL-2.0-or-later
/* Intel's registers as a guest sees them: kmod/guest/intel.c. */
#include "test_guest.h"

static struct guest_pmu make(unsigned int version, unsigned int general)
{
	struct guest_config config = {
		.set = GUEST_INTEL, .version = version, .general = general, .fixed = 3,
		.full_width = true,
	};
	struct guest_pmu pmu;

	vpmu_guest_reset(&pmu, &config);
	return pmu;
}

static u64 reserved(const struct guest_pmu *pmu, enum guest_reg_kind kind)
{
	return pmu->ops->reserved(pmu, (struct guest_reg){ .kind = kind });
}

static void version_2_has_these_registers(void **state)
{
	struct guest_pmu pmu = make(2, 4);
	unsigned int i;

	assert_int_equal(pmu.nr, 7);
	for (i = 0; i < 4; i++) {
		expect(&pmu, 0x186 + i, GUEST_REG_SELECT, i);
		expect(&pmu, 0xc1 + i, GUEST_REG_COUNTER_LOW, i);
		expect(&pmu, 0x4c1 + i, GUEST_REG_COUNTER, i);
	}
	for (i = 0; i < 3; i++)
		expect(&pmu, 0x309 + i, GUEST_REG_COUNTER, 4 + i);
	expect(&pmu, 0x38d, GUEST_REG_FIXED_CONTROL, 0);
	expect(&pmu, 0x38e, GUEST_REG_STATUS, 0);
	expect(&pmu, 0x38f, GUEST_REG_CONTROL, 0);
	expect(&pmu, 0x390, GUEST_REG_STATUS_CLEAR, 0);
	/* beyond the last of each, and before the first */
	expect(&pmu, 0x18a, GUEST_REG_NONE, 0);
	expect(&pmu, 0x185, GUEST_REG_NONE, 0);
	expect(&pmu, 0xc5, GUEST_REG_NONE, 0);
	expect(&pmu, 0xc0, GUEST_REG_NONE, 0);
	expect(&pmu, 0x4c5, GUEST_REG_NONE, 0);
	expect(&pmu, 0x4c0, GUEST_REG_NONE, 0);
	expect(&pmu, 0x30c, GUEST_REG_NONE, 0);
	expect(&pmu, 0x308, GUEST_REG_NONE, 0);
	/* PEBS, metrics, what came with version 4 */
	expect(&pmu, 0x3f1, GUEST_REG_NONE, 0);
	expect(&pmu, 0x329, GUEST_REG_NONE, 0);
	expect(&pmu, 0x391, GUEST_REG_NONE, 0);
	expect(&pmu, 0x392, GUEST_REG_NONE, 0);
}

static void version_1_has_general_counters_only(void **state)
{
	struct guest_config config = { .set = GUEST_INTEL, .version = 1, .general = 4 };
	struct guest_pmu pmu;
	u32 msr;

	vpmu_guest_reset(&pmu, &config);
	expect(&pmu, 0xc4, GUEST_REG_COUNTER_LOW, 3);
	expect(&pmu, 0x189, GUEST_REG_SELECT, 3);
	for (msr = 0x309; msr < 0x30c; msr++)
		expect(&pmu, msr, GUEST_REG_NONE, 0);
	for (msr = 0x38d; msr <= 0x392; msr++)
		expect(&pmu, msr, GUEST_REG_NONE, 0);
	vpmu_guest_set_select(&pmu, 0, 0xc0 | EN | USR);
	assert_true(vpmu_guest_counting(&pmu, 0));
	assert_true(pmu.ops->by_rdpmc(&pmu, 0x40000000) < 0);
}

static void version_4_has_more(void **state)
{
	struct guest_pmu pmu = make(4, 8);

	expect(&pmu, 0x18d, GUEST_REG_SELECT, 7);
	expect(&pmu, 0x30b, GUEST_REG_COUNTER, 10);
	expect(&pmu, 0x391, GUEST_REG_STATUS_SET, 0);
	expect(&pmu, 0x392, GUEST_REG_IN_USE, 0);
}

static void full_width_writes_are_an_offer(void **state)
{
	struct guest_pmu pmu = make(2, 4);

	pmu.full_width = false;
	expect(&pmu, 0x4c1, GUEST_REG_NONE, 0);
	expect(&pmu, 0xc1, GUEST_REG_COUNTER_LOW, 0);
	expect(&pmu, 0x309, GUEST_REG_COUNTER, 4);
}

static void general_counters_are_on_at_reset(void **state)
{
	struct guest_pmu pmu = make(2, 4);

	assert_int_equal(pmu.control, 0xf);
	assert_int_equal(pmu.status, 0);
	assert_int_equal(pmu.fixed_control, 0);
}

static void bits_of_counters(void **state)
{
	struct guest_pmu pmu = make(2, 4);

	assert_int_equal(vpmu_guest_counter_mask(&pmu), 0x70000000fULL);
	assert_int_equal(vpmu_guest_bit(&pmu, 3), 8);
	assert_int_equal(vpmu_guest_bit(&pmu, 4), 1ULL << 32);
	assert_int_equal(vpmu_guest_bit(&pmu, 6), 1ULL << 34);
}

static void rdpmc_numbers_fixed_counters_apart(void **state)
{
	struct guest_pmu pmu = make(2, 4);

	assert_int_equal(pmu.ops->by_rdpmc(&pmu, 0), 0);
	assert_int_equal(pmu.ops->by_rdpmc(&pmu, 3), 3);
	assert_int_equal(pmu.ops->by_rdpmc(&pmu, 0x40000000), 4);
	assert_int_equal(pmu.ops->by_rdpmc(&pmu, 0x40000002), 6);
	assert_true(pmu.ops->by_rdpmc(&pmu, 4) < 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 0x40000003) < 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 0x20000000) < 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 0x80000000) < 0);
	assert_true(pmu.ops->by_rdpmc(&pmu, 0xffffffff) < 0);
}

static void reserved_bits(void **state)
{
	struct guest_pmu v2 = make(2, 4), v3 = make(3, 4), v4 = make(4, 8);

	/* AnyThread, and above CMASK */
	assert_int_equal(reserved(&v2, GUEST_REG_SELECT), 0xffffffff00200000ULL);
	assert_int_equal(reserved(&v2, GUEST_REG_COUNTER), 0xffff000000000000ULL);
	assert_int_equal(reserved(&v2, GUEST_REG_COUNTER_LOW), 0);
	assert_int_equal(reserved(&v2, GUEST_REG_FIXED_CONTROL), ~0xbbbULL);
	assert_int_equal(reserved(&v2, GUEST_REG_CONTROL), ~0x70000000fULL);
	assert_int_equal(reserved(&v2, GUEST_REG_STATUS_CLEAR), ~0xc00000070000000fULL);
	assert_int_equal(reserved(&v3, GUEST_REG_STATUS_CLEAR), ~0xe00000070000000fULL);
	assert_int_equal(reserved(&v4, GUEST_REG_STATUS_CLEAR), ~0xfc000007000000ffULL);
	assert_int_equal(reserved(&v4, GUEST_REG_STATUS_SET), ~0x7000000ffULL);
}

static void each_change_is_another_configuration(void **state)
{
	const struct guest_config config = {
		.set = GUEST_INTEL, .version = 2, .general = 4, .fixed = 3, .full_width = true,
	};
	struct guest_config other = config;
	struct guest_pmu pmu;

	vpmu_guest_reset(&pmu, &config);
	assert_true(vpmu_guest_has_config(&pmu, &config));
	other.version = 3;
	assert_false(vpmu_guest_has_config(&pmu, &other));
	other = config;
	other.general = 3;
	assert_false(vpmu_guest_has_config(&pmu, &other));
	other = config;
	other.fixed = 2;
	assert_false(vpmu_guest_has_config(&pmu, &other));
	other = config;
	other.full_width = false;
	assert_false(vpmu_guest_has_config(&pmu, &other));
	other = (struct guest_config){ .set = GUEST_NONE };
	assert_false(vpmu_guest_has_config(&pmu, &other));
}

static void tsx_has_bits_of_its_own(void **state)
{
	struct guest_config config = {
		.set = GUEST_INTEL, .version = 2, .general = 4, .fixed = 3, .tsx = true,
	};
	struct guest_reg select = { .kind = GUEST_REG_SELECT };
	struct guest_pmu pmu;

	vpmu_guest_reset(&pmu, &config);
	for (select.index = 0; select.index < 4; select.index++)
		assert_int_equal(pmu.ops->reserved(&pmu, select),
				 select.index == 2 ? 0xfffffffc00200000ULL : 0xfffffffe00200000ULL);
	assert_int_equal(pmu.ops->select_bits & 0x3004300c0ULL, 0x3004300c0ULL);
	/* a VM exit aborts a transaction: KVM completes nothing there, but outside of them */
	pmu.select[2] = 0x1004300c0ULL;
	assert_int_equal(vpmu_guest_class(&pmu, 2), VPMU_OTHER);
	pmu.select[2] = 0x2004300c0ULL;
	assert_int_equal(vpmu_guest_class(&pmu, 2), VPMU_INSTRUCTION);
	config.tsx = false;
	assert_false(vpmu_guest_has_config(&pmu, &config));
}

static void fixed_counters_have_selects(void **state)
{
	assert_int_equal(vpmu_guest_fixed_select(0, 0), 0);
	assert_int_equal(vpmu_guest_fixed_select(0x00b, 0), 0xc0 | EN | INT | OS | USR);
	assert_int_equal(vpmu_guest_fixed_select(0x00b, 1), 0);
	assert_int_equal(vpmu_guest_fixed_select(0x020, 1), 0x3c | EN | USR);
	assert_int_equal(vpmu_guest_fixed_select(0x100, 2), GUEST_EVENT_REF_CYCLES | EN | OS);
	/* an interrupt of a counter that is off */
	assert_int_equal(vpmu_guest_fixed_select(0x008, 0), 0xc0 | INT);
	assert_int_equal(vpmu_guest_fixed_select(0x3000, 3), 0);
}

static void counting_needs_enable_level_and_control(void **state)
{
	struct guest_pmu pmu = make(2, 4);

	vpmu_guest_set_select(&pmu, 5, vpmu_guest_fixed_select(0x020, 1));
	assert_false(vpmu_guest_counting(&pmu, 5));
	vpmu_guest_set_control(&pmu, pmu.control | 1ULL << 33);
	assert_true(vpmu_guest_counting(&pmu, 5));
	vpmu_guest_set_control(&pmu, 1 << 5 | 1ULL << 32 | 1ULL << 34);
	assert_false(vpmu_guest_counting(&pmu, 5));
	vpmu_guest_set_control(&pmu, 1ULL << 33);
	assert_true(vpmu_guest_counting(&pmu, 5));
	assert_int_equal(vpmu_guest_filter(&pmu, 5), VPMU_IN_USER);
	vpmu_guest_set_select(&pmu, 5, vpmu_guest_fixed_select(0x080, 1));
	assert_false(vpmu_guest_counting(&pmu, 5));
	assert_true(vpmu_guest_interrupts(&pmu, 5));
}

static void in_use_tells_what_is_programmed(void **state)
{
	struct guest_pmu pmu = make(4, 8);

	assert_int_equal(vpmu_guest_in_use(&pmu), 0);
	pmu.select[7] = 0xc0;
	assert_int_equal(vpmu_guest_in_use(&pmu), 0x80);
	pmu.select[8] = vpmu_guest_fixed_select(0x00b, 0);
	assert_int_equal(vpmu_guest_in_use(&pmu), 0x8000000100000080ULL);
}

static void classes(void **state)
{
	struct guest_pmu pmu = make(2, 4);

	pmu.select[0] = 0xc0 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_INSTRUCTION);
	assert_false(vpmu_guest_speculative(&pmu, 0));
	pmu.select[0] = 0x1c0 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_INSTRUCTION);
	pmu.select[0] = 0xc4 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_BRANCH);
	/* conditional ones: KVM completes none of them */
	pmu.select[0] = 0x1c4 | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
	assert_false(vpmu_guest_speculative(&pmu, 0));
	pmu.select[0] = 0x3c | EN | USR;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
	assert_true(vpmu_guest_speculative(&pmu, 0));
	/* cycles without, or with many, retired instructions */
	pmu.select[0] = 0xc0 | EN | USR | BIT_ULL(23);
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
	assert_true(vpmu_guest_speculative(&pmu, 0));
	pmu.select[0] = 0xc0 | EN | USR | 2 << 24;
	assert_int_equal(vpmu_guest_class(&pmu, 0), VPMU_OTHER);
	pmu.select[4] = vpmu_guest_fixed_select(0x003, 0);
	assert_int_equal(vpmu_guest_class(&pmu, 4), VPMU_INSTRUCTION);
	pmu.select[6] = vpmu_guest_fixed_select(0x300, 2);
	assert_int_equal(vpmu_guest_class(&pmu, 6), VPMU_OTHER);
	assert_true(vpmu_guest_speculative(&pmu, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_2_has_these_registers),
		cmocka_unit_test(version_1_has_general_counters_only),
		cmocka_unit_test(version_4_has_more),
		cmocka_unit_test(full_width_writes_are_an_offer),
		cmocka_unit_test(general_counters_are_on_at_reset),
		cmocka_unit_test(bits_of_counters),
		cmocka_unit_test(rdpmc_numbers_fixed_counters_apart),
		cmocka_unit_test(reserved_bits),
		cmocka_unit_test(each_change_is_another_configuration),
		cmocka_unit_test(tsx_has_bits_of_its_own),
		cmocka_unit_test(fixed_counters_have_selects),
		cmocka_unit_test(counting_needs_enable_level_and_control),
		cmocka_unit_test(in_use_tells_what_is_programmed),
		cmocka_unit_test(classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
