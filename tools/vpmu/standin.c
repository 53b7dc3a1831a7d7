// SPDX-License-Identifier: GPL-2.0-or-later
#include "standin.h"

#include <err.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

/* Sections, in the file's order; the first one of an ELF file is empty. */
enum { NONE, TEXT, SYMTAB, STRTAB, SHSTRTAB };

static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";
static const unsigned int name_at[] = { 0, 1, 7, 15, 23 };

static bool add_section(Elf *elf, unsigned int nth, GElf_Shdr header, void *data, size_t size)
{
	Elf_Scn *section = elf_newscn(elf);
	Elf_Data *of = section ? elf_newdata(section) : NULL;
	GElf_Shdr shdr;

	if (!of || !gelf_getshdr(section, &shdr))
		return false;
	*of = (Elf_Data){
		.d_buf = data, .d_size = size, .d_align = 1, .d_version = EV_CURRENT,
		.d_type = nth == SYMTAB ? ELF_T_SYM : ELF_T_BYTE,
	};
	shdr = header;
	shdr.sh_name = name_at[nth];
	return gelf_update_shdr(section, &shdr);
}

static bool add_headers(Elf *elf, uint64_t length)
{
	GElf_Ehdr ehdr;
	GElf_Phdr phdr = {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = length, .p_align = 4096,
	};

	if (!gelf_newehdr(elf, ELFCLASS64) || !gelf_newphdr(elf, 1) || !gelf_getehdr(elf, &ehdr))
		return false;
	ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr.e_type = ET_DYN;
	ehdr.e_machine = EM_X86_64;
	ehdr.e_version = EV_CURRENT;
	ehdr.e_shstrndx = SHSTRTAB;
	return gelf_update_ehdr(elf, &ehdr) && gelf_update_phdr(elf, 0, &phdr);
}

/* @sym and @names are the tables' contents. */
static bool write_elf(Elf *elf, uint64_t length, Elf64_Sym *sym, size_t syms, char *names,
		      size_t names_size)
{
	return add_headers(elf, length) &&
	       add_section(elf, TEXT, (GElf_Shdr){
		.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_size = length,
		.sh_addralign = 1,
	       }, NULL, length) &&
	       add_section(elf, SYMTAB, (GElf_Shdr){
		.sh_type = SHT_SYMTAB, .sh_link = STRTAB, .sh_info = 1, .sh_addralign = 8,
		.sh_entsize = sizeof(*sym),
	       }, sym, syms * sizeof(*sym)) &&
	       add_section(elf, STRTAB, (GElf_Shdr){ .sh_type = SHT_STRTAB, .sh_addralign = 1 },
			   names, names_size) &&
	       add_section(elf, SHSTRTAB, (GElf_Shdr){ .sh_type = SHT_STRTAB, .sh_addralign = 1 },
			   (void *)section_names, sizeof(section_names)) &&
	       elf_update(elf, ELF_C_WRITE) >= 0;
}

static bool write_symbols(int fd, uint64_t length, const struct standin_symbol *symbol,
			  size_t symbols)
{
	Elf64_Sym *sym = xrealloc(NULL, (symbols + 1) * sizeof(*sym));
	size_t size = 1, i;
	char *names;
	bool good;
	Elf *elf;

	for (i = 0; i < symbols; i++)
		size += strlen(symbol[i].name) + 1;
	names = xrealloc(NULL, size);
	names[0] = 0;
	size = 1;
	sym[0] = (Elf64_Sym){ };
	for (i = 0; i < symbols; i++) {
		sym[i + 1] = (Elf64_Sym){
			.st_name = size, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = TEXT, .st_value = symbol[i].offset, .st_size = symbol[i].size,
		};
		strcpy(names + size, symbol[i].name);
		size += strlen(symbol[i].name) + 1;
	}
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_WRITE, NULL);
	good = elf && write_elf(elf, length, sym, symbols + 1, names, size);
	elf_end(elf);
	free(sym);
	free(names);
	return good;
}

bool standin_write(const char *path, uint64_t length, const struct standin_symbol *symbol,
		   size_t symbols)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	bool good;

	if (fd < 0) {
		warn("%s", path);
		return false;
	}
	good = write_symbols(fd, length, symbol, symbols);
	if (!good)
		warnx("%s: %s", path, elf_errmsg(-1));
	close(fd);
	return good;
}
