/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * kvm-vpmu: profiles of the host and its guests, taken on the host.
 *
 * KVM_VPMU_PROFILE on /dev/kvm-vpmu returns a file for one physical CPU.  An event of host perf
 * samples that CPU, in guest mode and host mode.  Each sample is a record in a ring that userspace
 * maps from the file.  Where a vCPU is loaded for KVM_RUN on the CPU, and where the vCPU is put
 * again, are records, too (KVM_VPMU_PROFILE_SWITCHES): times in between are exact.
 *
 * No guest notices: no interrupt is injected, and the guests' counters go on.  VMs that keep KVM's
 * own PMU are sampled, but have no number, and their switches are not recorded.
 */
#ifndef _UAPI_LINUX_KVM_VPMU_PROFILE_H
#define _UAPI_LINUX_KVM_VPMU_PROFILE_H

#include <linux/types.h>
#include <linux/kvm_vpmu.h>

/* struct kvm_vpmu_profile.flags */
#define KVM_VPMU_PROFILE_SAMPLES	(1u << 0)	/* record samples */
#define KVM_VPMU_PROFILE_SWITCHES	(1u << 1)	/* record vCPUs' switches */
#define KVM_VPMU_PROFILE_FREQUENCY	(1u << 2)	/* @period is samples per second */
/* Switches have the time in KVM, which costs 50 to 100 instructions at each VM exit. */
#define KVM_VPMU_PROFILE_KVM_TIME	(1u << 3)
/*
 * With samples in guest mode: record the guest's call graph (with 11).  The guest's frame pointers
 * are followed before the guest runs again.  Nested guests and VMs without a number have none.
 */
#define KVM_VPMU_PROFILE_STACKS		(1u << 4)
/*
 * With KVM_VPMU_PROFILE_STACKS, of samples in a guest's kernel: record also what of the stack may be
 * a return address or a saved frame pointer (with 12).  Kernels without frame pointers have tables
 * that say which is which (Linux: Documentation/arch/x86/orc-unwinder.rst).
 */
#define KVM_VPMU_PROFILE_WORDS		(1u << 5)

/* The least and the most records of a ring; a power of two */
#define KVM_VPMU_PROFILE_MIN_RECORDS	64
#define KVM_VPMU_PROFILE_MAX_RECORDS	65536

/**
 * struct kvm_vpmu_profile - what to record
 * @type: the event, as in struct perf_event_attr: PERF_TYPE_HARDWARE or PERF_TYPE_RAW
 * @flags: KVM_VPMU_PROFILE_..., at least one of the first two
 * @config: the event, as in struct perf_event_attr; 0 without samples
 * @period: events from one sample to the next, or samples per second; 0 without samples
 * @cpu: the physical CPU
 * @records: length of the ring
 * @vm: only samples and switches of the VM with this number; 0: see @fd
 * @fd: only those of the VM with this file descriptor (from KVM_CREATE_VM); -1: of the VM @vm or,
 *	if that is 0, all of the CPU's, the host's included
 * @reserved: 0
 *
 * A caller with CAP_PERFMON records what he likes.  Any other has to give @fd, and gets: samples
 * in guest mode, by an event that counts nothing else; switches; no PIDs.  There can be
 * one such profile for each VM and CPU.
 */
struct kvm_vpmu_profile {
	__u32 type;
	__u32 flags;
	__u64 config;
	__u64 period;
	__u32 cpu;
	__u32 records;
	__u64 vm;
	__s32 fd;
	__u32 reserved;
};

/* struct kvm_vpmu_record.type */
#define KVM_VPMU_RECORD_SAMPLE	0
#define KVM_VPMU_RECORD_LOAD	1	/* a vCPU is loaded for KVM_RUN */
#define KVM_VPMU_RECORD_PUT	2	/* put again */
#define KVM_VPMU_RECORD_STACK	3	/* callers of what was sampled */
#define KVM_VPMU_RECORD_AWAY	4	/* read() finds that a vCPU isn't loaded (with 11) */
#define KVM_VPMU_RECORD_WORDS	5	/* words of a guest's kernel's stack (with 12) */

