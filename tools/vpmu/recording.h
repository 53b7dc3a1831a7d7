/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recordings of the host and its guests: what "vpmu record" writes, and the commands behind it read.
 *
 * A file has a head, then chunks, in the byte order of x86:
 *
 *	INFO	JSON, first: what was recorded, when and where
 *	RECORDS	struct kvm_vpmu_record of one CPU, in the ring's order; any number of these
 *	MAP	the number of a VM (64 bits), then what vpmu-guest-map wrote in its guest; any number
 *	END	JSON, last: what was lost; names of VMs, processes and the host's functions.  Missing
 *		if the recording was killed
 */
#ifndef RECORDING_H
#define RECORDING_H

#include <json-c/json.h>
#include <linux/kvm_vpmu_profile.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "vm.h"

#define RECORDING_MAGIC		"VPMUPROF"
#define RECORDING_VERSION	2
#define RECORDING_FILE		"vpmu.data"

struct recording_head {
	char magic[8];
	uint32_t version;
	uint32_t reserved;
};

enum recording_chunk_type { RECORDING_INFO = 1, RECORDING_RECORDS, RECORDING_END, RECORDING_MAP };

/**
 * struct recording_chunk - what a chunk begins with
 * @type: enum recording_chunk_type; readers skip those that they don't know
 * @cpu: of RECORDS
 * @size: bytes behind this head
 */
struct recording_chunk {
	uint32_t type;
	uint32_t cpu;
	uint64_t size;
};

/**
 * struct moment - a point in time, on three clocks
 * @tsc: the TSC
 * @ns: CLOCK_MONOTONIC_RAW, whose relation to the TSC is the TSC's frequency
 * @time: CLOCK_REALTIME, in ns
 */
struct moment {
	uint64_t tsc, ns, time;
};

/**
 * struct recorded - a record
 * @r: as the module wrote it
 * @cpu: on which CPU
 */
struct recorded {
	struct kvm_vpmu_record r;
	uint32_t cpu;
};

/**
 * struct recorded_stack - the callers of a sample in guest mode, or words of its stack
 * @tsc: the sample's TSC
 * @vm: the sample's VM
 * @vcpu: the sample's vCPU
 * @why: KVM_VPMU_STACK_...: why there are no more
 * @first: index of the innermost return address, or the first word, in recording.address
 * @nr: how many there are
 */
struct recorded_stack {
	uint64_t tsc, vm;
	int32_t vcpu;
	uint32_t why;
	size_t first, nr;
};

/**
 * struct recorded_stacks - those of all samples
 * @stack: by VM, vCPU and TSC
 * @count: how many
 */
struct recorded_stacks {
	struct recorded_stack *stack;
	size_t count;
};

/**
 * struct recording_map - names of a guest
 * @vm: number of its VM
 * @text: what vpmu-guest-map wrote
 * @size: how many bytes
 */
struct recording_map {
	uint64_t vm;
	char *text;
	size_t size;
};

/**
 * struct recording_name - what the host knew an address as, or a process
 * @pid: the process; 0 for addresses of the kernel
 * @ip: the address; 0 for the process itself
 * @name: the function, or the process's name
 * @module: the function's file or kernel module; NULL: none
 */
struct recording_name {
	uint32_t pid;
	uint64_t ip;
	const char *name;
	const char *module;
};

/**
 * struct recording - a file in memory
 * @info: chunk INFO
 * @end_info: chunk END; NULL: the recording was killed
 * @host: the host's name; NULL: not known
 * @kernel: its kernel; NULL: not known
 * @event: what was sampled; "" for switches only
 * @period: events from one sample to the next; 0 with @frequency
 * @frequency: samples per second that were asked for; 0 with @period
 * @cpus: how many CPUs
 * @begin: all that was recorded has a TSC from here
 * @end: up to here
 * @record: all samples and switches, by their TSCs
 * @count: how many
 * @room: bytes that there is memory for
 * @stacks: samples' callers, by frame pointers
 * @words: of samples in guests' kernels: words of their stacks
 * @address: what both consist of
 * @addresses: how many of these
 * @vm: the VMs, by their numbers
 * @vms: how many
 * @name: names, by PID and address
 * @names: how many
 * @map: names of guests
 * @maps: of how many
 * @lost: records that there was no room for
 * @throttled: how often host perf paused the event
 * @enabled: ns for which the event was to count, on all CPUs
 * @running: for how many of these it did
 */
struct recording {
	struct json_object *info, *end_info;
	const char *host, *kernel, *event;
	uint64_t period, frequency;
	unsigned int cpus;
	struct moment begin, end;
	struct recorded *record;
	size_t count, room;
	struct recorded_stacks stacks, words;
	uint64_t *address;
	size_t addresses;
	struct vm *vm;
	size_t vms;
	struct recording_name *name;
	size_t names;
	struct recording_map *map;
	size_t maps;
	uint64_t lost, throttled, enabled, running;
};

/* Now.  The TSC is between those before and behind the other clocks. */
struct moment moment_now(void);
struct json_object *moment_json(struct moment moment);

/* Write a part of a file; false, with errno: that failed. */
bool recording_write_head(FILE *file);
bool recording_write_json(FILE *file, enum recording_chunk_type type, struct json_object *object);
bool recording_write_records(FILE *file, unsigned int cpu, const struct kvm_vpmu_record *record,
			     size_t count);
bool recording_write_map(FILE *file, const struct recording_map *map);

/* Read file @path; false with a message on @messages: it is none, or broken. */
bool recording_read(struct recording *recording, const char *path, FILE *messages);

/* Free what recording_read() took. */
void recording_free(struct recording *recording);

/* The name of @ip in process @pid, or of the process if @ip is 0; NULL: not known. */
const struct recording_name *recording_find(const struct recording *recording, uint32_t pid,
					    uint64_t ip);

/* Is it a sample, and not in front of the beginning or behind the end? */
bool recording_is_sample(const struct recording *recording, const struct recorded *recorded);

/* The callers of @recorded, a sample; NULL: not recorded.  The same, the words of its stack. */
const struct recorded_stack *recording_stack(const struct recording *recording,
					     const struct recorded *recorded);
const struct recorded_stack *recording_words(const struct recording *recording,
					     const struct recorded *recorded);

/* The VM with number @id; NULL: none */
const struct vm *recording_vm(const struct recording *recording, uint64_t id);

/* TSC ticks of the host as nanoseconds, and back */
double recording_ns(const struct recording *recording, uint64_t ticks);
uint64_t recording_ticks(const struct recording *recording, uint64_t ns);

#endif
