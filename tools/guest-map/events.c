// SPDX-License-Identifier: GPL-2.0-or-later
#include "events.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* For some ten thousand events between two looks */
#define BUFFER_SIZE	(8 << 20)

static int fd = -1;

static bool listen_to_all(void)
{
	struct {
		struct nlmsghdr head;
		struct cn_msg message;
		enum proc_cn_mcast_op op;
	} __attribute__((packed)) request = {
		.head = { .nlmsg_len = sizeof(request), .nlmsg_type = NLMSG_DONE },
		.message = {
			.id = { .idx = CN_IDX_PROC, .val = CN_VAL_PROC }, .len = sizeof(request.op),
		},
		.op = PROC_CN_MCAST_LISTEN,
	};

	return send(fd, &request, sizeof(request), 0) == sizeof(request);
}

bool events_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC };
	int size = BUFFER_SIZE;

	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (!bind(fd, (struct sockaddr *)&address, sizeof(address)) && listen_to_all())
		return true;
	close(fd);
	fd = -1;
	return false;
}

static void tell(const struct proc_event *from, void (*call)(const struct event *event))
{
	struct event event = { .ns = from->timestamp_ns };

	switch ((unsigned int)from->what) {
	case PROC_EVENT_FORK:
		/* A thread otherwise */
		if (from->event_data.fork.child_pid != from->event_data.fork.child_tgid)
			return;
		event.kind = EVENT_FORK;
		event.pid = from->event_data.fork.child_tgid;
		break;
	case PROC_EVENT_EXEC:
		event.kind = EVENT_EXEC;
		event.pid = from->event_data.exec.process_tgid;
		break;
	case PROC_EVENT_EXIT:
		event.kind = EVENT_EXIT;
		event.pid = from->event_data.exit.process_tgid;
		break;
	default:
		return;
	}
	call(&event);
}

bool events_read(void (*call)(const struct event *event))
{
	char buffer[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	const struct nlmsghdr *head = (const struct nlmsghdr *)buffer;
	const struct cn_msg *message = NLMSG_DATA(head);
	bool all = fd >= 0;
	ssize_t size;

	while (fd >= 0) {
		struct proc_event event = { };

		size = recv(fd, buffer, sizeof(buffer), 0);
		if (size < 0 && errno == ENOBUFS) {
			all = false;
			continue;
		}
		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			break;
		if (size < NLMSG_LENGTH((ssize_t)sizeof(*message)) ||
		    message->id.idx != CN_IDX_PROC)
			continue;
		size -= NLMSG_LENGTH(sizeof(*message));
		/* Later kernels may have longer ones. */
		memcpy(&event, message->data, (size_t)size < sizeof(event) ? (size_t)size :
		       sizeof(event));
		tell(&event, call);
	}
	return all;
}
