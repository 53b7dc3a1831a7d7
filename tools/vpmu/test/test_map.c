// SPDX-License-Identifier: GPL-2.0-or-later
/* Where vCPUs are placed, and what is measured of a host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "domains.h"
#include "meter.h"
#include "util.h"

/* ---- domains, of machines that hwloc is told of */

static struct domains find(const char *machine, int first, int last)
{
	struct domains domains;
	cpu_set_t allowed;
	int cpu;

	CPU_ZERO(&allowed);
	for (cpu = first; cpu <= last; cpu++)
		CPU_SET(cpu, &allowed);
	setenv("HWLOC_SYNTHETIC", machine, 1);
	assert_true(domains_find(&domains, &allowed));
	return domains;
}

static void is_cpus(const cpu_set_t *cpus, const char *want)
{
	char *text = domains_cpus(cpus);

	assert_string_equal(text, want);
	free(text);
}

/* What @vcpus vCPUs get, with a blank between them */
static void is_placed(const struct domains *domains, enum mapping mapping, size_t vcpus,
		      const char *want)
{
	cpu_set_t cpus[16];
	char *got = xasprintf("%s", "");
	size_t i;

	domains_place(domains, mapping, vcpus, cpus);
	for (i = 0; i < vcpus; i++) {
		char *text = domains_cpus(&cpus[i]), *longer = xasprintf("%s%s%s", got, i ? " " : "", text);

		free(text);
		free(got);
		got = longer;
	}
	assert_string_equal(got, want);
	free(got);
}

static void domains_are_last_level_caches(void **state)
{
	struct domains domains = find("pack:2 l3:2 core:2 pu:2", 0, 15);

	assert_int_equal(domains.count, 4);
	is_cpus(&domains.domain[0].cpus, "0-3");
	is_cpus(&domains.domain[3].cpus, "12-15");
	assert_int_equal(domains.domain[3].count, 4);
	domains_free(&domains);
}

static void or_sockets(void **state)
{
	struct domains domains = find("pack:2 core:4 pu:1", 0, 7);

	assert_int_equal(domains.count, 2);
	is_cpus(&domains.domain[1].cpus, "4-7");
	domains_free(&domains);
}

static void only_cpus_that_are_allowed(void **state)
{
	struct domains domains = find("pack:4 l3:1 core:2 pu:1", 1, 4);

	assert_int_equal(domains.count, 3);
	is_cpus(&domains.domain[0].cpus, "1");
	is_cpus(&domains.domain[1].cpus, "2-3");
	is_cpus(&domains.domain[2].cpus, "4");
	domains_free(&domains);
}

static void local_in_as_few_as_have_room(void **state)
{
	struct domains domains = find("pack:4 l3:1 core:2 pu:1", 0, 7);

	is_placed(&domains, MAPPING_LOCAL, 1, "0-1");
	is_placed(&domains, MAPPING_LOCAL, 2, "0-1 0-1");
	is_placed(&domains, MAPPING_LOCAL, 3, "0-1 0-1 2-3");
	is_placed(&domains, MAPPING_LOCAL, 8, "0-1 0-1 2-3 2-3 4-5 4-5 6-7 6-7");
	/* More than CPUs */
	is_placed(&domains, MAPPING_LOCAL, 16,
		  "0-1 0-1 0-1 0-1 2-3 2-3 2-3 2-3 4-5 4-5 4-5 4-5 6-7 6-7 6-7 6-7");
	domains_free(&domains);
}

static void local_where_there_is_most_room(void **state)
{
	struct domains domains = find("pack:3 l3:1 core:4 pu:1", 2, 9);

	/* CPUs 2-3, 4-7, 8-9 */
	is_placed(&domains, MAPPING_LOCAL, 2, "4-7 4-7");
	is_placed(&domains, MAPPING_LOCAL, 5, "4-7 4-7 4-7 4-7 2-3");
	domains_free(&domains);
}

static void local_where_others_are_least_busy(void **state)
{
	struct domains domains = find("pack:3 l3:1 core:2 pu:1", 0, 5);

	domains.domain[0].busy = 1.5;
	domains.domain[1].busy = 0.5;
	domains.domain[2].busy = 0.1;
	is_placed(&domains, MAPPING_LOCAL, 2, "4-5 4-5");
	is_placed(&domains, MAPPING_LOCAL, 4, "4-5 4-5 2-3 2-3");
	domains_free(&domains);
}

static void interleaved_over_all(void **state)
{
	struct domains domains = find("pack:2 l3:1 core:4 pu:1", 0, 7);

	is_placed(&domains, MAPPING_INTERLEAVED, 5, "0-3 4-7 0-3 4-7 0-3");
	domains_free(&domains);
}

/* ---- a host in a folder */

static char *folder;

