// SPDX-License-Identifier: GPL-2.0-or-later
#include "qga.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <resolv.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util.h"

/* For an answer */
#define TIMEOUT_NS	(10 * NS_PER_S)
/* Between two looks at a program */
#define PAUSE_US	50000
/* Bytes of a file at a time, and what that takes as base64 */
#define PIECE		49152
#define PIECE_BASE64	(PIECE / 3 * 4 + 1)
/* No answer is longer: a piece, or what a program wrote */
#define ANSWER_MAX	(1 << 20)
/* What the agent puts in front of its answer to guest-sync-delimited */
#define DELIMITER	0xff

/**
 * struct qga - an agent
 * @fd: its socket
 * @error: what went wrong last; NULL: nothing
 * @received: what has come
 * @length: how much of that
 * @line: an answer, 0 at its end
 */
struct qga {
	int fd;
	char *error;
	char received[4096];
	size_t length;
	char line[ANSWER_MAX];
};

static bool failed(struct qga *qga, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool failed(struct qga *qga, const char *format, ...)
{
	va_list args;

	free(qga->error);
	va_start(args, format);
	if (vasprintf(&qga->error, format, args) < 0)
		qga->error = NULL;
	va_end(args);
	if (qga->error)
		clean_text(qga->error);
	return false;
}

const char *qga_error(const struct qga *qga)
{
	return qga->error ? qga->error : "out of memory";
}

/* ---- the socket */

/* Until the socket has or takes something */
static bool wait_for(struct qga *qga, short what, uint64_t deadline)
{
	struct pollfd p = { .fd = qga->fd, .events = what };
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (now < deadline && poll(&p, 1, (deadline - now) / 1000000 + 1) > 0)
		return true;
	return failed(qga, "no answer");
}

static bool send_all(struct qga *qga, const char *text, size_t length, uint64_t deadline)
{
	while (length) {
		ssize_t n = send(qga->fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			text += n;
			length -= n;
		} else if (errno != EAGAIN && errno != EINTR) {
			return failed(qga, "%s", strerror(errno));
		} else if (!wait_for(qga, POLLOUT, deadline)) {
			return false;
		}
	}
	return true;
}

static bool receive(struct qga *qga, uint64_t deadline)
{
	ssize_t n;

	if (!wait_for(qga, POLLIN, deadline))
		return false;
	n = recv(qga->fd, qga->received + qga->length, sizeof(qga->received) - qga->length,
		 MSG_DONTWAIT);
	if (!n)
		return failed(qga, "QEMU has closed the socket");
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return failed(qga, "%s", strerror(errno));
	if (n > 0)
		qga->length += n;
	return true;
}

/* A byte of what comes */
static bool next_byte(struct qga *qga, char *byte, uint64_t deadline)
{
	while (!qga->length)
		if (!receive(qga, deadline))
			return false;
	*byte = qga->received[0];
	return true;
}

static void drop(struct qga *qga, size_t count)
{
	qga->length -= count;
	memmove(qga->received, qga->received + count, qga->length);
}

/* The next line that isn't empty, into qga->line */
static bool read_line(struct qga *qga, uint64_t deadline)
{
	size_t at = 0;
	char byte;

	do {
		const char *end;
		size_t part;

		if (!next_byte(qga, &byte, deadline))
			return false;
		end = memchr(qga->received, '\n', qga->length);
		part = end ? (size_t)(end - qga->received) : qga->length;
		if (at + part >= sizeof(qga->line))
			return failed(qga, "an answer that is too long");
		memcpy(qga->line + at, qga->received, part);
		at += part;
		drop(qga, part + !!end);
		if (end && at)
			break;
	} while (true);
	qga->line[at] = 0;
	return true;
}

/* ---- calls */

static bool request(struct qga *qga, const char *command, struct json_object *arguments,
		    uint64_t deadline)
{
	struct json_object *whole = json_object_new_object();
	const char *text;
	bool sent;

	json_object_object_add(whole, "execute", json_object_new_string(command));
	json_object_object_add(whole, "arguments", arguments);
	text = json_object_to_json_string_ext(whole, JSON_C_TO_STRING_PLAIN);
	sent = send_all(qga, text, strlen(text), deadline) && send_all(qga, "\n", 1, deadline);
	json_object_put(whole);
	return sent;
}

static const char *error_of(struct json_object *answer)
{
	struct json_object *error, *text;

	return json_object_object_get_ex(answer, "error", &error) &&
	       json_object_object_get_ex(error, "desc", &text) ? json_object_get_string(text) :
	       "an answer that isn't one";
}

/*
 * The value that the agent's @command returns, to be put; NULL: an error.  Takes @arguments.
 */
static struct json_object *call(struct qga *qga, const char *command,
				struct json_object *arguments)
{
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS;
	struct json_object *answer, *value = NULL;

	if (!request(qga, command, arguments, deadline) || !read_line(qga, deadline))
		return NULL;
	answer = json_tokener_parse(qga->line);
	if (json_object_is_type(answer, json_type_object) &&
	    json_object_object_get_ex(answer, "return", &value) && value)
		json_object_get(value);
	else
		failed(qga, "%s: %s", command, error_of(answer));
	json_object_put(answer);
	return value;
}

static int64_t number(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? json_object_get_int64(value) : 0;
}

static bool is_true(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) && json_object_get_boolean(value);
}

