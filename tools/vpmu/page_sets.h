/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages the vCPUs of a VM work with, and share: the metrics of Bae, Xia, Dinda and Lange,
 * "Dynamic Adaptive Virtual Core Mapping" (HPDC 2012).
 */
#ifndef PAGE_SETS_H
#define PAGE_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe.h"

/* What a set is of */
enum page_use { PAGES_ACCESSED, PAGES_WRITTEN, PAGE_USES };

/* What is counted beside it; 0 if the host's CPU has no event for it */
enum page_event { PAGE_MEMORY, PAGE_STORES, PAGE_EVENTS };

/**
 * struct vcpu_pages - a vCPU's pages
 * @id: KVM's identity
 * @tid: its thread
 * @windows: how many it has had
 * @whole: how many of these ended by the event, not by the timeout
 * @flags: KVM_VPMU_PROBED_... of any of these
 * @count: events in all of these
 * @mapped: page frames that could be in a set, in the last one
 * @fresh: pages that the vCPU accessed the first time, in all of these
 * @gone: pages that the host took away, in all of these
 * @set: the pages that it used in each window
 */
struct vcpu_pages {
	uint32_t id;
	int32_t tid;
	unsigned int windows, whole;
	uint32_t flags;
	uint64_t count[PAGE_EVENTS];
	uint64_t mapped, fresh, gone;
	uint64_t *set[PAGE_USES];
};

/**
 * struct page_sets - of all vCPUs of a VM
 * @vcpu: these, by their identity
 * @count: how many
 * @words: of each set
 */
struct page_sets {
	struct vcpu_pages *vcpu;
	size_t count;
	size_t words;
};

/* Begin: no vCPU has had a window. */
void page_sets_clear(struct page_sets *sets, size_t words);

/* Add the last windows of @probe, whose vCPUs are those from @first on. */
void page_sets_add(struct page_sets *sets, size_t first, const struct probe *probe);

void page_sets_free(struct page_sets *sets);

/* How many pages vCPU @v has in its set */
uint64_t page_set_size(const struct page_sets *sets, size_t v, enum page_use use);

/**
 * struct page_metric - pages of a vCPU that has had a window, on average
 * @pages: how many
 * @per: how many per event of the vCPU's windows; NaN if there was none
 */
struct page_metric {
	double pages;
	double per[PAGE_EVENTS];
};

/*
 * The paper's "r": the pages that a vCPU uses.  And its "s": those of them that another vCPU uses,
 * too, as an average over the others; NaN if there is no other.
 */
struct page_metric page_metric_r(const struct page_sets *sets, enum page_use use);
struct page_metric page_metric_s(const struct page_sets *sets, enum page_use use);

#endif
