// SPDX-License-Identifier: GPL-2.0
/*
 * Profiles of a CPU: samples of an event of host perf, in the host and in any guest, and vCPUs'
 * switches, as records in a ring that userspace reads (uapi/linux/kvm_vpmu_profile.h).
 *
 * Samples are recorded in NMIs, which may interrupt the recording of a switch on the same CPU.  No
 * other CPU writes to the ring.
 */
#include <linux/anon_inodes.h>
#include <linux/cpu.h>
#include <linux/file.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <asm/local64.h>
#include <asm/msr.h>
#include <asm/tsc.h>
#include <uapi/linux/kvm_vpmu_profile.h>

#include "compat/host.h"
#include "event.h"
#include "observe.h"
#include "profile.h"
#include "report.h"
#include "sched.h"
#include "stack.h"
#include "vcpu.h"

/**
 * struct profile - an open profile
 * @node: in its CPU's list
 * @cpu: which CPU
 * @flags: KVM_VPMU_PROFILE_...
 * @vm: the number of the VM in question; 0: everything
 * @privileged: opened with CAP_PERFMON
 * @event: host perf's; NULL without samples
 * @ring: the part that userspace can write, too
 * @record: the ring's records
 * @nr: how many, a power of two
 * @next: number of the record that is written next
 * @lost: as in @ring
 * @throttled: as in @ring
 * @writers: how many are writing: one that interrupts another leaves the publishing to that
 */
struct profile {
	struct hlist_node node;
	unsigned int cpu;
	u32 flags;
	u64 vm;
	bool privileged;
	struct perf_event *event;
	struct kvm_vpmu_ring *ring;
	struct kvm_vpmu_record *record;
	u32 nr;
	local64_t next;
	local64_t lost;
	u64 throttled;
	unsigned int writers;
};

DEFINE_STATIC_KEY_FALSE(vpmu_profiling);

/* Profiles by CPU, changed under profiles_lock, read under RCU */
static DEFINE_PER_CPU(struct hlist_head, profiles);
static DEFINE_MUTEX(profiles_lock);

/* How many there are, and when there were none the last time: what vCPUs kept before is outdated */
static unsigned int nr_profiles;
static u64 session;

/* The number of the record to write, or false: no room */
static bool take_record(struct profile *p, u64 *n)
{
	/* What userspace writes there can only cost its own records. */
	u64 tail = READ_ONCE(p->ring->tail);

	/* Until no NMI has come in between */
	do {
		*n = local64_read(&p->next);
		if (*n - tail >= p->nr) {
			local64_inc(&p->lost);
			return false;
		}
	} while (local64_cmpxchg(&p->next, *n, *n + 1) != *n);
	return true;
}

/* Where to write a record, or NULL: no room.  end_record() follows in both cases. */
static __always_inline struct kvm_vpmu_record *begin_record(struct profile *p)
{
	u64 n;

	WRITE_ONCE(p->writers, p->writers + 1);
	barrier();
	return take_record(p, &n) ? &p->record[n & (p->nr - 1)] : NULL;
}

static __always_inline void end_record(struct profile *p)
{
	struct kvm_vpmu_ring *ring = p->ring;
	u64 published;

	/* An NMI in between may have added a record, and left it to this writer to publish it. */
	do {
		published = local64_read(&p->next);
		if (READ_ONCE(p->writers) == 1) {
			WRITE_ONCE(ring->lost, local64_read(&p->lost));
			WRITE_ONCE(ring->throttled, p->throttled);
			/* Userspace reads records behind the head (struct kvm_vpmu_ring). */
			smp_store_release(&ring->head, published);
		}
		WRITE_ONCE(p->writers, p->writers - 1);
		barrier();
		if (READ_ONCE(p->writers) || published == local64_read(&p->next))
			return;
		WRITE_ONCE(p->writers, 1);
		barrier();
	} while (true);
}

static bool wants(const struct profile *p, u64 vm)
{
	return !p->vm || p->vm == vm;
}

/* PIDs of the host's first namespace are not for everybody. */
static u32 shown_pid(const struct profile *p, pid_t pid)
{
	return p->privileged ? pid : 0;
}

