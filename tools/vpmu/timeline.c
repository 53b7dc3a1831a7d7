// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"

/**
 * struct track - a vCPU while the records are read
 * @vm: number of its VM
 * @vcpu: KVM's identity of the vCPU
 * @cpu: see struct interval
 * @state: what it does since @since, as far as known yet: less the time that was stolen at the end
 * @since: TSC
 */
struct track {
	uint64_t vm;
	int32_t vcpu;
	uint32_t cpu;
	enum vcpu_state state;
	uint64_t since;
};

struct run {
	const struct recording *rec;
	void (*call)(const struct interval *interval, void *arg);
	void *arg;
	struct track *track;
	size_t tracks;
};

static uint64_t clip(const struct recording *rec, uint64_t tsc)
{
	if (tsc < rec->begin.tsc)
		return rec->begin.tsc;
	return tsc > rec->end.tsc ? rec->end.tsc : tsc;
}

/* Call for that part of @t's time in @state up to @to that is in the recording. */
static void emit(struct run *run, struct track *t, enum vcpu_state state, uint64_t to,
		 uint64_t kvm_ticks)
{
	struct interval i = {
		.vm = t->vm, .vcpu = t->vcpu, .cpu = t->cpu, .state = state,
		.from = clip(run->rec, t->since), .to = clip(run->rec, to),
	};
	uint64_t whole = to - t->since, part = i.to - i.from;

	if (to <= t->since)
		return;
	if (kvm_ticks > whole)
		kvm_ticks = whole;
	/* Where in an interval KVM worked isn't known. */
	i.kvm_ticks = part == whole ? kvm_ticks : (double)kvm_ticks * part / whole;
	t->since = to;
	if (part)
		run->call(&i, run->arg);
}

static struct track *find_track(struct run *run, const struct kvm_vpmu_record *r)
{
	size_t low = 0, high = run->tracks;
	struct track *t;

	while (low < high) {
		size_t middle = (low + high) / 2;

		t = &run->track[middle];
		if (t->vm == r->vm && t->vcpu == r->vcpu)
			return t;
		if (t->vm < r->vm || (t->vm == r->vm && t->vcpu < r->vcpu))
			low = middle + 1;
		else
			high = middle;
	}
	run->track = xrealloc(run->track, (run->tracks + 1) * sizeof(*t));
	t = &run->track[low];
	memmove(t + 1, t, (run->tracks - low) * sizeof(*t));
	run->tracks++;
	*t = (struct track){
		.vm = r->vm, .vcpu = r->vcpu, .state = VCPU_UNKNOWN,
	};
	return t;
}

/*
 * @t wasn't loaded up to here.  @r->value ns of that were stolen, those at the end: its thread was
 * runnable.  Of a vCPU that was preempted, all is.
 */
static void emit_absence(struct run *run, struct track *t, const struct kvm_vpmu_record *r)
{
	uint64_t stolen = recording_ticks(run->rec, r->value);

	if (t->state != VCPU_STOLEN && stolen < r->tsc - t->since)
		emit(run, t, t->state, r->tsc - stolen, 0);
	emit(run, t, VCPU_STOLEN, r->tsc, 0);
}

static void on_load(struct run *run, struct track *t, const struct kvm_vpmu_record *r)
{
	/* Of a vCPU that is loaded, the PUT was lost. */
	if (t->state == VCPU_LOADED)
		emit(run, t, VCPU_UNKNOWN, r->tsc, 0);
	else
		emit_absence(run, t, r);
	t->state = VCPU_LOADED;
}

static enum vcpu_state state_behind(unsigned int put)
{
	switch (put) {
	case KVM_VPMU_PUT_USER:
		return VCPU_VMM;
	case KVM_VPMU_PUT_PREEMPTED:
		return VCPU_STOLEN;
	case KVM_VPMU_PUT_HALTED:
		return VCPU_HALTED;
	case KVM_VPMU_PUT_BLOCKED:
		return VCPU_WAITING;
	default:
		/* The LOAD is next. */
		return VCPU_UNKNOWN;
	}
}

