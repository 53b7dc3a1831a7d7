/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What KVM itself knows of a vCPU */
#ifndef SELFTESTS_STATS_H
#define SELFTESTS_STATS_H

#include "vm.h"

/* KVM's statistics @name of @vm's vCPU: KVM_GET_STATS_FD of Documentation/virt/kvm/api.rst */
uint64_t kvm_stat(const struct vm *vm, const char *name);

/*
 * Count how often this thread comes to tracepoint @name (GROUP/EVENT) from now on; @filter: as
 * Documentation/trace/events.rst has it, or NULL.
 *
 * Return: a file to read the count from, 8 bytes
 */
int count_tracepoint(const char *name, const char *filter);

#endif