static void put_for(struct profile *p, struct kvm_vpmu_record *r)
{
	struct kvm_vpmu_record *to;

	if (!wants(p, r->vm))
		return;
	if (r->type == KVM_VPMU_RECORD_LOAD || r->type == KVM_VPMU_RECORD_PUT) {
		r->pid = shown_pid(p, current->tgid);
		r->tid = shown_pid(p, current->pid);
	}
	to = begin_record(p);
	if (to)
		*to = *r;
	end_record(p);
}

static bool in_guest(struct kvm_vcpu *vcpu)
{
	return vcpu && vpmu_compat_nmi_of_guest(vcpu);
}

/*
 * In an NMI: have the stack of the sample at @tsc recorded.  Without another stay in guest mode, a
 * sample before this one has the same.  Return the TSC that the stack's records will have.
 */
static u64 want_stack(struct vpmu_vcpu *vv, u64 tsc, u32 flags)
{
	if (flags & KVM_VPMU_PROFILE_WORDS)
		WRITE_ONCE(vv->profiled.words, true);
	if (vv->profiled.sampled)
		return vv->profiled.sampled;
	vpmu_stack_note(&vv->profiled.stack, vv->hot.vcpu);
	WRITE_ONCE(vv->profiled.sampled, tsc);
	kvm_make_request(KVM_REQ_PMU, vv->hot.vcpu);
	return tsc;
}

/*
 * In an NMI: @event has overflowed.  The record is written in its place, and never read there, as
 * userspace can write, too.
 */
static void sample(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct profile *p = event->overflow_handler_context;
	struct vpmu_vcpu *vv = this_cpu_read(vpmu_cpu.vv);
	struct kvm_vcpu *vcpu = vv ? vv->hot.vcpu : vpmu_compat_running_vcpu();
	u64 tsc = rdtsc(), vm = vv ? vv->vm->id : 0;
	struct compat_where where = { };
	struct kvm_vpmu_record *r;
	u32 exit_reason = KVM_VPMU_EXIT_NONE;
	u8 mode, cpl = KVM_VPMU_CPL_NONE;

	p->throttled += vpmu_compat_host_throttled(event);
	if (!wants(p, vm))
		return;
	if (in_guest(vcpu)) {
		bool nested = vcpu->arch.hflags & HF_GUEST_MASK;

		mode = nested ? KVM_VPMU_MODE_NESTED : KVM_VPMU_MODE_GUEST;
		where = vpmu_compat_where(vcpu);
		if (!vpmu_compat_state_encrypted(vcpu)) {
			cpl = vpmu_compat_get_cpl(vcpu);
			if (vv && p->flags & KVM_VPMU_PROFILE_STACKS && !nested)
				tsc = want_stack(vv, tsc, p->flags);
		}
	} else {
		/* Not for a VM's owner: the interrupt of an overflow in guest mode came late. */
		if (!p->privileged)
			return;
		mode = user_mode(regs) ? KVM_VPMU_MODE_HOST_USER : KVM_VPMU_MODE_HOST_KERNEL;
		where.rip = instruction_pointer(regs);
		/* Before the first VM exit the VMCB has 0, the code of a read of CR0. */
		if (vcpu && vcpu->stat.exits)
			exit_reason = vpmu_compat_exit_reason(vcpu);
	}
	r = begin_record(p);
	/* All fields, so that the compiler needn't zero the record first */
	if (r)
		*r = (struct kvm_vpmu_record){
			.tsc = tsc,
			.vm = vm,
			.vcpu = vcpu ? vcpu->vcpu_id : -1,
			.type = KVM_VPMU_RECORD_SAMPLE,
			.mode = mode,
			.cpl = cpl,
			.nr = 0,
			.ip = where.rip,
			.cr3 = where.cr3,
			.value = event->hw.last_period,
			.pid = shown_pid(p, current->tgid),
			.tid = shown_pid(p, current->pid),
			.exit_reason = exit_reason,
			.reserved = 0,
		};
	end_record(p);
}

