// SPDX-License-Identifier: GPL-2.0-or-later
#include "names.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

/* A process's name: TASK_COMM_LEN of linux/sched.h */
#define COMM_SIZE	16

/**
 * struct process - one that samples are of
 * @pid: which
 * @name: its name
 * @maps: its memory map, as /proc/PID/maps had it; NULL until needed, or if not readable
 */
struct process {
	uint32_t pid;
	char name[COMM_SIZE];
	char *maps;
};

/* An address of process @pid, or of the kernel: 0 */
struct address {
	uint32_t pid;
	uint64_t ip;
};

struct names {
	const char *proc;
	struct process *process;
	size_t processes;
	struct address *address;
	size_t addresses, room;
};

/**
 * struct symbol - a function
 * @start: its address
 * @name: its name
 * @module: its module; NULL: the kernel itself
 */
struct symbol {
	uint64_t start;
	char *name, *module;
};

struct symbols {
	struct symbol *symbol;
	size_t count;
};

struct names *names_new(const char *proc)
{
	struct names *names = xrealloc(NULL, sizeof(*names));

	*names = (struct names){ .proc = proc };
	return names;
}

void names_free(struct names *names)
{
	size_t i;

	for (i = 0; i < names->processes; i++)
		free(names->process[i].maps);
	free(names->process);
	free(names->address);
	free(names);
}

/* ---- notes */

static FILE *open_proc(const struct names *names, uint32_t pid, const char *file)
{
	char *path = xasprintf("%s/%u/%s", names->proc, pid, file);
	FILE *f = fopen(path, "re");

	free(path);
	return f;
}

static char *read_all(FILE *file)
{
	char *text = NULL;
	size_t length = 0;
	ssize_t got = getdelim(&text, &length, 0, file);

	if (got >= 0)
		return text;
	free(text);
	return NULL;
}

static void read_name(const struct names *names, struct process *p)
{
	FILE *file = open_proc(names, p->pid, "comm");

	strcpy(p->name, "?");
	if (!file)
		return;
	if (fgets(p->name, sizeof(p->name), file))
		p->name[strcspn(p->name, "\n")] = 0;
	fclose(file);
	clean_text(p->name);
}

static void read_maps(const struct names *names, struct process *p)
{
	FILE *file = open_proc(names, p->pid, "maps");

	if (!file)
		return;
	p->maps = read_all(file);
	fclose(file);
}

static struct process *find_process(struct names *names, uint32_t pid)
{
	size_t low = 0, high = names->processes;
	struct process *p;

