// SPDX-License-Identifier: GPL-2.0-or-later
#include "cpu.h"

struct pcpu pcpus[MAX_CPUS] __attribute__((aligned(64)));
int nr_cpus = 1;
handler_fn handlers[256];
u8 buf_a[4 * 4096] __attribute__((aligned(4096)));
u8 buf_b[4 * 4096] __attribute__((aligned(4096)));

_Static_assert(offsetof(struct pcpu, save_rsp) == PCPU_SAVE_RSP, "");
_Static_assert(offsetof(struct pcpu, save_msr) == PCPU_SAVE_MSR, "");
_Static_assert(offsetof(struct pcpu, fault_vec) == PCPU_FAULT_VEC, "");
_Static_assert(offsetof(struct pcpu, pmi_count) == PCPU_PMI_COUNT, "");
_Static_assert(offsetof(struct pcpu, rearm_msr) == PCPU_REARM_MSR, "");
_Static_assert(offsetof(struct pcpu, rearm_val) == PCPU_REARM_VAL, "");
_Static_assert(offsetof(struct pcpu, rearm_left) == PCPU_REARM_LEFT, "");
_Static_assert(offsetof(struct pcpu, skip_rip) == PCPU_SKIP_RIP, "");
_Static_assert(offsetof(struct pcpu, pmi_rip) == PCPU_PMI_LOG, "");
_Static_assert(offsetof(struct pcpu, pmi_cs) == PCPU_PMI_CS, "");

extern u64 gdt_boot[], gdt_boot_end[];
extern u32 ap_count;
extern u8 tramp_start[], tramp_end[];
extern u8 exc_stubs[];		/* 256 stubs of 16 bytes */
extern u8 nmi_entry[], iretq_entry[], user_exit_entry[], pmi_entry[], pmi_entry_x2[];
extern u8 syscall_entry[];
void exception(struct regs *r);
void ap_main(u64 cpu);

struct gate {
	u16 off0, sel, attr, off1;
	u32 off2, zero;
};

struct desc_ptr {
	u16 limit;
	u64 base;
} __attribute__((packed));

struct tss {
	u32 zero0;
	u64 rsp[3];
	u64 zero1;
	u64 ist[7];
	u64 zero2;
	u16 zero3, iomap;
} __attribute__((packed));

static struct gate idt[256] __attribute__((aligned(4096)));
static u64 gdts[MAX_CPUS][16];
static struct tss tsss[MAX_CPUS] __attribute__((aligned(128)));
static u8 stack_int[MAX_CPUS][8192] __attribute__((aligned(16)));
static u8 stack_nmi[MAX_CPUS][8192] __attribute__((aligned(16)));
static u8 stack_df[MAX_CPUS][4096] __attribute__((aligned(16)));

void gate_set(int vec, const void *entry, int dpl, int ist)
{
	u64 a = (u64)entry;

	idt[vec] = (struct gate){
		.off0 = a, .sel = KERNEL_CS, .attr = 0x8e00 | dpl << 13 | ist,
		.off1 = a >> 16, .off2 = a >> 32,
	};
}

const void *gate_get(int vec)
{
	struct gate *g = &idt[vec];

	return (void *)(g->off0 | (u64)g->off1 << 16 | (u64)g->off2 << 32);
}

void gate_reset(int vec)
{
	switch (vec) {
	case 2:
		/* On a stack of its own: it may come right after a SYSCALL. */
		gate_set(vec, nmi_entry, 0, 1);
		break;
	case 8:
		gate_set(vec, exc_stubs + vec * 16, 0, 2);
		break;
	case VEC_PMI:
		gate_set(vec, x2apic ? pmi_entry_x2 : pmi_entry, 0, 0);
		break;
	case VEC_IRETQ:
		gate_set(vec, iretq_entry, 3, 0);
		break;
	case VEC_USER_EXIT:
		gate_set(vec, user_exit_entry, 3, 0);
		break;
	default:
		/* INT3 as usual from user mode, too. */
		gate_set(vec, exc_stubs + vec * 16, vec == 3 ? 3 : 0, 0);
	}
}

struct extable {
	u64 from, to;
};

extern struct extable extable_start[], extable_end[];

void exception(struct regs *r)
{
	if (handlers[r->vec] && handlers[r->vec](r))
		return;

	if (r->vec < 32) {
		for (struct extable *e = extable_start; e < extable_end; e++) {
			if (e->from == r->rip) {
				this_cpu()->fault_vec = r->vec;
				r->rip = e->to;
				return;
			}
		}
		t_bail("exception %lu, error %lx, at %lx:%lx, flags %lx, cr2 %lx, rsp %lx, cpu %u",
		       r->vec, r->err, r->cs, r->rip, r->rflags, read_cr2(), r->rsp,
		       this_cpu()->cpu);
	}

	/* An interrupt: VEC_TIMER, VEC_IPI and the like. */
	this_cpu()->irq_count++;
	if (r->vec != VEC_SPURIOUS)
		apic_write(APIC_EOI, 0);
}