/* For those profiles of this CPU that have @flag; preemption is off. */
static void put_for_all(u32 flag, struct kvm_vpmu_record *r)
{
	struct profile *p;

	rcu_read_lock();
	hlist_for_each_entry_rcu(p, this_cpu_ptr(&profiles), node)
		if (p->flags & flag)
			put_for(p, r);
	rcu_read_unlock();
}

static void put_switch(struct kvm_vpmu_record *r)
{
	put_for_all(KVM_VPMU_PROFILE_SWITCHES, r);
}

/* A record of @type, for profiles with @flag */
static void put_stack(const struct vpmu_vcpu *vv, u32 flag, u8 type, const u64 *address,
		      unsigned int nr, u8 why)
{
	struct kvm_vpmu_record r = {
		.tsc = vv->profiled.sampled,
		.vm = vv->vm->id,
		.vcpu = vv->hot.vcpu->vcpu_id,
		.type = type,
		.cpl = KVM_VPMU_CPL_NONE,
	};
	unsigned int i = 0;

	/* In one CPU's ring */
	preempt_disable();
	do {
		r.nr = min(nr - i, KVM_VPMU_STACK_RECORD);
		memset(r.address, 0, sizeof(r.address));
		memcpy(r.address, address + i, r.nr * sizeof(*address));
		i += r.nr;
		r.mode = i < nr ? KVM_VPMU_STACK_MORE : why;
		put_for_all(flag, &r);
	} while (i < nr);
	preempt_enable();
}

void vpmu_profile_stack(struct vpmu_vcpu *vv)
{
	u64 address[KVM_VPMU_STACK_MAX];
	unsigned int nr;
	u8 why;

	if (!vv->profiled.sampled)
		return;
	nr = vpmu_stack_walk(&vv->profiled.stack, vv->hot.vcpu, address, &why);
	put_stack(vv, KVM_VPMU_PROFILE_STACKS, KVM_VPMU_RECORD_STACK, address, nr, why);
	if (READ_ONCE(vv->profiled.words) && !vv->profiled.stack.user) {
		nr = vpmu_stack_words(&vv->profiled.stack, vv->hot.vcpu, address, &why);
		put_stack(vv, KVM_VPMU_PROFILE_WORDS, KVM_VPMU_RECORD_WORDS, address, nr, why);
	}
	WRITE_ONCE(vv->profiled.words, false);
	WRITE_ONCE(vv->profiled.sampled, 0);
}

static struct kvm_vpmu_record switch_record(const struct vpmu_vcpu *vv, u8 type)
{
	return (struct kvm_vpmu_record){
		/* The very moment at which the ticks in KVM began or ended, if these are counted */
		.tsc = vv->event.timing ? vv->event.kvm_since : rdtsc(),
		.vm = vv->vm->id,
		.vcpu = vv->hot.vcpu->vcpu_id,
		.exit_reason = KVM_VPMU_EXIT_NONE,
		.type = type,
		.cpl = KVM_VPMU_CPL_NONE,
	};
}

/* Has keep_delay() been called for this thread? */
static bool delay_is_known(const struct vpmu_vcpu *vv, const struct task_struct *task)
{
	if (READ_ONCE(vv->profiled.session) != READ_ONCE(session))
		return false;
	/* keep_delay() may run on another CPU. */
	return smp_load_acquire(&vv->profiled.thread) == task->start_time;
}

/* For take_delay(), the scheduler's clock may be a moment late. */
static u64 delay_since(const struct vpmu_vcpu *vv, u64 delay)
{
	return max_t(s64, delay - READ_ONCE(vv->profiled.delay), 0);
}

static void keep_delay(struct vpmu_vcpu *vv, const struct task_struct *task, u64 delay)
{
	WRITE_ONCE(vv->profiled.delay, delay);
	WRITE_ONCE(vv->profiled.session, READ_ONCE(session));
	/* For the next load, which may be on another CPU right now */
	smp_store_release(&vv->profiled.thread, task->start_time);
}

static u64 ticks_to_ns(u64 ticks)
{
	return mul_u64_u32_div(ticks, NSEC_PER_MSEC, tsc_khz);
}

