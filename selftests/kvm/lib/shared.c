// SPDX-License-Identifier: GPL-2.0-or-later
#include <err.h>

#include "guests.h"
#include "shared.h"

/* Of each vCPU, in the guest's memory: its words (struct demand, passes, stop), and its own lines */
#define WORDS(id)	(0x10000u + 0x1000 * (id))
#define LINE		64u
#define BOTH		0x400000u
#define OWN(id)		(BOTH + (1 + (id)) * MAX_LINES * LINE)

struct words {
	struct demand demand;
	volatile uint32_t passes, stop;
};

/* EDI: WORDS, EBX: OWN, EDX: BOTH.  In protected mode, with segments of 4 GiB */
extern const char demand_start[], demand_end[];
asm(".code32\n"
    ".globl demand_start, demand_end\n"
    "demand_start:\n"
    "0:	mov %ebx, %eax\n"
    "	mov (%edi), %ecx\n"
    "	mov 4(%edi), %esi\n"
    "	call 3f\n"
    "	mov %edx, %eax\n"
    "	mov 8(%edi), %ecx\n"
    "	mov 12(%edi), %esi\n"
    "	call 3f\n"
    "	mov 16(%edi), %ecx\n"
    "	jecxz 2f\n"
    "1:	dec %ecx\n"
    "	jnz 1b\n"
    "2:	incl 20(%edi)\n"
    "	cmpl $0, 24(%edi)\n"
    "	je 0b\n"
    "	out %al, $0x10\n"
    /* ECX lines from EAX on; ESI: add to them */
    "3:	jecxz 6f\n"
    "	test %esi, %esi\n"
    "	jnz 5f\n"
    "4:	cmpl $0, (%eax)\n"
    "	add $64, %eax\n"
    "	dec %ecx\n"
    "	jnz 4b\n"
    "	ret\n"
    "5:	incl (%eax)\n"
    "	add $64, %eax\n"
    "	dec %ecx\n"
    "	jnz 5b\n"
    "6:	ret\n"
    "demand_end:\n"
    ".code64\n");

/* SDM vol. 3, "Protected-Mode Memory Management": without pages */
static void enter_protected_mode(const struct vm *vm)
{
	struct kvm_sregs sregs;

	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cr0 |= 1;
	sregs.cs = (struct kvm_segment){
		.limit = 0xffffffff, .selector = 8, .type = 11, .present = 1, .s = 1, .db = 1, .g = 1,
	};
	sregs.ss = sregs.cs;
	sregs.ss.selector = 16;
	sregs.ss.type = 3;
	sregs.ds = sregs.es = sregs.ss;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
}

static struct words *words_of(const struct vm *vm, unsigned int id)
{
	return (struct words *)(vm->memory + WORDS(id));
}

static void *run_vcpu(void *arg)
{
	run_until(arg, KVM_EXIT_IO);
	return NULL;
}

void begin_pair(struct pair *pair, struct demand demand)
{
	unsigned int i;

	pair->vm[0] = make_vm_with(0, OWN(2));
	pair->vm[1] = pair->vm[0];
	add_vcpu(&pair->vm[1], 1);
	for (i = 0; i < 2; i++) {
		*words_of(&pair->vm[i], i) = (struct words){ .demand = demand };
		load_code(&pair->vm[i], demand_start, demand_end, (struct kvm_regs){
			.rbx = OWN(i), .rdx = BOTH, .rdi = WORDS(i), .rsp = WORDS(i) + 0x1000,
		});
		enter_protected_mode(&pair->vm[i]);
		if (pthread_create(&pair->thread[i], NULL, run_vcpu, &pair->vm[i]))
			errx(1, "no thread");
	}
}

void end_pair(struct pair *pair)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		words_of(&pair->vm[i], i)->stop = 1;
	for (i = 0; i < 2; i++)
		pthread_join(pair->thread[i], NULL);
	close(pair->vm[1].vcpu);
	free_vm(&pair->vm[0]);
}

uint32_t passes_of(const struct pair *pair)
{
	return words_of(&pair->vm[0], 0)->passes + words_of(&pair->vm[0], 1)->passes;
}
