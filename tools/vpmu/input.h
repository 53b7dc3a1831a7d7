/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What commands read that work on recordings: the recording, and names of guests. */
#ifndef INPUT_H
#define INPUT_H

#include "place.h"
#include "vpmu.h"

/**
 * struct input_options - arguments of these commands
 * @file: the recording
 * @map: VM=FILE of each guest map
 * @maps: how many
 */
struct input_options {
	const char *file;
	char **map;
	size_t maps;
};

/* Options for a command's argp, as its child; that child's input is struct input_options. */
extern const struct argp input_argp;

/**
 * struct input - what was read
 * @rec: the recording
 * @map: its VMs' maps: those of the arguments, or else the recording's own
 * @places: both
 */
struct input {
	struct recording rec;
	struct guest_map **map;
	struct places places;
};

/* Read it all, and free @options' memory.  Messages go to stderr. */
enum status input_open(struct input *input, struct input_options *options);

void input_close(struct input *input);

/* Find the recording's VM that a user calls @arg, as vm_find() does. */
enum status input_find_vm(const struct input *input, const char *arg, struct vm *vm);

#endif
