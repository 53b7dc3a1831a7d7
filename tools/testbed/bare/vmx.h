/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests of VMX: Intel SDM vol. 3C, "Virtual-Machine Control Structures" and appendix B, "Field
 * Encoding in VMCS".
 */
#ifndef BARE_VMX_H
#define BARE_VMX_H

#include "pmu.h"

#define PIN_NMI_EXIT		BIT(3)
#define CPU_HLT_EXIT		BIT(7)
#define CPU_RDPMC_EXIT		BIT(11)
#define EXIT_CTL_HOST64		BIT(9)
#define EXIT_CTL_LOAD_GLOBAL	BIT(12)
#define EXIT_CTL_SAVE_GLOBAL	BIT(30)
#define ENTRY_CTL_GUEST64	BIT(9)
#define ENTRY_CTL_LOAD_GLOBAL	BIT(13)

enum {
	GUEST_GLOBAL_CTRL = 0x2808, HOST_GLOBAL_CTRL = 0x2c04,
	PIN_CTLS = 0x4000, CPU_CTLS = 0x4002, EXIT_CTLS = 0x400c, ENTRY_CTLS = 0x4012,
	EXIT_REASON = 0x4402, EXIT_INTR_INFO = 0x4404, EXIT_INSN_LEN = 0x440c,
	GUEST_RSP = 0x681c, GUEST_RIP = 0x681e,
};

#define REASON_EXCEPTION_NMI	0
#define REASON_CPUID		10
#define REASON_HLT		12
#define REASON_RDPMC		15
#define REASON_VMCALL		18
#define REASON_RDMSR		31
#define REASON_WRMSR		32
#define REASON_BAD_GUEST_STATE	0x80000021

struct vregs {
	u64 rax, rbx, rcx, rdx, rsi, rdi;
	u64 rbp, r8, r9, r10, r11, r12, r13, r14, r15;
};

/* Returns the exit's reason, or ~0 when VM entry failed by VMfail. */
u64 vmx_enter(struct vregs *r);

static inline void vmwrite(u64 field, u64 v)
{
	asm volatile("vmwrite %1, %0" : : "r"(field), "r"(v) : "cc", "memory");
}

static inline u64 vmread(u64 field)
{
	u64 v;

	asm volatile("vmread %1, %0" : "=r"(v) : "r"(field) : "cc", "memory");
	return v;
}

#endif
