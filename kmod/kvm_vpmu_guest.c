// SPDX-License-Identifier: GPL-2.0
/*
 * For guests: names of the hypervisor's events in sysfs, for "perf stat -e kvm_vpmu/exits/".  An
 * event of this PMU becomes one of the CPU's, whose counters count the hypervisor's events.  This
 * module counts nothing itself.
 *
 * The events are in include/uapi/linux/kvm_vpmu.h, what they mean in docs/counting.md, the names in
 * tools/vpmu/hypervisor.c as well.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/perf_event.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>
#include <uapi/linux/kvm_vpmu.h>

static const struct {
	const char *name;
	u64 mask;
} events[] = {
	{ "exits", KVM_VPMU_EVENT_EXITS },
	{ "exits-io", KVM_VPMU_EVENT_EXITS_IO },
	{ "exits-mmio", KVM_VPMU_EVENT_EXITS_MMIO },
	{ "exits-halt", KVM_VPMU_EVENT_EXITS_HALT },
	{ "exits-irq", KVM_VPMU_EVENT_EXITS_IRQ },
	{ "exits-irq-window", KVM_VPMU_EVENT_EXITS_IRQ_WINDOW },
	{ "exits-nmi-window", KVM_VPMU_EVENT_EXITS_NMI_WINDOW },
	{ "exits-signal", KVM_VPMU_EVENT_EXITS_SIGNAL },
	{ "hypercalls", KVM_VPMU_EVENT_HYPERCALLS },
	{ "nested-entries", KVM_VPMU_EVENT_NESTED_ENTRIES },
	{ "exits-msr", KVM_VPMU_EVENT_EXITS_MSR },
	{ "exits-cpuid", KVM_VPMU_EVENT_EXITS_CPUID },
	{ "exits-nmi", KVM_VPMU_EVENT_EXITS_NMI },
	{ "exits-pause", KVM_VPMU_EVENT_EXITS_PAUSE },
	{ "exits-user", KVM_VPMU_EVENT_EXITS_USER },
	{ "faults", KVM_VPMU_EVENT_FAULTS },
	{ "faults-fixed", KVM_VPMU_EVENT_FAULTS_FIXED },
	{ "faults-fast", KVM_VPMU_EVENT_FAULTS_FAST },
	{ "faults-spurious", KVM_VPMU_EVENT_FAULTS_SPURIOUS },
	{ "emulated", KVM_VPMU_EVENT_EMULATED },
	{ "irqs", KVM_VPMU_EVENT_IRQS },
	{ "nmis", KVM_VPMU_EVENT_NMIS },
	{ "tlb-flushes", KVM_VPMU_EVENT_TLB_FLUSHES },
	{ "moves", KVM_VPMU_EVENT_MOVES },
	{ "node-moves", KVM_VPMU_EVENT_NODE_MOVES },
	{ "kvm-ticks", KVM_VPMU_EVENT_TICKS_KVM },
	{ "steal", KVM_VPMU_EVENT_TICKS_STEAL },
	{ "halted", KVM_VPMU_EVENT_TICKS_HALTED },
};

/* An event's config is the unit mask, in which bit 7 is KVM_VPMU_EVENT_TWICE. */
#define CONFIG_MASK	0xffULL

PMU_FORMAT_ATTR(event, "config:0-6");
PMU_FORMAT_ATTR(each, "config:7");

static struct attribute *format_attributes[] = {
	&format_attr_event.attr,
	&format_attr_each.attr,
	NULL
};

static const struct attribute_group format_group = {
	.name = "format",
	.attrs = format_attributes,
};

static struct perf_pmu_events_attr event_attributes[ARRAY_SIZE(events)];
static struct attribute *event_list[ARRAY_SIZE(events) + 1];

static const struct attribute_group event_group = {
	.name = "events",
	.attrs = event_list,
};

static const struct attribute_group *groups[] = {
	&format_group,
	&event_group,
	NULL
};

static ssize_t show_event(struct device *dev, struct device_attribute *attribute, char *page)
{
	struct perf_pmu_events_attr *attr =
		container_of(attribute, struct perf_pmu_events_attr, attr);

	return sysfs_emit(page, "event=0x%02llx\n", attr->id);
}

static void fill_events(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(events); i++) {
		struct perf_pmu_events_attr *attr = &event_attributes[i];

		sysfs_attr_init(&attr->attr.attr);
		attr->attr.attr.name = events[i].name;
		attr->attr.attr.mode = 0444;
		attr->attr.show = show_event;
		attr->id = events[i].mask;
		event_list[i] = &attr->attr.attr;
	}
}

/* The config of PERF_TYPE_RAW of unit mask @mask */
static u64 raw_config(u64 mask)
{
	u64 event = boot_cpu_data.x86_vendor == X86_VENDOR_INTEL ? KVM_VPMU_EVENT_INTEL :
								    KVM_VPMU_EVENT_AMD;

	return event | mask << 8;
}

static struct pmu names;

/*
 * perf_init_event() of kernel/events/core.c tries again with the event's type if that has changed
 * and the error is -ENOENT.
 */
static int names_event_init(struct perf_event *event)
{
	if (event->attr.type != names.type)
		return -ENOENT;
	if (event->attr.config & ~CONFIG_MASK)
		return -EINVAL;
	event->attr.type = PERF_TYPE_RAW;
	event->attr.config = raw_config(event->attr.config);
	return -ENOENT;
}

static struct pmu names = {
	.module = THIS_MODULE,
	.task_ctx_nr = perf_invalid_context,
	.attr_groups = groups,
	.event_init = names_event_init,
};

#define CPUIDS	10

/* CPUID of leaf 0.  Each is a VM exit; the kernel's functions are in other headers from 6.16 on. */
static void exit_once(void)
{
	unsigned int eax = 0, ebx, ecx = 0, edx;

	asm volatile("cpuid" : "+a" (eax), "=b" (ebx), "+c" (ecx), "=d" (edx));
}

/* Does a counter count the CPUIDs of this task? */
static int try_events(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_RAW,
		.size = sizeof(attr),
		.config = raw_config(KVM_VPMU_EVENT_EXITS_CPUID),
		.pinned = 1,
	};
	struct perf_event *event;
	u64 count, enabled, running;
	unsigned int i;

	event = perf_event_create_kernel_counter(&attr, -1, current, NULL, NULL);
	if (IS_ERR(event)) {
		pr_err("no counter: error %ld\n", PTR_ERR(event));
		return PTR_ERR(event);
	}
	for (i = 0; i < CPUIDS; i++)
		exit_once();
	count = perf_event_read_value(event, &enabled, &running);
	perf_event_release_kernel(event);
	if (count < CPUIDS) {
		pr_err("the hypervisor counts no such events; is it kvm-vpmu, and are this VM's events on?\n");
		return -ENODEV;
	}
	return 0;
}

static int __init names_init(void)
{
	int err;

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR)) {
		pr_err("this is no virtual machine\n");
		return -ENODEV;
	}
	err = try_events();
	if (err)
		return err;
	fill_events();
	return perf_pmu_register(&names, "kvm_vpmu", -1);
}

static void __exit names_exit(void)
{
	perf_pmu_unregister(&names);
}

module_init(names_init);
module_exit(names_exit);

MODULE_DESCRIPTION("Names of the hypervisor's events for a guest's perf");
MODULE_LICENSE("GPL");
