// SPDX-License-Identifier: GPL-2.0-or-later
#include "hypervisor.h"

#include <linux/kvm_vpmu.h>
#include <string.h>

#include "event.h"

const struct hypervisor_event hypervisor_events[] = {
	{ KVM_VPMU_EVENT_EXITS, "exits", "VM exits" },
	{ KVM_VPMU_EVENT_EXITS_IO, "exits-io", "VM exits for port I/O" },
	{ KVM_VPMU_EVENT_EXITS_MMIO, "exits-mmio", "VM exits for MMIO that userspace completes" },
	{ KVM_VPMU_EVENT_EXITS_HALT, "exits-halt", "VM exits for HLT" },
	{ KVM_VPMU_EVENT_EXITS_IRQ, "exits-irq", "VM exits for the host's interrupts" },
	{ KVM_VPMU_EVENT_EXITS_IRQ_WINDOW, "exits-irq-window",
	  "VM exits when the guest can take an interrupt" },
	{ KVM_VPMU_EVENT_EXITS_NMI_WINDOW, "exits-nmi-window",
	  "VM exits when the guest can take an NMI" },
	{ KVM_VPMU_EVENT_EXITS_SIGNAL, "exits-signal", "exits to userspace for a signal" },
	{ KVM_VPMU_EVENT_HYPERCALLS, "hypercalls", "hypercalls" },
	{ KVM_VPMU_EVENT_NESTED_ENTRIES, "nested-entries", "VM entries of nested guests" },
	{ KVM_VPMU_EVENT_EXITS_MSR, "exits-msr", "VM exits for RDMSR and WRMSR" },
	{ KVM_VPMU_EVENT_EXITS_CPUID, "exits-cpuid", "VM exits for CPUID" },
	{ KVM_VPMU_EVENT_EXITS_NMI, "exits-nmi", "VM exits for the host's NMIs" },
	{ KVM_VPMU_EVENT_EXITS_PAUSE, "exits-pause", "VM exits for PAUSE" },
	{ KVM_VPMU_EVENT_EXITS_USER, "exits-user", "exits to userspace" },
	{ KVM_VPMU_EVENT_FAULTS, "faults", "faults of the second-level page tables" },
	{ KVM_VPMU_EVENT_FAULTS_FIXED, "faults-fixed", "such faults that mapped a page" },
	{ KVM_VPMU_EVENT_FAULTS_FAST, "faults-fast",
	  "such faults that KVM fixed without a lock, as for write protection" },
	{ KVM_VPMU_EVENT_FAULTS_SPURIOUS, "faults-spurious", "such faults with nothing to fix" },
	{ KVM_VPMU_EVENT_EMULATED, "emulated", "instructions that KVM's emulator executed" },
	{ KVM_VPMU_EVENT_IRQS, "irqs", "interrupts injected" },
	{ KVM_VPMU_EVENT_NMIS, "nmis", "NMIs injected" },
	{ KVM_VPMU_EVENT_TLB_FLUSHES, "tlb-flushes", "TLB flushes by KVM" },
	{ KVM_VPMU_EVENT_MOVES, "moves", "moves to another CPU of the host" },
	{ KVM_VPMU_EVENT_NODE_MOVES, "node-moves", "moves to another NUMA node of the host" },
	{ KVM_VPMU_EVENT_TICKS_KVM, "kvm-ticks", "TSC ticks between VM exits and entries, in KVM" },
	{ KVM_VPMU_EVENT_TICKS_STEAL, "steal", "TSC ticks runnable, but not running" },
	{ KVM_VPMU_EVENT_TICKS_HALTED, "halted", "TSC ticks halted" },
	{ }
};

const struct hypervisor_event *hypervisor_event_find(const char *name)
{
	const struct hypervisor_event *e;

	for (e = hypervisor_events; e->name; e++) {
		if (!strcmp(e->name, name))
			return e;
	}
	return NULL;
}

const struct hypervisor_event *hypervisor_event_of(uint64_t select, bool intel)
{
	uint64_t mask = (intel ? 0xffff : 0xf0000ffff) & ~(KVM_VPMU_EVENT_TWICE << 8);
	const struct hypervisor_event *e;

	for (e = hypervisor_events; e->name; e++) {
		if ((select & mask) == hypervisor_event_select(e, intel))
			return e;
	}
	return NULL;
}

bool hypervisor_event_needs_observer(const struct hypervisor_event *event)
{
	switch (event->umask) {
	case KVM_VPMU_EVENT_EXITS_MSR:
	case KVM_VPMU_EVENT_EXITS_CPUID:
	case KVM_VPMU_EVENT_EXITS_NMI:
	case KVM_VPMU_EVENT_EXITS_PAUSE:
	case KVM_VPMU_EVENT_MOVES:
	case KVM_VPMU_EVENT_NODE_MOVES:
	case KVM_VPMU_EVENT_TICKS_KVM:
	case KVM_VPMU_EVENT_TICKS_STEAL:
		return true;
	default:
		return false;
	}
}

uint64_t hypervisor_event_code(bool intel)
{
	return EVENT_CODE(intel ? KVM_VPMU_EVENT_INTEL : KVM_VPMU_EVENT_AMD);
}

uint64_t hypervisor_event_select(const struct hypervisor_event *event, bool intel)
{
	return (intel ? KVM_VPMU_EVENT_INTEL : KVM_VPMU_EVENT_AMD) | (uint64_t)event->umask << 8;
}
