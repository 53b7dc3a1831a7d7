// SPDX-License-Identifier: GPL-2.0-or-later
/* What commands print, as text and JSON, on a device of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <json-c/json.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "fake.h"
#include "module.h"
#include "output.h"
#include "util.h"

/* No processes: all names are "?". */
static struct context text_context = { .proc = "/nonexistent" };
static struct context json_context = { .json = true, .proc = "/nonexistent" };

static void numbers(void **state)
{
	char buf[NUMBER_SIZE];

	assert_string_equal(format_count(buf, 0), "0");
	assert_string_equal(format_count(buf, 999), "999");
	assert_string_equal(format_count(buf, 1000), "1,000");
	assert_string_equal(format_count(buf, 123456), "123,456");
	assert_string_equal(format_count(buf, UINT64_MAX), "18,446,744,073,709,551,615");

	assert_string_equal(format_time(buf, 0), "0.000 s");
	assert_string_equal(format_time(buf, 1234567890123), "1,234.567 s");
	assert_string_equal(format_time(buf, UINT64_MAX), "18,446,744,073.709 s");

	assert_string_equal(format_rate(buf, NAN), "-");
	assert_string_equal(format_rate(buf, 0), "0");
	assert_string_equal(format_rate(buf, 0.04), "0.0");
	assert_string_equal(format_rate(buf, 99.94), "99.9");
	assert_string_equal(format_rate(buf, 99.96), "100");
	assert_string_equal(format_rate(buf, 1234567.8), "1,234,568");

	assert_string_equal(format_short(buf, NAN), "-");
	assert_string_equal(format_short(buf, 0), "0");
	assert_string_equal(format_short(buf, 12.34), "12.3");
	assert_string_equal(format_short(buf, 9999), "9999");
	assert_string_equal(format_short(buf, 9999.6), "10.0k");
	assert_string_equal(format_short(buf, 123456), "123k");
	assert_string_equal(format_short(buf, 999499), "999k");
	assert_string_equal(format_short(buf, 999501), "1.00M");
	assert_string_equal(format_short(buf, 9.996e6), "10.0M");
	assert_string_equal(format_short(buf, 1e18), "1.00E");

	assert_string_equal(format_share(buf, 1, 2), "50.0%");
	assert_string_equal(format_share(buf, 0, 0), "100.0%");
	assert_string_equal(format_share(buf, 5, 5), "100.0%");
	/* less than all never looks like all */
	assert_string_equal(format_share(buf, 9999, 10000), "99.9%");
	assert_string_equal(format_share(buf, UINT64_MAX - 1, UINT64_MAX), "99.9%");
}

static void text_for_terminals(void **state)
{
	char text[] = "a\x1b" "b\x7f\xc3\xa4\xc3(\xe2\x80\xae\xf0\x9f\x98\x80\xc2\x9b\xc0\x80"
		"\xef\xbf\xbe\xef\xbf\xbd";

	clean_text(text);
	assert_string_equal(text, "a?b?\xc3\xa4?(?\xf0\x9f\x98\x80????\xef\xbf\xbd");
	assert_int_equal(text_width("abc"), 3);
	assert_int_equal(text_width("\xc3\xa4"), 1);
	assert_int_equal(text_fit("abc", 2), 2);
	assert_int_equal(text_fit("a\xc3\xa4" "b", 2), 3);
	assert_int_equal(text_fit("abc", 0), 0);
	if (setlocale(LC_CTYPE, "C.UTF-8")) {
		assert_int_equal(text_width("\xe7\x8c\xab"), 2);
		assert_int_equal(text_fit("\xe7\x8c\xab" "b", 1), 0);
		assert_int_equal(text_fit("\xe7\x8c\xab" "b", 2), 3);
	}
	setlocale(LC_CTYPE, "C");
}

static void tables(void **state)
{
	static const struct column columns[] = {
		{ "N", RIGHT }, { "NAME", LEFT }, { "VALUE", RIGHT }, { "NOTE", LEFT }, { }
	};
	struct table table;
	size_t size;
	char *got;
	FILE *f = open_memstream(&got, &size);

	table_init(&table, columns);
	table_print(&table, f, 0);
	table_add(&table, "%d", 1);
	table_add(&table, "\xc3\xa4");
	table_add(&table, "7");
	table_add(&table, "%s", "");
	table_add(&table, "%d", 22);
	table_add(&table, "longer");
	table_add(&table, "1234567");
	table_add(&table, "x");
	table_print(&table, f, 2);
	table_free(&table);
	fclose(f);
	assert_string_equal(got,
			    "N  NAME  VALUE  NOTE\n"
			    "   N  NAME      VALUE  NOTE\n"
			    "   1  \xc3\xa4             7\n"
			    "  22  longer  1234567  x\n");
	free(got);
}

