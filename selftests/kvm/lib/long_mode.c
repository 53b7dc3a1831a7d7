// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests in 64-bit mode, with page tables and call graphs. */
#include "vm.h"
#include "long_mode.h"

/* APM vol. 2, "Long Mode" */
#define CR0_PE_PG	0x80000001ull
#define CR4_PAE		(1u << 5)
#define CR4_LA57	(1u << 12)
#define EFER_LME_LMA	0x500u

asm(".globl deep_start, deep_behind, deep_return, deep_leaf, deep_end\n"
    "deep_start:\n"
    "	call 1f\n"
    "deep_behind:\n"
    "	out %al, $0x10\n"
    "1:	push %rbp\n"
    "	mov %rsp, %rbp\n"
    "	dec %rdi\n"
    "	jz 2f\n"
    "	call 1b\n"
    "deep_return:\n"
    "	leave\n"
    "	ret\n"
    "deep_leaf:\n"
    "2:	mov $1000, %ecx\n"
    "3:	dec %ecx\n"
    "	jnz 3b\n"
    "	dec %rsi\n"
    "	jnz 2b\n"
    "	leave\n"
    "	ret\n"
    "deep_end:\n");

uint64_t *table(const struct vm *vm, unsigned int nth)
{
	return (uint64_t *)(vm->memory + TABLES + 4096 * nth);
}

static unsigned int index_of(uint64_t address, unsigned int level)
{
	return address >> (12 + 9 * (level - 1)) & 511;
}

/* The leaf entries are behind each other from table 1 on, those above in tables 10 and more. */
uint64_t *leaf_entry(const struct vm *vm, uint64_t offset)
{
	return table(vm, 1) + offset / 4096;
}

static void make_tables(const struct vm *vm, const struct mode *m)
{
	unsigned int level, next = 10;
	uint64_t *entry, at = TABLES + 10 * 4096;

	for (level = m->levels; level > m->leaf; level--) {
		bool last = level == m->leaf + 1;

		entry = table(vm, next) + index_of(m->base, level);
		next++;
		at = last && m->leaf == 1 ? TABLES + 4096 : TABLES + 4096 * next;
		*entry = at | PRESENT | WRITABLE | USER;
		/* The guest's memory is in two tables of 4-KiB pages. */
		if (last && m->leaf == 1)
			entry[1] = (at + 4096) | PRESENT | WRITABLE | USER;
	}
	if (m->leaf == 1) {
		for (uint64_t page = 0; page < SIZE; page += 4096)
			*leaf_entry(vm, page) = page | PRESENT | WRITABLE | USER;
		return;
	}
	entry = table(vm, next) + index_of(m->base, m->leaf);
	entry[0] = PRESENT | WRITABLE | USER | LARGE;
	if (m->leaf == 2)
		entry[1] = 0x200000 | PRESENT | WRITABLE | USER | LARGE;
}

bool make_long_mode(struct vm *vm, const struct mode *m, const char *start, const char *end,
		    struct kvm_regs regs)
{
	struct kvm_sregs sregs;

	*vm = make_vm_with(m->apic ? VM_APIC : 0, SIZE);
	make_tables(vm, m);
	load_code(vm, start, end, (struct kvm_regs){ });
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cr0 |= CR0_PE_PG;
	sregs.cr3 = ROOT;
	sregs.cr4 |= CR4_PAE | (m->levels == 5 ? CR4_LA57 : 0);
	sregs.efer |= EFER_LME_LMA;
	sregs.cs = (struct kvm_segment){
		.limit = 0xffffffff, .selector = 8 | (m->user ? 3 : 0), .type = 11, .present = 1,
		.dpl = m->user ? 3 : 0, .s = 1, .l = 1, .g = 1,
	};
	sregs.ss = sregs.cs;
	sregs.ss.selector += 8;
	sregs.ss.type = 3;
	sregs.ss.l = 0;
	sregs.ss.db = 1;
	sregs.ds = sregs.es = sregs.ss;
	if (ioctl(vm->vcpu, KVM_SET_SREGS, &sregs)) {
		free_vm(vm);
		return false;
	}
	regs.rip = m->base + CODE;
	regs.rsp = m->base + STACK;
	/* I/O at level 3, too */
	regs.rflags = 2 | 3 << 12;
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	return true;
}
