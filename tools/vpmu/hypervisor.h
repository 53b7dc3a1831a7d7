/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hypervisor's events: their names, for people, perf and libpfm4. */
#ifndef HYPERVISOR_H
#define HYPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct hypervisor_event - one of them
 * @umask: KVM_VPMU_EVENT_... of linux/kvm_vpmu.h
 * @name: letters, digits and dashes
 * @description: one line
 */
struct hypervisor_event {
	unsigned int umask;
	const char *name;
	const char *description;
};

/* All of them, in the order of their unit masks, up to one without a name */
extern const struct hypervisor_event hypervisor_events[];

/* By name; NULL if there is none. */
const struct hypervisor_event *hypervisor_event_find(const char *name);

/* By event select register, of an Intel vCPU or AMD's; NULL if it selects another event. */
const struct hypervisor_event *hypervisor_event_of(uint64_t select, bool intel);

/* KVM has no statistic of it: counted while a VM is observed only (KVM_VPMU_EVENTS_OBSERVE) */
bool hypervisor_event_needs_observer(const struct hypervisor_event *event);

/* The event code, and what an event select register has with the unit mask */
uint64_t hypervisor_event_code(bool intel);
uint64_t hypervisor_event_select(const struct hypervisor_event *event, bool intel);

#endif
