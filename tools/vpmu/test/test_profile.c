// SPDX-License-Identifier: GPL-2.0-or-later
/* Recordings: files, vCPUs' times, names of guests, reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "export.h"
#include "input.h"
#include "perf_file.h"
#include "profile.pb-c.h"
#include "report.h"
#include "timeline.h"
#include "unwind.h"
#include "util.h"

/* Two ticks a ns; TSCs are those behind BEGIN. */
#define BEGIN	1000000
#define LENGTH	100000

static char path[] = "/tmp/vpmu-test-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return -1;
	return close(fd);
}

static int remove_file(void **state)
{
	return unlink(path);
}

static struct kvm_vpmu_record switched(uint64_t vm, int vcpu, uint64_t at, int type, int mode,
				       uint64_t value)
{
	return (struct kvm_vpmu_record){
		.tsc = BEGIN + at, .value = value, .vm = vm, .vcpu = vcpu, .tid = 10 + vcpu,
		.type = type, .mode = mode,
	};
}

static struct kvm_vpmu_record loaded(uint64_t vm, int vcpu, uint64_t at, uint64_t delay)
{
	return switched(vm, vcpu, at, KVM_VPMU_RECORD_LOAD, 0, delay);
}

static struct kvm_vpmu_record put(uint64_t vm, int vcpu, uint64_t at, int why, uint64_t in_kvm)
{
	return switched(vm, vcpu, at, KVM_VPMU_RECORD_PUT, why, in_kvm);
}

static struct kvm_vpmu_record away(uint64_t vm, int vcpu, uint64_t at, int why, uint64_t delay)
{
	return switched(vm, vcpu, at, KVM_VPMU_RECORD_AWAY, why, delay);
}

/* @at: "begin" or "end" */
static struct json_object *moment(const char *at, uint64_t tsc)
{
	struct json_object *object = json_object_new_object();
	struct moment m = { .tsc = tsc, .ns = tsc / 2, .time = 1800000000 * NS_PER_S };

	json_object_object_add(object, at, moment_json(m));
	return object;
}

static const char end_text[] =
	"{\"cpu\": [{\"cpu\": 0, \"lost\": 3, \"throttled\": 1, \"enabled_ns\": 50, \"running_ns\": 40},"
	"{\"cpu\": 1, \"lost\": 4, \"throttled\": 0, \"enabled_ns\": 50, \"running_ns\": 50}],"
	"\"vm\": [{\"id\": 2, \"pid\": 200, \"name\": \"db\"}, {\"id\": 1, \"pid\": 100, \"name\": \"web\","
	"\"clock\": {\"offset\": 18446744073709551606, \"ratio\": 3, \"bits\": 1}}],"
	"\"name\": [{\"pid\": 0, \"ip\": 18446744071562133504, \"name\": \"schedule\", \"module\": \"kvm\"},"
	"{\"pid\": 100, \"name\": \"qemu\"}, {\"pid\": 300, \"name\": \"perf\"},"
	"{\"pid\": 300, \"ip\": 4096, \"name\": \"main\", \"module\": \"perf\"}]}";

/* JSON of the chunk END */
static const char *names_text = end_text;

static void write_file(const struct kvm_vpmu_record *record, size_t count, bool whole)
{
	struct json_object *begin = moment("begin", BEGIN);
	struct json_object *end = json_tokener_parse(names_text);
	FILE *file = fopen(path, "w");
	size_t i;

	assert_non_null(file);
	assert_non_null(end);
	json_object_object_add(begin, "event", json_object_new_string("cycles"));
	json_object_object_add(begin, "period", json_object_new_int(1000));
	json_object_object_add(begin, "cpus", json_object_new_int(2));
	json_object_object_add(begin, "host", json_object_new_string("cloud"));
	json_object_object_add(begin, "kernel", json_object_new_string("6.12"));
	assert_true(recording_write_head(file));
	assert_true(recording_write_json(file, RECORDING_INFO, begin));
	/* Each from another CPU, so that they have to be sorted */
	for (i = count; i--;)
		assert_true(recording_write_records(file, i, &record[i], 1));
	if (whole) {
		struct json_object *at = moment("end", BEGIN + LENGTH), *inner;

		assert_true(json_object_object_get_ex(at, "end", &inner));
		json_object_object_add(end, "end", json_object_get(inner));
		json_object_put(at);
		assert_true(recording_write_json(file, RECORDING_END, end));
	}
	json_object_put(begin);
	json_object_put(end);
	assert_int_equal(fclose(file), 0);
}

static void read_file(struct recording *rec)
{
	assert_true(recording_read(rec, path, stderr));
}

static void files(void **state)
{
	const struct kvm_vpmu_record records[] = { loaded(1, 0, 10, 0), put(1, 0, 20, 0, 0) };
	struct recording rec;

	write_file(records, 2, true);
	read_file(&rec);
	assert_string_equal(rec.event, "cycles");
	assert_int_equal(rec.period, 1000);
	assert_int_equal(rec.frequency, 0);
	assert_int_equal(rec.cpus, 2);
	assert_int_equal(rec.count, 2);
	assert_int_equal(rec.record[0].r.tsc, BEGIN + 10);
	assert_int_equal(rec.record[1].cpu, 1);
	assert_int_equal(rec.lost, 7);
	assert_int_equal(rec.throttled, 1);
	assert_int_equal(rec.enabled, 100);
	assert_int_equal(rec.running, 90);
	assert_int_equal(rec.vms, 2);
	assert_string_equal(recording_vm(&rec, 1)->name, "web");
	assert_string_equal(recording_vm(&rec, 2)->name, "db");
	assert_null(recording_vm(&rec, 3));
	assert_string_equal(recording_find(&rec, 300, 0x1000)->module, "perf");
	assert_string_equal(recording_find(&rec, 100, 0)->name, "qemu");
	assert_null(recording_find(&rec, 100, 1));
	assert_true(recording_ns(&rec, 1000) == 500);
	assert_int_equal(recording_ticks(&rec, 500), 1000);
	recording_free(&rec);
}

/* A recording that was killed ends anywhere; others are refused. */
static void broken_files(void **state)
{
	const struct kvm_vpmu_record records[] = { loaded(1, 0, 10, 0), put(1, 0, 20, 0, 0) };
	FILE *messages = fopen("/dev/null", "w");
	struct recording_chunk chunk = { .type = RECORDING_RECORDS, .size = 65 };
	struct recording rec;
	char junk[65] = "";
	FILE *file;
	long size;

	write_file(records, 2, false);
	read_file(&rec);
	assert_int_equal(rec.count, 2);
	assert_null(rec.end_info);
	assert_int_equal(rec.end.tsc, BEGIN + 20);
	recording_free(&rec);

	file = fopen(path, "a");
	size = ftell(file);
	fclose(file);
	assert_int_equal(truncate(path, size - 1), 0);
	read_file(&rec);
	assert_int_equal(rec.count, 1);
	recording_free(&rec);

	/* Not a number of records */
	write_file(records, 2, false);
	file = fopen(path, "a");
	fwrite(&chunk, sizeof(chunk), 1, file);
	fwrite(junk, sizeof(junk), 1, file);
	fclose(file);
	assert_false(recording_read(&rec, path, messages));
	/* Another chunk than these is skipped. */
	write_file(records, 2, false);
	file = fopen(path, "a");
	chunk.type = 99;
	fwrite(&chunk, sizeof(chunk), 1, file);
	fwrite(junk, sizeof(junk), 1, file);
	fclose(file);
	read_file(&rec);
	recording_free(&rec);

	assert_int_equal(truncate(path, 20), 0);
	assert_false(recording_read(&rec, path, messages));
	assert_int_equal(truncate(path, 0), 0);
	assert_false(recording_read(&rec, path, messages));
	assert_false(recording_read(&rec, "/nonexistent", messages));
	fclose(messages);
}

/* The times of vCPU 0 of VM 1, which is the only one, as in struct vcpu_times */
static void times_are(const struct kvm_vpmu_record *record, size_t count,
		      const uint64_t expected[VCPU_STATES], uint64_t kvm)
{
	struct vcpu_times *times;
	struct recording rec;
	uint64_t sum = 0;
	unsigned int i;

	write_file(record, count, true);
	read_file(&rec);
	assert_int_equal(timeline_sum(&rec, &times), 1);
	for (i = 0; i < VCPU_STATES; i++) {
		assert_int_equal(times->in[i], expected[i]);
		sum += times->in[i];
	}
	assert_int_equal(times->kvm, kvm);
	assert_int_equal(sum, LENGTH);
	free(times);
	recording_free(&rec);
}

