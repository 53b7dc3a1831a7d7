/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sequences, each with what it counts: instructions, branches, taken branches,
 * conditional branches. The final RET isn't part of the numbers; the caller knows it.
 *
 * %rdi and %rsi are two areas of 16 KiB, page-aligned. A sequence may use any register that
 * the C calling convention leaves to it.
 */
#include "asm.h"

#define KERNEL		1
#define NOTRACE		2
#define IF		4
#define SLOW		8

.macro SEQ name, insns, branches, taken, cond, flags=0, align=16
	.section .rodata
seqname_\name:
	.asciz "\name"
	.section .seqs, "a"
	.quad seqname_\name, seq_\name, \insns, \branches, \taken, \cond, \flags
	.text
	.balign \align
	.globl seq_\name
seq_\name:
.endm

/* Nothing at all: what the caller counts anyway. */
SEQ empty, 0, 0, 0, 0
	ret

SEQ one, 1, 0, 0, 0
	nop
	ret

/* Of many lengths, 1 to 15 bytes; none is a branch. */
SEQ straight, 20, 0, 0, 0
	nop						/* 1 */
	mov %rax, %rax					/* 2 */
	xor %eax, %eax					/* 3 */
	lea 1(%rax, %rax, 2), %rcx			/* 4 */
	movabs $0x1122334455667788, %rdx		/* 5 */
	add $0x12345678, %rdx				/* 6 */
	mov %rdx, (%rdi)				/* 7 */
	add %rdx, 8(%rdi)				/* 8 */
	imul $3, (%rdi), %r8				/* 9 */
	xchg %r8, %r9					/* 10 */
	bswap %r9					/* 11 */
	shl $5, %r9					/* 12 */
	movq $0x1234567, %fs:0x10(%rdi)			/* 13 */
	nopw %cs:0x200(%rax, %rax, 1)			/* 14 */
	/* nopw with 15 bytes */
	.byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0	/* 15 */
	push %rax					/* 16 */
	pop %rax					/* 17 */
	setz %al					/* 18 */
	movzbl %al, %eax				/* 19 */
	cmp %rax, %rcx					/* 20 */
	ret

/* More than a translation block of the emulator holds (512), without a branch in it. */
SEQ straight_600, 600, 0, 0, 0
	.rept 300
	nop
	add $1, %rax
	.endr
	ret

SEQ straight_12000, 12000, 0, 0, 0
	.rept 4000
	nop
	lea 1(%rax), %rax
	inc %ecx
	.endr
	ret

/* MOV, then 10 times DEC and JNZ; the last JNZ isn't taken. */
SEQ loop_10, 21, 10, 9, 10
	mov $10, %ecx
1:	dec %ecx
	jnz 1b
	ret

/* MOV, then 500 times 4 instructions. */
SEQ loop_500, 2001, 500, 499, 500
	mov $500, %ecx
1:	add %rcx, %rax
	lea 3(%rax), %rdx
	dec %ecx
	jnz 1b
	ret

/* 1 + 4000 * 3: where 10,000 instructions fit in. */
SEQ loop_4000, 12001, 4000, 3999, 4000
	mov $4000, %ecx
1:	nop
	dec %ecx
	jnz 1b
	ret

/* MOV, then 10,100 times DEC and JNZ: where 10,000 branches of each kind fit in. */
SEQ loop_10100, 20201, 10100, 10099, 10100, NOTRACE
	mov $10100, %ecx
1:	dec %ecx
	jnz 1b
	ret

SEQ loop_million, 2000001, 1000000, 999999, 1000000, NOTRACE
	mov $1000000, %ecx
1:	dec %ecx
	jnz 1b
	ret

/*
 * Outer loop 5 times: MOV, inner loop, DEC, JNZ; inner loop 7 times: 3 instructions.
 * Instructions 1 + 5 * (1 + 21 + 2) = 121; conditional 5 * 7 + 5 = 40;
 * not taken: 5 inner ends and the outer one.
 */
