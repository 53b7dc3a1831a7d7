// SPDX-License-Identifier: GPL-2.0
/*
 * Which pages each vCPU accesses and writes (probe.h).
 *
 * A vCPU's thread begins and ends the vCPU's windows, in front of a VM entry: between that and the
 * VM exit before, the guest changes nothing.  The thread that waits for the windows ends those of
 * vCPUs that don't run.
 */
#include <linux/anon_inodes.h>
#include <linux/bitmap.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <asm/msr.h>
#include <uapi/linux/kvm_vpmu_probe.h>

#include "compat/mmu.h"
#include "probe.h"
#include "report.h"
#include "scan.h"
#include "vcpu.h"

/* So many page frames are looked at without a pause: 256 MiB of them */
#define SCAN_PAGES	BIT_ULL(16)

/* A vCPU that runs ends its window at the next VM entry; one that waits for its CPU doesn't. */
#define END_TIMEOUT	(HZ / 10)

/**
 * struct probed_vcpu - a vCPU of a probe
 * @vv: the vCPU
 * @p: the probe
 * @task: the thread that @event counts, with a reference; NULL before the first window
 * @event: host perf's; NULL also if that refused
 * @counted: what @event had counted before the window
 * @tables: address of the page tables that the window began with
 * @out: its part of the mapping
 * @accessed: see there
 * @written: see there
 * @mapped: page frames that can be in a set: those of the window's begin, unless mapped since
 *
 * All but @p and @vv is changed under vpmu_probed.lock, @mapped also by the vCPU's own thread.
 */
struct probed_vcpu {
	struct vpmu_vcpu *vv;
	struct probe *p;
	struct task_struct *task;
	struct perf_event *event[KVM_VPMU_PROBE_EVENTS];
	u64 counted[KVM_VPMU_PROBE_EVENTS];
	hpa_t tables;
	struct kvm_vpmu_probed *out;
	unsigned long *accessed;
	unsigned long *written;
	unsigned long *mapped;
};

/**
 * struct probe - an open probe
 * @in: what userspace wants
 * @kvm: the VM, with a reference
 * @lock: one caller waits for windows at a time
 * @wait: where
 * @set_size: bytes of a set
 * @area: the mapping
 * @nr: how many vCPUs
 * @vcpu: these
 */
struct probe {
	struct kvm_vpmu_probe in;
	struct kvm *kvm;
	struct mutex lock;	/* see above */
	wait_queue_head_t wait;
	size_t set_size;
	void *area;
	unsigned int nr;
	struct probed_vcpu vcpu[KVM_VPMU_PROBE_MAX_VCPUS];
};

DEFINE_STATIC_KEY_FALSE(vpmu_probing);

/* ---- a vCPU's page tables */

/**
 * struct scan - entries of a vCPU's page tables are looked at
 * @pv: the vCPU
 * @begin: note what is there, and clear the bits; else note the bits
 * @from: page frames from here
 * @to: to here
 */
struct scan {
	struct probed_vcpu *pv;
	bool begin;
	u64 from;
	u64 to;
};

static struct vpmu_scan_bits scan_bits(void)
{
	return (struct vpmu_scan_bits){
		.present = COMPAT_PRESENT_BIT,
		.accessed = vpmu_compat_accessed_bit(),
		.dirty = vpmu_compat_dirty_bit(),
	};
}

/*
 * Clear an entry's bits, and return what is there then.  Nobody sets bits meanwhile: the vCPU,
 * whose thread this is, isn't in guest mode, and no other uses this table.  Nor does anybody take
 * the page away, as mmu_lock is held for writing.  Without that lock KVM only clears accessed bits
 * (kvm_tdp_mmu_age_spte(), from 6.15 on).  So no atomic operation is needed.  40,000 of them would
 * take a quarter of a millisecond (tools/bench/programs/scan.c).
 */
static u64 clear_entry(u64 *at, u64 entry)
{
	if (!vpmu_compat_is_present(entry))
		return entry;
	if (entry & vpmu_compat_dirty_bit())
		vpmu_compat_keep_dirty(entry);
	entry &= ~(vpmu_compat_accessed_bit() | vpmu_compat_dirty_bit());
	WRITE_ONCE(*at, entry);
	return entry;
}

/*
 * @table maps pages from @frame on.  It is inside of what is scanned, as KVM_VPMU_PROBE_PAGES is a
 * multiple of a table's length.
 */
