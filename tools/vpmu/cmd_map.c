// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu map: where the vCPUs of a VM should run, found by trying.
 *
 * The VM runs for a moment in each mapping, several times.  What is compared is the guest's own
 * progress and the host's power, so that no model of the machine is needed.  With --fit, such trials
 * teach models, and these decide where they are sure.
 */
#include "cmd.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "domains.h"
#include "learn.h"
#include "meter.h"
#include "output.h"
#include "trial.h"
#include "util.h"

/* vCPUs that are runnable for less than that share of a CPU tell nothing. */
#define IDLE		0.05
/* Speed, or load, that is so much more or less than it was is another phase of the guest's work. */
#define PHASE		0.25
/* How much longer the wait gets behind each trial that changes nothing, and at most, in intervals */
#define BACK_OFF	4
#define MAX_WAIT	64
/* A trial, for what is measured, and for what /proc/stat tells in ticks of 10 ms */
#define TRIAL		(NS_PER_S / 50)
#define TRIAL_TICKS	(NS_PER_S / 10)
/* At most so many changes of the mapping in so many seconds */
#define MAX_CHANGES	8
#define CHANGES_TIME	600

/**
 * struct map_options - vpmu map
 * @vm: which VM, as vm_find() takes it
 * @objective: what is better
 * @dry_run: change nothing
 * @once: decide once, and leave it so
 * @interval: ns between two looks
 * @trial: ns that the VM runs in a mapping, in a round; 0: as what is measured wants
 * @rounds: how many at most
 * @fit: the file of what was learnt; NULL: nothing is learnt
 * @fills: events of where loads are from; NULL: those of this CPU
 */
struct map_options {
	struct context *ctx;
	const char *vm;
	enum objective objective;
	bool dry_run, once;
	uint64_t interval, trial, rounds;
	const char *fit;
	char *fills;
};

/**
 * struct mapped_vcpu - a vCPU
 * @id: KVM's identity
 * @tid: its thread
 * @cpus: where it may run, as was set last
 */
struct mapped_vcpu {
	uint32_t id;
	int32_t tid;
	cpu_set_t cpus;
};

/**
 * struct mapper - a VM and its mapping
 * @options: what to do
 * @dev: the device
 * @vm: the VM
 * @vcpu: its vCPUs, by their identity
 * @vcpus: how many
 * @allowed: the CPUs that the VMM may use
 * @domains: of these CPUs
 * @meter: of @vcpu
 * @metered: @meter is open
 * @learner: of options->fit
 * @mapping: the present one
 * @speed: instructions of a vCPU per ns that it was runnable, when that was decided; NaN: not known
 * @load: vCPUs that were runnable then, on average
 * @changed: when it was changed, the last times, as a ring; ns
 * @changes: how often it was changed
 */
struct mapper {
	const struct map_options *options;
	struct device *dev;
	struct vm vm;
	struct mapped_vcpu *vcpu;
	size_t vcpus;
	cpu_set_t allowed;
	struct domains domains;
	struct meter meter;
	bool metered;
	struct learner learner;
	enum mapping mapping;
	double speed, load;
	uint64_t changed[MAX_CHANGES];
	size_t changes;
};

/**
 * struct decision - what print() tells
 * @was: the mapping before it
 * @reason: why it is what it is now
 * @by_model: there was no trial
 * @advice: what the models said, with or without one
 * @measured: what that should have been; NaN: there was no trial
 */
struct decision {
	enum mapping was;
	const char *reason;
	bool by_model;
	struct advice advice;
	double measured;
};

/* ---- signals, which end the program, but not within a change */

static void block_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	sigprocmask(SIG_BLOCK, set, NULL);
}

/* False: a signal came, this time or before */
static bool pause_for(uint64_t ns)
{
	const struct timespec time = { ns / NS_PER_S, ns % NS_PER_S };
	static bool ended;
	sigset_t set;

	block_signals(&set);
	ended |= sigtimedwait(&set, NULL, &time) >= 0;
	return !ended;
}

/* ---- vCPUs */

static int by_id(const void *a, const void *b)
{
	const struct mapped_vcpu *left = a, *right = b;

	return left->id < right->id ? -1 : left->id > right->id;
}

static enum status ended(const struct mapper *map)
{
	warnx("%s has ended", map->vm.name);
	return STATUS_NO_VM;
}

