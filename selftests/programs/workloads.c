// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Things that programs do, to be counted and sampled.
 *
 *	workloads NAME		do that
 *	workloads NAME TIMES	so often, and print the nanoseconds that it took; with one
 *				word more, tell that to the terminal MARKS when this ends
 *	workloads		list the names
 *
 * What the first form executes in user mode depends on nothing but the name.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MB	(1 << 20)

static volatile uint64_t sink;
static volatile double sinkf;

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Integer */

static void mix(void)
{
	uint64_t state = 1;

	for (int i = 0; i < 1000000; i++)
		next(&state);
	sink = state;
}

static void divide(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 1; i < 300000; i++)
		sum += 0xfedcba9876543210 / i % 1000;
	sink = sum;
}

static void sieve(void)
{
	static uint8_t composite[400000];
	int primes = 0;

	memset(composite, 0, sizeof(composite));
	for (unsigned int i = 2; i < sizeof(composite); i++) {
		primes += !composite[i];
		for (unsigned int j = 2 * i; !composite[i] && j < sizeof(composite); j += i)
			composite[j] = 1;
	}
	sink = primes;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void sort(void)
{
	static uint32_t values[30000];
	uint64_t state = 7;

	for (unsigned int i = 0; i < 30000; i++)
		values[i] = next(&state);
	qsort(values, 30000, sizeof(*values), compare);
	sink = values[100];
}

static unsigned int fibonacci(unsigned int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void calls(void)
{
	sink = fibonacci(25);
}

static void branches(void)
{
	uint64_t state = 3;
	int taken = 0;

	for (int i = 0; i < 500000; i++)
		if (next(&state) & 0x100)
			taken++;
	sink = taken;
}

/* Floating point */

static void matrix(void)
{
	static double a[96][96], b[96][96], c[96][96];

	for (int i = 0; i < 96; i++)
		for (int j = 0; j < 96; j++)
			a[i][j] = i + j, b[i][j] = i - j, c[i][j] = 0;
	for (int i = 0; i < 96; i++)
		for (int k = 0; k < 96; k++)
			for (int j = 0; j < 96; j++)
				c[i][j] += a[i][k] * b[k][j];
	sinkf = c[5][5];
}

static void functions(void)
{
	double sum = 0;

	for (int i = 1; i < 20000; i++)
		sum += sin(i) * sqrt(i) + log(i);
	sinkf = sum;
}

static void mandelbrot(void)
{
	int inside = 0;

	for (int p = 0; p < 60 * 60; p++) {
		double cr = p % 60 / 20. - 2, ci = p / 60 / 30. - 1, r = 0, i = 0;
		int n = 0;

		for (; n < 100 && r * r + i * i < 4; n++) {
			double t = r * r - i * i + cr;

			i = 2 * r * i + ci;
			r = t;
		}
		inside += n == 100;
	}
	sink = inside;
}

/* Memory */

static void stream(void)
{
	static double a[MB / 8], b[MB / 8];

	for (int round = 0; round < 8; round++)
		for (int i = 0; i < MB / 8; i++)
			a[i] = b[i] * 3 + a[i];
	sinkf = a[9];
}

static void chase(void)
{
	static uint32_t where[MB / 4];
	uint64_t state = 5;
	uint32_t at = 0;

	for (uint32_t i = 0; i < MB / 4; i++)
		where[i] = i;
	for (uint32_t i = MB / 4 - 1; i > 0; i--) {
		uint32_t j = next(&state) % i, t = where[i];

		where[i] = where[j];
		where[j] = t;
	}
	for (int i = 0; i < 500000; i++)
		at = where[at];
	sink = at;
}

static void copy(void)
{
	static char from[MB], to[MB];

	for (int i = 0; i < 200; i++) {
		memcpy(to, from, MB);
		from[i] = to[i + 1] + 1;
	}
	sink = to[0];
}

static void allocate(void)
{
	void *pointer[500] = { };
	uint64_t state = 11;

	for (int i = 0; i < 40000; i++) {
		unsigned int which = next(&state) % 500;

		free(pointer[which]);
		pointer[which] = malloc(next(&state) % 2000);
	}
	for (int i = 0; i < 500; i++)
		free(pointer[i]);
}

/* The kernel's part */

static void system_calls(void)
{
	for (int i = 0; i < 20000; i++)
		syscall(SYS_getppid);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

static void raise_signals(void)
{
	signal(SIGUSR1, count_signal);
	for (int i = 0; i < 3000; i++)
		raise(SIGUSR1);
	sink = signals;
}

static sigjmp_buf back;

static void jump_back(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void faults(void)
{
	volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile int i;

	signal(SIGSEGV, jump_back);
	for (i = 0; i < 2000; i++)
		if (!sigsetjmp(back, 1))
			*page = 1;
	munmap((void *)page, 4096);
}

static void page_faults(void)
{
	for (int i = 0; i < 8; i++) {
		char *pages = mmap(NULL, 2 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(pages, 2 * MB, MADV_NOHUGEPAGE);
		for (int p = 0; p < 2 * MB; p += 4096)
			pages[p] = 1;
		munmap(pages, 2 * MB);
	}
}

static void forks(void)
{
	for (int i = 0; i < 60; i++) {
		pid_t pid = fork();

		if (!pid) {
			sink = fibonacci(15);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			err(1, "fork");
	}
}

static void *count_down(void *arg)
{
	(void)arg;
	sink = fibonacci(18);
	return NULL;
}

static void threads(void)
{
	pthread_t thread;

	for (int i = 0; i < 100; i++) {
		if (pthread_create(&thread, NULL, count_down, NULL))
			errx(1, "pthread_create");
		pthread_join(thread, NULL);
	}
}

static void pipes(void)
{
	char data[4096] = { };
	int ends[2];

	if (pipe(ends))
		err(1, "pipe");
	for (int i = 0; i < 5000; i++)
		if (write(ends[1], data, sizeof(data)) < 0 || read(ends[0], data, sizeof(data)) < 0)
			err(1, "the pipe");
	close(ends[0]);
	close(ends[1]);
}

static void files(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	char data[8192] = { };

	if (fd < 0)
		err(1, "/tmp");
	for (int i = 0; i < 1000; i++)
		if (pwrite(fd, data, sizeof(data), i % 50 * 8192) < 0 ||
		    pread(fd, data, sizeof(data), i % 50 * 8192) < 0)
			err(1, "a file");
	close(fd);
}

static const struct work {
	const char *name;
	void (*run)(void);
} workloads[] = {
	{ "mix", mix }, { "divide", divide }, { "sieve", sieve }, { "sort", sort }, { "calls", calls },
	{ "branches", branches }, { "matrix", matrix }, { "functions", functions },
	{ "mandelbrot", mandelbrot }, { "stream", stream }, { "chase", chase }, { "copy", copy },
	{ "allocate", allocate }, { "system-calls", system_calls }, { "signals", raise_signals },
	{ "faults", faults }, { "page-faults", page_faults }, { "forks", forks }, { "threads", threads },
	{ "pipes", pipes }, { "files", files },
};

#define NR_WORKLOADS	(sizeof(workloads) / sizeof(*workloads))

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* A stretch of work ends, and the next one begins: tools/bench/programs/meter.c listens at the terminal MARKS. */
static void mark(const char *name)
{
	const char *terminal = getenv("MARKS");
	char answer;
	int fd;

	if (!name || !terminal)
		return;
	fd = open(terminal, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "%s\n", name) < 0 || read(fd, &answer, 1) != 1)
		err(1, "%s", terminal);
	close(fd);
}

int main(int argc, char **argv)
{
	int64_t start, end;
	int times;

	if (argc < 2) {
		for (unsigned int i = 0; i < NR_WORKLOADS; i++)
			puts(workloads[i].name);
		return 0;
	}
	for (unsigned int i = 0; i < NR_WORKLOADS; i++) {
		if (strcmp(argv[1], workloads[i].name))
			continue;
		if (argc == 2) {
			workloads[i].run();
			return 0;
		}
		mark(argc > 3 ? "start" : NULL);
		start = now();
		for (times = atoi(argv[2]); times > 0; times--)
			workloads[i].run();
		end = now();
		mark(argv[3]);
		printf("%ld\n", end - start);
		return 0;
	}
	errx(1, "no work '%s'", argv[1]);
}