	while (low < high) {
		size_t middle = (low + high) / 2;

		p = &names->process[middle];
		if (p->pid == pid)
			return p;
		if (p->pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	names->process = xrealloc(names->process, (names->processes + 1) * sizeof(*p));
	p = &names->process[low];
	memmove(p + 1, p, (names->processes - low) * sizeof(*p));
	names->processes++;
	*p = (struct process){ .pid = pid };
	read_name(names, p);
	return p;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct address *left = a, *right = b;

	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return (left->ip > right->ip) - (left->ip < right->ip);
}

/* Each address once */
static void sort_addresses(struct names *names)
{
	size_t i, kept = 0;

	if (names->addresses)
		qsort(names->address, names->addresses, sizeof(*names->address),
		      compare_addresses);
	for (i = 0; i < names->addresses; i++)
		if (!kept || compare_addresses(&names->address[kept - 1], &names->address[i]))
			names->address[kept++] = names->address[i];
	names->addresses = kept;
}

static void note_address(struct names *names, uint32_t pid, uint64_t ip)
{
	if (names->addresses == names->room) {
		sort_addresses(names);
		names->room = 2 * names->addresses + 4096;
		names->address = xrealloc(names->address, names->room * sizeof(*names->address));
	}
	names->address[names->addresses++] = (struct address){ .pid = pid, .ip = ip };
}

void names_note(struct names *names, const struct kvm_vpmu_record *r)
{
	struct process *p;

	if (r->type != KVM_VPMU_RECORD_SAMPLE)
		return;
	p = find_process(names, r->pid);
	if (r->mode == KVM_VPMU_MODE_HOST_KERNEL) {
		note_address(names, 0, r->ip);
	} else if (r->mode == KVM_VPMU_MODE_HOST_USER) {
		if (!p->maps)
			read_maps(names, p);
		note_address(names, r->pid, r->ip);
	}
}

/* ---- the kernel's functions */

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static void add_symbol(struct symbols *symbols, uint64_t start, const char *name,
		       const char *module)
{
	/* Twice the room at each power of two */
	if (!(symbols->count & (symbols->count - 1)))
		symbols->symbol = xrealloc(symbols->symbol, (2 * symbols->count + 1) *
					   sizeof(*symbols->symbol));
	symbols->symbol[symbols->count++] = (struct symbol){
		.start = start, .name = xasprintf("%s", name),
		.module = module ? xasprintf("%s", module) : NULL,
	};
}

/* The last one that doesn't begin behind @address; NULL: none */
static const struct symbol *find_symbol(const struct symbols *symbols, uint64_t address)
{
	size_t low = 0, high = symbols->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (symbols->symbol[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &symbols->symbol[low - 1] : NULL;
}

static void free_symbols(struct symbols *symbols)
{
	size_t i;

	for (i = 0; i < symbols->count; i++) {
		free(symbols->symbol[i].name);
		free(symbols->symbol[i].module);
	}
	free(symbols->symbol);
}

/* The functions in a file whose lines @parse takes; none without that file.  Frees @path. */
static struct symbols read_symbols(char *path, void (*parse)(const char *line, struct symbols *to))
{
	struct symbols symbols = { };
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	free(path);
	while (file && getline(&line, &room, file) > 0)
		parse(line, &symbols);
	free(line);
	if (file)
		fclose(file);
	if (symbols.count)
		qsort(symbols.symbol, symbols.count, sizeof(*symbols.symbol), compare_symbols);
	return symbols;
}

/* "ADDRESS TYPE NAME[\t[MODULE]]"; addresses are 0 for those who may not see them. */
static void parse_kernel(const char *line, struct symbols *to)
{
	char type, name[512], module[128];
	uint64_t start;
	int fields = sscanf(line, "%" SCNx64 " %c %511s [%127[^]]", &start, &type, name, module);

	if (fields >= 3 && start && strchr("tTwW", type))
		add_symbol(to, start, name, fields == 4 ? module : NULL);
}

/* ---- processes' functions */

/* Whose files elfutils asks for: a process in a container has its own root. */
static struct {
	const struct names *names;
	uint32_t pid;
} asking;

static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		    char **file, Elf **elf)
{
	char *path;
	int fd;

	if (*name != '/')
		return dwfl_linux_proc_find_elf(module, data, name, base, file, elf);
	path = xasprintf("%s/%u/root%s", asking.names->proc, asking.pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		free(path);
		path = xasprintf("%s", name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		free(path);
	else
		*file = path;
	return fd;
}

/* Only what is in the files themselves: no look for others with debug information */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **found)
{
	(void)module;
	(void)data;
	(void)name;
	(void)base;
	(void)file;
	(void)link;
	(void)crc;
	(void)found;
	return -1;
}

static Dwfl *open_maps(FILE *maps)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = find_elf, .find_debuginfo = find_debuginfo,
	};
	Dwfl *dwfl = maps ? dwfl_begin(&callbacks) : NULL;

	if (!dwfl)
		return NULL;
	if (dwfl_linux_proc_maps_report(dwfl, maps) || dwfl_report_end(dwfl, NULL, NULL)) {
		dwfl_end(dwfl);
		return NULL;
	}
	return dwfl;
}

/* JIT compilers write what they made to /tmp/perf-PID.map: "START SIZE NAME", in hex. */
static void parse_jit(const char *line, struct symbols *to)
{
	uint64_t start, size;
	char name[512];

	if (sscanf(line, "%" SCNx64 " %" SCNx64 " %511[^\n]", &start, &size, name) == 3)
		add_symbol(to, start, name, "JIT");
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- the result */

static void add_name(struct json_object *array, uint32_t pid, uint64_t ip, const char *name,
		     const char *module)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "pid", json_object_new_int64(pid));
	if (ip)
		json_object_object_add(object, "ip", json_object_new_uint64(ip));
	json_object_object_add(object, "name", json_object_new_string(name));
	if (module)
		json_object_object_add(object, "module", json_object_new_string(module));
	json_object_array_add(array, object);
}

/* What @dwfl knows of @ip; @function is true if that must include the function. */
static bool add_elf(struct json_object *array, Dwfl *dwfl, const struct address *a, bool function)
{
	Dwfl_Module *module = dwfl ? dwfl_addrmodule(dwfl, a->ip) : NULL;
	const char *file, *name;
	char number[NUMBER_SIZE];
	Dwarf_Addr start;

	if (!module)
		return false;
	file = dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
	name = dwfl_module_addrname(module, a->ip);
	if (!file || (function && !name))
		return false;
	snprintf(number, sizeof(number), "+%#" PRIx64, a->ip - start);
	add_name(array, a->pid, a->ip, name ? name : number, base_name(file));
	return true;
}

static void resolve_process(struct names *names, struct json_object *array, struct process *p,
			    const struct address *address, size_t count)
{
	FILE *now = open_proc(names, p->pid, "maps");
	FILE *then = p->maps && *p->maps ? fmemopen(p->maps, strlen(p->maps), "r") : NULL;
	struct symbols jit = read_symbols(xasprintf("%s/%u/root/tmp/perf-%u.map", names->proc,
						    p->pid, p->pid), parse_jit);
	Dwfl *dwfl_now, *dwfl_then;
	size_t i;

	asking.names = names;
	asking.pid = p->pid;
	dwfl_now = open_maps(now);
	dwfl_then = open_maps(then);
	for (i = 0; i < count; i++) {
		const struct address *a = &address[i];
		const struct symbol *s = find_symbol(&jit, a->ip);

		/* A program that called exec() has other files now. */
		if (add_elf(array, dwfl_then, a, true) || add_elf(array, dwfl_now, a, true))
			continue;
		if (s)
			add_name(array, a->pid, a->ip, s->name, s->module);
		else if (!add_elf(array, dwfl_then, a, false))
			add_elf(array, dwfl_now, a, false);
	}
	if (dwfl_then)
		dwfl_end(dwfl_then);
	if (dwfl_now)
		dwfl_end(dwfl_now);
	free_symbols(&jit);
	if (then)
		fclose(then);
	if (now)
		fclose(now);
}

static void resolve_kernel(const struct names *names, struct json_object *array, size_t count)
{
	struct symbols kernel = read_symbols(xasprintf("%s/kallsyms", names->proc), parse_kernel);
	size_t i;

	for (i = 0; i < count; i++) {
		const struct symbol *s = find_symbol(&kernel, names->address[i].ip);

		if (s)
			add_name(array, 0, names->address[i].ip, s->name, s->module);
	}
	free_symbols(&kernel);
}

struct json_object *names_resolve(struct names *names)
{
	struct json_object *array = json_object_new_array();
	size_t i, from, to;

	for (i = 0; i < names->processes; i++)
		add_name(array, names->process[i].pid, 0, names->process[i].name, NULL);
	sort_addresses(names);
	for (from = 0; from < names->addresses; from = to) {
		uint32_t pid = names->address[from].pid;

		for (to = from; to < names->addresses && names->address[to].pid == pid; to++)
			;
		if (pid)
			resolve_process(names, array, find_process(names, pid),
					&names->address[from], to - from);
		else
			resolve_kernel(names, array, to);
	}
	return array;
}