/* Another CPU's TSC may be a moment behind. */
static u64 since_woken(u64 woken, u64 tsc)
{
	return ticks_to_ns(max_t(s64, tsc - woken, 0));
}

/*
 * For how many ns the thread that loads the vCPU at @tsc was runnable.  For a thread that slept,
 * run_delay may be too long: from Linux 6.12 on the scheduler keeps some sleepers in their queue,
 * and counts them as waiting if it moves them to another CPU (sched_info_enqueue()).
 */
static u64 waited(const struct vpmu_vcpu *vv, u64 tsc)
{
	u64 woken = READ_ONCE(vv->profiled.woken);

	if (!delay_is_known(vv, current))
		return 0;
	if (vv->profiled.halted && woken)
		return since_woken(woken, tsc);
	/* Not asleep, or woken by a signal */
	return delay_since(vv, current->sched_info.run_delay);
}

void vpmu_profile_load(struct vpmu_vcpu *vv)
{
	struct kvm_vpmu_record r;
	unsigned long flags;

	/* So that look() finds a vCPU with the record of its load */
	local_irq_save(flags);
	vpmu_sched_load(vv);
	/* Not for another ioctl */
	if (vv->running) {
		r = switch_record(vv, KVM_VPMU_RECORD_LOAD);
		vpmu_compat_find_state(vv->hot.vcpu);
		vv->profiled.kvm_ticks = vv->event.kvm_ticks;
		r.value = waited(vv, r.tsc);
		WRITE_ONCE(vv->profiled.halted, false);
		put_switch(&r);
	}
	local_irq_restore(flags);
}

/* Why is the thread switched out, in KVM_RUN? */
static u8 reason_in_run(const struct kvm_vcpu *vcpu)
{
	if (READ_ONCE(vcpu->preempted))
		return KVM_VPMU_PUT_PREEMPTED;
	return READ_ONCE(vcpu->stat.generic.blocking) ? KVM_VPMU_PUT_HALTED : KVM_VPMU_PUT_BLOCKED;
}

static u8 reason_of_put(const struct kvm_vcpu *vcpu)
{
	/* Interrupts are off while the thread is only switched out. */
	return irqs_disabled() ? reason_in_run(vcpu) : KVM_VPMU_PUT_USER;
}

/* A wake-up that comes before this is missed, and the thread hardly sleeps: run_delay is right. */
static void note_sleep(struct vpmu_vcpu *vv, bool halted, u64 woken)
{
	WRITE_ONCE(vv->profiled.woken, woken);
	/* For vpmu_profile_wakes(), which may run on another CPU */
	smp_store_release(&vv->profiled.halted, halted);
}

void vpmu_profile_put(struct vpmu_vcpu *vv)
{
	struct kvm_vpmu_record r;

	vpmu_sched_put(vv);
	if (!vv->running)
		return;
	r = switch_record(vv, KVM_VPMU_RECORD_PUT);
	r.mode = reason_of_put(vv->hot.vcpu);
	r.value = vv->event.kvm_ticks - vv->profiled.kvm_ticks;
	keep_delay(vv, current, current->sched_info.run_delay);
	note_sleep(vv, r.mode == KVM_VPMU_PUT_HALTED, 0);
	put_switch(&r);
}

void vpmu_profile_wakes(struct kvm_vcpu *vcpu)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);

	/* note_sleep() has written woken before. */
	if (vv && smp_load_acquire(&vv->profiled.halted) && !READ_ONCE(vv->profiled.woken))
		WRITE_ONCE(vv->profiled.woken, rdtsc());
}

/* The vCPU is loaded on this CPU. */
static void look_at_loaded(struct vpmu_vcpu *vv)
{
	struct kvm_vpmu_record put = switch_record(vv, KVM_VPMU_RECORD_PUT);
	struct kvm_vpmu_record load = switch_record(vv, KVM_VPMU_RECORD_LOAD);
	u64 kvm_ticks;

	put.tsc = rdtsc();
	load.tsc = put.tsc;
	kvm_ticks = vpmu_event_kvm_ticks(vv, put.tsc);
	put.mode = KVM_VPMU_PUT_READ;
	put.value = kvm_ticks - vv->profiled.kvm_ticks;
	vv->profiled.kvm_ticks = kvm_ticks;
	put_switch(&put);
	put_switch(&load);
}

