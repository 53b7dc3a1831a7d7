// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "openmetrics.h"
#include "sample.h"
#include "util.h"

/* Beyond those that Prometheus' exporters share out: "1 VPMU" on a telephone's keys */
#define DEFAULT_PORT	"18768"
#define DEFAULT_ADDRESS	"127.0.0.1"

/* Clients that are slow, or many, are to harm nobody: figures of 200 VMs with 64 vCPUs take 15 MB. */
#define CONNECTIONS	8
#define TIMEOUT_S	10

/*
 * Figures are that old at most.  To look more often would cost the host time, and show anybody who may connect
 * what VMs do in moments that are too short for an operator.
 */
#define LIFETIME_NS	NS_PER_S

/* systemd's first socket, see sd_listen_fds(3) */
#define LISTEN_FDS_START	3

#define TEXT_TYPE	"text/plain; charset=utf-8"

/**
 * struct serve_options - vpmu serve
 * @address: where to listen, numeric
 * @port: the same
 */
struct serve_options {
	char *address;
	char *port;
};

/**
 * struct server - what requests need
 * @proc: where processes are looked up
 * @figures: the last look, NULL if it failed or there was none
 * @failure: why it failed, NULL if it didn't
 * @time: when it was, CLOCK_MONOTONIC; 0: not yet
 */
struct server {
	const char *proc;
	struct MHD_Response *figures;
	char *failure;
	__u64 time;
};

/* A response that holds @text, which it frees; every one ends its connection. */
static struct MHD_Response *respond(const char *type, char *text, size_t length)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);

	if (!response ||
	    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) != MHD_YES ||
	    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") != MHD_YES)
		errx(STATUS_ERROR, "out of memory");
	return response;
}

/* The figures of all VMs; NULL with the reason in *@why if there are none. */
static struct MHD_Response *look(const char *proc, char **why)
{
	struct sample sample;
	struct device dev;
	size_t length;
	char *text;
	FILE *f;
	int r;

	/* Not for longer than that: nobody could unload the module. */
	if (device_try(&dev, why))
		return NULL;
	r = sample_take(&sample, &dev, proc, 0, SAMPLE_NO_EVENTS);
	if (r) {
		*why = device_explain(r);
		device_close(&dev);
		return NULL;
	}
	f = open_memstream(&text, &length);
	if (!f)
		err(STATUS_ERROR, NULL);
	openmetrics_print(f, &dev, &sample);
	device_close(&dev);
	sample_free(&sample);
	if (fclose(f))
		err(STATUS_ERROR, NULL);
	return respond(OPENMETRICS_TYPE, text, length);
}

/* Look again, unless the last look is still good. */
static void refresh(struct server *server)
{
	char *failure = NULL;

	if (server->time && sample_now() - server->time < LIFETIME_NS)
		return;
	if (server->figures)
		MHD_destroy_response(server->figures);
	server->figures = look(server->proc, &failure);
	server->time = sample_now();
	/* The log has each change once, however often it is asked for. */
	if (failure && (!server->failure || strcmp(failure, server->failure)))
		warnx("no figures: %s", failure);
	else if (server->failure && !failure)
		warnx("figures again");
	free(server->failure);
	server->failure = failure;
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned int status, char *text)
{
	struct MHD_Response *response = respond(TEXT_TYPE, text, strlen(text));
	enum MHD_Result r = MHD_YES;

	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		r = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (r == MHD_YES)
		r = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result answer(void *data, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *body,
			      size_t *length, void **state)
{
	struct server *server = data;

	(void)version;
	(void)body;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				 xasprintf("only GET and HEAD\n"));
	/* The first call comes with the headers, the last one without a body. */
	if (!*state || *length) {
		*state = server;
		*length = 0;
		return MHD_YES;
	}
	if (!strcmp(url, "/"))
		return send_text(connection, MHD_HTTP_OK,
				 xasprintf("The figures of kvm_vpmu are at /metrics\n"));
	if (strcmp(url, "/metrics"))
		return send_text(connection, MHD_HTTP_NOT_FOUND, xasprintf("only /metrics\n"));
	refresh(server);
	if (server->figures)
		return MHD_queue_response(connection, MHD_HTTP_OK, server->figures);
	return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
			 xasprintf("%s\n", server->failure));
}

/*
 * systemd's socket, or -1 if there is none; ends the program if there are several, or it is of
 * another kind.
 */
static int inherited_socket(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	int fd = LISTEN_FDS_START, listens = 0;
	socklen_t size = sizeof(listens);
	uint64_t n;

	if (!pid || !count || !parse_number(pid, INT_MAX, &n) || (pid_t)n != getpid())
		return -1;
	if (!parse_number(count, INT_MAX, &n) || n != 1)
		errx(STATUS_USAGE, "LISTEN_FDS: '%s' sockets, and not one", count);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size))
		err(STATUS_USAGE, "LISTEN_FDS: descriptor %d", fd);
	if (!listens)
		errx(STATUS_USAGE, "LISTEN_FDS: descriptor %d doesn't listen", fd);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		err(STATUS_ERROR, "LISTEN_FDS: descriptor %d", fd);
	warnx("listening on systemd's socket");
	return fd;
}

