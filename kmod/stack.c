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

/**
 * struct walk - a walk up a stack
 * @s: where it began
 * @vcpu: the vCPU
 * @levels: of the guest's page tables
 * @page: the page that was translated last, by its virtual address
 * @gpa: its physical address
 */
struct walk {
	const struct vpmu_stack *s;
	struct kvm_vcpu *vcpu;
	unsigned int levels;
	u64 page;
	u64 gpa;
};

/* A caller's frame: the SysV ABI, "The Stack Frame" */
struct frame {
	u64 next;
	u64 address;
};

void vpmu_stack_note(struct vpmu_stack *stack, struct kvm_vcpu *vcpu)
{
	stack->long_mode = vpmu_compat_in_64bit_mode(vcpu);
	stack->rip = vpmu_compat_guest_rip(vcpu);
	stack->rsp = vpmu_compat_guest_rsp(vcpu);
	stack->rbp = vcpu->arch.regs[VCPU_REGS_RBP];
	stack->cr3 = vpmu_compat_guest_cr3(vcpu);
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

/* Is that an address of the same half, the kernel's or the processes', as the sample's? */
static bool is_valid(const struct walk *w, u64 address)
{
	return __is_canonical_address(address, level_shift(w->levels + 1)) &&
	       !((address ^ w->s->rip) >> 63);
}

/* A part of one page */
static bool read_page(struct walk *w, u64 address, void *to, size_t size)
{
	if ((address & PAGE_MASK) != w->page && !find_page(w, address & PAGE_MASK))
		return false;
	return !vpmu_compat_read_guest(w->vcpu, w->gpa + offset_in_page(address), to, size);
}

static bool read_virtual(struct walk *w, u64 address, void *to, size_t size)
{
	size_t first = min(size, PAGE_SIZE - offset_in_page(address));

	return is_valid(w, address) && is_valid(w, address + size - 1) &&
	       read_page(w, address, to, first) &&
	       (first == size || read_page(w, address + first, to + first, size - first));
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

	if (!read_virtual(w, s->rip, bytes, sizeof(bytes)))
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
		/* No page begins there. */
		.page = 1,
	};
	u64 frame_at = stack->rbp, lowest = stack->rsp, at;
	unsigned int n = 0;

	*why = KVM_VPMU_STACK_MODE;
	if (!stack->long_mode)
		return 0;
	at = frameless(&w);
	if (at && is_valid(&w, at) && read_virtual(&w, at, address, sizeof(*address)) &&
	    is_valid(&w, *address))
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
		if (!read_virtual(&w, frame_at, &frame, sizeof(frame)))
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