SEQ nested, 121, 40, 34, 40
	mov $5, %edx
1:	mov $7, %ecx
2:	nop
	dec %ecx
	jnz 2b
	dec %edx
	jnz 1b
	ret

/* Every condition once, 2 bytes each, with ZF, PF set and CF, SF, OF clear: half of 16. */
SEQ jcc_short, 18, 16, 8, 16
	xor %eax, %eax					/* 1 */
	cmp %eax, %eax					/* 2 */
	jo 2f
	jno 1f
	ud2
1:	jb 2f
	jae 1f
	ud2
1:	je 1f
	ud2
1:	jne 2f
	jbe 1f
	ud2
1:	ja 2f
	js 2f
	jns 1f
	ud2
1:	jp 1f
	ud2
1:	jnp 2f
	jl 2f
	jge 1f
	ud2
1:	jle 1f
	ud2
1:	jg 2f
	ret
2:	ud2

/* The same with the opposite flags and 6 bytes each: OF, CF, SF set, ZF, PF clear. */
SEQ jcc_near, 19, 16, 8, 16
	mov $0x7f, %al					/* 1 */
	/* 0x7f - 0xff = 0x80: borrow, sign, overflow, odd parity */
	mov $0xff, %cl					/* 2 */
	cmp %cl, %al					/* 3 */
	.byte 0x0f, 0x80				/* jo */
	.long 1f - . - 4
	ud2
1:	.byte 0x0f, 0x81				/* jno */
	.long 2f - . - 4
	.byte 0x0f, 0x82				/* jb */
	.long 1f - . - 4
	ud2
1:	.byte 0x0f, 0x83				/* jae */
	.long 2f - . - 4
	.byte 0x0f, 0x84				/* je */
	.long 2f - . - 4
	.byte 0x0f, 0x85				/* jne */
	.long 1f - . - 4
	ud2
1:	.byte 0x0f, 0x86				/* jbe */
	.long 1f - . - 4
	ud2
1:	.byte 0x0f, 0x87				/* ja */
	.long 2f - . - 4
	.byte 0x0f, 0x88				/* js */
	.long 1f - . - 4
	ud2
1:	.byte 0x0f, 0x89				/* jns */
	.long 2f - . - 4
	.byte 0x0f, 0x8a				/* jp */
	.long 2f - . - 4
	.byte 0x0f, 0x8b				/* jnp */
	.long 1f - . - 4
	ud2
	/* SF == OF: L no, GE yes, LE no, G yes */
1:	.byte 0x0f, 0x8c				/* jl */
	.long 2f - . - 4
	.byte 0x0f, 0x8d				/* jge */
	.long 1f - . - 4
	ud2
1:	.byte 0x0f, 0x8e				/* jle */
	.long 2f - . - 4
	.byte 0x0f, 0x8f				/* jg */
	.long 1f - . - 4
	ud2
1:	ret
2:	ud2

/* A taken branch to the very next instruction is taken nevertheless. */
SEQ jcc_next, 6, 4, 3, 3
	xor %eax, %eax					/* 1 */
	jz 1f						/* 2, taken */
1:	jmp 1f						/* 3, taken */
1:	jnz 1f						/* 4, not taken */
1:	jz 1f						/* 5, taken */
1:	nop						/* 6 */
	ret

SEQ jmp, 9, 6, 6, 0
	jmp 1f						/* 1, branch 1: short */
	ud2
1:	.byte 0xe9					/* 2, branch 2: near */
	.long 1f - . - 4
	ud2
1:	lea 1f(%rip), %rax				/* 3 */
	jmp *%rax					/* 4, branch 3: indirect */
	ud2
1:	lea 1f(%rip), %rax				/* 5 */
	mov %rax, (%rdi)				/* 6 */
	jmp *(%rdi)					/* 7, branch 4: indirect, memory */
	ud2
	/* backwards, too */
1:	jmp 2f						/* 8, branch 5 */
3:	ret
2:	jmp 3b						/* 9, branch 6 */

