/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * kvm-vpmu: which pages of its guest's memory a vCPU accesses and writes.
 *
 * KVM_VPMU_PROBE on /dev/kvm-vpmu returns a file for some vCPUs of a VM.  As long as the file is
 * open, each of these vCPUs has second-level page tables of its own, with pages of 4 KiB, whose
 * accessed and dirty bits are that vCPU's alone.  KVM_VPMU_PROBE_WINDOW on that file looks at the
 * pages that each of them accesses and writes until it has caused so many events.
 *
 * Guests notice nothing but the time: each page costs a VM exit when a vCPU accesses the page for
 * the first time since the file was opened, and each window's begin a flush of the TLB.
 *
 * What it can't see: accesses by nested guests, by the VMM, by KVM and by devices.  A CPU's own
 * accesses to a guest's page tables are accesses, and may be writes (APM vol. 2, "Nested Paging";
 * SDM vol. 3, "Accessed and Dirty Flags for EPT").
 */
#ifndef _UAPI_LINUX_KVM_VPMU_PROBE_H
#define _UAPI_LINUX_KVM_VPMU_PROBE_H

#include <linux/types.h>
#include <linux/kvm_vpmu.h>

/* The most vCPUs of one probe, and the most page frames */
#define KVM_VPMU_PROBE_MAX_VCPUS	15
#define KVM_VPMU_PROBE_MAX_PAGES	(1ull << 28)
/* @pages has to be a multiple of this: the page frames in one page of a set */
#define KVM_VPMU_PROBE_PAGES		32768

#define KVM_VPMU_PROBE_EVENTS		2

/**
 * struct kvm_vpmu_probe - what to look at
 * @vm: the VM with this number; 0: see @fd
 * @fd: the VM with this file descriptor (from KVM_CREATE_VM); -1: see @vm
 * @first: the first vCPU, by KVM's identity
 * @nr: up to how many from there on, 1 to KVM_VPMU_PROBE_MAX_VCPUS
 * @events: how many of the next two arrays are used: 1 or 2
 * @type: events, as in struct perf_event_attr: PERF_TYPE_HARDWARE or PERF_TYPE_RAW.  They count in
 *	guest mode only
 * @config: see there
 * @period: a vCPU's window ends when the first event has come so often
 * @pages: look at guest page frames below this number; a multiple of KVM_VPMU_PROBE_PAGES
 *
 * A caller with CAP_PERFMON may look at any VM, any other has to give @fd.  A VM has one probe at a
 * time.  The VM's memory isn't freed before the file is closed.
 *
 * Errors: EBUSY: the VM has a probe.  ENOENT: the VM, or such a vCPU, has no PMU of this module.
 * EOPNOTSUPP: KVM has no page tables that have such bits here (tdp_mmu=N, npt=0, ept=0,
 * eptad=0, or another kernel).  EPERM, EINVAL, ENOMEM.
 */
struct kvm_vpmu_probe {
	__u64 vm;
	__s32 fd;
	__u32 first;
	__u32 nr;
	__u32 events;
	__u32 type[KVM_VPMU_PROBE_EVENTS];
	__u64 config[KVM_VPMU_PROBE_EVENTS];
	__u64 period;
	__u64 pages;
};

/* struct kvm_vpmu_probed.state: how the vCPU's window ended */
#define KVM_VPMU_PROBED_NOT		0	/* it didn't begin: the vCPU didn't run */
#define KVM_VPMU_PROBED_OPEN		1	/* it is going on */
#define KVM_VPMU_PROBED_WHOLE		2	/* by the event */
#define KVM_VPMU_PROBED_SHORT		3	/* by the timeout, or a signal */

/* struct kvm_vpmu_probed.flags: in this window... */
#define KVM_VPMU_PROBED_REPLACED	(1u << 0)	/* KVM replaced the page tables: pages are missing */
#define KVM_VPMU_PROBED_NO_COUNT	(1u << 1)	/* host perf couldn't count: @count is too small */
#define KVM_VPMU_PROBED_BEYOND		(1u << 2)	/* pages at @pages or above are mapped, too (with 14) */

/**
 * struct kvm_vpmu_probed - a vCPU's last window: the first page of its part of the mapping
 * @vcpu: KVM's identity
 * @state: KVM_VPMU_PROBED_...
 * @flags: see there
 * @reserved: 0
 * @begin: the host's TSC when the window began, with the vCPU outside the guest
 * @end: the same when it ended
 * @count: how often the events came
 * @mapped: page frames that were in the vCPU's page tables from the window's begin to its end: all that
 *	can be in a set
 * @accessed: how many of these were accessed
 * @written: how many of these were written
 * @fresh: faults for others, which are in no set: a page counts from the next window on
 * @gone: page frames that were there at the begin, but not at the end: whatever the vCPU did with
 *	them is in no set.  The host reclaims, migrates or compacts memory
 *
 * The set of accessed pages is behind that page, an array of @pages / 64 words, whose bit N % 64 of
 * word N / 64 is page frame N.  The set of written pages is behind that one.  The part of the next
 * vCPU follows.  Nothing is written there between two KVM_VPMU_PROBE_WINDOW.
 *
 * A page that the host takes away in a window isn't in the sets; one that the guest gets back counts
 * in @fresh, any other in @gone.  Where the host's reclaim has looked at a page, which clears the
 * accessed bit, an access before that is missing.  No page is in a set that the guest hasn't
 * accessed, or written.
 */
struct kvm_vpmu_probed {
	__u32 vcpu;
	__u32 state;
	__u32 flags;
	__u32 reserved;
	__u64 begin;
	__u64 end;
	__u64 count[KVM_VPMU_PROBE_EVENTS];
	__u64 mapped;
	__u64 accessed;
	__u64 written;
	__u64 fresh;
	__u64 gone;
};

/* Returns a file, or an error. */
#define KVM_VPMU_PROBE		_IOW(KVM_VPMU_IOC, 8, struct kvm_vpmu_probe)

/*
 * On that file: a window, of at most so many milliseconds.  Returns how many vCPUs have had one.
 * EINTR: a signal ended the windows.
 */
#define KVM_VPMU_PROBE_WINDOW	_IOW(KVM_VPMU_IOC, 9, __u32)

#endif
