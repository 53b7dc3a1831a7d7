/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PMU, whichever register set it has: AMD APM vol. 2, "Performance Monitoring Counters", or
 * Intel SDM vol. 3B, "Architectural Performance Monitoring".
 */
#ifndef BARE_PMU_H
#define BARE_PMU_H

#include "cpu.h"

#define MSR_LEGACY_CTL		0xc0010000
#define MSR_LEGACY_CTR		0xc0010004
#define MSR_CORE_CTL		0xc0010200	/* and every other one */
#define MSR_CORE_CTR		0xc0010201
#define MSR_GLOBAL_STATUS	(pmu.intel ? 0x38e : 0xc0000300)
#define MSR_GLOBAL_CTL		(pmu.intel ? 0x38f : 0xc0000301)
#define MSR_GLOBAL_CLR		(pmu.intel ? 0x390 : 0xc0000302)
#define MSR_GLOBAL_SET		(pmu.intel ? 0x391 : 0xc0000303)

#define MSR_PMC			0xc1
#define MSR_PERFEVTSEL		0x186
#define MSR_FIXED_CTR		0x309
#define MSR_FIXED_CTR_CTRL	0x38d
#define MSR_GLOBAL_INUSE	0x392
#define MSR_A_PMC		0x4c1	/* the same as MSR_PMC, without sign extension */
#define MSR_PERF_METRICS	0x329
#define FIXED_SLOTS		3
#define FIXED_BITS		((BIT(pmu.nr_fixed) - 1) << 32)	/* of the global registers */

#define CTL_USR			BIT(16)
#define CTL_OS			BIT(17)
#define CTL_EDGE		BIT(18)
#define CTL_INT			BIT(20)
#define CTL_EN			BIT(22)
#define CTL_INV			BIT(23)
#define CTL_CMASK(n)		((u64)(n) << 24)
#define CTL_GUEST		BIT(40)
#define CTL_HOST		BIT(41)
#define CTL_MODES		(CTL_USR | CTL_OS)
/* Every bit that a PERF_CTL keeps; others read as zero. */
#define CTL_KEPT		0x0000030fffd7ffffull

#define CTR_MASK		(BIT(48) - 1)
/* A counter that overflows after @n events. */
#define NEG(n)			(-(u64)(n) & CTR_MASK)

/*
 * docs/emulated-pmu.md, "Oracle": what a CPU did in a mode. 0 to 3 of its events are INSN to COND.
 */
#define MSR_ORACLE(ev, mode)	(0xc0de0100 + 4 * (ev) + (mode))
#define ORACLE_VMRUN		10
#define ORACLE_COMPLETED	11
#define ORACLE_VMEXIT		14

/*
 * Event selects, with the unit mask that Intel's need. None there for all branches that are
 * taken: Intel's leaves out far ones.
 */
#define EV_TLB_MISS		(pmu.intel ? pmu.ev_tlb : 0x45)	/* Intel: of loads */
#define EV_CYCLES		(pmu.intel ? 0x3c : 0x76)
#define EV_INSN			0xc0
#define EV_SLOTS		0x1a4	/* Intel's, since Ice Lake */
#define EV_BRANCH		(pmu.intel ? 0xc4 : 0xc2)
#define EV_MISPREDICT		(pmu.intel ? 0xc5 : 0xc3)
#define EV_TAKEN		(pmu.intel ? 0 : 0xc4)
#define EV_INTERRUPT		(pmu.intel ? 0x1cb : 0xcf)
#define EV_COND			(pmu.intel ? pmu.ev_cond : 0xd1)

/* Costs of the cycle model: docs/emulated-pmu.md, "Cost model". */
#define COST_TLB_MISS	30
#define COST_VMRUN	675
#define COST_VMEXIT	675
#define COST_MSR	100
#define COST_EXCEPTION	100

/* What a sequence counts; the events of the list the project calls "no skid". */
enum { INSN, BRANCH, TAKEN, COND, NR_EV };

extern u16 ev_select[NR_EV];	/* 0: there is none */
extern const char *const ev_name[NR_EV];

struct pmu {
	int nr;			/* counters */
	int nr_fixed;
	int width;		/* slots in a cycle; 0: there is no counter of them */
	bool core, v2;		/* v2: there are global registers */
	int intel;		/* version of architectural performance monitoring */
	u16 ev_cond, ev_tlb;
	bool oracle;
	bool vmrun_counts;	/* x-pmu-vmrun-counts, as the command line says */
	u64 skid;		/* x-pmu-skid, as the command line says */
	bool constraints;	/* pmu_constraints, as the command line says */
};