/* struct kvm_vpmu_record.mode of a sample */
#define KVM_VPMU_MODE_HOST_KERNEL	0
#define KVM_VPMU_MODE_HOST_USER		1
#define KVM_VPMU_MODE_GUEST		2	/* @cpl: kernel or user */
#define KVM_VPMU_MODE_NESTED		3	/* a guest of that guest */

/* struct kvm_vpmu_record.mode of KVM_VPMU_RECORD_PUT and KVM_VPMU_RECORD_AWAY: why */
#define KVM_VPMU_PUT_USER	0	/* KVM_RUN returns */
#define KVM_VPMU_PUT_PREEMPTED	1	/* another task runs */
#define KVM_VPMU_PUT_HALTED	2	/* the guest has nothing to do */
#define KVM_VPMU_PUT_BLOCKED	3	/* KVM waits: for memory, a lock */
/* Not put, but read(): LOAD follows with the same TSC */
#define KVM_VPMU_PUT_READ	4

/*
 * struct kvm_vpmu_record.mode of KVM_VPMU_RECORD_STACK and KVM_VPMU_RECORD_WORDS: why there are no
 * more addresses or words, or that the next record has more.
 */
#define KVM_VPMU_STACK_MORE	0
#define KVM_VPMU_STACK_END	1	/* the outermost function; WORDS: all that is mapped */
#define KVM_VPMU_STACK_INVALID	2	/* what follows is no frame, or no stack */
#define KVM_VPMU_STACK_UNMAPPED	3	/* a frame that the guest or the host hasn't mapped */
#define KVM_VPMU_STACK_LIMIT	4	/* KVM_VPMU_STACK_MAX addresses */
#define KVM_VPMU_STACK_MODE	5	/* not in 64-bit mode */

/* A record's addresses, and a stack's */
#define KVM_VPMU_STACK_RECORD	5
#define KVM_VPMU_STACK_MAX	125

/*
 * Of KVM_VPMU_RECORD_WORDS, the first two are RSP and RBP.  Each other is a word of the stack: its
 * offset from the stack's lowest address, RSP, is in the upper 16 bits, the word's lower 48 bits are
 * in the others.  The upper bits of a word are RSP's if the word is then at most
 * KVM_VPMU_WORDS_STACK from the stack's lowest address, else ones.
 *
 * The offset KVM_VPMU_WORDS_NEXT says that the word is the lowest address of the stack that the
 * kernel has left for this one, when an interrupt came; what follows is there.
 */
#define KVM_VPMU_WORDS_OFFSET	48
#define KVM_VPMU_WORDS_NEXT	0xffff
/* How much of a stack is looked at: Linux's THREAD_SIZE */
#define KVM_VPMU_WORDS_STACK	16384

/* struct kvm_vpmu_record.cpl: not known (the guest's state is encrypted), or none */
#define KVM_VPMU_CPL_NONE	255

/* struct kvm_vpmu_record.exit_reason: not known */
#define KVM_VPMU_EXIT_NONE	0xffffffffu