static void states(void **state)
{
	const struct kvm_vpmu_record records[] = {
		loaded(1, 0, 1000, 0),
		put(1, 0, 2000, KVM_VPMU_PUT_HALTED, 100),
		/* Awake for 50 ns, which are 100 ticks, before it runs */
		loaded(1, 0, 5000, 50),
		put(1, 0, 6000, KVM_VPMU_PUT_PREEMPTED, 10),
		loaded(1, 0, 8000, 900),
		put(1, 0, 8500, KVM_VPMU_PUT_BLOCKED, 500),
		loaded(1, 0, 9000, 0),
		put(1, 0, 9100, KVM_VPMU_PUT_USER, 0),
		/* More than was possible */
		loaded(1, 0, 9200, 1000),
		put(1, 0, 50000, KVM_VPMU_PUT_USER, 1000),
	};

	times_are(records, ARRAY_SIZE(records), (uint64_t[VCPU_STATES]){
		[VCPU_UNKNOWN] = 1000, [VCPU_LOADED] = 1000 + 1000 + 500 + 100 + 40800,
		[VCPU_HALTED] = 2900, [VCPU_STOLEN] = 100 + 2000 + 100, [VCPU_WAITING] = 500,
		[VCPU_VMM] = 50000,
	}, 100 + 10 + 500 + 1000);
}

/* A vCPU that is loaded all the time, with looks at it around the beginning and the end */
static void looks(void **state)
{
	const struct kvm_vpmu_record records[] = {
		put(1, 0, -2000, KVM_VPMU_PUT_READ, 77777),
		loaded(1, 0, -2000, 0),
		put(1, 0, LENGTH / 2, KVM_VPMU_PUT_READ, 1002),
		loaded(1, 0, LENGTH / 2, 0),
		put(1, 0, LENGTH + 50000, KVM_VPMU_PUT_READ, 2000),
		loaded(1, 0, LENGTH + 50000, 0),
	};

	times_are(records, ARRAY_SIZE(records), (uint64_t[VCPU_STATES]){
		[VCPU_LOADED] = LENGTH,
	}, 1002 * 50000 / 52000 + 1000);
}

/* Looks at vCPUs that aren't loaded */
static void looks_at_absent(void **state)
{
	const struct kvm_vpmu_record halted[] = {
		away(1, 0, -2000, KVM_VPMU_PUT_HALTED, 300),
		/* Awake for 50 ns, which are 100 ticks */
		loaded(1, 0, 5000, 50),
		put(1, 0, 6000, KVM_VPMU_PUT_HALTED, 0),
		/* It woke up 200 ns ago, 100 of these before the end. */
		away(1, 0, LENGTH + 200, KVM_VPMU_PUT_BLOCKED, 200),
	}, asleep[] = {
		/* For 100 ns before the beginning, and all the time from then on */
		away(1, 0, -2000, KVM_VPMU_PUT_HALTED, 100),
		loaded(1, 0, 5000, 7000 / 2),
		put(1, 0, 6000, KVM_VPMU_PUT_USER, 0),
		away(1, 0, LENGTH + 200, KVM_VPMU_PUT_USER, 0),
	}, idle[] = {
		away(1, 0, -2000, KVM_VPMU_PUT_HALTED, 0),
		away(1, 0, LENGTH + 200, KVM_VPMU_PUT_HALTED, 0),
	}, preempted[] = {
		away(1, 0, -2000, KVM_VPMU_PUT_PREEMPTED, 0),
		loaded(1, 0, 5000, 0),
		/* Loaded on one CPU while another one looked */
		away(1, 0, 5001, KVM_VPMU_PUT_PREEMPTED, 0),
		put(1, 0, 6000, KVM_VPMU_PUT_PREEMPTED, 0),
	};

	times_are(halted, ARRAY_SIZE(halted), (uint64_t[VCPU_STATES]){
		[VCPU_LOADED] = 1000, [VCPU_HALTED] = 4900 + LENGTH - 6000 - 200,
		[VCPU_STOLEN] = 100 + 200,
	}, 0);
	times_are(asleep, ARRAY_SIZE(asleep), (uint64_t[VCPU_STATES]){
		[VCPU_LOADED] = 1000, [VCPU_STOLEN] = 5000, [VCPU_VMM] = LENGTH - 6000,
	}, 0);
	times_are(idle, ARRAY_SIZE(idle), (uint64_t[VCPU_STATES]){ [VCPU_HALTED] = LENGTH }, 0);
	times_are(preempted, ARRAY_SIZE(preempted), (uint64_t[VCPU_STATES]){
		[VCPU_LOADED] = 1000, [VCPU_STOLEN] = LENGTH - 1000,
	}, 0);
}

static void lost_switches(void **state)
{
	const struct kvm_vpmu_record records[] = {
		/* It was loaded before, but not known to be. */
		put(1, 0, 100, KVM_VPMU_PUT_HALTED, 50),
		loaded(1, 0, 200, 0),
		/* A PUT is lost, then a LOAD. */
		loaded(1, 0, 1000, 0),
		put(1, 0, 1100, KVM_VPMU_PUT_HALTED, 0),
		put(1, 0, 1500, KVM_VPMU_PUT_HALTED, 0),
		loaded(1, 0, 1600, 0),
	};

	times_are(records, ARRAY_SIZE(records), (uint64_t[VCPU_STATES]){
		[VCPU_UNKNOWN] = 100 + 800 + 400 + LENGTH - 1600, [VCPU_LOADED] = 100,
		[VCPU_HALTED] = 100 + 100,
	}, 0);
}

static void several(void **state)
{
	const struct kvm_vpmu_record records[] = {
		loaded(2, 1, 0, 0), loaded(1, 0, 0, 0), loaded(2, 0, 0, 0),
		put(1, 0, 10, KVM_VPMU_PUT_HALTED, 0), put(2, 1, 20, KVM_VPMU_PUT_HALTED, 0),
		put(2, 0, 30, KVM_VPMU_PUT_HALTED, 0),
	};
	struct vcpu_times *times;
	struct recording rec;

	write_file(records, ARRAY_SIZE(records), true);
	read_file(&rec);
	assert_int_equal(timeline_sum(&rec, &times), 3);
	assert_int_equal(times[0].in[VCPU_LOADED], 10);
	assert_int_equal(times[1].in[VCPU_LOADED], 30);
	assert_int_equal(times[2].vcpu, 1);
	assert_int_equal(times[2].in[VCPU_HALTED], LENGTH - 20);
	free(times);
	recording_free(&rec);
}

/* ---- names of guests */

static const char map_text[] =
	"vpmu-guest-map 1\n"
	"k ffffffff81000000 startup\n"
	"k ffffffff81000100 do_work\n"
	"k ffffffffc0000000 helper [kvm amd]\n"
	"u\n"
	"p 1 1000000 64 0 nginx: worker\n"
	"p 2 2000000 65 0 other\n"
	"z from a later version\n"
	"f 0 /usr/sbin/nginx\n"
	"f 1 /usr/lib/libc.so\n"
	"y 0 1200 20 handle\n"
	"y 0 1220 0 rest of it\n"
	"y 1 500 10 malloc\n"
	"m 1 400000 402000 1000 0\n"
	"m 1 7f0000000000 7f0000001000 0 1\n";

static struct guest_map *map_of(const char *text)
{
	FILE *file = fopen(path, "w"), *messages = fopen("/dev/null", "w");
	struct guest_map *map;

	fputs(text, file);
	fclose(file);
	map = guest_map_read(path, messages);
	fclose(messages);
	return map;
}

static void function_is(const struct guest_map *map, uint64_t root, uint64_t ip,
			const char *function, const char *module)
{
	const struct guest_process *process = guest_map_process(map, root, NULL);
	uint64_t offset;
	const char *its_module, *its = guest_map_function(map, process, ip, &its_module, &offset);

	if (function)
		assert_string_equal(its, function);
	else
		assert_null(its);
	if (module)
		assert_string_equal(its_module, module);
	else
		assert_null(its_module);
}

static void process_is(const struct guest_map *map, uint64_t root, const uint64_t *tsc,
		       const char *name)
{
	const char *its = guest_process_name(guest_map_process(map, root, tsc));

	if (name)
		assert_string_equal(its, name);
	else
		assert_null(its);
}

static void offset_is(const struct guest_map *map, uint64_t root, uint64_t ip, uint64_t expected)
{
	const char *module;
	uint64_t offset;

	guest_map_function(map, guest_map_process(map, root, NULL), ip, &module, &offset);
	assert_int_equal(offset, expected);
}

