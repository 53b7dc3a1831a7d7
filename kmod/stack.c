// SPDX-License-Identifier: GPL-2.0
/*
 * A guest's call graph, from outside: its frame pointers are followed through its page tables.
 *
 * The guest and its memory aren't trusted.  Only memory is read that both the guest and the VMM
 * have mapped; no page is faulted in, and no accessed bit is set.  Each frame is behind the one
 * before, and there is a limit to their number.
 */
#include <linux/kvm_host.h>
#include <asm/page.h>
#include <asm/pgtable_types.h>
#include <uapi/linux/kvm_vpmu_profile.h>

#include "compat/compat.h"
#include "stack.h"

/* SDM vol. 3, "4-Level Paging and 5-Level Paging": the bits of an entry that are an address */
#define ENTRY_ADDRESS	GENMASK_ULL(51, 12)
#define LEVEL_BITS	9

/*
 * Memory is read in blocks of this size, since KVM's way to a guest's memory costs more than what
 * is read.  A page is so many of them.
 */
#define BLOCK		256
/* No page and no block begins there. */
#define NOWHERE		1

/* Linux Documentation/arch/x86/x86_64/mm.rst: the kernel's text, then its modules */
#define KERNEL_TEXT	0xffffffff80000000ull
#define KERNEL_TEXT_END	0xffffffffff000000ull

/**
 * struct walk - a walk up a stack
 * @s: where it began
 * @vcpu: the vCPU
 * @levels: of the guest's page tables
 * @lowest: address of the half, the kernel's or the processes', in which the sample is
 * @highest: address of the same
 * @page: the page that was translated last, by its virtual address
 * @gpa: its physical address
 * @block: the block that was read last, by its virtual address
 * @bytes: what is there
 */
struct walk {
	const struct vpmu_stack *s;
	struct kvm_vcpu *vcpu;
	unsigned int levels;
	u64 lowest;
	u64 highest;
	u64 page;
	u64 gpa;
	u64 block;
	u8 bytes[BLOCK] __aligned(sizeof(u64));
};

/* A caller's frame: the SysV ABI, "The Stack Frame" */
struct frame {
	u64 next;
	u64 address;
};

void vpmu_stack_note(struct vpmu_stack *stack, struct kvm_vcpu *vcpu)
{
	struct compat_where where = vpmu_compat_where(vcpu);

	stack->long_mode = vpmu_compat_in_64bit_mode(vcpu);
	stack->rip = where.rip;
	stack->rsp = vpmu_compat_guest_rsp(vcpu);
	stack->rbp = vcpu->arch.regs[VCPU_REGS_RBP];
	stack->cr3 = where.cr3;
	stack->user = vpmu_compat_get_cpl(vcpu) == 3;
}

static unsigned int level_shift(unsigned int level)
{
	return PAGE_SHIFT + (level - 1) * LEVEL_BITS;
}

static bool find_page(struct walk *w, u64 page)
{
	u64 entry, table = w->s->cr3 & ENTRY_ADDRESS;
	unsigned int level;

	for (level = w->levels; level; level--) {
		unsigned int shift = level_shift(level);
		u64 nth = page >> shift & (BIT(LEVEL_BITS) - 1);

		if (vpmu_compat_read_guest(w->vcpu, table + nth * sizeof(entry), &entry,
					   sizeof(entry)))
			return false;
		if (!(entry & _PAGE_PRESENT) || (w->s->user && !(entry & _PAGE_USER)))
			return false;
		table = entry & ENTRY_ADDRESS;
		if (level == 1 || (level <= 3 && entry & _PAGE_PSE)) {
			u64 offset = BIT_ULL(shift) - 1;

			w->page = page;
			w->gpa = (table & ~offset) | (page & offset);
			return true;
		}
	}
	return false;
}

/* Of the addresses that are canonical: SDM vol. 1, "Canonical Addressing" */
static void set_half(struct walk *w)
{
	u64 size = BIT_ULL(level_shift(w->levels + 1) - 1);

	w->lowest = w->s->rip >> 63 ? -size : 0;
	w->highest = w->lowest + size - 1;
}

static bool is_valid(const struct walk *w, u64 address)
{
	return address >= w->lowest && address <= w->highest;
}

static bool read_block(struct walk *w, u64 block)
{
	if ((block & PAGE_MASK) != w->page && !find_page(w, block & PAGE_MASK))
		return false;
	/* Should the read fail half-way */
	w->block = NOWHERE;
	if (vpmu_compat_read_guest(w->vcpu, w->gpa + offset_in_page(block), w->bytes, BLOCK))
		return false;
	w->block = block;
	return true;
}

/* What is there, up to the end of its block */
static const u8 *find(struct walk *w, u64 address)
{
	u64 block = round_down(address, BLOCK);

	if (!is_valid(w, address) || (block != w->block && !read_block(w, block)))
		return NULL;
	return w->bytes + (address - block);
}

/* At an address that is a multiple of its size */
static bool read_word(struct walk *w, u64 address, u64 *word)
{
	const u8 *bytes = find(w, address);

	if (bytes)
		*word = *(const u64 *)bytes;
	return bytes;
}

static bool read_code(struct walk *w, u64 address, u8 *code, size_t size)
{
	while (size--) {
		const u8 *byte = find(w, address++);

		if (!byte)
			return false;
		*code++ = *byte;
	}
	return true;
}

static bool skip(const u8 **code, const u8 *end, const char *bytes, size_t size)
{
	if (end - *code < size || memcmp(*code, bytes, size))
		return false;
	*code += size;
	return true;
}

