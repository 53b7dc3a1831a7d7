// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests' call graphs, taken on the host (KVM_VPMU_PROFILE_STACKS of linux/kvm_vpmu_profile.h): each
 * is complete, wherever the guest was; what is no stack ends.  TAP.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>

#include <linux/kvm_vpmu_profile.h>

#include "tap.h"
#include "guests.h"
#include "long_mode.h"
#include "pin.h"
#include "profiles.h"
#include "registers.h"

#define RECORDS	65536
/* A prime: the guests' loops are met everywhere. */
#define PERIOD	10007
/*
 * The host's instructions are counted, too: to record a kernel's stack takes some 12,000.  With a
 * period of less, the guest may execute next to nothing between two samples.
 */
#define WORDS_PERIOD	30011
/* Times the chain's; loops of each length in front of them, as often */
#define ROUNDS	2048

/* Frames of tests' own, in the guest's memory; a hole in that */
#define FRAMES		0x20000
#define NO_MEMORY	0x40000000ull

/*
 * A chain of functions, in 32 bytes each: where the guest is says who has called.  The loop in front
 * of each round is 1 to 64 times 2 instructions, 65 on average: no period keeps step with the chain.
 */
#define CHAIN		100
#define CHAIN_STEP	32
#define CHAIN_PLACES	7	/* Instructions of a function that calls the next one */
#define CHAIN_RETURN	18
extern const char chain_start[], chain_first[], chain_behind[], chain_end[];
asm(".globl chain_start, chain_first, chain_behind, chain_end\n"
    "chain_start:\n"
    "1:	mov %esi, %ecx\n"
    "	and $63, %ecx\n"
    "2:	dec %ecx\n"
    "	jns 2b\n"
    "	call chain_first\n"
    "chain_behind:\n"
    "	dec %rsi\n"
    "	jnz 1b\n"
    "	out %al, $0x10\n"
    "	.balign 32\n"
    "chain_first:\n"
    "	.rept 99\n"
    "	endbr64\n"
    "	.byte 0x0f, 0x1f, 0x44, 0, 0\n"
    "	push %rbp\n"
    "	mov %rsp, %rbp\n"
    "	call 2f\n"
    "	pop %rbp\n"
    "	ret\n"
    "	.balign 32, 0xcc\n"
    "2:\n"
    "	.endr\n"
    "	push %rbp\n"
    "	mov %rsp, %rbp\n"
    "	pop %rbp\n"
    "	ret\n"
    "chain_end:\n");

/* The same loop without any frame */
extern const char loop64_start[], loop64_end[];
asm(".globl loop64_start, loop64_end\n"
    "loop64_start:\n"
    "2:	mov $1000, %ecx\n"
    "3:	dec %ecx\n"
    "	jnz 3b\n"
    "	dec %esi\n"
    "	jnz 2b\n"
    "	out %al, $0x10\n"
    "loop64_end:\n");
#define LOOP_INSTRUCTIONS(n)	((n) * 2003ull)

static int device;

static const struct mode modes[] = {
	{ "kernel", 0xffffffff80000000, 4, 1, false, false },
	{ "kernel, pages of 2 MiB", 0xffff888000000000, 4, 2, false, false },
	{ "process", 0x400000000000, 4, 1, true, false },
	{ "process, pages of 1 GiB", 0x7f0000000000, 4, 3, true, false },
	{ "5 levels", 0xff11000000000000, 5, 1, false, false },
};

static struct kvm_vpmu_profile with_stacks(void)
{
	return (struct kvm_vpmu_profile){
		.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS, .period = PERIOD,
		.flags = KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_STACKS, .records = RECORDS,
		.fd = -1,
	};
}

/* A sample in guest mode and its stack */
struct stack {
	struct kvm_vpmu_record sample;
	uint64_t address[KVM_VPMU_STACK_MAX];
	unsigned int nr, why;
};

/* How many samples had none, or stacks no sample, and what was otherwise strange */
struct faults {
	unsigned int without, strange;
};

static void add_stack(struct stack *s, const struct kvm_vpmu_record *r, struct faults *faults)
{
	if (r->tsc != s->sample.tsc || r->vm != s->sample.vm || r->vcpu != s->sample.vcpu ||
	    s->why != KVM_VPMU_STACK_MORE || r->nr > KVM_VPMU_STACK_RECORD ||
	    s->nr + r->nr > KVM_VPMU_STACK_MAX || r->mode > KVM_VPMU_STACK_MODE) {
		faults->strange++;
		return;
	}
	for (unsigned int i = 0; i < KVM_VPMU_STACK_RECORD; i++) {
		if (i < r->nr)
			s->address[s->nr++] = r->address[i];
		else
			faults->strange += !!r->address[i];
	}
	s->why = r->mode;
}

