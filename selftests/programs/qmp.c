// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Talks to QEMU:
 *
 *	qmp SOCKET COMMAND [ARGUMENTS]
 *	qmp SOCKET COMMAND [ARGUMENTS] --until MEMBER=VALUE...
 *
 * Prints what COMMAND returns, as JSON of one line; ARGUMENTS are a JSON object.
 * With --until it repeats that until a member of what is returned has one of
 * these values, and prints only the value.  An error of QEMU's goes to standard
 * error, and the status is 1; 2 if there is no QEMU to talk to.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

static int fd;
static FILE *in;	/* the same */

static void connect_to(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(to.sun_path))
		errx(2, "%s: too long", path);
	strcpy(to.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		err(2, "%s", path);
	in = fdopen(fd, "r");
	if (!in)
		err(2, "%s", path);
}

/* The next message that isn't an event */
static struct json_object *receive(void)
{
	static char *line;
	static size_t size;

	while (getline(&line, &size, in) > 0) {
		struct json_object *message = json_tokener_parse(line);

		if (!message)
			errx(2, "no JSON: %s", line);
		if (!json_object_object_get_ex(message, "event", NULL))
			return message;
		json_object_put(message);
	}
	errx(2, "QEMU ended");
}

/* What the command returns, NULL for an error */
static struct json_object *execute(const char *command, const char *arguments)
{
	struct json_object *request = json_object_new_object(), *reply, *part;

	json_object_object_add(request, "execute", json_object_new_string(command));
	if (arguments) {
		struct json_object *object = json_tokener_parse(arguments);

		if (!object)
			errx(2, "no JSON: %s", arguments);
		json_object_object_add(request, "arguments", object);
	}
	dprintf(fd, "%s\n", json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN));
	json_object_put(request);

	reply = receive();
	if (json_object_object_get_ex(reply, "return", &part)) {
		json_object_get(part);
		json_object_put(reply);
		return part;
	}
	if (json_object_object_get_ex(reply, "error", &part) &&
	    json_object_object_get_ex(part, "desc", &part))
		warnx("%s", json_object_get_string(part));
	json_object_put(reply);
	return NULL;
}

/* The one of MEMBER=VALUE... that holds for the object */
static const char *holds(struct json_object *object, char **wanted)
{
	for (; *wanted; wanted++) {
		const char *value = strchr(*wanted, '=');
		struct json_object *member;
		char name[64];

		if (!value || value - *wanted >= (int)sizeof(name))
			errx(2, "no MEMBER=VALUE: %s", *wanted);
		sprintf(name, "%.*s", (int)(value - *wanted), *wanted);
		if (json_object_object_get_ex(object, name, &member) &&
		    !strcmp(json_object_get_string(member), value + 1))
			return value + 1;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *arguments = NULL;
	struct json_object *result;
	bool until;
	int i = 3;

	if (argc < 3)
		errx(2, "usage: qmp SOCKET COMMAND [ARGUMENTS] [--until MEMBER=VALUE...]");
	if (i < argc && strcmp(argv[i], "--until"))
		arguments = argv[i++];
	until = i < argc;
	if (until && strcmp(argv[i++], "--until"))
		errx(2, "unknown argument %s", argv[i - 1]);

	connect_to(argv[1]);
	json_object_put(receive());	/* the greeting */
	json_object_put(execute("qmp_capabilities", NULL));
	for (;;) {
		const char *value = NULL;

		result = execute(argv[2], arguments);
		if (!result)
			return 1;
		if (until)
			value = holds(result, argv + i);
		if (value)
			puts(value);
		else if (!until)
			puts(json_object_to_json_string_ext(result, JSON_C_TO_STRING_PLAIN));
		json_object_put(result);
		if (value || !until)
			return 0;
		usleep(20000);
	}
}
