/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The per-vCPU object and the life of its counters.
 *
 *  - attach.c  chooses the VMs whose PMU is ours;
 *  - vcpu.c    attaches an object to each vCPU of these;
 *  - access.c  guest (and userspace) accesses to PMU registers;
 *  - switch.c  puts running counters on physical ones, and back;
 *  - pmi.c     overflow: NMI, then the guest's interrupt;
 *  - emul.c    VM entries and instructions completed by KVM;
 *  - vtsc.c    a TSC that stands still while the vCPU is descheduled;
 *  - chardev.c figures and settings for the host's tools;
 *  - trace.h   tracepoints.
 *
 * Locking.  vpmu_vms_lock, a mutex, protects the lists of VMs and of their
 * vCPUs, and settings.  A vCPU's counters are touched by one task at a time:
 * KVM holds the vcpu->mutex or is creating or destroying the vCPU.  Interrupts
 * are off wherever physical counters or their bookkeeping change, as host perf
 * starts events from interrupts (vpmu_host_evict()) and tools read counters by
 * one (vpmu_sched_update_all()).  The NMI handler changes nothing of it: it reads
 * counters, acknowledges and requests.
 */
#ifndef VPMU_VPMU_H
#define VPMU_VPMU_H

#include <linux/kvm_host.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <asm/ibt.h>

#include "compat/compat.h"
#include "count.h"
#include "guest/guest.h"
#include "hw/hw.h"

#define VPMU_NO_SLOT	(-1)

/**
 * struct vpmu_vm - a VM that has a vCPU of ours
 * @kvm: KVM's VM
 * @id: its number for userspace, never used twice
 * @freeze: KVM_VPMU_FREEZE_... (uapi)
 * @tsc: KVM_VPMU_TSC_...
 * @node: in the list of all
 * @vcpus: its vCPUs, in the order of their creation
 * @nr: how many
 */
struct vpmu_vm {
	struct kvm *kvm;
	u64 id;
	u32 freeze;
	u32 tsc;
	struct list_head node;
	struct list_head vcpus;
	unsigned int nr;
};

/**
 * struct vpmu_counter - where a guest counter is now
 * @count: the arithmetic; meaningful while on a physical counter
 * @slot: the physical counter, or VPMU_NO_SLOT
 * @last: where it was the last time
 * @index: its number among the guest's counters
 * @pinned: counts what only some physical counters can: the one of the same number
 *	can, as the guest's perf chose this one by the constraints of the CPU
 * @select: the event select that @count's class and filter and @in_host are of
 * @freeze: the freeze mode that they are of
 * @borrows: runs, but found no free physical counter; it borrows one of
 *	host perf's while the vCPU is in guest mode
 * @in_host: counts while KVM works for the vCPU, too
 * @cpl_filtered: @count's class is one of the tally's, and its filter tells levels apart
 * @overflowed: the NMI handler saw it overflow since the last
 *	synchronization
 * @since: TSC when it was started
 * @enabled: ticks that it was started for, up to the last stop
 * @running: ticks of these that it was on a physical counter
 */
struct vpmu_counter {
	struct vpmu_count count;
	int slot;
	s8 last;
	u8 index;
	bool pinned;
	u64 select;
	u32 freeze;
	bool borrows;
	bool in_host;
	bool cpl_filtered;
	bool overflowed;
	u64 since;
	u64 enabled;
	u64 running;
};

/* Bits of vpmu_hot.slow */
#define VPMU_SLOW_STALE		BIT(0)	/* host perf has changed registers that it shares */
#define VPMU_SLOW_BORROWS	BIT(1)	/* some counter borrows a physical one */
#define VPMU_SLOW_ARMED		BIT(2)	/* a note of what KVM completes won't do */
#define VPMU_SLOW_REPEATS	BIT(3)	/* the guest will repeat what KVM is completing */

/**
 * struct vpmu_hot - what each VM exit touches; stubs.S knows it (hook/hot.h)
 * @vcpu: KVM's vCPU
 * @slow: VPMU_SLOW_...; why the short way isn't enough, 0 usually
 * @pending: mask of the classes in which KVM completed one event for the guest
 *	since the last entry, which is not in the tally yet
 * @emulated: instructions that KVM completed while counters ran
 * @margin: where VM entries don't count: how many more events KVM may complete
 *	before some physical counter falls behind the guest's
 * @msr_list_valid: Intel: host perf has told KVM's VMCS which counters count in guest mode, and
 *	nothing has changed since
 */