/* The next sample in guest mode, with its stack */
static bool next_stack(struct profile *p, struct stack *s, struct faults *faults)
{
	const struct kvm_vpmu_record *r;
	bool sampled = false;

	*s = (struct stack){ };
	while ((r = profile_next(p))) {
		if (r->type == KVM_VPMU_RECORD_STACK) {
			add_stack(s, r, faults);
			if (s->why != KVM_VPMU_STACK_MORE)
				return true;
		} else if (r->mode == KVM_VPMU_MODE_GUEST) {
			/* Two in one NMI have one stack, and needn't have it here. */
			faults->without += sampled && r->tsc != s->sample.tsc;
			sampled = true;
			s->sample = *r;
		}
	}
	faults->without += sampled;
	return false;
}

/* Has it the callers of where the chain was sampled, and only these? */
static bool is_chain(const struct mode *m, const struct stack *s)
{
	uint64_t first = m->base + CODE + (chain_first - chain_start);
	unsigned int depth = s->sample.ip < first ? 0 : 1 + (s->sample.ip - first) / CHAIN_STEP;

	if (s->why != KVM_VPMU_STACK_END || s->nr != depth)
		return false;
	for (unsigned int i = 0; i < depth; i++) {
		unsigned int caller = depth - 1 - i;
		uint64_t wanted = caller ? first + (caller - 1) * CHAIN_STEP + CHAIN_RETURN :
					   m->base + CODE + (chain_behind - chain_start);

		if (s->address[i] != wanted)
			return false;
	}
	return true;
}

/* Each place of a chain of calls, by the instruction */
static void check_chain(const struct mode *m)
{
	bool met[CHAIN_STEP] = { };
	unsigned int wrong = 0, right = 0, places = 0;
	struct faults faults = { };
	struct kvm_regs regs;
	struct pmu pmu;
	struct profile p;
	struct stack s;
	struct vm vm;

	if (!make_long_mode(&vm, m, chain_start, chain_end, (struct kvm_regs){ .rsi = ROUNDS })) {
		skip("this CPU has no such paging", "%s: stacks", m->name);
		return;
	}
	pmu = pmu_of(&vm);
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | USR | EN, 0);
	p = profile_open(device, with_stacks());
	run_until(&vm, KVM_EXIT_IO);
	while (next_stack(&p, &s, &faults)) {
		if (is_chain(m, &s)) {
			right++;
			if (s.nr && s.nr < CHAIN)
				met[(s.sample.ip - m->base) % CHAIN_STEP] = true;
			continue;
		}
		if (!wrong++)
			printf("# at %#llx: %u addresses, end %u, first %#llx\n",
			       (unsigned long long)s.sample.ip, s.nr, s.why,
			       (unsigned long long)s.address[0]);
	}
	for (unsigned int i = 0; i < CHAIN_STEP; i++)
		places += met[i];
	IOCTL(vm.vcpu, KVM_GET_REGS, &regs);
	printf("# %s: %u stacks, at %u instructions\n", m->name, right, places);
	is(p.ring->lost, 0, "%s: lost", m->name);
	is(faults.strange, 0, "%s: stacks without a sample, or not as described", m->name);
	is(faults.without, 0, "%s: samples without a stack", m->name);
	is(wrong, 0, "%s: stacks that aren't complete", m->name);
	/* The guest executes these, some of a round's and 4 of the last function's. */
	check(right >= ROUNDS * CHAIN * CHAIN_PLACES / PERIOD / 2, "%s: a stack for each sample (%u)",
	      m->name, right);
	is(places, CHAIN_PLACES, "%s: instructions of a function with a sample", m->name);
	is(counter(&vm, pmu, 0), ROUNDS * (2 + 65 + 3 + 99 * 7 + 4), "%s: the guest's own count", m->name);
	is(regs.rsp, m->base + STACK, "%s: the guest's stack pointer", m->name);
	profile_close(&p);
	free_vm(&vm);
}

