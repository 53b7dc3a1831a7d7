/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU's guest agent: files and programs in a guest (QEMU's documentation, "QEMU Guest Agent" and
 * "QEMU Guest Agent Protocol Reference").  Who answers is the guest, so nothing of an answer is
 * trusted, neither its length nor that it comes at all.
 */
#ifndef QGA_H
#define QGA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qga;

/*
 * The agent behind the socket of QEMU's chardev @path; waits for the agent, for 10 s at most, as do
 * all functions below.  NULL: none; *@error says why, and is to be freed.
 */
struct qga *qga_open(const char *path, char **error);

void qga_close(struct qga *qga);

/* Why the function below that was called last returned false; harmless for a terminal */
const char *qga_error(const struct qga *qga);

/* Write the rest of @from to file @path in the guest. */
bool qga_put(struct qga *qga, const char *path, FILE *from);

/* Append file @path of the guest to @to.  An error if there are more than @max bytes. */
bool qga_get(struct qga *qga, const char *path, FILE *to, uint64_t max);

/* Start the program @argv[0], found by the agent's PATH. */
bool qga_start(struct qga *qga, const char *const argv[], int64_t *pid);

/**
 * struct qga_end - how a program ended
 * @exited: it did; else the rest has no meaning
 * @code: exit status, or -1: ended by a signal
 * @text: what it wrote to stdout, or to stderr if that is nothing; to be freed
 */
struct qga_end {
	bool exited;
	int code;
	char *text;
};

/* Has the program from qga_start() ended?  The agent says that once. */
bool qga_look(struct qga *qga, int64_t pid, struct qga_end *end);

/* Run @argv, and wait for it.  False also if its exit status isn't 0.  *@text: to be freed; or NULL */
bool qga_run(struct qga *qga, const char *const argv[], char **text);

/* The same for a program that qga_start() started: until it ends, for @seconds at most */
bool qga_wait(struct qga *qga, int64_t pid, unsigned int seconds, char **text);

#endif
