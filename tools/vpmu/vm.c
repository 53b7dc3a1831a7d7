// SPDX-License-Identifier: GPL-2.0-or-later
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

/* The initial PID namespace, whose number is fixed: PROC_PID_INIT_INO in the kernel */
#define INITIAL_PID_NS	"pid:[4026531836]"

/* Command lines of QEMU are long; that of an execve() is limited, too. */
#define CMDLINE_MAX	(4 << 20)

static const char *const freeze_names[] = {
	[KVM_VPMU_FREEZE_HYBRID] = "hybrid",
	[KVM_VPMU_FREEZE_GUEST] = "guest",
	[KVM_VPMU_FREEZE_VCPU] = "vcpu",
};

static const char *const tsc_names[] = {
	[KVM_VPMU_TSC_WALL] = "wall",
	[KVM_VPMU_TSC_VCPU] = "vcpu",
};

static const char *const events_names[] = {
	[KVM_VPMU_EVENTS_OFF] = "off",
	[KVM_VPMU_EVENTS_ON] = "on",
};

static const char *const registers_names[] = {
	[KVM_VPMU_REGISTERS_NONE] = "none",
	[KVM_VPMU_REGISTERS_AMD_LEGACY] = "amd-legacy",
	[KVM_VPMU_REGISTERS_AMD_CORE] = "amd-core",
	[KVM_VPMU_REGISTERS_AMD_V2] = "amd-v2",
	[KVM_VPMU_REGISTERS_INTEL + 1] = "intel-v1",
	[KVM_VPMU_REGISTERS_INTEL + 2] = "intel-v2",
	[KVM_VPMU_REGISTERS_INTEL + 3] = "intel-v3",
	[KVM_VPMU_REGISTERS_INTEL + 4] = "intel-v4",
	[KVM_VPMU_REGISTERS_INTEL + 5] = "intel-v5",
};

static const char *name_of(const char *const *names, size_t count, __u32 i)
{
	return i < count ? names[i] : NULL;
}

static bool index_of(const char *const *names, size_t count, const char *name, __u32 *value)
{
	__u32 i;

	for (i = 0; i < count; i++) {
		if (!strcmp(names[i], name)) {
			*value = i;
			return true;
		}
	}
	return false;
}

const char *vm_freeze_name(__u32 freeze)
{
	return name_of(freeze_names, ARRAY_SIZE(freeze_names), freeze);
}

const char *vm_tsc_name(__u32 tsc)
{
	return name_of(tsc_names, ARRAY_SIZE(tsc_names), tsc);
}

const char *vm_events_name(__u32 events)
{
	return name_of(events_names, ARRAY_SIZE(events_names), events);
}

const char *vm_registers_name(__u32 registers)
{
	return name_of(registers_names, ARRAY_SIZE(registers_names), registers);
}

bool vm_freeze_parse(const char *name, __u32 *freeze)
{
	return index_of(freeze_names, ARRAY_SIZE(freeze_names), name, freeze);
}

bool vm_tsc_parse(const char *name, __u32 *tsc)
{
	return index_of(tsc_names, ARRAY_SIZE(tsc_names), name, tsc);
}

bool vm_events_parse(const char *name, __u32 *events)
{
	return index_of(events_names, ARRAY_SIZE(events_names), name, events);
}

/*
 * The guest's name in the value of a -name.  QEMU's way: options are separated
 * by commas, a comma in a value is doubled, the first option is "guest" if it
 * has no "=", the last of several counts.
 */
static bool name_from_option(const char *value, const char *end, char name[VM_NAME_SIZE])
{
	bool first = true, found = false;

	while (value < end) {
		const char *equals = NULL, *p = value;
		bool wanted;
		size_t n = 0;

		while (p < end && *p != ',' && *p != '=')
			p++;
		if (p < end && *p == '=')
			equals = p;
		if (equals)
			wanted = equals - value == 5 && !memcmp(value, "guest", 5);
		else
			wanted = first;
		p = equals ? equals + 1 : value;
		for (; p < end; p++) {
			if (*p == ',') {
				if (p + 1 == end || p[1] != ',')
					break;
				p++;
			}
			if (wanted && n < VM_NAME_SIZE - 1)
				name[n++] = *p;
		}
		if (wanted && n) {
			name[n] = 0;
			found = true;
		}
		first = false;
		value = p + 1;
	}
	return found;
}

