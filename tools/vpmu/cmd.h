/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands behind their arguments, for main() and for tests. */
#ifndef CMD_H
#define CMD_H

#include <json-c/json.h>
#include <stdio.h>

#include "device.h"
#include "event.h"
#include "sample.h"
#include "vm.h"
#include "vpmu.h"

/* vpmu list */
enum status list_run(struct device *dev, const struct context *ctx, FILE *out);

/* vpmu info */
enum status info_run(struct device *dev, const struct context *ctx, FILE *out);

/**
 * struct set_options - vpmu set
 * @vm: which VM, as vm_find() takes it; NULL if none was given
 * @all: all VMs there are
 * @defaults: VMs to come
 * @settings: what to set; @settings.fields is 0 until something was given
 */
struct set_options {
	struct context *ctx;
	const char *vm;
	bool all, defaults;
	struct kvm_vpmu_settings settings;
};

/* vpmu set; messages about VMs and parameters go to @messages. */
enum status set_run(struct device *dev, const struct set_options *options, FILE *out,
		    FILE *messages);

/**
 * struct stat_options - vpmu stat
 * @vm: which VM; NULL for all
 * @interval: nanoseconds between two reports; 0 for one report of all since the
 *	vCPUs' creation
 * @reports: how many, with @interval; 0 for no end
 * @openmetrics: print totals in that format
 * @events: the hypervisor's events, too
 */
struct stat_options {
	struct context *ctx;
	const char *vm;
	uint64_t interval;
	uint64_t reports;
	bool openmetrics;
	bool events;
};

/* vpmu stat; messages about the VM go to @messages. */
enum status stat_run(struct device *dev, const struct event_names *names,
		     const struct stat_options *options, FILE *out, FILE *messages);

/* What stat -i prints of @vm, which is of @now: rates since @before */
void stat_print_vm(const struct event_names *names, const struct sample *now,
		   const struct sample *before, const struct sample_vm *vm, FILE *out);

/* Become @command; return, with a message and the status for that, if it can't be run. */
enum status run_exec(char **command);

/* A VM as all commands have it in JSON. */
struct json_object *vm_json(const struct vm *vm);

/* @name; "?" if it is NULL, which is a value newer than this tool. */
const char *or_unknown(const char *name);

#endif
