/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From the multiboot loader (32-bit, paging off) or from a startup IPI (16-bit) to C in
 * 64-bit mode. Virtual addresses are physical ones, in 2 MiB pages that user mode may
 * access: the suite has nothing to protect from itself.
 */
#include "asm.h"

#define CR0_START	0x80000033	/* PG, NE, ET, MP, PE: x87 and SSE usable */
#define CR4_START	0x00000620	/* OSXMMEXCPT, OSFXSR, PAE */

	.section .multiboot, "a"
	.balign 4
	.long 0x1badb002
	.long 0
	.long -0x1badb002

	.text
	.code32
	.globl start
start:
	cli
	cld
	movl %ebx, mbi_addr

	/* pml4[0] = pdpt; pdpt[0..3] = pd[0..3]; pd[i] = i * 2 MiB */
	movl $pdpt + 7, pml4
	movl $pd + 7, pdpt
	movl $pd + 0x1000 + 7, pdpt + 8
	movl $pd + 0x2000 + 7, pdpt + 16
	movl $pd + 0x3000 + 7, pdpt + 24
	movl $pd, %edi
	movl $0x87, %eax
1:	movl %eax, (%edi)
	addl $8, %edi
	addl $0x200000, %eax
	jnc 1b

	/* the window of 4 KiB test pages: nothing mapped yet */
	movl $win_pt + 7, pd + WIN_VA / 0x200000 * 8

	xorl %ebp, %ebp
	jmp long_mode

	.globl ap_start32
ap_start32:
	movw $KERNEL_DS, %ax
	movw %ax, %ds
	movw %ax, %ss
	movl $1, %ebp
	lock xaddl %ebp, ap_count
	incl %ebp

	/* %ebp is the number of this CPU */
long_mode:
	movl $CR4_START, %eax
	movl %eax, %cr4
	movl $pml4, %eax
	movl %eax, %cr3
	movl $MSR_EFER, %ecx
	rdmsr
	orl $EFER_LME | EFER_SCE, %eax
	wrmsr
	movl $CR0_START, %eax
	movl %eax, %cr0
	lgdt gdt_boot_ptr
	ljmp $KERNEL_CS, $start64

	.code64
start64:
	/* for compatibility mode, which looks at them */
	movl $USER_DS, %eax
	movl %eax, %ds
	movl %eax, %es
	xorl %eax, %eax
	movl %eax, %fs
	movl %eax, %gs
	movl $KERNEL_DS, %eax
	movl %eax, %ss
	fninit

	/* stack number %ebp, of 16 KiB */
	movl %ebp, %edi
	leal 1(%ebp), %eax
	shll $14, %eax
	leaq stacks(%rax), %rsp
	xorl %ebp, %ebp
	testl %edi, %edi
	jnz 1f
	call main
1:	call ap_main
2:	cli
	hlt
	jmp 2b

	/* Copied to TRAMPOLINE, where a startup IPI begins. */
	.code16
	.globl tramp_start, tramp_end
tramp_start:
	cli
	xorw %ax, %ax
	movw %ax, %ds
	lgdtl TRAMPOLINE + (tramp_gdt_ptr - tramp_start)
	movl %cr0, %eax
	orb $1, %al
	movl %eax, %cr0
	ljmpl $0x38, $ap_start32
	.balign 8
tramp_gdt_ptr:
	.word gdt_boot_end - gdt_boot - 1
	.long gdt_boot
tramp_end:

	.data
	.balign 16
	.globl gdt_boot, gdt_boot_end
gdt_boot:
	.quad 0
	.quad 0x00af9b000000ffff	/* KERNEL_CS */
	.quad 0x00cf93000000ffff	/* KERNEL_DS */
	.quad 0x00cffb000000ffff	/* USER_CS32 */
	.quad 0x00cff3000000ffff	/* USER_DS */
	.quad 0x00affb000000ffff	/* USER_CS */
	.quad 0				/* TSS_SEL */
	.quad 0x00cf9b000000ffff	/* 32-bit code for start-up; later the TSS's second half */
gdt_boot_end:
gdt_boot_ptr:
	.word gdt_boot_end - gdt_boot - 1
	.quad gdt_boot

	.globl mbi_addr, ap_count
	.balign 4
mbi_addr:
	.long 0
ap_count:
	.long 0

	.bss
	.globl pml4, win_pt, win_phys
	.balign 4096
pml4:	.skip 4096
pdpt:	.skip 4096
pd:	.skip 4 * 4096
win_pt:	.skip 4096
win_phys: .skip WIN_PAGES * 4096
stacks:	.skip MAX_CPUS << 14

	.section .note.GNU-stack, "", @progbits