static void guest_maps(void **state)
{
	struct guest_map *map = map_of(map_text);

	assert_non_null(map);
	process_is(map, 0x1000000, NULL, "nginx: worker");
	/* In user mode, with KPTI */
	process_is(map, 0x1001000, NULL, "nginx: worker");
	process_is(map, 0x3000000, NULL, NULL);
	function_is(map, 0x1000000, 0xffffffff810000ff, "startup", "kernel");
	function_is(map, 0, 0xffffffff81000100, "do_work", "kernel");
	function_is(map, 0, 0xffffffffc0000001, "helper", "kvm amd");
	function_is(map, 0, 0xffffffff80ffffff, NULL, "kernel");
	function_is(map, 0x1000000, 0x400200, "handle", "/usr/sbin/nginx");
	function_is(map, 0x1001000, 0x40021f, "handle", "/usr/sbin/nginx");
	function_is(map, 0x1000000, 0x400220, "rest of it", "/usr/sbin/nginx");
	function_is(map, 0x1000000, 0x4001ff, NULL, "/usr/sbin/nginx");
	function_is(map, 0x1000000, 0x7f0000000500, "malloc", "/usr/lib/libc.so");
	function_is(map, 0x1000000, 0x7f0000000510, NULL, "/usr/lib/libc.so");
	function_is(map, 0x1000000, 0x402000, NULL, NULL);
	function_is(map, 0x2000000, 0x400200, NULL, NULL);
	/* Without a name, but the same in each process */
	offset_is(map, 0x1000000, 0x7f0000000510, 0x510);
	offset_is(map, 0x1000000, 0x400010, 0x1010);
	offset_is(map, 0x1000000, 0x402000, 0x402000);
	offset_is(map, 0x1000000, 0xffffffff80ffffff, 0xffffffff80ffffff);
	guest_map_free(map);

	assert_null(map_of(""));
	assert_null(map_of("vpmu-guest-map 2\n"));
	assert_null(map_of("vpmu-guest-map 1\nk x\n"));
	assert_null(map_of("vpmu-guest-map 1\np 1 1000 1 0\n"));
	assert_null(map_of("vpmu-guest-map 1\ne 1\n"));
	assert_null(map_of("vpmu-guest-map 1\nm 1 2 3 4\n"));
}

/*
 * Page table 1000000 is of one process after the other: "old" from the beginning to 1000, nobody
 * known to 2000, "parent" from then on, and between 3000 and 4000 also of its child; 5000000 is of
 * two, and what is in the page behind is of another process, as there is no KPTI.
 */
static const char shared_text[] =
	"vpmu-guest-map 1\n"
	"e 1 1000\n"
	"p 1 1000000 64 0 old\n"
	"p 2 1000000 65 2000 parent\n"
	"p 3 1000000 66 3000 child\n"
	"e 3 4000\n"
	"p 4 1001000 67 0 neighbour\n"
	"p 5 5000000 68 0 first\n"
	"p 6 5000000 69 0 second\n"
	"f 0 /bin/old\n"
	"f 1 /bin/parent\n"
	"y 0 0 1000 old_function\n"
	"y 1 0 1000 parent_function\n"
	"m 1 400000 401000 0 0\n"
	"m 2 400000 401000 0 1\n";

/* The recording's own map, which none of the arguments replaces */
static void own_maps(void **state)
{
	static char good[] = "vpmu-guest-map 1\nk ffffffff81000000 inside\n", bad[] = "vpmu-guest-map 1\nk x\n",
		    other[] = "vpmu-guest-map 1\nk ffffffff81000000 outside\n";
	const struct recording_map maps[] = {
		{ .vm = 1, .text = good, .size = strlen(good) },
		{ .vm = 2, .text = bad, .size = strlen(bad) },
		{ .vm = 3, .text = good, .size = strlen(good) },
	};
	struct input_options options = { .file = path };
	struct input input;
	char *argument;
	FILE *file;
	size_t i;

	write_file(NULL, 0, true);
	file = fopen(path, "a");
	assert_non_null(file);
	for (i = 0; i < ARRAY_SIZE(maps); i++)
		assert_true(recording_write_map(file, &maps[i]));
	assert_int_equal(fclose(file), 0);
	assert_int_equal(input_open(&input, &options), 0);
	assert_int_equal(input.rec.maps, 3);
	function_is(input.map[0], 0, 0xffffffff81000000, "inside", "kernel");
	assert_null(input.map[1]);
	input_close(&input);

	argument = xasprintf("web=%s.map", path);
	file = fopen(argument + 4, "w");
	assert_non_null(file);
	fputs(other, file);
	assert_int_equal(fclose(file), 0);
	options.map = xrealloc(NULL, sizeof(*options.map));
	options.map[options.maps++] = argument;
	assert_int_equal(input_open(&input, &options), 0);
	unlink(argument + 4);
	free(argument);
	function_is(input.map[0], 0, 0xffffffff81000000, "outside", "kernel");
	input_close(&input);
}

static void shared_roots(void **state)
{
	static const struct {
		uint64_t tsc;
		const char *name, *function;
	} at[] = {
		{ 0, "old", "old_function" }, { 0xfff, "old", "old_function" },
		{ 0x1000, NULL, NULL }, { 0x1fff, NULL, NULL },
		{ 0x2000, "parent", "parent_function" }, { 0x2fff, "parent", "parent_function" },
		{ 0x3000, "child", NULL }, { 0x3fff, "child", NULL },
		{ 0x4000, "parent", "parent_function" },
	};
	struct guest_map *map = map_of(shared_text);
	size_t i;

	assert_non_null(map);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		const struct guest_process *process = guest_map_process(map, 0x1000000, &at[i].tsc);
		uint64_t offset;
		const char *module, *function = guest_map_function(map, process, 0x400010, &module,
								   &offset);

		process_is(map, 0x1000000, &at[i].tsc, at[i].name);
		if (at[i].function)
			assert_string_equal(function, at[i].function);
		else
			assert_null(function);
	}
	process_is(map, 0x1001000, &at[0].tsc, "neighbour");
	process_is(map, 0x5001000, &at[0].tsc, NULL);
	/* Without the time, it's nobody's. */
	process_is(map, 0x1000000, NULL, NULL);
	process_is(map, 0x5000000, NULL, NULL);
	process_is(map, 0x1001000, NULL, "neighbour");
	guest_map_free(map);
}

/* ---- guests' TSCs */

static void set_number(const char *folder, const char *file, const char *number)
{
	char *whole = xasprintf("%s/%s", folder, file);
	FILE *f = fopen(whole, "w");

	assert_non_null(f);
	fprintf(f, "%s\n", number);
	fclose(f);
	free(whole);
}

static void look_at(struct guest_clock *clock, const char *folder, bool known)
{
	guest_clock_look(clock, folder, 77);
	assert_int_equal(clock->known, known);
}

static void guest_clocks(void **state)
{
	char folder[] = "/tmp/vpmu-test-XXXXXX", *vcpu[2], *other;
	struct guest_clock clock = { };
	unsigned int i;

	assert_non_null(mkdtemp(folder));
	look_at(&clock, folder, false);
	other = xasprintf("mkdir -p %s/77-12/vcpu0 %s/77-12/vcpu1 %s/7-3/vcpu0", folder, folder,
			  folder);
	assert_int_equal(system(other), 0);
	free(other);
	other = xasprintf("%s/7-3/vcpu0", folder);
	set_number(other, "tsc-offset", "5");
	free(other);
	for (i = 0; i < 2; i++) {
		vcpu[i] = xasprintf("%s/77-12/vcpu%u", folder, i);
		set_number(vcpu[i], "tsc-offset", "-1000");
	}
	look_at(&clock, folder, true);
	assert_int_equal(guest_clock_tsc(&clock, 5000), 4000);

	/* Another VM's is another one; a CPU that scales */
	clock = (struct guest_clock){ };
	for (i = 0; i < 2; i++) {
		set_number(vcpu[i], "tsc-scaling-ratio", "6442450944");
		set_number(vcpu[i], "tsc-scaling-ratio-frac-bits", "32");
	}
	look_at(&clock, folder, true);
	assert_int_equal(guest_clock_tsc(&clock, 1ull << 50), (3ull << 49) - 1000);

	/* A nested guest's is none. */
	set_number(vcpu[1], "guest_mode", "1");
	set_number(vcpu[1], "tsc-offset", "-999");
	look_at(&clock, folder, true);
	set_number(vcpu[1], "guest_mode", "0");
	/* One that changes is never known again. */
	set_number(vcpu[0], "tsc-offset", "-999");
	look_at(&clock, folder, false);
	look_at(&clock, folder, false);
	/* vCPUs that differ */
	clock = (struct guest_clock){ };
	look_at(&clock, folder, true);
	set_number(vcpu[1], "tsc-offset", "-998");
	clock = (struct guest_clock){ };
	look_at(&clock, folder, false);
	/* Two VMs of one thread */
	set_number(vcpu[1], "tsc-offset", "-999");
	clock = (struct guest_clock){ };
	look_at(&clock, folder, true);
	other = xasprintf("mkdir %s/77-13", folder);
	assert_int_equal(system(other), 0);
	free(other);
	look_at(&clock, folder, false);

	other = xasprintf("rm -r %s", folder);
	assert_int_equal(system(other), 0);
	free(other);
	for (i = 0; i < 2; i++)
		free(vcpu[i]);
}

