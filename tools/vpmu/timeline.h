/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each vCPU did when, from its switches. */
#ifndef TIMELINE_H
#define TIMELINE_H

#include "recording.h"

/* What a vCPU does.  All of its time is in one of these. */
enum vcpu_state {
	VCPU_UNKNOWN,	/* before anything of it was recorded, or where switches were lost */
	VCPU_LOADED,	/* in guest mode, or in KVM for the guest */
	VCPU_HALTED,	/* the guest has nothing to do */
	VCPU_STOLEN,	/* its thread could run, but another one does */
	VCPU_WAITING,	/* KVM waits for something, as memory or a lock */
	VCPU_VMM,	/* KVM_RUN isn't called: the VMM works, or waits */
	VCPU_STATES
};

/**
 * struct interval - a vCPU is in one state
 * @vm: number of its VM
 * @vcpu: KVM's identity of the vCPU
 * @cpu: where it is loaded, or was last
 * @state: the state
 * @from: the TSC at the beginning
 * @to: at the end
 * @kvm_ticks: VCPU_LOADED: ticks of these in KVM
 */
struct interval {
	uint64_t vm;
	int32_t vcpu;
	uint32_t cpu;
	enum vcpu_state state;
	uint64_t from, to;
	uint64_t kvm_ticks;
};

/**
 * struct vcpu_times - all of a vCPU's time in a recording, in ticks
 * @vm: number of its VM
 * @vcpu: KVM's identity of the vCPU
 * @in: by state; their sum is from the recording's begin to its end
 * @kvm: ticks of @in[VCPU_LOADED] in KVM; the others are in guest mode
 * @stolen: how often time was stolen
 */
struct vcpu_times {
	uint64_t vm;
	int32_t vcpu;
	uint64_t in[VCPU_STATES];
	uint64_t kvm;
	uint64_t stolen;
};

/*
 * Call @call for all intervals of all vCPUs that were loaded or looked at in @recording.  Those of
 * one vCPU are in order and have no gaps.
 */
void timeline_run(const struct recording *recording,
		  void (*call)(const struct interval *interval, void *arg), void *arg);

/* Add them up: *@times is an array by VM and vCPU, to be freed.  Return: its length. */
size_t timeline_sum(const struct recording *recording, struct vcpu_times **times);

/* "loaded", "halted" ... */
const char *timeline_state_name(enum vcpu_state state);

#endif
