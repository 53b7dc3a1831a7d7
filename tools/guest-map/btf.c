// SPDX-License-Identifier: GPL-2.0-or-later
#include "btf.h"

#include <err.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How deep structures without a name may be in each other */
#define MAX_DEPTH	16

static char *data;
static size_t size;
static const struct btf_header *head;
static const char *strings;

/* By number, from 1; 0 is void. */
static const struct btf_type **type;
static size_t types;

static void broken(void)
{
	errx(1, "the kernel's BTF can't be understood");
}

static void read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t room = 0, got;

	if (!file)
		err(1, "%s (the kernel needs CONFIG_DEBUG_INFO_BTF)", path);
	do {
		room += 8 << 20;
		data = realloc(data, room);
		if (!data)
			errx(1, "out of memory");
		got = fread(data + size, 1, room - size, file);
		size += got;
	} while (size == room);
	fclose(file);
}

/* What follows the members that all types have */
static size_t size_behind(const struct btf_type *t)
{
	unsigned int count = BTF_INFO_VLEN(t->info);

	switch (BTF_INFO_KIND(t->info)) {
	case BTF_KIND_INT:
		return sizeof(__u32);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return count * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return count * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return count * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return count * sizeof(struct btf_param);
	case BTF_KIND_VAR:
		return sizeof(struct btf_var);
	case BTF_KIND_DATASEC:
		return count * sizeof(struct btf_var_secinfo);
	case BTF_KIND_DECL_TAG:
		return sizeof(struct btf_decl_tag);
	default:
		return 0;
	}
}

static bool is_composite(const struct btf_type *t)
{
	return BTF_INFO_KIND(t->info) == BTF_KIND_STRUCT ||
	       BTF_INFO_KIND(t->info) == BTF_KIND_UNION;
}

static const char *string(uint32_t offset)
{
	return offset < head->str_len ? strings + offset : "";
}

static void index_types(const char *from, size_t length)
{
	size_t at = 0, room = 0;

	types = 1;
	while (at + sizeof(struct btf_type) <= length) {
		const struct btf_type *t = (const void *)(from + at);

		at += sizeof(*t) + size_behind(t);
		if (at > length)
			broken();
		if (types >= room) {
			room = 2 * types + 1024;
			type = realloc(type, room * sizeof(*type));
			if (!type)
				errx(1, "out of memory");
		}
		type[types++] = t;
	}
}

void btf_open(const char *path)
{
	read_file(path);
	head = (const void *)data;
	if (size < sizeof(*head) || head->magic != BTF_MAGIC || head->hdr_len < sizeof(*head) ||
	    (uint64_t)head->hdr_len + head->type_off + head->type_len > size ||
	    (uint64_t)head->hdr_len + head->str_off + head->str_len > size || !head->str_len)
		broken();
	strings = data + head->hdr_len + head->str_off;
	if (strings[head->str_len - 1])
		broken();
	index_types(data + head->hdr_len + head->type_off, head->type_len);
}

void btf_close(void)
{
	free(type);
	free(data);
	type = NULL;
	data = NULL;
	types = size = 0;
}

static int64_t find_member(const struct btf_type *t, const char *name, unsigned int depth)
{
	const struct btf_member *member = (const void *)(t + 1);
	unsigned int i;

	for (i = 0; i < BTF_INFO_VLEN(t->info); i++) {
		const char *its = string(member[i].name_off);
		uint32_t at = BTF_INFO_KFLAG(t->info) ? BTF_MEMBER_BIT_OFFSET(member[i].offset) :
			      member[i].offset;
		int64_t inside;

		if (!strcmp(its, name))
			return at;
		if (*its || !depth || !member[i].type || member[i].type >= types ||
		    !is_composite(type[member[i].type]))
			continue;
		inside = find_member(type[member[i].type], name, depth - 1);
		if (inside >= 0)
			return at + inside;
	}
	return -1;
}

int64_t btf_member(const char *of, const char *name)
{
	size_t i;

	for (i = 1; i < types; i++)
		if (BTF_INFO_KIND(type[i]->info) == BTF_KIND_STRUCT &&
		    !strcmp(string(type[i]->name_off), of))
			return find_member(type[i], name, MAX_DEPTH);
	return -1;
}
