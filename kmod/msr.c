// SPDX-License-Identifier: GPL-2.0
/*
 * Accesses to PMU registers, by the guest (trapped) and by userspace
 * (KVM_GET_MSRS, KVM_SET_MSRS).
 */
#include <linux/minmax.h>
#include <linux/nospec.h>

#include "counter.h"
#include "msr.h"
#include "open.h"
#include "sched.h"
#include "trace.h"

bool vpmu_msr_valid(struct vpmu_vcpu *vv, u32 msr)
{
	return vpmu_guest_decode(&vv->guest, msr).kind != GUEST_REG_NONE;
}

static u64 read_counter(struct vpmu_vcpu *vv, unsigned int i)
{
	unsigned long flags;

	local_irq_save(flags);
	vpmu_counter_update(vv, i);
	if (++vv->reads == VPMU_OPEN_READS && vpmu_open_may_read(vv))
		vpmu_sched_prepare_reads(vv);
	vv->accessed |= BIT(i);
	local_irq_restore(flags);
	return vv->guest.value[i];
}

/*
 * Clear and set bits of the overflow status.  Host perf may start an event in an interrupt, which
 * synchronizes a counter and may find an overflow (vpmu_counter_overflow()).
 */
static void change_status(struct vpmu_vcpu *vv, u64 clear, u64 set)
{
	unsigned long flags;

	local_irq_save(flags);
	if (vv->open & VPMU_OPEN_STATUS)
		vpmu_open_take_back(vv);
	vv->guest.status = (vv->guest.status & ~clear) | set;
	local_irq_restore(flags);
}

static u64 read_status(struct vpmu_vcpu *vv)
{
	unsigned long flags, mask;

	local_irq_save(flags);
	if (vv->open & VPMU_OPEN_STATUS)
		vpmu_open_take_back(vv);
	/* An overflow without an interrupt is found only by reading the counter. */
	for (mask = vv->placed | vv->software; mask; mask &= mask - 1)
		vpmu_counter_update(vv, __ffs(mask));
	local_irq_restore(flags);
	return vv->guest.status;
}

/* The guest chose the number: keep speculation within the arrays, as KVM does. */
static unsigned int clamp_index(unsigned int i)
{
	return array_index_nospec(i, VPMU_MAX_COUNTERS);
}

/* Return: false if there is no such register */
static bool read_register(struct vpmu_vcpu *vv, u32 msr, u64 *data)
{
	struct guest_reg reg = vpmu_guest_decode(&vv->guest, msr);

	switch (reg.kind) {
	case GUEST_REG_SELECT:
		*data = vv->guest.select[clamp_index(reg.index)];
		return true;
	case GUEST_REG_COUNTER:
	case GUEST_REG_COUNTER_LOW:
		vv->by_rdpmc = false;
		*data = read_counter(vv, clamp_index(reg.index));
		return true;
	case GUEST_REG_FIXED_CONTROL:
		*data = vv->guest.fixed_control;
		return true;
	case GUEST_REG_IN_USE:
		*data = vpmu_guest_in_use(&vv->guest);
		return true;
	case GUEST_REG_STATUS:
		*data = read_status(vv);
		return true;
	case GUEST_REG_CONTROL:
		*data = vv->guest.control;
		return true;
	case GUEST_REG_STATUS_CLEAR:
	case GUEST_REG_STATUS_SET:
		*data = 0;
		return true;
	case GUEST_REG_NONE:
		break;
	}
	return false;
}

static bool read_pmu_msr(struct vpmu_vcpu *vv, u32 msr, u64 *data, bool host_initiated)
{
	if (!read_register(vv, msr, data))
		return false;
	vv->stats.reads++;
	trace_vpmu_msr(vv, false, host_initiated, msr, *data);
	return true;
}

bool vpmu_msr_read_fast(struct vpmu_vcpu *vv, u32 msr, u64 *data)
{
	return read_pmu_msr(vv, msr, data, false);
}

int vpmu_msr_read(struct vpmu_vcpu *vv, struct msr_data *msr)
{
	if (!msr->host_initiated)
		vpmu_sched_watch(vv);
	return !read_pmu_msr(vv, msr->index, &msr->data, msr->host_initiated);
}

bool vpmu_rdpmc_fast(struct vpmu_vcpu *vv, u32 index, u64 *data)
{
	int i;

	if (!vpmu_compat_may_rdpmc(vv->hot.vcpu))
		return false;
	i = vv->guest.ops->by_rdpmc(&vv->guest, index);
	if (i < 0)
		return false;
	vv->stats.rdpmcs++;
	vv->uses_rdpmc |= !vv->guest.control;
	vv->by_rdpmc = true;
	*data = read_counter(vv, clamp_index(i));
	return true;
}

int vpmu_rdpmc(struct vpmu_vcpu *vv, u32 index, u64 *data)
{
	vpmu_sched_watch(vv);
	return !vpmu_rdpmc_fast(vv, index, data);
}

/* Interrupts are off. */
static __always_inline void set_counter(struct vpmu_vcpu *vv, unsigned int i, u64 data,
					enum vpmu_arming arming)
{
	vv->accessed |= BIT(i);
	vv->written |= BIT(i);
	vpmu_counter_set(vv, i, data, arming);
}

static void write_counter(struct vpmu_vcpu *vv, unsigned int i, u64 data,
			  enum vpmu_arming arming)
{
	unsigned long flags;

	local_irq_save(flags);
	set_counter(vv, i, data, arming);
	local_irq_restore(flags);
}

static void write_select(struct vpmu_vcpu *vv, unsigned int i, u64 data,
			 enum vpmu_arming arming)
{
	unsigned long flags;

