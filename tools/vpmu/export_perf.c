// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A recording as perf.data.  perf looks for a function's name in the file that is mapped at the
 * function's address.  Guests' files are on other machines, and the host's may change, but the
 * recording has names.  So each file of which something was sampled has a stand-in, with those
 * functions as symbols.  The kernels' have the part of modules, which need no other kernel.
 */
#include "export.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "perf_file.h"
#include "standin.h"
#include "timeline.h"
#include "util.h"

#define PAGE		4096ull

/* The machine of what has no VM */
#define HOST		0

/* The process of the kernel's addresses, as perf has it */
#define KERNEL_PID	(-1u)

/* The process of what vCPUs did; and those whose number isn't known, from here on */
#define VCPU_PID	0
#define UNKNOWN_PID	0x40000000u

/* Events of the file */
enum { SAMPLED, HALTED, STOLEN, EVENTS };

/**
 * struct known - an address that has a name
 * @machine: number of the VM, or HOST
 * @pid: the process there, or KERNEL_PID
 * @ip: the address
 * @function: the function
 * @module: its file or module
 * @behind: it's the address behind a call, where another function may begin
 */
struct known {
	uint64_t machine;
	uint32_t pid;
	uint64_t ip;
	char *function, *module;
	bool behind;
};

/* A process of some machine, and what it's called there */
struct named {
	uint64_t machine;
	uint32_t pid;
	char *name;
};

/* A vCPU; @nth is its identifiers' first one */
struct virtual {
	uint64_t vm;
	int32_t vcpu;
	size_t nth;
};

/**
 * struct export - while it is written
 * @places: what is written
 * @dir: where to
 * @known: tsearch()'s: struct known
 * @named: tsearch()'s: struct named
 * @vcpus: tsearch()'s: struct virtual
 * @id: identifiers of each event: the host's, then the vCPUs'
 * @ids: how many
 * @first: by VM: which of them its first vCPU has
 * @data: the records
 * @record: the one that is being made
 * @address: of the mapping that is being collected: known addresses in order
 * @addresses: how many
 * @good: nothing has failed
 */
struct export {
	const struct places *places;
	const char *dir;
	void *known, *named, *vcpus;
	uint64_t *id[EVENTS];
	size_t ids, *first;
	FILE *data;
	struct perf_record record;
	const struct known **address;
	size_t addresses;
	bool good;
};

static void *search(const void *key, void **root, int (*compare)(const void *, const void *))
{
	void **found = tsearch(key, root, compare);

	if (!found)
		errx(STATUS_ERROR, "out of memory");
	return *found;
}

/* ---- machines, processes and vCPUs */

/* perf tells guests by their VMMs' PIDs. */
static uint32_t machine_pid(const struct recording *rec, const struct vm *vm)
{
	size_t i;

	for (i = 0; i < rec->vms; i++)
		if (&rec->vm[i] != vm && rec->vm[i].info.pid == vm->info.pid)
			return UNKNOWN_PID + (vm - rec->vm);
	return vm->info.pid;
}

static int compare_virtuals(const void *a, const void *b)
{
	const struct virtual *left = a, *right = b;

	if (left->vm != right->vm)
		return left->vm < right->vm ? -1 : 1;
	return (left->vcpu > right->vcpu) - (left->vcpu < right->vcpu);
}

static void add_id(struct export *e)
{
	unsigned int event;

	for (event = 0; event < EVENTS; event++) {
		e->id[event] = xgrow(e->id[event], e->ids, sizeof(*e->id[event]));
		/* Behind 0, which is none */
		e->id[event][e->ids] = 1 + e->ids * EVENTS + event;
	}
	e->ids++;
}

/* Which of an event's identifiers the vCPU has */
static size_t nth_id(struct export *e, uint64_t vm, int32_t vcpu)
{
	const struct recording *rec = e->places->recording;
	const struct vm *of = recording_vm(rec, vm);
	struct virtual key = { .vm = vm, .vcpu = vcpu }, **found, *new;

	if (!of)
		return 0;
	found = tfind(&key, &e->vcpus, compare_virtuals);
	if (found)
		return (*found)->nth;
	new = xrealloc(NULL, sizeof(*new));
	*new = key;
	new->nth = e->ids;
	if (!e->first[of - rec->vm])
		e->first[of - rec->vm] = new->nth;
	add_id(e);
	search(new, &e->vcpus, compare_virtuals);
	return new->nth;
}

