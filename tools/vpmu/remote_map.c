// SPDX-License-Identifier: GPL-2.0-or-later
#include "remote_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qga.h"
#include "util.h"

/* All functions of all files that processes of a guest have mapped */
#define SIZE_MAX_MAP	(1ull << 29)
/* Until vpmu-guest-map has read these */
#define READY_S		300
/* Between two looks whether it has */
#define PAUSE_US	300000

/**
 * struct remote_map - a running vpmu-guest-map
 * @qga: the guest's agent
 * @folder: what there is in the guest; NULL: nothing yet
 * @program: the program there
 * @output: what it writes
 * @pid: its PID there; 0: not started
 */
struct remote_map {
	struct qga *qga;
	char *folder, *program, *output;
	int64_t pid;
};

/* A folder that no other user of the guest's can have prepared */
static bool make_folder(struct remote_map *map, char **error)
{
	const char *const argv[] = { "mktemp", "-d", "/var/tmp/kvm-vpmu.XXXXXX", NULL };

	if (!qga_run(map->qga, argv, &map->folder))
		return false;
	if (!map->folder) {
		*error = xasprintf("mktemp: no folder");
		return false;
	}
	map->program = xasprintf("%s/vpmu-guest-map", map->folder);
	map->output = xasprintf("%s/map", map->folder);
	return true;
}

static bool run(struct remote_map *map, const char *const argv[])
{
	char *text;
	bool good = qga_run(map->qga, argv, &text);

	free(text);
	return good;
}

/* Until it has written all that was there at first: from then on, it has little to do. */
static bool wait_until_ready(struct remote_map *map, char **error)
{
	const char *const is_ready[] = { "grep", "-q", "^r$", map->output, NULL };
	unsigned int i;

	for (i = 0; i < READY_S * 1000000ull / PAUSE_US; i++) {
		struct qga_end end;

		if (run(map, is_ready))
			return true;
		if (!qga_look(map->qga, map->pid, &end))
			return false;
		if (end.exited) {
			map->pid = 0;
			*error = xasprintf("vpmu-guest-map: %s", end.text ? end.text : "ended");
			clean_text(*error);
			free(end.text);
			return false;
		}
		usleep(PAUSE_US);
	}
	*error = xasprintf("vpmu-guest-map: not ready after %d s", READY_S);
	return false;
}

static bool start(struct remote_map *map, FILE *program, char **error)
{
	const char *argv[] = { NULL, "--follow", "--output", NULL, NULL };
	const char *chmod[] = { "chmod", "700", NULL, NULL };

	if (!make_folder(map, error) || !qga_put(map->qga, map->program, program))
		return false;
	chmod[2] = map->program;
	argv[0] = map->program;
	argv[3] = map->output;
	return run(map, chmod) && qga_start(map->qga, argv, &map->pid) &&
	       wait_until_ready(map, error);
}

static bool stop(struct remote_map *map)
{
	char *pid = xasprintf("%" PRId64, map->pid), *text = NULL;
	const char *const end[] = { "sh", "-c", "kill -TERM $0", pid, NULL };
	bool good = run(map, end) && qga_wait(map->qga, map->pid, READY_S, &text);

	free(pid);
	free(text);
	map->pid = 0;
	return good;
}

static void free_map(struct remote_map *map)
{
	const char *const remove[] = { "rm", "-rf", map->folder, NULL };

	if (map->pid)
		stop(map);
	if (map->folder)
		run(map, remove);
	qga_close(map->qga);
	free(map->folder);
	free(map->program);
	free(map->output);
	free(map);
}

struct remote_map *remote_map_start(const char *path, const char *program, char **error)
{
	FILE *file = fopen(program, "re");
	struct remote_map *map;

	*error = NULL;
	if (!file) {
		*error = xasprintf("%s: %s", program, strerror(errno));
		return NULL;
	}
	map = xrealloc(NULL, sizeof(*map));
	*map = (struct remote_map){ .qga = qga_open(path, error) };
	if (map->qga && start(map, file, error)) {
		fclose(file);
		return map;
	}
	fclose(file);
	if (!*error)
		*error = xasprintf("guest agent: %s", qga_error(map->qga));
	free_map(map);
	return NULL;
}

void remote_map_end(struct remote_map *map, char **text, size_t *size, char **error)
{
	FILE *to = open_memstream(text, size);
	bool good;

	*error = NULL;
	if (!to) {
		*text = NULL;
		*error = xasprintf("%s", strerror(errno));
		free_map(map);
		return;
	}
	good = stop(map) && qga_get(map->qga, map->output, to, SIZE_MAX_MAP);
	if (!good)
		*error = xasprintf("guest agent: %s", qga_error(map->qga));
	if (fclose(to) && good) {
		good = false;
		*error = xasprintf("%s", strerror(errno));
	}
	if (!good) {
		free(*text);
		*text = NULL;
	}
	free_map(map);
}
