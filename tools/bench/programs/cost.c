// SPDX-License-Identifier: GPL-2.0-or-later
/* The cost of an operation, by the emulator's oracle. */
#include "vm.h"
#include "oracle.h"
#include "cost.h"

void read_cost(int msr, struct cost *c)
{
	for (int event = 0; event < NR_EVENTS; event++)
		for (int mode = 0; mode < NR_MODES; mode++)
			c->count[event][mode] = oracle(msr, event, mode);
}

void subtract_cost(struct cost *c, const struct cost *other)
{
	for (int event = 0; event < NR_EVENTS; event++)
		for (int mode = 0; mode < NR_MODES; mode++)
			c->count[event][mode] -= other->count[event][mode];
}

bool less_disturbed(const struct cost *a, const struct cost *b)
{
	int64_t more = a->count[INSTRUCTIONS][HOST_KERNEL] - b->count[INSTRUCTIONS][HOST_KERNEL];

	if (!more)
		return a->count[CYCLES][HOST_KERNEL] < b->count[CYCLES][HOST_KERNEL];
	return more < 0;
}

void print_cost(const struct cost *c, unsigned int times, const char *what)
{
	static const struct {
		const char *name;
		int event, mode;
	} figures[] = {
		{ "exits", EXITS, GUEST_KERNEL },
		{ "guest_instructions", INSTRUCTIONS, GUEST_KERNEL },
		{ "guest_cycles", CYCLES, GUEST_KERNEL },
		{ "vmruns", VMRUN, GUEST_KERNEL },
		{ "emulated", EMULATED, GUEST_KERNEL },
		{ "host_instructions", INSTRUCTIONS, HOST_KERNEL },
		{ "host_cycles", CYCLES, HOST_KERNEL },
		{ "rdmsr", RDMSR, HOST_KERNEL },
		{ "wrmsr", WRMSR, HOST_KERNEL },
		{ "rdpmc", RDPMC, HOST_KERNEL },
		{ "host_user_instructions", INSTRUCTIONS, HOST_USER },
		{ "guest_user_instructions", INSTRUCTIONS, GUEST_USER },
		{ "user_exits", EXITS, GUEST_USER },
		{ "guest_wrmsr", WRMSR, GUEST_KERNEL },
		{ "guest_rdmsr", RDMSR, GUEST_KERNEL },
		{ "guest_rdpmc", RDPMC, GUEST_KERNEL },
	};

	for (unsigned int i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		printf("%s%s%s %.2f\n", what ? what : "", what ? " " : "", figures[i].name,
		       (double)c->count[figures[i].event][figures[i].mode] / times);
}