/* ---- reports */

static struct kvm_vpmu_record sampled(uint64_t at, int mode, uint64_t vm, uint32_t pid, uint64_t ip)
{
	return (struct kvm_vpmu_record){
		.tsc = BEGIN + at, .ip = ip, .value = 1000, .vm = vm, .pid = pid, .tid = pid,
		.vcpu = vm ? 0 : -1, .type = KVM_VPMU_RECORD_SAMPLE, .mode = mode,
		.cpl = KVM_VPMU_CPL_NONE, .exit_reason = KVM_VPMU_EXIT_NONE,
	};
}

static struct kvm_vpmu_record in_guest(uint64_t at, uint64_t vm, int cpl, uint64_t cr3, uint64_t ip)
{
	struct kvm_vpmu_record r = sampled(at, KVM_VPMU_MODE_GUEST, vm, 100 * vm, ip);

	r.cpl = cpl;
	r.cr3 = cr3;
	return r;
}

/* One of each kind; the fifth is to become a nested guest's, the last is behind the end. */
#define EXAMPLE_SAMPLES \
	in_guest(10, 1, 3, 0x1001007, 0x400200), in_guest(11, 1, 3, 0x1000fff, 0x400201), \
	in_guest(12, 1, 0, 0x1000000, 0xffffffff81000105), \
	in_guest(13, 2, 3, 0x5000, 0x400200), in_guest(14, 2, 0, 0, 0x1000), \
	sampled(15, KVM_VPMU_MODE_HOST_KERNEL, 1, 100, 0xffffffff80010000), \
	sampled(16, KVM_VPMU_MODE_HOST_USER, 0, 300, 4096), \
	sampled(17, KVM_VPMU_MODE_HOST_USER, 0, 200, 0x9999), \
	sampled(18, KVM_VPMU_MODE_HOST_KERNEL, 0, 0, 0xffffffff80000001), \
	sampled(LENGTH + 1, KVM_VPMU_MODE_HOST_KERNEL, 0, 0, 0xffffffff80000001)

static const char report_text[] =
	"cloud, Linux 6.12, 2027-01-15 08:00:00, 2 CPUs, 0.000 s\n"
	"cycles, a sample each 1,000: 9 samples, 7 records lost\n"
	"Host perf paused the event 1 times, as there were too many samples.\n"
	"The event counted for 90.0% of the time, as counters were needed for others.\n"
	"\n"
	"Who\n"
	"SHARE  SAMPLES  VM   WHERE         PROCESS\n"
	"22.2%        2  web  guest user    nginx: worker\n"
	"11.1%        1  -    host          idle\n"
	"11.1%        1  -    host          perf\n"
	"11.1%        1  db   VMM           -\n"
	"11.1%        1  web  KVM           -\n"
	"11.1%        1  web  guest kernel  nginx: worker\n"
	"11.1%        1  db   guest user    cr3 0x5000\n"
	"11.1%        1  db   nested guest  -\n"
	"\n"
	"vCPUs' time\n"
	"VM   VCPU  GUEST  KERNEL   USER   KVM  HALTED  STOLEN  WAITING   VMM  UNKNOWN\n"
	"web     0  60.0%   20.0%  40.0%  0.0%    0.0%    0.0%     0.0%  0.0%    40.0%\n"
	"\n"
	"Functions\n"
	"SHARE  SAMPLES  VM   WHERE         PROCESS        FUNCTION            MODULE\n"
	"22.2%        2  web  guest user    nginx: worker  handle              /usr/sbin/nginx\n"
	"11.1%        1  -    host          idle           0xffffffff80000xxx  kernel\n"
	"11.1%        1  -    host          perf           main                perf\n"
	"11.1%        1  db   VMM           200            0x9xxx              -\n"
	"11.1%        1  web  KVM           qemu           schedule            kvm\n"
	"11.1%        1  web  guest kernel  nginx: worker  do_work             kernel\n"
	"11.1%        1  db   guest user    cr3 0x5000     0x400xxx            -\n"
	"11.1%        1  db   nested guest  -              0x1xxx              -\n";

/* That recording with one vCPU's switches, and names of VM 1 */
struct example {
	struct recording rec;
	struct guest_map *maps[3];
	struct places places;
};

static void make_example(struct example *e, unsigned int why, uint64_t in_kvm)
{
	struct kvm_vpmu_record records[] = {
		EXAMPLE_SAMPLES, loaded(1, 0, 0, 0), put(1, 0, 60000, why, in_kvm),
	};

	*e = (struct example){ .maps = { map_of(map_text) } };
	records[4].mode = KVM_VPMU_MODE_NESTED;
	write_file(records, ARRAY_SIZE(records), true);
	read_file(&e->rec);
	e->places = (struct places){ .recording = &e->rec, .map = e->maps };
}

static void free_example(struct example *e)
{
	guest_map_free(e->maps[0]);
	recording_free(&e->rec);
}

/* What is printed, to be freed */
static char *report_of(const struct example *e, const struct report_options *options)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	report_run(&e->places, options, out);
	fclose(out);
	return text;
}

static void reports(void **state)
{
	struct report_options options = { .limit = 100 };
	struct example e;
	char *text;

	setenv("TZ", "UTC", 1);
	make_example(&e, KVM_VPMU_PUT_READ, 0);
	text = report_of(&e, &options);
	assert_string_equal(text, report_text);
	free(text);

	/* One VM only, and few rows */
	options.vm = recording_vm(&e.rec, 2);
	options.limit = 1;
	text = report_of(&e, &options);
	assert_non_null(strstr(text, "33.3%        1  db  VMM    -\n"));
	assert_null(strstr(text, "web"));
	assert_null(strstr(text, "nested"));
	free(text);

	options.json = true;
	text = report_of(&e, &options);
	assert_non_null(strstr(text, "\"where\":\"nested guest\""));
	assert_null(strstr(text, "web"));
	free(text);
	free_example(&e);
}

static void process_of_sample_is(const struct example *e, size_t i, const char *name,
				 const char *function)
{
	struct place place;

	place_of(&e->places, &e->rec.record[i], &place);
	assert_string_equal(place.process, name);
	assert_string_equal(place.function, function);
}

/* A page table of two processes: the guest's TSC is the host's, times 3/2, less 10. */
static void reports_at_times(void **state)
{
	const struct kvm_vpmu_record records[] = {
		in_guest(10, 1, 3, 0x1000fff, 0x400010), in_guest(20, 1, 3, 0x1000fff, 0x400010),
		in_guest(30, 1, 3, 0x1000fff, 0x400010), in_guest(40, 2, 3, 0x1000fff, 0x400010),
	};
	struct example e = { };
	char *text = xasprintf("vpmu-guest-map 1\n"
			       "p 1 1000000 64 0 first\ne 1 %x\np 2 1000000 65 %x second\n"
			       "f 0 /bin/first\ny 0 0 1000 work\nm 1 400000 401000 0 0\n",
			       (BEGIN + 20) * 3 / 2 - 10, (BEGIN + 30) * 3 / 2 - 10);

	e.maps[0] = map_of(text);
	e.maps[1] = map_of(text);
	free(text);
	write_file(records, ARRAY_SIZE(records), true);
	read_file(&e.rec);
	e.places = (struct places){ .recording = &e.rec, .map = e.maps };
	process_of_sample_is(&e, 0, "first", "work");
	process_of_sample_is(&e, 1, "cr3 0x1000000", "0x400xxx");
	process_of_sample_is(&e, 2, "second", "0x400xxx");
	/* That VM's TSC isn't known. */
	process_of_sample_is(&e, 3, "cr3 0x1000000", "0x400xxx");
	guest_map_free(e.maps[1]);
	free_example(&e);
}

/* ---- call graphs */

static struct kvm_vpmu_record stack(uint64_t at, uint64_t vm, int why, unsigned int nr,
				    const uint64_t *address)
{
	struct kvm_vpmu_record r = {
		.tsc = BEGIN + at, .vm = vm, .type = KVM_VPMU_RECORD_STACK, .mode = why, .nr = nr,
	};

	memcpy(r.address, address, nr * sizeof(*address));
	return r;
}

