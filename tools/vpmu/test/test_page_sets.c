// SPDX-License-Identifier: GPL-2.0-or-later
/* The metrics of page sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "page_sets.h"
#include "util.h"

#define WORDS	(KVM_VPMU_PROBE_PAGES / 64)

/* What a vCPU's window has: pages from @from on, of which some are written, and what it counted */
struct window {
	uint32_t state;
	unsigned int from, accessed, written;
	uint64_t memory, stores;
	uint32_t flags;
};

static void set_bits(uint64_t *set, unsigned int from, unsigned int pages)
{
	memset(set, 0, WORDS * sizeof(*set));
	while (pages--) {
		set[from / 64] |= 1ull << from % 64;
		from++;
	}
}

/* A window of vCPUs from @first on, as the device has it */
static void add(struct page_sets *sets, size_t first, const struct window *window, size_t vcpus)
{
	struct probe probe = {
		.vcpus = vcpus, .words = WORDS, .part = getpagesize() + 2 * WORDS * sizeof(uint64_t),
	};
	char *map = xrealloc(NULL, vcpus * probe.part);
	size_t i;

	memset(map, 0, vcpus * probe.part);
	probe.map = map;
	for (i = 0; i < vcpus; i++) {
		const struct window *w = &window[i];

		*(struct kvm_vpmu_probed *)probe_of(&probe, i) = (struct kvm_vpmu_probed){
			.state = w->state, .flags = w->flags, .count = { w->memory, w->stores },
			.mapped = w->accessed + 1, .fresh = 2, .gone = 1,
		};
		set_bits((uint64_t *)probe_accessed(&probe, i), w->from, w->accessed);
		set_bits((uint64_t *)probe_written(&probe, i), w->from, w->written);
	}
	page_sets_add(sets, first, &probe);
	free(map);
}

static struct page_sets sets_of(size_t vcpus)
{
	struct page_sets sets = { .count = vcpus };

	sets.vcpu = xrealloc(NULL, vcpus * sizeof(*sets.vcpu));
	memset(sets.vcpu, 0, vcpus * sizeof(*sets.vcpu));
	page_sets_clear(&sets, WORDS);
	return sets;
}

#define WHOLE	KVM_VPMU_PROBED_WHOLE
#define SHORT	KVM_VPMU_PROBED_SHORT
#define NOT	KVM_VPMU_PROBED_NOT

static void metrics_of_three(void **state)
{
	/* In words of their own, across words, and beside each other */
	const struct window window[] = {
		{ WHOLE, 0, 100, 50, 1000, 400, 0 },
		{ WHOLE, 90, 100, 20, 1000, 100, 0 },
		{ WHOLE, 60, 40, 40, 2000, 500, 0 },
	};
	struct page_sets sets = sets_of(3);
	struct page_metric m;

	add(&sets, 0, window, 3);
	assert_int_equal(page_set_size(&sets, 0, PAGES_ACCESSED), 100);
	assert_int_equal(page_set_size(&sets, 1, PAGES_WRITTEN), 20);
	m = page_metric_r(&sets, PAGES_ACCESSED);
	assert_float_equal(m.pages, 80, 0);
	assert_float_equal(m.per[PAGE_MEMORY], 240.0 / 4000, 0);
	assert_float_equal(m.per[PAGE_STORES], 240.0 / 1000, 0);
	m = page_metric_r(&sets, PAGES_WRITTEN);
	assert_float_equal(m.pages, 110.0 / 3, 1e-12);
	/* Pairs have 10, 40 and 10 in common. */
	m = page_metric_s(&sets, PAGES_ACCESSED);
	assert_float_equal(m.pages, 2 * 60.0 / 2 / 3, 0);
	assert_float_equal(m.per[PAGE_MEMORY], 60.0 / 4000, 0);
	/* 0 to 49, 90 to 109, 60 to 99 */
	m = page_metric_s(&sets, PAGES_WRITTEN);
	assert_float_equal(m.pages, 10.0 / 3, 1e-12);
	assert_float_equal(m.per[PAGE_STORES], 10.0 / 1000, 0);
	page_sets_free(&sets);
}

