// SPDX-License-Identifier: GPL-2.0-or-later
#include "check.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd.h"
#include "device.h"
#include "util.h"

#include "tinyvm/cpu.h"

void check_add(struct checks *checks, enum check_outcome outcome, const char *name,
	       const char *format, ...)
{
	struct check *check;
	va_list args;

	checks->list = xrealloc(checks->list, (checks->count + 1) * sizeof(*checks->list));
	check = &checks->list[checks->count++];
	check->outcome = outcome;
	check->name = xasprintf("%s", name);
	va_start(args, format);
	if (vasprintf(&check->text, format, args) < 0)
		abort();
	va_end(args);
	clean_text(check->text);
}

/* The first line of a file, to be freed; NULL if there is none */
static char *read_line(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (!f)
		return NULL;
	if (getline(&line, &size, f) < 0) {
		free(line);
		line = NULL;
	} else {
		line[strcspn(line, "\n")] = 0;
	}
	fclose(f);
	return line;
}

static bool reads(const char *path, const char *wanted)
{
	char *line = read_line(path);
	bool same = line && !strcmp(line, wanted);

	free(line);
	return same;
}

/* A line of /proc/cpuinfo */
struct cpuinfo {
	const char *key;
	char *value;
};

/* Fills the values of @count keys with what /proc/cpuinfo says of the first CPU; to be freed. */
static void read_cpuinfo(struct cpuinfo *info, size_t count)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t size = 0;

	if (!f)
		return;
	/* A line without text ends a CPU's part. */
	while (getline(&line, &size, f) > 1) {
		char *colon = strchr(line, ':');
		size_t length = strcspn(line, "\t:");

		if (!colon)
			continue;
		colon[strcspn(colon, "\n")] = 0;
		for (size_t i = 0; i < count; i++)
			if (!info[i].value && strlen(info[i].key) == length &&
			    !strncmp(line, info[i].key, length))
				info[i].value = xasprintf("%s", colon + 1 + (colon[1] == ' '));
	}
	free(line);
	fclose(f);
}

/* SDM vol. 2, "CPUID", leaf 01H; APM vol. 3, appendix E: a hypervisor has this CPU. */
#define CPUID_1_ECX_HYPERVISOR	(1u << 31)

static void check_cpu(struct checks *checks)
{
	enum { VENDOR, FAMILY, MODEL, NAME, STEPPING, MICROCODE, KEYS };
	struct cpuinfo info[KEYS] = {
		[VENDOR] = { "vendor_id" },
		[FAMILY] = { "cpu family" },
		[MODEL] = { "model" },
		[NAME] = { "model name" },
		[STEPPING] = { "stepping" },
		[MICROCODE] = { "microcode" },
	};
	unsigned int a, b, c, d;
	const char *vendor;
	bool known;

	read_cpuinfo(info, KEYS);
	vendor = or_unknown(info[VENDOR].value);
	known = !strcmp(vendor, "AuthenticAMD") || !strcmp(vendor, "GenuineIntel");
	check_add(checks, known ? CHECK_OK : CHECK_FAILED, "cpu",
		  "%s, family %s, model %s, stepping %s, microcode %s%s",
		  or_unknown(info[NAME].value), or_unknown(info[FAMILY].value),
		  or_unknown(info[MODEL].value), or_unknown(info[STEPPING].value),
		  or_unknown(info[MICROCODE].value), known ? "" : ": neither AMD's nor Intel's");
	if (__get_cpuid(1, &a, &b, &c, &d) && c & CPUID_1_ECX_HYPERVISOR)
		check_add(checks, CHECK_NOTE, "hypervisor",
			  "this host is a VM itself: its own PMU may be wrong");
	for (size_t i = 0; i < KEYS; i++)
		free(info[i].value);
}

static const char *vendor_module(void)
{
	return on_intel() ? "kvm_intel" : "kvm_amd";
}

/* KVM's switches that leave guests without a PMU of the module's */
static void check_kvm(struct checks *checks)
{
	char *mediated = xasprintf("/sys/module/%s/parameters/enable_mediated_pmu", vendor_module());
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		check_add(checks, CHECK_OK, "kvm", "/dev/kvm can be used");
	else if (errno == ENOENT)
		check_add(checks, CHECK_FAILED, "kvm",
			  "no /dev/kvm: modprobe %s (is virtualization on in the firmware?)",
			  vendor_module());
	else
		check_add(checks, CHECK_FAILED, "kvm", "/dev/kvm: %s (join group kvm)",
			  strerror(errno));
	if (fd >= 0)
		close(fd);
	if (reads("/sys/module/kvm/parameters/enable_pmu", "N"))
		check_add(checks, CHECK_FAILED, "enable_pmu",
			  "KVM's PMU is off: load kvm without enable_pmu=0 (on hybrid CPUs KVM has none)");
	if (reads(mediated, "Y"))
		check_add(checks, CHECK_FAILED, "enable_mediated_pmu",
			  "KVM's own mediated PMU is on: load %s with enable_mediated_pmu=0",
			  vendor_module());
	free(mediated);
}

