// SPDX-License-Identifier: GPL-2.0-or-later
/* The format for Prometheus. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "openmetrics.h"
#include "util.h"

/* All that is printed of @sample, to be freed */
static char *text_of(const struct device *dev, const struct sample *sample)
{
	size_t size;
	char *text;
	FILE *f = open_memstream(&text, &size);

	openmetrics_print(f, dev, sample);
	assert_int_equal(fclose(f), 0);
	return text;
}

static unsigned int count(const char *text, const char *part)
{
	unsigned int n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

#define FAMILY(name, type, help)	"# TYPE kvm_vpmu_" name " " type "\n" \
					"# HELP kvm_vpmu_" name " " help "\n"
#define UNIT_FAMILY(name, unit, help)	"# TYPE kvm_vpmu_" name " counter\n" \
					"# UNIT kvm_vpmu_" name " " unit "\n" \
					"# HELP kvm_vpmu_" name " " help "\n"
/* A vCPU's, with one sample or none */
#define VCPU_FAMILY(name, help, value)	FAMILY("vcpu_" name, "counter", help) SAMPLE("vcpu_" name, "", value)
#define VCPU_FAMILIES												\
	VCPU_FAMILY("exits", "VM exits, counting or not.", "1000000")						\
	VCPU_FAMILY("emulated_instructions",									\
		    "Instructions that KVM emulated and that were added to counters.", "1000")			\
	VCPU_FAMILY("overflows", "Overflows of guest counters.", "30")						\
	VCPU_FAMILY("overflows_in_kvm",										\
		    "Overflows of guest counters that came while KVM worked for the guest.", "14")		\
	VCPU_FAMILY("pmis", "Interrupts injected for overflows of guest counters.", "29")			\
	VCPU_FAMILY("early_interrupts",										\
		    "Interrupts of physical counters before the guest's overflow.", "4")			\
	VCPU_FAMILY("msr_reads", "Reads of PMU MSRs by guest and userspace.", "50")				\
	VCPU_FAMILY("msr_writes", "Writes of PMU MSRs by guest and userspace.", "60")				\
	VCPU_FAMILY("rdpmcs", "RDPMC instructions of the guest.", "7")						\
	VCPU_FAMILY("fast_accesses",										\
		    "Accesses of the guest to its PMU that were completed right behind their VM exit.", "12")	\
	VCPU_FAMILY("open_entries",										\
		    "VM entries at which the guest got PMU registers to access without VM exits.", "13")	\
	VCPU_FAMILY("evictions", "Times that host perf took a guest counter's physical counter.", "8")		\
	VCPU_FAMILY("borrowed", "VM entries, times counters that host perf lent for them.", "9")		\
	VCPU_FAMILY("gaps", "VM exits, times counters that should have counted KVM's work and didn't.", "10")	\
	VCPU_FAMILY("anomalies",										\
		    "VM entries that hardware didn't count as expected: counts are wrong.", "0")		\
	UNIT_FAMILY("vcpu_descheduled_ticks", "ticks",								\
		    "Ticks of the host's TSC that were taken out of the guest's.")				\
	SAMPLE("vcpu_descheduled_ticks", "", "11")								\
	UNIT_FAMILY("counter_enabled_seconds", "seconds",							\
		    "How long a guest counter was to count while its vCPU was loaded on a CPU.")		\
	SAMPLE("counter_enabled_seconds", ",counter=\"0\"", "0.002000000")					\
	SAMPLE("counter_enabled_seconds", ",counter=\"1\"", "18446744073.709551615")				\
	SAMPLE("counter_enabled_seconds", ",counter=\"5\"", "0.000000000")					\
	UNIT_FAMILY("counter_running_seconds", "seconds", "How long of that the guest counter did count.")	\
	SAMPLE("counter_running_seconds", ",counter=\"0\"", "0.002000000")					\
	SAMPLE("counter_running_seconds", ",counter=\"1\"", "1.001000000")					\
	SAMPLE("counter_running_seconds", ",counter=\"5\"", "0.000000000")

static const char host[] =
	FAMILY("module", "info", "The module kvm_vpmu.")
	"kvm_vpmu_module_info{version=\"0.1 \\\"x\\\\y\",interface=\"14\",hardware=\"fake\"} 1\n"
	FAMILY("physical_counters", "gauge", "Physical counters of each CPU.")
	"kvm_vpmu_physical_counters 6\n"
	FAMILY("vms", "gauge", "VMs that have a virtual PMU of kvm_vpmu now.")
	"kvm_vpmu_vms 3\n"
	FAMILY("register_accesses", "counter",
	       "PMU MSRs that the module accessed since it was loaded, on all CPUs.")
	"kvm_vpmu_register_accesses_total{instruction=\"rdmsr\"} 18446744073709551615\n"
	"kvm_vpmu_register_accesses_total{instruction=\"wrmsr\"} 12\n"
	"kvm_vpmu_register_accesses_total{instruction=\"rdpmc\"} 13\n"
	FAMILY("vm", "info", "A VM and its settings.");

#define SAMPLE(name, labels, value) \
	"kvm_vpmu_" name "_total{vm=\"18446744073709551615\",vcpu=\"0\"" labels "} " value "\n"
static const char one[] = VCPU_FAMILIES "# EOF\n";

#undef SAMPLE
#define SAMPLE(name, labels, value)
static const char none[] = VCPU_FAMILIES "# EOF\n";

static void fill_host(struct device *dev)
{
	dev->info.vms = 3;
	dev->info.rdmsr = UINT64_MAX;
	dev->info.wrmsr = 12;
	dev->info.rdpmc = 13;
}

static void all_of_it(void **state)
{
	struct sample sample;
	struct device dev;
	struct fake fake;
	char *got, *expected;

	fake_init(&fake, &dev, 1);
	fake.vm[0].id = UINT64_MAX;
	fake.vm[0].vcpus = 1;
	fake.vm[0].freeze = KVM_VPMU_FREEZE_GUEST;
	/* newer than this tool */
	fake.vm[0].tsc = 77;
	fill_host(&dev);
	assert_int_equal(sample_take(&sample, &dev, "/nonexistent", 0, SAMPLE_NO_EVENTS), 0);
	/* 584 years: as precise as one second */
	sample.vm[0].vcpu[0].counter[1].enabled_ns = UINT64_MAX;
	sample.vm[0].vcpu[0].counter[1].running_ns = 1001000000;
	strcpy(sample.vm[0].vm.name, "a\"b\\c\nd{e=\"f\",}\xc3\xa4 # EOF");
	got = text_of(&dev, &sample);
	expected = xasprintf("%skvm_vpmu_vm_info{vm=\"18446744073709551615\","
			     "name=\"a\\\"b\\\\c\\nd{e=\\\"f\\\",}\xc3\xa4 # EOF\",pid=\"1000\","
			     "freeze=\"guest\",tsc=\"?\"} 1\n%s", host, one);
	assert_string_equal(got, expected);
	free(expected);
	free(got);
	sample_free(&sample);
	free(dev.vm);
}

static void no_vms(void **state)
{
	struct sample sample = { };
	char *got, *expected;
	struct device dev;
	struct fake fake;

	fake_init(&fake, &dev, 0);
	fill_host(&dev);
	got = text_of(&dev, &sample);
	expected = xasprintf("%s%s", host, none);
	assert_string_equal(got, expected);
	free(expected);
	free(got);
}

/* 16 samples of each vCPU, 3 of each of its counters, one more of the VM, metadata once */
static void many(void **state)
{
	enum { VMS = 200, VCPUS = 64 };
	struct sample sample;
	struct device dev;
	struct fake fake;
	unsigned int i;
	char *got;

	fake_init(&fake, &dev, VMS);
	for (i = 0; i < VMS; i++)
		fake.vm[i].vcpus = VCPUS;
	fake.ended[3] = true;
	assert_int_equal(sample_take(&sample, &dev, "/nonexistent", 0, SAMPLE_NO_EVENTS), 0);
	got = text_of(&dev, &sample);
	assert_int_equal(count(got, "\nkvm_vpmu_vm_info{"), VMS - 1);
	assert_int_equal(count(got, "\nkvm_vpmu_vcpu_"), (VMS - 1) * VCPUS * 16);
	assert_int_equal(count(got, "\nkvm_vpmu_counter_"), (VMS - 1) * VCPUS * 2 * 3);
	assert_int_equal(count(got, "\n#"), count(host, "# ") + count(none, "# ") - 1);
	assert_int_equal(count(got, "vm=\"4\""), 0);
	print_message("# %d VMs with %d vCPUs: %zu bytes\n", VMS, VCPUS, strlen(got));
	free(got);
	sample_free(&sample);
	free(dev.vm);
}

static int make_module(void **state)
{
	static char module[] = "/tmp/test_openmetrics.XXXXXX";
	char *path;
	FILE *f;

	if (!mkdtemp(module))
		return -1;
	setenv("VPMU_FAKE_MODULE", module, 1);
	path = xasprintf("%s/version", module);
	f = fopen(path, "w");
	fputs("0.1 \"x\\y\n", f);
	*state = path;
	return fclose(f);
}

static int remove_module(void **state)
{
	unlink(*state);
	free(*state);
	return rmdir(getenv("VPMU_FAKE_MODULE"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it),
		cmocka_unit_test(no_vms),
		cmocka_unit_test(many),
	};

	return cmocka_run_group_tests(tests, make_module, remove_module);
}