/* What "vpmu list" prints; to be freed */
static char *list(struct device *dev, const struct context *ctx, enum status expected)
{
	size_t size;
	char *got;
	FILE *f = open_memstream(&got, &size);

	assert_int_equal(list_run(dev, ctx, f), expected);
	fclose(f);
	return got;
}

static char *stat_of(struct device *dev, struct stat_options options, enum status expected)
{
	struct event_names names;
	size_t size;
	char *got, *said;
	FILE *f = open_memstream(&got, &size), *messages = open_memstream(&said, &size);

	assert_true(event_names_init_pmu(&names, "amd64_fam19h_zen4"));
	assert_int_equal(stat_run(dev, &names, &options, f, messages), expected);
	event_names_free(&names);
	fclose(f);
	fclose(messages);
	if (expected == STATUS_NO_VM)
		assert_string_not_equal(said, "");
	else
		assert_string_equal(said, "");
	free(said);
	return got;
}

/* @text is one JSON value, and nothing but white space behind it. */
static struct json_object *parse(const char *text)
{
	struct json_tokener *t = json_tokener_new();
	struct json_object *o;

	json_tokener_set_flags(t, JSON_TOKENER_STRICT);
	o = json_tokener_parse_ex(t, text, strlen(text) + 1);
	assert_int_equal(json_tokener_get_error(t), json_tokener_success);
	json_tokener_free(t);
	return o;
}

/* Member @path of @o: "a.2.b" */
static struct json_object *get(struct json_object *o, const char *path)
{
	char *copy = strdup(path), *word, *rest;

	for (word = strtok_r(copy, ".", &rest); word; word = strtok_r(NULL, ".", &rest)) {
		if (json_object_is_type(o, json_type_array))
			o = json_object_array_get_idx(o, atoi(word));
		else if (!json_object_object_get_ex(o, word, &o))
			fail_msg("no '%s' of %s", word, path);
	}
	free(copy);
	return o;
}

static void json_is(struct json_object *o, const char *path, const char *expected)
{
	assert_string_equal(json_object_to_json_string_ext(get(o, path), JSON_C_TO_STRING_PLAIN),
			    expected);
}

static void number_is_near(struct json_object *o, const char *path, double expected)
{
	double got = json_object_get_double(get(o, path));

	if (!(got > 0.8 * expected && got < 1.25 * expected))
		fail_msg("%s is %f, not near %f", path, got, expected);
}

static void list_text(void **state)
{
	struct device dev;
	struct fake fake;
	char *got;

	fake_init(&fake, &dev, 0);
	got = list(&dev, &text_context, STATUS_OK);
	assert_string_equal(got, "ID  PID  NAME  vCPUs  FREEZE  TSC  EVENTS\n");
	free(got);

	fake_init(&fake, &dev, 2);
	fake.vm[1].freeze = KVM_VPMU_FREEZE_GUEST;
	fake.vm[1].tsc = KVM_VPMU_TSC_VCPU;
	fake.vm[1].events = KVM_VPMU_EVENTS_ON;
	fake.vm[1].pid = 1234567;
	got = list(&dev, &text_context, STATUS_OK);
	assert_string_equal(got,
			    "ID      PID  NAME  vCPUs  FREEZE  TSC   EVENTS\n"
			    "#1     1000  ?         2  hybrid  wall  off\n"
			    "#2  1234567  ?         2  guest   vcpu  on\n");
	free(got);
}

static void list_json(void **state)
{
	struct json_object *o;
	struct device dev;
	struct fake fake;
	char *got;

	fake_init(&fake, &dev, 0);
	got = list(&dev, &json_context, STATUS_OK);
	assert_string_equal(got, "[]\n");
	free(got);

	fake_init(&fake, &dev, 2);
	fake.vm[0].id = UINT64_MAX;
	/* newer than this tool */
	fake.vm[1].freeze = 77;
	got = list(&dev, &json_context, STATUS_OK);
	o = parse(got);
	assert_int_equal(json_object_array_length(o), 2);
	json_is(o, "0", "{\"id\":18446744073709551615,\"pid\":1000,\"name\":\"?\",\"vcpus\":2,"
		"\"freeze\":\"hybrid\",\"tsc\":\"wall\",\"events\":\"off\"}");
	json_is(o, "1.freeze", "null");
	json_object_put(o);
	free(got);
}

