/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/kvm-vpmu: figures and settings of the virtual PMUs of this host's VMs.
 *
 * All requests are ioctls on the device; structures have the same layout for
 * 32-bit callers.  Fields named "reserved" must be 0 in a structure that the
 * kernel reads, and are 0 in one that the kernel writes.  A request that fails
 * changes nothing.
 *
 * Who may do what.  A VM is named by its file descriptor or by its number.
 *
 *  - The file descriptor (of KVM_CREATE_VM) stands for the right to manage that
 *    VM.  Whoever may open the device may read and change the VM of a file
 *    descriptor.
 *  - To list VMs and to read one by its number needs CAP_PERFMON or
 *    CAP_SYS_ADMIN.  In this header, "privileged" means a caller who has one of
 *    the two.
 *  - To change a VM by its number needs CAP_SYS_ADMIN.
 *
 * Capabilities count in the host's first user namespace only, and at the time
 * of the request.
 *
 * Errors common to all: -EFAULT for an address that isn't the caller's,
 * -ENOTTY for a request (or a size of its structure) that this version doesn't
 * have, -EINVAL for a reserved field that isn't 0 or a value out of range,
 * -EPERM for a capability that the caller doesn't have.
 */
#ifndef _UAPI_LINUX_KVM_VPMU_H
#define _UAPI_LINUX_KVM_VPMU_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * Version of this interface, as in struct kvm_vpmu_info.  The version grows with each
 * addition; nothing is removed.
 */
#define KVM_VPMU_ABI		14

/*
 * Additions of later versions:
 *  2: KVM_VPMU_GET_VM
 *  3: KVM_VPMU_REGISTERS_INTEL
 *  4: capabilities are needed for VMs of others (with 1 to 3 it was enough to
 *     open the device); struct kvm_vpmu_vcpu.fd; KVM_VPMU_ATTACH; a reserved
 *     field that isn't 0 is refused by KVM_VPMU_GET_VCPU, and by KVM_VPMU_GET_VM
 *     also in struct kvm_vpmu_vm_of_fd.vm
 *  5: struct kvm_vpmu_vcpu.fast
 *  6: struct kvm_vpmu_vcpu.open
 *  7: struct kvm_vpmu_vcpu.in_kvm
 *  8: KVM_VPMU_SET_EVENTS and the hypervisor's events
 *  9: KVM_VPMU_GET_EVENTS
 * 10: KVM_VPMU_PROFILE of kvm_vpmu_profile.h
 * 13: KVM_VPMU_PROBE of kvm_vpmu_probe.h
 * 14: struct kvm_vpmu_vcpu.tid, KVM_VPMU_PROBED_BEYOND
 */

/* Freeze mode: when the guest's counters don't count */
#define KVM_VPMU_FREEZE_HYBRID	0	/* while KVM works for the vCPU: only events at
					 * retirement; events that KVM emulates are added
					 */
#define KVM_VPMU_FREEZE_GUEST	1	/* whenever the guest doesn't execute */
#define KVM_VPMU_FREEZE_VCPU	2	/* only while the vCPU is descheduled */

/* The guest's TSC */
#define KVM_VPMU_TSC_WALL	0	/* the host's, as KVM set it up */
#define KVM_VPMU_TSC_VCPU	1	/* the same minus the time that the vCPU was descheduled */

/* Can the guest count the hypervisor's events (with 8)? */
#define KVM_VPMU_EVENTS_OFF	0	/* the default */
#define KVM_VPMU_EVENTS_ON	1

/*
 * The hypervisor's events (with 8): what KVM does for a vCPU, for that vCPU's own
 * counters.  An event select has one of these with a unit mask below, and USR, OS, INT
 * and EN as ever.  EDGE, INV and CMASK are ignored.  With a unit mask that isn't below,
 * the counter counts nothing.  libpfm4's tables assign no event of any CPU to AMD's
 * E40H (bits 35:32 and 7:0), nor to Intel's EBH.
 *
 * The source is KVM's own statistics of the vCPU (struct kvm_vcpu_stat of
 * arch/x86/include/asm/kvm_host.h).  Each counter begins at the value that the guest
 * has written to it.
 */
#define KVM_VPMU_EVENT_AMD	0xe00000040ULL
#define KVM_VPMU_EVENT_INTEL	0xebULL

/*
 * With this bit of the unit mask each event counts twice.  perf makes a sampling period of
 * 1 one of 2 (x86_perf_event_set_period() of arch/x86/events/core.c).  So
 * "perf record -c 1" samples each event with this bit, and every other one without.
 */
