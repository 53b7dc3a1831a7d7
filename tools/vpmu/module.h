/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The module's own folder of sysfs: its version and its parameters, whatever there are.
 *
 * @module is that folder in all of these: see device_module().
 */
#ifndef MODULE_H
#define MODULE_H

#include <stddef.h>

/**
 * struct parameter - one parameter of the module
 * @name: its name
 * @value: its value; NULL if it can't be read
 */
struct parameter {
	char *name;
	char *value;
};

/**
 * struct parameters - all of them
 * @list: in the order of their names
 * @count: how many
 */
struct parameters {
	struct parameter *list;
	size_t count;
};

/* The version, to be freed; NULL if it isn't known. */
char *module_version(const char *module);

/* All parameters; none if there is no such folder. */
void module_parameters(struct parameters *parameters, const char *module);

/* Free what @parameters holds. */
void parameters_free(struct parameters *parameters);

/* The value of parameter @name, to be freed; NULL if it can't be read. */
char *module_parameter(const char *module, const char *name);

/* Set parameter @name: 0 or a negative error number. */
int module_set_parameter(const char *module, const char *name, const char *value);

#endif