/* More than there is room for */
static void check_deep(unsigned int depth, unsigned int nr, unsigned int why)
{
	const struct mode *m = &modes[2];
	uint64_t code = m->base + CODE, behind = code + (deep_behind - deep_start);
	unsigned int stacks = 0, wrong = 0;
	struct faults faults = { };
	struct profile p;
	struct stack s;
	struct vm vm;

	make_long_mode(&vm, m, deep_start, deep_end, (struct kvm_regs){ .rsi = 300, .rdi = depth });
	p = profile_open(device, with_stacks());
	run_until(&vm, KVM_EXIT_IO);
	while (next_stack(&p, &s, &faults)) {
		bool good = s.nr == nr && s.why == why;

		/* On the way there and back */
		if (s.sample.ip < code + (deep_leaf - deep_start))
			continue;
		for (unsigned int i = 0; good && i < nr; i++)
			good = s.address[i] == (i + 1 < depth ? code + (deep_return - deep_start) : behind);
		stacks++;
		wrong += !good;
	}
	check(stacks >= 10, "%u calls: stacks (%u)", depth, stacks);
	is(wrong, 0, "%u calls: stacks without %u addresses", depth, nr);
	is(faults.without + faults.strange, 0, "%u calls: samples without a stack", depth);
	profile_close(&p);
	free_vm(&vm);
}

/* ---- what is no stack */

static uint64_t *word(const struct vm *vm, uint64_t offset)
{
	return (uint64_t *)(vm->memory + offset);
}

/* A guest in mode @m loops, with RBP = @rbp: all of its stacks are so. */
static void expect(struct vm *vm, uint64_t rbp, unsigned int nr, unsigned int why,
		   uint64_t first, const char *what)
{
	struct faults faults = { };
	unsigned int stacks = 0, wrong = 0;
	struct kvm_regs regs;
	struct profile p;
	struct stack s;

	IOCTL(vm->vcpu, KVM_GET_REGS, &regs);
	regs.rbp = rbp;
	regs.rsi = 100;
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	p = profile_open(device, with_stacks());
	run_until(vm, KVM_EXIT_IO);
	while (next_stack(&p, &s, &faults)) {
		stacks++;
		if (s.nr == nr && s.why == why && (!nr || s.address[0] == first))
			continue;
		if (!wrong++)
			printf("# %s: %u addresses, end %u, first %#llx\n", what, s.nr, s.why,
			       (unsigned long long)s.address[0]);
	}
	check(stacks >= LOOP_INSTRUCTIONS(100) / PERIOD / 2 && !wrong && !faults.strange &&
	      !faults.without, "%s (%u stacks, %u wrong)", what, stacks, wrong);
	profile_close(&p);
}

/* The same guest again */
static void again(struct vm *vm, const struct mode *m)
{
	struct kvm_regs regs;

	complete(vm);
	IOCTL(vm->vcpu, KVM_GET_REGS, &regs);
	regs.rip = m->base + CODE;
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
}

