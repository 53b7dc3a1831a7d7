// SPDX-License-Identifier: GPL-2.0-or-later
#include "pmu.h"

extern u32 mbi_addr;
extern const struct test tests_start[], tests_end[];
void main(void);

/* t-regs.c */
void regs_at_reset(void);

/* Does a VMM say that we can count the hypervisor's events?  linux/kvm_vpmu.h has the leaf. */
static void look_for_events(void)
{
	for (u32 base = 0x40000000; base < 0x40010000; base += 0x100) {
		struct cpuid c = cpuid(base, 0);

		if (c.b != 0x2d6d766b || c.c != 0x756d7076 || c.d)
			continue;
		print("# leaf %x: last %x, features %x\n", base, c.a, cpuid(base + 1, 0).a);
	}
}

void main(void)
{
	const u32 *mbi = (const u32 *)(u64)mbi_addr;

	print("TAP version 13\n");
	if (mbi[0] & BIT(2))
		cmdline_init((const char *)(u64)mbi[4]);
	cpu_init(0);
	if (cmdline_has("apic=x2")) {
		if (!apic_x2apic_supported())
			t_bail("no x2APIC");
		apic_set_x2apic(true);
	}
	pmu_init();
	smp_init();
	print("# %d CPUs, %s, %d counters, %s, oracle %s\n", nr_cpus,
	      pmu.intel ? "architectural" : pmu.v2 ? "PerfMonV2" : pmu.core ? "core extension" : "legacy counters only",
	      pmu.nr, x2apic ? "x2APIC" : "xAPIC", pmu.oracle ? "there" : "missing");

	if (cmdline_has("list"))
		look_for_events();
	if (cmdline_has("steady")) {
		steady();
		t_done();
	}
	if (cmdline_has("clocks"))
		clocks();
	regs_at_reset();
	for (const struct test *t = tests_start; t < tests_end; t++) {
		pmu_reset();
		t->fn();
	}
	t_done();
}