static void put(const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", folder, name), *slash;
	FILE *file;

	for (slash = strchr(path + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	free(path);
}

static int make_folder(void **state)
{
	folder = xasprintf("/tmp/test_map.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char *command = xasprintf("rm -r %s", folder);
	int r = system(command);

	free(command);
	free(folder);
	return r;
}

static void open_host(struct meter *meter)
{
	assert_int_equal(meter_open(meter, folder, folder, folder, NULL, 0), 0);
}

/* Between two looks 2 seconds apart */
static struct progress between(const struct meter *meter, void (*change)(void))
{
	struct reading before, now;
	struct progress p;

	meter_read(meter, &before);
	change();
	meter_read(meter, &now);
	now.ns = before.ns + 2 * NS_PER_S;
	progress_init(&p, meter);
	progress_add(&p, meter, &before, &now);
	reading_free(&before);
	reading_free(&now);
	return p;
}

static void energy_of_two_sockets(void)
{
	put("rapl:0/energy_uj", "31000000\n");
	/* It began again at 100 J. */
	put("rapl:1/energy_uj", "5000000\n");
	put("rapl:0:0/energy_uj", "99000000\n");
}

static void power_is_that_of_sockets(void **state)
{
	struct progress p;
	struct meter meter;

	put("rapl:0/name", "package-0\n");
	put("rapl:0/energy_uj", "1000000\n");
	put("rapl:0/max_energy_range_uj", "100000000\n");
	put("rapl:1/name", "package-1\n");
	put("rapl:1/energy_uj", "95000000\n");
	put("rapl:1/max_energy_range_uj", "100000000\n");
	/* A part of a socket, and one that only root may read */
	put("rapl:0:0/name", "core\n");
	put("rapl:0:0/energy_uj", "1000000\n");
	put("rapl:0:0/max_energy_range_uj", "100000000\n");
	put("rapl:2/name", "package-2\n");
	open_host(&meter);
	assert_int_equal(meter.zones, 2);
	p = between(&meter, energy_of_two_sockets);
	assert_float_equal(p.joules, 30 + 10, 1e-9);
	assert_float_equal(p.seconds, 2, 1e-9);
	progress_free(&p);
	meter_close(&meter);
}

static void nothing_changes(void)
{
}

static void the_model_is_that_of_the_paper(void **state)
{
	/* A machine that is idle, one socket with a CPU, all of both */
	assert_float_equal(power_model(0, 0), 104.63, 1e-9);
	assert_float_equal(power_model(1, 1), 114.94, 1e-9);
	assert_float_equal(power_model(2, 16), 147.93, 1e-9);
}

/* In 2 s, CPU 0 has worked for 1 s; all others have been idle. */
static void work_of_one_cpu(void)
{
	char *text = xasprintf("cpu 1 2 3 4 5\ncpu0 100 0 0 1100 0 0\n"), *longer;
	int cpu;

	for (cpu = 1; cpu < get_nprocs_conf(); cpu++) {
		longer = xasprintf("%scpu%d 0 0 0 2150 50 0\n", text, cpu);
		free(text);
		text = longer;
	}
	put("stat", text);
	free(text);
}

static void work_and_the_model(void **state)
{
	char *text = xasprintf("cpu 1 2 3 4 5\n"), *longer;
	struct progress p;
	struct meter meter;
	int cpu;

	for (cpu = 0; cpu < get_nprocs_conf(); cpu++) {
		char *name = xasprintf("cpu%d/topology/physical_package_id", cpu);

		put(name, cpu ? "1\n" : "0\n");
		free(name);
		longer = xasprintf("%scpu%d 0 0 0 1000 %d 0\n", text, cpu, cpu ? 1000 : 0);
		free(text);
		text = longer;
	}
	put("stat", text);
	free(text);
	open_host(&meter);
	assert_int_equal(meter.zones, 0);
	p = between(&meter, work_of_one_cpu);
	assert_float_equal(p.busy[0], 1, 1e-9);
	if (meter.cpus > 1)
		assert_float_equal(p.busy[1], 0, 1e-9);
	assert_float_equal(p.joules, 2 * power_model(0.5, 0.5), 1e-9);
	progress_free(&p);
	meter_close(&meter);
}

static void a_host_that_tells_nothing(void **state)
{
	struct progress p;
	struct meter meter;

	open_host(&meter);
	p = between(&meter, nothing_changes);
	assert_float_equal(p.joules, 2 * power_model(0, 0), 1e-9);
	progress_free(&p);
	meter_close(&meter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(domains_are_last_level_caches),
		cmocka_unit_test(or_sockets),
		cmocka_unit_test(only_cpus_that_are_allowed),
		cmocka_unit_test(local_in_as_few_as_have_room),
		cmocka_unit_test(local_where_there_is_most_room),
		cmocka_unit_test(local_where_others_are_least_busy),
		cmocka_unit_test(interleaved_over_all),
		cmocka_unit_test_setup_teardown(power_is_that_of_sockets, make_folder, remove_folder),
		cmocka_unit_test(the_model_is_that_of_the_paper),
		cmocka_unit_test_setup_teardown(work_and_the_model, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_host_that_tells_nothing, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