/**
 * struct kvm_vpmu_record - a sample, a vCPU's switch, or callers of what was sampled
 * @tsc: the host's TSC.  STACK and WORDS: the sample's
 * @vm: the VM's number; 0: no VM, or one without a PMU of this module
 * @vcpu: KVM's identity of the vCPU that is loaded (the APIC's), or -1 for none
 * @type: KVM_VPMU_RECORD_...
 * @mode: KVM_VPMU_MODE_..., KVM_VPMU_PUT_... or KVM_VPMU_STACK_...
 * @cpl: sample in guest mode: the guest's privilege level, or KVM_VPMU_CPL_NONE
 * @nr: STACK, WORDS: how many addresses or words the record has
 * @ip: sample: where; in guest mode the guest's RIP, without CS.base.  0: not known
 * @cr3: sample in guest mode: the guest's CR3.  0: not known
 * @value: sample: how many events this one stands for.  LOAD: for how many ns since the PUT
 *	before the vCPU's thread was runnable, but didn't run.  PUT: TSC ticks in KVM since the
 *	LOAD, as far as there was a profile with KVM_VPMU_PROFILE_KVM_TIME; no meaning if that
 *	LOAD wasn't recorded.  AWAY: of a vCPU that is halted, for how many ns since the last
 *	switch or AWAY its thread was runnable, but didn't run; a LOAD counts from here on
 * @pid: the process, as the host's first PID namespace has it; 0: see struct kvm_vpmu_profile.
 *	AWAY: 0
 * @tid: its thread
 * @exit_reason: sample in KVM: the last VM exit's reason, as the CPU's manual has it.
 *	KVM_VPMU_EXIT_NONE in guest mode, without a vCPU, before its first one, and on Intel's CPUs
 * @reserved: 0
 * @address: STACK: return addresses, the innermost first; in the next record they go on.  WORDS: see
 *	KVM_VPMU_WORDS_OFFSET
 *
 * A stack's records are in one ring, in order, without others' of the same @tsc, @vm and @vcpu in
 * between, and WORDS behind STACK.  They are behind the sample, and may be in the ring of another
 * CPU, where the vCPU has moved.  With KVM_VPMU_PROFILE_STACKS, several samples in one stay in guest mode have one TSC and
 * one stack.  The innermost function's frame may not exist yet, or not any more: its first and last
 * instructions are known, as compilers write them.
 */
struct kvm_vpmu_record {
	__u64 tsc;
	__u64 vm;
	__s32 vcpu;
	__u8 type;
	__u8 mode;
	__u8 cpl;
	__u8 nr;
	union {
		struct {
			__u64 ip;
			__u64 cr3;
			__u64 value;
			__u32 pid;
			__u32 tid;
			__u32 exit_reason;
			__u32 reserved;
		};
		__u64 address[KVM_VPMU_STACK_RECORD];
	};
};

/**
 * struct kvm_vpmu_ring - the first page of the mapping
 * @head: how many records there have been, not counting lost ones; written by the module
 * @lost: how many there was no room for; written by the module
 * @throttled: how often host perf paused the event until the next tick, as there were more samples
 *	than kernel.perf_event_max_sample_rate allows; written by the module
 * @tail: how many records userspace has read; written by userspace
 *
 * Record N is number N modulo the ring's length of the array that begins one page behind.
 * Read @head with acquire semantics, then records, then write @tail with release semantics.
 * A switch may follow samples that were taken while the vCPU was switched, a moment after its TSC.
 * What userspace writes changes nothing but what is recorded in this ring.
 */
struct kvm_vpmu_ring {
	__u64 head;
	__u64 lost;
	__u64 throttled;
	__u64 reserved[5];
	__u64 tail;
};

/**
 * struct kvm_vpmu_profile_count - what read() on the file returns
 *
 * With KVM_VPMU_PROFILE_SWITCHES, read() also records what vCPUs do, so that times up to then are
 * known, and from then on: a PUT and a LOAD of the vCPU that is loaded on the CPU, and AWAY of each
 * vCPU that was loaded there last.  A vCPU that is loaded elsewhere meanwhile may have both, its
 * LOAD and then AWAY: the LOAD is right.
 * @value: the event's count
 * @enabled_ns: how long the event was to count
 * @running_ns: how long of that it did.  Less, if host perf had more events than counters, or lent
 *	the counter to a guest: what is missing was not sampled
 */
struct kvm_vpmu_profile_count {
	__u64 value;
	__u64 enabled_ns;
	__u64 running_ns;
};

/*
 * Profile a CPU (with 10).  Return: a file descriptor; recording ends when the last copy is closed.
 * mmap() it shared, from offset 0, with the length of a page and @records records.  -EINVAL: an
 * argument out of its range, both @vm and @fd given, or @fd is no VM; -EPERM: the caller may not;
 * -EBADF: @fd isn't open; -ENOENT: no such VM, or one without a PMU of this module; -ENODEV: no such
 * CPU, or an offline one; -EBUSY: the VM has such a profile of this CPU already; -ENOMEM: no memory.
 * Host perf's errors: -ENOENT, -EOPNOTSUPP and -EINVAL for an event that the CPU doesn't have.
 */
#define KVM_VPMU_PROFILE	_IOW(KVM_VPMU_IOC, 7, struct kvm_vpmu_profile)

#endif
