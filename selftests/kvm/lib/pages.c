// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <err.h>
#include <sys/mman.h>

#include "guests.h"
#include "pages.h"

/*
 * Accesses ECX pages from segment EBX on, writes ESI pages from segment EDX on, EBP times (0: ever)
 * or until the word at ESP isn't 0, which is in the code's page.  Ends with an OUT.
 */
#define STOP(i)	(CODE + 0xff0 + 4 * (i))
extern const char pages_start[], pages_end[];
asm(".code16\n"
    ".globl pages_start, pages_end\n"
    "pages_start:\n"
    "0:	mov %ebx, %eax\n"
    "	mov %ecx, %edi\n"
    "1:	test %edi, %edi\n"
    "	jz 2f\n"
    "	mov %ax, %es\n"
    "	cmpl $0, %es:0\n"
    "	add $0x100, %eax\n"
    "	dec %edi\n"
    "	jmp 1b\n"
    "2:	mov %edx, %eax\n"
    "	mov %esi, %edi\n"
    "3:	test %edi, %edi\n"
    "	jz 4f\n"
    "	mov %ax, %es\n"
    "	incl %es:8\n"
    "	add $0x100, %eax\n"
    "	dec %edi\n"
    "	jmp 3b\n"
    "4:	cmpl $0, (%esp)\n"
    "	jne 5f\n"
    "	dec %ebp\n"
    "	jnz 0b\n"
    "5:	out %al, $0x10\n"
    "pages_end:\n"
    ".code64\n");

uint64_t instructions_of_pass(const struct work *w)
{
	return 12 + 7 * (w->reads + w->writes);
}

uint64_t instructions_of(const struct work *w)
{
	return w->passes * instructions_of_pass(w);
}

static bool is_in(unsigned int frame, unsigned int first, unsigned int nr)
{
	return frame >= first && frame < first + nr;
}

bool is_written(const struct work *w, unsigned int frame)
{
	return is_in(frame, w->first_written, w->writes);
}

bool is_accessed(const struct work *w, unsigned int frame)
{
	return is_in(frame, w->first_read, w->reads) || is_written(w, frame) || frame == CODE / PAGE;
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	run_until(&worker->vm, KVM_EXIT_IO);
	return NULL;
}

void begin_work(struct worker *worker, struct work w)
{
	load_code(&worker->vm, pages_start, pages_end, (struct kvm_regs){
		.rbx = w.first_read << 8, .rcx = w.reads, .rdx = w.first_written << 8, .rsi = w.writes,
		.rbp = w.passes, .rsp = STOP(worker->id),
	});
	*word_at(&worker->vm, STOP(worker->id)) = 0;
	if (pthread_create(&worker->thread, NULL, work, worker))
		errx(1, "no thread");
}

void end_work(struct worker *worker)
{
	*(volatile uint32_t *)word_at(&worker->vm, STOP(worker->id)) = 1;
	pthread_join(worker->thread, NULL);
}

void make_workers(struct worker worker[2])
{
	worker[0].vm = make_vm_with(0, GUEST_PAGES * PAGE);
	worker[0].id = 0;
	worker[1].vm = worker[0].vm;
	worker[1].id = 1;
	add_vcpu(&worker[1].vm, 1);
	if (mmap(worker[0].vm.memory + 16 * PAGE, (GUEST_PAGES - 16) * PAGE, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		err(1, "mmap");
}

void free_workers(struct worker worker[2])
{
	close(worker[1].vm.vcpu);
	free_vm(&worker[0].vm);
}