static void all_shared(void **state)
{
	const struct window window[] = {
		{ WHOLE, 7, 100, 10, 100, 1, 0 }, { WHOLE, 7, 100, 10, 100, 1, 0 },
		{ WHOLE, 7, 100, 10, 100, 1, 0 }, { WHOLE, 7, 100, 10, 100, 1, 0 },
	};
	struct page_sets sets = sets_of(4);

	add(&sets, 0, window, 4);
	assert_float_equal(page_metric_s(&sets, PAGES_ACCESSED).pages, 100, 0);
	assert_float_equal(page_metric_r(&sets, PAGES_ACCESSED).pages, 100, 0);
	assert_float_equal(page_metric_s(&sets, PAGES_WRITTEN).per[PAGE_STORES],
			   page_metric_r(&sets, PAGES_WRITTEN).per[PAGE_STORES], 0);
	page_sets_free(&sets);
}

static void only_pages_of_each_window(void **state)
{
	const struct window first[] = { { WHOLE, 0, 100, 50, 1000, 10, 0 }, { NOT, 0, 0, 0, 0, 0, 0 } },
			    second[] = { { SHORT, 40, 100, 70, 500, 20, KVM_VPMU_PROBED_REPLACED },
					 { WHOLE, 0, 200, 200, 900, 9, 0 } };
	struct page_sets sets = sets_of(2);

	add(&sets, 0, first, 2);
	add(&sets, 0, second, 2);
	assert_int_equal(sets.vcpu[0].windows, 2);
	assert_int_equal(sets.vcpu[0].whole, 1);
	assert_int_equal(sets.vcpu[0].flags, KVM_VPMU_PROBED_REPLACED);
	assert_int_equal(sets.vcpu[0].count[PAGE_MEMORY], 1500);
	assert_int_equal(sets.vcpu[0].count[PAGE_STORES], 30);
	assert_int_equal(sets.vcpu[0].mapped, 101);
	assert_int_equal(sets.vcpu[0].fresh, 4);
	assert_int_equal(sets.vcpu[0].gone, 2);
	assert_int_equal(page_set_size(&sets, 0, PAGES_ACCESSED), 60);
	assert_int_equal(page_set_size(&sets, 0, PAGES_WRITTEN), 10);
	/* The other one's only window is no less than two. */
	assert_int_equal(sets.vcpu[1].windows, 1);
	assert_int_equal(page_set_size(&sets, 1, PAGES_ACCESSED), 200);
	assert_float_equal(page_metric_r(&sets, PAGES_ACCESSED).per[PAGE_MEMORY],
			   260.0 / (1500 / 2.0 + 900), 1e-12);
	page_sets_clear(&sets, WORDS);
	assert_int_equal(sets.vcpu[0].windows, 0);
	assert_int_equal(page_set_size(&sets, 1, PAGES_ACCESSED), 0);
	page_sets_free(&sets);
}

static void who_did_not_run_counts_nowhere(void **state)
{
	const struct window window[] = {
		{ WHOLE, 0, 100, 0, 1000, 0, 0 }, { NOT, 0, 0, 0, 0, 0, 0 }, { WHOLE, 50, 100, 0, 1000, 0, 0 },
	};
	struct page_sets sets = sets_of(3);
	struct page_metric m;

	/* In two groups */
	add(&sets, 0, window, 1);
	add(&sets, 1, window + 1, 2);
	assert_float_equal(page_metric_r(&sets, PAGES_ACCESSED).pages, 100, 0);
	assert_float_equal(page_metric_s(&sets, PAGES_ACCESSED).pages, 50, 0);
	m = page_metric_r(&sets, PAGES_WRITTEN);
	assert_float_equal(m.pages, 0, 0);
	assert_float_equal(m.per[PAGE_MEMORY], 0, 0);
	/* Stores weren't counted. */
	assert_true(isnan(m.per[PAGE_STORES]));
	page_sets_free(&sets);
}

static void nobody_to_share_with(void **state)
{
	const struct window window[] = { { WHOLE, 0, 100, 10, 1000, 10, 0 } };
	struct page_sets sets = sets_of(1);

	assert_true(isnan(page_metric_r(&sets, PAGES_ACCESSED).pages));
	add(&sets, 0, window, 1);
	assert_float_equal(page_metric_r(&sets, PAGES_ACCESSED).pages, 100, 0);
	assert_true(isnan(page_metric_s(&sets, PAGES_ACCESSED).pages));
	assert_true(isnan(page_metric_s(&sets, PAGES_WRITTEN).per[PAGE_MEMORY]));
	page_sets_free(&sets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_of_three),
		cmocka_unit_test(all_shared),
		cmocka_unit_test(only_pages_of_each_window),
		cmocka_unit_test(who_did_not_run_counts_nowhere),
		cmocka_unit_test(nobody_to_share_with),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