static int compare_named(const void *a, const void *b)
{
	const struct named *left = a, *right = b;

	if (left->machine != right->machine)
		return left->machine < right->machine ? -1 : 1;
	return (left->pid > right->pid) - (left->pid < right->pid);
}

static const struct named *find_named(const struct export *e, const struct vm *vm, uint32_t pid)
{
	const struct named key = { .machine = vm ? vm->info.id : HOST, .pid = pid };
	struct named *const *found = tfind(&key, &e->named, compare_named);

	return found ? *found : NULL;
}

static void name_process(struct export *e, const struct vm *vm, uint32_t pid, const char *name)
{
	struct named *new;

	if (find_named(e, vm, pid))
		return;
	new = xrealloc(NULL, sizeof(*new));
	*new = (struct named){
		.machine = vm ? vm->info.id : HOST, .pid = pid, .name = xasprintf("%s", name),
	};
	search(new, &e->named, compare_named);
}

/* A number for a guest's process by its name: FNV-1a */
static uint32_t pid_by_name(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return UNKNOWN_PID | (hash & (UNKNOWN_PID - 1));
}

/**
 * struct where - a sample, as perf has it
 * @vm: in guest mode its VM; NULL: the host
 * @pid: the process of @vm or the host
 * @kernel: in the kernel
 * @misc: PERF_RECORD_MISC_...
 */
struct where {
	const struct vm *vm;
	uint32_t pid;
	bool kernel;
	uint16_t misc;
};

static struct where where_of(const struct export *e, const struct recorded *sample,
			     const struct place *place)
{
	const struct kvm_vpmu_record *r = &sample->r;
	bool guest = r->mode == KVM_VPMU_MODE_GUEST || r->mode == KVM_VPMU_MODE_NESTED;
	const struct named *named;
	struct where w = {
		.pid = r->pid, .kernel = r->mode == KVM_VPMU_MODE_HOST_KERNEL,
	};

	if (!guest || !place->vm) {
		w.misc = w.kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
		/* A guest that has no number: its VMM's, without a name. */
		if (guest)
			w.misc = PERF_RECORD_MISC_HYPERVISOR;
		return w;
	}
	w.vm = place->vm;
	w.kernel = r->cpl != 3;
	w.misc = w.kernel ? PERF_RECORD_MISC_GUEST_KERNEL : PERF_RECORD_MISC_GUEST_USER;
	w.pid = place_guest_pid(e->places, sample);
	named = find_named(e, w.vm, w.pid);
	/* After exec(), a process is another one for perf. */
	if (!w.pid || (named && strcmp(named->name, place->process)))
		w.pid = pid_by_name(place->process);
	return w;
}

/* ---- names of addresses */

static int compare_known(const void *a, const void *b)
{
	const struct known *left = a, *right = b;

	if (left->machine != right->machine)
		return left->machine < right->machine ? -1 : 1;
	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return (left->ip > right->ip) - (left->ip < right->ip);
}

static void know(struct export *e, const struct where *w, uint64_t ip, const char *function,
		 const char *module, bool behind)
{
	struct known key = {
		.machine = w->vm ? w->vm->info.id : HOST, .pid = w->kernel ? KERNEL_PID : w->pid,
		.ip = ip,
	}, **found = tfind(&key, &e->known, compare_known), *known;

	if (found) {
		known = *found;
		if (behind || !known->behind)
			return;
		free(known->function);
		free(known->module);
	} else {
		known = xrealloc(NULL, sizeof(*known));
		*known = key;
		search(known, &e->known, compare_known);
	}
	known->function = xasprintf("%s", function);
	known->module = xasprintf("%s", *module ? module : "unknown");
	known->behind = behind;
}

static void collect(struct export *e, const struct recorded *sample)
{
	struct frame caller[KVM_VPMU_STACK_MAX];
	unsigned int callers = place_callers(e->places, sample, caller), i;
	struct place place;
	struct where w;

	place_of(e->places, sample, &place);
	w = where_of(e, sample, &place);
	name_process(e, w.vm, w.pid, place.process);
	nth_id(e, sample->r.vm, sample->r.vcpu);
	if (place.named)
		know(e, &w, sample->r.ip, place.function, place.module, false);
	for (i = 0; i < callers; i++) {
		uint64_t ip = caller[i].ip;

		if (!caller[i].named)
			continue;
		/* perf looks for the address behind the call, which has to be in the function. */
		know(e, &w, ip, caller[i].function, caller[i].module, false);
		know(e, &w, ip + 1, caller[i].function, caller[i].module, true);
	}
}