/* Those that have run */
static enum status list_vcpus(const struct mapper *map, struct mapped_vcpu **vcpu, size_t *vcpus)
{
	struct kvm_vpmu_vcpu v;
	__u32 index = 0;
	int r;

	*vcpu = NULL;
	*vcpus = 0;
	for (; !(r = device_vcpu(map->dev, map->vm.info.id, index, &v)); index++) {
		if (!v.tid)
			continue;
		*vcpu = xgrow(*vcpu, *vcpus, sizeof(**vcpu));
		(*vcpu)[(*vcpus)++] = (struct mapped_vcpu){ .id = v.vcpu_id, .tid = v.tid };
	}
	if (*vcpus)
		qsort(*vcpu, *vcpus, sizeof(**vcpu), by_id);
	if (r == -ENOENT)
		return index ? STATUS_OK : ended(map);
	device_complain(r);
	return STATUS_ERROR;
}

/* Is each vCPU where it was put?  Who pins vCPUs himself knows better. */
static enum status check_vcpus(const struct mapper *map)
{
	size_t i;

	for (i = 0; i < map->vcpus; i++) {
		const struct mapped_vcpu *v = &map->vcpu[i];
		cpu_set_t cpus;

		if (sched_getaffinity(v->tid, sizeof(cpus), &cpus)) {
			if (errno == ESRCH)
				return ended(map);
			warn("%s: vCPU %" PRIu32, map->vm.name, v->id);
			return STATUS_ERROR;
		}
		if (!CPU_EQUAL(&cpus, &v->cpus)) {
			warnx("%s: vCPU %" PRIu32 " is pinned by somebody else, and is left alone (--for none gives it back to the scheduler)",
			      map->vm.name, v->id);
			return STATUS_ERROR;
		}
	}
	return STATUS_OK;
}

static enum status put_vcpus(struct mapper *map, enum mapping mapping)
{
	cpu_set_t *cpus = xrealloc(NULL, (map->vcpus + 1) * sizeof(*cpus));
	enum status status = STATUS_OK;
	size_t i;

	if (mapping != MAPPING_NONE)
		domains_place(&map->domains, mapping, map->vcpus, cpus);
	for (i = 0; i < map->vcpus && !status; i++) {
		if (mapping == MAPPING_NONE)
			cpus[i] = map->allowed;
		if (!sched_setaffinity(map->vcpu[i].tid, sizeof(*cpus), &cpus[i])) {
			map->vcpu[i].cpus = cpus[i];
		} else if (errno == ESRCH) {
			status = ended(map);
		} else {
			warn("%s: vCPU %" PRIu32, map->vm.name, map->vcpu[i].id);
			status = STATUS_ERROR;
		}
	}
	free(cpus);
	return status;
}

/* ---- measuring */

static int *list_tids(const struct mapper *map)
{
	int *tid = xrealloc(NULL, (map->vcpus + 1) * sizeof(*tid));
	size_t i;

	for (i = 0; i < map->vcpus; i++)
		tid[i] = map->vcpu[i].tid;
	return tid;
}

static int open_meter(struct mapper *map)
{
	int *tid = list_tids(map), r;

	r = meter_open(&map->meter, map->options->ctx->proc, METER_POWER, METER_CPUS, tid,
		       map->vcpus);
	map->metered = !r;
	free(tid);
	return r;
}

static uint64_t trial_of(const struct mapper *map)
{
	const struct map_options *options = map->options;

	if (options->trial)
		return options->trial;
	return options->objective == FOR_PERFORMANCE || map->meter.zones ? TRIAL : TRIAL_TICKS;
}

/* What is between two looks; false: a signal came */
static bool measure(const struct mapper *map, uint64_t ns, struct progress *progress)
{
	struct reading before, now;
	bool go_on;

	meter_read(&map->meter, &before);
	go_on = pause_for(ns);
	meter_read(&map->meter, &now);
	if (go_on)
		progress_add(progress, &map->meter, &before, &now);
	reading_free(&before);
	reading_free(&now);
	return go_on;
}

/*
 * With --fit, also where loads are from.  That takes counters of the host's, which others have at
 * other times.
 */
static enum status measure_loads(const struct mapper *map, struct progress *progress, bool *go_on)
{
	struct fill_counter counter;
	struct fills fills;
	int *tid, r, i;