/* Why isn't the vCPU loaded?  No more than a guess if that ends right now. */
static u8 reason_of_absence(const struct vpmu_vcpu *vv)
{
	struct kvm_vcpu *vcpu = vv->hot.vcpu;

	/* There is no ioctl, or none that runs it. */
	if (!READ_ONCE(vv->running) || !mutex_is_locked(&vcpu->mutex))
		return KVM_VPMU_PUT_USER;
	return reason_in_run(vcpu);
}

/*
 * For how many ns, until @tsc, the vCPU's thread @task has been runnable since its last switch or
 * record without running.  That includes the wait that hasn't ended, which the scheduler adds to
 * run_delay at its end.
 */
static u64 take_delay(struct vpmu_vcpu *vv, const struct task_struct *task, u64 tsc)
{
	u64 queued = READ_ONCE(task->sched_info.last_queued), now = local_clock();
	u64 woken = READ_ONCE(vv->profiled.woken);
	/* A thread that sleeps may be in a queue, too: see waited(). */
	bool awake = task_is_running(task);
	u64 waits = awake && queued && queued < now ? now - queued : 0;
	u64 delay = READ_ONCE(task->sched_info.run_delay) + waits;

	if (delay_is_known(vv, task)) {
		if (!READ_ONCE(vv->profiled.halted))
			waits = delay_since(vv, delay);
		else if (woken)
			waits = since_woken(woken, tsc);
	}
	keep_delay(vv, task, delay);
	note_sleep(vv, true, awake ? tsc : 0);
	return waits;
}

static void look_at_absent(struct vpmu_vcpu *vv)
{
	struct kvm_vpmu_record r = switch_record(vv, KVM_VPMU_RECORD_AWAY);
	struct task_struct *task;

	r.tsc = rdtsc();
	r.mode = reason_of_absence(vv);
	rcu_read_lock();
	/* The thread, while it blocks */
	task = rcu_dereference(vv->hot.vcpu->wait.task);
	if (r.mode == KVM_VPMU_PUT_HALTED && task)
		r.value = take_delay(vv, task, r.tsc);
	rcu_read_unlock();
	put_switch(&r);
}

/* In an interrupt on the CPU where the vCPU seems to have been loaded last */
static void look(void *arg)
{
	struct vpmu_vcpu *vv = arg;

	if (this_cpu_read(vpmu_cpu.vv) == vv) {
		if (vv->running)
			look_at_loaded(vv);
	} else if (!READ_ONCE(vv->loaded)) {
		look_at_absent(vv);
	}
}

/* At those vCPUs that @p is about */
static void look_at_all(const struct profile *p)
{
	struct vpmu_vcpu *vv;
	struct vpmu_vm *vm;

	mutex_lock(&vpmu_vms_lock);
	list_for_each_entry(vm, &vpmu_vms, node) {
		if (p->vm && p->vm != vm->id)
			continue;
		/* Nothing is loaded on a CPU that is offline. */
		list_for_each_entry(vv, &vm->vcpus, sibling)
			if (READ_ONCE(vv->hot.vcpu->cpu) == p->cpu)
				smp_call_function_single(p->cpu, look, vv, true);
	}
	mutex_unlock(&vpmu_vms_lock);
}

static size_t mapping_size(u32 records)
{
	return PAGE_SIZE + PAGE_ALIGN(array_size(records, sizeof(struct kvm_vpmu_record)));
}

static struct profile *alloc_profile(const struct kvm_vpmu_profile *in)
{
	struct profile *p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);

	if (!p)
		return NULL;
	p->ring = __vmalloc(mapping_size(in->records), GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!p->ring) {
		kfree(p);
		return NULL;
	}
	p->record = (void *)p->ring + PAGE_SIZE;
	p->nr = in->records;
	p->cpu = in->cpu;
	p->flags = in->flags;
	return p;
}