static void scan_pages(const struct scan *s, u64 *table, u64 frame)
{
	struct probed_vcpu *pv = s->pv;
	unsigned long word = frame / VPMU_SCAN_PAGES;
	unsigned int i;

	for (i = 0; i < PTRS_PER_PTE; i += VPMU_SCAN_PAGES, word++) {
		if (s->begin) {
			pv->mapped[word] = vpmu_scan_begin(&table[i], scan_bits(), clear_entry);
		} else {
			const u64 mapped = pv->mapped[word];
			u64 accessed, written, there;

			there = vpmu_scan_end(&table[i], scan_bits(), &accessed, &written);
			pv->accessed[word] = accessed & mapped;
			pv->written[word] = written & mapped;
			pv->out->mapped += hweight64(mapped & there);
			pv->out->gone += hweight64(mapped & ~there);
		}
	}
}

/* No table maps page frames @from to @to any more. */
static void scan_hole(const struct scan *s, u64 from, u64 to)
{
	const struct probed_vcpu *pv = s->pv;

	from = max(from, s->from);
	to = min(to, s->to);
	if (!s->begin)
		pv->out->gone += bitmap_weight(pv->mapped + from / BITS_PER_LONG, to - from);
}

/* @table maps page frames from @frame on. */
static void scan_table(const struct scan *s, u64 *table, int level, u64 frame)
{
	const unsigned int shift = 9 * (level - 1);
	unsigned int i = s->from > frame ? (s->from - frame) >> shift : 0;

	if (level == 1) {
		scan_pages(s, table, frame);
		return;
	}
	for (frame += (u64)i << shift; i < PTRS_PER_PTE && frame < s->to; i++) {
		u64 entry = READ_ONCE(table[i]);

		if (vpmu_compat_is_present(entry) && !vpmu_compat_is_large(entry))
			scan_table(s, vpmu_compat_table(entry), level - 1, frame);
		else
			scan_hole(s, frame, frame + (1ull << shift));
		frame += 1ull << shift;
	}
}

/*
 * Has @table, which maps page frames from @frame on, pages from @pages on?  Tables that are empty
 * but for MMIO are few, so that the first page above ends this.
 */
static bool has_beyond(const u64 *table, int level, u64 frame, u64 pages)
{
	const unsigned int shift = 9 * (level - 1);
	unsigned int i = pages > frame ? (pages - frame) >> shift : 0;

	for (frame += (u64)i << shift; i < PTRS_PER_PTE; i++) {
		u64 entry = READ_ONCE(table[i]);

		if (!vpmu_compat_is_present(entry))
			;
		else if (level == 1 || vpmu_compat_is_large(entry))
			return true;
		else if (has_beyond(vpmu_compat_table(entry), level - 1, frame, pages))
			return true;
		frame += 1ull << shift;
	}
	return false;
}

/* False if the page tables aren't those of the window's begin any more */
static bool scan_part(const struct scan *s)
{
	struct kvm_vcpu *vcpu = s->pv->vv->hot.vcpu;
	bool same;

	/*
	 * The vCPU's thread drops its page tables under the lock for reading at least.  KVM frees
	 * those below when RCU allows (tdp_mmu_free_sp_rcu_callback()).
	 */
	write_lock(&vcpu->kvm->mmu_lock);
	rcu_read_lock();
	same = vpmu_compat_tables(vcpu) == s->pv->tables;
	if (same)
		scan_table(s, __va(s->pv->tables), vpmu_compat_levels(vcpu), 0);
	if (same && !s->begin && s->to == s->pv->p->in.pages &&
	    has_beyond(__va(s->pv->tables), vpmu_compat_levels(vcpu), 0, s->to))
		s->pv->out->flags |= KVM_VPMU_PROBED_BEYOND;
	rcu_read_unlock();
	write_unlock(&vcpu->kvm->mmu_lock);
	return same;
}

static bool scan(struct probed_vcpu *pv, bool begin)
{
	const u64 pages = pv->p->in.pages;
	struct scan s = { .pv = pv, .begin = begin };

	for (; s.from < pages; s.from = s.to) {
		s.to = min(s.from + SCAN_PAGES, pages);
		if (!scan_part(&s))
			return false;
		cond_resched();
	}
	return true;
}

/* ---- events */

