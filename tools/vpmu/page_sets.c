// SPDX-License-Identifier: GPL-2.0-or-later
#include "page_sets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

void page_sets_clear(struct page_sets *sets, size_t words)
{
	size_t i;
	int use;

	sets->words = words;
	for (i = 0; i < sets->count; i++) {
		struct vcpu_pages *v = &sets->vcpu[i];

		v->windows = v->whole = v->flags = 0;
		v->mapped = v->fresh = v->gone = 0;
		memset(v->count, 0, sizeof(v->count));
		for (use = 0; use < PAGE_USES; use++)
			v->set[use] = xrealloc(v->set[use], words * sizeof(*v->set[use]));
	}
}

static void add_set(uint64_t *set, const uint64_t *window, size_t words, bool first)
{
	size_t i;

	if (first)
		memcpy(set, window, words * sizeof(*set));
	for (i = 0; i < words; i++)
		set[i] &= window[i];
}

static void add_window(struct vcpu_pages *v, const struct probe *probe, size_t nth, size_t words)
{
	const struct kvm_vpmu_probed *out = probe_of(probe, nth);
	int i;

	if (out->state == KVM_VPMU_PROBED_NOT)
		return;
	add_set(v->set[PAGES_ACCESSED], probe_accessed(probe, nth), words, !v->windows);
	add_set(v->set[PAGES_WRITTEN], probe_written(probe, nth), words, !v->windows);
	v->windows++;
	v->whole += out->state == KVM_VPMU_PROBED_WHOLE;
	v->flags |= out->flags;
	v->mapped = out->mapped;
	v->fresh += out->fresh;
	v->gone += out->gone;
	for (i = 0; i < PAGE_EVENTS; i++)
		v->count[i] += out->count[i];
}

void page_sets_add(struct page_sets *sets, size_t first, const struct probe *probe)
{
	size_t i;

	for (i = 0; i < probe->vcpus; i++)
		add_window(&sets->vcpu[first + i], probe, i, sets->words);
}

void page_sets_free(struct page_sets *sets)
{
	size_t i;
	int use;

	for (i = 0; i < sets->count; i++)
		for (use = 0; use < PAGE_USES; use++)
			free(sets->vcpu[i].set[use]);
	free(sets->vcpu);
}

/* Pages that both vCPUs have */
static uint64_t common(const struct page_sets *sets, size_t a, size_t b, enum page_use use)
{
	uint64_t pages = 0;
	size_t i;

	for (i = 0; i < sets->words; i++)
		pages += __builtin_popcountll(sets->vcpu[a].set[use][i] &
					      sets->vcpu[b].set[use][i]);
	return pages;
}

uint64_t page_set_size(const struct page_sets *sets, size_t v, enum page_use use)
{
	return sets->vcpu[v].windows ? common(sets, v, v, use) : 0;
}

/* @pages are those of all vCPUs that have had a window, @vcpus. */
static struct page_metric average(const struct page_sets *sets, double pages, double vcpus)
{
	struct page_metric metric = { .pages = pages / vcpus };
	int event;
	size_t i;

	for (event = 0; event < PAGE_EVENTS; event++) {
		double events = 0;

		for (i = 0; i < sets->count; i++)
			if (sets->vcpu[i].windows)
				events += (double)sets->vcpu[i].count[event] /
					  sets->vcpu[i].windows;
		metric.per[event] = events ? pages / events : NAN;
	}
	return metric;
}

static size_t with_windows(const struct page_sets *sets)
{
	size_t i, vcpus = 0;

	for (i = 0; i < sets->count; i++)
		vcpus += sets->vcpu[i].windows != 0;
	return vcpus;
}

struct page_metric page_metric_r(const struct page_sets *sets, enum page_use use)
{
	uint64_t pages = 0;
	size_t i;

	for (i = 0; i < sets->count; i++)
		pages += page_set_size(sets, i, use);
	return average(sets, pages, with_windows(sets));
}

struct page_metric page_metric_s(const struct page_sets *sets, enum page_use use)
{
	size_t i, j, vcpus = with_windows(sets);
	uint64_t pages = 0;

	for (i = 0; i < sets->count; i++)
		for (j = 0; j < i; j++)
			if (sets->vcpu[i].windows && sets->vcpu[j].windows)
				pages += common(sets, i, j, use);
	/* A page of a pair is one of each of the two. */
	return average(sets, 2.0 * pages / (vcpus - 1), vcpus);
}