/* Throw away what others have left, up to the answer to this. */
static bool synchronize(struct qga *qga)
{
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + TIMEOUT_NS;
	struct json_object *arguments = json_object_new_object(), *answer;
	const char delimiter = (char)DELIMITER;
	uint32_t id;
	bool same;
	char byte;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		id = clock_ns(CLOCK_MONOTONIC);
	json_object_object_add(arguments, "id", json_object_new_int64(id));
	/* The agent's parser begins anew behind that. */
	if (!send_all(qga, &delimiter, 1, deadline)) {
		json_object_put(arguments);
		return false;
	}
	if (!request(qga, "guest-sync-delimited", arguments, deadline))
		return false;
	do {
		do {
			if (!next_byte(qga, &byte, deadline))
				return false;
			drop(qga, 1);
		} while (byte != delimiter);
		if (!read_line(qga, deadline))
			return false;
		answer = json_tokener_parse(qga->line);
		same = json_object_is_type(answer, json_type_object) &&
		       number(answer, "return") == id;
		json_object_put(answer);
	} while (!same);
	return true;
}

struct qga *qga_open(const char *path, char **error)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct qga *qga = xrealloc(NULL, sizeof(*qga));

	/* Of a line, only what has come is looked at. */
	qga->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	qga->error = NULL;
	qga->length = 0;
	if (strlen(path) >= sizeof(address.sun_path)) {
		failed(qga, "the name is too long");
	} else {
		strcpy(address.sun_path, path);
		if (qga->fd < 0 ||
		    connect(qga->fd, (struct sockaddr *)&address, sizeof(address)))
			failed(qga, "%s", strerror(errno));
		else if (synchronize(qga))
			return qga;
	}
	*error = xasprintf("%s", qga_error(qga));
	qga_close(qga);
	return NULL;
}

void qga_close(struct qga *qga)
{
	if (!qga)
		return;
	if (qga->fd >= 0)
		close(qga->fd);
	free(qga->error);
	free(qga);
}

/* ---- files */

static bool open_file(struct qga *qga, const char *path, const char *mode, int64_t *handle)
{
	struct json_object *arguments = json_object_new_object(), *value;

	json_object_object_add(arguments, "path", json_object_new_string(path));
	json_object_object_add(arguments, "mode", json_object_new_string(mode));
	value = call(qga, "guest-file-open", arguments);
	if (!value)
		return false;
	*handle = json_object_get_int64(value);
	json_object_put(value);
	return true;
}

static struct json_object *with_handle(int64_t handle)
{
	struct json_object *arguments = json_object_new_object();

	json_object_object_add(arguments, "handle", json_object_new_int64(handle));
	return arguments;
}

/* Also after an error, which stays. */
static bool close_file(struct qga *qga, int64_t handle, bool good)
{
	char *error = qga->error;
	struct json_object *value;

	if (!good)
		qga->error = NULL;
	value = call(qga, "guest-file-close", with_handle(handle));
	json_object_put(value);
	if (good)
		return value;
	free(qga->error);
	qga->error = error;
	return false;
}

static bool put_piece(struct qga *qga, int64_t handle, const void *piece, size_t length)
{
	struct json_object *arguments = with_handle(handle), *value;
	char text[PIECE_BASE64];
	int64_t written;

	b64_ntop(piece, length, text, sizeof(text));
	json_object_object_add(arguments, "buf-b64", json_object_new_string(text));
	value = call(qga, "guest-file-write", arguments);
	if (!value)
		return false;
	written = number(value, "count");
	json_object_put(value);
	return written == (int64_t)length || failed(qga, "the file can't be written");
}