u64 rdmsr_safe(u32 msr, u64 *v)
{
	struct pcpu *p = this_cpu();
	u32 lo = 0, hi = 0;

	p->fault_vec = NO_FAULT;
	asm volatile("1: rdmsr\n2:\n" EXTABLE("1b", "2b")
		     : "+a"(lo), "+d"(hi) : "c"(msr) : "memory");
	*v = lo | (u64)hi << 32;
	return p->fault_vec;
}

u64 wrmsr_safe(u32 msr, u64 v)
{
	struct pcpu *p = this_cpu();

	p->fault_vec = NO_FAULT;
	asm volatile("1: wrmsr\n2:\n" EXTABLE("1b", "2b")
		     : : "a"((u32)v), "d"((u32)(v >> 32)), "c"(msr) : "memory");
	return p->fault_vec;
}

u64 rdpmc_safe(u32 index, u64 *v)
{
	struct pcpu *p = this_cpu();
	u32 lo = 0, hi = 0;

	p->fault_vec = NO_FAULT;
	asm volatile("1: rdpmc\n2:\n" EXTABLE("1b", "2b")
		     : "+a"(lo), "+d"(hi) : "c"(index) : "memory");
	*v = lo | (u64)hi << 32;
	return p->fault_vec;
}

/*
 * The local APIC
 */

#define MSR_APIC_BASE	0x1b
#define APIC_BASE_EN	BIT(11)
#define APIC_BASE_X2	BIT(10)
#define APIC_MMIO	0xfee00000ull

bool x2apic;

u32 apic_read(u32 reg)
{
	if (x2apic)
		return rdmsr(0x800 + reg / 16);
	return *(volatile u32 *)(APIC_MMIO + reg);
}

void apic_write(u32 reg, u32 v)
{
	if (x2apic)
		wrmsr(0x800 + reg / 16, v);
	else
		*(volatile u32 *)(APIC_MMIO + reg) = v;
}

void apic_icr(u32 dest, u32 v)
{
	if (x2apic) {
		wrmsr(0x830, (u64)dest << 32 | v);
		return;
	}
	apic_write(APIC_ICR + 0x10, dest << 24);
	apic_write(APIC_ICR, v);
}

bool apic_irr(int vec)
{
	return apic_read(APIC_IRR + vec / 32 * 16) >> vec % 32 & 1;
}

static void apic_init(void)
{
	wrmsr(MSR_APIC_BASE, rdmsr(MSR_APIC_BASE) | APIC_BASE_EN |
	      (x2apic ? APIC_BASE_X2 : 0));
	apic_write(APIC_SPIV, 0x100 | VEC_SPURIOUS);
	apic_write(APIC_LVTPC, APIC_MASKED);
	apic_write(APIC_LVTT, APIC_MASKED);
	apic_write(APIC_TDCR, 0xb);	/* divide by 1 */
	/* LINT0 and LINT1 */
	apic_write(0x350, APIC_MASKED);
	apic_write(0x360, APIC_MASKED);
}

bool apic_x2apic_supported(void)
{
	return cpuid(1, 0).c & BIT(21);
}

/* This CPU's, and all that start later. */
void apic_set_x2apic(bool on)
{
	if (x2apic && !on)
		wrmsr(MSR_APIC_BASE, rdmsr(MSR_APIC_BASE) & ~(APIC_BASE_EN | APIC_BASE_X2));
	x2apic = on;
	apic_init();
	gate_reset(VEC_PMI);
}

/*
 * Start-up
 */

void cpu_init(u32 cpu)
{
	struct pcpu *p = &pcpus[cpu];
	struct tss *tss = &tsss[cpu];
	u64 *gdt = gdts[cpu], base = (u64)tss;
	struct desc_ptr ptr;

	p->self = p;
	p->cpu = cpu;
	p->apic_id = cpuid(1, 0).b >> 24;

	if (!cpu) {
		for (int i = 0; i < 256; i++)
			gate_reset(i);
		/*
		 * The firmware left the PIC's timer on. Silence it while LINT0 still lets it
		 * through: a request left behind at the CPU would be an interrupt without a
		 * vector.
		 */
		outb(0x21, 0xff);
		outb(0xa1, 0xff);
	}

	memcpy(gdt, gdt_boot, (u8 *)gdt_boot_end - (u8 *)gdt_boot);
	gdt[TSS_SEL / 8] = 0x67 | (base & 0xffffff) << 16 | 0x89ull << 40 |
			   (base >> 24 & 0xff) << 56;
	gdt[TSS_SEL / 8 + 1] = base >> 32;
	tss->rsp[0] = (u64)(stack_int[cpu] + sizeof(stack_int[cpu]));
	tss->ist[0] = (u64)(stack_nmi[cpu] + sizeof(stack_nmi[cpu]));
	tss->ist[1] = (u64)(stack_df[cpu] + sizeof(stack_df[cpu]));
	tss->iomap = sizeof(*tss);

	ptr = (struct desc_ptr){ TSS_SEL + 15, (u64)gdt };
	asm volatile("lgdt %0" : : "m"(ptr));
	ptr = (struct desc_ptr){ sizeof(idt) - 1, (u64)idt };
	asm volatile("lidt %0" : : "m"(ptr));
	asm volatile("ltr %w0" : : "r"(TSS_SEL));

	wrmsr(MSR_GS_BASE, (u64)p);
	/* An NMI between two SWAPGS finds its way, too. */
	wrmsr(MSR_KERNEL_GS_BASE, (u64)p);
	/* SYSRET loads CS from 63:48 plus 16, SS from it plus 8. */
	wrmsr(MSR_STAR, (u64)USER_CS32 << 48 | (u64)KERNEL_CS << 32);
	wrmsr(MSR_LSTAR, (u64)syscall_entry);
	wrmsr(MSR_FMASK, X86_IF | X86_TF);

	apic_init();
}

