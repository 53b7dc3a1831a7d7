/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What C and assembly share: selectors, vectors, and where things are in struct pcpu.
 */
#ifndef BARE_ASM_H
#define BARE_ASM_H

#define KERNEL_CS	0x08
#define KERNEL_DS	0x10
#define USER_CS32	0x1b
#define USER_DS		0x23
#define USER_CS		0x2b
#define TSS_SEL		0x30

#define MAX_CPUS	16

#define VEC_TIMER	0x40
#define VEC_IPI		0x41
#define VEC_STEADY	0x42
#define VEC_USER_EXIT	0x80	/* INT of a user-mode sequence that is done */
#define VEC_IRETQ	0x81	/* nothing but IRETQ, from any CPL */
#define VEC_PMI		0xe0
#define VEC_SPURIOUS	0xff

/* struct pcpu, at GS:0 */
#define PCPU_SELF	0
#define PCPU_SAVE_RSP	8
#define PCPU_SAVE_MSR	16
#define PCPU_FAULT_VEC	24
#define PCPU_PMI_COUNT	32
#define PCPU_REARM_MSR	40
#define PCPU_REARM_VAL	48
#define PCPU_REARM_LEFT	56
#define PCPU_SKIP_RIP	64
#define PCPU_PMI_LOG	128
#define PCPU_PMI_SLOTS	2048
#define PCPU_PMI_CS	(PCPU_PMI_LOG + 8 * PCPU_PMI_SLOTS)

/*
 * Where 2 MiB of test pages are mapped, one by one, at an address that has no memory of its
 * own in the identity map.
 */
#define WIN_VA		0x40000000
#define WIN_PAGES	32

#define TRAMPOLINE	0x8000

#define MSR_EFER	0xc0000080
#define MSR_STAR	0xc0000081
#define MSR_LSTAR	0xc0000082
#define MSR_FMASK	0xc0000084
#define MSR_GS_BASE	0xc0000101
#define MSR_KERNEL_GS_BASE 0xc0000102
#define MSR_TSC_AUX	0xc0000103

#define EFER_SCE	0x1
#define EFER_LME	0x100
#define EFER_SVME	0x1000

#define X86_CF		0x1
#define X86_PF		0x4
#define X86_ZF		0x40
#define X86_SF		0x80
#define X86_TF		0x100
#define X86_IF		0x200
#define X86_OF		0x800

#endif
