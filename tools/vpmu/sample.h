/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all vCPUs did up to now, and between two such looks. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "vm.h"

/* The figures of struct kvm_vpmu_vcpu, in the order of output */
enum figure {
	FIGURE_EXITS,
	FIGURE_EMULATED,
	FIGURE_OVERFLOWS,
	FIGURE_IN_KVM,
	FIGURE_PMIS,
	FIGURE_EARLY,
	FIGURE_READS,
	FIGURE_WRITES,
	FIGURE_RDPMCS,
	FIGURE_FAST,
	FIGURE_OPEN,
	FIGURE_EVICTED,
	FIGURE_BORROWED,
	FIGURE_GAPS,
	FIGURE_ANOMALIES,
	FIGURES,
};

/* A figure's name, as output and JSON have it. */
const char *figure_name(enum figure figure);

/* A figure of @vcpu. */
__u64 figure(const struct kvm_vpmu_vcpu *vcpu, enum figure figure);

/**
 * struct sample_vm - one VM
 * @vm: which
 * @vcpu: its vCPUs
 * @vcpus: how many
 * @events: the hypervisor's events of each; NULL if they weren't asked for
 */
struct sample_vm {
	struct vm vm;
	struct kvm_vpmu_vcpu *vcpu;
	size_t vcpus;
	struct kvm_vpmu_events *events;
};

/* What to look at beside the figures */
enum sample_events {
	SAMPLE_NO_EVENTS,
	SAMPLE_EVENTS,		/* the hypervisor's events, as far as they are counted anyway */
	SAMPLE_ALL_EVENTS,	/* all: the VMs are observed as long as the device is open */
};

/**
 * struct sample - one look
 * @time: when, CLOCK_MONOTONIC
 * @vm: the VMs, by their numbers
 * @vms: how many
 */
struct sample {
	__u64 time;
	struct sample_vm *vm;
	size_t vms;
};

/* CLOCK_MONOTONIC in nanoseconds */
__u64 sample_now(void);

/*
 * Look at all VMs, or at the one numbered @id if that isn't 0: 0 or a negative
 * error number.  VMs that end meanwhile are left out.
 */
int sample_take(struct sample *sample, struct device *dev, const char *proc, __u64 id,
		enum sample_events events);

/* Free what @sample holds. */
void sample_free(struct sample *sample);

/* The same vCPU in an earlier sample; NULL if it wasn't there, or @before is NULL. */
const struct kvm_vpmu_vcpu *sample_find(const struct sample *before,
					const struct kvm_vpmu_vcpu *vcpu);

/* The same of its events, which both have looked at */
const struct kvm_vpmu_events *sample_find_events(const struct sample *before,
						 const struct kvm_vpmu_vcpu *vcpu);

/* Is counter @counter worth a line: does or did it count anything? */
bool counter_used(const struct kvm_vpmu_counter *counter);

/*
 * How far counter @i of @vcpu has come since @before.  False if that can't be
 * told: the guest has given it another event or value.
 */
bool counter_gain(const struct kvm_vpmu_vcpu *vcpu, const struct kvm_vpmu_vcpu *before,
		  unsigned int i, __u64 *gain);

#endif
