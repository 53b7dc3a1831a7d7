/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stubs for the hottest functions: those that each VM exit or each access to a PMU register passes.
 * Their fentry calls go to a stub directly, without ftrace's trampoline, which saves and restores
 * all registers and costs more than all that is done here.
 *
 * A stub is entered with the function's arguments in place.  RET continues with the function,
 * INSTEAD skips the function.  Most of the time a stub finds nothing to do: vpmu_hot is the vCPU
 * loaded here, if that has running counters.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/percpu.h>
#include <asm/unwind_hints.h>

#include "../compat/retired.h"
#include "hot.h"

.macro STUB_START name:req
SYM_FUNC_START(\name)
	/* Only ever called directly. */
	ANNOTATE_NOENDBR
.endm

/* Drop the return address into the function: that of its caller is on top now. */
.macro INSTEAD
	addq	$8, %rsp
	UNWIND_HINT_FUNC
.endm

/*
 * svm_vcpu_run(vcpu, flags) or vmx_vcpu_run(vcpu, flags): about to enter the guest, interrupts are
 * off.  Usually only the entry is tallied, where VM entries count (\counted); elsewhere there is
 * only something to do if HOT_PENDING isn't 0.  If fast.c is to look at the VM exit, \run takes the
 * function's place, and if there is more to do vpmu_run_slowly(), with the object as another
 * argument.
 */
.macro RUN run:req entry:req counted:req
	movq	%gs:vpmu_hot(%rip), %rdx
	testq	%rdx, %rdx
	jz	.Lenter_\@
	/* HOT_SLOW and HOT_WATCH at once */
	cmpq	$0, HOT_SLOW(%rdx)
	jne	.Lwrap_\@
.if \counted == 0
	cmpl	$0, HOT_PENDING(%rdx)
	je	.Lenter_\@
.endif
	pushq	%rdi
	pushq	%rsi
	movq	%rdx, %rdi
	call	\entry
	popq	%rsi
	popq	%rdi
.Lenter_\@:
	RET
.Lwrap_\@:
	INSTEAD
	cmpl	$0, HOT_SLOW(%rdx)
	jne	vpmu_run_slowly
	/* VPMU_WATCH_EVENTS is the sign. */
	cmpl	$0, HOT_WATCH(%rdx)
	js	vpmu_run_slowly
	jmp	\run
.endm

STUB_START vpmu_stub_vcpu_run
	RUN vpmu_vcpu_run vpmu_entry 1
SYM_FUNC_END(vpmu_stub_vcpu_run)

STUB_START vpmu_stub_vcpu_run_uncounted
	RUN vpmu_vcpu_run_uncounted vpmu_entry_uncounted 0
SYM_FUNC_END(vpmu_stub_vcpu_run_uncounted)

/*
 * KVM emulated an instruction (or found that it was a branch) of the vCPU in %rdi.  The vCPU is
 * loaded, so if the hot one here is another, this one has no running counters.
 *
 * Note that one event is pending: the coming VM entry usually makes up for it.  Where VM entries
 * don't count, the physical counters' margin does.
 */
.macro RETIRED pending:req counted:req
	movq	%gs:vpmu_hot(%rip), %rax
	testq	%rax, %rax
	jz	.Loriginal_\@
	cmpq	%rdi, HOT_VCPU(%rax)
	jne	.Loriginal_\@
.if \pending == HOT_PENDING_INSTRUCTION
	incq	HOT_EMULATED(%rax)
.endif
	/* HOT_PENDING and HOT_SLOW at once */
	cmpq	$0, HOT_PENDING(%rax)
	jne	.Lslow_\@
.if \counted == 0
	decq	HOT_MARGIN(%rax)
	js	.Lslow_\@
.endif
	movl	$\pending, HOT_PENDING(%rax)
	INSTEAD
	RET
.Lslow_\@:
	INSTEAD
	movq	%rax, %rdi
	movl	$\pending, %esi
	jmp	vpmu_retired