/* "rest of it" calls itself, and that "handle", which calls itself three times, and that "malloc". */
static const uint64_t deep[] = {
	0x400201, 0x400201, 0x400201, 0x400220, 0x400221, 0x400222,
}, flat[] = { 0xffffffff81000106 }, unknown[] = { 0x500001 };

/* Another with the functions of another guest, whose kernel has no frame pointers, if @orc is true */
static void make_stacks(struct example *e, bool orc)
{
	struct kvm_vpmu_record records[] = {
		in_guest(10, 1, 3, 0x1000000, 0x7f0000000500),
		/* The last one is first in the file. */
		stack(10, 1, KVM_VPMU_STACK_END, 1, deep + 5),
		stack(10, 1, KVM_VPMU_STACK_MORE, 5, deep),
		in_guest(11, 1, 0, 0x1000000, 0xffffffff81000105),
		stack(11, 1, KVM_VPMU_STACK_INVALID, 1, flat),
		in_guest(12, 2, 3, 0x5000, 0x400200),
		stack(12, 2, KVM_VPMU_STACK_UNMAPPED, 1, unknown),
		/* Without a stack; a stack of nothing; a stack without a sample */
		in_guest(13, 2, 3, 0x5000, 0x400200),
		in_guest(14, 2, 3, 0x5000, 0x400200),
		stack(14, 2, KVM_VPMU_STACK_MODE, 0, unknown),
		stack(15, 1, KVM_VPMU_STACK_END, 1, flat),
	};
	char *map = xasprintf("%s%s", map_text, orc ? "o\n" : "");

	*e = (struct example){ .maps = { map_of(map) } };
	free(map);
	write_file(records, ARRAY_SIZE(records), true);
	read_file(&e->rec);
	e->places = (struct places){ .recording = &e->rec, .map = e->maps };
}

static const char stacks_text[] =
	"Functions\n"
	"TOTAL  SHARE  SAMPLES  VM   WHERE         PROCESS        FUNCTION    MODULE\n"
	"60.0%  60.0%        3  db   guest user    cr3 0x5000     0x400xxx    -\n"
	"20.0%  20.0%        1  web  guest kernel  nginx: worker  do_work     kernel\n"
	"20.0%  20.0%        1  web  guest user    nginx: worker  malloc      /usr/lib/libc.so\n"
	"20.0%   0.0%        0  web  guest user    nginx: worker  handle      /usr/sbin/nginx\n"
	"20.0%   0.0%        0  web  guest user    nginx: worker  rest of it  /usr/sbin/nginx\n"
	"20.0%   0.0%        0  db   guest user    cr3 0x5000     0x500xxx    -\n";

static const char deep_folded[] =
	"db;guest user;cr3 0x5000;0x400xxx 2000\n"
	"db;guest user;cr3 0x5000;0x500xxx;0x400xxx 1000\n"
	"web;guest kernel;nginx: worker;do_work;do_work 1000\n"
	"web;guest user;nginx: worker;rest of it;rest of it;handle;handle;handle;handle;malloc 1000\n";

static const char orc_folded[] =
	"db;guest user;cr3 0x5000;0x400xxx 2000\n"
	"db;guest user;cr3 0x5000;0x500xxx;0x400xxx 1000\n"
	"web;guest kernel;nginx: worker;do_work 1000\n"
	"web;guest user;nginx: worker;rest of it;rest of it;handle;handle;handle;handle;malloc 1000\n";

/* What is exported, to be freed */
static char *export_of(const struct example *e,
		       void (*export)(const struct places *places, FILE *out), size_t *size)
{
	char *text;
	FILE *out = open_memstream(&text, size);

	export(&e->places, out);
	fclose(out);
	return text;
}

static void export_is(const struct example *e,
		      void (*export)(const struct places *places, FILE *out), const char *expected)
{
	size_t size;
	char *text = export_of(e, export, &size);

	assert_string_equal(text, expected);
	free(text);
}

static void call_graphs(void **state)
{
	struct report_options options = { .limit = 100 };
	struct example e;
	char *text;

	make_stacks(&e, false);
	assert_int_equal(e.rec.count, 5);
	assert_int_equal(e.rec.stacks.count, 5);
	assert_int_equal(e.rec.addresses, 9);
	text = report_of(&e, &options);
	assert_non_null(strstr(text, "Call graphs: 3 of 5 samples in guests\n"));
	assert_string_equal(strstr(text, "Functions\n"), stacks_text);
	free(text);
	export_is(&e, export_folded, deep_folded);
	free_example(&e);
	make_stacks(&e, true);
	export_is(&e, export_folded, orc_folded);
	free_example(&e);
}

/* Ways: a return address on top of the stack, and behind it RBP; by RBP; registers; other stacks; ends */
static const char unwind_text[] =
	"vpmu-guest-map 1\n"
	"o\n"
	"w 0 5 8 0 0 2\n"
	"w 1 5 10 1 fff0 2\n"
	"w 2 4 10 1 fff0 2\n"
	"w 3 5 0 0 0 3\n"
	"w 4 5 8 0 0 4\n"
	"w 5 9 8 0 0 2\n"
	"w 6 0 0 0 0 1\n"
	"w 7 8 fff8 0 0 2\n"
	"w 8 2 0 0 0 2\n"
	"x ffffffff81004000 0:4 1000:5 1000:6 1000:7 1000:8\n"
	"x ffffffff81000000 0:0 1000:1 1000:2 1000:3\n";

/* Functions, by their ways */
#define WAY(n)		(0xffffffff81000000 + (n) * 0x1000)
#define STACK		0xffffc90000013e00
#define STACK_END	0xffffc90000014000
#define OTHER_STACK	0xffffc90000403000
#define WORD(offset, word)	\
	((uint64_t)(offset) << KVM_VPMU_WORDS_OFFSET |	\
	 ((word) & ((1ull << KVM_VPMU_WORDS_OFFSET) - 1)))

static void callers_are(const struct guest_map *map, uint64_t ip, const uint64_t *word, size_t nr,
			const uint64_t *expected, unsigned int callers)
{
	uint64_t caller[KVM_VPMU_STACK_MAX];
	unsigned int i;

	assert_int_equal(unwind_kernel(map, ip, word, nr, caller), callers);
	for (i = 0; i < callers; i++)
		assert_int_equal(caller[i], expected[i]);
}

static void kernel_unwinding(void **state)
{
	/* A function with RBP is called by one that has saved RBP, which an exception's entry called. */
	static const uint64_t word[] = {
		STACK, STACK + 0x20,
		WORD(0x20, STACK + 0x200), WORD(0x28, WAY(1) + 5), WORD(0x30, STACK + 0x300),
		WORD(0x38, WAY(3) + 5), WORD(0x40 + 32, STACK + 0x138), WORD(0x40 + 128, WAY(2)),
		WORD(0x40 + 152, STACK + 0x100), WORD(0x138, STACK + 0x400),
		/* A function's last instruction called what was interrupted at its first one. */
		WORD(0x140, WAY(1)),
	};
	static const uint64_t callers[] = { WAY(1) + 4, WAY(3) + 4, WAY(2), WAY(1) - 1 };
	/* An interrupt's stack leads to the one before, where the CPU has saved what it does. */
	static const uint64_t interrupt[] = {
		STACK_END - 16, 0, WORD(0, WAY(5) + 5),
		WORD(KVM_VPMU_WORDS_NEXT, OTHER_STACK), WORD(0, WAY(4) + 5),
		WORD(0x10, WAY(6)), WORD(0x28, OTHER_STACK + 0x100),
	};
	static const uint64_t interrupted[] = { WAY(5) + 4, WAY(4) + 4, WAY(6) };
	/* Not from within a stack, and not without another one */
	static const uint64_t within[] = {
		STACK, 0, WORD(0, WAY(5) + 5), WORD(8, STACK + 0x80), WORD(0x80, WAY(4) + 5),
		WORD(KVM_VPMU_WORDS_NEXT, OTHER_STACK), WORD(0, WAY(4) + 5),
	};
	/* The stack is at the address in the word in front of RBP. */
	static const uint64_t indirect[] = {
		STACK, STACK + 0x10, WORD(8, STACK + 0x40), WORD(0x38, WAY(6)),
	};
	static const uint64_t by_indirect[] = { WAY(6) - 1 };
	struct guest_map *map = map_of(unwind_text);

	assert_non_null(map);
	callers_are(map, WAY(2) + 9, word, sizeof(word) / 8, callers, 4);
	/* The same without RBP, and without anything */
	callers_are(map, WAY(2) + 9, word, 2, NULL, 0);
	callers_are(map, WAY(2) + 9, word, 1, NULL, 0);
	callers_are(map, WAY(2) + 9, word, 0, NULL, 0);
	/* One word less is one caller less. */
	callers_are(map, WAY(2) + 9, word, 10, callers, 3);
	callers_are(map, WAY(2) + 9, word, 8, callers, 2);
	callers_are(map, WAY(0), interrupt, sizeof(interrupt) / 8, interrupted, 3);
	callers_are(map, WAY(0), interrupt, 3, interrupted, 1);
	callers_are(map, WAY(0), within, sizeof(within) / 8, interrupted, 1);
	callers_are(map, WAY(7), indirect, sizeof(indirect) / 8, by_indirect, 1);
	/* The end, a register that isn't known, and no function */
	callers_are(map, WAY(6), word, sizeof(word) / 8, NULL, 0);
	callers_are(map, WAY(8), word, sizeof(word) / 8, NULL, 0);
	callers_are(map, WAY(0) - 1, word, sizeof(word) / 8, NULL, 0);
	guest_map_free(map);

	assert_null(map_of("vpmu-guest-map 1\nw 1 5 8 0 0 2\n"));
	assert_null(map_of("vpmu-guest-map 1\nw 0 5 8 0 0\n"));
	assert_null(map_of("vpmu-guest-map 1\nx ffffffff81000000 0:0\n"));
	assert_null(map_of("vpmu-guest-map 1\nw 0 5 8 0 0 2\nx ffffffff81000000 0\n"));
	assert_null(map_of("vpmu-guest-map 1\nw 0 5 8 0 0 2\nx ffffffff81000000 0:0 x\n"));
}

