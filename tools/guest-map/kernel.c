// SPDX-License-Identifier: GPL-2.0-or-later
#include "kernel.h"

#include <elf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btf.h"

/* arch/x86/include/asm/page_64_types.h: where the kernel's image begins, before relocation */
#define START_KERNEL_MAP	0xffffffff80000000ull

/* A thread of the kernel's, which may use a process's memory for a while: linux/sched.h */
#define PF_KTHREAD		0x00200000

/* Addresses of variables */
static uint64_t init_task, page_offset_base, phys_base, init_top_pgt, tsc_khz;

static struct kernel_tables tables;

/* Where members are, in bytes */
static struct {
	unsigned int tasks, mm, pid, tgid, comm, flags, start_time, signal, thread_node;
	unsigned int pgd, exec_vm, thread_head;
} offset;

/* /proc/kcore: memory by its address, as a core file */
static int kcore;
static Elf64_Phdr *segment;
static unsigned int segments;

/* ---- symbols */

static const struct {
	const char *name;
	uint64_t *address;
	bool optional;
} variables[] = {
	{ "init_task", &init_task, false },
	{ "page_offset_base", &page_offset_base, false },
	{ "phys_base", &phys_base, false },
	{ "init_top_pgt", &init_top_pgt, false },
	{ "tsc_khz", &tsc_khz, false },
	/* include/asm-generic/vmlinux.lds.h, kernel/module/main.c */
	{ "__start_orc_unwind_ip", &tables.ip, true },
	{ "__stop_orc_unwind_ip", &tables.ip_end, true },
	{ "__start_orc_unwind", &tables.entry, true },
	{ "modules", &tables.modules, true },
};

/* A line "ADDRESS TYPE NAME[\t[MODULE]]"; false at the end */
struct kallsyms_line {
	char *text;
	size_t room;
	uint64_t address;
	char type;
	const char *name;	/* and what follows */
};

static bool next_line(FILE *file, struct kallsyms_line *line)
{
	char *rest;

	if (getline(&line->text, &line->room, file) <= 0)
		return false;
	line->address = strtoull(line->text, &rest, 16);
	line->type = rest[0] && rest[1] ? rest[1] : ' ';
	line->name = rest[0] && rest[1] && rest[2] ? rest + 3 : "\n";
	return true;
}

static FILE *open_kallsyms(void)
{
	FILE *file = fopen("/proc/kallsyms", "re");

	if (!file)
		err(1, "/proc/kallsyms");
	return file;
}

static void find_variables(void)
{
	struct kallsyms_line line = { };
	FILE *file = open_kallsyms();
	size_t i;

	while (next_line(file, &line)) {
		size_t length = strcspn(line.name, "\t\n");

		for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
			if (line.name[length] == '\n' && strlen(variables[i].name) == length &&
			    !strncmp(line.name, variables[i].name, length))
				*variables[i].address = line.address;
	}
	free(line.text);
	fclose(file);
	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (!*variables[i].address && !variables[i].optional)
			errx(1, "/proc/kallsyms shows no address of %s (run as root; "
			     "kernel.kptr_restrict isn't 2?)", variables[i].name);
}

void kernel_print_functions(FILE *out)
{
	struct kallsyms_line line = { };
	FILE *file = open_kallsyms();

	while (next_line(file, &line)) {
		char *tab = strchr(line.name, '\t');

		if (!strchr("tTwW", line.type))
			continue;
		if (tab)
			*tab = ' ';
		fprintf(out, "k %" PRIx64 " %s", line.address, line.name);
	}
	free(line.text);
	fclose(file);
	if (tables.ip)
		fputs("o\n", out);
}

/* ---- members */

static const struct {
	const char *type, *name;
	unsigned int *offset;
} members[] = {
	{ "task_struct", "tasks", &offset.tasks },
	{ "task_struct", "mm", &offset.mm },
	{ "task_struct", "pid", &offset.pid },
	{ "task_struct", "tgid", &offset.tgid },
	{ "task_struct", "comm", &offset.comm },
	{ "task_struct", "flags", &offset.flags },
	{ "task_struct", "start_time", &offset.start_time },
	{ "task_struct", "signal", &offset.signal },
	{ "task_struct", "thread_node", &offset.thread_node },
	{ "signal_struct", "thread_head", &offset.thread_head },
	{ "mm_struct", "pgd", &offset.pgd },
	{ "mm_struct", "exec_vm", &offset.exec_vm },
};

/* arch/x86/include/asm/module.h, asm/orc_types.h */
static void find_tables(void)
{
	static const struct {
		const char *type, *name;
		unsigned int *offset;
	} own[] = {
		{ "module", "list", &tables.list },
		{ "module", "arch", &tables.arch },
		{ "mod_arch_specific", "num_orcs", &tables.module_count },
		{ "mod_arch_specific", "orc_unwind_ip", &tables.module_ip },
		{ "mod_arch_specific", "orc_unwind", &tables.module_entry },
	};
	size_t i;

	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		int64_t bits = btf_member(own[i].type, own[i].name);

		if (bits < 0)
			tables.modules = 0;
		*own[i].offset = bits / 8;
	}
	tables.end = btf_member("orc_entry", "end");
}

