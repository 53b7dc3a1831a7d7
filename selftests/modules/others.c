// SPDX-License-Identifier: GPL-2.0
/*
 * AMD: a new event of the counters of the L3 cache or the data fabric, as far as host perf gets
 * where the CPU has no such counters: perf's function for that is called, and refuses the event, as
 * the event is for no CPU.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

static int __init others_init(void)
{
	struct kprobe probe = {
		.symbol_name = "amd_uncore_event_init",
		.flags = KPROBE_FLAG_DISABLED,
	};
	static struct pmu pmu;
	struct perf_event *event;
	int (*init)(struct perf_event *event);
	int err = register_kprobe(&probe);

	if (err)
		return err;
	init = (void *)probe.addr;
	unregister_kprobe(&probe);
	event = kzalloc(sizeof(*event), GFP_KERNEL);
	if (!event)
		return -ENOMEM;
	event->pmu = &pmu;
	event->cpu = -1;
	err = init(event);
	kfree(event);
	/* Nothing stays loaded. */
	return err == -EINVAL ? -EAGAIN : -EPROTO;
}

module_init(others_init);
MODULE_DESCRIPTION("A new event of counters that aren't the core's");
MODULE_LICENSE("GPL");