/* The vCPU's thread is to do what is due, when KVM checks requests the next time. */
static void request(struct vpmu_vcpu *vv)
{
	WRITE_ONCE(vv->probed.due, true);
	kvm_make_request(KVM_REQ_PMU, vv->hot.vcpu);
}

/* In an NMI */
static void overflow(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct probed_vcpu *pv = event->overflow_handler_context;

	WRITE_ONCE(pv->vv->probed.over, true);
	request(pv->vv);
}

static void release_events(struct probed_vcpu *pv)
{
	unsigned int i;

	for (i = 0; i < KVM_VPMU_PROBE_EVENTS; i++) {
		if (pv->event[i])
			perf_event_release_kernel(pv->event[i]);
		pv->event[i] = NULL;
	}
	if (pv->task)
		put_task_struct(pv->task);
	pv->task = NULL;
}

static struct perf_event *create_event(const struct kvm_vpmu_probe *in, unsigned int i,
				       struct probed_vcpu *pv)
{
	struct perf_event_attr attr = {
		.type = in->type[i],
		.size = sizeof(attr),
		.config = in->config[i],
		.sample_period = i ? 0 : in->period,
		.disabled = true,
		.pinned = true,
		.exclude_host = true,
	};

	return perf_event_create_kernel_counter(&attr, -1, current, i ? NULL : overflow, pv);
}

/* Does host perf know these events? */
static int check_events(const struct kvm_vpmu_probe *in)
{
	struct perf_event *event;
	unsigned int i;

	for (i = 0; i < in->events; i++) {
		event = create_event(in, i, NULL);
		if (IS_ERR(event))
			return PTR_ERR(event);
		perf_event_release_kernel(event);
	}
	return 0;
}

/* In the thread that runs the vCPU, which may not have been that one so far */
static void prepare_events(struct probed_vcpu *pv)
{
	struct perf_event *event;
	unsigned int i;

	if (pv->task == current)
		return;
	release_events(pv);
	pv->task = get_task_struct(current);
	for (i = 0; i < pv->p->in.events; i++) {
		event = create_event(&pv->p->in, i, pv);
		if (!IS_ERR(event))
			pv->event[i] = event;
	}
}

/* Events count from here on, or up to here. */
static void start_events(struct probed_vcpu *pv)
{
	u64 enabled, running;
	unsigned int i;

	prepare_events(pv);
	for (i = 0; i < pv->p->in.events; i++) {
		if (!pv->event[i])
			continue;
		pv->counted[i] = perf_event_read_value(pv->event[i], &enabled, &running);
		if (!i)
			perf_event_period(pv->event[i], pv->p->in.period);
		perf_event_enable(pv->event[i]);
	}
}

static void stop_events(struct probed_vcpu *pv)
{
	u64 enabled, running;
	unsigned int i;

	for (i = 0; i < pv->p->in.events; i++) {
		if (pv->event[i])
			perf_event_disable(pv->event[i]);
		if (!pv->event[i] || pv->event[i]->state == PERF_EVENT_STATE_ERROR) {
			pv->out->flags |= KVM_VPMU_PROBED_NO_COUNT;
			continue;
		}
		pv->out->count[i] = perf_event_read_value(pv->event[i], &enabled, &running) -
				    pv->counted[i];
	}
}

/* ---- windows, under vpmu_probed.lock */

static bool is_open(const struct probed_vcpu *pv)
{
	return READ_ONCE(pv->out->state) == KVM_VPMU_PROBED_OPEN;
}

static void clear_sets(struct probed_vcpu *pv)
{
	*pv->out = (struct kvm_vpmu_probed){
		.vcpu = pv->out->vcpu,
		.state = KVM_VPMU_PROBED_NOT,
	};
	bitmap_zero(pv->accessed, pv->p->in.pages);
	bitmap_zero(pv->written, pv->p->in.pages);
}

/* False: once more, when KVM has made page tables, as KVM does before each VM entry */
static bool begin_window(struct probed_vcpu *pv)
{
	struct kvm_vcpu *vcpu = pv->vv->hot.vcpu;

	/* SMM has other page tables. */
	if (vcpu->arch.hflags & HF_SMM_MASK)
		return true;
	pv->tables = vpmu_compat_tables(vcpu);
	/* A nested guest's page tables don't help. */
	if (!VALID_PAGE(pv->tables))
		return !vpmu_compat_uses_tables(vcpu);
	bitmap_zero(pv->mapped, pv->p->in.pages);
	pv->out->fresh = 0;
	scan(pv, true);
	/* The TLB may have pages with the bits that were cleared. */
	kvm_make_request(KVM_REQ_TLB_FLUSH, vcpu);
	pv->out->state = KVM_VPMU_PROBED_OPEN;
	pv->out->begin = rdtsc();
	WRITE_ONCE(pv->vv->probed.over, false);
	start_events(pv);
	return true;
}

