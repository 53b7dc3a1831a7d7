// SPDX-License-Identifier: GPL-2.0-or-later
#include "input.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct input_options *options = state->input;

	switch (key) {
	case 'i':
		options->file = arg;
		return 0;
	case 'g':
		if (!strchr(arg, '='))
			argp_error(state, "guest map '%s': VM=FILE", arg);
		options->map = xrealloc(options->map,
					(options->maps + 1) * sizeof(*options->map));
		options->map[options->maps++] = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option option_list[] = {
	{ "guest-map", 'g', "VM=FILE", 0, "Names of the guest in VM, from vpmu-guest-map", 0 },
	{ "input", 'i', "FILE", 0, "The recording (" RECORDING_FILE ")", 0 },
	{ }
};

const struct argp input_argp = { option_list, parse, NULL, NULL, NULL, NULL, NULL };

enum status input_find_vm(const struct input *input, const char *arg, struct vm *vm)
{
	const struct vm_list list = { .vm = input->rec.vm, .count = input->rec.vms };

	return vm_find(&list, arg, vm, stderr);
}

/* @arg is VM=FILE; a VM's name may have a "=" in it. */
static enum status read_map(struct input *input, const char *arg)
{
	const char *equals = strrchr(arg, '=');
	char *name = xasprintf("%.*s", (int)(equals - arg), arg);
	enum status status;
	struct vm vm;
	size_t i;

	status = input_find_vm(input, name, &vm);
	free(name);
	if (status)
		return status;
	i = recording_vm(&input->rec, vm.info.id) - input->rec.vm;
	guest_map_free(input->map[i]);
	input->map[i] = guest_map_read(equals + 1, stderr);
	return input->map[i] ? STATUS_OK : STATUS_ERROR;
}

/* What the recording itself has; a broken one is no reason not to show the rest. */
static void read_own_maps(struct input *input)
{
	const struct recording *rec = &input->rec;
	size_t i;

	for (i = 0; i < rec->maps; i++) {
		const struct recording_map *from = &rec->map[i];
		const struct vm *vm = recording_vm(rec, from->vm);
		struct guest_map **to = vm ? &input->map[vm - rec->vm] : NULL;

		if (to && !*to)
			*to = guest_map_parse(from->text, from->size, vm->name, stderr);
	}
}

enum status input_open(struct input *input, struct input_options *options)
{
	enum status status = STATUS_OK;
	size_t i;

	if (!recording_read(&input->rec, options->file, stderr)) {
		free(options->map);
		return STATUS_ERROR;
	}
	input->map = calloc(input->rec.vms + 1, sizeof(*input->map));
	if (!input->map)
		errx(STATUS_ERROR, "out of memory");
	input->places = (struct places){ .recording = &input->rec, .map = input->map };
	for (i = 0; i < options->maps && !status; i++)
		status = read_map(input, options->map[i]);
	if (!status)
		read_own_maps(input);
	free(options->map);
	if (status)
		input_close(input);
	return status;
}

void input_close(struct input *input)
{
	size_t i;

	for (i = 0; i < input->rec.vms; i++)
		guest_map_free(input->map[i]);
	free(input->map);
	recording_free(&input->rec);
}