.Loriginal_\@:
	UNWIND_HINT_FUNC
	RET
.endm

/* kvm_pmu_trigger_event(vcpu, event) */
.macro EVENT_RETIRED counted:req
	cmpq	$COMPAT_RETIRED_INSTRUCTION, %rsi
	je	.Lis_instruction_\@
	cmpq	$COMPAT_RETIRED_INSTRUCTION_PERF, %rsi
	jne	.Lbranch_\@
.Lis_instruction_\@:
	RETIRED HOT_PENDING_INSTRUCTION \counted
.Lbranch_\@:
	cmpq	$COMPAT_RETIRED_BRANCH_AMD, %rsi
	je	.Lis_branch_\@
	cmpq	$COMPAT_RETIRED_BRANCH_INTEL, %rsi
	je	.Lis_branch_\@
	cmpq	$COMPAT_RETIRED_BRANCH_PERF, %rsi
	jne	.Lother_\@
.Lis_branch_\@:
	RETIRED HOT_PENDING_BRANCH \counted
.Lother_\@:
	RET
.endm

STUB_START vpmu_stub_event_retired
	EVENT_RETIRED 1
SYM_FUNC_END(vpmu_stub_event_retired)

STUB_START vpmu_stub_event_retired_uncounted
	EVENT_RETIRED 0
SYM_FUNC_END(vpmu_stub_event_retired_uncounted)

/* kvm_pmu_instruction_retired(vcpu), kvm_pmu_branch_retired(vcpu) */
STUB_START vpmu_stub_instruction_retired
	RETIRED HOT_PENDING_INSTRUCTION 1
SYM_FUNC_END(vpmu_stub_instruction_retired)

STUB_START vpmu_stub_branch_retired
	RETIRED HOT_PENDING_BRANCH 1
SYM_FUNC_END(vpmu_stub_branch_retired)

STUB_START vpmu_stub_instruction_retired_uncounted
	RETIRED HOT_PENDING_INSTRUCTION 0
SYM_FUNC_END(vpmu_stub_instruction_retired_uncounted)

STUB_START vpmu_stub_branch_retired_uncounted
	RETIRED HOT_PENDING_BRANCH 0
SYM_FUNC_END(vpmu_stub_branch_retired_uncounted)

/*
 * perf_guest_get_msrs(nr, data), on Intel's CPUs at each VM entry.  With NULL, KVM leaves the VMCS
 * as it is.
 */
STUB_START vpmu_stub_perf_guest_get_msrs
	movq	%gs:vpmu_hot(%rip), %rax
	testq	%rax, %rax
	jz	.Lask_perf
	cmpl	$0, HOT_MSR_LIST_VALID(%rax)
	je	.Lask_and_note
	INSTEAD
	xorl	%eax, %eax
	RET
.Lask_and_note:
	INSTEAD
	jmp	vpmu_guest_get_msrs
.Lask_perf:
	UNWIND_HINT_FUNC
	RET
SYM_FUNC_END(vpmu_stub_perf_guest_get_msrs)

/*
 * An access to a PMU register of the vCPU in %rdi, which is loaded here but for a few ioctls.  If
 * the vCPU has an object and its guest a PMU, \handler runs, with the object in place of KVM's
 * vCPU.
 */
.macro ACCESS handler:req
	movq	%gs:vpmu_cpu(%rip), %rax
	testq	%rax, %rax
	jz	.Lsearch_\@
	cmpq	%rdi, HOT_VCPU(%rax)
	je	.Lfound_\@
.Lsearch_\@:
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	call	vpmu_find
	popq	%rdx
	popq	%rsi
	popq	%rdi
	testq	%rax, %rax
	jz	.Loriginal_\@
.Lfound_\@:
	cmpl	$0, GUEST_SET(%rax)
	je	.Loriginal_\@
	INSTEAD
	movq	%rax, %rdi
	jmp	\handler
