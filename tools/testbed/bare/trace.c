// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where does the n-th instruction (branch, ...) of a run end? Find out without the PMU: step
 * through the same code once with RFLAGS.TF, and tell from its opcode what each instruction
 * is. The tests hold its totals against the hand-counted numbers of seq.S, so that each
 * keeps an eye on the other.
 */
#include "pmu.h"

struct trace trace;

static struct {
	bool user, over;
	u64 rip, flags, rcx;	/* before the instruction that is on its way */
} st;

static bool cond_holds(unsigned int cc, u64 f)
{
	bool r;

	switch (cc >> 1) {
	case 0:
		r = f & X86_OF;
		break;
	case 1:
		r = f & X86_CF;
		break;
	case 2:
		r = f & X86_ZF;
		break;
	case 3:
		r = f & (X86_CF | X86_ZF);
		break;
	case 4:
		r = f & X86_SF;
		break;
	case 5:
		r = f & X86_PF;
		break;
	case 6:
		r = !(f & X86_SF) != !(f & X86_OF);
		break;
	default:
		r = f & X86_ZF || !(f & X86_SF) != !(f & X86_OF);
	}
	return r ^ (cc & 1);
}

enum kind { PLAIN, UNCOND, CONDITIONAL, REP };

static enum kind decode(const u8 *p, bool *taken)
{
	bool rep = false, a32 = false;
	u64 rcx = st.rcx;
	int reg;

	for (;; p++) {
		if (*p == 0xf2 || *p == 0xf3)
			rep = true;
		else if (*p == 0x67)
			a32 = true;
		else if (*p != 0x66 && *p != 0x2e && *p != 0x3e && *p != 0x64 &&
			 *p != 0x65 && *p != 0xf0)
			break;
	}
	if ((*p & 0xf0) == 0x40)
		p++;
	if (a32)
		rcx = (u32)rcx;

	*taken = true;
	switch (*p) {
	case 0x70 ... 0x7f:
		*taken = cond_holds(*p & 0xf, st.flags);
		return CONDITIONAL;
	case 0xe0:	/* LOOPNE */
		*taken = (a32 ? (u32)(rcx - 1) : rcx - 1) && !(st.flags & X86_ZF);
		return CONDITIONAL;
	case 0xe1:	/* LOOPE */
		*taken = (a32 ? (u32)(rcx - 1) : rcx - 1) && st.flags & X86_ZF;
		return CONDITIONAL;
	case 0xe2:	/* LOOP */
		*taken = a32 ? (u32)(rcx - 1) : rcx - 1;
		return CONDITIONAL;
	case 0xe3:	/* JRCXZ, JECXZ */
		*taken = !rcx;
		return CONDITIONAL;
	case 0xe8: case 0xe9: case 0xeb:
	case 0xc2: case 0xc3: case 0xca: case 0xcb: case 0xcf:
	case 0xcc: case 0xcd:
		return UNCOND;
	case 0xff:
		reg = p[1] >> 3 & 7;
		return reg >= 2 && reg <= 5 ? UNCOND : PLAIN;
	case 0xa4: case 0xa5: case 0xa6: case 0xa7:
	case 0xaa ... 0xaf:
		return rep ? REP : PLAIN;
	case 0x0f:
		if ((p[1] & 0xf0) == 0x80) {
			*taken = cond_holds(p[1] & 0xf, st.flags);
			return CONDITIONAL;
		}
		return p[1] == 0x05 || p[1] == 0x07 ? UNCOND : PLAIN;
	}
	return PLAIN;
}

static void add(int ev, u64 next)
{
	if (trace.nr[ev] < TRACE_MAX)
		trace.next[ev][trace.nr[ev]] = next;
	else
		st.over = true;
	trace.nr[ev]++;
}

/* The instruction at st.rip is done, and @next is where the next one is. */
static void step(u64 next)
{
	bool taken;
	enum kind kind = decode((const u8 *)st.rip, &taken);

	/* One iteration of several, or the look at a RCX of 0 behind the last. */
	if (kind == REP && next == st.rip)
		return;

	add(INSN, next);
	if (kind == UNCOND || kind == CONDITIONAL) {
		add(BRANCH, next);
		if (taken)
			add(TAKEN, next);
	}
	if (kind == CONDITIONAL)
		add(COND, next);
}

static bool on_db(struct regs *r)
{
	step(r->rip);
	if (!st.user && r->rip == (u64)measure_end - 2) {
		/* At the WRMSR that stops: not counted. */
		r->rflags &= ~X86_TF;
		return true;
	}
	st.rip = r->rip;
	st.flags = r->rflags;
	st.rcx = r->rcx;
	return true;
}

/* INT takes us out of the code that is stepped through, and TF with it. */
static bool trace_it(bool user, seq_fn fn, void *arg0, void *arg1)
{
	handlers[1] = on_db;
	memset(trace.nr, 0, sizeof(trace.nr));
	st.over = false;
	st.user = user;
	st.rip = user ? (u64)fn : (u64)measure_begin;
	st.flags = 0;
	/* Both stubs leave the MSR in RCX. */
	st.rcx = ctl_msr(0);
	if (user) {
		/* Nothing is enabled: a counter's own value is as good as any. */
		measure_user(fn, arg0, arg1, ctl_msr(0), 0, FLAGS_TF, user_stack_top());
		step((u64)user_exit_entry);
	} else {
		measure_run(fn, arg0, arg1, ctl_msr(0), 0, FLAGS_TF);
	}
	handlers[1] = NULL;
	return !st.over;
}

bool trace_run(seq_fn fn, void *arg0, void *arg1)
{
	return trace_it(false, fn, arg0, arg1);
}

bool trace_user(seq_fn fn, void *arg0, void *arg1)
{
	return trace_it(true, fn, arg0, arg1);
}
