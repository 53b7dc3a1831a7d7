// SPDX-License-Identifier: GPL-2.0-or-later
#include "files.h"

#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A file that was printed; its number is its place in the array.  @fd: from which its functions
 * will be read, as they take long; -1: they were, or it can't be opened
 */
struct file {
	unsigned int major, minor;
	uint64_t inode;
	int fd;
};

static struct file *file;
static size_t files;

/* The functions of those in front of this one were printed. */
static size_t done;

/* A line of /proc/PID/maps */
struct mapping {
	uint64_t start, end, offset;
	struct file file;
	char path[4096];
};

/* An ELF file in memory: nothing in it is trusted. */
struct elf {
	const char *data;
	size_t size;
	const Elf64_Ehdr *head;
	const Elf64_Phdr *segment;
	const Elf64_Shdr *section;
};

/* @count elements of @size bytes at @offset; NULL: not in the file */
static const void *part(const struct elf *elf, uint64_t offset, uint64_t count, size_t size)
{
	if (offset > elf->size || count > (elf->size - offset) / size || offset % 4)
		return NULL;
	return elf->data + offset;
}

static bool parse_elf(struct elf *elf)
{
	const Elf64_Ehdr *head = part(elf, 0, 1, sizeof(*head));

	if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) ||
	    head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_phentsize != sizeof(Elf64_Phdr) ||
	    head->e_shentsize != sizeof(Elf64_Shdr))
		return false;
	elf->head = head;
	elf->segment = part(elf, head->e_phoff, head->e_phnum, sizeof(*elf->segment));
	elf->section = part(elf, head->e_shoff, head->e_shnum, sizeof(*elf->section));
	return elf->segment && elf->section;
}

/* Where the file has what is loaded to address @value; false: nowhere */
static bool file_offset(const struct elf *elf, uint64_t value, uint64_t *at)
{
	unsigned int i;

	for (i = 0; i < elf->head->e_phnum; i++) {
		const Elf64_Phdr *s = &elf->segment[i];

		if (s->p_type != PT_LOAD || value < s->p_vaddr || value - s->p_vaddr >= s->p_filesz)
			continue;
		*at = value - s->p_vaddr + s->p_offset;
		return true;
	}
	return false;
}

static bool is_function(const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

static void print_table(FILE *out, size_t number, const struct elf *elf, const Elf64_Shdr *table)
{
	uint64_t count = table->sh_size / sizeof(Elf64_Sym), i;
	const Elf64_Sym *symbol = part(elf, table->sh_offset, count, sizeof(*symbol));
	const Elf64_Shdr *strings;
	const char *names;

	if (!symbol || table->sh_link >= elf->head->e_shnum)
		return;
	strings = &elf->section[table->sh_link];
	if (strings->sh_offset > elf->size || strings->sh_size > elf->size - strings->sh_offset)
		return;
	names = elf->data + strings->sh_offset;
	for (i = 0; i < count; i++) {
		uint64_t name = symbol[i].st_name, at;

		if (is_function(&symbol[i]) && name < strings->sh_size &&
		    memchr(names + name, 0, strings->sh_size - name) && names[name] &&
		    !strchr(names + name, '\n') && file_offset(elf, symbol[i].st_value, &at))
			fprintf(out, "y %zx %" PRIx64 " %" PRIx64 " %s\n", number, at,
				(uint64_t)symbol[i].st_size, names + name);
	}
}

/* All functions are in .symtab, which may be stripped off; those for others are in .dynsym. */
static void print_functions(FILE *out, size_t number, const struct elf *elf)
{
	const unsigned int types[] = { SHT_SYMTAB, SHT_DYNSYM };
	bool found = false;
	unsigned int i, k;

	for (k = 0; k < 2 && !found; k++)
		for (i = 0; i < elf->head->e_shnum; i++)
			if (elf->section[i].sh_type == types[k]) {
				print_table(out, number, elf, &elf->section[i]);
				found = true;
			}
}

/* A process may have another root. */
static int open_file(int thread, const char *path)
{
	char *full;
	int fd;

	if (asprintf(&full, "/proc/%d/root%s", thread, path) < 0)
		errx(1, "out of memory");
	fd = open(full, O_RDONLY | O_CLOEXEC);
	free(full);
	return fd;
}

/* Larger ones are left out. */
#define MAX_SIZE	(1u << 30)

/* A file in memory, which nobody can cut off; NULL: not readable */
static char *read_file(int fd, size_t *size)
{
	struct stat stat;
	char *data;
	ssize_t got;

	if (fstat(fd, &stat) || !S_ISREG(stat.st_mode) || !stat.st_size || stat.st_size > MAX_SIZE)
		return NULL;
	data = malloc(stat.st_size);
	if (!data)
		return NULL;
	for (*size = 0; *size < (size_t)stat.st_size; *size += got) {
		got = read(fd, data + *size, stat.st_size - *size);
		if (got <= 0)
			break;
	}
	return data;
}

bool files_print_functions(FILE *out)
{
	struct elf elf = { };
	char *data;
	size_t i;

	while (done < files && file[done].fd < 0)
		done++;
	if (done == files)
		return false;
	i = done++;
	data = read_file(file[i].fd, &elf.size);
	close(file[i].fd);
	file[i].fd = -1;
	elf.data = data;
	if (data && parse_elf(&elf))
		print_functions(out, i, &elf);
	free(data);
	return true;
}

/* The number of the file that @m maps; prints a new one. */
static size_t number_of(FILE *out, int thread, const struct mapping *m)
{
	size_t i;

	for (i = 0; i < files; i++)
		if (file[i].inode == m->file.inode && file[i].major == m->file.major &&
		    file[i].minor == m->file.minor)
			return i;
	file = realloc(file, (files + 1) * sizeof(*file));
	if (!file)
		errx(1, "out of memory");
	file[files] = m->file;
	/* The process may end at once. */
	file[files].fd = open_file(thread, m->path);
	fprintf(out, "f %zx %s\n", files, m->path);
	return files++;
}

/* "START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH": is it executable, and of a file? */
static bool parse(const char *line, struct mapping *m)
{
	char permissions[5];

	return sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %4095[^\n]",
		      &m->start, &m->end, permissions, &m->offset, &m->file.major,
		      &m->file.minor, &m->file.inode, m->path) == 8 &&
	       permissions[2] == 'x' && m->path[0] == '/';
}

void files_print(FILE *out, FILE *lines, int thread, uint64_t number)
{
	char path[32], *line = NULL;
	size_t room = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", thread);
	maps = fopen(path, "re");
	/* The process has ended. */
	if (!maps)
		return;
	while (getline(&line, &room, maps) > 0) {
		struct mapping m;

		if (!parse(line, &m))
			continue;
		fprintf(lines, "m %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %zx\n", number,
			m.start, m.end, m.offset, number_of(out, thread, &m));
	}
	free(line);
	fclose(maps);
}
