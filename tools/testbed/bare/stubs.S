/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Exception entries, and the code around what is measured. What counters may see is numbered:
 * the constants in pmu.h are these numbers.
 */
#include "asm.h"

	.text

/*
 * The ordinary entries, 16 bytes each, for handlers in C.
 */
	.balign 16
	.globl exc_stubs
exc_stubs:
vec = 0
	.rept 256
	.balign 16
	.if vec == 8 || (vec >= 10 && vec <= 14) || vec == 17 || vec == 21 || vec == 29 || vec == 30
	.else
	push $0
	.endif
	push $vec
	jmp exc_common
vec = vec + 1
	.endr

	.balign 16
exc_common:
	push %rax
	push %rbx
	push %rcx
	push %rdx
	push %rsi
	push %rdi
	push %rbp
	push %r8
	push %r9
	push %r10
	push %r11
	push %r12
	push %r13
	push %r14
	push %r15
	cld
	mov %rsp, %rdi
	mov %rsp, %rbp
	and $-16, %rsp
	call exception
	mov %rbp, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %r11
	pop %r10
	pop %r9
	pop %r8
	pop %rbp
	pop %rdi
	pop %rsi
	pop %rdx
	pop %rcx
	pop %rbx
	pop %rax
	add $16, %rsp
	iretq

/*
 * Performance monitoring interrupts: log where they were taken. Straight-line code, so that
 * a counter that counts the kernel sees PMI_INSNS instructions, of which only the last is a
 * branch (and a taken one).
 */
.macro PMI_LOG
	push %rax					/* 1 */
	push %rcx					/* 2 */
	mov %gs:PCPU_PMI_COUNT, %rcx			/* 3 */
	and $PCPU_PMI_SLOTS - 1, %ecx			/* 4 */
	mov 16(%rsp), %rax				/* 5: RIP */
	mov %rax, %gs:PCPU_PMI_LOG(, %rcx, 8)		/* 6 */
	mov 24(%rsp), %rax				/* 7: CS */
	mov %rax, %gs:PCPU_PMI_CS(, %rcx, 8)		/* 8 */
	incq %gs:PCPU_PMI_COUNT				/* 9 */
.endm

	.globl nmi_entry
nmi_entry:
	PMI_LOG
	pop %rcx					/* 10 */
	pop %rax					/* 11 */
	iretq						/* 12 = NMI_INSNS */

	.globl pmi_entry
pmi_entry:
	PMI_LOG
	mov $0xfee000b0, %ecx				/* 10 */
	movl $0, (%rcx)					/* 11: EOI */
	pop %rcx					/* 12 */
	pop %rax					/* 13 */
	iretq						/* 14 = PMI_INSNS */

	.globl pmi_entry_x2
pmi_entry_x2:
	PMI_LOG
	push %rdx					/* 10 */
	mov $0x80b, %ecx				/* 11: EOI */
	xor %eax, %eax					/* 12 */
	xor %edx, %edx					/* 13 */
	wrmsr						/* 14 */
	pop %rdx					/* 15 */
	pop %rcx					/* 16 */
	pop %rax					/* 17 */
	iretq						/* 18 = PMI_INSNS_X2 */

/*
 * As nmi_entry, and while rearm_left isn't 0 the counter starts again from rearm_val. It
 * runs all the time, so the WRMSR and what follows it count: REARM_TAIL instructions. Before that
 * the LVT entry becomes rearm_lvt, if that isn't 0.
 */
.macro REARM
	push %rdx
	subq $1, %gs:PCPU_REARM_LEFT
	js 1f
	mov rearm_lvt, %eax
	test %eax, %eax
	jz 2f
	mov $0xfee00340, %ecx				/* Intel's is masked by now */
	mov %eax, (%rcx)
2:
	mov %gs:PCPU_REARM_MSR, %ecx
	mov %gs:PCPU_REARM_VAL, %rax
	mov %rax, %rdx
	shr $32, %rdx
	wrmsr						/* 1 */
1:
	pop %rdx					/* 2 */
	pop %rcx					/* 3 */
	pop %rax					/* 4 */
	iretq						/* 5 = REARM_TAIL */
.endm

	.globl nmi_rearm_entry