.Loriginal_\@:
	UNWIND_HINT_FUNC
	RET
.endm

/*
 * kvm_arch_vcpu_load(vcpu, cpu) or kvm_arch_vcpu_put(vcpu): if the vCPU has an object, \handler
 * runs, with the object in place of KVM's vCPU.
 */
.macro SWITCH handler:req
	pushq	%rdi
	pushq	%rsi
	call	vpmu_find
	popq	%rsi
	popq	%rdi
	testq	%rax, %rax
	jz	.Loriginal_\@
	INSTEAD
	movq	%rax, %rdi
	jmp	\handler
.Loriginal_\@:
	UNWIND_HINT_FUNC
	RET
.endm

STUB_START vpmu_stub_kvm_arch_vcpu_load
	SWITCH vpmu_vcpu_load
SYM_FUNC_END(vpmu_stub_kvm_arch_vcpu_load)

STUB_START vpmu_stub_kvm_arch_vcpu_put
	SWITCH vpmu_vcpu_put
SYM_FUNC_END(vpmu_stub_kvm_arch_vcpu_put)

/*
 * kvm_pmu_handle_event(vcpu): the vCPU is loaded.  KVM's own counters are off, but KVM may clear
 * its requests.
 */
STUB_START vpmu_stub_kvm_pmu_handle_event
	movq	%gs:vpmu_cpu(%rip), %rax
	testq	%rax, %rax
	jz	.Lhandled
	cmpq	%rdi, HOT_VCPU(%rax)
	jne	.Lhandled
	pushq	%rdi
	movq	%rax, %rdi
	call	vpmu_handle_event
	popq	%rdi
.Lhandled:
	RET
SYM_FUNC_END(vpmu_stub_kvm_pmu_handle_event)

/* perf_event_nmi_handler(type, regs), in each NMI */
STUB_START vpmu_stub_perf_event_nmi_handler
	INSTEAD
	jmp	vpmu_perf_event_nmi_handler
SYM_FUNC_END(vpmu_stub_perf_event_nmi_handler)

/* x86_perf_event_set_period(event), in each NMI of host perf; nothing else is in a register. */
STUB_START vpmu_stub_x86_perf_event_set_period
	pushq	%rdi
	call	vpmu_host_writes_counter
	popq	%rdi
	RET
SYM_FUNC_END(vpmu_stub_x86_perf_event_set_period)

/* rcuwait_wake_up(wait) */
STUB_START vpmu_stub_rcuwait_wake_up
	pushq	%rdi
	call	vpmu_wakes
	popq	%rdi
	RET
SYM_FUNC_END(vpmu_stub_rcuwait_wake_up)

/* kvm_pmu_is_valid_msr(vcpu, index) */
STUB_START vpmu_stub_kvm_pmu_is_valid_msr
	ACCESS vpmu_msr_valid
SYM_FUNC_END(vpmu_stub_kvm_pmu_is_valid_msr)

/* kvm_pmu_get_msr(vcpu, msr), kvm_pmu_set_msr(vcpu, msr) */
STUB_START vpmu_stub_kvm_pmu_get_msr
	ACCESS vpmu_msr_read
SYM_FUNC_END(vpmu_stub_kvm_pmu_get_msr)

STUB_START vpmu_stub_kvm_pmu_set_msr
	ACCESS vpmu_msr_write
SYM_FUNC_END(vpmu_stub_kvm_pmu_set_msr)

/* kvm_pmu_rdpmc(vcpu, index, data) */
STUB_START vpmu_stub_kvm_pmu_rdpmc
	/* VMware's backdoor (arch/x86/kvm/x86.h), or no counter at all */
	testl	$0x10000, %esi
	jnz	.Lbackdoor
	ACCESS vpmu_rdpmc
.Lbackdoor:
	RET
SYM_FUNC_END(vpmu_stub_kvm_pmu_rdpmc)