static void list_fails(void **state)
{
	struct device dev;
	struct fake fake;

	fake_init(&fake, &dev, 1);
	fake.error = -EIO;
	free(list(&dev, &text_context, STATUS_ERROR));
	free(list(&dev, &json_context, STATUS_ERROR));
}

static void stat_text(void **state)
{
	struct device dev;
	struct fake fake;
	char *got;

	fake_init(&fake, &dev, 0);
	got = stat_of(&dev, (struct stat_options){ .ctx = &text_context }, STATUS_OK);
	assert_string_equal(got, "no VM has a virtual PMU of kvm_vpmu\n");
	free(got);

	fake_init(&fake, &dev, 1);
	fake.vm[0].vcpus = 1;
	got = stat_of(&dev, (struct stat_options){ .ctx = &text_context }, STATUS_OK);
	assert_string_equal(got,
"VM #1  ?  PID 1000  freeze hybrid  tsc wall\n"
"\n"
"vCPU 0  registers amd-v2  6 counters  descheduled 11 ticks\n"
"  exits     1,000,000   emulated   1,000   overflows     30   in_kvm        14\n"
"  pmis             29   early          4   reads         50   writes        60\n"
"  rdpmcs            7   fast          12   open          13   evicted        8\n"
"  borrowed          9   gaps          10   anomalies      0\n"
"  CTR  EVENT                     INT  STATE                VALUE  ENABLED  RUNNING  NOTE\n"
"    0  RETIRED_INSTRUCTIONS:u:k  -    on               1,234,567  0.002 s  0.002 s\n"
"    1  CYCLES_NOT_IN_HALT:u      int  on     281,474,976,710,256  0.002 s  0.001 s  ! ran 50.0%, borrows\n"
"    5  r4f:u=0:k=0               -    off                  4,999  0.000 s  0.000 s  denied\n");
	free(got);
}

static void stat_json(void **state)
{
	struct json_object *o;
	struct device dev;
	struct fake fake;
	char *got;

	fake_init(&fake, &dev, 0);
	got = stat_of(&dev, (struct stat_options){ .ctx = &json_context }, STATUS_OK);
	assert_string_equal(got, "[]\n");
	free(got);

	fake_init(&fake, &dev, 2);
	got = stat_of(&dev, (struct stat_options){ .ctx = &json_context }, STATUS_OK);
	o = parse(got);
	assert_int_equal(json_object_array_length(o), 2);
	json_is(o, "1.id", "2");
	json_is(o, "1.vcpus", "2");
	assert_int_equal(json_object_array_length(get(o, "1.vcpu")), 2);
	json_is(o, "0.vcpu.1.index", "1");
	json_is(o, "0.vcpu.1.vcpu_id", "2");
	json_is(o, "0.vcpu.1.registers", "\"amd-v2\"");
	json_is(o, "0.vcpu.1.exits", "1000001");
	json_is(o, "0.vcpu.1.emulated", "1000");
	json_is(o, "0.vcpu.1.overflows", "30");
	json_is(o, "0.vcpu.1.pmis", "29");
	json_is(o, "0.vcpu.1.early", "4");
	json_is(o, "0.vcpu.1.reads", "50");
	json_is(o, "0.vcpu.1.writes", "60");
	json_is(o, "0.vcpu.1.rdpmcs", "7");
	json_is(o, "0.vcpu.1.fast", "12");
	json_is(o, "0.vcpu.1.open", "13");
	json_is(o, "0.vcpu.1.in_kvm", "14");
	json_is(o, "0.vcpu.1.evicted", "8");
	json_is(o, "0.vcpu.1.borrowed", "9");
	json_is(o, "0.vcpu.1.gaps", "10");
	json_is(o, "0.vcpu.1.anomalies", "0");
	json_is(o, "0.vcpu.1.descheduled_tsc", "11");
	json_is(o, "0.vcpu.1.counters", "6");
	assert_int_equal(json_object_array_length(get(o, "0.vcpu.1.counter")), 6);
	json_is(o, "0.vcpu.0.counter.0",
		"{\"index\":0,\"select\":4391104,\"event\":\"RETIRED_INSTRUCTIONS:u:k\","
		"\"interrupts\":false,\"enabled\":true,\"denied\":false,\"borrows\":false,"
		"\"value\":1234567,\"enabled_ns\":2000000,\"running_ns\":2000000}");
	json_is(o, "0.vcpu.0.counter.1",
		"{\"index\":1,\"select\":5308534,\"event\":\"CYCLES_NOT_IN_HALT:u\","
		"\"interrupts\":true,\"enabled\":true,\"denied\":false,\"borrows\":true,"
		"\"value\":281474976710256,\"enabled_ns\":2000000,\"running_ns\":1000000}");
	json_is(o, "0.vcpu.0.counter.2.event", "null");
	json_is(o, "0.vcpu.0.counter.5.denied", "true");
	json_object_put(o);
	free(got);
}