static void end_window(struct probed_vcpu *pv, u32 state)
{
	const u64 pages = pv->p->in.pages;
	struct kvm_vpmu_probed *out = pv->out;

	stop_events(pv);
	out->end = rdtsc();
	if (!scan(pv, false))
		out->flags |= KVM_VPMU_PROBED_REPLACED;
	out->accessed = bitmap_weight(pv->accessed, pages);
	out->written = bitmap_weight(pv->written, pages);
	WRITE_ONCE(out->state, state);
	wake_up(&pv->p->wait);
}

void vpmu_probe_work(struct vpmu_vcpu *vv)
{
	struct vpmu_probed *probed = &vv->probed;
	struct probed_vcpu *pv;

	mutex_lock(&probed->lock);
	WRITE_ONCE(probed->due, false);
	pv = rcu_dereference_protected(probed->pv, lockdep_is_held(&probed->lock));
	if (probed->drop) {
		probed->drop = false;
		vpmu_compat_drop_tables(vv->hot.vcpu);
	}
	if (pv && probed->begin) {
		if (begin_window(pv))
			probed->begin = false;
		else
			request(vv);
	} else if (pv && is_open(pv) && READ_ONCE(probed->over)) {
		end_window(pv, KVM_VPMU_PROBED_WHOLE);
	} else if (pv && is_open(pv) && READ_ONCE(probed->stop)) {
		end_window(pv, KVM_VPMU_PROBED_SHORT);
	}
	mutex_unlock(&probed->lock);
}

void vpmu_probe_map(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	struct vpmu_vcpu *vv = vpmu_find(vcpu);
	u64 frame = gpa >> PAGE_SHIFT;
	struct probed_vcpu *pv;

	rcu_read_lock();
	pv = rcu_dereference(vv->probed.pv);
	if (pv && frame < pv->p->in.pages) {
		__clear_bit(frame, pv->mapped);
		pv->out->fresh++;
	}
	rcu_read_unlock();
}

/* ---- the thread that waits */

/* Let the vCPU's thread do what is due before the guest executes another instruction. */
static void ask(struct vpmu_vcpu *vv)
{
	WRITE_ONCE(vv->probed.due, true);
	vpmu_vcpu_kick(vv->hot.vcpu);
}

static bool all_ended(struct probe *p)
{
	unsigned int i;

	for (i = 0; i < p->nr; i++)
		if (READ_ONCE(p->vcpu[i].out->state) < KVM_VPMU_PROBED_WHOLE)
			return false;
	return true;
}

/* Those that are loaded end their own windows. */
static bool all_ended_or_put(struct probe *p)
{
	unsigned int i;

	for (i = 0; i < p->nr; i++)
		if (is_open(&p->vcpu[i]) && READ_ONCE(p->vcpu[i].vv->loaded))
			return false;
	return true;
}

static void begin_windows(struct probe *p)
{
	unsigned int i;

	for (i = 0; i < p->nr; i++) {
		struct probed_vcpu *pv = &p->vcpu[i];

		mutex_lock(&pv->vv->probed.lock);
		clear_sets(pv);
		pv->vv->probed.stop = false;
		pv->vv->probed.begin = true;
		mutex_unlock(&pv->vv->probed.lock);
	}
	for (i = 0; i < p->nr; i++)
		ask(p->vcpu[i].vv);
}

/* Return: how many vCPUs have had one */
static int end_windows(struct probe *p)
{
	unsigned int i;
	int nr = 0;

	for (i = 0; i < p->nr; i++) {
		WRITE_ONCE(p->vcpu[i].vv->probed.stop, true);
		if (is_open(&p->vcpu[i]))
			ask(p->vcpu[i].vv);
	}
	wait_event_timeout(p->wait, all_ended_or_put(p), END_TIMEOUT);
	for (i = 0; i < p->nr; i++) {
		struct probed_vcpu *pv = &p->vcpu[i];

		mutex_lock(&pv->vv->probed.lock);
		pv->vv->probed.begin = false;
		if (is_open(pv))
			end_window(pv, KVM_VPMU_PROBED_SHORT);
		nr += pv->out->state != KVM_VPMU_PROBED_NOT;
		mutex_unlock(&pv->vv->probed.lock);
	}
	return nr;
}