	if (!map->options->fit) {
		*go_on = measure(map, trial_of(map), progress);
		return STATUS_OK;
	}
	tid = list_tids(map);
	r = fills_open(&counter, &map->learner.events, tid, map->vcpus);
	free(tid);
	if (r == -ESRCH)
		return ended(map);
	if (r) {
		warnx("where loads are from: %s", strerror(-r));
		return STATUS_ERROR;
	}
	*go_on = measure(map, trial_of(map), progress);
	fills_read(&counter, &fills);
	fills_close(&counter);
	for (i = 0; i < FILL_SOURCES; i++)
		progress->loads[i] += fills.loads[i];
	return STATUS_OK;
}

static double speed_of(const struct progress *p)
{
	return p->runnable > 0 ? p->instructions / p->runnable / 1e9 : 0;
}

static double load_of(const struct progress *p)
{
	return p->seconds > 0 ? p->runnable / p->seconds : 0;
}

/* How busy the domains are while the VM is anywhere: local vCPUs themselves make theirs busy. */
static void note_busy(struct mapper *map, const struct progress *p)
{
	size_t i, cpu;

	if (map->mapping == MAPPING_LOCAL)
		return;
	for (i = 0; i < map->domains.count; i++) {
		struct domain *domain = &map->domains.domain[i];

		domain->busy = 0;
		for (cpu = 0; cpu < map->meter.cpus && cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &domain->cpus))
				domain->busy += p->busy[cpu] / p->seconds;
	}
}

/* ---- a trial */

/* The VM runs in @mapping; the caches have to fill first. */
static enum status try_mapping(struct mapper *map, enum mapping mapping, struct progress *p,
			       bool *go_on)
{
	enum status status = check_vcpus(map);

	if (!status)
		status = put_vcpus(map, mapping);
	if (status)
		return status;
	*go_on = pause_for(trial_of(map) / 4);
	return *go_on ? measure_loads(map, p, go_on) : STATUS_OK;
}

/* All mappings once, in this order or the other way round: what grows with time is fair to all. */
static enum status try_round(struct mapper *map, struct trial *trial, bool *go_on)
{
	struct progress p[MAPPINGS];
	enum status status = STATUS_OK;
	int i;

	for (i = 0; i < MAPPINGS; i++)
		progress_init(&p[i], &map->meter);
	for (i = 0; i < MAPPINGS && !status && *go_on; i++) {
		int m = trial->rounds % 2 ? MAPPINGS - 1 - i : i;
		uint64_t began = clock_ns(CLOCK_MONOTONIC);

		status = try_mapping(map, m, &p[m], go_on);
		trial->ns[m] += clock_ns(CLOCK_MONOTONIC) - began;
	}
	if (!status && *go_on)
		trial_add(trial, &map->meter, p);
	for (i = 0; i < MAPPINGS; i++)
		progress_free(&p[i]);
	return status;
}

static bool may_change(const struct mapper *map, uint64_t now)
{
	return map->changes < MAX_CHANGES ||
	       now - map->changed[map->changes % MAX_CHANGES] >= CHANGES_TIME * NS_PER_S;
}

/* ---- output */

static struct json_object *cpus_json(const struct mapper *map)
{
	struct json_object *vcpus = json_object_new_array();
	size_t i, cpu;

	for (i = 0; i < map->vcpus; i++) {
		struct json_object *o = json_object_new_object(), *cpus = json_object_new_array();

		json_object_object_add(o, "vcpu", json_object_new_int64(map->vcpu[i].id));
		json_object_object_add(o, "tid", json_object_new_int(map->vcpu[i].tid));
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &map->vcpu[i].cpus))
				json_object_array_add(cpus, json_object_new_int64(cpu));
		json_object_object_add(o, "cpus", cpus);
		json_object_array_add(vcpus, o);
	}
	return vcpus;
}

static struct json_object *trial_json(const struct trial *trial, enum mapping mapping)
{
	struct json_object *o = json_object_new_object(), *others = json_object_new_object();
	const struct progress *p = &trial->sum[mapping];
	int i;

	json_object_object_add(o, "seconds", json_number(p->seconds));
	json_object_object_add(o, "instructions", json_number(p->instructions));
	json_object_object_add(o, "runnable", json_number(p->runnable));
	json_object_object_add(o, "joules", json_number(p->joules));
	for (i = 0; i < MAPPINGS; i++)
		if (i != (int)mapping)
			json_object_object_add(others, mapping_name(i),
					       json_object_new_uint64(trial->beats[mapping][i]));
	json_object_object_add(o, "beats", others);
	return o;
}