#define KVM_VPMU_EVENT_TWICE	0x80

/* Unit masks.  VM exits: all, and by cause */
#define KVM_VPMU_EVENT_EXITS		0x01	/* statistics: exits */
#define KVM_VPMU_EVENT_EXITS_IO		0x02	/* port I/O: io_exits */
#define KVM_VPMU_EVENT_EXITS_MMIO	0x03	/* MMIO to userspace: mmio_exits */
#define KVM_VPMU_EVENT_EXITS_HALT	0x04	/* HLT: halt_exits */
#define KVM_VPMU_EVENT_EXITS_IRQ	0x05	/* an interrupt of the host's: irq_exits */
#define KVM_VPMU_EVENT_EXITS_IRQ_WINDOW	0x06	/* irq_window_exits */
#define KVM_VPMU_EVENT_EXITS_NMI_WINDOW	0x07	/* nmi_window_exits */
#define KVM_VPMU_EVENT_EXITS_SIGNAL	0x08	/* to userspace for a signal: signal_exits */
#define KVM_VPMU_EVENT_HYPERCALLS	0x09	/* hypercalls */
#define KVM_VPMU_EVENT_NESTED_ENTRIES	0x0a	/* entries of nested guests: nested_run */
/* These four have no statistic: the exit reasons of the CPU, as kvm:kvm_exit has them */
#define KVM_VPMU_EVENT_EXITS_MSR	0x0b	/* RDMSR, WRMSR */
#define KVM_VPMU_EVENT_EXITS_CPUID	0x0c	/* CPUID */
#define KVM_VPMU_EVENT_EXITS_NMI	0x0d	/* an NMI of the host's */
#define KVM_VPMU_EVENT_EXITS_PAUSE	0x0e	/* PAUSE */
#define KVM_VPMU_EVENT_EXITS_USER	0x0f	/* KVM_RUN has ended: kvm:kvm_userspace_exit */
/* Faults of the second-level page tables, which the guest doesn't see */
#define KVM_VPMU_EVENT_FAULTS		0x20	/* pf_taken */
#define KVM_VPMU_EVENT_FAULTS_FIXED	0x21	/* a page was mapped: pf_fixed */
#define KVM_VPMU_EVENT_FAULTS_FAST	0x22	/* without a lock, as write protection: pf_fast */
#define KVM_VPMU_EVENT_FAULTS_SPURIOUS	0x23	/* pf_spurious */
/* What KVM did */
#define KVM_VPMU_EVENT_EMULATED		0x30	/* KVM's emulator ran: insn_emulation */
#define KVM_VPMU_EVENT_IRQS		0x31	/* interrupts injected: irq_injections */
#define KVM_VPMU_EVENT_NMIS		0x32	/* NMIs injected: nmi_injections */
#define KVM_VPMU_EVENT_TLB_FLUSHES	0x33	/* tlb_flush */
#define KVM_VPMU_EVENT_MOVES		0x34	/* to another CPU of the host */
#define KVM_VPMU_EVENT_NODE_MOVES	0x35	/* to another NUMA node of the host */
/* Time, in ticks of the guest's TSC */
#define KVM_VPMU_EVENT_TICKS_KVM	0x40	/* from VM exits to entries, while the vCPU is loaded */
#define KVM_VPMU_EVENT_TICKS_STEAL	0x41	/* runnable, but not running: schedstat's run delay */
#define KVM_VPMU_EVENT_TICKS_HALTED	0x42	/* halt_wait_ns and the two of halt_poll_..._ns */

/* Unit masks are below this, without KVM_VPMU_EVENT_TWICE. */
#define KVM_VPMU_EVENT_MASKS	0x80

/*
 * How a guest finds by CPUID that it can count them, if its VMM says so: a leaf from
 * 0x40000000 to 0x4000ff00 in steps of 0x100, where EBX, ECX and EDX are the signature's
 * bytes.  EAX is the last leaf from there.  In leaf + KVM_VPMU_CPUID_FEATURES, EAX has
 * KVM_VPMU_CPUID_EVENTS.
 */
#define KVM_VPMU_CPUID_SIGNATURE	"kvm-vpmu\0\0\0"	/* and the literal's own NUL */
#define KVM_VPMU_CPUID_FEATURES		1
#define KVM_VPMU_CPUID_EVENTS		(1u << 0)

/* The most counters that a vCPU can have */
#define KVM_VPMU_COUNTERS	16