/* Which VM is it, and may the caller?  Sets @p's vm and privileged. */
static long find_vm(struct profile *p, const struct kvm_vpmu_profile *in)
{
	struct file *file = NULL;
	struct vpmu_vm *vm;
	long err = 0;

	p->privileged = vpmu_may_read_all();
	if (in->fd == -1 && !p->privileged)
		return -EPERM;
	if (in->fd == -1 && !in->vm)
		return 0;
	if (in->fd >= 0) {
		file = vpmu_get_vm_file(in->fd);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	mutex_lock(&vpmu_vms_lock);
	vm = file ? vpmu_find_vm_by_file(file) : vpmu_find_vm(in->vm);
	if (!vm)
		err = -ENOENT;
	else if (p->flags & KVM_VPMU_PROFILE_KVM_TIME)
		err = vpmu_observe(vm, p, VPMU_OBSERVE_TIME);
	if (!err)
		p->vm = vm->id;
	mutex_unlock(&vpmu_vms_lock);
	if (file)
		fput(file);
	return err;
}

/* Is there another one of the VM and CPU by somebody who isn't privileged? */
static bool has_rival(const struct profile *p)
{
	const struct profile *other;

	lockdep_assert_held(&profiles_lock);
	hlist_for_each_entry(other, per_cpu_ptr(&profiles, p->cpu), node)
		if (other->vm == p->vm && !other->privileged)
			return true;
	return false;
}

static long add_profile(struct profile *p)
{
	long err = 0;

	mutex_lock(&profiles_lock);
	if (!p->privileged && has_rival(p)) {
		err = -EBUSY;
	} else {
		if (!nr_profiles++)
			WRITE_ONCE(session, session + 1);
		hlist_add_head_rcu(&p->node, per_cpu_ptr(&profiles, p->cpu));
	}
	mutex_unlock(&profiles_lock);
	if (!err)
		static_branch_inc(&vpmu_profiling);
	return err;
}

static void remove_profile(struct profile *p)
{
	static_branch_dec(&vpmu_profiling);
	mutex_lock(&profiles_lock);
	hlist_del_rcu(&p->node);
	nr_profiles--;
	mutex_unlock(&profiles_lock);
	synchronize_rcu();
}

static void observe(struct profile *p)
{
	if (p->flags & KVM_VPMU_PROFILE_KVM_TIME && !p->vm)
		vpmu_observe_all();
}

static void stop_observing(struct profile *p)
{
	if (!(p->flags & KVM_VPMU_PROFILE_KVM_TIME))
		return;
	if (p->vm)
		vpmu_observe_end(p);
	else
		vpmu_observe_all_end();
}

struct new_event {
	struct profile *p;
	struct perf_event_attr attr;
};

static long create_event(void *arg)
{
	struct new_event *new = arg;
	struct perf_event *event;

	event = perf_event_create_kernel_counter(&new->attr, new->p->cpu, NULL, sample, new->p);
	if (IS_ERR(event))
		return PTR_ERR(event);
	new->p->event = event;
	return 0;
}

static long start_event(struct profile *p, const struct kvm_vpmu_profile *in)
{
	struct new_event new = {
		.p = p,
		.attr = {
			.type = in->type,
			.size = sizeof(new.attr),
			.config = in->config,
			.sample_period = in->period,
			.freq = !!(in->flags & KVM_VPMU_PROFILE_FREQUENCY),
			.exclude_host = !p->privileged,
		},
	};

	if (!(p->flags & KVM_VPMU_PROFILE_SAMPLES))
		return 0;
	/*
	 * Host perf asks for CAP_PERFMON (perf_allow_cpu()), which a VM's owner needs not have, but
	 * a kernel thread has: one of any CPU; that of the profile may have no time for it.
	 */
	return work_on_cpu(raw_smp_processor_id(), create_event, &new);
}

static void stop_event(struct profile *p)
{
	if (p->event)
		perf_event_release_kernel(p->event);
}

static void free_profile(struct profile *p)
{
	vfree(p->ring);
	kfree(p);
}

static ssize_t profile_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	struct profile *p = file->private_data;
	struct kvm_vpmu_profile_count count = {};

	if (len < sizeof(count))
		return -EINVAL;
	if (p->flags & KVM_VPMU_PROFILE_SWITCHES)
		look_at_all(p);
	if (p->event)
		count.value = perf_event_read_value(p->event, &count.enabled_ns, &count.running_ns);
	return copy_to_user(buf, &count, sizeof(count)) ? -EFAULT : sizeof(count);
}