/* What the models said, with or without a trial, and what that found */
static void add_fit_json(struct json_object *o, const struct decision *decision)
{
	const struct prediction *saves = &decision->advice.saves;

	json_object_object_add(o, "by", json_text(decision->by_model ? "model" : "trial"));
	json_object_object_add(o, "predicted", json_number(saves->value));
	json_object_object_add(o, "band", json_number(isinf(saves->band) ? NAN : saves->band));
	json_object_object_add(o, "measured", json_number(decision->measured));
}

/* One line each, for logs and for programs */
static void print_json(const struct mapper *map, const struct trial *trial,
		       const struct decision *decision)
{
	struct json_object *o = json_object_new_object();
	int i;

	json_object_object_add(o, "time", json_number(clock_ns(CLOCK_REALTIME) / 1e9));
	json_object_object_add(o, "id", json_object_new_uint64(map->vm.info.id));
	json_object_object_add(o, "name", json_text(map->vm.name));
	json_object_object_add(o, "objective", json_text(objective_name(map->options->objective)));
	json_object_object_add(o, "mapping", json_text(mapping_name(map->mapping)));
	json_object_object_add(o, "was", json_text(mapping_name(decision->was)));
	json_object_object_add(o, "reason", json_text(decision->reason));
	if (map->options->fit)
		add_fit_json(o, decision);
	json_object_object_add(o, "power", json_text(map->meter.zones ? "measured" : "model"));
	json_object_object_add(o, "rounds", json_object_new_uint64(trial->rounds));
	json_object_object_add(o, "lost", json_number(trial_lost(trial, map->mapping)));
	for (i = 0; i < MAPPINGS && trial->rounds; i++)
		json_object_object_add(o, mapping_name(i), trial_json(trial, i));
	json_object_object_add(o, "vcpu", cpus_json(map));
	json_print(stdout, o, false);
}

static void print(const struct mapper *map, const struct trial *trial,
		  const struct decision *decision)
{
	const enum objective objective = map->options->objective;
	int i;

	if (map->options->ctx->json) {
		print_json(map, trial, decision);
		fflush(stdout);
		return;
	}
	printf("%s: %s", map->vm.name, mapping_name(map->mapping));
	if (decision->was != map->mapping)
		printf(" instead of %s", mapping_name(decision->was));
	for (i = 0; i < MAPPINGS && trial->rounds; i++) {
		double gain = score(objective, &trial->sum[map->mapping]) /
			      score(objective, &trial->sum[i]) - 1;

		if (i != (int)map->mapping && !isnan(gain))
			printf(", %+.1f%% to %s", 100 * gain, mapping_name(i));
	}
	printf(" (%s%s): %s\n", objective_name(objective),
	       objective != FOR_PERFORMANCE && !map->meter.zones ? " by the model" : "",
	       decision->reason);
	fflush(stdout);
}

/* ---- decisions */

static enum status decide(struct mapper *map, enum mapping best, const struct trial *trial,
			  struct decision *decision)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	enum status status;

	decision->was = map->mapping;
	if (best != map->mapping && !may_change(map, now)) {
		decision->reason = "changed too often";
		best = map->mapping;
	}
	status = put_vcpus(map, best);
	if (status)
		return status;
	if (best != map->mapping)
		map->changed[map->changes++ % MAX_CHANGES] = now;
	map->mapping = best;
	print(map, trial, decision);
	return STATUS_OK;
}

/* What it does in its mapping, until the next decision */
static void note_phase(struct mapper *map, const struct progress *p)
{
	map->speed = speed_of(p);
	map->load = load_of(p);
}

static enum status decide_by_trial(struct mapper *map, const struct trial *trial,
				   struct decision *decision)
{
	enum mapping best = trial_winner(trial);
	enum status status;

	decision->reason = best == map->mapping ? "nothing is better in each round" :
						  "better in each round";
	status = decide(map, best, trial, decision);
	note_phase(map, &trial->sum[map->mapping]);
	return status;
}

/* @now: with --fit.  @go_on: false: a signal came, and vCPUs are wherever they were tried last. */
static enum status try_all(struct mapper *map, const struct situation *now,
			   struct decision *decision, bool *go_on)
{
	enum status status = STATUS_OK;
	struct trial trial;