struct vpmu_hot {
	struct kvm_vcpu *vcpu;
	u32 slow;
	u32 pending;
	u64 emulated;
	s64 margin;
	u32 msr_list_valid;
};

/**
 * struct vpmu_vcpu - what we know of a vCPU
 * @hot: see there
 * @guest: the registers that the guest sees; stubs.S knows where it is
 * @tally: what hardware counted and the guest didn't do; see count.h
 * @vm: its VM
 * @sibling: in the VM's list
 * @node: in the table of all (vcpu.c)
 * @leaf: Intel: what vpmu_compat_guest_config() keeps of its CPUID
 * @denied: mask of counters that KVM_SET_PMU_EVENT_FILTER keeps still
 * @freeze: the freeze mode that counters were started in
 * @counter: where its counters run
 * @loaded: between vcpu_load and vcpu_put
 * @run_seen: KVM_RUN has begun, and not ended; see vpmu_compat_running()
 * @running: loaded for KVM_RUN, not for another ioctl
 * @put_tsc: the TSC when it was put; 0 if what passes since isn't to be taken out
 *	of the guest's
 * @placed: how many counters are on physical ones
 * @placed_in_host: how many of these count in host mode, too
 * @borrowing: how many counters borrow one for each stay in guest mode
 * @nr_cpl_filtered: how many counters run that tell levels apart
 * @armed_level: the level that the coming entry was assumed to have when
 *	counters were armed
 * @stats: figures since the vCPU was created, as in struct kvm_vpmu_vcpu
 */
struct vpmu_vcpu {
	struct vpmu_hot hot;
	struct guest_pmu guest;
	struct vpmu_tally tally;
	struct vpmu_vm *vm;
	struct list_head sibling;
	struct hlist_node node;
	struct compat_leaf leaf;
	u64 denied;
	u32 freeze;
	struct vpmu_counter counter[VPMU_MAX_COUNTERS];
	bool loaded;
	bool run_seen;
	bool running;
	u64 put_tsc;
	unsigned int placed;
	unsigned int placed_in_host;
	unsigned int borrowing;
	unsigned int nr_cpl_filtered;
	int armed_level;
	struct {
		u64 overflows;
		u64 pmis;
		u64 early;
		u64 reads;
		u64 writes;
		u64 rdpmcs;
		u64 evicted;
		u64 borrowed;
		u64 gaps;
		u64 anomalies;
		u64 descheduled_tsc;
	} stats;
};

/**
 * struct vpmu_cpu - what we know of a physical CPU
 * @vv: the loaded vCPU if it has an object, else NULL; first, for stubs.S
 * @owner: which guest counter a physical one runs, or VPMU_NO_SLOT
 * @prepared: counters may be started, since @vv was loaded
 * @host_saved: mask of counters on which a stopped host event has left its count
 * @dirty: mask of counters on which a stopped guest counter has left its count
 * @saved: what host perf had on a counter that is lent
 * @lent: mask of them
 * @was_lent: mask of those that were lent for this entry, given back or not
 * @lent_since: TSC when they were
 * @lending: ticks that it took
 * @seen: the guest's last physical value on a counter that the NMI handler
 *	gave back
 * @late_nmi: until when (jiffies) an NMI that finds no overflow is taken as
 *	that of an overflow which was noticed before its NMI came; 0 for none
 * @paused: what hw_ops.pause() returned, while an NMI is handled
 * @handled: whether that NMI was ours
 * @busy: counters are being lent or given back
 */
struct vpmu_cpu {
	struct vpmu_vcpu *vv;
	int owner[VPMU_MAX_COUNTERS];
	bool prepared;
	unsigned long host_saved;
	unsigned long dirty;
	struct hw_saved saved[VPMU_MAX_COUNTERS];
	u64 seen[VPMU_MAX_COUNTERS];
	unsigned long lent;
	unsigned long was_lent;
	u64 lent_since;
	u64 lending;
	unsigned long late_nmi;
	u64 paused;
	bool handled;
	bool busy;
};

DECLARE_PER_CPU(struct vpmu_cpu, vpmu_cpu);

/*
 * Is counter @c, which has a slot, on that physical counter now?  One that borrows isn't once an
 * NMI has given its slot back.
 */
static inline bool vpmu_holds_slot(const struct vpmu_cpu *pc, const struct vpmu_counter *c)
{
	return !c->borrows || (READ_ONCE(pc->lent) & BIT(c->slot));
}

