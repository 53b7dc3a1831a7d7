// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the emulated host did while a guest did something, by the emulator's oracle.
 *
 *	meter SOCKET
 *
 * The guest's QEMU connects a character device to SOCKET.  Each line that comes,
 * "NAME\n", ends a stretch and is answered by an empty line, which begins the next;
 * prints lines "NAME FIGURE VALUE" for each stretch.  reference_...: what the guest's
 * counters should have counted in it (docs/emulated-pmu.md, "Reference for virtual PMUs").
 */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "vm.h"
#include "oracle.h"
#include "cost.h"

#define REFERENCE	0xc0de0018

struct moment {
	struct cost cost;
	int64_t instructions, branches, ns;
};

static int msr;

static struct moment now(void)
{
	struct timespec t;
	struct moment m;

	clock_gettime(CLOCK_MONOTONIC, &t);
	m.ns = t.tv_sec * 1000000000ll + t.tv_nsec;
	m.instructions = oracle_msr(msr, REFERENCE);
	m.branches = oracle_msr(msr, REFERENCE + 1);
	read_cost(msr, &m.cost);
	return m;
}

static void print_stretch(const char *name, struct moment from, struct moment to)
{
	subtract_cost(&to.cost, &from.cost);
	print_cost(&to.cost, 1, name);
	printf("%s reference_instructions %lld\n", name, (long long)(to.instructions - from.instructions));
	printf("%s reference_branches %lld\n", name, (long long)(to.branches - from.branches));
	printf("%s ns %lld\n", name, (long long)(to.ns - from.ns));
	fflush(stdout);
}

static int wait_for_qemu(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), connection;

	if (strlen(path) >= sizeof(address.sun_path))
		errx(1, "%s is too long", path);
	strcpy(address.sun_path, path);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1))
		err(1, "%s", path);
	connection = accept(fd, NULL, NULL);
	if (connection < 0)
		err(1, "%s", path);
	return connection;
}

int main(int argc, char **argv)
{
	struct moment begin, end;
	char name[100];
	FILE *guest;
	int fd;

	if (argc != 2)
		errx(1, "usage: meter SOCKET");
	msr = open_oracle(0);
	fd = wait_for_qemu(argv[1]);
	guest = fdopen(fd, "r");
	begin = now();
	while (fgets(name, sizeof(name), guest)) {
		end = now();
		name[strcspn(name, "\r\n")] = '\0';
		print_stretch(name, begin, end);
		begin = now();
		if (write(fd, "\n", 1) != 1)
			err(1, "the guest");
	}
	return 0;
}