SEQ call_ret, 15, 10, 10, 0
	call 1f						/* 1, branch 1; 2, branch 2: RET */
	lea 1f(%rip), %rax				/* 3 */
	call *%rax					/* 4, branch 3; 5, branch 4 */
	mov %rax, (%rdi)				/* 6 */
	call *(%rdi)					/* 7, branch 5; 8, branch 6 */
	push %rax					/* 9 */
	call 2f						/* 10, branch 7; 11, branch 8 */
	call 3f						/* 12, branch 9 */
3:	pop %rax					/* 13: the return address of 12 */
	lea 4f - 3b(%rax), %rax				/* 14 */
	jmp *%rax					/* 15, branch 10 */
1:	ret
2:	ret $8
	ud2
4:	ret

/* RET to an address that was never called from. */
SEQ push_ret, 5, 2, 2, 0
	lea 1f(%rip), %rax				/* 1 */
	push %rax					/* 2 */
	ret						/* 3, branch 1 */
	ud2
1:	nop						/* 4 */
	jmp 1f						/* 5, branch 2 */
	ud2
1:	ret

/*
 * Recursion 10 deep: MOV and CALL; 9 times DEC, JNZ (taken), CALL and RET; once DEC, JNZ (not
 * taken), RET; the first CALL's RET is the latter or one of the former:
 * instructions 2 + 9 * 4 + 3 = 41, branches 1 + 9 * 3 + 2 = 30, not taken 1, conditional 10.
 */
SEQ recurse, 41, 30, 29, 10
	mov $10, %ecx
	call 1f
	ret
1:	dec %ecx
	jnz 2f
	ret
2:	call 1b
	ret

/* LOOP 5 times: 4 taken. Then LOOPE, LOOPNE by their flags. */
SEQ loop_insn, 15, 9, 5, 9
	mov $5, %ecx					/* 1 */
1:	loop 1b						/* 2-6, branches 1-5, 4 taken */
	mov $5, %ecx					/* 7 */
	test %esp, %esp					/* 8: ZF clear */
	loope 2f					/* 9, branch 6, not taken */
	loopne 1f					/* 10, branch 7, taken */
	ud2
1:	xor %eax, %eax					/* 11: ZF set */
	loopne 2f					/* 12, branch 8, not taken */
	mov $1, %ecx					/* 13 */
	loop 2f						/* 14, branch 9, not taken */
	nop						/* 15 */
	ret
2:	ud2

SEQ jrcxz, 8, 4, 2, 4
	xor %ecx, %ecx					/* 1 */
	jrcxz 1f					/* 2, taken */
	ud2
1:	inc %ecx					/* 3 */
	jrcxz 2f					/* 4, not taken */
	movabs $0x100000000, %rcx			/* 5 */
	jrcxz 2f					/* 6, not taken */
	jecxz 1f					/* 7, taken */
	ud2
1:	nop						/* 8 */
	ret
2:	ud2

/*
 * String instructions with REP count once, when they complete.
 */
SEQ rep_movsb, 3, 0, 0, 0
	mov $100, %ecx					/* 1 */
	rep movsb					/* 2 */
	nop						/* 3 */
	ret

SEQ rep_stosq, 4, 0, 0, 0
	mov $64, %ecx					/* 1 */
	xor %eax, %eax					/* 2 */
	rep stosq					/* 3 */
	nop						/* 4 */
	ret

SEQ rep_lodsb, 3, 0, 0, 0
	mov $33, %ecx					/* 1 */
	rep lodsb					/* 2 */
	nop						/* 3 */
	ret

/* Count 0 is an instruction as well, and count 1 is one. */
SEQ rep_0_1, 12, 0, 0, 0
	xor %ecx, %ecx					/* 1 */
	rep movsb					/* 2 */
	rep stosq					/* 3 */
	repe cmpsb					/* 4 */
	repne scasb					/* 5 */
	rep lodsl					/* 6 */
	mov $1, %ecx					/* 7 */
	rep movsb					/* 8 */
	mov $1, %ecx					/* 9 */
	rep stosq					/* 10 */
	mov $1, %ecx					/* 11 */
	repe cmpsb					/* 12 */
	ret

