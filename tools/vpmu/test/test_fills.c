// SPDX-License-Identifier: GPL-2.0-or-later
/* Events for where loads are from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fills.h"

/*
 * The events of @cpu are those of @configs, 0 where there is none.  In a process of its own, as libpfm
 * remembers what it has detected.
 */
static void has(const char *cpu, const uint64_t configs[FILL_SOURCES])
{
	struct fill_events events;
	int fds[2], status, i;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		setenv("LIBPFM_FORCE_PMU", cpu, 1);
		fill_events_find(&events);
		_exit(write(fds[1], &events, sizeof(events)) != sizeof(events));
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(fds[0], &events, sizeof(events)), sizeof(events));
	close(fds[0]);
	for (i = 0; i < FILL_SOURCES; i++) {
		assert_int_equal(!events.name[i], !configs[i]);
		if (configs[i])
			assert_int_equal(events.code[i].config, configs[i]);
	}
}

/* AMD's PPRs, PMCx043; Intel's event lists, MEM_LOAD_RETIRED and MEM_LOAD_L3_MISS_RETIRED */
static void of_each_cpu(void **state)
{
	static const uint64_t zen3[] = { 0x243, 0x443, 0x843, 0x1043, 0, 0x4043 };
	static const uint64_t zen2[] = { 0x243, 0, 0x843, 0x1043, 0, 0x4043 };
	static const uint64_t server[] = { 0x4d1, 0, 0x1d3, 0x8d3, 0x4d3, 0x2d3 };
	static const uint64_t client[] = { 0x4d1, 0, 0x20d1, 0, 0, 0 };
	static const uint64_t none[FILL_SOURCES];

	has("amd64_fam1ah_zen5", zen3);
	has("amd64_fam19h_zen4", zen3);
	has("amd64_fam19h_zen3", zen3);
	has("amd64_fam17h_zen2", zen2);
	has("skx", server);
	has("icx", server);
	has("spr", server);
	has("skl", client);
	has("amd64_fam10h_barcelona", none);
}

static void given(void **state)
{
	char good[] = "memory=r1d3,far-memory=r2d3", source[] = "disk=r1", event[] = "cache=x";
	char nothing[] = "cache";
	struct fill_events events;
	char *why;

	assert_true(fill_events_parse(&events, good, &why));
	assert_string_equal(events.name[FILL_MEMORY], "r1d3");
	assert_int_equal(events.code[FILL_MEMORY].config, 0x1d3);
	assert_int_equal(events.code[FILL_FAR_MEMORY].config, 0x2d3);
	assert_null(events.name[FILL_CACHE]);
	assert_false(fill_events_parse(&events, source, &why));
	assert_non_null(strstr(why, "'disk'"));
	free(why);
	assert_false(fill_events_parse(&events, event, &why));
	assert_non_null(strstr(why, "event 'x'"));
	free(why);
	assert_false(fill_events_parse(&events, nothing, &why));
	free(why);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(of_each_cpu),
		cmocka_unit_test(given),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}