static long window(struct probe *p, const u32 __user *arg)
{
	u32 timeout;
	long left;
	int nr;

	if (get_user(timeout, arg))
		return -EFAULT;
	if (mutex_lock_interruptible(&p->lock))
		return -EINTR;
	begin_windows(p);
	left = wait_event_interruptible_timeout(p->wait, all_ended(p), msecs_to_jiffies(timeout));
	nr = end_windows(p);
	mutex_unlock(&p->lock);
	return left < 0 ? -EINTR : nr;
}

static long probe_ioctl(struct file *file, unsigned int request, unsigned long arg)
{
	if (request != KVM_VPMU_PROBE_WINDOW)
		return -ENOTTY;
	return window(file->private_data, (const u32 __user *)arg);
}

/* ---- open and close */

static size_t part_size(const struct probe *p)
{
	return PAGE_SIZE + 2 * p->set_size;
}

static int probe_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct probe *p = file->private_data;
	size_t at, size = p->nr * part_size(p);
	int err = 0;

	if (vma->vm_pgoff || vma->vm_end - vma->vm_start != size || vma->vm_flags & VM_WRITE)
		return -EINVAL;
	for (at = 0; !err && at < size; at += PAGE_SIZE)
		err = vm_insert_page(vma, vma->vm_start + at, vmalloc_to_page(p->area + at));
	return err;
}

/* The vCPU's own page tables stay, unused, until KVM drops all of the VM's. */
static void leave(struct probed_vcpu *pv)
{
	struct vpmu_probed *probed = &pv->vv->probed;

	mutex_lock(&probed->lock);
	rcu_assign_pointer(probed->pv, NULL);
	WRITE_ONCE(probed->tag, 0);
	probed->begin = false;
	probed->drop = true;
	mutex_unlock(&probed->lock);
	ask(pv->vv);
}

static void free_probe(struct probe *p)
{
	unsigned int i;

	for (i = 0; i < p->nr; i++)
		kvfree(p->vcpu[i].mapped);
	vfree(p->area);
	kfree(p);
}

/* The opposite of enter() */
static void leave_all(struct probe *p)
{
	unsigned int i;

	for (i = 0; i < p->nr; i++)
		leave(&p->vcpu[i]);
	static_branch_dec(&vpmu_probing);
	for (i = 0; i < p->nr; i++)
		release_events(&p->vcpu[i]);
	/* vpmu_probe_map() */
	synchronize_rcu();
}

static int probe_release(struct inode *inode, struct file *file)
{
	struct probe *p = file->private_data;

	leave_all(p);
	vpmu_compat_put_vm(p->kvm);
	free_probe(p);
	return 0;
}

static const struct file_operations probe_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = probe_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = probe_mmap,
	.release = probe_release,
	.llseek = noop_llseek,
};

static int alloc_sets(struct probe *p)
{
	unsigned int i;

	p->set_size = p->in.pages / BITS_PER_BYTE;
	p->area = __vmalloc(p->nr * part_size(p), GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!p->area)
		return -ENOMEM;
	for (i = 0; i < p->nr; i++) {
		struct probed_vcpu *pv = &p->vcpu[i];

		pv->out = p->area + i * part_size(p);
		pv->accessed = (void *)pv->out + PAGE_SIZE;
		pv->written = (void *)pv->accessed + p->set_size;
		pv->out->vcpu = pv->vv->hot.vcpu->vcpu_id;
		pv->mapped = kvzalloc(p->set_size, GFP_KERNEL_ACCOUNT);
		if (!pv->mapped)
			return -ENOMEM;
	}
	return 0;
}

/* Sets @p's VM and vCPUs; under vpmu_vms_lock, or the VM's number may be another one's. */
static int find_vcpus(struct probe *p, const struct vpmu_vm *vm)
{
	const u32 first = p->in.first;
	struct vpmu_vcpu *vv;

	list_for_each_entry(vv, &vm->vcpus, sibling) {
		u32 id = vv->hot.vcpu->vcpu_id;

		if (id < first || id - first >= p->in.nr)
			continue;
		if (!vpmu_compat_has_tables(vv->hot.vcpu))
			return -EOPNOTSUPP;
		p->vcpu[p->nr].vv = vv;
		p->vcpu[p->nr++].p = p;
	}
	if (!p->nr)
		return -ENOENT;
	p->kvm = vm->kvm;
	return vpmu_compat_get_vm(vm->kvm) ? 0 : -ENOENT;
}

