/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tests want of the sampler (tools/tinyvm/guests.h), and of a host's interrupts. */
#ifndef SELFTESTS_SAMPLER_H
#define SELFTESTS_SAMPLER_H

#include "guests.h"

/*
 * By how many instructions this host's overflow interrupts come late, at most (the bench's
 * pmu_skid): what SKID says, else none.  Fewer if the guest exits meanwhile.
 */
unsigned int skid(void);

/* It has come to its end: was each of its interrupts there, in its place? */
void check_sampler(struct vm *vm, unsigned int rounds, unsigned int period,
		   const char *name);

/* How often the log of the host's kernel has this */
unsigned int in_log(const char *text);

/* How many NMIs it says there that it didn't know */
unsigned int unknown_nmis(void);

/* The bench's Intel hosts execute an instruction each nanosecond: all is over much sooner there. */
static inline unsigned int scaled(unsigned int microseconds)
{
	return on_intel() ? microseconds / 10 : microseconds;
}

/*
 * A SIGALRM after so long, none for 0; the handler does nothing.  One that comes before KVM_RUN doesn't end it.  Thus
 * more of them follow, but so far apart that a slow host isn't busy with signals alone.
 */
void signal_after(unsigned int microseconds);

#endif
