// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Computes in a function that tells who it is: a copy of this program whose name ends with "c" does
 * so in work_c(), and nobody else does.
 *
 *	NAME MS [THREADS [COMMAND [ARGUMENT...]]]
 *
 * For MS of CPU time, in that many threads; of several, the first one ends at once.  Then COMMAND
 * takes the process's place.  Name, process and how many rounds it computed are appended to the
 * file "rounds".
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *self;
static unsigned long long begin, wanted, rounds;
static int left = 1;
static char **command;

/* In a page of its own, so that who computed is known without names, too. */
#define WORK(name) \
static __attribute__((noinline, aligned(4096))) void work_##name(unsigned long n) \
{ \
	asm volatile("1:\tnop\n\tdec %0\n\tjnz 1b" : "+r"(n) : : "cc"); \
}

WORK(a) WORK(b) WORK(c) WORK(d) WORK(e) WORK(f) WORK(g) WORK(h)

static void (*const work[])(unsigned long n) = {
	work_a, work_b, work_c, work_d, work_e, work_f, work_g, work_h,
};

/* The first page behind them is for all others. */
static __attribute__((noinline, aligned(4096))) unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void end(void)
{
	char line[64];
	int fd = open("rounds", O_WRONLY | O_APPEND | O_CREAT, 0644);

	snprintf(line, sizeof(line), "%s %d %llu\n", self, getpid(), rounds);
	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		exit(1);
	close(fd);
	if (!command)
		exit(0);
	execv(command[0], command);
	exit(1);
}

static void *compute(void *unused)
{
	(void)unused;
	while (now() < begin + wanted) {
		work[self[strlen(self) - 1] - 'a'](50000);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	}
	if (!__atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST))
		end();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int i;

	self = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	if (argc < 2 || strlen(self) < 1 || self[strlen(self) - 1] < 'a' ||
	    self[strlen(self) - 1] > 'h')
		return 2;
	begin = now();
	wanted = strtoull(argv[1], NULL, 0) * 1000000;
	if (argc > 3)
		command = argv + 3;
	if (argc < 3 || atoi(argv[2]) < 2)
		return compute(NULL) != NULL;
	left = atoi(argv[2]);
	for (i = 0; i < atoi(argv[2]); i++)
		if (pthread_create(&thread, NULL, compute, NULL))
			return 1;
	pthread_exit(NULL);
}
