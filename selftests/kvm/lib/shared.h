/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guests of two vCPUs that want caches, memory, or each other's data. */
#ifndef SELFTESTS_SHARED_H
#define SELFTESTS_SHARED_H

#include <pthread.h>
#include <stdint.h>

#include "vm.h"

/**
 * struct demand - what each of the two vCPUs does in a pass, again and again
 * @own: lines of 64 bytes that are its own, one behind the other, up to MAX_LINES
 * @own_writes: it adds to each instead of loading from it
 * @both: lines that are the same for both, up to MAX_LINES
 * @both_writes: as @own_writes
 * @compute: rounds of a loop of two instructions
 */
struct demand {
	uint32_t own, own_writes, both, both_writes, compute;
};

#define MAX_LINES	65536u

/* A VM of two vCPUs, each with its thread */
struct pair {
	struct vm vm[2];
	pthread_t thread[2];
};

void begin_pair(struct pair *pair, struct demand demand);
void end_pair(struct pair *pair);

/* Passes so far, of both together */
uint32_t passes_of(const struct pair *pair);

#endif
