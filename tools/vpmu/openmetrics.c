// SPDX-License-Identifier: GPL-2.0-or-later
#include "openmetrics.h"

#include <stdlib.h>

#include "cmd.h"
#include "module.h"
#include "util.h"

/* All names begin with this. */
#define PREFIX	"kvm_vpmu_"

/**
 * struct family - what all samples of a name have in common
 * @name: their name, without prefix and suffix
 * @unit: the unit, which the name has to end with, too; NULL for none
 * @help: what they are
 */
struct family {
	const char *name;
	const char *unit;
	const char *help;
};

/* Behind the figures, in the same table */
#define DESCHEDULED	FIGURES

/* Of each vCPU; figure_name() is too short for a name that stands alone. */
static const struct family vcpu_families[] = {
	[FIGURE_EXITS] = { "vcpu_exits", NULL, "VM exits, counting or not." },
	[FIGURE_EMULATED] = { "vcpu_emulated_instructions", NULL,
		"Instructions that KVM emulated and that were added to counters." },
	[FIGURE_OVERFLOWS] = { "vcpu_overflows", NULL, "Overflows of guest counters." },
	[FIGURE_IN_KVM] = { "vcpu_overflows_in_kvm", NULL,
		"Overflows of guest counters that came while KVM worked for the guest." },
	[FIGURE_PMIS] = { "vcpu_pmis", NULL,
		"Interrupts injected for overflows of guest counters." },
	[FIGURE_EARLY] = { "vcpu_early_interrupts", NULL,
		"Interrupts of physical counters before the guest's overflow." },
	[FIGURE_READS] = { "vcpu_msr_reads", NULL, "Reads of PMU MSRs by guest and userspace." },
	[FIGURE_WRITES] = { "vcpu_msr_writes", NULL, "Writes of PMU MSRs by guest and userspace." },
	[FIGURE_RDPMCS] = { "vcpu_rdpmcs", NULL, "RDPMC instructions of the guest." },
	[FIGURE_FAST] = { "vcpu_fast_accesses", NULL,
		"Accesses of the guest to its PMU that were completed right behind their VM exit." },
	[FIGURE_OPEN] = { "vcpu_open_entries", NULL,
		"VM entries at which the guest got PMU registers to access without VM exits." },
	[FIGURE_EVICTED] = { "vcpu_evictions", NULL,
		"Times that host perf took a guest counter's physical counter." },
	[FIGURE_BORROWED] = { "vcpu_borrowed", NULL,
		"VM entries, times counters that host perf lent for them." },
	[FIGURE_GAPS] = { "vcpu_gaps", NULL,
		"VM exits, times counters that should have counted KVM's work and didn't." },
	[FIGURE_ANOMALIES] = { "vcpu_anomalies", NULL,
		"VM entries that hardware didn't count as expected: counts are wrong." },
	/* Userspace isn't told the TSC's frequency. */
	[DESCHEDULED] = { "vcpu_descheduled_ticks", "ticks",
		"Ticks of the host's TSC that were taken out of the guest's." },
};

static void begin(FILE *out, const struct family *family, const char *type)
{
	fprintf(out, "# TYPE " PREFIX "%s %s\n", family->name, type);
	if (family->unit)
		fprintf(out, "# UNIT " PREFIX "%s %s\n", family->name, family->unit);
	fprintf(out, "# HELP " PREFIX "%s %s\n", family->name, family->help);
}