/* ---- records */

/* What is behind each record but samples: sample_id_all of perf_event_open() */
static void end_record(struct export *e, uint32_t pid, size_t id)
{
	struct perf_record *r = &e->record;

	perf_record_u32(r, pid);
	perf_record_u32(r, pid);
	/* From the beginning on, on no CPU */
	perf_record_u64(r, 0);
	perf_record_u64(r, 0);
	perf_record_u64(r, e->id[SAMPLED][id]);
	perf_record_end(r, e->data);
}

/* Else perf warns of a kernel without addresses.  Nothing was sampled there. */
static void write_kernel(struct export *e)
{
	struct perf_record *r = &e->record;

	perf_record_begin(r, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
	perf_record_u32(r, KERNEL_PID);
	perf_record_u32(r, KERNEL_PID);
	perf_record_u64(r, -PAGE);
	perf_record_u64(r, 1);
	perf_record_u64(r, 0);
	perf_record_text(r, "[kernel.kallsyms]_text");
	end_record(e, KERNEL_PID, 0);
}

/* Some identifier of that machine */
static size_t id_of_machine(const struct export *e, uint64_t machine)
{
	const struct vm *vm = recording_vm(e->places->recording, machine);

	return vm ? e->first[vm - e->places->recording->vm] : 0;
}

static void write_index_entry(const void *node, VISIT visit, void *arg)
{
	const struct virtual *v = *(struct virtual *const *)node;
	struct export *e = arg;
	const struct recording *rec = e->places->recording;
	uint32_t pid = machine_pid(rec, recording_vm(rec, v->vm));
	unsigned int event;

	if (visit != postorder && visit != leaf)
		return;
	for (event = 0; event < EVENTS; event++) {
		perf_record_begin(&e->record, PERF_RECORD_ID_INDEX, 0);
		perf_record_u64(&e->record, 1);
		perf_record_u64(&e->record, e->id[event][v->nth]);
		perf_record_u64(&e->record, v->nth);
		/* Any CPU */
		perf_record_u64(&e->record, -1);
		perf_record_u64(&e->record, recording_vm(rec, v->vm)->info.pid);
		perf_record_u64(&e->record, pid);
		perf_record_u64(&e->record, v->vcpu);
		perf_record_end(&e->record, e->data);
	}
}

static void write_name(const void *node, VISIT visit, void *arg)
{
	const struct named *named = *(struct named *const *)node;
	struct export *e = arg;
	const struct vm *vm = recording_vm(e->places->recording, named->machine);
	char *name;

	if (visit != postorder && visit != leaf)
		return;
	/* perf shows no machines. */
	name = !vm ? xasprintf("%s", named->name) : !*named->name ? xasprintf("%s", vm->name) :
	       xasprintf("%s:%s", vm->name, named->name);
	perf_record_begin(&e->record, PERF_RECORD_COMM, named->machine == HOST ?
			  PERF_RECORD_MISC_USER : PERF_RECORD_MISC_GUEST_USER);
	perf_record_u32(&e->record, named->pid);
	perf_record_u32(&e->record, named->pid);
	perf_record_text(&e->record, name);
	free(name);
	end_record(e, named->pid, id_of_machine(e, named->machine));
}

/* ---- mappings */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Where the stand-in of that module is, with folders; to be freed.  NULL: that failed */
static char *standin_path(struct export *e, const struct known *k)
{
	const struct vm *vm = recording_vm(e->places->recording, k->machine);
	char *dir = vm ? xasprintf("%s/guest-%" PRIu64, e->dir, (uint64_t)vm->info.id) :
			 xasprintf("%s/host", e->dir);
	char *sub = k->pid == KERNEL_PID ? xasprintf("%s/kernel", dir) :
					   xasprintf("%s/%" PRIu32, dir, k->pid);
	char *path = xasprintf("%s/%s", sub, base_name(k->module)), *at;

	/* No name is a folder's. */
	for (at = path + strlen(sub) + 1; *at; at++)
		if (*at == '/')
			*at = '_';
	if ((mkdir(dir, 0777) && errno != EEXIST) || (mkdir(sub, 0777) && errno != EEXIST)) {
		warn("%s", sub);
		free(path);
		path = NULL;
	}
	free(dir);
	free(sub);
	return path;
}

/* Addresses that follow each other and have one name are one function. */
static size_t make_symbols(const struct export *e, uint64_t start, struct standin_symbol *symbol)
{
	size_t i, n = 0;

	for (i = 0; i < e->addresses; i++) {
		const struct known *k = e->address[i];

		if (!n || strcmp(symbol[n - 1].name, k->function))
			symbol[n++] = (struct standin_symbol){
				.offset = k->ip - start, .name = k->function,
			};
		symbol[n - 1].size = k->ip - start - symbol[n - 1].offset + 1;
	}
	return n;
}

/* The addresses of one module that were collected are a mapping. */
static void write_mapping(struct export *e)
{
	const struct known *first = e->addresses ? e->address[0] : NULL;
	struct standin_symbol *symbol;
	uint64_t start, length;
	char *path;

	if (!first)
		return;
	path = standin_path(e, first);
	start = first->ip / PAGE * PAGE;
	length = (e->address[e->addresses - 1]->ip / PAGE + 1) * PAGE - start;
	symbol = xrealloc(NULL, e->addresses * sizeof(*symbol));
	e->good &= path && standin_write(path, length, symbol, make_symbols(e, start, symbol));
	if (path) {
		bool kernel = first->pid == KERNEL_PID;
		uint16_t misc = first->machine == HOST ?
				(kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER) :
				(kernel ? PERF_RECORD_MISC_GUEST_KERNEL :
					  PERF_RECORD_MISC_GUEST_USER);

		perf_record_begin(&e->record, PERF_RECORD_MMAP, misc);
		perf_record_u32(&e->record, first->pid);
		perf_record_u32(&e->record, first->pid);
		perf_record_u64(&e->record, start);
		perf_record_u64(&e->record, length);
		perf_record_u64(&e->record, 0);
		perf_record_text(&e->record, path);
		end_record(e, first->pid, id_of_machine(e, first->machine));
	}
	free(symbol);
	free(path);
	e->addresses = 0;
}

/* In the order of addresses */
static void add_to_mapping(const void *node, VISIT visit, void *arg)
{
	const struct known *k = *(struct known *const *)node;
	const struct known *last;
	struct export *e = arg;

	if (visit != postorder && visit != leaf)
		return;
	last = e->addresses ? e->address[e->addresses - 1] : NULL;
	if (last && (last->machine != k->machine || last->pid != k->pid ||
		     strcmp(last->module, k->module)))
		write_mapping(e);
	e->address = xgrow(e->address, e->addresses, sizeof(*e->address));
	e->address[e->addresses++] = k;
}

/* ---- samples */

static void begin_sample(struct export *e, uint16_t misc, uint64_t id, uint64_t ip, uint32_t pid,
			 uint64_t tsc, uint32_t cpu, uint64_t value)
{
	const struct recording *rec = e->places->recording;
	struct perf_record *r = &e->record;

	perf_record_begin(r, PERF_RECORD_SAMPLE, misc);
	perf_record_u64(r, id);
	perf_record_u64(r, ip);
	perf_record_u32(r, pid);
	perf_record_u32(r, pid);
	perf_record_u64(r, rec->begin.ns + recording_ns(rec, tsc - rec->begin.tsc));
	perf_record_u32(r, cpu);
	perf_record_u32(r, 0);
	perf_record_u64(r, value);
}

static void write_sample(struct export *e, const struct recorded *sample)
{
	const struct recording *rec = e->places->recording;
	struct frame caller[KVM_VPMU_STACK_MAX];
	unsigned int callers = place_callers(e->places, sample, caller), i;
	struct place place;
	struct where w;
	size_t id;

	place_of(e->places, sample, &place);
	w = where_of(e, sample, &place);
	id = w.vm ? nth_id(e, sample->r.vm, sample->r.vcpu) : 0;
	begin_sample(e, w.misc, e->id[SAMPLED][id], sample->r.ip, w.pid, sample->r.tsc,
		     sample->cpu, sample->r.value);
	if (rec->stacks.count) {
		perf_record_u64(&e->record, 2 + callers);
		perf_record_u64(&e->record, w.kernel ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER);
		perf_record_u64(&e->record, sample->r.ip);
		for (i = 0; i < callers; i++)
			perf_record_u64(&e->record, caller[i].ip + 1);
	}
	perf_record_end(&e->record, e->data);
}

/* Halted and stolen times, in ns, when they end */
static void write_interval(const struct interval *i, void *arg)
{
	struct export *e = arg;
	const struct recording *rec = e->places->recording;
	size_t id = nth_id(e, i->vm, i->vcpu);

	if (!id || (i->state != VCPU_HALTED && i->state != VCPU_STOLEN))
		return;
	begin_sample(e, PERF_RECORD_MISC_GUEST_KERNEL,
		     e->id[i->state == VCPU_HALTED ? HALTED : STOLEN][id], 0, VCPU_PID, i->to,
		     i->cpu, recording_ns(rec, i->to - i->from));
	if (rec->stacks.count)
		perf_record_u64(&e->record, 0);
	perf_record_end(&e->record, e->data);
}

/* ---- the file */

static void write_file(struct export *e, const char *data, size_t size)
{
	const struct recording *rec = e->places->recording;
	const struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .sample_period = rec->period,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
			       (rec->stacks.count ? PERF_SAMPLE_CALLCHAIN : 0),
		.sample_id_all = 1, .freq = !!rec->frequency, .mmap = 1, .comm = 1,
	};
	struct perf_file_event event[EVENTS] = {
		[SAMPLED] = { .name = *rec->event ? rec->event : "cycles" },
		[HALTED] = { .name = "vcpu-halted-ns" }, [STOLEN] = { .name = "vcpu-stolen-ns" },
	};
	const struct perf_file file = {
		.event = event, .events = EVENTS, .data = data, .size = size,
		.host = rec->host ? rec->host : "?", .release = rec->kernel ? rec->kernel : "?",
		.version = "vpmu " VERSION, .cpus = rec->cpus,
	};
	char *path = xasprintf("%s/data", e->dir);
	FILE *out = fopen(path, "we");
	unsigned int i;

	for (i = 0; i < EVENTS; i++) {
		event[i].attr = attr;
		event[i].id = e->id[i];
		event[i].ids = e->ids;
		if (i == SAMPLED)
			continue;
		event[i].attr.type = PERF_TYPE_SOFTWARE;
		event[i].attr.config = PERF_COUNT_SW_CPU_CLOCK;
	}
	if (out)
		perf_file_write(&file, out);
	if (!out || ferror(out) | fclose(out)) {
		warn("%s", path);
		e->good = false;
	}
	free(path);
}