/* What is printed in pieces looks as if json-c had printed all of it. */
static void stat_json_layout(void **state)
{
	struct json_object *o;
	struct device dev;
	struct fake fake;
	size_t size;
	char *got, *whole;
	FILE *f = open_memstream(&whole, &size);

	fake_init(&fake, &dev, 3);
	fake.vm[1].vcpus = 1;
	got = stat_of(&dev, (struct stat_options){ .ctx = &json_context }, STATUS_OK);
	o = parse(got);
	json_print(f, o, true);
	fclose(f);
	assert_string_equal(got, whole);
	free(got);
	free(whole);

	/* a VM without vCPUs any more */
	fake_init(&fake, &dev, 1);
	fake.vm[0].vcpus = 0;
	got = stat_of(&dev, (struct stat_options){ .ctx = &json_context }, STATUS_OK);
	assert_non_null(strstr(got, "    \"vcpu\": []\n  }\n]\n"));
	o = parse(got);
	json_object_put(o);
	free(got);
}

static long peak_kb(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss;
}

/* The look itself takes 13 MB, its document would take 200. */
static void stat_json_of_many(void **state)
{
	struct stat_options options = { .ctx = &json_context };
	struct event_names names = { };
	struct device dev;
	struct fake fake;
	FILE *null = fopen("/dev/null", "w");
	long before;
	int i;

	fake_init(&fake, &dev, 200);
	for (i = 0; i < 200; i++)
		fake.vm[i].vcpus = 64;
	before = peak_kb();
	assert_int_equal(stat_run(&dev, &names, &options, null, stderr), STATUS_OK);
	if (peak_kb() - before > 40000)
		fail_msg("took %ld kB", peak_kb() - before);
	fclose(null);
}

