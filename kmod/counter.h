/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A guest counter's value while the counter is on a physical one.  Interrupts are off for all of
 * this, and the vCPU is loaded on this CPU.
 */
#ifndef VPMU_COUNTER_H
#define VPMU_COUNTER_H

#include <linux/compiler.h>
#include <linux/lockdep.h>

#include "compat/compat.h"
#include "compat/host.h"
#include "event.h"
#include "vpmu.h"

/* All physical counters are free, on all CPUs. */
void vpmu_counter_init(void);

/* No vCPU of this module is left. */
void vpmu_counter_exit(void);

/* The guest's privilege level: VPMU_KERNEL or VPMU_USER */
static inline int vpmu_level(struct vpmu_vcpu *vv)
{
	return vpmu_compat_get_cpl(vv->hot.vcpu) ? VPMU_USER : VPMU_KERNEL;
}

/*
 * Guest counter @i, below VPMU_MAX_COUNTERS.  Its address is kept in a register: compilers would
 * rather work it out again at each use, three instructions at a time.
 */
static __always_inline struct vpmu_counter *vpmu_counter(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = &vv->counter[i];

	OPTIMIZER_HIDE_VAR(c);
	return c;
}

/* Guest counter @i overflowed: set the status bit, and request the interrupt. */
void vpmu_counter_overflow(struct vpmu_vcpu *vv, unsigned int i);

/* KVM emulated an event of @class for the guest: add it to the tally. */
void vpmu_count_emulated(struct vpmu_vcpu *vv, enum vpmu_class class);

void __vpmu_flush_pending(struct vpmu_vcpu *vv);

/* Bring the tally up to date, before anybody reads it. */
static inline void vpmu_flush_pending(struct vpmu_vcpu *vv)
{
	if (unlikely(vv->hot.pending))
		__vpmu_flush_pending(vv);
}

/*
 * What the coming VM entry adds to counter @c beyond what the guest does, provided that the guest
 * is entered at @level.
 */
static inline int vpmu_counter_next_entry(const struct vpmu_counter *c, int level)
{
	return vpmu_hw->entry_counts && c->count.class != VPMU_OTHER &&
	       (c->count.filter & BIT(level));
}

/* Can physical counter @slot count the event of @c? */
static inline bool vpmu_counter_fits(int slot, const struct vpmu_counter *c)
{
	if (c->pinned)
		return slot == c->index;
	return !vpmu_hw->fits || vpmu_hw->fits(slot, c->select);
}

/* Has neither host perf nor a guest physical counter @slot? */
static __always_inline bool vpmu_counter_is_free(const struct vpmu_cpu *pc, int slot)
{
	return pc->owner[slot] == VPMU_NO_SLOT && !(pc->host_saved & BIT(slot)) &&
	       ((pc->cleared & BIT(slot)) || !vpmu_hw->in_use(slot));
}

/*
 * Is counter @i, which has a slot, on that physical counter now?  One that borrows isn't once an
 * NMI has given the physical counter back.
 */
static inline bool vpmu_holds_slot(const struct vpmu_vcpu *vv, const struct vpmu_cpu *pc,
				   unsigned int i)
{
	return !(vv->borrowing & BIT(i)) || (READ_ONCE(pc->lent) & BIT(vv->counter[i].slot));
}

/* The counters that were started */
static inline unsigned long vpmu_started(const struct vpmu_vcpu *vv)
{
	return vv->placed | vv->borrowing | vv->software;
}

/* Physical counters have a guest's values: tell host perf. */
static inline void vpmu_counter_note_taken(struct vpmu_cpu *pc)
{
	if (pc->taken)
		vpmu_compat_host_counters_taken(vpmu_hw_index_mask(vpmu_hw, pc->taken));
	pc->taken = 0;
}

/* Before a physical counter of this CPU is started */
static __always_inline void vpmu_counter_prepare(struct vpmu_cpu *pc)
{
	if (pc->prepared)
		return;
	vpmu_hw->prepare();
	pc->prepared = true;
}

/*
 * The physical counter of @c overflowed, and the NMI is still to come: it will find no
 * overflow.
 */
void vpmu_counter_expect_nmi(struct vpmu_vcpu *vv, const struct vpmu_counter *c);

/*
 * The rest of vpmu_counter_sync_value() if the physical counter (@wrapped) or the guest's
 * overflowed, or @gain is impossible.
 */
bool vpmu_counter_sync_overflow(struct vpmu_vcpu *vv, struct vpmu_counter *c, s64 gain,
				bool wrapped);

/*
 * Add what a counter gained to the guest's value; @hw is the physical value.  @seen: if the
 * physical counter overflowed, the NMI came already.
 */
static __always_inline bool vpmu_counter_sync_value(struct vpmu_vcpu *vv, struct vpmu_counter *c,
						    u64 hw, bool seen)
{
	bool wrapped = vpmu_count_wrapped(&c->count, hw);
	u64 value;
	s64 gain;

	/* First, as the NMI's handler sees no overflow any more where @c has @hw. */
	if (unlikely(wrapped) && !seen)
		vpmu_counter_expect_nmi(vv, c);
	gain = vpmu_count_sync(&c->count, &vv->tally, hw);
	value = vv->guest.value[c->index] + gain;
	if (unlikely(wrapped || gain < 0 || value > VPMU_COUNTER_MASK))
		return vpmu_counter_sync_overflow(vv, c, gain, wrapped);
	vv->guest.value[c->index] = value;
	return false;
}