static void find_members(void)
{
	size_t i;

	btf_open("/sys/kernel/btf/vmlinux");
	find_tables();
	for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		int64_t bits = btf_member(members[i].type, members[i].name);

		if (bits < 0)
			errx(1, "this kernel's struct %s has no %s", members[i].type,
			     members[i].name);
		*members[i].offset = bits / 8;
	}
	btf_close();
}

/* ---- memory */

static void open_memory(void)
{
	Elf64_Ehdr head;
	size_t size;

	kcore = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	if (kcore < 0)
		err(1, "/proc/kcore");
	if (pread(kcore, &head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_phentsize != sizeof(*segment))
		errx(1, "/proc/kcore is no core file (is the kernel locked down?)");
	segments = head.e_phnum;
	size = segments * sizeof(*segment);
	segment = malloc(size);
	if (!segment || pread(kcore, segment, size, head.e_phoff) != (ssize_t)size)
		errx(1, "/proc/kcore can't be read");
}

bool kernel_read(uint64_t address, void *to, size_t size)
{
	unsigned int i;

	for (i = 0; i < segments; i++) {
		const Elf64_Phdr *s = &segment[i];

		if (s->p_type == PT_LOAD && address >= s->p_vaddr &&
		    address - s->p_vaddr < s->p_memsz)
			return pread(kcore, to, size, s->p_offset + address - s->p_vaddr) ==
			       (ssize_t)size;
	}
	return false;
}

static uint64_t read_number(uint64_t address)
{
	uint64_t number;

	return kernel_read(address, &number, sizeof(number)) ? number : 0;
}

/* ---- processes */

const struct kernel_tables *kernel_tables(void)
{
	return &tables;
}

void kernel_open(void)
{
	find_variables();
	find_members();
	open_memory();
}

uint64_t kernel_root(void)
{
	return init_top_pgt - START_KERNEL_MAP + read_number(phys_base);
}

bool kernel_has_user_roots(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	if (!file)
		err(1, "/proc/cpuinfo");
	while (!found && getline(&line, &room, file) > 0)
		found = !strncmp(line, "flags", 5) &&
			(strstr(line, " pti ") || strstr(line, " pti\n"));
	free(line);
	fclose(file);
	return found;
}

unsigned int kernel_tsc_khz(void)
{
	static unsigned int khz;

	if (!khz && !kernel_read(tsc_khz, &khz, sizeof(khz)))
		errx(1, "/proc/kcore can't be read");
	return khz;
}

/*
 * A process's memory, an mm_struct; 0: it has none.  *@task: its first thread, which may have
 * ended; then it becomes another one.
 */
static uint64_t memory_of(uint64_t *task)
{
	uint64_t mm = read_number(*task + offset.mm), signal, head, at;
	unsigned int n;

	if (mm)
		return mm;
	signal = read_number(*task + offset.signal);
	head = signal + offset.thread_head;
	at = signal ? read_number(head) : 0;
	for (n = 0; !mm && at && at != head && n < MAX_PROCESSES; n++, at = read_number(at)) {
		*task = at - offset.thread_node;
		mm = read_number(*task + offset.mm);
	}
	return mm;
}

/* Any process may choose its name. */
static void clean(char name[COMM_SIZE + 1])
{
	char *c;

	for (c = name; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = '?';
	if (!name[strspn(name, " ")])
		strcpy(name, "?");
}

/* False: @task isn't there any more. */
static bool look_at(uint64_t task, void (*call)(const struct kernel_process *process))
{
	struct kernel_process process = { };
	uint64_t mm, pgd, thread = task;
	uint32_t flags;

	if (!kernel_read(task + offset.flags, &flags, sizeof(flags)))
		return false;
	mm = flags & PF_KTHREAD ? 0 : memory_of(&thread);
	pgd = mm ? read_number(mm + offset.pgd) : 0;
	if (!pgd)
		return true;
	process.root = pgd - read_number(page_offset_base);
	process.began = read_number(task + offset.start_time);
	process.code = read_number(mm + offset.exec_vm);
	if (!kernel_read(task + offset.tgid, &process.pid, sizeof(process.pid)) ||
	    !kernel_read(thread + offset.pid, &process.thread, sizeof(process.thread)) ||
	    !kernel_read(task + offset.comm, process.name, COMM_SIZE))
		return false;
	clean(process.name);
	call(&process);
	return true;
}

bool kernel_processes(void (*call)(const struct kernel_process *process))
{
	uint64_t first = init_task + offset.tasks, at = read_number(first);
	unsigned int n;

	for (n = 0; at != first; at = read_number(at))
		if (!at || n++ > MAX_PROCESSES || !look_at(at - offset.tasks, call))
			return false;
	return true;
}
