/* SPDX-License-Identifier: GPL-2.0 */
/* A guest's call graph, from outside */
#ifndef VPMU_STACK_H
#define VPMU_STACK_H

#include "vpmu.h"

/* In the NMI that made the guest exit: note where its stack is. */
void vpmu_stack_note(struct vpmu_stack *stack, struct kvm_vcpu *vcpu);

/**
 * vpmu_stack_walk() - find the callers, while the guest hasn't run again
 * @stack: what was noted
 * @vcpu: the vCPU, loaded
 * @address: room for KVM_VPMU_STACK_MAX return addresses, the innermost first
 * @why: set to KVM_VPMU_STACK_...: why there are no more
 *
 * Return: how many addresses there are.
 */
unsigned int vpmu_stack_walk(const struct vpmu_stack *stack, struct kvm_vcpu *vcpu, u64 *address,
			     u8 *why);

/**
 * vpmu_stack_words() - find what may be return addresses and frame pointers of a kernel
 * @stack: what was noted
 * @vcpu: the vCPU, loaded
 * @word: room for KVM_VPMU_STACK_MAX words, as KVM_VPMU_WORDS_OFFSET describes
 * @why: set to KVM_VPMU_STACK_...: why there are no more
 *
 * Return: how many words there are.
 */
unsigned int vpmu_stack_words(const struct vpmu_stack *stack, struct kvm_vcpu *vcpu, u64 *word,
			      u8 *why);

#endif