static int find_vm(struct probe *p)
{
	struct file *file = NULL;
	struct vpmu_vm *vm;
	int err;

	if (p->in.fd == -1 && !vpmu_may_read_all())
		return -EPERM;
	if (p->in.fd >= 0) {
		file = vpmu_get_vm_file(p->in.fd);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	mutex_lock(&vpmu_vms_lock);
	vm = file ? vpmu_find_vm_by_file(file) : vpmu_find_vm(p->in.vm);
	err = vm ? find_vcpus(p, vm) : -ENOENT;
	mutex_unlock(&vpmu_vms_lock);
	if (file)
		fput(file);
	return err;
}

/* The VM's vCPUs get page tables of their own, unless some already have. */
static int enter(struct probe *p)
{
	struct vpmu_vcpu *vv;
	unsigned int i;
	bool busy = false;

	/* A vCPU with a tag finds the hooks on. */
	static_branch_inc(&vpmu_probing);
	mutex_lock(&vpmu_vms_lock);
	list_for_each_entry(vv, &p->vcpu[0].vv->vm->vcpus, sibling)
		busy |= READ_ONCE(vv->probed.tag);
	for (i = 0; !busy && i < p->nr; i++) {
		struct vpmu_probed *probed = &p->vcpu[i].vv->probed;

		mutex_lock(&probed->lock);
		rcu_assign_pointer(probed->pv, &p->vcpu[i]);
		WRITE_ONCE(probed->tag, i + 1);
		probed->drop = true;
		mutex_unlock(&probed->lock);
	}
	mutex_unlock(&vpmu_vms_lock);
	if (busy) {
		static_branch_dec(&vpmu_probing);
		return -EBUSY;
	}
	for (i = 0; i < p->nr; i++)
		ask(p->vcpu[i].vv);
	return 0;
}

static bool is_valid(const struct kvm_vpmu_probe *in)
{
	unsigned int i;

	if (!in->events || in->events > KVM_VPMU_PROBE_EVENTS)
		return false;
	for (i = 0; i < in->events; i++)
		if (in->type[i] != PERF_TYPE_HARDWARE && in->type[i] != PERF_TYPE_RAW)
			return false;
	/* A period is a signed number there (perf_event_open()). */
	return in->period && in->period <= S64_MAX &&
	       in->nr && in->nr <= KVM_VPMU_PROBE_MAX_VCPUS &&
	       in->pages && in->pages <= KVM_VPMU_PROBE_MAX_PAGES &&
	       !(in->pages % KVM_VPMU_PROBE_PAGES) &&
	       (in->fd == -1 ? in->vm != 0 : in->fd >= 0 && !in->vm);
}

long vpmu_probe_open(const void __user *arg)
{
	struct probe *p;
	long err;

	BUILD_BUG_ON(KVM_VPMU_PROBE_MAX_VCPUS > COMPAT_MAX_TAGS);
	BUILD_BUG_ON(KVM_VPMU_PROBE_PAGES != PAGE_SIZE * BITS_PER_BYTE);
	p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);
	if (!p)
		return -ENOMEM;
	mutex_init(&p->lock);
	init_waitqueue_head(&p->wait);
	err = -EFAULT;
	if (copy_from_user(&p->in, arg, sizeof(p->in)))
		goto free;
	err = -EINVAL;
	if (!is_valid(&p->in))
		goto free;
	err = check_events(&p->in);
	if (err)
		goto free;
	err = find_vm(p);
	if (err)
		goto free;
	err = alloc_sets(p);
	if (err)
		goto put;
	err = enter(p);
	if (err)
		goto put;
	/* Without O_RDWR, a mapping can't be made writable later (do_mmap()). */
	err = anon_inode_getfd("[kvm-vpmu-probe]", &probe_fops, p, O_RDONLY | O_CLOEXEC);
	if (err >= 0)
		return err;

	leave_all(p);
put:
	vpmu_compat_put_vm(p->kvm);
free:
	free_probe(p);
	return err;
}