/* The loaded vCPU if counters of it run, else NULL */
DECLARE_PER_CPU(struct vpmu_vcpu *, vpmu_hot);

extern const struct hw_ops *vpmu_hw;

/* vcpu.c */
extern struct mutex vpmu_vms_lock;
extern struct list_head vpmu_vms;	/* under vpmu_vms_lock, oldest first */

struct vpmu_vcpu *vpmu_find(struct kvm_vcpu *vcpu);
int vpmu_attach(struct kvm_vcpu *vcpu);
void vpmu_detach(struct kvm_vcpu *vcpu);
void vpmu_refresh(struct vpmu_vcpu *vv);

/*
 * access.c: in place of kvm_pmu_is_valid_msr() and so on, called by stubs.S; 0, or
 * 1 for #GP, as those return it
 */
bool vpmu_msr_valid(struct vpmu_vcpu *vv, u32 msr);
int vpmu_msr_read(struct vpmu_vcpu *vv, struct msr_data *msr);
int vpmu_msr_write(struct vpmu_vcpu *vv, struct msr_data *msr);
int vpmu_rdpmc(struct vpmu_vcpu *vv, u32 index, u64 *data);
u64 vpmu_denied_counters(struct vpmu_vcpu *vv);

/* emul.c */
bool __noendbr vpmu_entry(struct vpmu_vcpu *vv);
bool __noendbr vpmu_entry_uncounted(struct vpmu_vcpu *vv);
void vpmu_emulated(struct vpmu_vcpu *vv, enum vpmu_class class);
void __vpmu_flush_pending(struct vpmu_vcpu *vv);
void vpmu_level_changes(struct vpmu_vcpu *vv);
void vpmu_instruction_repeats(struct vpmu_vcpu *vv);

/* Bring the tally up to date, before anybody looks at it; interrupts are off. */
static inline void vpmu_flush_pending(struct vpmu_vcpu *vv)
{
	if (unlikely(vv->hot.pending))
		__vpmu_flush_pending(vv);
}

/* switch.c */
void vpmu_cpu_init(void);
void vpmu_sched_load(struct vpmu_vcpu *vv);
void vpmu_sched_put(struct vpmu_vcpu *vv);
void vpmu_sched_start(struct vpmu_vcpu *vv, unsigned int i, bool emulating);
void vpmu_sched_stop(struct vpmu_vcpu *vv, unsigned int i);
bool vpmu_counter_sync(struct vpmu_vcpu *vv, unsigned int i);
void vpmu_counter_update(struct vpmu_vcpu *vv, unsigned int i);
void vpmu_counter_arm(struct vpmu_vcpu *vv, unsigned int i, bool emulating);
int vpmu_counter_next_entry(const struct vpmu_vcpu *vv, unsigned int i, int level);
void vpmu_host_evict(unsigned int first, unsigned int last);
void vpmu_host_count_saved(unsigned int slot, bool kept);
void vpmu_borrow(struct vpmu_vcpu *vv);
void vpmu_give_back(struct vpmu_vcpu *vv);
void vpmu_sched_apply_settings(struct vpmu_vcpu *vv);
void vpmu_sched_update_all(struct vpmu_vcpu *vv);
void vpmu_host_changed(void);
void vpmu_host_reassert(struct vpmu_vcpu *vv);

/* pmi.c */
int vpmu_pmi_init(void);
void vpmu_pmi_exit(void);
void vpmu_kick(void);
void vpmu_counter_overflow(struct vpmu_vcpu *vv, unsigned int i);
void vpmu_pmi_handle(struct vpmu_vcpu *vv);
void vpmu_pmi_before_halt(struct vpmu_vcpu *vv);
void vpmu_pmi_put(struct vpmu_vcpu *vv);
void vpmu_give_back_lent(struct vpmu_cpu *pc);

/* vtsc.c */
int vpmu_vtsc_set(struct vpmu_vm *vm, u32 tsc);
void vpmu_vtsc_put(struct vpmu_vcpu *vv);
u64 vpmu_vtsc_load(struct vpmu_vcpu *vv);

/* attach.c */
bool vpmu_attach_wanted(struct kvm *kvm);
int vpmu_attach_choose(struct kvm *kvm, u32 attach);
void vpmu_attach_forget(struct kvm *kvm);
void vpmu_attach_forget_all(void);

/* chardev.c */
int vpmu_chardev_init(void);
void vpmu_chardev_exit(void);
bool vpmu_chardev_any_choice(void);
u32 vpmu_chardev_choice(const struct file *file);

#endif
