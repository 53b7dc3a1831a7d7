/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In the place of a kernel's real-mode part: starts a multiboot image as its loader would
 * (Multiboot Specification, "Machine state").
 */
#define BASE	0x20000

	.code16
	.text
	.globl _start
_start:
	.org 0x200
	lgdtl gdt_ptr
	movl %cr0, %eax
	orb $1, %al
	movl %eax, %cr0
	ljmpl $8, $BASE + protected

	.code32
protected:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %fs
	movw %ax, %gs
	movw %ax, %ss
	movl $0x2badb002, %eax
	movl $BASE + info, %ebx
	jmp *BASE + entry

	.balign 8
gdt:
	.quad 0
	.quad 0x00cf9b000000ffff
	.quad 0x00cf93000000ffff
gdt_ptr:
	.word . - gdt - 1
	.long BASE + gdt

	/* emulator-bochs.sh writes these */
	.org 0x400
entry:
	.long 0
info:
	.long 1 << 2		/* there is a command line */
	.long 0, 0, 0
	.long BASE + 0x10000	/* where it is for Linux, too */
	.skip 24 * 4