/* A vCPU that wasn't loaded.  Its last switch says why, if there was one. */
static void on_away(struct run *run, struct track *t, const struct recorded *at)
{
	/* Of a vCPU that was loaded in this moment, the LOAD is right. */
	if (t->state == VCPU_LOADED)
		return;
	t->cpu = at->cpu;
	emit_absence(run, t, &at->r);
	if (t->state == VCPU_UNKNOWN)
		t->state = state_behind(at->r.mode);
}

static void on_put(struct run *run, struct track *t, const struct kvm_vpmu_record *r)
{
	bool known = t->state == VCPU_LOADED;

	emit(run, t, known ? VCPU_LOADED : VCPU_UNKNOWN, r->tsc, known ? r->value : 0);
	t->state = state_behind(r->mode);
}

void timeline_run(const struct recording *rec,
		  void (*call)(const struct interval *interval, void *arg), void *arg)
{
	struct run run = { .rec = rec, .call = call, .arg = arg };
	size_t i;

	for (i = 0; i < rec->count; i++) {
		const struct recorded *at = &rec->record[i];
		struct track *t;

		if (at->r.type == KVM_VPMU_RECORD_SAMPLE)
			continue;
		t = find_track(&run, &at->r);
		if (at->r.type == KVM_VPMU_RECORD_AWAY) {
			on_away(&run, t, at);
		} else if (at->r.type == KVM_VPMU_RECORD_LOAD) {
			on_load(&run, t, &at->r);
			t->cpu = at->cpu;
		} else {
			t->cpu = at->cpu;
			on_put(&run, t, &at->r);
		}
	}
	/* In KVM or not isn't known of a vCPU that is loaded at the end. */
	for (i = 0; i < run.tracks; i++) {
		struct track *t = &run.track[i];

		emit(&run, t, t->state == VCPU_LOADED ? VCPU_UNKNOWN : t->state, rec->end.tsc, 0);
	}
	free(run.track);
}

/* ---- the sum */

struct sum {
	struct vcpu_times *times;
	size_t count;
};

static struct vcpu_times *find_times(struct sum *sum, const struct interval *interval)
{
	size_t i;

	/* The last one, mostly */
	for (i = sum->count; i--;)
		if (sum->times[i].vm == interval->vm && sum->times[i].vcpu == interval->vcpu)
			return &sum->times[i];
	sum->times = xrealloc(sum->times, (sum->count + 1) * sizeof(*sum->times));
	sum->times[sum->count] = (struct vcpu_times){
		.vm = interval->vm, .vcpu = interval->vcpu,
	};
	return &sum->times[sum->count++];
}

static void add(const struct interval *interval, void *arg)
{
	struct vcpu_times *times = find_times(arg, interval);

	times->in[interval->state] += interval->to - interval->from;
	times->kvm += interval->kvm_ticks;
	times->stolen += interval->state == VCPU_STOLEN;
}

static int compare(const void *a, const void *b)
{
	const struct vcpu_times *left = a, *right = b;

	if (left->vm != right->vm)
		return left->vm < right->vm ? -1 : 1;
	return (left->vcpu > right->vcpu) - (left->vcpu < right->vcpu);
}

size_t timeline_sum(const struct recording *rec, struct vcpu_times **times)
{
	struct sum sum = { };

	timeline_run(rec, add, &sum);
	if (sum.count)
		qsort(sum.times, sum.count, sizeof(*sum.times), compare);
	*times = sum.times;
	return sum.count;
}

const char *timeline_state_name(enum vcpu_state state)
{
	static const char *const names[VCPU_STATES] = {
		"unknown", "loaded", "halted", "stolen", "waiting", "vmm",
	};

	return names[state];
}
