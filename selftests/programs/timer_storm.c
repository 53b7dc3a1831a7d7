// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A storm of timer interrupts, each of which makes a guest on this CPU exit:
 *
 *	timer_storm MICROSECONDS
 *
 * until it is killed.
 */
#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long us = argc > 1 ? atol(argv[1]) : 500;
	struct itimerspec period = { { 0, us * 1000 }, { 0, us * 1000 } };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t ticks;

	if (fd < 0 || timerfd_settime(fd, 0, &period, NULL))
		err(1, "timerfd");
	while (read(fd, &ticks, sizeof(ticks)) == sizeof(ticks))
		;
	return 1;
}