	trial_init(&trial, &map->meter, map->options->objective, map->mapping);
	while (!status && *go_on && trial.rounds < map->options->rounds && trial_is_open(&trial))
		status = try_round(map, &trial, go_on);
	if (!status && *go_on && now)
		decision->measured = learner_learn(&map->learner, now, &trial);
	if (!status && *go_on)
		status = decide_by_trial(map, &trial, decision);
	trial_free(&trial);
	return status;
}

/* ---- decisions by what was learnt */

static enum status decide_by_model(struct mapper *map, const struct situation *now,
				   struct decision *decision)
{
	const struct prediction *saves = &decision->advice.saves;
	const struct trial none = { };
	enum status status = check_vcpus(map);
	char *reason;

	if (status)
		return status;
	/* That local takes -3% less means that interleaved takes 3% less. */
	reason = xasprintf("by the fit, %s takes %.1f%% \u00b1 %.1f%% less than %s",
			   mapping_name(saves->value > 0 ? MAPPING_LOCAL : MAPPING_INTERLEAVED),
			   100 * fabs(saves->value), 100 * saves->band,
			   mapping_name(saves->value > 0 ? MAPPING_INTERLEAVED : MAPPING_LOCAL));
	decision->reason = reason;
	decision->by_model = true;
	status = decide(map, decision->advice.mapping, &none, decision);
	free(reason);
	note_phase(map, &now->sum);
	/* In another mapping it has another speed, which the next look tells. */
	if (map->mapping != now->present)
		map->speed = NAN;
	if (!status)
		learner_note(&map->learner);
	return status;
}

static enum status measure_windows(const struct mapper *map, struct situation *now, bool *go_on)
{
	enum status status = STATUS_OK;
	int i;

	for (i = 0; i < LEARN_WINDOWS && !status && *go_on; i++) {
		status = measure_loads(map, &now->window[i], go_on);
		progress_sum(&now->sum, &map->meter, &now->window[i]);
	}
	return status;
}

static enum status ask_or_try(struct mapper *map, bool *go_on)
{
	struct decision decision = { .advice = NO_ADVICE, .measured = NAN };
	struct situation now = {
		.objective = map->options->objective, .powercap = map->meter.zones,
		.present = map->mapping, .vcpus = map->vcpus, .domains = &map->domains,
	};
	enum status status;
	int i;

	if (!map->options->fit)
		return try_all(map, NULL, &decision, go_on);
	progress_init(&now.sum, &map->meter);
	for (i = 0; i < LEARN_WINDOWS; i++)
		progress_init(&now.window[i], &map->meter);
	status = measure_windows(map, &now, go_on);
	if (!status && *go_on) {
		decision.advice = learner_ask(&map->learner, &now);
		if (decision.advice.mapping == MAPPINGS)
			status = try_all(map, &now, &decision, go_on);
		else
			status = decide_by_model(map, &now, &decision);
	}
	for (i = 0; i < LEARN_WINDOWS; i++)
		progress_free(&now.window[i]);
	progress_free(&now.sum);
	return status;
}

/* ---- looks */

static bool differs(double a, double b)
{
	return a > b * (1 + PHASE) || a < b * (1 - PHASE);
}

/* A look at the VM as it runs: is it worth a trial, or has it another phase? */
static bool look(struct mapper *map, bool *idle, bool *phase)
{
	struct progress p;
	bool go_on;

	progress_init(&p, &map->meter);
	go_on = measure(map, trial_of(map), &p);
	if (go_on) {
		note_busy(map, &p);
		if (isnan(map->speed))
			note_phase(map, &p);
		*idle = load_of(&p) < IDLE;
		*phase = differs(speed_of(&p), map->speed) || differs(load_of(&p), map->load);
	}
	progress_free(&p);
	return go_on;
}

static void report_idle(const struct mapper *map)
{
	const struct trial none = { };
	const struct decision decision = {
		.was = map->mapping, .reason = "the VM is idle",
		.advice = NO_ADVICE, .measured = NAN,
	};

	print(map, &none, &decision);
}

/* vCPUs come and go.  Those that stay are where they were put, new ones where the VMM may be. */
static enum status update_vcpus(struct mapper *map, bool *changed)
{
	struct mapped_vcpu *vcpu;
	size_t vcpus, i;
	enum status status = list_vcpus(map, &vcpu, &vcpus);
	int r;

