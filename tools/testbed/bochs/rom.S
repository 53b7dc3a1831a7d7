/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The VGA BIOS of Intel hosts. There is nothing to show: when SeaBIOS has set up PCI, the tables and
 * the other CPUs, it calls this, and this goes on with what Bochs has put in memory already. So no
 * disk is looked for, waited for or read.
 */
#define SETUP	0x2000		/* a segment; emulator-bochs.sh puts its first 64 KiB there */

	.code16
	.text
	.globl _start
_start:
	.byte 0x55, 0xaa, 1	/* one block of 512 bytes */
	jmp boot

	/* PCI Firmware Specification, "PCI Expansion ROMs" */
	.org 0x18
	.word pci_data
	.balign 4
pci_data:
	.ascii "PCIR"
	.word 0x1234, 0x1111	/* Bochs's VGA */
	.word 0
	.word pci_data_end - pci_data
	.byte 0
	.byte 0, 0, 3		/* a VGA-compatible display */
	.word 1			/* one block */
	.word 0
	.byte 0, 0x80		/* for x86, the last image */
	.word 0
pci_data_end:

	/* Linux, Documentation/arch/x86/boot.rst, "Running the Kernel" */
boot:
	cli
	cld
	movw $SETUP, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %fs
	movw %ax, %gs
	movw %ax, %ss
	movw $0xe000, %sp
	ljmp $SETUP + 0x20, $0