/*
 * Where is the return address of a function that has no frame: in front of "push %rbp; mov
 * %rsp,%rbp", or at RET?  0: it has one.
 */
static u64 frameless(struct walk *w)
{
	const struct vpmu_stack *s = w->s;
	/* ENDBR64, the NOP that ftrace patches, PUSH */
	u8 bytes[4 + 5 + 1];
	const u8 *code = bytes, *end = bytes + sizeof(bytes);

	if (!read_code(w, s->rip, bytes, sizeof(bytes)))
		return 0;
	if (skip(&code, end, "\x48\x89\xe5", 3))
		return s->rsp + sizeof(u64);
	if (skip(&code, end, "\xc3", 1))
		return s->rsp;
	skip(&code, end, "\xf3\x0f\x1e\xfa", 4);
	skip(&code, end, "\x0f\x1f\x44\x00\x00", 5);
	return skip(&code, end, "\x55", 1) ? s->rsp : 0;
}

unsigned int vpmu_stack_walk(const struct vpmu_stack *stack, struct kvm_vcpu *vcpu, u64 *address,
			     u8 *why)
{
	struct walk w = {
		.s = stack, .vcpu = vcpu, .levels = vcpu->arch.cr4 & X86_CR4_LA57 ? 5 : 4,
		.page = NOWHERE, .block = NOWHERE,
	};
	u64 frame_at = stack->rbp, lowest = stack->rsp, at;
	unsigned int n = 0;

	*why = KVM_VPMU_STACK_MODE;
	if (!stack->long_mode)
		return 0;
	set_half(&w);
	at = frameless(&w);
	if (at && at % sizeof(u64) == 0 && read_word(&w, at, address) && is_valid(&w, *address))
		n++;
	for (; n < KVM_VPMU_STACK_MAX; n++) {
		struct frame frame;

		*why = KVM_VPMU_STACK_END;
		if (!frame_at)
			return n;
		*why = KVM_VPMU_STACK_INVALID;
		if (frame_at % sizeof(u64) || frame_at < lowest || !is_valid(&w, frame_at))
			return n;
		*why = KVM_VPMU_STACK_UNMAPPED;
		if (!read_word(&w, frame_at, &frame.next) ||
		    !read_word(&w, frame_at + sizeof(u64), &frame.address))
			return n;
		*why = KVM_VPMU_STACK_END;
		if (!frame.address)
			return n;
		*why = KVM_VPMU_STACK_INVALID;
		if (!is_valid(&w, frame.address))
			return n;
		address[n] = frame.address;
		lowest = frame_at + sizeof(frame);
		frame_at = frame.next;
	}
	*why = KVM_VPMU_STACK_LIMIT;
	return n;
}

static bool is_text(u64 word)
{
	return word >= KERNEL_TEXT && word < KERNEL_TEXT_END;
}

/* Would the upper bits of the word be taken for those of the other one? */
static bool is_near(u64 word, u64 base)
{
	return word - base + KVM_VPMU_WORDS_STACK < 2 * KVM_VPMU_WORDS_STACK;
}

static u64 packed(u64 offset, u64 word)
{
	return offset << KVM_VPMU_WORDS_OFFSET | (word & (BIT_ULL(KVM_VPMU_WORDS_OFFSET) - 1));
}

/*
 * The words of a stack from @base on, up to a page that isn't mapped, as there is one behind each
 * of Linux's stacks.
 *
 * Return: the last word, if that page was met, else 0.  @n is KVM_VPMU_STACK_MAX if there are more.
 */
static u64 scan(struct walk *w, u64 base, u64 *word, unsigned int *n)
{
	u64 offset, last = 0, at;

	for (offset = 0; offset < KVM_VPMU_WORDS_STACK; offset += sizeof(at), last = at) {
		if (!read_word(w, base + offset, &at))
			return last;
		if (!is_text(at) && at - base >= KVM_VPMU_WORDS_STACK)
			continue;
		if (*n == KVM_VPMU_STACK_MAX)
			break;
		word[(*n)++] = packed(offset, at);
	}
	return 0;
}

unsigned int vpmu_stack_words(const struct vpmu_stack *stack, struct kvm_vcpu *vcpu, u64 *word,
			      u8 *why)
{
	struct walk w = {
		.s = stack, .vcpu = vcpu, .levels = vcpu->arch.cr4 & X86_CR4_LA57 ? 5 : 4,
		.page = NOWHERE, .block = NOWHERE,
	};
	unsigned int n = 2;
	u64 next;

	*why = KVM_VPMU_STACK_MODE;
	if (!stack->long_mode)
		return 0;
	set_half(&w);
	*why = KVM_VPMU_STACK_INVALID;
	if (stack->rsp % sizeof(u64) || !is_valid(&w, stack->rsp))
		return 0;
	word[0] = stack->rsp;
	word[1] = stack->rbp;
	next = scan(&w, stack->rsp, word, &n);
	/* The last word of a stack for interrupts is where the interrupted one goes on. */
	if (n < KVM_VPMU_STACK_MAX && next && next % sizeof(u64) == 0 && is_valid(&w, next) &&
	    !is_text(next) && !is_near(next, stack->rsp)) {
		word[n++] = packed(KVM_VPMU_WORDS_NEXT, next);
		scan(&w, next, word, &n);
	}
	*why = n < KVM_VPMU_STACK_MAX ? KVM_VPMU_STACK_END : KVM_VPMU_STACK_LIMIT;
	return n;
}
