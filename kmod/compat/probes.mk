# SPDX-License-Identifier: GPL-2.0
#
# What the kernel's headers show of its interfaces: COMPAT_HAVE_... for each that is there.  Versions
# say little: distributions' kernels have more than their number tells.

# $(call header_has,FACT,HEADERS,REGULAR EXPRESSION)
header_has = $(if $(shell cd $(srctree) && grep -lE '$(3)' $(2) 2>/dev/null),-DCOMPAT_HAVE_$(1))

vpmu-ftrace := include/linux/ftrace.h include/linux/ftrace_regs.h arch/x86/include/asm/ftrace.h
vpmu-kvm := arch/x86/include/asm/kvm_host.h

# 6.2: the arguments of a traced function by its ftrace_regs, and an instruction pointer to set
ccflags-y += $(call header_has,FTRACE_ARGUMENT,$(vpmu-ftrace),ftrace_regs_get_argument)
# 6.4: direct calls by an ftrace_ops ("ftrace: Rename _ftrace_direct_multi APIs to _ftrace_direct APIs")
ccflags-y += $(call header_has,DIRECT_OPS,include/linux/ftrace.h,register_ftrace_direct.struct ftrace_ops)
# 6.11, and stable kernels from 2026 on: a flag for KVM_RUN ("KVM: Introduce vcpu->wants_to_run")
ccflags-y += $(call header_has,WANTS_TO_RUN,include/linux/kvm_host.h,bool wants_to_run;)
# 6.13: a lock for the vCPU's thread ("KVM: Protect vCPU's \"last run PID\" with rwlock, not RCU")
ccflags-y += $(call header_has,PID_LOCK,include/linux/kvm_host.h,rwlock_t pid_lock;)
# 6.10: protected guests ("KVM: x86: add fields to struct kvm_arch for CoCo features")
ccflags-y += $(call header_has,PROTECTED_STATE,$(vpmu-kvm),bool has_protected_state;)
# 6.3: masked events in filters ("kvm: x86/pmu: Introduce masked events to the pmu event filter")
ccflags-y += $(call header_has,MASKED_FILTER,$(vpmu-kvm),struct kvm_x86_pmu_event_filter)
# up to 7.2: their structure is public
ccflags-y += $(call header_has,PUBLIC_FILTER,$(vpmu-kvm),^struct kvm_x86_pmu_event_filter .$$)
# 7.2: RIP isn't among the other registers (not found in which commit)
ccflags-y += $(call header_has,OWN_RIP,$(vpmu-kvm),^.unsigned long rip;)