/**
 * struct kvm_vpmu_info - the host
 * @abi: KVM_VPMU_ABI of the module
 * @counters: physical counters of each CPU
 * @vms: how many VMs have a virtual PMU of this module now; 0 unless the caller
 *	is privileged
 * @reserved: 0
 * @rdmsr: how many PMU MSRs the module has read since it was loaded, on all
 *	CPUs; 0 unless the caller is privileged
 * @wrmsr: the same, written
 * @rdpmc: the same, read by RDPMC
 * @hardware: name of the PMU, ends with NUL
 * @reserved2: 0
 */
struct kvm_vpmu_info {
	__u32 abi;
	__u32 counters;
	__u32 vms;
	__u32 reserved;
	__u64 rdmsr;
	__u64 wrmsr;
	__u64 rdpmc;
	char hardware[32];
	__u64 reserved2[4];
};

/**
 * struct kvm_vpmu_vm - one VM
 * @id: its number, never given to another VM while the module is loaded; 0
 *	unless the caller is privileged
 * @pid: the thread that called KVM_CREATE_VM, as the host's first PID namespace
 *	has it; 0 unless the caller is privileged
 * @vcpus: how many vCPUs it has now
 * @freeze: KVM_VPMU_FREEZE_...
 * @tsc: KVM_VPMU_TSC_...
 * @events: KVM_VPMU_EVENTS_... (with 8)
 * @reserved: 0
 */
struct kvm_vpmu_vm {
	__u64 id;
	__s32 pid;
	__u32 vcpus;
	__u32 freeze;
	__u32 tsc;
	__u32 events;
	__u32 reserved;
};

/**
 * struct kvm_vpmu_vms - a list of all VMs
 * @vms: in: address of an array of struct kvm_vpmu_vm
 * @room: in: how many fit there
 * @count: out: how many VMs there are; the first @room of them, in the order
 *	of their numbers, are stored
 */
struct kvm_vpmu_vms {
	__u64 vms;
	__u32 room;
	__u32 count;
};

/**
 * struct kvm_vpmu_vm_of_fd - the VM of a file descriptor
 * @fd: in: file descriptor of the VM (from KVM_CREATE_VM)
 * @reserved: 0
 * @vm: out: the VM; in: its field "reserved" is 0, all others are ignored
 */
struct kvm_vpmu_vm_of_fd {
	__s32 fd;
	__u32 reserved;
	struct kvm_vpmu_vm vm;
};

/* Fields of struct kvm_vpmu_settings */
#define KVM_VPMU_SET_FREEZE	(1u << 0)
#define KVM_VPMU_SET_TSC	(1u << 1)
#define KVM_VPMU_SET_EVENTS	(1u << 2)	/* (with 8) */

/**
 * struct kvm_vpmu_settings - change a VM's settings
 * @id: which VM, as in struct kvm_vpmu_vm; 0 to name it by @fd
 * @fd: file descriptor of the VM (from KVM_CREATE_VM); -1 if @id names it
 * @fields: mask of KVM_VPMU_SET_...: which of the following are set
 * @freeze: KVM_VPMU_FREEZE_...
 * @tsc: KVM_VPMU_TSC_...
 * @events: KVM_VPMU_EVENTS_... (with 8)
 * @reserved: 0
 *
 * A running guest has the settings before its next instruction.  Counters keep
 * their values.  Time that was taken out of the TSC is not added again.
 */
struct kvm_vpmu_settings {
	__u64 id;
	__s32 fd;
	__u32 fields;
	__u32 freeze;
	__u32 tsc;
	__u32 events;
	__u32 reserved;
};

/* struct kvm_vpmu_counter.flags */
#define KVM_VPMU_COUNTER_ENABLED	(1u << 0)	/* the guest has enabled it */
#define KVM_VPMU_COUNTER_DENIED		(1u << 1)	/* by KVM_SET_PMU_EVENT_FILTER */
#define KVM_VPMU_COUNTER_BORROWS	(1u << 2)	/* a physical counter of host perf's */

/**
 * struct kvm_vpmu_counter - a counter of a vCPU
 * @select: the guest's event select register; that of a fixed counter (Intel) as if it
 *	were a general one: events C0H and 3CH, and for the third bit 32 and 0300H
 * @value: its value
 * @enabled_ns: how long it was enabled, and not denied, while its vCPU was loaded on a CPU
 * @running_ns: how long of that it counted; less if it had to share (see
 *	KVM_VPMU_COUNTER_BORROWS)
 * @flags: KVM_VPMU_COUNTER_...
 * @reserved: 0
 * @reserved2: 0
 */
struct kvm_vpmu_counter {
	__u64 select;
	__u64 value;
	__u64 enabled_ns;
	__u64 running_ns;
	__u32 flags;
	__u32 reserved;
	__u64 reserved2[2];
};