nmi_rearm_entry:
	PMI_LOG
	REARM

	.globl pmi_rearm_entry
pmi_rearm_entry:
	PMI_LOG
	mov $0xfee000b0, %ecx
	movl $0, (%rcx)
	REARM

	.globl pmi_rearm_entry_x2
pmi_rearm_entry_x2:
	PMI_LOG
	push %rdx
	mov $0x80b, %ecx
	xor %eax, %eax
	xor %edx, %edx
	wrmsr
	pop %rdx
	REARM

/*
 * As nmi_entry, but where the interrupted RIP is skip_rip, a HLT, go on behind it.
 */
	.globl nmi_skip_entry
nmi_skip_entry:
	PMI_LOG
	mov 16(%rsp), %rax
	cmp %rax, %gs:PCPU_SKIP_RIP
	jne 1f
	incq 16(%rsp)
1:	pop %rcx
	pop %rax
	iretq

/*
 * VEC_IRETQ: one instruction, one branch, one taken.
 */
	.globl iretq_entry
iretq_entry:
	iretq

/*
 * SYSCALL goes here, on whichever stack. From user mode: return at once, one instruction.
 */
	.globl syscall_entry
syscall_entry:
	sysretq

/* SYSCALL at CPL 0: SYSRET would go to CPL 3. Two instructions, the second a branch. */
	.globl syscall_kernel_entry
syscall_kernel_entry:
	mov %r11, %r11					/* 1: as good as any */
	jmp *%rcx					/* 2 */

/*
 * void measure_run(fn, arg0, arg1, u32 msr, u64 val, u64 flags)
 *
 * Write val to msr, which makes counters count, call fn(arg0, arg1), write 0.
 * Counted: the first WRMSR, CALL, fn, 3 instructions more. With RET, fn's last, that is
 * RUN_INSNS = 6 and RUN_BRANCHES = 2, both taken. The WRMSR that stops doesn't count.
 */
	.globl measure_run, measure_begin, measure_end
	.balign 16
measure_run:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rdi, %rbx
	mov %rsi, %rdi
	mov %rdx, %rsi
	mov %ecx, %r12d
	mov %r8d, %eax
	mov %r8, %rdx
	shr $32, %rdx
	push $2
	push %r9
	popf
measure_begin:
	wrmsr						/* 1 */
	call *%rbx					/* 2, branch; 3 is RET, branch */
	mov %r12d, %ecx					/* 4 */
	xor %eax, %eax					/* 5 */
	xor %edx, %edx					/* 6 = RUN_INSNS */
	wrmsr
measure_end:
	popf
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret

/*
 * void measure_user(fn, arg0, arg1, u32 msr, u64 val, u64 flags, u64 user_rsp)
 *
 * The same at CPL 3, where RFLAGS are flags.
 * Counted at CPL 0: WRMSR, IRETQ, 3 instructions more: USER_OS_INSNS = 5 with one branch.
 * Counted at CPL 3: fn, its RET and the INT: USER_USR_INSNS = 2, both branches.
 * An instruction that changes the CPL counts at the one it began in.
 */
	.globl measure_user, user_exit_entry, user_exit_int
	.balign 16
measure_user:
	mov 8(%rsp), %rax
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, %gs:PCPU_SAVE_RSP
	mov %ecx, %ecx
	mov %rcx, %gs:PCPU_SAVE_MSR
	/* CALL's part: the address to return to */
	lea -8(%rax), %rax
	movq $user_exit_int, (%rax)
	push $USER_DS
	push %rax
	push %r9
	push $USER_CS
	push %rdi
	mov %rsi, %rdi
	mov %rdx, %rsi
	mov %r8d, %eax
	mov %r8, %rdx
	shr $32, %rdx
	wrmsr						/* 1 */
	iretq						/* 2, branch */
user_exit_int:
	int $VEC_USER_EXIT				/* user 2, branch; user 1 is RET */
user_exit_entry:
	mov %gs:PCPU_SAVE_MSR, %rcx			/* 3 */
	xor %eax, %eax					/* 4 */
	xor %edx, %edx					/* 5 = USER_OS_INSNS */
	wrmsr
	mov %gs:PCPU_SAVE_RSP, %rsp
	cld
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret

	.section .note.GNU-stack, "", @progbits
