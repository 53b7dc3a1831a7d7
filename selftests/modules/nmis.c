// SPDX-License-Identifier: GPL-2.0
/*
 * Sends NMIs to this CPU where a kernel function begins, or at each of its instructions in turn, as
 * any other CPU could do at any time.  At another function, looks whether an MSR has all of the
 * bits that it should have.  Counts the NMIs that nobody knows, its own ones among them if it
 * doesn't claim these.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <asm/apic.h>
#include <asm/irq_vectors.h>
#include <asm/msr.h>
#include <asm/nmi.h>

static char *symbol;
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "the function that NMIs come at");

static bool within;
module_param(within, bool, 0444);
MODULE_PARM_DESC(within, "at each of its instructions in turn, one for a call (default: N)");

static unsigned int every = 1;
module_param(every, uint, 0444);
MODULE_PARM_DESC(every, "one for so many calls (default: 1)");

static bool claim = true;
module_param(claim, bool, 0444);
MODULE_PARM_DESC(claim, "know the NMIs that this module sends (default: Y)");

static char *look;
module_param(look, charp, 0444);
MODULE_PARM_DESC(look, "the function to look at the MSR from (default: none)");

static unsigned int msr;
module_param(msr, uint, 0444);
MODULE_PARM_DESC(msr, "the MSR");

static unsigned long wanted;
module_param(wanted, ulong, 0444);
MODULE_PARM_DESC(wanted, "bits that it should have");

static unsigned int came;
module_param(came, uint, 0444);
MODULE_PARM_DESC(came, "NMIs of this module so far (read only)");

static unsigned int unknown;
module_param(unknown, uint, 0444);
MODULE_PARM_DESC(unknown, "NMIs that nobody knew so far, if it doesn't claim its own (read only)");

static unsigned int looks;
module_param(looks, uint, 0444);
MODULE_PARM_DESC(looks, "looks at the MSR so far (read only)");

static unsigned int missing;
module_param(missing, uint, 0444);
MODULE_PARM_DESC(missing, "of these, how often bits were missing (read only)");

static unsigned int places;
module_param(places, uint, 0444);
MODULE_PARM_DESC(places, "instructions that NMIs came at so far (read only)");

/* The function's instructions, the first one first */
#define MOST_INSTRUCTIONS	400
static struct kprobe probes[MOST_INSTRUCTIONS], *registered[MOST_INSTRUCTIONS];
static bool reached[MOST_INSTRUCTIONS];
static unsigned int nr_probes;

static unsigned int calls;
static int target = -1;		/* the instruction that this call's NMI comes at; -1: none */
static DEFINE_PER_CPU(bool, on_its_way);

static int notrace reaches(struct kprobe *probe, struct pt_regs *regs)
{
	int i = probe - probes;

	if (!i) {
		calls++;
		target = calls % every ? -1 : calls / every % nr_probes;
	}
	if (i != target)
		return 0;
	target = -1;
	if (!reached[i])
		places++;
	reached[i] = true;
	__this_cpu_write(on_its_way, true);
	apic->send_IPI(smp_processor_id(), NMI_VECTOR);
	return 0;
}

static int notrace look_at(struct kprobe *probe, struct pt_regs *regs)
{
	looks++;
	if (wanted & ~__rdmsr(msr))
		missing++;
	return 0;
}

/* The kernel would complain of an NMI that nobody knows. */
static int ours(unsigned int type, struct pt_regs *regs)
{
	if (!claim || !__this_cpu_read(on_its_way))
		return NMI_DONE;
	__this_cpu_write(on_its_way, false);
	came++;
	return NMI_HANDLED;
}

static int nobodys(unsigned int type, struct pt_regs *regs)
{
	unknown++;
	return NMI_HANDLED;
}

static struct kprobe look_probe = { .pre_handler = look_at };

static void unregister_probes(void)
{
	/* All at once: one grace period of RCU */
	unregister_kprobes(registered, nr_probes);
	nr_probes = 0;
}

static int add_probe(unsigned int offset)
{
	struct kprobe *p = &probes[nr_probes];
	int err;

	if (nr_probes == MOST_INSTRUCTIONS)
		return -E2BIG;
	*p = (struct kprobe){ .pre_handler = reaches, .symbol_name = symbol, .offset = offset };
	err = register_kprobe(p);
	if (!err)
		registered[nr_probes++] = p;
	return err;
}

/* Kprobes refuses what isn't an instruction's first byte. */
static int add_others(void)
{
	char name[KSYM_SYMBOL_LEN];
	unsigned long size;
	unsigned int i;
	char *slash;
	int err;

	sprint_symbol(name, (unsigned long)probes[0].addr);
	slash = strchr(name, '/');
	if (!slash || sscanf(slash, "/0x%lx", &size) != 1)
		return -EINVAL;
	for (i = 1; i < size; i++) {
		err = add_probe(i);
		if (err && err != -EILSEQ && err != -EINVAL)
			return err;
	}
	return 0;
}

static int __init nmis_init(void)
{
	int err;

	if (!every)
		return -EINVAL;
	err = register_nmi_handler(NMI_LOCAL, ours, 0, "nmis");
	if (err)
		return err;
	if (!claim) {
		err = register_nmi_handler(NMI_UNKNOWN, nobodys, 0, "nmis");
		if (err)
			goto no_unknown;
	}
	if (look) {
		look_probe.symbol_name = look;
		err = register_kprobe(&look_probe);
		if (err)
			goto no_look;
	}
	err = add_probe(0);
	if (!err && within)
		err = add_others();
	if (!err)
		return 0;
	unregister_probes();
	if (look)
		unregister_kprobe(&look_probe);
no_look:
	if (!claim)
		unregister_nmi_handler(NMI_UNKNOWN, "nmis");
no_unknown:
	unregister_nmi_handler(NMI_LOCAL, "nmis");
	return err;
}

static void __exit nmis_exit(void)
{
	unregister_probes();
	if (look)
		unregister_kprobe(&look_probe);
	if (!claim)
		unregister_nmi_handler(NMI_UNKNOWN, "nmis");
	unregister_nmi_handler(NMI_LOCAL, "nmis");
}

module_init(nmis_init);
module_exit(nmis_exit);
MODULE_DESCRIPTION("Sends NMIs where a kernel function begins, or at its instructions");
MODULE_LICENSE("GPL");