/*
 * Whether the NMI handler has seen the counter overflow, and forget it: before the counter is read,
 * so that a later overflow is seen next time.
 */
static inline bool vpmu_counter_take_overflowed(struct vpmu_counter *c)
{
	bool seen = c->overflowed;

	c->overflowed = false;
	barrier();
	return seen;
}

/* vpmu_counter_sync() of a counter that is on a physical one */
static __always_inline bool vpmu_counter_sync_slot(struct vpmu_vcpu *vv, struct vpmu_counter *c)
{
	bool seen;

	vpmu_flush_pending(vv);
	seen = vpmu_counter_take_overflowed(c);
	return vpmu_counter_sync_value(vv, c, static_call(vpmu_hw_read)(c->slot), seen);
}

/* vpmu_counter_sync(), for where each instruction matters */
static __always_inline bool __vpmu_counter_sync(struct vpmu_vcpu *vv, unsigned int i)
{
	struct vpmu_counter *c = vpmu_counter(vv, i);

	lockdep_assert_irqs_disabled();
	if (c->slot != VPMU_NO_SLOT)
		return vpmu_counter_sync_slot(vv, c);
	if (vv->borrowing & BIT(i))
		vpmu_flush_pending(vv);
	else if ((vv->software & BIT(i)) && vpmu_event_sync(vv, c))
		vpmu_counter_overflow(vv, i);
	return false;
}

/**
 * vpmu_counter_sync() - bring a counter's guest value up to date
 * @vv: the vCPU
 * @i: the guest counter, which goes on
 *
 * An overflow of the guest's counter is dealt with.
 *
 * Return: whether only the physical counter overflowed, which then has to be armed again.
 */
bool vpmu_counter_sync(struct vpmu_vcpu *vv, unsigned int i);

/* The same, and arm the counter again if that is necessary. */
void vpmu_counter_update(struct vpmu_vcpu *vv, unsigned int i);

/* vpmu_counter_sync() for all counters of @mask, which count the hypervisor's events */
void vpmu_counter_sync_events(struct vpmu_vcpu *vv, unsigned long mask);

unsigned int vpmu_counter_arm_margin(struct vpmu_vcpu *vv, const struct vpmu_counter *c,
				     enum vpmu_arming arming);

/*
 * Before counters are armed: bring the tally up to date.
 *
 * Return: the level that the guest will be entered at, where that matters.
 */
static inline int vpmu_counter_prepare_arming(struct vpmu_vcpu *vv)
{
	vpmu_flush_pending(vv);
	return vpmu_hw->entry_counts ? vpmu_level(vv) : VPMU_KERNEL;
}

/* Nobody has asked for the guest's level yet, which may not matter. */
#define VPMU_LEVEL_UNKNOWN	(-1)

/*
 * The bias (vpmu_count_arm()) of counter @c, which is in vpmu_vcpu.exact: the physical value then
 * overflows together with the guest's.  The tally is up to date.
 * @level: of vpmu_counter_prepare_arming(), or VPMU_LEVEL_UNKNOWN
 *
 * The coming VM entry makes up for an instruction that KVM completes.
 */
static __always_inline int vpmu_counter_bias(struct vpmu_vcpu *vv, struct vpmu_counter *c,
					     int level, enum vpmu_arming arming)
{
	if (!vpmu_hw->entry_counts)
		return -(int)vpmu_counter_arm_margin(vv, c, arming);
	/* Not below 0: a physical value ahead of the guest's could have overflowed. */
	if (arming != VPMU_ARM_FOR_ENTRY && c->count.class == VPMU_INSTRUCTION)
		return 0;

	if (level == VPMU_LEVEL_UNKNOWN)
		level = vpmu_level(vv);
	/* Userspace may still change the level, but not behind a WRMSR. */
	if (arming != VPMU_ARM_FOR_WRMSR) {
		vv->armed_level = level;
		vv->hot.slow |= VPMU_SLOW_ARMED;
	}
	return vpmu_counter_next_entry(c, level);
}

/* The physical value; see above */
static __always_inline u64 vpmu_counter_armed_value(struct vpmu_vcpu *vv, struct vpmu_counter *c,
						    int level, enum vpmu_arming arming)
{
	u64 value = vv->guest.value[c->index];

	/* Without an interrupt, the overflow is found by reading a register. */
	if (!(vv->exact & BIT(c->index)))
		return vpmu_count_arm(&c->count, &vv->tally, value, 0);
	return vpmu_count_arm(&c->count, &vv->tally, value,
			      vpmu_counter_bias(vv, c, level, arming));
}

/* Counter @c is on a physical one that is @ahead events ahead: vpmu_count_fall_back(). */
static inline bool vpmu_counter_fall_back(struct vpmu_counter *c, s64 ahead)
{
	u64 hw = vpmu_hw->read(c->slot);

	if (!vpmu_count_fall_back(&c->count, &hw, ahead))
		return false;
	vpmu_hw->write(c->slot, hw);
	return true;
}

/* Counter @i becomes @value.  An overflow so far is dealt with first. */
void vpmu_counter_set(struct vpmu_vcpu *vv, unsigned int i, u64 value, enum vpmu_arming arming);

/* Make the physical counter, if there is one, overflow together with the guest's. */
void vpmu_counter_arm(struct vpmu_vcpu *vv, unsigned int i, enum vpmu_arming arming);

#endif