/* Equal to the end, equal for 8 bytes of 64, different at once, found at byte 5. */
SEQ rep_cmps, 20, 1, 0, 1
	xor %eax, %eax					/* 1 */
	mov $16, %ecx					/* 2 */
	mov %rdi, %r8					/* 3 */
	mov %rsi, %r9					/* 4 */
	rep stosq					/* 5: both areas 0 */
	mov %r9, %rdi					/* 6 */
	mov $16, %ecx					/* 7 */
	rep stosq					/* 8 */
	mov %r8, %rsi					/* 9 */
	mov %r9, %rdi					/* 10 */
	mov $128, %ecx					/* 11 */
	repe cmpsb					/* 12 */
	jne 1f						/* 13, branch, not taken */
	movb $1, 8(%r8)					/* 14 */
	mov %r8, %rsi					/* 15 */
	mov %r9, %rdi					/* 16 */
	mov $64, %ecx					/* 17 */
	repe cmpsb					/* 18: ends after the ninth */
	repe cmpsw					/* 19: goes on, equal to the end */
	repne scasb					/* 20: count 0 */
	ret
1:	ud2

SEQ rep_scas, 9, 0, 0, 0
	mov %rdi, %r8					/* 1 */
	xor %eax, %eax					/* 2 */
	mov $32, %ecx					/* 3 */
	rep stosb					/* 4 */
	movb $7, 5(%r8)					/* 5 */
	mov %r8, %rdi					/* 6 */
	mov $7, %al					/* 7 */
	mov $32, %ecx					/* 8 */
	repne scasb					/* 9 */
	ret

/* Across a page boundary, byte by byte and in words that straddle it. */
SEQ rep_pages, 10, 0, 0, 0
	add $4096 - 20, %rdi				/* 1 */
	add $4096 - 11, %rsi				/* 2 */
	mov $40, %ecx					/* 3 */
	rep movsb					/* 4 */
	add $4096 - 20 - 3 * 8 - 3, %rdi		/* 5: 3 bytes before the next one */
	mov $7, %ecx					/* 6 */
	xor %eax, %eax					/* 7 */
	rep stosq					/* 8 */
	mov $1000, %ecx					/* 9: pages, and the inner loop's limit */
	rep stosq					/* 10 */
	ret

/* Backwards, with 32-bit addresses. */
SEQ rep_std, 7, 0, 0, 0
	add $100, %rdi					/* 1 */
	add $100, %rsi					/* 2 */
	mov $50, %ecx					/* 3 */
	std						/* 4 */
	addr32 rep movsb				/* 5 */
	cld						/* 6 */
	nop						/* 7 */
	ret

/* Without REP each is one instruction. */
SEQ string, 6, 0, 0, 0
	movsb						/* 1 */
	stosq						/* 2 */
	lodsl						/* 3 */
	cmpsb						/* 4 */
	scasw						/* 5 */
	movsq						/* 6 */
	ret

/* A REP in a loop: 20 * 4 + 1. */
SEQ rep_loop, 81, 20, 19, 20
	mov $20, %edx
1:	mov $8, %ecx
	rep stosb
	dec %edx
	jnz 1b
	ret

/* Conditional, but not branches. */
SEQ cmov, 7, 0, 0, 0
	xor %eax, %eax					/* 1 */
	cmovz %rdi, %rax				/* 2: moves */
	cmovnz %rsi, %rax				/* 3: doesn't */
	cmovz (%rdi), %rcx				/* 4 */
	cmovnz (%rdi), %rcx				/* 5 */
	setz %al					/* 6 */
	setnz (%rdi)					/* 7 */
	ret

