/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What something cost, by the emulator's oracle.  Include oracle.h first. */
#ifndef SELFTESTS_COST_H
#define SELFTESTS_COST_H

struct cost {
	int64_t count[NR_EVENTS][NR_MODES];
};

void read_cost(int msr, struct cost *c);

void subtract_cost(struct cost *c, const struct cost *other);

/*
 * Of two attempts at the same, which one did the host's timer disturb less?  First those of
 * fewest instructions: some go another way for a few, and are no cheaper for that.
 */
bool less_disturbed(const struct cost *a, const struct cost *b);

/* Lines "FIGURE VALUE": @c's share for each of @times.  @what, unless NULL, goes before them. */
void print_cost(const struct cost *c, unsigned int times, const char *what);

#endif