static void check_hostile(const struct mode *m)
{
	const uint64_t base = m->base, frame = base + FRAMES, code = base + CODE;
	struct vm vm;

	make_long_mode(&vm, m, loop64_start, loop64_end, (struct kvm_regs){ });
	/* A caller's frame at FRAMES, the outermost */
	word(&vm, FRAMES)[1] = code;
	expect(&vm, frame, 1, KVM_VPMU_STACK_END, code, "one frame");
	is(*leaf_entry(&vm, FRAMES) & ACCESSED, 0, "one frame: the page wasn't accessed");
	again(&vm, m);
	expect(&vm, 0, 0, KVM_VPMU_STACK_END, 0, "no frame");
	again(&vm, m);
	expect(&vm, frame + 4, 0, KVM_VPMU_STACK_INVALID, 0, "not aligned");
	again(&vm, m);
	expect(&vm, base + STACK - 8, 0, KVM_VPMU_STACK_INVALID, 0, "below the stack pointer");
	again(&vm, m);
	expect(&vm, frame ^ 1ull << 60, 0, KVM_VPMU_STACK_INVALID, 0, "not canonical");
	again(&vm, m);
	expect(&vm, ~base & -4096ull, 0, KVM_VPMU_STACK_INVALID, 0, "in the other half");
	again(&vm, m);
	word(&vm, FRAMES)[0] = frame;
	expect(&vm, frame, 1, KVM_VPMU_STACK_INVALID, code, "a frame whose caller is itself");
	again(&vm, m);
	word(&vm, FRAMES)[0] = frame + 8;
	expect(&vm, frame, 1, KVM_VPMU_STACK_INVALID, code, "frames that overlap");
	again(&vm, m);
	word(&vm, FRAMES)[0] = 0;
	word(&vm, FRAMES)[1] = ~code;
	expect(&vm, frame, 0, KVM_VPMU_STACK_INVALID, 0, "a return to the other half");
	again(&vm, m);
	word(&vm, FRAMES)[1] = 0;
	expect(&vm, frame, 0, KVM_VPMU_STACK_END, 0, "a return to 0");
	again(&vm, m);
	word(&vm, FRAMES)[1] = code;

	/* Pages */
	*leaf_entry(&vm, FRAMES) &= ~PRESENT;
	expect(&vm, frame, 0, KVM_VPMU_STACK_UNMAPPED, 0, "a page that isn't present");
	again(&vm, m);
	*leaf_entry(&vm, FRAMES) = NO_MEMORY | PRESENT | WRITABLE | USER;
	expect(&vm, frame, 0, KVM_VPMU_STACK_UNMAPPED, 0, "a page without memory");
	again(&vm, m);
	*leaf_entry(&vm, FRAMES) = FRAMES | PRESENT | WRITABLE;
	expect(&vm, frame, m->user ? 0 : 1,
	       m->user ? KVM_VPMU_STACK_UNMAPPED : KVM_VPMU_STACK_END, code, "a page of the kernel's");
	again(&vm, m);
	/* Across two pages that aren't neighbours */
	*leaf_entry(&vm, FRAMES) = FRAMES | PRESENT | WRITABLE | USER;
	*leaf_entry(&vm, FRAMES + 0x1000) = (FRAMES + 0x3000) | PRESENT | WRITABLE | USER;
	*word(&vm, FRAMES + 0x3000) = code + 1;
	expect(&vm, frame + 0xff8, 1, KVM_VPMU_STACK_END, code + 1, "a frame in two pages");
	again(&vm, m);
	*leaf_entry(&vm, FRAMES + 0x1000) = 0;
	expect(&vm, frame + 0xff8, 0, KVM_VPMU_STACK_UNMAPPED, 0, "a frame in one and a half");
	again(&vm, m);
	/* The highest table as its own next ones, and as a page, whose first words are 0 */
	if (m->user) {
		table(&vm, 10)[200] = ROOT | PRESENT | WRITABLE | USER;
		expect(&vm, 200ull << 39 | 200ull << 30 | 200ull << 21 | 200ull << 12, 0,
		       KVM_VPMU_STACK_END, 0, "page tables in a circle");
		again(&vm, m);
	}
	/* The host has no page there now. */
	if (madvise(vm.memory + FRAMES, 4096, MADV_DONTNEED))
		err(1, "madvise");
	expect(&vm, frame, 0, KVM_VPMU_STACK_UNMAPPED, 0, "a page that the VMM hasn't mapped");
	free_vm(&vm);
}