SEQ atomic, 15, 0, 0, 0
	xor %eax, %eax					/* 1 */
	mov %rax, (%rdi)				/* 2 */
	mov %rax, 8(%rdi)				/* 3 */
	mov $1, %ecx					/* 4 */
	lock cmpxchg %rcx, (%rdi)			/* 5: stores */
	lock cmpxchg %rcx, (%rdi)			/* 6: doesn't */
	cmpxchg %ecx, (%rdi)				/* 7 */
	lock incq (%rdi)				/* 8 */
	lock xadd %rcx, (%rdi)				/* 9 */
	lock btsl $9, (%rdi)				/* 10 */
	xchg %rcx, (%rdi)				/* 11 */
	lock cmpxchg8b (%rdi)				/* 12 */
	lock andq $7, (%rdi)				/* 13 */
	lock negl (%rdi)				/* 14 */
	mfence						/* 15 */
	ret

/* Arithmetic that the emulator does in helpers; x87 and SSE. */
SEQ helpers, 21, 0, 0, 0
	mov $1000, %eax					/* 1 */
	xor %edx, %edx					/* 2 */
	mov $7, %ecx					/* 3 */
	div %ecx					/* 4 */
	cqto						/* 5 */
	idiv %rcx					/* 6 */
	mul %rcx					/* 7 */
	rcl $3, %rax					/* 8 */
	shld $5, %rax, %rdx				/* 9 */
	bsf %rcx, %rdx					/* 10 */
	popcnt %rcx, %rdx				/* 11 */
	cld						/* 12 */
	lahf						/* 13 */
	fld1						/* 14 */
	fldpi						/* 15 */
	faddp						/* 16 */
	fstpl (%rdi)					/* 17 */
	movq (%rdi), %xmm0				/* 18 */
	sqrtsd %xmm0, %xmm0				/* 19 */
	addsd %xmm0, %xmm0				/* 20 */
	cvttsd2si %xmm0, %eax				/* 21 */
	ret

/* ENTER, LEAVE, PUSHF and so on. */
SEQ stack, 9, 0, 0, 0
	enter $32, $0					/* 1 */
	push $5						/* 2 */
	pushf						/* 3 */
	popf						/* 4 */
	pop %rax					/* 5 */
	push (%rdi)					/* 6 */
	pop (%rsi)					/* 7 */
	leave						/* 8 */
	nop						/* 9 */
	ret

/*
 * The first page ends in a MOVABS, the second in a taken Jcc, the third in one that isn't
 * taken, the fourth in a taken one again, the fifth between two instructions.
 */
SEQ page_cross, 24, 8, 7, 3, 0, 4096
	jmp 1f						/* 1, branch 1 */
	.org seq_page_cross + 4096 - 5
1:	nop						/* 2 */
	nop						/* 3 */
	movabs $0x1122334455667788, %rax		/* 4: 3 bytes here, 7 there */
	nop						/* 5 */
	xor %eax, %eax					/* 6 */
	jmp 1f						/* 7, branch 2 */
	.org seq_page_cross + 2 * 4096 - 4
1:	nop						/* 8 */
	nop						/* 9 */
	nop						/* 10 */
	jz 1f						/* 11, branch 3, taken: 1 byte here */
	ud2
1:	nop						/* 12 */
	/* and not taken, with 6 bytes */
	jmp 1f						/* 13, branch 4 */
	.org seq_page_cross + 3 * 4096 - 3
1:	.byte 0x0f, 0x85				/* 14, branch 5, not taken: 3 bytes here */
	.long 2f - . - 4
	jmp 1f						/* 15, branch 6 */
	.org seq_page_cross + 4 * 4096 - 2
1:	.byte 0x0f, 0x84				/* 16, branch 7, taken: 2 bytes here */
	.long 1f - . - 4
2:	ud2
1:	nop						/* 17 */
	nop						/* 18 */
	nop						/* 19 */
	jmp 1f						/* 20, branch 8 */
	/* straight on from page to page, on the boundary and across it */
	.org seq_page_cross + 5 * 4096 - 2