static struct addrinfo *resolve(const char *address, const char *port)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *info;

	return getaddrinfo(address, port, &hints, &info) ? NULL : info;
}

/* Where a socket listens, as URLs have it; the kernel chose the port if 0 was asked for. */
static void announce(int fd)
{
	char address[NI_MAXHOST], port[NI_MAXSERV];
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &size) ||
	    getnameinfo((struct sockaddr *)&name, size, address, sizeof(address), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		errx(STATUS_ERROR, "the socket has no address");
	warnx("listening at http://%s%s%s:%s/metrics", strchr(address, ':') ? "[" : "", address,
	      strchr(address, ':') ? "]" : "", port);
}

static int open_socket(const struct serve_options *options)
{
	const char *address = options->address ? options->address : DEFAULT_ADDRESS;
	const char *port = options->port ? options->port : DEFAULT_PORT;
	struct addrinfo *info = resolve(address, port);
	const int yes = 1;
	int fd;

	if (!info)
		errx(STATUS_ERROR, "%s port %s: no such address", address, port);
	fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* For a server that starts again at once */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
	    bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, CONNECTIONS))
		err(STATUS_ERROR, "%s port %s", address, port);
	freeaddrinfo(info);
	announce(fd);
	return fd;
}

static unsigned int connections(struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info ? info->num_connections : 0;
}

/* Serve until a signal comes; false if the library fails. */
static bool serve(struct MHD_Daemon *daemon, int signals)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .events = POLLIN } };
	bool again = false;

	if (!info)
		return false;
	fds[1].fd = info->epoll_fd;
	for (;;) {
		unsigned int before = connections(daemon);
		MHD_UNSIGNED_LONG_LONG ms;
		int timeout = -1;

		if (again)
			timeout = 0;
		else if (MHD_get_timeout(daemon, &ms) == MHD_YES)
			timeout = ms > INT_MAX ? INT_MAX : (int)ms;
		if (poll(fds, ARRAY_SIZE(fds), timeout) < 0 && errno != EINTR)
			return false;
		if (fds[0].revents)
			return true;
		if (MHD_run(daemon) != MHD_YES)
			return false;
		/*
		 * At the limit MHD_run() ceases to wait for more connections; when one ends it
		 * waits for them again, but not before its next call.
		 */
		again = connections(daemon) < before;
	}
}

/* "PORT", "ADDRESS:PORT" or "[ADDRESS]:PORT" */
static bool parse_listen(struct serve_options *options, const char *arg)
{
	const char *colon = strrchr(arg, ':'), *port = colon ? colon + 1 : arg;
	struct addrinfo *info;
	uint64_t n;

	options->address = NULL;
	options->port = xasprintf("%s", port);
	if (strcmp(port, "0") && !parse_number(port, UINT16_MAX, &n))
		return false;
	if (!colon)
		return true;
	if (*arg == '[' && colon - arg >= 2 && colon[-1] == ']')
		options->address = xasprintf("%.*s", (int)(colon - arg - 2), arg + 1);
	else if (memchr(arg, ':', colon - arg))
		return false;
	else
		options->address = xasprintf("%.*s", (int)(colon - arg), arg);
	info = *options->address ? resolve(options->address, port) : NULL;
	if (!info)
		return false;
	freeaddrinfo(info);
	return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'l':
		if (!parse_listen(state->input, arg))
			argp_error(state, "--listen: '%s' is not [ADDRESS:]PORT, with a numeric address", arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct serve_options options = { };
	struct server server = { .proc = ctx->proc };
	struct MHD_Daemon *daemon;
	sigset_t set;
	int fd, signals;
	bool good;

	argp_parse(serve_command.argp, argc, argv, 0, NULL, &options);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0)
		err(STATUS_ERROR, "signals");
	/* of connections that were closed */
	signal(SIGPIPE, SIG_IGN);
	fd = inherited_socket();
	if (fd < 0)
		fd = open_socket(&options);
	daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, &server,
				  MHD_OPTION_LISTEN_SOCKET, fd,
				  MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CONNECTIONS,
				  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)TIMEOUT_S,
				  MHD_OPTION_END);
	if (!daemon)
		errx(STATUS_ERROR, "the HTTP server can't start");
	good = serve(daemon, signals);
	MHD_stop_daemon(daemon);
	if (server.figures)
		MHD_destroy_response(server.figures);
	free(server.failure);
	free(options.address);
	free(options.port);
	close(signals);
	if (!good)
		warnx("the HTTP server failed");
	return good ? STATUS_OK : STATUS_ERROR;
}

static const struct argp_option option_list[] = {
	{ "listen", 'l', "[ADDRESS:]PORT", 0,
	  "listen there (default: " DEFAULT_ADDRESS ":" DEFAULT_PORT ")", 0 },
	{ }
};
static const struct argp argp = {
	option_list, parse, "",
	"Serve the figures of all VMs over HTTP, at /metrics, in the text format of OpenMetrics.",
	NULL, NULL, NULL
};

const struct command serve_command = { "serve", "serve figures for Prometheus", &argp, run };