/* struct kvm_vpmu_vcpu.registers: which PMU the guest sees */
#define KVM_VPMU_REGISTERS_NONE		0
#define KVM_VPMU_REGISTERS_AMD_LEGACY	1	/* 4 counters */
#define KVM_VPMU_REGISTERS_AMD_CORE	2	/* 6 counters, core extension */
#define KVM_VPMU_REGISTERS_AMD_V2	3	/* PerfMonV2 */
/* Intel's architectural performance monitoring; its version is added (with 3) */
#define KVM_VPMU_REGISTERS_INTEL	16

/**
 * struct kvm_vpmu_vcpu - figures of a vCPU since the vCPU was created
 * @vm: in: the VM's number; 0 to name it by @fd
 * @index: in: the vCPU's place among those of the VM, from 0
 * @vcpu_id: out: its KVM identity (the APIC's); all others are "out", too, but
 *	@fd and reserved fields
 * @registers: KVM_VPMU_REGISTERS_...
 * @counters: how many of @counter are there
 * @exits: VM exits, counting or not
 * @emulated: instructions that KVM emulated and that were added to counters
 * @overflows: overflows of guest counters
 * @pmis: interrupts injected for them
 * @early: interrupts of physical counters before the guest's overflow
 * @reads: guest's and userspace's reads of PMU MSRs
 * @writes: guest's and userspace's writes of PMU MSRs
 * @rdpmcs: guest's RDPMC
 * @evicted: times that host perf took a guest counter's physical counter
 * @borrowed: VM entries, times counters that host perf lent for them
 * @gaps: VM exits, times counters that should have counted KVM's work by the freeze
 *	mode, and didn't, as host perf had the physical counter back
 * @anomalies: VM entries that hardware didn't count as expected: counts are
 *	wrong
 * @descheduled_tsc: ticks of the host's TSC that were taken out of the guest's
 * @fd: in: file descriptor of the VM (from KVM_CREATE_VM) if @vm is 0; 0 if @vm
 *	names it (with 4)
 * @tid: in: 0; out: the thread that ran the vCPU last, as the host's first PID namespace has
 *	it; 0 if none has yet, or unless the caller is privileged (with 14)
 * @fast: how many of @reads, @writes and @rdpmcs were completed right behind
 *	their VM exit (with 5)
 * @open: VM entries at which the guest got some PMU registers to access without
 *	VM exits; such accesses are not in @reads, @writes and @rdpmcs (with 6)
 * @in_kvm: how many of @overflows came while KVM worked for the guest, of counters
 *	that count this by the freeze mode (with 7)
 * @counter: the counters
 */
struct kvm_vpmu_vcpu {
	__u64 vm;
	__u32 index;
	__u32 vcpu_id;
	__u32 registers;
	__u32 counters;
	__u64 exits;
	__u64 emulated;
	__u64 overflows;
	__u64 pmis;
	__u64 early;
	__u64 reads;
	__u64 writes;
	__u64 rdpmcs;
	__u64 evicted;
	__u64 borrowed;
	__u64 gaps;
	__u64 anomalies;
	__u64 descheduled_tsc;
	__s32 fd;
	__s32 tid;
	__u64 fast;
	__u64 open;
	__u64 in_kvm;
	struct kvm_vpmu_counter counter[KVM_VPMU_COUNTERS];
};

/* struct kvm_vpmu_events.flags */
#define KVM_VPMU_EVENTS_OBSERVE	(1u << 0)

/**
 * struct kvm_vpmu_events - the hypervisor's events of a vCPU, for the host (with 9)
 * @vm: in: the VM's number; 0 to name it by @fd
 * @index: in: the vCPU's place among those of the VM, from 0
 * @fd: in: file descriptor of the VM (from KVM_CREATE_VM) if @vm is 0; 0 if @vm
 *	names it
 * @flags: in: KVM_VPMU_EVENTS_OBSERVE: from now on, and until the file of this
 *	request is closed, count also those events of the VM that KVM has no statistic of
 * @vcpu_id: out: its KVM identity (the APIC's)
 * @observed: out: 1 while some file's KVM_VPMU_EVENTS_OBSERVE holds for the VM; else 0
 * @tsc_khz: out: ticks of the guest's TSC in a ms
 * @reserved2: 0
 * @count: out: the number of events by unit mask (KVM_VPMU_EVENT_...), 0 where there is
 *	no such event.  Those of KVM's statistics, and KVM_VPMU_EVENT_EXITS_USER, are
 *	since the vCPU was created.  All others grow while the VM is observed, or while a
 *	counter of the guest needs them: only the difference of two requests of one file,
 *	both with KVM_VPMU_EVENTS_OBSERVE, has a meaning.
 *
 * Neither needs the guest's counters, nor KVM_VPMU_EVENTS_ON.  While a VM is observed,
 * each of its VM exits takes the host some 120 instructions longer.
 */