1:	nop						/* 21 */
	nop						/* 22 */
	nop						/* 23 */
	nop						/* 24 */
	ret

/*
 * Blocks of 1 to 12 NOPs and a JMP, each behind another JMP:
 * 12 * 2 JMP, 1 + 2 + ... + 12 = 78 NOP.
 */
SEQ chain, 102, 24, 24, 0
	.set n, 1
	.rept 12
	jmp 1f
	.skip 3
1:
	.rept n
	nop
	.endr
	jmp 1f
	.skip 7
1:
	.set n, n + 1
	.endr
	ret

/* Serializing and other special instructions that any CPL may execute. */
SEQ special_user, 13, 0, 0, 0
	mov %rbx, %r8					/* 1 */
	xor %eax, %eax					/* 2 */
	cpuid						/* 3 */
	mov $0x80000000, %eax				/* 4 */
	cpuid						/* 5 */
	rdtsc						/* 6 */
	lfence						/* 7 */
	sfence						/* 8 */
	pause						/* 9 */
	prefetcht0 (%rdi)				/* 10 */
	clflush (%rdi)					/* 11 */
	mov %ds, %eax					/* 12 */
	mov %r8, %rbx					/* 13 */
	ret

SEQ special_kernel, 32, 0, 0, 0, KERNEL
	mov %cr3, %rax					/* 1 */
	mov %rax, %cr3					/* 2 */
	mov %cr0, %rax					/* 3 */
	mov %rax, %cr0					/* 4 */
	mov %cr4, %rax					/* 5 */
	mov %rax, %cr4					/* 6 */
	invlpg (%rdi)					/* 7 */
	wbinvd						/* 8 */
	clts						/* 9 */
	mov %dr7, %rax					/* 10 */
	mov %rax, %dr7					/* 11 */
	mov $MSR_LSTAR, %ecx				/* 12 */
	rdmsr						/* 13 */
	wrmsr						/* 14 */
	in $0x71, %al					/* 15 */
	out %al, $0x80					/* 16 */
	sidt (%rdi)					/* 17 */
	lidt (%rdi)					/* 18 */
	sgdt (%rdi)					/* 19 */
	lgdt (%rdi)					/* 20 */
	str %eax					/* 21 */
	smsw %eax					/* 22 */
	lmsw %ax					/* 23 */
	swapgs						/* 24 */
	swapgs						/* 25 */
	mov %cr8, %rax					/* 26 */
	mov %rax, %cr8					/* 27 */
	xor %eax, %eax					/* 28 */
	mov %eax, %es					/* 29 */
	mov %eax, %fs					/* 30 */
	sldt %eax					/* 31 */
	nop						/* 32 */
	ret

/* The block ends at each of these, and what is behind them has to count, too. */
SEQ irq_flag, 9, 0, 0, 0, KERNEL + IF
	cli						/* 1 */
	nop						/* 2 */
	sti						/* 3 */
	nop						/* 4 */
	nop						/* 5 */
	cli						/* 6 */
	sti						/* 7 */
	cli						/* 8 */
	nop						/* 9 */
	ret

/* MOV SS keeps interrupts and traps away from the next instruction. */
SEQ mov_ss, 5, 0, 0, 0, KERNEL + NOTRACE
	mov %ss, %eax					/* 1 */
	nop						/* 2 */
	mov %eax, %ss					/* 3 */
	nop						/* 4 */
	nop						/* 5 */
	ret

/* Far transfers within CPL 0; IRETQ as well. */
SEQ far_kernel, 20, 5, 5, 0, KERNEL
	push $KERNEL_CS					/* 1 */
	lea 1f(%rip), %rax				/* 2 */
	push %rax					/* 3 */
	lretq						/* 4, branch 1 */
	ud2