	if (status) {
		free(vcpu);
		return status;
	}
	*changed = !map->metered || vcpus != map->vcpus;
	for (i = 0; i < vcpus; i++) {
		vcpu[i].cpus = map->allowed;
		if (i < map->vcpus && vcpu[i].tid == map->vcpu[i].tid)
			vcpu[i].cpus = map->vcpu[i].cpus;
		else
			*changed = true;
	}
	free(map->vcpu);
	map->vcpu = vcpu;
	map->vcpus = vcpus;
	if (!*changed)
		return STATUS_OK;
	if (map->metered)
		meter_close(&map->meter);
	r = open_meter(map);
	if (r) {
		/* Debian's perf_event_open() wants more than other kernels' there. */
		warnx("%s: instructions of its vCPUs: %s%s", map->vm.name, strerror(-r),
		      r == -EACCES ? " (kernel.perf_event_paranoid=3 needs CAP_SYS_ADMIN)" : "");
		return r == -ESRCH ? STATUS_NO_VM : STATUS_ERROR;
	}
	return STATUS_OK;
}

/*
 * Trials come later and later while they change nothing.  Another phase of the guest's work brings
 * the next one forward.
 */
static enum status follow(struct mapper *map)
{
	uint64_t wait = map->options->interval, since = 0;
	bool go_on = true, changed, idle, phase;
	enum status status;

	for (;;) {
		enum mapping was = map->mapping;

		status = update_vcpus(map, &changed);
		if (status || !look(map, &idle, &phase))
			return status;
		if (!idle && (!since || changed || since >= wait ||
			      (phase && since >= wait / 4))) {
			status = ask_or_try(map, &go_on);
			if (status || !go_on)
				return status;
			wait = map->mapping != was || !since ? map->options->interval : BACK_OFF * wait;
			if (wait > MAX_WAIT * map->options->interval)
				wait = MAX_WAIT * map->options->interval;
			since = 0;
		} else if (!since) {
			report_idle(map);
		}
		if (!pause_for(map->options->interval))
			return STATUS_OK;
		since += map->options->interval;
	}
}

static enum status once(struct mapper *map)
{
	bool go_on = true, changed, idle, phase;
	enum status status = update_vcpus(map, &changed);

	if (status || !look(map, &idle, &phase))
		return status;
	if (idle) {
		report_idle(map);
		return STATUS_OK;
	}
	status = ask_or_try(map, &go_on);
	if (!status && !go_on)
		status = put_vcpus(map, MAPPING_NONE);
	return status;
}

/* ---- what needs no trial */

static void print_places(const struct mapper *map)
{
	cpu_set_t *cpus = xrealloc(NULL, (map->vcpus + 1) * sizeof(*cpus));
	static const struct column columns[] = {
		{ "VCPU", RIGHT }, { "THREAD", RIGHT }, { "LOCAL", LEFT }, { "INTERLEAVED", LEFT }, { }
	};
	struct table table;
	size_t i;
	int m;

	table_init(&table, columns);
	for (i = 0; i < map->vcpus; i++) {
		table_add(&table, "%" PRIu32, map->vcpu[i].id);
		table_add(&table, "%" PRId32, map->vcpu[i].tid);
		for (m = MAPPING_LOCAL; m < MAPPINGS; m++) {
			char *text;

			domains_place(&map->domains, m, map->vcpus, cpus);
			text = domains_cpus(&cpus[i]);
			table_add(&table, "%s", text);
			free(text);
		}
	}
	table_print(&table, stdout, 0);
	table_free(&table);
	free(cpus);
}

static enum status dry_run(struct mapper *map)
{
	bool changed, idle, phase;
	enum status status = update_vcpus(map, &changed);

	if (!status && look(map, &idle, &phase))
		print_places(map);
	return status;
}

/* Whoever pinned them */
static enum status give_back(struct mapper *map)
{
	enum status status = list_vcpus(map, &map->vcpu, &map->vcpus);

	return status ? status : put_vcpus(map, MAPPING_NONE);
}

static enum status map_run(struct mapper *map)
{
	const struct map_options *options = map->options;
	enum status status;
	sigset_t set;