/* Code of other sizes */
static void check_other_modes(void)
{
	const struct mode *m = &modes[3];
	struct mode low = *m;
	struct kvm_sregs sregs;
	struct vm vm;

	low.base = 0;
	make_long_mode(&vm, &low, loop64_start, loop64_end, (struct kvm_regs){ });
	IOCTL(vm.vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.l = 0;
	sregs.cs.db = 1;
	IOCTL(vm.vcpu, KVM_SET_SREGS, &sregs);
	word(&vm, FRAMES)[1] = CODE;
	expect(&vm, FRAMES, 0, KVM_VPMU_STACK_MODE, 0, "32-bit code of a 64-bit kernel");
	free_vm(&vm);
}

/* The VM's owner without privileges gets them as well. */
static void check_owner(void)
{
	const struct mode *m = &modes[2];
	struct kvm_vpmu_profile what = with_stacks();
	struct faults faults = { };
	unsigned int stacks = 0, wrong = 0;
	struct profile p;
	struct stack s;
	struct vm vm;

	make_long_mode(&vm, m, chain_start, chain_end, (struct kvm_regs){ .rsi = ROUNDS });
	what.fd = vm.fd;
	p = profile_open(device, what);
	run_until(&vm, KVM_EXIT_IO);
	while (next_stack(&p, &s, &faults)) {
		stacks++;
		wrong += !is_chain(m, &s);
	}
	check(stacks && !wrong && !faults.without && !faults.strange,
	      "one VM: stacks (%u, %u wrong)", stacks, wrong);
	profile_close(&p);
	free_vm(&vm);
}

/* ---- words of a kernel's stack */

#define TEXT		0xffffffff81234567ull
#define OFFSET_MASK	((1ull << KVM_VPMU_WORDS_OFFSET) - 1)

static struct kvm_vpmu_profile with_words(void)
{
	struct kvm_vpmu_profile what = with_stacks();

	what.period = WORDS_PERIOD;
	what.flags |= KVM_VPMU_PROFILE_WORDS;
	return what;
}

/* The words of a sample whose record was the last one, as a stack's addresses */
static bool words_of(struct profile *p, const struct stack *sample, struct stack *words, struct faults *faults)
{
	const struct kvm_vpmu_record *r;

	*words = (struct stack){ .sample = sample->sample };
	while (words->why == KVM_VPMU_STACK_MORE && (r = profile_next(p))) {
		/* The module's own work may be sampled in between. */
		if (r->type == KVM_VPMU_RECORD_WORDS)
			add_stack(words, r, faults);
	}
	return words->why != KVM_VPMU_STACK_MORE;
}

/* The word at @address, as the records have it; 0: they haven't */
static uint64_t word_on_stack(const struct stack *words, uint64_t address)
{
	const uint64_t rsp = words->address[0];

	for (unsigned int i = 2; i < words->nr; i++) {
		uint64_t item = words->address[i], word = (item & OFFSET_MASK) | (rsp & ~OFFSET_MASK);

		if (rsp + (item >> KVM_VPMU_WORDS_OFFSET) == address)
			return word - rsp < KVM_VPMU_WORDS_STACK ? word : word | ~OFFSET_MASK;
	}
	return 0;
}

/* Are the frames that @s was found by among the words? */
static bool has_frames(const struct stack *s, const struct stack *words)
{
	uint64_t frame = words->address[1];

	for (unsigned int i = 0; i < s->nr; i++, frame = word_on_stack(words, frame))
		if (word_on_stack(words, frame + 8) != s->address[i])
			return false;
	return !word_on_stack(words, frame);
}

static void check_words(unsigned int depth, unsigned int why)
{
	const struct mode *m = &modes[0];
	unsigned int stacks = 0, wrong = 0;
	struct faults faults = { };
	struct stack s, words;
	struct profile p;
	struct vm vm;

	make_long_mode(&vm, m, deep_start, deep_end, (struct kvm_regs){ .rsi = 300, .rdi = depth });
	p = profile_open(device, with_words());
	run_until(&vm, KVM_EXIT_IO);
	while (next_stack(&p, &s, &faults)) {
		bool good = words_of(&p, &s, &words, &faults) && words.why == why;

		/* On the way there and back */
		if (s.sample.ip < m->base + CODE + (deep_leaf - deep_start))
			continue;
		stacks++;
		if (why == KVM_VPMU_STACK_LIMIT)
			good = good && words.nr == KVM_VPMU_STACK_MAX;
		else
			good = good && has_frames(&s, &words);
		if (!good && !wrong++)
			printf("# %u words, end %u; %u addresses\n", words.nr, words.why, s.nr);
	}
	check(stacks >= 10 && !faults.without && !faults.strange, "%u calls: words (%u)", depth, stacks);
	is(p.ring->lost, 0, "%u calls: words: lost", depth);
	is(wrong, 0, "%u calls: words without frames", depth);
	profile_close(&p);
	free_vm(&vm);
}

/* A guest loops, with RSP = @rsp: of all samples, @nr words and @why; the third and the fourth, if there are these */
static void expect_words(struct vm *vm, uint64_t rsp, unsigned int nr, unsigned int why, const uint64_t wanted[2],
			 const char *what)
{
	unsigned int stacks = 0, wrong = 0;
	struct faults faults = { };
	struct stack s, words;
	struct kvm_regs regs;
	struct profile p;

	IOCTL(vm->vcpu, KVM_GET_REGS, &regs);
	regs.rsp = rsp;
	regs.rbp = 0;
	regs.rsi = 100;
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	p = profile_open(device, with_words());
	run_until(vm, KVM_EXIT_IO);
	while (next_stack(&p, &s, &faults)) {
		bool good = words_of(&p, &s, &words, &faults) && words.nr == nr && words.why == why;

		stacks++;
		good = good && (!nr || (words.address[0] == rsp && !words.address[1]));
		for (unsigned int i = 2; good && i < nr && i < 4; i++)
			good = words.address[i] == wanted[i - 2];
		if (!good && !wrong++)
			printf("# %u words, end %u, the third %#llx\n", words.nr, words.why,
			       (unsigned long long)words.address[2]);
	}
	check(stacks >= LOOP_INSTRUCTIONS(100) / WORDS_PERIOD / 2 && !wrong && !faults.without && !faults.strange,
	      "%s (%u stacks, %u wrong)", what, stacks, wrong);
	profile_close(&p);
}

/* What belongs to no stack isn't there, and an interrupt's stack goes on where the kernel was. */
static void check_stacks_of_words(void)
{
	static const struct mode m = { "words", 0xffff888000000000, 4, 1, false, false };
	const uint64_t page = m.base + FRAMES, rsp = page + 0xf00, other = page + 0x8000;
	const uint64_t interrupted[] = {
		(uint64_t)KVM_VPMU_WORDS_NEXT << KVM_VPMU_WORDS_OFFSET | (other & OFFSET_MASK),
		0x10ull << KVM_VPMU_WORDS_OFFSET | (TEXT & OFFSET_MASK),
	};
	const uint64_t alone[] = {
		0x20ull << KVM_VPMU_WORDS_OFFSET | (TEXT & OFFSET_MASK),
		0x38ull << KVM_VPMU_WORDS_OFFSET | ((rsp + 0x40) & OFFSET_MASK),
	};
	struct vm vm;

	make_long_mode(&vm, &m, loop64_start, loop64_end, (struct kvm_regs){ });
	*leaf_entry(&vm, FRAMES + 0x1000) = 0;
	expect_words(&vm, rsp, 2, KVM_VPMU_STACK_END, NULL, "words: none on the stack");
	again(&vm, &m);
	*word(&vm, FRAMES + 0xff8) = other;
	*word(&vm, FRAMES + 0x8010) = TEXT;
	expect_words(&vm, rsp, 4, KVM_VPMU_STACK_END, interrupted, "words: an interrupt's stack, and what is behind");
	again(&vm, &m);
	*word(&vm, FRAMES + 0xff8) = rsp - 8;
	*word(&vm, FRAMES + 0xf20) = TEXT;
	*word(&vm, FRAMES + 0xf38) = rsp + 0x40;
	*word(&vm, FRAMES + 0xf40) = ~0ull;
	*word(&vm, FRAMES + 0xf48) = m.base;
	expect_words(&vm, rsp, 4, KVM_VPMU_STACK_END, alone, "words: a stack that goes on below itself");
	again(&vm, &m);
	expect_words(&vm, rsp + 4, 0, KVM_VPMU_STACK_INVALID, NULL, "words: a stack that isn't aligned");
	again(&vm, &m);
	expect_words(&vm, 0x1000, 0, KVM_VPMU_STACK_INVALID, NULL, "words: in the other half");
	again(&vm, &m);
	expect_words(&vm, page + 0x1000, 2, KVM_VPMU_STACK_END, NULL, "words: where nothing is mapped");
	free_vm(&vm);
}

static void check_argument(void)
{
	struct kvm_vpmu_profile words = with_words();
	struct kvm_vpmu_profile what = {
		.flags = KVM_VPMU_PROFILE_SWITCHES | KVM_VPMU_PROFILE_STACKS, .records = RECORDS,
		.fd = -1,
	};

	check(ioctl(device, KVM_VPMU_PROFILE, &what) < 0 && errno == EINVAL,
	      "refused: stacks without samples");
	words.flags &= ~KVM_VPMU_PROFILE_STACKS;
	check(ioctl(device, KVM_VPMU_PROFILE, &words) < 0 && errno == EINVAL, "refused: words without stacks");
}

int main(void)
{
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	pin(0, 0);
	profile_unthrottle();
	profile_warm_up(device);
	check_argument();
	for (unsigned int i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		check_chain(&modes[i]);
	check_deep(125, 125, KVM_VPMU_STACK_LIMIT);
	check_deep(124, 124, KVM_VPMU_STACK_END);
	check_deep(400, 125, KVM_VPMU_STACK_LIMIT);
	check_hostile(&modes[0]);
	check_hostile(&modes[2]);
	check_other_modes();
	check_owner();
	check_words(50, KVM_VPMU_STACK_END);
	check_words(100, KVM_VPMU_STACK_LIMIT);
	check_stacks_of_words();
	return finish();
}