static int profile_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct profile *p = file->private_data;
	size_t at, size = mapping_size(p->nr);
	int err = 0;

	if (vma->vm_pgoff || vma->vm_end - vma->vm_start != size || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	for (at = 0; !err && at < size; at += PAGE_SIZE)
		err = vm_insert_page(vma, vma->vm_start + at,
				     vmalloc_to_page((void *)p->ring + at));
	return err;
}

static int profile_release(struct inode *inode, struct file *file)
{
	struct profile *p = file->private_data;

	stop_event(p);
	remove_profile(p);
	stop_observing(p);
	free_profile(p);
	return 0;
}

static const struct file_operations profile_fops = {
	.owner = THIS_MODULE,
	.read = profile_read,
	.mmap = profile_mmap,
	.release = profile_release,
	.llseek = noop_llseek,
};

#define ALL_FLAGS	(KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_SWITCHES |	\
			 KVM_VPMU_PROFILE_FREQUENCY | KVM_VPMU_PROFILE_KVM_TIME |	\
			 KVM_VPMU_PROFILE_STACKS | KVM_VPMU_PROFILE_WORDS)

static bool event_is_valid(const struct kvm_vpmu_profile *in)
{
	if (in->flags & KVM_VPMU_PROFILE_WORDS && !(in->flags & KVM_VPMU_PROFILE_STACKS))
		return false;
	if (!(in->flags & KVM_VPMU_PROFILE_SAMPLES))
		return !in->type && !in->config && !in->period &&
		       !(in->flags & (KVM_VPMU_PROFILE_FREQUENCY | KVM_VPMU_PROFILE_STACKS));
	/* A period is a signed number there (perf_event_open()). */
	return (in->type == PERF_TYPE_HARDWARE || in->type == PERF_TYPE_RAW) &&
	       in->period && in->period <= S64_MAX;
}

static bool is_valid(const struct kvm_vpmu_profile *in)
{
	return !in->reserved && !(in->flags & ~ALL_FLAGS) &&
	       in->flags & (KVM_VPMU_PROFILE_SAMPLES | KVM_VPMU_PROFILE_SWITCHES) &&
	       event_is_valid(in) &&
	       is_power_of_2(in->records) && in->records >= KVM_VPMU_PROFILE_MIN_RECORDS &&
	       in->records <= KVM_VPMU_PROFILE_MAX_RECORDS &&
	       (in->fd == -1 || (in->fd >= 0 && !in->vm));
}

long vpmu_profile_open(const void __user *arg)
{
	struct kvm_vpmu_profile in;
	struct profile *p;
	long err;

	BUILD_BUG_ON(sizeof(struct kvm_vpmu_record) != 64);
	if (copy_from_user(&in, arg, sizeof(in)))
		return -EFAULT;
	if (!is_valid(&in))
		return -EINVAL;
	if (in.cpu >= nr_cpu_ids || !cpu_online(in.cpu))
		return -ENODEV;

	p = alloc_profile(&in);
	if (!p)
		return -ENOMEM;
	err = find_vm(p, &in);
	if (err)
		goto free;
	observe(p);
	err = add_profile(p);
	if (err)
		goto stop_observing;
	err = start_event(p, &in);
	if (err)
		goto remove;
	err = anon_inode_getfd("[kvm-vpmu-profile]", &profile_fops, p, O_RDWR | O_CLOEXEC);
	if (err >= 0)
		return err;

	stop_event(p);
remove:
	remove_profile(p);
stop_observing:
	stop_observing(p);
free:
	free_profile(p);
	return err;
}