/* A label, with @before in front of it; names of VMs are anybody's choice. */
static void add_label(FILE *out, const char *before, const char *name, const char *value)
{
	fprintf(out, "%s%s=\"", before, name);
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

static void print_host(FILE *out, const struct device *dev)
{
	static const struct family module = { "module", NULL, "The module kvm_vpmu." };
	static const struct family counters = {
		"physical_counters", NULL, "Physical counters of each CPU."
	};
	static const struct family vms = {
		"vms", NULL, "VMs that have a virtual PMU of kvm_vpmu now."
	};
	static const struct family accesses = {
		"register_accesses", NULL,
		"PMU MSRs that the module accessed since it was loaded, on all CPUs."
	};
	const struct kvm_vpmu_info *info = &dev->info;
	char *version = module_version(device_module(dev));

	begin(out, &module, "info");
	fputs(PREFIX "module_info", out);
	add_label(out, "{", "version", version ? version : "");
	fprintf(out, ",interface=\"%u\"", info->abi);
	add_label(out, ",", "hardware", info->hardware);
	fputs("} 1\n", out);
	free(version);

	begin(out, &counters, "gauge");
	fprintf(out, PREFIX "physical_counters %u\n", info->counters);
	begin(out, &vms, "gauge");
	fprintf(out, PREFIX "vms %u\n", info->vms);

	begin(out, &accesses, "counter");
	fprintf(out, PREFIX "register_accesses_total{instruction=\"rdmsr\"} %llu\n",
		(unsigned long long)info->rdmsr);
	fprintf(out, PREFIX "register_accesses_total{instruction=\"wrmsr\"} %llu\n",
		(unsigned long long)info->wrmsr);
	fprintf(out, PREFIX "register_accesses_total{instruction=\"rdpmc\"} %llu\n",
		(unsigned long long)info->rdpmc);
}

/* Only here are names and settings: else each of a vCPU's samples would repeat them. */
static void print_vms(FILE *out, const struct sample *sample)
{
	static const struct family vms = { "vm", NULL, "A VM and its settings." };
	size_t v;

	begin(out, &vms, "info");
	for (v = 0; v < sample->vms; v++) {
		const struct vm *vm = &sample->vm[v].vm;

		fprintf(out, PREFIX "vm_info{vm=\"%llu\"", (unsigned long long)vm->info.id);
		add_label(out, ",", "name", vm->name);
		fprintf(out, ",pid=\"%d\",freeze=\"%s\",tsc=\"%s\"} 1\n", vm->info.pid,
			or_unknown(vm_freeze_name(vm->info.freeze)),
			or_unknown(vm_tsc_name(vm->info.tsc)));
	}
}

/* The beginning of a vCPU's sample, up to its labels, which stay open. */
static void begin_vcpu(FILE *out, const char *name, const struct kvm_vpmu_vcpu *vcpu)
{
	fprintf(out, PREFIX "%s_total{vm=\"%llu\",vcpu=\"%u\"", name,
		(unsigned long long)vcpu->vm, vcpu->vcpu_id);
}

static void print_vcpus(FILE *out, const struct sample *sample, unsigned int f)
{
	size_t v, c;

	begin(out, &vcpu_families[f], "counter");
	for (v = 0; v < sample->vms; v++) {
		for (c = 0; c < sample->vm[v].vcpus; c++) {
			const struct kvm_vpmu_vcpu *vcpu = &sample->vm[v].vcpu[c];
			__u64 value = f == DESCHEDULED ? vcpu->descheduled_tsc : figure(vcpu, f);

			begin_vcpu(out, vcpu_families[f].name, vcpu);
			fprintf(out, "} %llu\n", (unsigned long long)value);
		}
	}
}

/* Of each counter in use, how long it was enabled, or ran. */
static void print_counters(FILE *out, const struct sample *sample, bool running)
{
	static const struct family families[] = {
		{ "counter_enabled_seconds", "seconds",
		  "How long a guest counter was to count while its vCPU was loaded on a CPU." },
		{ "counter_running_seconds", "seconds",
		  "How long of that the guest counter did count." },
	};
	const struct family *family = &families[running];
	size_t v, c;
	__u32 i;

	begin(out, family, "counter");
	for (v = 0; v < sample->vms; v++) {
		for (c = 0; c < sample->vm[v].vcpus; c++) {
			const struct kvm_vpmu_vcpu *vcpu = &sample->vm[v].vcpu[c];

			for (i = 0; i < vcpu->counters; i++) {
				const struct kvm_vpmu_counter *counter = &vcpu->counter[i];
				__u64 ns = running ? counter->running_ns : counter->enabled_ns;

				if (!counter_used(counter))
					continue;
				begin_vcpu(out, family->name, vcpu);
				fprintf(out, ",counter=\"%u\"} %llu.%09llu\n", i,
					(unsigned long long)(ns / NS_PER_S),
					(unsigned long long)(ns % NS_PER_S));
			}
		}
	}
}

void openmetrics_print(FILE *out, const struct device *dev, const struct sample *sample)
{
	unsigned int f;

	print_host(out, dev);
	print_vms(out, sample);
	/* The samples of a family have to stand together. */
	for (f = 0; f < ARRAY_SIZE(vcpu_families); f++)
		print_vcpus(out, sample, f);
	print_counters(out, sample, false);
	print_counters(out, sample, true);
	fputs("# EOF\n", out);
}