1:	lea 1f(%rip), %rax				/* 5 */
	mov %rax, (%rdi)				/* 6 */
	movl $KERNEL_CS, 4(%rdi)			/* 7: a 16:32 pointer */
	ljmp *(%rdi)					/* 8, branch 2 */
	ud2
1:	lea 2f(%rip), %rax				/* 9 */
	mov %eax, (%rdi)				/* 10 */
	lcall *(%rdi)					/* 11, branch 3 */
	mov %rsp, %rax					/* 13 */
	push $KERNEL_DS					/* 14 */
	push %rax					/* 15 */
	pushf						/* 16 */
	push $KERNEL_CS					/* 17 */
	lea 1f(%rip), %rax				/* 18 */
	push %rax					/* 19 */
	iretq						/* 20, branch 5 */
	ud2
2:	lretl						/* 12, branch 4 */
	ud2
1:	ret

/* Software interrupts retire; the gate's IRETQ, at CPL 0 from either mode, is in t-count.c. */
SEQ int_kernel, 7, 4, 4, 0, KERNEL + NOTRACE + IF
	nop						/* 1 */
	int $VEC_IRETQ					/* 2, branch 1; 3, branch 2: IRETQ */
	nop						/* 4 */
	int $VEC_IRETQ					/* 5, branch 3; 6, branch 4 */
	nop						/* 7 */
	ret

/* Not the LSTAR of user mode: see syscall_kernel_entry, MOV and JMP. */
SEQ syscall_kernel, 4, 2, 2, 0, KERNEL + NOTRACE + IF
	syscall						/* 1, branch 1; 2; 3, branch 2 */
	nop						/* 4 */
	ret

/*
 * Self-modifying code. The first in the block that it is part of: 30 turns of
 *	XOR of a bit of the immediate further down, 2 NOPs, that ADD, DEC, JNZ
 */
SEQ smc_block, 182, 30, 29, 30, SLOW
	mov $30, %ecx					/* 1 */
	xor %eax, %eax					/* 2 */
1:	xorl $1, smc_imm(%rip)
	nop
	nop
	.byte 0x05					/* add $imm, %eax */
smc_imm:
	.long 1
	dec %ecx
	jnz 1b
	ret

/* The next instruction turns from INC to DEC, both 2 bytes, and back: 20 turns of 4. */
SEQ smc_next, 81, 20, 19, 20, SLOW
	mov $20, %ecx
1:	xorb $8, smc_op + 1(%rip)
smc_op:
	.byte 0xff, 0xc0				/* inc %eax */
	dec %ecx
	jnz 1b
	ret

/* In another page: 20 turns of CALL, INC or DEC, RET, XOR of that INC, DEC, JNZ. */
SEQ smc_page, 121, 60, 59, 20, SLOW, 4096
	mov $20, %ecx
1:	call smc_other
	xorb $8, smc_other + 1(%rip)
	dec %ecx
	jnz 1b
	ret
	.org seq_smc_page + 4096
smc_other:
	.byte 0xff, 0xc0				/* inc %eax */
	ret

/*
 * A JNE turned into a JE and back, with ZF set. 20 turns of 5, and the NOP 10 times; the JE is
 * taken 10 times, the JNZ 19.
 */
SEQ smc_branch, 111, 40, 29, 40, SLOW
	mov $20, %ecx					/* 1 */
1:	xorb $1, smc_jcc(%rip)
	cmp %eax, %eax
smc_jcc:
	.byte 0x75, 0x01				/* jne, made a je before its first turn */
	nop
	dec %ecx
	jnz 1b
	ret

/* Written by REP: 16 bytes of a NOP slide, 10 turns of 4 + 16 + 3. */
SEQ smc_rep, 231, 10, 9, 10, SLOW
	mov $10, %edx
1:	lea smc_slide(%rip), %rdi
	mov $16, %ecx
	mov $0x90, %al
	rep stosb
smc_slide:
	.rept 16
	nop
	.endr
	inc %r8d
	dec %edx
	jnz 1b
	ret

	.section .note.GNU-stack, "", @progbits
