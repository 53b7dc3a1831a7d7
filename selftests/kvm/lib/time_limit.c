// SPDX-License-Identifier: GPL-2.0-or-later
/* An end to tests whose guest may wait for ever. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "time_limit.h"

static const char *failed;

static void give_up(__attribute__((unused)) int signal)
{
	static const char not_ok[] = "not ok - ";

	if (write(1, not_ok, sizeof(not_ok) - 1) < 0 || write(1, failed, strlen(failed)) < 0 || write(1, "\n", 1) < 0)
		_exit(2);
	_exit(1);
}

void set_time_limit(unsigned int seconds, const char *failure)
{
	failed = failure;
	signal(SIGALRM, give_up);
	alarm(seconds);
}