extern struct pmu pmu;

void pmu_init(void);
/* steady.c */
void steady(void);
/* clocks.c */
_Noreturn void clocks(void);
/* Everything off, LVTPC masked, no status left. */
void pmu_reset(void);

#define for_each_ev(ev) for (int ev = 0; ev < NR_EV; ev++) if (ev_select[ev])

static inline u32 ctl_msr(int n)
{
	if (pmu.intel)
		return MSR_PERFEVTSEL + n;
	return pmu.core ? MSR_CORE_CTL + 2 * n : MSR_LEGACY_CTL + n;
}

static inline u32 ctr_msr(int n)
{
	if (pmu.intel)
		return MSR_A_PMC + n;
	return pmu.core ? MSR_CORE_CTR + 2 * n : MSR_LEGACY_CTR + n;
}

/* What stubs.S counts around a sequence; hand-counted there. */
#define RUN_INSNS	6
#define RUN_BRANCHES	2
#define USER_OS_INSNS	5
#define USER_OS_BRANCHES 1
#define USER_USR_INSNS	2
#define USER_USR_BRANCHES 2
#define NMI_INSNS	12
#define PMI_INSNS	14
#define PMI_INSNS_X2	18
#define REARM_TAIL	5

typedef void (*seq_fn)(void *arg0, void *arg1);

void measure_run(seq_fn fn, void *arg0, void *arg1, u32 msr, u64 val, u64 flags);
void measure_user(seq_fn fn, void *arg0, void *arg1, u32 msr, u64 val, u64 flags, u64 rsp);
extern u8 measure_begin[], measure_end[], user_exit_int[], user_exit_entry[];
extern u32 rearm_lvt;
extern u8 nmi_entry[], nmi_rearm_entry[], nmi_skip_entry[];
extern u8 pmi_rearm_entry[], pmi_rearm_entry_x2[];
extern u8 syscall_entry[], syscall_kernel_entry[], iretq_entry[];

#define FLAGS_OFF	0x2ull			/* interrupts off */
#define FLAGS_ON	(0x2ull | X86_IF)
#define FLAGS_TF	(0x2ull | X86_TF)

u64 user_stack_top(void);

/* Count @ctl with counter @n, from 0, over @fn. */
u64 count_run(int n, u64 ctl, seq_fn fn, void *arg0, void *arg1);
u64 count_user(int n, u64 ctl, seq_fn fn, void *arg0, void *arg1);

/*
 * Sequences, from seq.S: what @fn counts, without its RET.
 */
struct seq {
	const char *name;
	seq_fn fn;
	u64 want[NR_EV];
	u64 flags;
};

#define SEQ_KERNEL	1	/* only at CPL 0 */
#define SEQ_NOTRACE	2	/* TF doesn't stop at every instruction, or at too many */
#define SEQ_IF		4	/* changes IF or depends on it */
#define SEQ_SLOW	8	/* translated anew each time: fewer overflows */

extern const struct seq seqs_start[], seqs_end[];

#define for_each_seq(s) for (const struct seq *s = seqs_start; s < seqs_end; s++)

const struct seq *seq_find(const char *name);

/*
 * PMIs
 */
enum pmi_mode { PMI_NMI, PMI_VECTOR, PMI_MASKED };

void pmi_start(enum pmi_mode mode);
u64 pmi_stop(void);		/* how many there were; LVTPC is masked again */
static inline u64 pmi_insns(enum pmi_mode mode)
{
	return mode == PMI_NMI ? NMI_INSNS : x2apic ? PMI_INSNS_X2 : PMI_INSNS;
}

/*
 * t-ovf.c: overflow every event of a run at CPL 3, with @prepare before each; @tracing tells
 * those that are for the trace only. Part of a test.
 */
void overflow_sweep_user(seq_fn fn, void *arg0, void (*prepare)(bool tracing));

/*
 * trace.c: where every event of a run ends, found by single-stepping
 */
#define TRACE_MAX	16384

struct trace {
	u64 nr[NR_EV];
	/* the address of the instruction after the n-th counted one */
	u64 next[NR_EV][TRACE_MAX];
};

extern struct trace trace;

bool trace_run(seq_fn fn, void *arg0, void *arg1);
bool trace_user(seq_fn fn, void *arg0, void *arg1);

#endif
