/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests: the VMCB (AMD APM vol. 2, "Layout of VMCB") and what runs one.
 */
#ifndef BARE_SVM_H
#define BARE_SVM_H

#include "pmu.h"

struct vmcb_seg {
	u16 sel, attrib;
	u32 limit;
	u64 base;
};

struct vmcb {
	/* Control area */
	u16 cr_read, cr_write, dr_read, dr_write;
	u32 exceptions;
	u32 intercept1, intercept2;
	u8 pad1[0x40 - 0x14];
	u64 iopm, msrpm, tsc_offset;
	u32 asid;
	u8 tlb_ctl, pad2[3];
	u32 int_ctl, int_vector;
	u64 int_state, exit_code, exit_info1, exit_info2;
	u32 exit_int_info, exit_int_err;
	u64 nested_ctl;
	u8 pad3[0xa8 - 0x98];
	u32 event_inj, event_inj_err;
	u64 nested_cr3, lbr_ctl;
	u32 clean, pad4;
	u64 next_rip;
	u8 pad5[0x400 - 0xd0];
	/* State save area */
	struct vmcb_seg es, cs, ss, ds, fs, gs, gdtr, ldtr, idtr, tr;
	u8 pad6[0x4cb - 0x4a0];
	u8 cpl;
	u32 pad7;
	u64 efer;
	u8 pad8[0x548 - 0x4d8];
	u64 cr4, cr3, cr0, dr7, dr6, rflags, rip;
	u8 pad9[0x5d8 - 0x580];
	u64 rsp;
	u8 pad10[0x5f8 - 0x5e0];
	u64 rax;
	u8 pad11[0x668 - 0x600];
	u64 g_pat;
	u8 pad12[0x1000 - 0x670];
} __attribute__((packed));

_Static_assert(offsetof(struct vmcb, iopm) == 0x40, "");
_Static_assert(offsetof(struct vmcb, exit_code) == 0x70, "");
_Static_assert(offsetof(struct vmcb, event_inj) == 0xa8, "");
_Static_assert(offsetof(struct vmcb, next_rip) == 0xc8, "");
_Static_assert(offsetof(struct vmcb, es) == 0x400, "");
_Static_assert(offsetof(struct vmcb, efer) == 0x4d0, "");
_Static_assert(offsetof(struct vmcb, cr4) == 0x548, "");
_Static_assert(offsetof(struct vmcb, rip) == 0x578, "");
_Static_assert(offsetof(struct vmcb, rax) == 0x5f8, "");
_Static_assert(offsetof(struct vmcb, g_pat) == 0x668, "");
_Static_assert(sizeof(struct vmcb) == 0x1000, "");

#define MSR_VM_HSAVE_PA		0xc0010117

/* #VMEXIT codes, APM vol. 2, "SVM Intercept Exit Codes" */
#define EXIT_CR_READ		0x00
#define EXIT_CR_WRITE		0x10
#define EXIT_DR_READ		0x20
#define EXIT_DR_WRITE		0x30
#define EXIT_EXCP		0x40
#define EXIT_INTR		0x60
#define EXIT_NMI		0x61
#define EXIT_IDTR_READ		0x66
#define EXIT_GDTR_READ		0x67
#define EXIT_TR_READ		0x69
#define EXIT_IDTR_WRITE		0x6a
#define EXIT_GDTR_WRITE		0x6b
#define EXIT_RDTSC		0x6e
#define EXIT_RDPMC		0x6f
#define EXIT_PUSHF		0x70
#define EXIT_POPF		0x71
#define EXIT_CPUID		0x72
#define EXIT_IRET		0x74
#define EXIT_SWINT		0x75
#define EXIT_INVD		0x76
#define EXIT_PAUSE		0x77
#define EXIT_HLT		0x78
#define EXIT_INVLPG		0x79
#define EXIT_IOIO		0x7b
#define EXIT_MSR		0x7c
#define EXIT_SHUTDOWN		0x7f
#define EXIT_VMRUN		0x80
#define EXIT_VMMCALL		0x81
#define EXIT_VMLOAD		0x82
#define EXIT_VMSAVE		0x83
#define EXIT_STGI		0x84
#define EXIT_CLGI		0x85
#define EXIT_WBINVD		0x89
#define EXIT_NPF		0x400

#define V_INTR_MASKING		BIT(24)
#define EVENTINJ_VALID		BIT(31)
#define EVENTINJ_NMI		(2 << 8)
#define EVENTINJ_EXCEPTION	(3 << 8)
#define EVENTINJ_SOFT		(4 << 8)

/* What VMRUN doesn't switch; also in the order of guest_enter(). */
struct gregs {
	u64 rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
};

struct guest {
	struct vmcb *vmcb;
	struct gregs regs;
	/* how often each kind of exit came, 0xff for NPF; and VMRUNs */
	u64 exits[256], entries;
};

extern struct guest guests[MAX_CPUS];

static inline struct guest *this_guest(void)
{
	return &guests[this_cpu()->cpu];
}

bool svm_supported(void);
void svm_enable(bool on);

/*
 * Ready to call @fn at @cpl, with VMMCALL behind it. Only VMMCALL, NMI, INTR and SHUTDOWN are
 * intercepted.
 */
void guest_init(int cpl, bool npt, seq_fn fn, void *arg0, void *arg1);
void intercept(struct vmcb *v, u32 exit);

/* VMRUN, once; interrupts of the host are on as long as the guest runs. */
u64 guest_run(void);
/*
 * VMRUN until VMMCALL. Interrupts are taken, instructions that exit skipped. Returns false after
 * an unexpected exit, which it reports.
 */
bool guest_loop(void);
/* Count @ctl with counter 0 over guest_loop(). */
u64 guest_count(u64 ctl);

/* What counts in the guest besides the sequence, and for @n VMRUNs. */
extern const u64 guest_extra[NR_EV];
u64 vmruns(int ev, u64 n);

/* MOV, then arg0 turns of CPUID, DEC, JNZ */
void storm_cpuid(void *arg0, void *arg1);

/* Sequences of other tests that make sense in a guest, too. */
void user_calls(void *arg0, void *arg1);	/* t-count.c */
void read_running(void *arg0, void *arg1);	/* t-regs.c */

extern u8 guest_call[], guest_vmmcall[], guest_ud2[];

#endif
