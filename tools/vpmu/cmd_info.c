// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "module.h"
#include "output.h"
#include "util.h"

/**
 * struct host - what there is to tell
 * @info: of the device
 * @version: of the module; NULL if it isn't known
 * @parameters: of the module
 * @privileged: the following, and numbers of accesses, are known
 * @vms: VMs with a PMU of the module
 * @vcpus: their vCPUs
 */
struct host {
	const struct kvm_vpmu_info *info;
	char *version;
	struct parameters parameters;
	bool privileged;
	uint64_t vms, vcpus;
};

/* Numbers as they are now; for who isn't privileged the kernel has 0 instead. */
static int count_vms(struct host *host, struct device *dev)
{
	struct kvm_vpmu_vm *vms;
	size_t count, i;
	int r = device_vms(dev, &vms, &count);

	if (r)
		return r == -EPERM ? 0 : r;
	host->privileged = true;
	host->vms = count;
	for (i = 0; i < count; i++)
		host->vcpus += vms[i].vcpus;
	free(vms);
	return 0;
}

static struct json_object *known(const struct host *host, uint64_t n)
{
	return host->privileged ? json_object_new_uint64(n) : NULL;
}

static struct json_object *host_json(const struct host *host)
{
	struct json_object *o = json_object_new_object(), *parameters = json_object_new_object();
	size_t i;

	json_object_object_add(o, "hardware", json_text(host->info->hardware));
	json_object_object_add(o, "counters", json_object_new_int64(host->info->counters));
	json_object_object_add(o, "version", json_text(host->version));
	json_object_object_add(o, "abi", json_object_new_int64(host->info->abi));
	json_object_object_add(o, "tool_version", json_text(VERSION));
	json_object_object_add(o, "tool_abi", json_object_new_int64(KVM_VPMU_ABI));
	json_object_object_add(o, "vms", known(host, host->vms));
	json_object_object_add(o, "vcpus", known(host, host->vcpus));
	json_object_object_add(o, "rdmsr", known(host, host->info->rdmsr));
	json_object_object_add(o, "wrmsr", known(host, host->info->wrmsr));
	json_object_object_add(o, "rdpmc", known(host, host->info->rdpmc));
	for (i = 0; i < host->parameters.count; i++)
		json_object_object_add(parameters, host->parameters.list[i].name,
				       json_text(host->parameters.list[i].value));
	json_object_object_add(o, "parameters", parameters);
	return o;
}

/* Names are in a column of that width, or a wider one. */
#define NAME_WIDTH	18

static void line(FILE *out, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void line(FILE *out, const char *name, const char *format, ...)
{
	va_list args;

	fprintf(out, "%-*s  ", NAME_WIDTH, name);
	va_start(args, format);
	vfprintf(out, format, args);
	va_end(args);
	fputc('\n', out);
}

static void number(FILE *out, const struct host *host, const char *name, uint64_t n)
{
	char text[NUMBER_SIZE];

	line(out, name, "%s", host->privileged ? format_count(text, n) : "-");
}

static void print(const struct host *host, FILE *out)
{
	size_t i;

	line(out, "PMU", "%s", host->info->hardware);
	line(out, "physical counters", "%u", host->info->counters);
	line(out, "module", "%s, ABI %u", host->version ? host->version : "-", host->info->abi);
	line(out, "tool", "%s, ABI %u", VERSION, KVM_VPMU_ABI);
	number(out, host, "VMs", host->vms);
	number(out, host, "vCPUs", host->vcpus);
	number(out, host, "RDMSR", host->info->rdmsr);
	number(out, host, "WRMSR", host->info->wrmsr);
	number(out, host, "RDPMC", host->info->rdpmc);
	if (!host->parameters.count)
		return;
	fprintf(out, "\nmodule parameters\n");
	for (i = 0; i < host->parameters.count; i++) {
		const struct parameter *p = &host->parameters.list[i];
		char *name = xasprintf("  %s", p->name);

		line(out, name, "%s", p->value ? p->value : "-");
		free(name);
	}
}

enum status info_run(struct device *dev, const struct context *ctx, FILE *out)
{
	const char *module = device_module(dev);
	struct host host = { .info = &dev->info };
	int r = count_vms(&host, dev);

	if (r) {
		device_complain(r);
		return STATUS_ERROR;
	}
	host.version = module_version(module);
	module_parameters(&host.parameters, module);
	if (ctx->json)
		json_print(out, host_json(&host), true);
	else
		print(&host, out);
	parameters_free(&host.parameters);
	free(host.version);
	return STATUS_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->input;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static enum status run(struct context *ctx, int argc, char **argv)
{
	struct device dev;
	enum status status;

	argp_parse(info_command.argp, argc, argv, 0, NULL, ctx);
	if (device_open(&dev))
		return STATUS_ERROR;
	status = info_run(&dev, ctx, stdout);
	device_close(&dev);
	return status;
}

static const struct argp_child children[] = { { &json_argp, 0, NULL, 0 }, { } };
static const struct argp argp = {
	NULL, parse, "",
	"Show this host as the module has it: PMU, versions, parameters, accesses of registers.",
	children, NULL, NULL
};

const struct command info_command = { "info", "show the host's PMU and the module", &argp, run };