static void free_known(void *node)
{
	struct known *k = node;

	free(k->function);
	free(k->module);
	free(k);
}

static void free_named(void *node)
{
	free(((struct named *)node)->name);
	free(node);
}

static void free_export(struct export *e)
{
	unsigned int i;

	tdestroy(e->known, free_known);
	tdestroy(e->named, free_named);
	tdestroy(e->vcpus, free);
	for (i = 0; i < EVENTS; i++)
		free(e->id[i]);
	free(e->address);
	free(e->first);
}

static void note_vcpu(const struct interval *i, void *arg)
{
	struct export *e = arg;

	if (nth_id(e, i->vm, i->vcpu))
		name_process(e, recording_vm(e->places->recording, i->vm), VCPU_PID, "");
}

static void write_records(struct export *e)
{
	const struct recording *rec = e->places->recording;
	size_t i;

	for (i = 0; i < rec->count; i++)
		if (recording_is_sample(rec, &rec->record[i]))
			collect(e, &rec->record[i]);
	timeline_run(rec, note_vcpu, e);
	twalk_r(e->vcpus, write_index_entry, e);
	write_kernel(e);
	twalk_r(e->known, add_to_mapping, e);
	write_mapping(e);
	twalk_r(e->named, write_name, e);
	for (i = 0; i < rec->count; i++)
		if (recording_is_sample(rec, &rec->record[i]))
			write_sample(e, &rec->record[i]);
	timeline_run(rec, write_interval, e);
}

bool export_perf(const struct places *places, const char *dir)
{
	struct export e = { .places = places, .good = true };
	char *data, *real;
	size_t size;

	if (mkdir(dir, 0777) && errno != EEXIST) {
		warn("%s", dir);
		return false;
	}
	/* perf finds the stand-ins by their whole paths. */
	real = realpath(dir, NULL);
	if (!real) {
		warn("%s", dir);
		return false;
	}
	e.dir = real;
	e.data = open_memstream(&data, &size);
	e.first = calloc(places->recording->vms + 1, sizeof(*e.first));
	if (!e.data || !e.first)
		errx(STATUS_ERROR, "out of memory");
	/* The host's */
	add_id(&e);
	write_records(&e);
	fclose(e.data);
	write_file(&e, data, size);
	free(data);
	free(real);
	free_export(&e);
	return e.good;
}