void kernel_stack_set(u64 rsp)
{
	u32 cpu = this_cpu()->cpu;

	tsss[cpu].rsp[0] = rsp ?: (u64)(stack_int[cpu] + sizeof(stack_int[cpu]));
}

/* fw_cfg has the number of CPUs: no guess about who may still be on the way. */
static u32 fw_cfg_nb_cpus(void)
{
	u32 v;

	outw(0x510, 5);
	v = inb(0x511);
	v |= inb(0x511) << 8;
	if (v != 0xffff)
		return v;
	/* On Bochs the CMOS tells of the other ones. */
	outb(0x70, 0x5f);
	return inb(0x71) + 1;
}

void tsc_wait(u64 ticks)
{
	u64 start = rdtsc();

	while (rdtsc() - start < ticks)
		cpu_relax();
}

static volatile u32 ap_ready;

void ap_main(u64 cpu)
{
	struct pcpu *p = &pcpus[cpu];

	if (cpu >= MAX_CPUS)
		return;
	cpu_init(cpu);
	__atomic_add_fetch(&ap_ready, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		void (*work)(void *arg) = __atomic_load_n(&p->work, __ATOMIC_ACQUIRE);

		if (!work) {
			/* No time wasted on waiting: the IPI of work_start() is after its store. */
			asm volatile("sti\n hlt\n cli" : : : "memory");
			continue;
		}
		work(p->work_arg);
		/* Pairs with the acquire in work_wait(): results before "done". */
		__atomic_store_n(&p->work, NULL, __ATOMIC_RELEASE);
	}
}

static void wait_ready(u32 want)
{
	u64 start = rdtsc();

	while (ap_ready != want) {
		cpu_relax();
		if (rdtsc() - start > 60ull * 1000 * 1000 * 1000)
			t_bail("%u of %u CPUs started", ap_ready, want);
	}
}

#define ICR_OTHERS	0xc0000

void smp_init(void)
{
	u32 want = fw_cfg_nb_cpus();

	if (want > MAX_CPUS)
		want = MAX_CPUS;
	if (want < 2)
		return;
	memcpy((void *)TRAMPOLINE, tramp_start, tramp_end - tramp_start);
	apic_icr(0, ICR_OTHERS | ICR_ASSERT | ICR_INIT);
	tsc_wait(20 * 1000 * 1000);
	apic_icr(0, ICR_OTHERS | ICR_ASSERT | ICR_STARTUP | TRAMPOLINE >> 12);
	wait_ready(want - 1);
	nr_cpus = want;
}

int smp_restart(int cpu)
{
	u32 want = ap_ready + 1;

	if (want >= MAX_CPUS)
		return -1;
	apic_icr(pcpus[cpu].apic_id, ICR_ASSERT | ICR_INIT);
	tsc_wait(20 * 1000 * 1000);
	apic_icr(pcpus[cpu].apic_id, ICR_ASSERT | ICR_STARTUP | TRAMPOLINE >> 12);
	wait_ready(want);
	return want;
}

static void work_start(int cpu, void (*fn)(void *arg), void *arg)
{
	pcpus[cpu].work_arg = arg;
	__atomic_store_n(&pcpus[cpu].work, fn, __ATOMIC_RELEASE);
	apic_icr(pcpus[cpu].apic_id, ICR_ASSERT | VEC_IPI);
}

static void work_wait(int cpu)
{
	while (__atomic_load_n(&pcpus[cpu].work, __ATOMIC_ACQUIRE))
		cpu_relax();
}

void smp_run(int n, void (*fn)(void *arg), void *arg)
{
	for (int i = 1; i < n; i++)
		work_start(i, fn, arg);
	fn(arg);
	for (int i = 1; i < n; i++)
		work_wait(i);
}

void smp_run_on(int cpu, void (*fn)(void *arg), void *arg)
{
	work_start(cpu, fn, arg);
	work_wait(cpu);
}

/*
 * Test pages
 */

void win_map(int page)
{
	win_pt[page] = win_pte(page);
	invlpg(win_va(page));
}

void win_unmap(int page)
{
	win_pt[page] = 0;
	invlpg(win_va(page));
}
