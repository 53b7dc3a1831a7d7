/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints kvm_vpmu:*.  None is on the way of a VM exit.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvm_vpmu

#if !defined(VPMU_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define VPMU_TRACE_H

#include <linux/tracepoint.h>

/*
 * A vCPU with a PMU was loaded on this CPU.
 * placed: counters on physical ones; borrowing: counters that share one with
 * host perf; taken: TSC ticks that were just taken out of the guest's TSC.
 */
TRACE_EVENT(vpmu_load,
	TP_PROTO(const struct vpmu_vcpu *vv, u64 taken),
	TP_ARGS(vv, taken),
	TP_STRUCT__entry(
		__field(int, pid)
		__field(int, vcpu)
		__field(unsigned int, placed)
		__field(unsigned int, borrowing)
		__field(u64, taken)
	),
	TP_fast_assign(
		__entry->pid = vv->hot.vcpu->kvm->userspace_pid;
		__entry->vcpu = vv->hot.vcpu->vcpu_id;
		__entry->placed = hweight_long(vv->placed);
		__entry->borrowing = hweight_long(vv->borrowing);
		__entry->taken = taken;
	),
	TP_printk("pid=%d vcpu=%d placed=%u borrowing=%u taken=%llu",
		  __entry->pid, __entry->vcpu, __entry->placed,
		  __entry->borrowing, __entry->taken)
);

/* It is put; the same, before. */
TRACE_EVENT(vpmu_put,
	TP_PROTO(const struct vpmu_vcpu *vv),
	TP_ARGS(vv),
	TP_STRUCT__entry(
		__field(int, pid)
		__field(int, vcpu)
		__field(unsigned int, placed)
		__field(unsigned int, borrowing)
	),
	TP_fast_assign(
		__entry->pid = vv->hot.vcpu->kvm->userspace_pid;
		__entry->vcpu = vv->hot.vcpu->vcpu_id;
		__entry->placed = hweight_long(vv->placed);
		__entry->borrowing = hweight_long(vv->borrowing);
	),
	TP_printk("pid=%d vcpu=%d placed=%u borrowing=%u",
		  __entry->pid, __entry->vcpu, __entry->placed,
		  __entry->borrowing)
);

/* The guest, or userspace (host=1), read or wrote a PMU register. */
TRACE_EVENT(vpmu_msr,
	TP_PROTO(const struct vpmu_vcpu *vv, bool write, bool host, u32 msr, u64 data),
	TP_ARGS(vv, write, host, msr, data),
	TP_STRUCT__entry(
		__field(int, pid)
		__field(int, vcpu)
		__field(bool, write)
		__field(bool, host)
		__field(u32, msr)
		__field(u64, data)
	),
	TP_fast_assign(
		__entry->pid = vv->hot.vcpu->kvm->userspace_pid;
		__entry->vcpu = vv->hot.vcpu->vcpu_id;
		__entry->write = write;
		__entry->host = host;
		__entry->msr = msr;
		__entry->data = data;
	),
	TP_printk("pid=%d vcpu=%d %s msr=%#x data=%#llx host=%d",
		  __entry->pid, __entry->vcpu, __entry->write ? "write" : "read",
		  __entry->msr, __entry->data, __entry->host)
);

DECLARE_EVENT_CLASS(vpmu_counter,
	TP_PROTO(const struct vpmu_vcpu *vv, unsigned int counter),
	TP_ARGS(vv, counter),
	TP_STRUCT__entry(
		__field(int, pid)
		__field(int, vcpu)
		__field(unsigned int, counter)
		__field(u64, select)
	),
	TP_fast_assign(
		__entry->pid = vv->hot.vcpu->kvm->userspace_pid;
		__entry->vcpu = vv->hot.vcpu->vcpu_id;
		__entry->counter = counter;
		__entry->select = vv->guest.select[counter];
	),
	TP_printk("pid=%d vcpu=%d counter=%u select=%#llx",
		  __entry->pid, __entry->vcpu, __entry->counter, __entry->select)
);

/* A counter of the guest overflowed. */
DEFINE_EVENT(vpmu_counter, vpmu_overflow,
	TP_PROTO(const struct vpmu_vcpu *vv, unsigned int counter),
	TP_ARGS(vv, counter)
);

/* For that, the guest gets its interrupt at the coming entry. */
DEFINE_EVENT(vpmu_counter, vpmu_inject,
	TP_PROTO(const struct vpmu_vcpu *vv, unsigned int counter),
	TP_ARGS(vv, counter)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
