// SPDX-License-Identifier: GPL-2.0
/* Figures for people and tests: /sys/kernel/debug/kvm_vpmu/stats. */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "vpmu.h"

static struct dentry *dir;

static void show_vcpu(struct vpmu_vcpu *vv, void *arg)
{
	struct seq_file *file = arg;

	seq_printf(file,
		   "vcpu %d/%d counters %u overflows %llu pmis %llu early %llu emulated %llu evicted %llu borrowed %llu anomalies %llu\n",
		   vv->vcpu->kvm->userspace_pid, vv->vcpu->vcpu_id, vv->guest.nr,
		   vv->stats.overflows, vv->stats.pmis, vv->stats.early,
		   vv->stats.emulated, vv->stats.evicted, vv->stats.borrowed,
		   vv->stats.anomalies);
}

static int stats_show(struct seq_file *file, void *unused)
{
	struct hw_accesses a = hw_accesses();

	seq_printf(file, "rdmsr %llu\nwrmsr %llu\nrdpmc %llu\n", a.rdmsr, a.wrmsr,
		   a.rdpmc);
	vpmu_for_each(show_vcpu, file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

void stats_init(void)
{
	dir = debugfs_create_dir("kvm_vpmu", NULL);
	debugfs_create_file("stats", 0400, dir, NULL, &stats_fops);
}

void stats_exit(void)
{
	debugfs_remove_recursive(dir);
}