	/* Before anything is measured: the VM may end at any time. */
	if (sched_getaffinity(map->vm.info.pid, sizeof(map->allowed), &map->allowed)) {
		if (errno == ESRCH)
			return ended(map);
		warn("%s: its CPUs", map->vm.name);
		return STATUS_ERROR;
	}
	if (!domains_find(&map->domains, &map->allowed)) {
		warn("the topology of this host");
		return STATUS_ERROR;
	}
	if (options->objective == FOR_NONE)
		return give_back(map);
	if (map->domains.count < 2) {
		warnx("%s may use one last-level cache only: there is nothing to choose",
		      map->vm.name);
		return STATUS_OK;
	}
	block_signals(&set);
	if (options->dry_run)
		return dry_run(map);
	status = options->once ? once(map) : follow(map);
	/* A VM that is pinned by somebody else, or has ended, is left as it is. */
	if (!status && !options->once)
		status = check_vcpus(map);
	if (!status && !options->once)
		status = put_vcpus(map, MAPPING_NONE);
	return status;
}

/* ---- arguments */

/* Options without a letter */
enum { KEY_FIT = 0x100, KEY_FILLS };

static error_t parse_objective(struct argp_state *state, const char *arg,
			       struct map_options *options)
{
	int i;

	for (i = 0; i < OBJECTIVES; i++) {
		if (!strcmp(arg, objective_name(i))) {
			options->objective = i;
			return 0;
		}
	}
	argp_error(state, "for '%s': performance, power, energy or none", arg);
	return EINVAL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct map_options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = options->ctx;
		return 0;
	case 'f':
		return parse_objective(state, arg, options);
	case 'i':
		if (!parse_seconds(arg, &options->interval))
			argp_error(state, "interval '%s': seconds from 0.01 to 86400", arg);
		return 0;
	case 'n':
		options->dry_run = true;
		return 0;
	case 'o':
		options->once = true;
		return 0;
	case 'r':
		argp_count(state, arg, "rounds", 1000, &options->rounds);
		return 0;
	case 't':
		if (!parse_seconds(arg, &options->trial))
			argp_error(state, "trial '%s': seconds from 0.01 to 86400", arg);
		return 0;
	case KEY_FIT:
		options->fit = arg ? arg : LEARN_FILE;
		return 0;
	case KEY_FILLS:
		options->fills = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (options->vm)
			argp_error(state, "unexpected argument '%s'", arg);
		options->vm = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "missing VM");
		return EINVAL;
	case ARGP_KEY_END:
		if (options->fills && !options->fit)
			argp_error(state, "--fills needs --fit");
		if (options->fit && (options->dry_run || options->objective == FOR_NONE))
			argp_error(state, "--fit needs a decision, which --dry-run and --for none don't make");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct map_options options = {
		.ctx = ctx, .interval = 10 * NS_PER_S, .rounds = 3,
	};
	struct device dev;
	struct mapper map = { .options = &options, .dev = &dev };
	enum status status;

	argp_parse(map_command.argp, argc, argv, 0, NULL, &options);
	if (options.fit) {
		status = learner_open(&map.learner, options.fit, options.fills);
		if (status)
			return status;
	}
	if (device_open(&dev))
		return STATUS_ERROR;
	status = vm_lookup(&dev, ctx->proc, options.vm, &map.vm, stderr);
	if (!status)
		status = map_run(&map);
	if (map.metered)
		meter_close(&map.meter);
	learner_close(&map.learner);
	domains_free(&map.domains);
	free(map.vcpu);
	device_close(&dev);
	return status;
}

static const struct argp_option option_list[] = {
	{ "dry-run", 'n', NULL, 0, "Show where vCPUs would be, and change nothing", 0 },
	{ "fills", KEY_FILLS, "SOURCE=EVENT,...", 0,
	  "With --fit: count these for where loads are from, as vpmu pages does", 0 },
	{ "fit", KEY_FIT, "FILE", OPTION_ARG_OPTIONAL,
	  "Learn from trials, and decide without one where that is sure (" LEARN_FILE ")", 0 },
	{ "for", 'f', "OBJECTIVE", 0,
	  "What is better: performance (default), power, energy; or none, to undo it", 0 },
	{ "interval", 'i', "SECONDS", 0, "Between two looks at the VM (10)", 0 },
	{ "once", 'o', NULL, 0, "Decide once, and leave the vCPUs there", 0 },
	{ "rounds", 'r', "N", 0, "Try each mapping up to N times (3)", 0 },
	{ "trial", 't', "SECONDS", 0, "How long each time (0.02; 0.1 where power is a model)", 0 },
	{ }
};
static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	option_list, parse, "VM",
	"Run a VM's vCPUs near each other, or spread over all last-level caches, whichever is better.",
	children, NULL, NULL
};

const struct command map_command = {
	"map", "choose where a VM's vCPUs run", &argp, run
};