	if (data == vv->guest.select[i])
		return;

	local_irq_save(flags);
	vpmu_sched_set_select(vv, i, data, arming);
	local_irq_restore(flags);
}

/* The selects of all fixed counters at once */
static void write_fixed_control(struct vpmu_vcpu *vv, u64 data, enum vpmu_arming arming)
{
	unsigned int i;

	vv->guest.fixed_control = data;
	for (i = vv->guest.general; i < vv->guest.nr; i++)
		write_select(vv, i, vpmu_guest_fixed_select(data, i - vv->guest.general),
			     arming);
}

/* Interrupts are off. */
static void set_control(struct vpmu_vcpu *vv, u64 data, enum vpmu_arming arming)
{
	unsigned long before = vv->guest.counting, stop, start;

	vpmu_guest_set_control(&vv->guest, data & vpmu_guest_counter_mask(&vv->guest));
	stop = before & ~vv->guest.counting;
	start = vv->guest.counting & ~before;
	if (stop)
		vpmu_sched_stop(vv, stop);
	if (start)
		vpmu_sched_start(vv, start, arming);
}

static void write_control(struct vpmu_vcpu *vv, u64 data, enum vpmu_arming arming)
{
	unsigned long flags;

	local_irq_save(flags);
	set_control(vv, data, arming);
	local_irq_restore(flags);
}

/* Does a write raise #GP? */
static bool write_faults(const struct guest_pmu *guest, struct guest_reg reg, u64 data,
			 bool host_initiated)
{
	if (guest->ops->reserved && (data & guest->ops->reserved(guest, reg)))
		return true;
	switch (reg.kind) {
	case GUEST_REG_NONE:
		return true;
	case GUEST_REG_STATUS:
		return !host_initiated && guest->ops->read_only_faults;
	case GUEST_REG_IN_USE:
		return !host_initiated;
	default:
		return false;
	}
}

static __always_inline void note_write(struct vpmu_vcpu *vv)
{
	vv->stats.writes++;
	/* open.c waits for reads without a write in between. */
	if (vv->reads > 0)
		vv->reads = 0;
}

static bool write_pmu_msr(struct vpmu_vcpu *vv, u32 msr, u64 data, bool host_initiated)
{
	struct guest_pmu *guest = &vv->guest;
	struct guest_reg reg = vpmu_guest_decode(guest, msr);
	enum vpmu_arming arming = host_initiated ? VPMU_ARM_FOR_ENTRY : VPMU_ARM_FOR_WRMSR;

	if (write_faults(guest, reg, data, host_initiated))
		return false;
	note_write(vv);
	trace_vpmu_msr(vv, true, host_initiated, msr, data);
	switch (reg.kind) {
	case GUEST_REG_SELECT:
		write_select(vv, clamp_index(reg.index), data & guest->ops->select_bits, arming);
		break;
	case GUEST_REG_COUNTER_LOW:
		/* Userspace restores all bits of a counter by this, too. */
		if (!host_initiated)
			data = (s64)(s32)data;
		fallthrough;
	case GUEST_REG_COUNTER:
		write_counter(vv, clamp_index(reg.index), data, arming);
		break;
	case GUEST_REG_FIXED_CONTROL:
		write_fixed_control(vv, data, arming);
		break;
	case GUEST_REG_CONTROL:
		write_control(vv, data, arming);
		break;
	case GUEST_REG_STATUS:
		if (host_initiated)
			change_status(vv, U64_MAX, data & vpmu_guest_counter_mask(guest));
		break;
	case GUEST_REG_STATUS_CLEAR:
		read_status(vv);
		/* Userspace restores all registers: this one must not undo STATUS. */
		if (!host_initiated)
			change_status(vv, data, 0);
		break;
	case GUEST_REG_STATUS_SET:
		if (!host_initiated)
			change_status(vv, 0, data & vpmu_guest_counter_mask(guest));
		break;
	case GUEST_REG_IN_USE:
	case GUEST_REG_NONE:
		break;
	}
	return true;
}

/* AMD's global control, written next most: its reserved bits are dropped.  And the rest. */
static noinline bool write_other(struct vpmu_vcpu *vv, u32 msr, u64 data)
{
	if (msr != GUEST_AMD_CONTROL || vv->guest.set != GUEST_AMD_V2 || trace_vpmu_msr_enabled())
		return write_pmu_msr(vv, msr, data, false);
	note_write(vv);
	set_control(vv, data, VPMU_ARM_FOR_WRMSR);
	return true;
}

/*
 * Interrupts are off.  What a guest's perf writes most on AMD's CPUs comes first; no bit of these
 * registers is #GP.
 */
bool vpmu_msr_write_fast(struct vpmu_vcpu *vv, u32 msr, u64 data)
{
	u32 n = msr - GUEST_AMD_SELECT0;
	unsigned int i;

	if (n >= vv->guest.in_turn || trace_vpmu_msr_enabled())
		return write_other(vv, msr, data);
	note_write(vv);
	i = clamp_index(n / 2);
	if (n & 1) {
		set_counter(vv, i, data, VPMU_ARM_FOR_WRMSR);
		return true;
	}
	data &= vv->guest.ops->select_bits;
	if (data != vv->guest.select[i])
		vpmu_sched_set_select(vv, i, data, VPMU_ARM_FOR_WRMSR);
	return true;
}

int vpmu_msr_write(struct vpmu_vcpu *vv, struct msr_data *msr)
{
	if (!msr->host_initiated)
		vpmu_sched_watch(vv);
	return !write_pmu_msr(vv, msr->index, msr->data, msr->host_initiated);
}
