/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An end to tests whose guest may wait for ever. */
#ifndef SELFTESTS_TIME_LIMIT_H
#define SELFTESTS_TIME_LIMIT_H

/*
 * A test that isn't over in so many seconds fails, and so does the program at once: @failure is what TAP has of it.
 * 0 seconds: it is over.
 */
void set_time_limit(unsigned int seconds, const char *failure);

#endif
