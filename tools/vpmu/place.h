/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a sample was taken, in words. */
#ifndef PLACE_H
#define PLACE_H

#include "guest_map.h"
#include "recording.h"

/* Room for an address, or a process */
#define PLACE_SIZE	64

/* Whose time it is */
enum place_kind {
	PLACE_HOST,	/* a process of the host, or none */
	PLACE_VMM,	/* a VM's process, outside KVM */
	PLACE_KVM,	/* KVM, for a vCPU */
	PLACE_KERNEL,	/* a guest's kernel */
	PLACE_USER,	/* a guest's processes */
	PLACE_NESTED,	/* a guest of a guest */
	PLACE_GUEST,	/* a guest that doesn't show its privilege level */
	PLACE_KINDS
};

/**
 * struct place - where
 * @kind: whose time
 * @vm: the VM; NULL: none
 * @process: of the host or the guest; for one that isn't known, its page table's address
 * @function: the function, else the address without its last 12 bits
 * @module: file or module; "" if not known
 * @named: @function is a name
 * @buffer: for those texts that are made here
 */
struct place {
	enum place_kind kind;
	const struct vm *vm;
	const char *process, *function, *module;
	bool named;
	char buffer[2][PLACE_SIZE];
};

/**
 * struct frame - a caller
 * @function: as in struct place
 * @module: see there
 * @named: see there
 * @ip: an address in its call, or where it was interrupted
 * @buffer: for a function without a name
 */
struct frame {
	const char *function, *module;
	bool named;
	uint64_t ip;
	char buffer[PLACE_SIZE];
};

/**
 * struct places - what names are taken from
 * @recording: the recording
 * @map: of the guests, one for each of @recording's VMs; NULL: none
 */
struct places {
	const struct recording *recording;
	struct guest_map **map;
};

/* Where @recorded, a sample, was taken.  @place points into itself, and into @places. */
void place_of(const struct places *places, const struct recorded *recorded, struct place *place);

/*
 * Who called it, the innermost first: up to KVM_VPMU_STACK_MAX frames, which point into themselves
 * and into @places.  Return: how many.
 */
unsigned int place_callers(const struct places *places, const struct recorded *recorded,
			   struct frame *frame);

/* The PID that the process of @recorded, a sample in guest mode, has in the guest; 0: not known */
uint32_t place_guest_pid(const struct places *places, const struct recorded *recorded);

/* "host", "KVM", "guest kernel" ... */
const char *place_kind_name(enum place_kind kind);

/* The name of @vm, or "?" */
const char *place_vm_name(const struct vm *vm);

#endif