bool vm_name_from_cmdline(const char *cmdline, size_t len, char name[VM_NAME_SIZE])
{
	const char *end = cmdline + len, *arg = cmdline;
	bool found = false, is_value = false;

	while (arg < end) {
		const char *stop = memchr(arg, 0, end - arg);

		if (!stop)
			stop = end;
		if (is_value) {
			found |= name_from_option(arg, stop, name);
			is_value = false;
		} else if (arg > cmdline) {	/* not the program's own name */
			const char *option = arg + (stop - arg > 1 && arg[0] == '-' && arg[1] == '-');

			is_value = stop - option == 5 && !memcmp(option, "-name", 5);
		}
		arg = stop + 1;
	}
	return found;
}

/* The contents of /proc/PID/FILE, with a NUL behind them; NULL if there is no such file. */
static char *read_proc(const char *proc, int pid, const char *file, size_t *len)
{
	char *path = xasprintf("%s/%d/%s", proc, pid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *buf = NULL;
	size_t room = 0;

	free(path);
	if (fd < 0)
		return NULL;
	*len = 0;
	for (;;) {
		ssize_t n;

		if (*len + 1 >= room) {
			room += 4096;
			buf = xrealloc(buf, room);
		}
		n = read(fd, buf + *len, room - 1 - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || *len + n > CMDLINE_MAX)
			break;
		*len += n;
	}
	close(fd);
	buf[*len] = 0;
	return buf;
}

static bool initial_pid_namespace(const char *proc)
{
	char *path = xasprintf("%s/self/ns/pid", proc);
	char target[64];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	free(path);
	if (n < 0)
		return true;	/* a kernel without them, or no procfs, which shows soon */
	target[n] = 0;
	return !strcmp(target, INITIAL_PID_NS);
}

void vm_name(const char *proc, int pid, char name[VM_NAME_SIZE])
{
	char *text;
	size_t len;

	strcpy(name, "?");
	if (pid <= 0 || !initial_pid_namespace(proc))
		return;
	text = read_proc(proc, pid, "cmdline", &len);
	if (text && vm_name_from_cmdline(text, len, name)) {
		free(text);
		clean_text(name);
		return;
	}
	free(text);
	text = read_proc(proc, pid, "comm", &len);
	if (!text)
		return;
	text[strcspn(text, "\n")] = 0;
	if (*text)
		snprintf(name, VM_NAME_SIZE, "%s", text);
	free(text);
	clean_text(name);
}

/* Update @dev's VMs, with names that were read before; those of others are empty. */
static int look(struct device *dev)
{
	size_t count, i, old = 0;
	struct kvm_vpmu_vm *infos;
	struct vm *vm;
	int r = device_vms(dev, &infos, &count);

	if (r)
		return r;
	vm = xrealloc(NULL, count * sizeof(*vm));
	for (i = 0; i < count; i++) {
		vm[i].info = infos[i];
		vm[i].name[0] = 0;
		vm[i].clock = (struct guest_clock){ };
		/* both in the order of numbers */
		while (old < dev->vms && dev->vm[old].info.id < infos[i].id)
			old++;
		if (old < dev->vms && dev->vm[old].info.id == infos[i].id)
			strcpy(vm[i].name, dev->vm[old].name);
	}
	free(infos);
	free(dev->vm);
	dev->vm = vm;
	dev->vms = count;
	return 0;
}

static void need_name(struct vm *vm, const char *proc)
{
	if (!*vm->name)
		vm_name(proc, vm->info.pid, vm->name);
}

/* List the VM @id, or all if that is NULL. */
static int get_list(struct vm_list *list, struct device *dev, const char *proc, const __u64 *id)
{
	size_t i;
	int r;

	*list = (struct vm_list){ };
	r = look(dev);
	if (r)
		return r;
	list->vm = xrealloc(NULL, (id ? 1 : dev->vms) * sizeof(*list->vm));
	for (i = 0; i < dev->vms; i++) {
		if (id && (list->count || dev->vm[i].info.id != *id))
			continue;
		need_name(&dev->vm[i], proc);
		list->vm[list->count++] = dev->vm[i];
	}
	return 0;
}

int vm_list_get(struct vm_list *list, struct device *dev, const char *proc)
{
	return get_list(list, dev, proc, NULL);
}

int vm_list_get_one(struct vm_list *list, struct device *dev, const char *proc, __u64 id)
{
	return get_list(list, dev, proc, &id);
}

void vm_list_free(struct vm_list *list)
{
	free(list->vm);
	*list = (struct vm_list){ };
}

enum match { BY_ID, BY_PID, BY_NAME };

static bool fits(const struct vm *vm, const char *arg, enum match match, __u64 number)
{
	switch (match) {
	case BY_ID:
		return vm->info.id == number;
	case BY_PID:
		return (__u64)vm->info.pid == number;
	default:
		return !strcmp(vm->name, arg);
	}
}

/* How many VMs @arg fits in way @match, and the last one. */
static size_t matches(const struct vm_list *list, const char *arg, enum match match, __u64 number,
		      const struct vm **found)
{
	size_t i, n = 0;

	for (i = 0; i < list->count; i++) {
		if (!fits(&list->vm[i], arg, match, number))
			continue;
		*found = &list->vm[i];
		n++;
	}
	return n;
}

/* Which way @arg names VMs of @list: a PID goes before a name of digits. */
static enum match choose_match(const struct vm_list *list, const char *arg, uint64_t *number)
{
	const struct vm *found;

	if (arg[0] == '#' && parse_number(arg + 1, UINT64_MAX, number))
		return BY_ID;
	if (parse_number(arg, INT32_MAX, number) && matches(list, arg, BY_PID, *number, &found))
		return BY_PID;
	return BY_NAME;
}

enum status vm_find(const struct vm_list *list, const char *arg, struct vm *vm, FILE *messages)
{
	const struct vm *found = NULL;
	uint64_t number = 0;
	enum match match = choose_match(list, arg, &number);
	size_t i, n = matches(list, arg, match, number, &found);

	if (n == 1) {
		*vm = *found;
		return STATUS_OK;
	}
	if (!n) {
		char *clean = xasprintf("%s", arg);

		clean_text(clean);
		fprintf(messages, "vpmu: no VM '%s'\n", clean);
		free(clean);
		return STATUS_NO_VM;
	}
	fprintf(messages, "vpmu: '%s' is the %s of %zu VMs; use the number of one, '#ID':\n", arg,
		match == BY_PID ? "PID" : "name", n);
	for (i = 0; i < list->count; i++) {
		const struct vm *candidate = &list->vm[i];

		if (fits(candidate, arg, match, number))
			fprintf(messages, "  #%llu  PID %d  %s\n",
				(unsigned long long)candidate->info.id, candidate->info.pid,
				candidate->name);
	}
	return STATUS_USAGE;
}

enum status vm_lookup(struct device *dev, const char *proc, const char *arg, struct vm *vm,
		      FILE *messages)
{
	struct vm_list list;
	uint64_t number = 0;
	enum match match;
	size_t i;
	int r = look(dev);

	if (r) {
		device_complain(r);
		return STATUS_ERROR;
	}
	list = (struct vm_list){ dev->vm, dev->vms };
	match = choose_match(&list, arg, &number);
	for (i = 0; i < list.count; i++)
		if (match == BY_NAME || fits(&list.vm[i], arg, match, number))
			need_name(&list.vm[i], proc);
	return vm_find(&list, arg, vm, messages);
}
