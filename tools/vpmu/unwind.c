// SPDX-License-Identifier: GPL-2.0-or-later
#include "unwind.h"

#include <linux/kvm_vpmu_profile.h>

#define PAGE_BYTES	4096
#define WORD_MASK	((1ull << KVM_VPMU_WORDS_OFFSET) - 1)

/* Registers that the kernel's entry code has saved: struct pt_regs of arch/x86/include/asm/ptrace.h */
#define REGS_BP		32
#define REGS_IP		128
#define REGS_SP		152
/* The same of those that the CPU saves: an interrupt's stack frame */
#define FRAME_IP	0
#define FRAME_SP	24

/**
 * struct stack - what is known of the kernel's stacks
 * @address: of each word
 * @word: the words
 * @nr: how many
 * @next: the last word of the first stack, which leads to another one; 0: it doesn't
 */
struct stack {
	uint64_t address[KVM_VPMU_STACK_MAX], word[KVM_VPMU_STACK_MAX];
	unsigned int nr;
	uint64_t next;
};

/**
 * struct state - a function that is on the stack
 * @ip: where
 * @sp: its stack pointer
 * @bp: its RBP
 * @has_bp: that is known
 * @interrupted: it didn't call, and @ip is where it goes on
 */
struct state {
	uint64_t ip, sp, bp;
	bool has_bp, interrupted;
};

static void read_words(struct stack *stack, const uint64_t *word, size_t nr)
{
	const uint64_t upper = word[0] & ~WORD_MASK;
	uint64_t base = word[0];
	size_t i;

	stack->nr = 0;
	stack->next = 0;
	for (i = 2; i < nr && stack->nr < KVM_VPMU_STACK_MAX; i++) {
		uint64_t offset = word[i] >> KVM_VPMU_WORDS_OFFSET;
		uint64_t near = upper | (word[i] & WORD_MASK);

		if (offset == KVM_VPMU_WORDS_NEXT) {
			stack->next = base = near;
			continue;
		}
		stack->address[stack->nr] = base + offset;
		stack->word[stack->nr++] = near - base < KVM_VPMU_WORDS_STACK ? near :
					   near | ~WORD_MASK;
	}
}

static bool find(const struct stack *stack, uint64_t address, uint64_t *word)
{
	unsigned int i;

	for (i = 0; i < stack->nr; i++) {
		if (stack->address[i] != address)
			continue;
		*word = stack->word[i];
		return true;
	}
	return false;
}

/* Where the stack was in front of the call */
static bool find_frame(const struct stack *stack, const struct guest_unwind *way,
		       const struct state *s, uint64_t *frame)
{
	switch (way->sp_reg) {
	case UNWIND_SP:
		*frame = s->sp + way->sp_offset;
		return true;
	case UNWIND_BP:
		*frame = s->bp + way->sp_offset;
		return s->has_bp;
	case UNWIND_SP_INDIRECT:
		/* A stack ends with a page. */
		if (!stack->next || (s->sp + sizeof(uint64_t)) % PAGE_BYTES)
			return false;
		*frame = stack->next + way->sp_offset;
		return true;
	case UNWIND_BP_INDIRECT:
		return s->has_bp && find(stack, s->bp + way->sp_offset, frame);
	default:
		return false;
	}
}

static bool find_ip(const struct stack *stack, const struct guest_unwind *way, uint64_t frame,
		    struct state *s)
{
	s->interrupted = way->type != UNWIND_TYPE_CALL;
	s->sp = frame;
	switch (way->type) {
	case UNWIND_TYPE_CALL:
		return find(stack, frame - sizeof(uint64_t), &s->ip);
	case UNWIND_TYPE_REGS:
		return find(stack, frame + REGS_IP, &s->ip) &&
		       find(stack, frame + REGS_SP, &s->sp);
	case UNWIND_TYPE_REGS_PARTIAL:
		return find(stack, frame + FRAME_IP, &s->ip) &&
		       find(stack, frame + FRAME_SP, &s->sp);
	default:
		return false;
	}
}

static void find_bp(const struct stack *stack, const struct guest_unwind *way, uint64_t frame,
		    struct state *s)
{
	switch (way->bp_reg) {
	case UNWIND_UNDEFINED:
		if (way->type == UNWIND_TYPE_REGS)
			s->has_bp = find(stack, frame + REGS_BP, &s->bp);
		break;
	case UNWIND_PREV_SP:
		s->has_bp = find(stack, frame + way->bp_offset, &s->bp);
		break;
	case UNWIND_BP:
		s->has_bp = s->has_bp && find(stack, s->bp + way->bp_offset, &s->bp);
		break;
	default:
		s->has_bp = false;
	}
}

unsigned int unwind_kernel(const struct guest_map *map, uint64_t ip, const uint64_t *word,
			   size_t nr, uint64_t *caller)
{
	struct state s = { .ip = ip, .interrupted = true };
	struct stack stack;
	unsigned int n;

	if (nr < 2)
		return 0;
	read_words(&stack, word, nr);
	s.sp = word[0];
	s.bp = word[1];
	s.has_bp = true;
	for (n = 0; n < KVM_VPMU_STACK_MAX; n++) {
		/* A call may be a function's last instruction. */
		const struct guest_unwind *way = guest_map_unwind(map, s.ip - !s.interrupted);
		uint64_t frame;

		if (!way || way->type == UNWIND_TYPE_UNDEFINED || way->type == UNWIND_TYPE_END ||
		    !find_frame(&stack, way, &s, &frame))
			break;
		find_bp(&stack, way, frame, &s);
		if (!find_ip(&stack, way, frame, &s))
			break;
		caller[n] = s.ip - !s.interrupted;
	}
	return n;
}