bool qga_put(struct qga *qga, const char *path, FILE *from)
{
	unsigned char piece[PIECE];
	bool good = true;
	int64_t handle;
	size_t length;

	if (!open_file(qga, path, "wb", &handle))
		return false;
	while (good && (length = fread(piece, 1, sizeof(piece), from)))
		good = put_piece(qga, handle, piece, length);
	if (good && ferror(from))
		good = failed(qga, "%s", strerror(errno));
	return close_file(qga, handle, good);
}

/* Return: how many bytes, 0 at the end, negative: an error. */
static int get_piece(struct qga *qga, int64_t handle, FILE *to)
{
	struct json_object *arguments = with_handle(handle), *value, *text;
	unsigned char piece[PIECE + 3];
	int length = -1;

	json_object_object_add(arguments, "count", json_object_new_int(PIECE));
	value = call(qga, "guest-file-read", arguments);
	if (!value)
		return -1;
	if (json_object_object_get_ex(value, "buf-b64", &text))
		length = b64_pton(json_object_get_string(text), piece, sizeof(piece));
	if (length < 0 || length != number(value, "count")) {
		failed(qga, "guest-file-read: an answer that isn't one");
		length = -1;
	}
	json_object_put(value);
	if (length > 0 && fwrite(piece, length, 1, to) != 1) {
		failed(qga, "%s", strerror(errno));
		return -1;
	}
	return length;
}

bool qga_get(struct qga *qga, const char *path, FILE *to, uint64_t max)
{
	uint64_t sum = 0;
	int64_t handle;
	int length;

	if (!open_file(qga, path, "rb", &handle))
		return false;
	while ((length = get_piece(qga, handle, to)) > 0) {
		sum += length;
		if (sum > max) {
			failed(qga, "more than %" PRIu64 " MB", max >> 20);
			length = -1;
			break;
		}
	}
	return close_file(qga, handle, !length);
}

/* ---- programs */

bool qga_start(struct qga *qga, const char *const argv[], int64_t *pid)
{
	struct json_object *arguments = json_object_new_object(), *arg = json_object_new_array();
	struct json_object *value;
	size_t i;

	for (i = 1; argv[i]; i++)
		json_object_array_add(arg, json_object_new_string(argv[i]));
	json_object_object_add(arguments, "path", json_object_new_string(argv[0]));
	json_object_object_add(arguments, "arg", arg);
	json_object_object_add(arguments, "capture-output", json_object_new_boolean(true));
	value = call(qga, "guest-exec", arguments);
	if (!value)
		return false;
	*pid = number(value, "pid");
	json_object_put(value);
	return true;
}

/* What a program wrote; NULL: nothing */
static char *output_of(struct json_object *status, const char *name)
{
	struct json_object *value;
	const char *text;
	char *output;
	int length;

	if (!json_object_object_get_ex(status, name, &value))
		return NULL;
	text = json_object_get_string(value);
	if (!text)
		return NULL;
	output = xrealloc(NULL, strlen(text) + 1);
	length = b64_pton(text, (unsigned char *)output, strlen(text));
	output[length < 0 ? 0 : length] = 0;
	output[strcspn(output, "\n")] = 0;
	if (*output)
		return output;
	free(output);
	return NULL;
}

bool qga_look(struct qga *qga, int64_t pid, struct qga_end *end)
{
	struct json_object *arguments = json_object_new_object(), *value, *code;

	*end = (struct qga_end){ };
	json_object_object_add(arguments, "pid", json_object_new_int64(pid));
	value = call(qga, "guest-exec-status", arguments);
	if (!value)
		return false;
	end->exited = is_true(value, "exited");
	if (end->exited) {
		end->code = json_object_object_get_ex(value, "exitcode", &code) ?
			    json_object_get_int(code) : -1;
		end->text = output_of(value, "out-data");
		if (!end->text)
			end->text = output_of(value, "err-data");
	}
	json_object_put(value);
	return true;
}

bool qga_wait(struct qga *qga, int64_t pid, unsigned int seconds, char **text)
{
	uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + seconds * NS_PER_S;
	struct qga_end end;

	*text = NULL;
	do {
		if (!qga_look(qga, pid, &end))
			return false;
		if (!end.exited && clock_ns(CLOCK_MONOTONIC) > deadline)
			return failed(qga, "a program that doesn't end");
		if (!end.exited)
			usleep(PAUSE_US);
	} while (!end.exited);
	if (end.code) {
		failed(qga, "%s", end.text ? end.text : "a program failed");
		free(end.text);
		return false;
	}
	*text = end.text;
	return true;
}

bool qga_run(struct qga *qga, const char *const argv[], char **text)
{
	int64_t pid;

	*text = NULL;
	return qga_start(qga, argv, &pid) && qga_wait(qga, pid, TIMEOUT_NS / NS_PER_S, text);
}