/* ---- exports */

static const char folded_text[] =
	"db;VMM;200;0x9xxx 1000\n"
	"db;guest user;cr3 0x5000;0x400xxx 1000\n"
	"db;nested guest;0x1xxx 1000\n"
	"host;idle;0xffffffff80000xxx 1000\n"
	"host;perf;main 1000\n"
	"web;KVM;qemu;schedule 1000\n"
	"web;guest kernel;nginx: worker;do_work 1000\n"
	"web;guest user;nginx: worker;handle 2000\n";

/* 2 ticks are 1 ns. */
static const char trace_text[] =
	"{\"displayTimeUnit\":\"ns\",\"traceEvents\":["
	"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"VM web\"}},"
	"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"vCPU 0\"}},"
	"{\"ph\":\"X\",\"name\":\"loaded\",\"pid\":1,\"tid\":0,\"ts\":0.000000,\"dur\":30.000000,"
	"\"args\":{\"cpu\":11,\"kvm_us\":1.500000}},"
	"{\"ph\":\"X\",\"name\":\"halted\",\"pid\":1,\"tid\":0,\"ts\":30.000000,\"dur\":20.000000,"
	"\"args\":{\"cpu\":11}}]}\n";

static void exports(void **state)
{
	struct example e;

	make_example(&e, KVM_VPMU_PUT_HALTED, 3000);
	export_is(&e, export_folded, folded_text);
	export_is(&e, export_trace, trace_text);
	free_example(&e);
}

/* ---- perf.data */

static char *remove_tree(const char *dir)
{
	char *command = xasprintf("rm -r %s", dir);

	assert_int_equal(system(command), 0);
	return command;
}

/* How often each kind of record is in a file's data, which has to end with the last one */
struct kinds {
	unsigned int mmap, comm, sample, index, other;
	uint64_t value;
};

static struct kinds read_data(const char *data, size_t size)
{
	struct kinds kinds = { };
	size_t at = 0;

	while (at < size) {
		const struct perf_event_header *header = (const void *)(data + at);
		const uint64_t *words = (const void *)(header + 1);

		assert_true(header->size >= sizeof(*header) && at + header->size <= size);
		assert_int_equal(header->size % 8, 0);
		kinds.mmap += header->type == PERF_RECORD_MMAP;
		kinds.comm += header->type == PERF_RECORD_COMM;
		kinds.index += header->type == PERF_RECORD_ID_INDEX;
		if (header->type == PERF_RECORD_SAMPLE) {
			kinds.sample++;
			/* Identifier, IP, TID, time, CPU, period */
			kinds.value += words[5];
		}
		at += header->size;
	}
	assert_int_equal(at, size);
	return kinds;
}

static char *read_whole(const char *file, size_t *size)
{
	FILE *f = fopen(file, "re");
	char *text;

	assert_non_null(f);
	fseek(f, 0, SEEK_END);
	*size = ftell(f);
	rewind(f);
	text = malloc(*size);
	assert_int_equal(fread(text, 1, *size, f), *size);
	fclose(f);
	return text;
}

/* What @file calls the function at @offset */
static void symbol_is(const char *file, uint64_t offset, uint64_t size, const char *name)
{
	FILE *f = fopen(file, "re");
	Elf_Scn *section = NULL;
	bool found = false;
	Elf *elf;

	assert_non_null(f);
	elf_version(EV_CURRENT);
	elf = elf_begin(fileno(f), ELF_C_READ, NULL);
	assert_non_null(elf);
	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data = elf_getdata(section, NULL);
		GElf_Shdr shdr;
		GElf_Sym sym;
		size_t i;

		assert_non_null(gelf_getshdr(section, &shdr));
		for (i = 0; shdr.sh_type == SHT_SYMTAB && gelf_getsym(data, i, &sym); i++)
			found |= sym.st_value == offset && sym.st_size == size &&
				 !strcmp(elf_strptr(elf, shdr.sh_link, sym.st_name), name);
	}
	assert_true(found);
	elf_end(elf);
	fclose(f);
}

static void check_perf(const struct example *e, unsigned int mmap, unsigned int comm,
		       unsigned int sample, unsigned int index, uint64_t value)
{
	struct kinds kinds;
	uint64_t *words;
	size_t size;
	char *file;

	assert_true(export_perf(&e->places, "perf-test"));
	file = read_whole("perf-test/data", &size);
	assert_memory_equal(file, "PERFILE2", 8);
	words = (uint64_t *)file;
	/* The section of data */
	kinds = read_data(file + words[5], words[6]);
	assert_int_equal(kinds.mmap, mmap);
	assert_int_equal(kinds.comm, comm);
	assert_int_equal(kinds.sample, sample);
	assert_int_equal(kinds.index, index);
	assert_int_equal(kinds.value, value);
	free(file);
}

static void perf_data(void **state)
{
	char dir[] = "/tmp/vpmu-perf-XXXXXX", *cwd = getcwd(NULL, 0);
	struct example e;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	/*
	 * Mapped: the kernel's place, kvm, perf, the guest's kernel and nginx.  Processes: qemu, 200, idle,
	 * perf; nginx, and web itself; of db one with CR3 and one without.  A halt of 40,000 ticks.
	 */
	make_example(&e, KVM_VPMU_PUT_HALTED, 3000);
	check_perf(&e, 5, 8, 10, 6, 9 * 1000 + 20000);
	symbol_is("perf-test/guest-1/100/nginx", 0x200, 2, "handle");
	symbol_is("perf-test/guest-1/kernel/kernel", 0x105, 1, "do_work");
	symbol_is("perf-test/host/kernel/kvm", 0, 1, "schedule");
	symbol_is("perf-test/host/300/perf", 0, 1, "main");
	free_example(&e);
	/* Callers: libc and nginx, the latter with what is behind the calls */
	make_stacks(&e, false);
	check_perf(&e, 4, 2, 5, 6, 5 * 1000);
	symbol_is("perf-test/guest-1/100/nginx", 0x200, 0x20, "handle");
	symbol_is("perf-test/guest-1/100/nginx", 0x220, 3, "rest of it");
	symbol_is("perf-test/guest-1/100/libc.so", 0x500, 1, "malloc");
	free_example(&e);
	assert_int_equal(chdir(cwd), 0);
	free(cwd);
	free(remove_tree(dir));
}

/* ---- pprof */

#define PPROF_SIZE	1000000

