/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The processor: registers, exceptions, the local APIC, test pages, other CPUs.
 */
#ifndef BARE_CPU_H
#define BARE_CPU_H

#include "asm.h"
#include "lib.h"

/* See asm.h for the offsets. */
struct pcpu {
	struct pcpu *self;
	u64 save_rsp;
	u64 save_msr;
	u64 fault_vec;		/* the last exception that an extable entry caught */
	u64 pmi_count;
	u64 rearm_msr, rearm_val, rearm_left;
	u64 skip_rip;
	u32 cpu, apic_id;
	u64 irq_count;
	/* SMP work */
	void (*volatile work)(void *arg);
	void *work_arg;
	u64 pad[3];
	u64 pmi_rip[PCPU_PMI_SLOTS];
	u64 pmi_cs[PCPU_PMI_SLOTS];
};

extern struct pcpu pcpus[MAX_CPUS];
extern int nr_cpus;

static inline struct pcpu *this_cpu(void)
{
	struct pcpu *p;

	asm volatile("mov %%gs:0, %0" : "=r"(p));
	return p;
}

/* What the exception stubs push. */
struct regs {
	u64 r15, r14, r13, r12, r11, r10, r9, r8;
	u64 rbp, rdi, rsi, rdx, rcx, rbx, rax;
	u64 vec, err;
	u64 rip, cs, rflags, rsp, ss;
};

/* Return true when the exception is dealt with. */
typedef bool (*handler_fn)(struct regs *r);

extern handler_fn handlers[256];

void gate_set(int vec, const void *entry, int dpl, int ist);
/* Back to the stub that calls @handlers. */
void gate_reset(int vec);
const void *gate_get(int vec);

/* Where an exception at CPL 3 finds its stack; 0: where it usually does. */
void kernel_stack_set(u64 rsp);

static inline void outb(u16 port, u8 v)
{
	asm volatile("outb %0, %1" : : "a"(v), "Nd"(port));
}

static inline void outl(u16 port, u32 v)
{
	asm volatile("outl %0, %1" : : "a"(v), "Nd"(port));
}

static inline void outw(u16 port, u16 v)
{
	asm volatile("outw %0, %1" : : "a"(v), "Nd"(port));
}

static inline u8 inb(u16 port)
{
	u8 v;

	asm volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static inline void cpu_relax(void)
{
	asm volatile("pause" : : : "memory");
}

static inline u64 rdtsc(void)
{
	u32 lo, hi;

	asm volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return lo | (u64)hi << 32;
}

static inline u64 rdmsr(u32 msr)
{
	u32 lo, hi;

	asm volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr) : "memory");
	return lo | (u64)hi << 32;
}

static inline u64 read_pmc(u32 index)
{
	u32 lo, hi;

	asm volatile("rdpmc" : "=a"(lo), "=d"(hi) : "c"(index) : "memory");
	return lo | (u64)hi << 32;
}

static inline void wrmsr(u32 msr, u64 v)
{
	asm volatile("wrmsr" : : "a"((u32)v), "d"((u32)(v >> 32)), "c"(msr) : "memory");
}

struct cpuid {
	u32 a, b, c, d;
};

static inline struct cpuid cpuid(u32 leaf, u32 sub)
{
	struct cpuid r;

	asm volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d)
		     : "a"(leaf), "c"(sub) : "memory");
	return r;
}

static inline bool cpuid_has(u32 leaf)
{
	return cpuid(leaf & 0x80000000, 0).a >= leaf;
}

#define READ_REG(name)							\
static inline u64 read_##name(void)					\
{									\
	u64 v;								\
									\
	asm volatile("mov %%" #name ", %0" : "=r"(v) : : "memory");	\
	return v;							\
}									\
static inline void write_##name(u64 v)					\
{									\
	asm volatile("mov %0, %%" #name : : "r"(v) : "memory");		\
}

READ_REG(cr0)
READ_REG(cr2)
READ_REG(cr3)
READ_REG(cr4)

static inline void irq_enable(void)
{
	asm volatile("sti" : : : "memory");
}

static inline void irq_disable(void)
{
	asm volatile("cli" : : : "memory");
}

static inline void invlpg(u64 va)
{
	asm volatile("invlpg (%0)" : : "r"(va) : "memory");
}

#define EXTABLE(from, to)						\
	".pushsection .extable, \"a\"\n"				\
	".quad " from ", " to "\n"					\
	".popsection\n"

#define NO_FAULT	0xff

/* The vector of the exception that the access raised, or NO_FAULT. */
u64 rdmsr_safe(u32 msr, u64 *v);
u64 wrmsr_safe(u32 msr, u64 v);
u64 rdpmc_safe(u32 index, u64 *v);

/* Busy, for as many ticks of the TSC. */
void tsc_wait(u64 ticks);
void cpu_init(u32 cpu);
void smp_init(void);
/* Run @fn on each of the first @n CPUs at once, this one among them. */
void smp_run(int n, void (*fn)(void *arg), void *arg);

/* On @cpu, not this one, and wait for it. */
void smp_run_on(int cpu, void (*fn)(void *arg), void *arg);
/* INIT and start @cpu again. It is another of pcpus from then on: returns which. */
int smp_restart(int cpu);

/* Local APIC registers, by their xAPIC offset. */
#define APIC_ID		0x20
#define APIC_EOI	0xb0
#define APIC_SPIV	0xf0
#define APIC_IRR	0x200
#define APIC_ICR	0x300
#define APIC_LVTT	0x320
#define APIC_LVTPC	0x340
#define APIC_TMICT	0x380
#define APIC_TMCCT	0x390
#define APIC_TDCR	0x3e0

#define APIC_DM_NMI	0x400
#define APIC_MASKED	0x10000
#define APIC_PERIODIC	0x20000

#define X2APIC_EOI	0x80b

#define ICR_SELF	0x40000
#define ICR_NMI		0x400
#define ICR_INIT	0x500
#define ICR_STARTUP	0x600
#define ICR_ASSERT	0x4000

extern bool x2apic;
bool apic_x2apic_supported(void);
void apic_set_x2apic(bool on);
u32 apic_read(u32 reg);
void apic_write(u32 reg, u32 v);
void apic_icr(u32 dest, u32 v);
bool apic_irr(int vec);

extern u64 win_pt[512];
extern u8 win_phys[WIN_PAGES][4096];

static inline u64 win_va(int page)
{
	return WIN_VA + page * 4096ull;
}

static inline u64 win_pte(int page)
{
	return (u64)win_phys[page] | 0x67;	/* D, A, U, W, P */
}

void win_map(int page);
void win_unmap(int page);

/* Two separate areas of four pages each that sequences may write to. */
extern u8 buf_a[4 * 4096], buf_b[4 * 4096];

#endif
