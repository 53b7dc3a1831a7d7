/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The per-vCPU object and the life of its counters.
 *
 *  - vcpu.c    attaches an object to each vCPU whose VM has a PMU;
 *  - access.c  guest (and userspace) accesses to PMU registers;
 *  - switch.c  puts running counters on physical ones, and back;
 *  - pmi.c     overflow: NMI, then the guest's interrupt;
 *  - emul.c    VM entries and instructions completed by KVM;
 *  - stats.c   figures for people and tests.
 *
 * Locking.  A vCPU's object is touched by one task at a time: KVM holds the
 * vcpu->mutex or is creating or destroying the vCPU.  Interrupts are off
 * wherever physical counters or their bookkeeping change, as host perf starts
 * events from interrupts (switch_evict()).  The NMI handler changes nothing
 * of it: it reads counters, acknowledges and requests.
 */
#ifndef VPMU_VPMU_H
#define VPMU_VPMU_H

#include <linux/kvm_host.h>
#include <linux/percpu.h>

#include "count.h"
#include "guest/guest.h"
#include "hw/hw.h"

#define VPMU_NO_SLOT	(-1)

/**
 * struct vpmu_counter - where a guest counter is now
 * @count: the arithmetic; meaningful while on a physical counter
 * @slot: the physical counter, or VPMU_NO_SLOT
 * @borrows: runs, but found no free physical counter; it borrows one of
 *	host perf's while the vCPU is in guest mode
 * @overflowed: the NMI handler saw it overflow since the last
 *	synchronization
 */
struct vpmu_counter {
	struct vpmu_count count;
	int slot;
	bool borrows;
	bool overflowed;
};

/**
 * struct vpmu_vcpu - what we know of a vCPU
 * @vcpu: KVM's vCPU
 * @node: in the table of all (vcpu.c)
 * @guest: the registers that the guest sees
 * @counter: where its counters run
 * @tally: VM entries and emulated events; see count.h
 * @loaded: between vcpu_load and vcpu_put
 * @placed: how many counters are on physical ones
 * @borrowing: how many counters borrow one for each stay in guest mode
 * @check_level: the level that the coming entry was assumed to have when
 *	counters were armed, or -1 once an entry has passed
 * @stats: figures since the vCPU was created
 */
struct vpmu_vcpu {
	struct kvm_vcpu *vcpu;
	struct hlist_node node;
	struct guest_pmu guest;
	struct vpmu_counter counter[VPMU_MAX_COUNTERS];
	struct vpmu_tally tally;
	bool loaded;
	unsigned int placed;
	unsigned int borrowing;
	int check_level;
	struct {
		u64 overflows;		/* guest counters that went over their top */
		u64 pmis;		/* interrupts requested for them */
		u64 early;		/* NMIs before the guest's overflow */
		u64 emulated;		/* instructions completed by KVM */
		u64 evicted;		/* counters that host perf took */
		u64 borrowed;		/* entries times counters lent by host perf */
		u64 anomalies;		/* entries that hardware didn't count */
	} stats;
};

/**
 * struct vpmu_cpu - what we know of a physical CPU
 * @vv: the loaded vCPU if it has an object, else NULL
 * @owner: which guest counter a physical one runs, or VPMU_NO_SLOT
 * @saved: what host perf had on a counter that is lent
 * @lent: mask of them
 * @seen: the guest's last physical value on a counter that the NMI handler
 *	gave back
 * @late_nmi: until when (jiffies) an NMI that finds no overflow is taken as
 *	that of an overflow which was noticed before its NMI came; 0 for none
 */
struct vpmu_cpu {
	struct vpmu_vcpu *vv;
	int owner[VPMU_MAX_COUNTERS];
	struct hw_saved saved[VPMU_MAX_COUNTERS];
	u64 seen[VPMU_MAX_COUNTERS];
	unsigned long lent;
	unsigned long late_nmi;
};

DECLARE_PER_CPU(struct vpmu_cpu, vpmu_cpu);
extern const struct hw_ops *vpmu_hw;

/* vcpu.c */
struct vpmu_vcpu *vpmu_find(struct kvm_vcpu *vcpu);
int vpmu_attach(struct kvm_vcpu *vcpu);
void vpmu_detach(struct kvm_vcpu *vcpu);
void vpmu_refresh(struct vpmu_vcpu *vv);
void vpmu_for_each(void (*fn)(struct vpmu_vcpu *vv, void *arg), void *arg);

/* access.c: 0, or 1 for #GP, as KVM's own functions return it */
bool access_valid(struct vpmu_vcpu *vv, u32 msr);
int access_read(struct vpmu_vcpu *vv, u32 msr, u64 *data);
int access_write(struct vpmu_vcpu *vv, u32 msr, u64 data, bool host_initiated);
int access_rdpmc(struct vpmu_vcpu *vv, u32 index, u64 *data);

/* emul.c */
void emul_entry(struct vpmu_vcpu *vv);
void emul_event(struct vpmu_vcpu *vv, enum vpmu_class class);

/* switch.c */
void switch_init(void);
void switch_load(struct vpmu_vcpu *vv);
void switch_put(struct vpmu_vcpu *vv);
void switch_start(struct vpmu_vcpu *vv, unsigned int i, bool emulating);
void switch_stop(struct vpmu_vcpu *vv, unsigned int i);
bool switch_sync(struct vpmu_vcpu *vv, unsigned int i);
void switch_settle(struct vpmu_vcpu *vv, unsigned int i);
void switch_arm(struct vpmu_vcpu *vv, unsigned int i, bool emulating);
int switch_next_entry(struct vpmu_vcpu *vv, unsigned int i);
void switch_evict(unsigned int slot);
void switch_borrow(struct vpmu_vcpu *vv);
void switch_give_back(struct vpmu_vcpu *vv);

/* pmi.c */
int pmi_init(void);
void pmi_exit(void);
void pmi_overflow(struct vpmu_vcpu *vv, unsigned int i);
void pmi_handle(struct vpmu_vcpu *vv);
void pmi_before_halt(struct vpmu_vcpu *vv);
void pmi_give_back(struct vpmu_cpu *pc);

/* stats.c */
void stats_init(void);
void stats_exit(void);

#endif