static void check_parameter(struct checks *checks, const char *name, const char *usual,
			    const char *means)
{
	char *path = xasprintf("/sys/module/kvm_vpmu/parameters/%s", name);
	char *value = read_line(path);

	if (value && strcmp(value, usual))
		check_add(checks, CHECK_NOTE, name, "the module's parameter is %s: %s", value, means);
	free(value);
	free(path);
}

static void check_module(struct checks *checks)
{
	char *version = read_line("/sys/module/kvm_vpmu/version");
	struct device dev;
	int r;

	if (access("/sys/module/kvm_vpmu", F_OK)) {
		check_add(checks, CHECK_FAILED, "module", "not loaded: modprobe kvm_vpmu");
		goto out;
	}
	r = device_connect(&dev);
	if (!r) {
		r = device_hello(&dev);
		check_add(checks, r ? CHECK_FAILED : CHECK_OK, "module", "%s, %s, %u counters",
			  version ? version : "loaded", r ? strerror(-r) : dev.info.hardware,
			  r ? 0 : dev.info.counters);
		device_disconnect(&dev);
	} else {
		check_add(checks, CHECK_FAILED, "module", "%s: %s (root and group kvm may open it)",
			  DEVICE_PATH, strerror(-r));
	}
	check_parameter(checks, "attach", "auto",
			"VMs have a PMU of the module's only by vpmu run --on");
	check_parameter(checks, "vmrun_counts", "auto",
			"whether VM entries count isn't measured");
	check_parameter(checks, "intel_version", "0",
			"guests on Intel CPUs see this version of the PMU");
	check_parameter(checks, "allow_untested", "N",
			"kernels that no test has seen are allowed");
out:
	free(version);
}

static void check_kernel(struct checks *checks)
{
	char *lockdown = read_line("/sys/kernel/security/lockdown");
	struct utsname name;

	uname(&name);
	check_add(checks, CHECK_OK, "kernel", "%s", name.release);
	if (reads("/proc/sys/kernel/ftrace_enabled", "0"))
		check_add(checks, CHECK_FAILED, "ftrace",
			  "off: the module's hooks don't work. sysctl kernel.ftrace_enabled=1");
	if (lockdown && strstr(lockdown, "[confidentiality]"))
		check_add(checks, CHECK_FAILED, "lockdown",
			  "confidentiality: the module can't find the kernel's functions (kprobes)");
	else if (lockdown && strstr(lockdown, "[integrity]"))
		check_add(checks, CHECK_NOTE, "lockdown", "integrity: the module has to be signed");
	free(lockdown);
}

static void check_perf(struct checks *checks)
{
	bool hybrid = !access("/sys/bus/event_source/devices/cpu_core", F_OK);

	if (hybrid)
		check_add(checks, CHECK_NOTE, "hybrid",
			  "cores of two kinds: KVM gives guests no PMU, unless told otherwise");
	if (!hybrid && access("/sys/bus/event_source/devices/cpu", F_OK))
		check_add(checks, CHECK_FAILED, "perf", "the kernel's perf has no PMU of the CPU's");
	else
		check_add(checks, CHECK_OK, "perf", "the kernel's perf has the CPU's PMU");
	if (reads("/proc/sys/kernel/nmi_watchdog", "1"))
		check_add(checks, CHECK_NOTE, "nmi_watchdog",
			  "holds one counter of each CPU, which guests borrow");
}

void check_host(struct checks *checks)
{
	check_cpu(checks);
	check_kernel(checks);
	check_perf(checks);
	check_kvm(checks);
	check_module(checks);
}

/* The first CPU of a list as "0-3,8" that is in @set; -1 if there is none */
static int first_of(const char *list, const cpu_set_t *set)
{
	while (list && *list) {
		char *end;
		long first = strtol(list, &end, 10), last = first;

		if (end == list)
			return -1;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (; first <= last && first < CPU_SETSIZE; first++)
			if (CPU_ISSET(first, set))
				return first;
		list = *end == ',' ? end + 1 : NULL;
	}
	return -1;
}

size_t check_cpus(int *cpus, const char **kinds, size_t max)
{
	static const char *const kind_names[] = { "cpu_core", "cpu_atom" };
	size_t count = 0, i;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 0;
	for (i = 0; i < ARRAY_SIZE(kind_names) && count < max; i++) {
		char *path = xasprintf("/sys/devices/%s/cpus", kind_names[i]);
		char *list = read_line(path);

		cpus[count] = first_of(list, &set);
		if (cpus[count] >= 0)
			kinds[count++] = kind_names[i];
		free(list);
		free(path);
	}
	if (!count && max) {
		cpus[0] = first_of("0-1023", &set);
		kinds[0] = "cpu";
		count = cpus[0] >= 0;
	}
	return count;
}
