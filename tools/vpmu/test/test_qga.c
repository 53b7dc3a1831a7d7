// SPDX-License-Identifier: GPL-2.0-or-later
/* QEMU's guest agent: what is sent, and that no answer of a guest's does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "qga.h"
#include "util.h"

static char folder[] = "/tmp/vpmu-test-XXXXXX", path[sizeof(folder) + 7];

/**
 * struct agent - what plays the agent
 * @fd: where it listens
 * @thread: what it runs in
 * @answer: what it sends after each request; NULL: it closes the socket
 * @before: what is sent before the first answer
 * @request: what came last
 */
struct agent {
	int fd;
	pthread_t thread;
	const char *const *answer;
	const char *before;
	char request[100000];
};

static void send_text(int fd, const char *text)
{
	send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void *play(void *arg)
{
	struct agent *agent = arg;
	FILE *from = fdopen(accept(agent->fd, NULL, NULL), "r");
	int fd = fileno(from);
	char answer[100];
	const char *id;

	while (fgets(agent->request, sizeof(agent->request), from)) {
		id = strstr(agent->request, "\"id\":");
		if (!id) {
			if (!*agent->answer)
				break;
			send_text(fd, *agent->answer++);
			send_text(fd, "\n");
			continue;
		}
		snprintf(answer, sizeof(answer), "\xff{\"return\": %llu}\n",
			 strtoull(id + 5, NULL, 10));
		send_text(fd, agent->before);
		send_text(fd, answer);
	}
	fclose(from);
	return NULL;
}

static struct qga *begin(struct agent *agent, const char *before, const char *const answer[])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char *error = NULL;
	struct qga *qga;

	*agent = (struct agent){ .before = before, .answer = answer };
	strcpy(address.sun_path, path);
	agent->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_return_code(bind(agent->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_return_code(listen(agent->fd, 1), 0);
	assert_int_equal(pthread_create(&agent->thread, NULL, play, agent), 0);
	qga = qga_open(path, &error);
	if (!qga)
		print_message("# %s\n", error);
	assert_non_null(qga);
	return qga;
}

static void end(struct agent *agent, struct qga *qga)
{
	qga_close(qga);
	pthread_join(agent->thread, NULL);
	close(agent->fd);
	unlink(path);
}

static int make_folder(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	sprintf(path, "%s/socket", folder);
	return 0;
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

static void no_agent(void **state)
{
	char name[200], *error;

	assert_null(qga_open(path, &error));
	assert_string_equal(error, "No such file or directory");
	free(error);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_null(qga_open(name, &error));
	assert_string_equal(error, "the name is too long");
	free(error);
}

/* What another client of the agent's has left */
static void leftovers(void **state)
{
	static const char *const answer[] = { "{\"return\": {\"pid\": 7}}", NULL };
	const char *const argv[] = { "program", "an argument", NULL };
	struct agent agent;
	struct qga *qga = begin(&agent, "{\"return\": 1}\n\xff{\"return\": -1}\n\xff\xff[]\n{", answer);
	int64_t pid;

	assert_true(qga_start(qga, argv, &pid));
	assert_int_equal(pid, 7);
	assert_string_equal(agent.request,
			    "{\"execute\":\"guest-exec\",\"arguments\":{\"path\":\"program\","
			    "\"arg\":[\"an argument\"],\"capture-output\":true}}\n");
	end(&agent, qga);
}

static void files(void **state)
{
	static const char *const answer[] = {
		"{\"return\": 1000}", "{\"return\": {\"count\": 4, \"eof\": false}}", "{\"return\": {}}",
		"{\"return\": 1001}", "{\"return\": {\"count\": 4, \"buf-b64\": \"AGEKYg==\", \"eof\": false}}",
		"{\"return\": {\"count\": 0, \"buf-b64\": \"\", \"eof\": true}}", "{\"return\": {}}", NULL
	};
	char from[] = "\0a\nb", to[16];
	FILE *file = fmemopen(from, 4, "r");
	struct agent agent;
	struct qga *qga = begin(&agent, "", answer);

	assert_true(qga_put(qga, "/there", file));
	fclose(file);
	file = fmemopen(to, sizeof(to), "w");
	assert_true(qga_get(qga, "/there", file, 4));
	fclose(file);
	assert_memory_equal(to, from, 4);
	assert_string_equal(agent.request,
			    "{\"execute\":\"guest-file-close\",\"arguments\":{\"handle\":1001}}\n");
	end(&agent, qga);
}

static void programs(void **state)
{
	static const char *const answer[] = {
		"{\"return\": {\"pid\": 1}}", "{\"return\": {\"exited\": false}}",
		"{\"return\": {\"exited\": true, \"exitcode\": 0, \"out-data\": \"L3RtcC9hCmIK\"}}",
		"{\"return\": {\"pid\": 2}}",
		"{\"return\": {\"exited\": true, \"exitcode\": 3, \"err-data\": \"bm8bW0ggd2F5Cg==\"}}",
		"{\"return\": {\"pid\": 3}}", "{\"return\": {\"exited\": true, \"signal\": 9}}", NULL
	};
	const char *const argv[] = { "program", NULL };
	struct agent agent;
	struct qga *qga = begin(&agent, "", answer);
	char *text;

	assert_true(qga_run(qga, argv, &text));
	assert_string_equal(text, "/tmp/a");
	free(text);
	assert_false(qga_run(qga, argv, &text));
	assert_string_equal(qga_error(qga), "no?[H way");
	assert_false(qga_run(qga, argv, &text));
	assert_string_equal(qga_error(qga), "a program failed");
	end(&agent, qga);
}

/* Each answer to one request, and what is said then */
static void hostile(void **state)
{
	static const struct {
		const char *answer, *error;
	} tried[] = {
		{ "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"disabled\x1b[2J\"}}",
		  "guest-exec: disabled?[2J" },
		{ "{\"error\": 1}", "guest-exec: an answer that isn't one" },
		{ "{\"error\": {\"desc\": [1]}}", "guest-exec: [ 1 ]" },
		{ "[]", "guest-exec: an answer that isn't one" },
		{ "{\"return\": null}", "guest-exec: an answer that isn't one" },
		{ "{\"return\"", "guest-exec: an answer that isn't one" },
		{ "x", "guest-exec: an answer that isn't one" },
		{ NULL, "QEMU has closed the socket" },
	};
	const char *const argv[] = { "program", NULL };
	struct agent agent;
	int64_t pid;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(tried); i++) {
		const char *const answer[] = { tried[i].answer, NULL };
		struct qga *qga = begin(&agent, "", answer);

		assert_false(qga_start(qga, argv, &pid));
		assert_string_equal(qga_error(qga), tried[i].error);
		end(&agent, qga);
	}
}

static void endless(void **state)
{
	const char *const argv[] = { "program", NULL };
	char *text = malloc(2 << 20);
	const char *const answer[] = { text, NULL };
	struct agent agent;
	struct qga *qga;
	int64_t pid;

	assert_non_null(text);
	memset(text, '[', 2 << 20);
	text[(2 << 20) - 1] = 0;
	qga = begin(&agent, "", answer);
	assert_false(qga_start(qga, argv, &pid));
	assert_string_equal(qga_error(qga), "an answer that is too long");
	end(&agent, qga);
	free(text);
}

static void hostile_files(void **state)
{
	static const struct {
		const char *answer, *error;
	} tried[] = {
		{ "{\"return\": {\"count\": 5, \"buf-b64\": \"AGEKYg==\"}}",
		  "guest-file-read: an answer that isn't one" },
		{ "{\"return\": {\"count\": 4, \"buf-b64\": \"AGEK*g==\"}}",
		  "guest-file-read: an answer that isn't one" },
		{ "{\"return\": {\"count\": -1}}", "guest-file-read: an answer that isn't one" },
		{ "{\"return\": {\"count\": 4, \"buf-b64\": \"AGEKYg==\"}}", "more than 0 MB" },
	};
	struct agent agent;
	char to[16];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(tried); i++) {
		const char *const answer[] = {
			"{\"return\": 1}", tried[i].answer, "{\"return\": {}}", NULL
		};
		struct qga *qga = begin(&agent, "", answer);
		FILE *file = fmemopen(to, sizeof(to), "w");

		assert_false(qga_get(qga, "/there", file, 3));
		assert_string_equal(qga_error(qga), tried[i].error);
		fclose(file);
		end(&agent, qga);
	}
}

/* A piece may be no longer than what was asked for. */
static void long_piece(void **state)
{
	static char text[200000];
	const char *const answer[] = { "{\"return\": 1}", text, "{\"return\": {}}", NULL };
	struct agent agent;
	struct qga *qga;
	char to[16];
	FILE *file = fmemopen(to, sizeof(to), "w");
	int n = sprintf(text, "{\"return\": {\"count\": 90000, \"buf-b64\": \"");

	memset(text + n, 'A', 120000);
	strcpy(text + n + 120000, "\"}}");
	qga = begin(&agent, "", answer);
	assert_false(qga_get(qga, "/there", file, 1 << 20));
	assert_string_equal(qga_error(qga), "guest-file-read: an answer that isn't one");
	fclose(file);
	end(&agent, qga);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_agent), cmocka_unit_test(leftovers), cmocka_unit_test(files),
		cmocka_unit_test(programs), cmocka_unit_test(hostile), cmocka_unit_test(endless),
		cmocka_unit_test(hostile_files), cmocka_unit_test(long_piece),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
