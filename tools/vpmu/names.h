/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the host's addresses and processes are called. */
#ifndef NAMES_H
#define NAMES_H

#include <json-c/json.h>
#include <linux/kvm_vpmu_profile.h>

struct names;

/* Nothing noted.  @proc is where procfs is mounted. */
struct names *names_new(const char *proc);
void names_free(struct names *names);

/*
 * Note whose sample @record is, and in the host, which address.  A process's memory map is read
 * when the first sample of its own code is noted, as the process may end.
 */
void names_note(struct names *names, const struct kvm_vpmu_record *record);

/*
 * All that can be named of that, as recording.h has it: an array of objects with "pid", "ip", "name"
 * and "module".  Functions of the kernel need CAP_SYSLOG, those of other users' processes
 * CAP_SYS_PTRACE.
 */
struct json_object *names_resolve(struct names *names);

#endif