struct kvm_vpmu_events {
	__u64 vm;
	__u32 index;
	__s32 fd;
	__u32 flags;
	__u32 vcpu_id;
	__u32 observed;
	__u32 tsc_khz;
	__u64 reserved2[3];
	__u64 count[KVM_VPMU_EVENT_MASKS];
};

/* Which VMs get a virtual PMU of this module */
#define KVM_VPMU_ATTACH_DEFAULT	0	/* by the module's parameter "attach" */
#define KVM_VPMU_ATTACH_YES	1
#define KVM_VPMU_ATTACH_NO	2	/* never: the VM keeps KVM's own PMU */

/**
 * struct kvm_vpmu_attach - choose whether a VM gets a virtual PMU (with 4)
 * @fd: file descriptor of the VM (from KVM_CREATE_VM), which has no vCPU yet; -1
 *	for the VMs of processes that have the device's file open
 * @attach: KVM_VPMU_ATTACH_...
 * @reserved: 0
 *
 * A VM's first vCPU decides for all vCPUs of the VM.  The VM's own choice comes
 * first, then that of the device's file, then the module's parameter.
 *
 * With -1, the choice holds for the file by which the request was made, until
 * the last descriptor of that file is closed.  The choice holds for each
 * process that has such a descriptor when it creates the first vCPU of a VM.
 * Descriptors are inherited by fork(), and by execve() if they aren't
 * close-on-exec.  Of several such files, that of the highest descriptor counts.
 */
struct kvm_vpmu_attach {
	__s32 fd;
	__u32 attach;
	__u64 reserved;
};

#define KVM_VPMU_IOC		0xb9

/* Describe the host, for everybody. */
#define KVM_VPMU_GET_INFO	_IOR(KVM_VPMU_IOC, 0, struct kvm_vpmu_info)
/* List VMs, for privileged callers.  -ENOMEM: no memory for the list. */
#define KVM_VPMU_GET_VMS	_IOWR(KVM_VPMU_IOC, 1, struct kvm_vpmu_vms)
/*
 * Change settings.  -ENOENT: no such VM, or it has no vCPU with a PMU of this
 * module; -EBADF: @fd isn't open; -EINVAL also: @fd is no VM, both or neither
 * of @id and @fd given; -EPERM: @id given without CAP_SYS_ADMIN; -EOPNOTSUPP:
 * this host's TSC isn't fit for KVM_VPMU_TSC_VCPU.
 */
#define KVM_VPMU_SET		_IOW(KVM_VPMU_IOC, 2, struct kvm_vpmu_settings)
/*
 * Describe a vCPU.  -ENOENT: no such VM or vCPU (any more); -EBADF: @fd isn't
 * open; -EINVAL also: @fd is no VM, both @vm and @fd given; -EPERM: @vm given by
 * a caller who isn't privileged.
 */
#define KVM_VPMU_GET_VCPU	_IOWR(KVM_VPMU_IOC, 3, struct kvm_vpmu_vcpu)
/*
 * Describe the VM of a file descriptor, for everybody.  -ENOENT: it has no vCPU
 * with a PMU of this module; -EBADF: @fd isn't open; -EINVAL also: @fd is no VM.
 */
#define KVM_VPMU_GET_VM		_IOWR(KVM_VPMU_IOC, 4, struct kvm_vpmu_vm_of_fd)
/*
 * Choose whether a VM gets a virtual PMU, for everybody (with 4).  -EBUSY: the VM
 * has a vCPU already; -EBADF: @fd is neither open nor -1; -EINVAL also: @fd is no
 * VM; -ENOMEM: no memory for the choice.
 */
#define KVM_VPMU_ATTACH		_IOW(KVM_VPMU_IOC, 5, struct kvm_vpmu_attach)
/*
 * Read the hypervisor's events of a vCPU (with 9).  -ENOENT: no such VM or vCPU (any
 * more); -EBADF: @fd isn't open; -EINVAL also: @fd is no VM, both @vm and @fd given, an
 * unknown flag; -EPERM: @vm given by a caller who isn't privileged; -ENOMEM: no memory.
 */
#define KVM_VPMU_GET_EVENTS	_IOWR(KVM_VPMU_IOC, 6, struct kvm_vpmu_events)

#endif
