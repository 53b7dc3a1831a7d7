/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VMs by their names. */
#ifndef VM_H
#define VM_H

#include <linux/kvm_vpmu.h>
#include <stdio.h>

#include "device.h"
#include "guest_clock.h"
#include "vpmu.h"

/* Room for a name */
#define VM_NAME_SIZE	128

/**
 * struct vm - one VM
 * @info: what the device told
 * @name: see vm_name()
 * @clock: its TSC; of recordings only
 */
struct vm {
	struct kvm_vpmu_vm info;
	char name[VM_NAME_SIZE];
	struct guest_clock clock;
};

/**
 * struct vm_list - all of them, by their numbers
 * @vm: the VMs
 * @count: how many
 */
struct vm_list {
	struct vm *vm;
	size_t count;
};

/*
 * The value of the last -name, as QEMU takes it ("NAME[,debug-threads=on]..." or
 * "guest=NAME..."), of the @len bytes of arguments in @cmdline, each of which
 * ends with NUL.  False if there is none.
 */
bool vm_name_from_cmdline(const char *cmdline, size_t len, char name[VM_NAME_SIZE]);

/*
 * The name of process @pid's VM: QEMU's -name, else the process's own, else "?"
 * (the process ended; or we are in another PID namespace, where its number
 * would be somebody else's).  @proc is where procfs is mounted.
 */
void vm_name(const char *proc, int pid, char name[VM_NAME_SIZE]);

/*
 * List the VMs of @dev, with names: 0 or a negative error number.  The name of a
 * VM is read once for as long as @dev is open: the process may be stuck, or end,
 * and its PID become another one's.
 */
int vm_list_get(struct vm_list *list, struct device *dev, const char *proc);

/* The same with only VM @id, whose name alone is read; an empty list if there is none. */
int vm_list_get_one(struct vm_list *list, struct device *dev, const char *proc, __u64 id);

/* Free what @list holds. */
void vm_list_free(struct vm_list *list);

/*
 * Find the VM that a user calls @arg: "#ID", the PID, or the name.  A PID goes
 * before a name of digits.  STATUS_OK, STATUS_NO_VM or, when several fit,
 * STATUS_USAGE; the last two with a message, and the candidates, on @messages.
 */
enum status vm_find(const struct vm_list *list, const char *arg, struct vm *vm, FILE *messages);

/*
 * The same among all VMs of @dev, whose failure is told on stderr (STATUS_ERROR).
 * Names of others aren't read if @arg is a number.
 */
enum status vm_lookup(struct device *dev, const char *proc, const char *arg, struct vm *vm,
		      FILE *messages);

/* The names of settings, as arguments and output have them; NULL if there is none. */
const char *vm_freeze_name(__u32 freeze);
const char *vm_tsc_name(__u32 tsc);
const char *vm_events_name(__u32 events);
const char *vm_registers_name(__u32 registers);

/* The opposite; false if @name is none. */
bool vm_freeze_parse(const char *name, __u32 *freeze);
bool vm_tsc_parse(const char *name, __u32 *tsc);
bool vm_events_parse(const char *name, __u32 *events);

#endif