static Perftools__Profiles__Profile *pprof_of(const struct example *e)
{
	size_t size;
	char *text = export_of(e, export_pprof, &size);
	uint8_t *buffer = malloc(PPROF_SIZE);
	z_stream z = {
		.next_in = (unsigned char *)text, .avail_in = size,
		.next_out = buffer, .avail_out = PPROF_SIZE,
	};
	Perftools__Profiles__Profile *profile;

	assert_int_equal(inflateInit2(&z, MAX_WBITS + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	profile = perftools__profiles__profile__unpack(NULL, z.total_out, buffer);
	assert_non_null(profile);
	inflateEnd(&z);
	free(buffer);
	free(text);
	return profile;
}

static const char *text_of(const Perftools__Profiles__Profile *p, int64_t number)
{
	assert_in_range(number, 0, p->n_string_table - 1);
	return p->string_table[number];
}

/* FUNCTION [0xADDRESS [FILE]] */
static void print_location(const Perftools__Profiles__Profile *p, uint64_t id, FILE *out)
{
	const Perftools__Profiles__Location *location;
	const Perftools__Profiles__Function *function;

	assert_in_range(id, 1, p->n_location);
	location = p->location[id - 1];
	assert_int_equal(location->n_line, 1);
	assert_in_range(location->line[0]->function_id, 1, p->n_function);
	function = p->function[location->line[0]->function_id - 1];
	assert_int_equal(function->name, function->system_name);
	fputs(text_of(p, function->name), out);
	if (location->address)
		fprintf(out, " %#lx", location->address);
	if (!location->mapping_id)
		return;
	assert_in_range(location->mapping_id, 1, p->n_mapping);
	fprintf(out, " %s", text_of(p, p->mapping[location->mapping_id - 1]->filename));
}

/* LOCATION;LOCATION ...: VALUE... KEY=LABEL... */
static void print_sample(const Perftools__Profiles__Profile *p,
			 const Perftools__Profiles__Sample *sample, FILE *out)
{
	size_t i;

	for (i = 0; i < sample->n_location_id; i++) {
		fputs(i ? ";" : "", out);
		print_location(p, sample->location_id[i], out);
	}
	assert_int_equal(sample->n_value, p->n_sample_type);
	fprintf(out, ": %ld %ld", sample->value[0], sample->value[1]);
	for (i = 0; i < sample->n_label; i++) {
		const Perftools__Profiles__Label *label = sample->label[i];

		fprintf(out, " %s=", text_of(p, label->key));
		if (label->str) {
			fputs(text_of(p, label->str), out);
			continue;
		}
		/* Else pprof takes 0 for none. */
		assert_int_equal(label->num_unit, label->key);
		fprintf(out, "%ld", label->num);
	}
	fputc('\n', out);
}

static void samples_are(const Perftools__Profiles__Profile *p, const char *expected)
{
	char *text;
	size_t size, i;
	FILE *out = open_memstream(&text, &size);

	for (i = 0; i < p->n_sample; i++)
		print_sample(p, p->sample[i], out);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

static void type_is(const Perftools__Profiles__Profile *p,
		    const Perftools__Profiles__ValueType *type, const char *expected)
{
	assert_string_equal(text_of(p, type->type), expected);
	assert_string_equal(text_of(p, type->unit), "count");
}

/* IDs are as print_location() takes them, and nothing is there twice. */
static void tables_are_good(const Perftools__Profiles__Profile *p)
{
	size_t i, j;

	assert_string_equal(p->string_table[0], "");
	for (i = 0; i < p->n_string_table; i++)
		for (j = 0; j < i; j++)
			assert_string_not_equal(p->string_table[i], p->string_table[j]);
	for (i = 0; i < p->n_function; i++) {
		assert_int_equal(p->function[i]->id, i + 1);
		for (j = 0; j < i; j++)
			assert_int_not_equal(p->function[i]->name, p->function[j]->name);
	}
	for (i = 0; i < p->n_mapping; i++) {
		assert_int_equal(p->mapping[i]->id, i + 1);
		assert_true(p->mapping[i]->has_functions);
		for (j = 0; j < i; j++)
			assert_int_not_equal(p->mapping[i]->filename, p->mapping[j]->filename);
	}
	for (i = 0; i < p->n_location; i++) {
		const Perftools__Profiles__Location *at = p->location[i], *other;

		assert_int_equal(at->id, i + 1);
		for (j = 0; j < i; j++) {
			other = p->location[j];
			assert_false(other->mapping_id == at->mapping_id &&
				     other->address == at->address &&
				     other->line[0]->function_id == at->line[0]->function_id);
		}
	}
}

static const char pprof_text[] =
	"handle 0x400200 /usr/sbin/nginx;nginx: worker;guest user;web: 1 1000 vm=web "
	"where=guest user process=nginx: worker vcpu=0 cpu=0\n"
	"handle 0x400201 /usr/sbin/nginx;nginx: worker;guest user;web: 1 1000 vm=web "
	"where=guest user process=nginx: worker vcpu=0 cpu=1\n"
	"do_work 0xffffffff81000105 kernel;nginx: worker;guest kernel;web: 1 1000 vm=web "
	"where=guest kernel process=nginx: worker vcpu=0 cpu=2\n"
	"0x400xxx 0x400200;cr3 0x5000;guest user;db: 1 1000 vm=db where=guest user "
	"process=cr3 0x5000 vcpu=0 cpu=3\n"
	"0x1xxx 0x1000;nested guest;db: 1 1000 vm=db where=nested guest vcpu=0 cpu=4\n"
	"schedule 0xffffffff80010000 kvm;qemu;KVM;web: 1 1000 vm=web where=KVM process=qemu "
	"vcpu=0 cpu=5\n"
	"main 0x1000 perf;perf;host: 1 1000 where=host process=perf cpu=6\n"
	"0x9xxx 0x9999;200;VMM;db: 1 1000 vm=db where=VMM process=200 cpu=7\n"
	"0xffffffff80000xxx 0xffffffff80000001 kernel;idle;host: 1 1000 where=host "
	"process=idle cpu=8\n";

static const char deep_pprof[] =
	"malloc 0x7f0000000500 /usr/lib/libc.so;handle 0x400200 /usr/sbin/nginx;handle "
	"0x400200 /usr/sbin/nginx;handle 0x400200 /usr/sbin/nginx;handle 0x40021f "
	"/usr/sbin/nginx;rest of it 0x400220 /usr/sbin/nginx;rest of it 0x400221 "
	"/usr/sbin/nginx;nginx: worker;guest user;web: 1 1000 vm=web where=guest user "
	"process=nginx: worker vcpu=0 cpu=0\n"
	"do_work 0xffffffff81000105 kernel;do_work 0xffffffff81000105 kernel;nginx: "
	"worker;guest kernel;web: 1 1000 vm=web where=guest kernel process=nginx: worker "
	"vcpu=0 cpu=3\n"
	"0x400xxx 0x400200;0x500xxx 0x500000;cr3 0x5000;guest user;db: 1 1000 vm=db "
	"where=guest user process=cr3 0x5000 vcpu=0 cpu=5\n"
	"0x400xxx 0x400200;cr3 0x5000;guest user;db: 1 1000 vm=db where=guest user "
	"process=cr3 0x5000 vcpu=0 cpu=7\n"
	"0x400xxx 0x400200;cr3 0x5000;guest user;db: 1 1000 vm=db where=guest user "
	"process=cr3 0x5000 vcpu=0 cpu=8\n";

static void pprofs(void **state)
{
	Perftools__Profiles__Profile *p;
	struct example e;

	make_example(&e, KVM_VPMU_PUT_READ, 0);
	p = pprof_of(&e);
	assert_int_equal(p->n_sample_type, 2);
	type_is(p, p->sample_type[0], "samples");
	type_is(p, p->sample_type[1], "cycles");
	assert_string_equal(text_of(p, p->default_sample_type), "cycles");
	type_is(p, p->period_type, "cycles");
	assert_int_equal(p->period, 1000);
	assert_int_equal(p->time_nanos, 1800000000 * NS_PER_S);
	assert_int_equal(p->duration_nanos, LENGTH / 2);
	assert_int_equal(p->n_comment, 1);
	assert_string_equal(text_of(p, p->comment[0]), "cloud, Linux 6.12, vpmu " VERSION);
	tables_are_good(p);
	samples_are(p, pprof_text);
	perftools__profiles__profile__free_unpacked(p, NULL);

	/* With a frequency */
	e.rec.period = 0;
	p = pprof_of(&e);
	assert_null(p->period_type);
	assert_int_equal(p->period, 0);
	perftools__profiles__profile__free_unpacked(p, NULL);
	free_example(&e);

	make_stacks(&e, false);
	p = pprof_of(&e);
	tables_are_good(p);
	samples_are(p, deep_pprof);
	perftools__profiles__profile__free_unpacked(p, NULL);
	free_example(&e);
}

/* More than zlib writes at once */
static void large_pprof(void **state)
{
	static struct kvm_vpmu_record records[5000];
	Perftools__Profiles__Profile *p;
	struct example e = { };
	uint64_t ip = 1;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(records); i++) {
		/* As random numbers are, so that it can't be compressed much */
		ip = ip * 6364136223846793005 + 1442695040888963407;
		records[i] = in_guest(10 + i, 1, 3, 0x1000, ip | 1);
	}
	write_file(records, ARRAY_SIZE(records), true);
	read_file(&e.rec);
	e.places.recording = &e.rec;
	p = pprof_of(&e);
	assert_int_equal(p->n_sample, ARRAY_SIZE(records));
	for (i = 0; i < ARRAY_SIZE(records); i++)
		assert_int_equal(p->location[p->sample[i]->location_id[0] - 1]->address,
				 records[i].ip);
	perftools__profiles__profile__free_unpacked(p, NULL);
	recording_free(&e.rec);
}

/* ---- flame graphs */

static const char svg_text[] =
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"128\">\n"
	"<title>cycles, cloud, 4 samples</title>\n"
	"<style>";

static const char frames_text[] =
	"<svg class=\"f k3\" x=\"91.662847%\" y=\"112\" width=\"4.166493%\" height=\"16\">"
	"<title>work more\n"
	"1,000 cycles, 4.1%</title><rect width=\"100%\" height=\"100%\"/><text x=\"3\" "
	"y=\"12\">work more</text></svg>\n"
	"<svg class=\"f k3\" x=\"0.000000%\" y=\"96\" width=\"95.829340%\" height=\"16\">"
	"<title>work\n"
	"23,000 cycles, 95.8%</title><rect width=\"100%\" height=\"100%\"/><text x=\"3\" "
	"y=\"12\">work</text></svg>\n"
	"<svg class=\"f k3\" x=\"95.829340%\" y=\"96\" width=\"4.166493%\" height=\"16\">"
	"<title>work more\n"
	"1,000 cycles, 4.1%</title><rect width=\"100%\" height=\"100%\"/><text x=\"3\" "
	"y=\"12\">work more</text></svg>\n"
	"<svg class=\"f k3\" x=\"0.000000%\" y=\"80\" width=\"100.000000%\" height=\"16\">"
	"<title>guest kernel\n"
	"24,001 cycles, 100.0%</title><rect width=\"100%\" height=\"100%\"/><text x=\"3\" "
	"y=\"12\">guest kernel</text></svg>\n"
	"<svg class=\"f\" x=\"0.000000%\" y=\"64\" width=\"100.000000%\" height=\"16\">"
	"<title>web\n"
	"24,001 cycles, 100.0%</title><rect width=\"100%\" height=\"100%\"/><text x=\"3\" "
	"y=\"12\">web</text></svg>\n"
	"<svg class=\"f\" x=\"0.000000%\" y=\"48\" width=\"100.000000%\" height=\"16\">"
	"<title>all\n"
	"24,001 cycles, 100.0%</title><rect width=\"100%\" height=\"100%\"/><text x=\"3\" "
	"y=\"12\">all</text></svg>\n"
	"<script>";

/* Three functions whose names begin alike, one of which is narrow */
static void make_alike(struct example *e)
{
	struct kvm_vpmu_record records[] = {
		in_guest(10, 1, 0, 0, 0xffffffff81000101),
		in_guest(11, 1, 0, 0, 0xffffffff81000101),
		stack(11, 1, KVM_VPMU_STACK_END, 1, (uint64_t []){ 0xffffffff81000001 }),
		in_guest(12, 1, 0, 0, 0xffffffff81000001),
		in_guest(13, 1, 0, 0, 0xffffffff81000201),
		stack(13, 1, KVM_VPMU_STACK_END, 3, (uint64_t []){
			0xffffffff81000202, 0xffffffff81000202, 0xffffffff81000202 }),
	};

	records[3].value = 22000;
	records[4].value = 1;	/* and deeper than all others */
	*e = (struct example){ .maps = { map_of(
		"vpmu-guest-map 1\n"
		"k ffffffff81000000 work\n"
		"k ffffffff81000100 work more\n"
		"k ffffffff81000200 work;more\n") } };
	write_file(records, ARRAY_SIZE(records), true);
	read_file(&e->rec);
	e->places = (struct places){ .recording = &e->rec, .map = e->maps };
}

static void flame_graphs(void **state)
{
	struct example e;
	char *text;
	size_t size;

	make_alike(&e);
	text = export_of(&e, export_svg, &size);
	assert_memory_equal(text, svg_text, strlen(svg_text));
	assert_non_null(strstr(text, frames_text));
	free(text);
	free_example(&e);

	/* Without samples */
	write_file(NULL, 0, true);
	read_file(&e.rec);
	e.places = (struct places){ .recording = &e.rec };
	text = export_of(&e, export_svg, &size);
	assert_non_null(strstr(text, "<title>cycles, cloud, 0 samples</title>"));
	assert_null(strstr(text, "class=\"f"));
	free(text);
	recording_free(&e.rec);
}

/* ---- names that are made to harm */

static const char hostile_map[] =
	"vpmu-guest-map 1\n"
	"k ffffffff81000000 ]]></text></svg><script>alert(1)</script>;&lt;\x1b[31m\n"
	"k ffffffff81000100 \xff\xc3(\xef\xbf\xbe\xed\xa0\x80\x01\xc3\xa4\n"
	"p 1 1000000 64 0 \" onload='alert(2)' --><!--\n";

/* 127 bytes is all that is kept of a VM's name: its last character is cut off. */
static const char hostile_names[] =
	"{\"vm\": [{\"id\": 1, \"pid\": 100, \"name\": \"<b>&\\\"'%0120d\xc3\xa4\"}]}";

/* Without a trigraph */
static const char hostile_folded[] =
	"<b>&\"'%0120d?;guest kernel;\" onload='alert(2)' --><!--;"
	"?" "?(?????\xc3\xa4;]]></text></svg><script>alert(1)</script>:&lt:?[31m 1000\n";

#define ESCAPED "]]&gt;&lt;/text&gt;&lt;/svg&gt;&lt;script&gt;alert(1)&lt;/script&gt;:&amp;lt:?[31m"

static const char hostile_frames[] =
	"<title>" ESCAPED "\n1,000 &lt;event/&gt;, 100.0%</title>"
	"<rect width=\"100%\" height=\"100%\"/><text x=\"3\" y=\"12\">" ESCAPED "</text></svg>\n";

static void hostile_export(void **state)
{
	const struct kvm_vpmu_record records[] = {
		in_guest(10, 1, 0, 0x1000000, 0xffffffff81000001),
		stack(10, 1, KVM_VPMU_STACK_END, 1, (uint64_t []){ 0xffffffff81000102 }),
	};
	struct example e = { .maps = { map_of(hostile_map) } };
	Perftools__Profiles__Profile *p;
	char *text;
	size_t size, i;

	text = xasprintf(hostile_names, 0);
	names_text = text;
	write_file(records, ARRAY_SIZE(records), true);
	names_text = end_text;
	free(text);
	read_file(&e.rec);
	e.places = (struct places){ .recording = &e.rec, .map = e.maps };
	text = xasprintf(hostile_folded, 0);
	export_is(&e, export_folded, text);
	free(text);

	e.rec.event = "<event/>";
	e.rec.host = "\"&<host>";
	text = export_of(&e, export_svg, &size);
	assert_non_null(strstr(text, "<title>&lt;event/&gt;, &quot;&amp;&lt;host&gt;, 1 samples</title>"));
	assert_non_null(strstr(text, hostile_frames));
	assert_int_equal(strlen(text), size);
	for (i = 0; i < size; i++)
		if (text[i] == '\n' || text[i] == '\t')
			text[i] = ' ';
	/* Nothing else is left that would have to be cleaned. */
	clean_text(text);
	assert_int_equal(strlen(text), size);
	free(text);

	p = pprof_of(&e);
	tables_are_good(p);
	for (i = 0; i < p->n_string_table; i++) {
		text = xasprintf("%s", p->string_table[i]);
		clean_text(text);
		assert_string_equal(text, p->string_table[i]);
		free(text);
	}
	perftools__profiles__profile__free_unpacked(p, NULL);
	free_example(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files), cmocka_unit_test(broken_files), cmocka_unit_test(states),
		cmocka_unit_test(looks), cmocka_unit_test(looks_at_absent),
		cmocka_unit_test(lost_switches), cmocka_unit_test(several),
		cmocka_unit_test(guest_maps), cmocka_unit_test(own_maps),
		cmocka_unit_test(shared_roots),
		cmocka_unit_test(guest_clocks), cmocka_unit_test(reports),
		cmocka_unit_test(reports_at_times), cmocka_unit_test(exports),
		cmocka_unit_test(call_graphs), cmocka_unit_test(kernel_unwinding),
		cmocka_unit_test(perf_data), cmocka_unit_test(pprofs),
		cmocka_unit_test(large_pprof), cmocka_unit_test(flame_graphs),
		cmocka_unit_test(hostile_export),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