/* One object in each line; rates are what came in an interval. */
static void stat_json_lines(void **state)
{
	struct device dev;
	struct fake fake;
	char *got, *line, *rest;
	int lines = 0;

	fake_init(&fake, &dev, 1);
	got = stat_of(&dev, (struct stat_options){ .ctx = &json_context, .interval = NS_PER_S / 10,
						   .reports = 3 }, STATUS_OK);
	for (line = strtok_r(got, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct json_object *o = parse(line);
		double interval;

		/* longer on a busy machine, and the next one may be shorter by half */
		interval = json_object_get_double(get(o, "interval"));
		assert_true(interval > 0.04);
		assert_true(json_object_get_double(get(o, "time")) > 1700000000);
		json_is(o, "vms.0.id", "1");
		number_is_near(o, "vms.0.vcpu.0.rates.exits", 1000000 / interval);
		number_is_near(o, "vms.0.vcpu.0.rates.reads", 50 / interval);
		json_is(o, "vms.0.vcpu.0.rates.anomalies", "0.000000");
		number_is_near(o, "vms.0.vcpu.0.counter.0.rate", 1234567 / interval);
		/* over the top in one of the intervals */
		number_is_near(o, "vms.0.vcpu.0.counter.1.rate", 600 / interval);
		/* set back by the guest */
		json_is(o, "vms.0.vcpu.0.counter.5.rate", "null");
		json_object_put(o);
		lines++;
	}
	assert_int_equal(lines, 3);
	free(got);
}

static void stat_text_rates(void **state)
{
	struct device dev;
	struct fake fake;
	char *got;

	fake_init(&fake, &dev, 1);
	fake.vm[0].vcpus = 1;
	got = stat_of(&dev, (struct stat_options){ .ctx = &text_context, .interval = NS_PER_S / 20,
						   .reports = 1 }, STATUS_OK);
	assert_non_null(strstr(got, "per second, over "));
	assert_non_null(strstr(got, "VALUE/s"));
	assert_non_null(strstr(got, "! ran 50.0%, borrows"));
	assert_non_null(strstr(got, "off             -"));
	free(got);
}

/* The hypervisor's events: totals are what KVM has statistics of. */
static void stat_events(void **state)
{
	struct stat_options options = { .ctx = &text_context, .events = true };
	struct json_object *o;
	struct device dev;
	struct fake fake;
	char *got;

	fake_init(&fake, &dev, 1);
	fake.vm[0].vcpus = 1;
	got = stat_of(&dev, options, STATUS_OK);
	assert_non_null(strstr(got,
			       "  EVENT         COUNT  NOTE\n"
			       "  exits     1,000,000\n"
			       "  exits-io      2,000\n"
			       "  halted           10\n"
			       "  CTR"));
	free(got);
	assert_int_equal(fake.event_flags, 0);

	options.ctx = &json_context;
	fake.vm[0].vcpus = 2;
	fake.looks = 0;
	got = stat_of(&dev, options, STATUS_OK);
	o = parse(got);
	json_is(o, "0.vcpu.1.events.exits", "1000001");
	json_is(o, "0.vcpu.1.events.exits-mmio", "0");
	/* not counted */
	json_is(o, "0.vcpu.1.events.steal", "null");
	json_is(o, "0.vcpu.1.tsc_khz", "1");
	json_object_put(o);
	free(got);
}

static void stat_event_rates(void **state)
{
	struct stat_options options = {
		.ctx = &json_context, .events = true, .interval = NS_PER_S / 10, .reports = 1,
	};
	struct json_object *o;
	struct device dev;
	struct fake fake;
	double interval;
	char *got;

	fake_init(&fake, &dev, 1);
	fake.vm[0].vcpus = 1;
	got = stat_of(&dev, options, STATUS_OK);
	assert_int_equal(fake.event_flags, KVM_VPMU_EVENTS_OBSERVE);
	o = parse(got);
	interval = json_object_get_double(get(o, "interval"));
	number_is_near(o, "vms.0.vcpu.0.event_rates.exits", 1000000 / interval);
	number_is_near(o, "vms.0.vcpu.0.event_rates.exits-cpuid", 500 / interval);
	number_is_near(o, "vms.0.vcpu.0.event_rates.steal", 20 / interval);
	json_is(o, "vms.0.vcpu.0.event_rates.moves", "0.000000");
	json_object_put(o);
	free(got);

	/* 20 and 10 ticks of 100 */
	options.ctx = &text_context;
	got = stat_of(&dev, options, STATUS_OK);
	assert_non_null(strstr(got, "COUNT/s"));
	assert_non_null(strstr(got, "\n  exits-cpuid"));
	assert_null(strstr(got, "\n  moves"));
	assert_non_null(strstr(got, "\n  steal"));
	assert_non_null(strstr(strstr(got, "\n  steal"), "%\n"));
	free(got);
}

static void a_vm_that_ends(void **state)
{
	struct json_object *o;
	struct device dev;
	struct fake fake;
	char *got;

	/* others are shown */
	fake_init(&fake, &dev, 3);
	fake.ended[1] = true;
	got = stat_of(&dev, (struct stat_options){ .ctx = &json_context }, STATUS_OK);
	o = parse(got);
	assert_int_equal(json_object_array_length(o), 2);
	json_is(o, "1.id", "3");
	json_object_put(o);
	free(got);

	/* who asked for it hears about it */
	got = stat_of(&dev, (struct stat_options){ .ctx = &text_context, .vm = "#2" }, STATUS_NO_VM);
	assert_string_equal(got, "");
	free(got);
	free(stat_of(&dev, (struct stat_options){ .ctx = &text_context, .vm = "#9" }, STATUS_NO_VM));
	got = stat_of(&dev, (struct stat_options){ .ctx = &json_context, .vm = "1002" }, STATUS_OK);
	o = parse(got);
	assert_int_equal(json_object_array_length(o), 1);
	json_is(o, "0.id", "3");
	json_object_put(o);
	free(got);
}

static void set(void **state)
{
	struct set_options options = { .ctx = &json_context, .vm = "1001" };
	struct json_object *o;
	struct device dev;
	struct fake fake;
	size_t size;
	char *got, *said;
	FILE *f = open_memstream(&got, &size), *messages = open_memstream(&said, &size);

	fake_init(&fake, &dev, 3);
	options.settings.fields = KVM_VPMU_SET_FREEZE;
	options.settings.freeze = KVM_VPMU_FREEZE_VCPU;
	assert_int_equal(set_run(&dev, &options, f, messages), STATUS_OK);
	assert_int_equal(fake.set.id, 2);
	assert_int_equal(fake.set.fd, -1);
	assert_int_equal(fake.set.fields, KVM_VPMU_SET_FREEZE);
	assert_int_equal(fake.set.freeze, KVM_VPMU_FREEZE_VCPU);
	assert_int_equal(fake.set.reserved, 0);
	fflush(f);
	o = parse(got);
	json_is(o, "", "{\"id\":2,\"pid\":1001,\"name\":\"?\",\"vcpus\":2,\"freeze\":\"vcpu\","
		"\"tsc\":\"wall\",\"events\":\"off\"}");
	json_object_put(o);

	fake.ended[1] = true;
	assert_int_equal(set_run(&dev, &options, f, messages), STATUS_NO_VM);
	options.vm = "?";
	assert_int_equal(set_run(&dev, &options, f, messages), STATUS_USAGE);
	options.vm = "none";
	assert_int_equal(set_run(&dev, &options, f, messages), STATUS_NO_VM);
	options.vm = "#1";
	fake.set_error = -EOPNOTSUPP;
	assert_int_equal(set_run(&dev, &options, f, messages), STATUS_ERROR);
	fclose(f);
	fclose(messages);
	free(got);
	free(said);
}

/* A folder as the module's in sysfs has it: @files is NAME, VALUE... */
static void make_module(char dir[], const char *const files[])
{
	char path[100];
	int i;

	strcpy(dir, "/tmp/vpmu-module.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/parameters", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	for (i = 0; files[i]; i += 2) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(files[i + 1], f);
		assert_int_equal(fclose(f), 0);
	}
	setenv("VPMU_FAKE_MODULE", dir, 1);
}

static void remove_module(const char *dir)
{
	char command[100];

	unsetenv("VPMU_FAKE_MODULE");
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

static void parameter_is(const char *dir, const char *name, const char *expected)
{
	char *value = module_parameter(dir, name);

	assert_string_equal(value, expected);
	free(value);
}

static void parameter_is_missing(const char *dir, const char *name)
{
	assert_null(module_parameter(dir, name));
}

static char *info_of(struct device *dev, const struct context *ctx, enum status expected)
{
	size_t size;
	char *got;
	FILE *f = open_memstream(&got, &size);

	assert_int_equal(info_run(dev, ctx, f), expected);
	fclose(f);
	return got;
}

static const char *const some_module[] = {
	"version", "1.2\n", "parameters/zeal", "N\n", "parameters/attach", "auto\n",
	"parameters/Tsc", "a\x1b[2J\nb\n", "parameters/empty", "", NULL
};

static void info_text(void **state)
{
	struct device dev;
	struct fake fake;
	char dir[32], *got;

	make_module(dir, some_module);
	fake_init(&fake, &dev, 3);
	dev.info.rdmsr = 1234567;
	dev.info.wrmsr = 3;
	dev.info.rdpmc = 5;
	got = info_of(&dev, &text_context, STATUS_OK);
	assert_string_equal(got,
			    "PMU                 fake\n"
			    "physical counters   6\n"
			    "module              1.2, ABI 14\n"
			    "tool                " VERSION ", ABI 14\n"
			    "VMs                 3\n"
			    "vCPUs               6\n"
			    "RDMSR               1,234,567\n"
			    "WRMSR               3\n"
			    "RDPMC               5\n"
			    "\n"
			    "module parameters\n"
			    "  Tsc               a?[2J\n"
			    "  attach            auto\n"
			    "  empty             -\n"
			    "  zeal              N\n");
	free(got);
	remove_module(dir);

	/* not privileged, and a module without parameters */
	fake.error = -EPERM;
	got = info_of(&dev, &text_context, STATUS_OK);
	assert_non_null(strstr(got, "module              -, ABI 14\n"));
	assert_non_null(strstr(got, "VMs                 -\n"));
	assert_non_null(strstr(got, "RDMSR               -\n"));
	assert_null(strstr(got, "parameters"));
	free(got);
	fake.error = -EIO;
	free(info_of(&dev, &text_context, STATUS_ERROR));
}

static void info_json(void **state)
{
	struct json_object *o;
	struct device dev;
	struct fake fake;
	char dir[32], *got;

	make_module(dir, some_module);
	fake_init(&fake, &dev, 3);
	dev.info.rdmsr = UINT64_MAX;
	got = info_of(&dev, &json_context, STATUS_OK);
	o = parse(got);
	json_is(o, "", "{\"hardware\":\"fake\",\"counters\":6,\"version\":\"1.2\",\"abi\":14,"
		"\"tool_version\":\"" VERSION "\",\"tool_abi\":14,\"vms\":3,\"vcpus\":6,"
		"\"rdmsr\":18446744073709551615,\"wrmsr\":0,\"rdpmc\":0,"
		"\"parameters\":{\"Tsc\":\"a?[2J\",\"attach\":\"auto\",\"empty\":null,"
		"\"zeal\":\"N\"}}");
	json_object_put(o);
	free(got);
	remove_module(dir);

	fake.error = -EPERM;
	got = info_of(&dev, &json_context, STATUS_OK);
	o = parse(got);
	json_is(o, "version", "null");
	json_is(o, "vms", "null");
	json_is(o, "vcpus", "null");
	json_is(o, "rdmsr", "null");
	json_is(o, "parameters", "{}");
	json_object_put(o);
	free(got);
}

/* vpmu set with @options; what it prints and says, to be freed */
static enum status set_many(struct device *dev, struct set_options options, char **got, char **said)
{
	size_t size;
	FILE *f = open_memstream(got, &size), *messages = open_memstream(said, &size);
	enum status status;

	options.settings.fields = KVM_VPMU_SET_FREEZE | KVM_VPMU_SET_TSC;
	options.settings.freeze = KVM_VPMU_FREEZE_GUEST;
	options.settings.tsc = KVM_VPMU_TSC_VCPU;
	status = set_run(dev, &options, f, messages);
	fclose(f);
	fclose(messages);
	return status;
}

static void set_all_vms(void **state)
{
	struct json_object *o;
	struct device dev;
	struct fake fake;
	char *got, *said;

	fake_init(&fake, &dev, 4);
	fake.ended[0] = true;
	fake.set_errors[1] = -EIO;
	fake.set_errors[2] = -EOPNOTSUPP;
	assert_int_equal(set_many(&dev, (struct set_options){ .ctx = &json_context, .all = true },
				  &got, &said), STATUS_ERROR);
	assert_string_equal(said, "vpmu: VM #2 (PID 1001): Input/output error\n"
			    "vpmu: VM #3 (PID 1002): this host's TSC isn't fit for --tsc vcpu\n");
	o = parse(got);
	assert_int_equal(json_object_array_length(o), 4);
	json_is(o, "2.freeze", "\"hybrid\"");
	json_is(o, "3.freeze", "\"guest\"");
	json_is(o, "3.tsc", "\"vcpu\"");
	json_object_put(o);
	free(got);
	free(said);

	/* that one ended is no failure, nor that there is none */
	fake_init(&fake, &dev, 1);
	fake.ended[0] = true;
	assert_int_equal(set_many(&dev, (struct set_options){ .ctx = &text_context, .all = true },
				  &got, &said), STATUS_OK);
	assert_string_equal(got, "");
	assert_string_equal(said, "");
	free(got);
	free(said);
	fake_init(&fake, &dev, 0);
	assert_int_equal(set_many(&dev, (struct set_options){ .ctx = &json_context, .all = true },
				  &got, &said), STATUS_OK);
	assert_string_equal(got, "[]\n");
	free(got);
	free(said);

	/* the caller may not, whatever VM it is */
	fake_init(&fake, &dev, 3);
	fake.set_error = -EPERM;
	assert_int_equal(set_many(&dev, (struct set_options){ .ctx = &text_context, .all = true },
				  &got, &said), STATUS_ERROR);
	assert_int_equal(fake.set.id, 1);
	free(got);
	free(said);
}

static void set_defaults(void **state)
{
	static const char *const files[] = {
		"parameters/freeze", "hybrid\n", "parameters/tsc", "wall\n",
		"parameters/events", "off\n", NULL
	};
	static const char *const no_tsc[] = { "parameters/freeze", "hybrid\n", NULL };
	struct set_options options = { .ctx = &json_context, .defaults = true };
	struct json_object *o;
	struct device dev;
	struct fake fake;
	char dir[32], path[100], *got, *said;

	make_module(dir, files);
	fake_init(&fake, &dev, 2);
	assert_int_equal(set_many(&dev, options, &got, &said), STATUS_OK);
	assert_string_equal(said, "");
	parameter_is(dir, "freeze", "guest");
	parameter_is(dir, "tsc", "vcpu");
	/* VMs that are there stay as they are */
	assert_int_equal(fake.set.id, 0);
	o = parse(got);
	json_is(o, "", "{\"default\":{\"freeze\":\"guest\",\"tsc\":\"vcpu\",\"events\":\"off\"}}");
	json_object_put(o);
	free(got);
	free(said);
	options.all = true;
	assert_int_equal(set_many(&dev, options, &got, &said), STATUS_OK);
	o = parse(got);
	json_is(o, "default.freeze", "\"guest\"");
	json_is(o, "vms.1.freeze", "\"guest\"");
	json_object_put(o);
	free(got);
	free(said);
	options.all = false;
	remove_module(dir);

	make_module(dir, files);
	fake.set_error = -EOPNOTSUPP;
	assert_int_equal(set_many(&dev, options, &got, &said), STATUS_ERROR);
	assert_string_equal(said, "vpmu: this host's TSC isn't fit for --tsc vcpu\n");
	free(got);
	free(said);
	fake.set_error = -EACCES;
	assert_int_equal(set_many(&dev, options, &got, &said), STATUS_ERROR);
	assert_string_equal(said, "vpmu: changing defaults needs root\n");
	free(got);
	free(said);
	/* a file that refuses this value, root or not: what was written before is taken back */
	fake.set_error = 0;
	snprintf(path, sizeof(path), "%s/parameters/freeze", dir);
	unlink(path);
	assert_int_equal(symlink("/proc/self/oom_score_adj", path), 0);
	assert_int_equal(set_many(&dev, options, &got, &said), STATUS_ERROR);
	assert_non_null(strstr(said, "parameter 'freeze': "));
	parameter_is(dir, "tsc", "wall");
	free(got);
	free(said);
	remove_module(dir);

	/* an older module: nothing is changed */
	make_module(dir, no_tsc);
	assert_int_equal(set_many(&dev, options, &got, &said), STATUS_ERROR);
	assert_string_equal(said,
			    "vpmu: the module has no parameter 'tsc': it is older than this tool\n");
	parameter_is(dir, "freeze", "hybrid");
	parameter_is_missing(dir, "tsc");
	free(got);
	free(said);
	remove_module(dir);
}

static void versions_of_the_interface(void **state)
{
	struct device dev;
	struct fake fake;

	fake_init(&fake, &dev, 0);
	memset(fake.info.hardware, 'x', sizeof(fake.info.hardware));
	assert_int_equal(device_hello(&dev), 0);
	assert_int_equal(strlen(dev.info.hardware), sizeof(dev.info.hardware) - 1);
	fake.info.abi = 1000;
	assert_int_equal(device_hello(&dev), 0);
	fake.info.abi = 0;
	assert_int_equal(device_hello(&dev), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(text_for_terminals),
		cmocka_unit_test(tables),
		cmocka_unit_test(list_text),
		cmocka_unit_test(list_json),
		cmocka_unit_test(list_fails),
		cmocka_unit_test(stat_text),
		cmocka_unit_test(stat_json),
		cmocka_unit_test(stat_json_layout),
		cmocka_unit_test(stat_json_of_many),
		cmocka_unit_test(stat_json_lines),
		cmocka_unit_test(stat_text_rates),
		cmocka_unit_test(stat_events),
		cmocka_unit_test(stat_event_rates),
		cmocka_unit_test(a_vm_that_ends),
		cmocka_unit_test(set),
		cmocka_unit_test(set_all_vms),
		cmocka_unit_test(set_defaults),
		cmocka_unit_test(info_text),
		cmocka_unit_test(info_json),
		cmocka_unit_test(versions_of_the_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
