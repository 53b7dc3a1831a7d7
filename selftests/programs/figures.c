// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What /dev/kvm-vpmu tells, for scripts:
 *
 *	figures [accesses]
 *		"rdmsr N wrmsr N rdpmc N", of the module in all
 *	figures vcpus
 *		a line for each vCPU, and one for each of its counters
 *	figures set ID|all hybrid|guest|vcpu|wall|tsc
 *		change a VM's settings ("tsc": a TSC per vCPU)
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/kvm_vpmu.h>

#define ROOM	100

static int device;

static unsigned int list(struct kvm_vpmu_vm *vms)
{
	struct kvm_vpmu_vms l = { .vms = (uintptr_t)vms, .room = ROOM };

	if (ioctl(device, KVM_VPMU_GET_VMS, &l))
		err(1, "KVM_VPMU_GET_VMS");
	return l.count < ROOM ? l.count : ROOM;
}

static void accesses(void)
{
	struct kvm_vpmu_info info;

	if (ioctl(device, KVM_VPMU_GET_INFO, &info))
		err(1, "KVM_VPMU_GET_INFO");
	printf("rdmsr %llu wrmsr %llu rdpmc %llu\n", info.rdmsr, info.wrmsr, info.rdpmc);
}

static void show_vcpu(const struct kvm_vpmu_vm *vm, const struct kvm_vpmu_vcpu *v)
{
	printf("vcpu %d/%u freeze %u tsc %u registers %u counters %u exits %llu emulated %llu overflows %llu pmis %llu early %llu",
	       vm->pid, v->vcpu_id, vm->freeze, vm->tsc, v->registers, v->counters,
	       v->exits, v->emulated, v->overflows, v->pmis, v->early);
	printf(" reads %llu writes %llu rdpmcs %llu fast %llu evicted %llu borrowed %llu gaps %llu anomalies %llu descheduled %llu\n",
	       v->reads, v->writes, v->rdpmcs, v->fast, v->evicted, v->borrowed, v->gaps,
	       v->anomalies, v->descheduled_tsc);
	for (unsigned int i = 0; i < v->counters; i++) {
		const struct kvm_vpmu_counter *c = &v->counter[i];

		printf("counter %d/%u/%u select %#llx value %llu enabled %llu running %llu flags %#x\n",
		       vm->pid, v->vcpu_id, i, c->select, c->value, c->enabled_ns,
		       c->running_ns, c->flags);
	}
}

static void vcpus(void)
{
	struct kvm_vpmu_vm vms[ROOM];
	unsigned int nr = list(vms);

	for (unsigned int i = 0; i < nr; i++) {
		for (unsigned int n = 0; n < vms[i].vcpus; n++) {
			struct kvm_vpmu_vcpu v = { .vm = vms[i].id, .index = n };

			if (!ioctl(device, KVM_VPMU_GET_VCPU, &v))
				show_vcpu(&vms[i], &v);
			else if (errno != ENOENT)
				err(1, "KVM_VPMU_GET_VCPU");
		}
	}
}

static struct kvm_vpmu_settings settings(const char *name)
{
	static const char * const freeze[] = { "hybrid", "guest", "vcpu" };
	static const char * const tsc[] = { "wall", "tsc" };
	struct kvm_vpmu_settings s = { .fd = -1 };

	for (unsigned int i = 0; i < 3; i++) {
		if (!strcmp(name, freeze[i])) {
			s.fields = KVM_VPMU_SET_FREEZE;
			s.freeze = i;
			return s;
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		if (!strcmp(name, tsc[i])) {
			s.fields = KVM_VPMU_SET_TSC;
			s.tsc = i;
			return s;
		}
	}
	errx(2, "no setting '%s'", name);
}

static void set(const char *which, const char *name)
{
	struct kvm_vpmu_settings s = settings(name);
	struct kvm_vpmu_vm vms[ROOM];
	unsigned int nr = list(vms);

	for (unsigned int i = 0; i < nr; i++) {
		if (strcmp(which, "all") && strtoull(which, NULL, 0) != vms[i].id)
			continue;
		s.id = vms[i].id;
		if (ioctl(device, KVM_VPMU_SET, &s))
			err(1, "KVM_VPMU_SET");
	}
}

int main(int argc, char **argv)
{
	device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	if (argc == 1 || (argc == 2 && !strcmp(argv[1], "accesses")))
		accesses();
	else if (argc == 2 && !strcmp(argv[1], "vcpus"))
		vcpus();
	else if (argc == 4 && !strcmp(argv[1], "set"))
		set(argv[2], argv[3]);
	else
		errx(2, "usage: figures [accesses|vcpus|set ID|all SETTING]");
	return 0;
}
