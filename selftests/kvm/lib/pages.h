/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guests of two vCPUs that access and write pages that are known. */
#ifndef SELFTESTS_PAGES_H
#define SELFTESTS_PAGES_H

#include <pthread.h>
#include <stdbool.h>

#include "vm.h"

#define PAGE		4096u
#define GUEST_PAGES	256u

/**
 * struct work - what a vCPU does with the guest's memory, in page frames
 * @first_read: the first page that it accesses
 * @reads: so many are accessed by one load each
 * @first_written: the first page that it writes
 * @writes: so many are written by one instruction each, which loads and stores
 * @passes: so often; 0: until end_work()
 *
 * In each pass a load from the page of the code comes, too.
 */
struct work {
	unsigned int first_read, reads, first_written, writes;
	uint32_t passes;
};

uint64_t instructions_of_pass(const struct work *w);
/* Up to the exit of the last pass */
uint64_t instructions_of(const struct work *w);

bool is_written(const struct work *w, unsigned int frame);
bool is_accessed(const struct work *w, unsigned int frame);

/* A vCPU and the thread that runs it */
struct worker {
	struct vm vm;
	unsigned int id;
	pthread_t thread;
};

/* Two vCPUs of a VM whose memory others can take away */
void make_workers(struct worker worker[2]);
void free_workers(struct worker worker[2]);

void begin_work(struct worker *worker, struct work w);
void end_work(struct worker *worker);

#endif
