// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names of events.  PMUs are chosen by name, as the CPU of the machine that
 * builds this is what it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <linux/kvm_vpmu.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "event.h"
#include "hypervisor.h"

#define UK	(EVENT_USR | EVENT_OS)

/* An event select of @code and @umask */
static uint64_t select_of(uint64_t code, uint64_t umask)
{
	return (code & 0xff) | (code & 0xf00) << 24 | umask << 8;
}

static void is(const struct event_names *names, uint64_t select, const char *expected)
{
	char name[EVENT_NAME_SIZE];

	event_name(names, KVM_VPMU_REGISTERS_NONE, select, name);
	assert_string_equal(name, expected);
}

static void zen4_by_name(void **state)
{
	struct event_names names;

	assert_true(event_names_init_pmu(&names, "amd64_fam19h_zen4"));
	is(&names, select_of(0xc0, 0) | UK, "RETIRED_INSTRUCTIONS:u:k");
	is(&names, select_of(0xc2, 0) | EVENT_USR, "RETIRED_BRANCH_INSTRUCTIONS:u");
	is(&names, select_of(0x76, 0) | EVENT_OS, "CYCLES_NOT_IN_HALT:k");
	/* a code of 12 bits */
	is(&names, select_of(0x120, 1) | UK, "P0_FREQ_CYCLES_NOT_IN_HALT:P0_FREQ_CYCLES:u:k");
	is(&names, select_of(0x18e, 0x18) | UK,
	   "IC_TAG_HIT_MISS:IC_MISS:u:k");
	event_names_free(&names);
}

static void unit_masks(void **state)
{
	struct event_names names;

	assert_true(event_names_init_pmu(&names, "amd64_fam19h_zen4"));
	/* perf's cache-misses: two flags */
	is(&names, select_of(0x64, 0x09) | UK,
	   "CORE_TO_L2_CACHEABLE_REQUEST_ACCESS_STATUS:LS_RD_BLK_C:IC_FILL_MISS:u:k");
	/* more flags than can be read */
	is(&names, select_of(0x60, 0xff) | UK, "REQUESTS_TO_L2_GROUP1:0xff:u:k");
	/* a name for several bits */
	is(&names, select_of(0x03, 0x1f) | UK, "RETIRED_SSE_AVX_FLOPS:ANY:u:k");
	/* fields of several bits: 3 is SCALAR_MUL, not SCALAR_ADD:SCALAR_SUB, and 13 nothing */
	is(&names, select_of(0x0a, 0x03) | UK, "RETIRED_FP_OPS_BY_TYPE:SCALAR_MUL:u:k");
	is(&names, select_of(0x0a, 0x13) | UK, "RETIRED_FP_OPS_BY_TYPE:0x13:u:k");
	/* a bit without a name */
	is(&names, select_of(0x43, 0x21) | UK, "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:0x21:u:k");
	/* none, of an event that has some; and one, of an event that has none */
	is(&names, select_of(0x43, 0) | UK, "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:0x0:u:k");
	is(&names, select_of(0xc0, 0x01) | UK, "RETIRED_INSTRUCTIONS:0x1:u:k");
	event_names_free(&names);
}

static void modifiers(void **state)
{
	struct event_names names;

	assert_true(event_names_init_pmu(&names, "amd64_fam19h_zen4"));
	is(&names, 0xc0, "RETIRED_INSTRUCTIONS:u=0:k=0");
	is(&names, 0xc0 | UK | EVENT_EDGE | EVENT_INV | 2ull << 24,
	   "RETIRED_INSTRUCTIONS:u:k:e:i:c=2");
	is(&names, 0xc0 | EVENT_USR | 0xffull << 24, "RETIRED_INSTRUCTIONS:u:c=255");
	/* these say nothing about what is counted */
	is(&names, 0xc0 | UK | EVENT_INT | EVENT_EN | 1ull << 40 | 1ull << 19,
	   "RETIRED_INSTRUCTIONS:u:k");
	event_names_free(&names);
}

static void other_families(void **state)
{
	struct event_names names;

	assert_true(event_names_init_pmu(&names, "amd64_fam19h_zen3"));
	is(&names, select_of(0xc0, 0) | UK, "RETIRED_INSTRUCTIONS:u:k");
	event_names_free(&names);

	assert_true(event_names_init_pmu(&names, "amd64_fam10h_barcelona"));
	is(&names, select_of(0x76, 0) | UK, "CPU_CLK_UNHALTED:u:k");
	is(&names, select_of(0x7d, 0x03) | UK,
	   "REQUESTS_TO_L2:INSTRUCTIONS:DATA:u:k");
	/* a Zen's event */
	is(&names, select_of(0x18e, 0x18) | UK, "r10000188e:u:k");
	event_names_free(&names);

	assert_true(event_names_init_pmu(&names, "amd64_fam17h_zen1"));
	is(&names, select_of(0xc3, 0) | UK, "RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED:u:k");
	event_names_free(&names);

	assert_false(event_names_init_pmu(&names, "amd64_fam99h"));
	is(&names, select_of(0x1c0, 0x23) | EVENT_USR, "r1000023c0:u");
	event_names_free(&names);
}

/*
 * Each name that libpfm has, and back.  With @defaults, libpfm adds the rest of
 * a unit mask's groups ("ALL_CORES").
 */
static void round_trip(const char *pmu, unsigned int least, bool defaults)
{
	struct event_names names;
	unsigned int done = 0;
	size_t i;
	int a;

	assert_true(event_names_init_pmu(&names, pmu));
	for (i = 0; i < names.host.count; i++) {
		pfm_event_info_t event = { .size = sizeof(event) };
		unsigned int named = 0;

		assert_int_equal(pfm_get_event_info(names.host.entry[i].index, PFM_OS_NONE,
						    &event), PFM_SUCCESS);
		for (a = 0; a <= event.nattrs; a++) {
			pfm_event_attr_info_t attr = { .size = sizeof(attr) };
			char name[EVENT_NAME_SIZE], whole[2 * EVENT_NAME_SIZE];
			uint64_t select = select_of(event.code, 0) | EVENT_USR;
			uint64_t *codes = NULL;
			int count = 0;

			if (a < event.nattrs) {
				assert_int_equal(pfm_get_event_attr_info(event.idx, a, PFM_OS_NONE,
									 &attr), PFM_SUCCESS);
				if (attr.type != PFM_ATTR_UMASK)
					continue;
				named++;
				select |= attr.code << 8;
			} else if (named) {
				continue;
			}
			event_name(&names, 0, select, name);
			assert_null(strstr(name, "0x"));
			snprintf(whole, sizeof(whole), "%s::%s", pmu, name);
			if (pfm_get_event_encoding(whole, PFM_PLM3, NULL, NULL, &codes, &count) !=
			    PFM_SUCCESS)
				fail_msg("libpfm doesn't take %s", whole);
			codes[0] &= ~(EVENT_EN | EVENT_INT);
			if (defaults)
				codes[0] &= select;
			assert_int_equal(codes[0], select);
			free(codes);
			done++;
		}
	}
	assert_true(done >= least);
	event_names_free(&names);
}

/* No CPU that libpfm knows has an event of its own where the hypervisor's are. */
static void no_other_event_is_there(void **state)
{
	unsigned int amd = 0, intel = 0;
	int p;

	for (p = PFM_PMU_NONE; p < PFM_PMU_MAX; p++) {
		pfm_pmu_info_t pmu = { .size = sizeof(pmu) };
		struct event_names names;
		bool is_amd;
		size_t i;

		if (pfm_get_pmu_info(p, &pmu) != PFM_SUCCESS || pmu.type != PFM_PMU_TYPE_CORE ||
		    !strncmp(pmu.name, "netburst", 8))
			continue;
		is_amd = !strncmp(pmu.name, "amd64_", 6);
		assert_true(event_names_init_pmu(&names, pmu.name));
		for (i = 0; i < names.host.count; i++) {
			uint32_t code = names.host.entry[i].code;

			if (is_amd ? code == hypervisor_event_code(false) :
				     (code & 0xff) == hypervisor_event_code(true))
				fail_msg("%s has an event %x", pmu.name, code);
		}
		*(is_amd ? &amd : &intel) += names.host.count > 20;
		event_names_free(&names);
	}
	assert_true(amd >= 8);
	assert_true(intel >= 20);
}

static void names_are_what_libpfm_takes(void **state)
{
	round_trip("amd64_fam19h_zen4", 250, false);
	round_trip("amd64_fam19h_zen3", 150, false);
	round_trip("amd64_fam10h_barcelona", 250, true);
}

/*
 * The name of @select where libpfm detects CPU @cpu.  In a process of its own,
 * as libpfm remembers what it has detected.
 */
static void is_on(const char *cpu, uint32_t registers, uint64_t select, const char *expected)
{
	struct event_names names;
	char name[EVENT_NAME_SIZE] = "";
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		setenv("LIBPFM_FORCE_PMU", cpu, 1);
		event_names_init(&names);
		event_name(&names, registers, select, name);
		event_names_free(&names);
		_exit(write(fds[1], name, sizeof(name)) != sizeof(name));
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(fds[0], name, sizeof(name)), sizeof(name));
	close(fds[0]);
	assert_string_equal(name, expected);
}

/* What the vCPU looks like doesn't matter. */
static void the_host_decides(void **state)
{
	is_on("amd64_fam10h_shanghai", KVM_VPMU_REGISTERS_AMD_V2, 0x76 | UK,
	      "CPU_CLK_UNHALTED:u:k");
	is_on("amd64_fam19h_zen4", KVM_VPMU_REGISTERS_AMD_LEGACY, 0x76 | UK,
	      "CYCLES_NOT_IN_HALT:u:k");
}

/* A CPU that libpfm doesn't know, or another vendor's: by the registers. */
static void registers_decide_otherwise(void **state)
{
	static const char *const cpus[] = { "unknown", "skl" };
	size_t i;

	for (i = 0; i < 2; i++) {
		is_on(cpus[i], KVM_VPMU_REGISTERS_NONE, 0x76 | UK, "r76:u:k");
		is_on(cpus[i], KVM_VPMU_REGISTERS_AMD_LEGACY, 0x76 | UK, "CPU_CLK_UNHALTED:u:k");
		is_on(cpus[i], KVM_VPMU_REGISTERS_AMD_CORE, 0x76 | UK, "CYCLES_NOT_IN_HALT:u:k");
		is_on(cpus[i], KVM_VPMU_REGISTERS_AMD_V2, 0x76 | UK, "CYCLES_NOT_IN_HALT:u:k");
		is_on(cpus[i], 4, 0x76 | UK, "r76:u:k");
		is_on(cpus[i], 4000000000, 0x76 | UK, "r76:u:k");
	}
	/* Zen 4's, but not Zen 3's */
	is_on("unknown", KVM_VPMU_REGISTERS_AMD_V2, select_of(0x1a0, 0x60) | UK,
	      "DISPATCH_STALLS_1:SMT_CONTENTION:u:k");
	is_on("unknown", KVM_VPMU_REGISTERS_AMD_CORE, select_of(0x1a0, 0x60) | UK,
	      "r1000060a0:u:k");
}

/* Intel's: by the CPU that is there, else by another one; fixed counters as well */
static void intels(void **state)
{
	const uint32_t v2 = KVM_VPMU_REGISTERS_INTEL + 2;

	is_on("unknown", v2, 0xc0 | UK, "INSTRUCTION_RETIRED:u:k");
	is_on("unknown", v2, 0x3c | EVENT_OS, "UNHALTED_CORE_CYCLES:k");
	is_on("unknown", v2, 0x412e | EVENT_USR, "LONGEST_LAT_CACHE:MISS:u");
	is_on("unknown", v2, 0xc5 | UK, "MISPREDICTED_BRANCH_RETIRED:u:k");
	is_on("unknown", v2, 0x1ff | UK, "r1ff:u:k");
	is_on("skx", v2, 0x3c | UK, "UNHALTED_CORE_CYCLES:u:k");
	/* the third fixed counter's */
	is_on("skx", v2, 1ull << 32 | 0x300 | UK, "UNHALTED_REFERENCE_CYCLES:u:k");
	is_on("skx", v2, 0x412e | UK, "LONGEST_LAT_CACHE:MISS:u:k");
	is_on("skx", v2, 0x20d1 | EVENT_USR, "MEM_LOAD_RETIRED:L3_MISS:u");
	is_on("skx", KVM_VPMU_REGISTERS_INTEL + 5, 0x01ee | UK, "r1ee:u:k");
}

static void without_libpfm(void **state)
{
	struct event_names names = { };
	char name[EVENT_NAME_SIZE];

	event_name(&names, KVM_VPMU_REGISTERS_AMD_V2, 0xff60 | EVENT_USR, name);
	assert_string_equal(name, "rff60:u");
}

/* No CPU of libpfm4's tables has an event where the hypervisor's are. */
static void hypervisor(void **state)
{
	unsigned int amd = 0, intel = 0;
	struct event_names names;
	int i;

	assert_int_equal(pfm_initialize(), PFM_SUCCESS);
	for (i = 0; i < PFM_PMU_MAX; i++) {
		pfm_pmu_info_t info = { .size = sizeof(info) };
		bool is_amd;
		size_t e;

		if (pfm_get_pmu_info(i, &info) != PFM_SUCCESS || info.type != PFM_PMU_TYPE_CORE)
			continue;
		is_amd = !strncmp(info.name, "amd64_", 6);
		/* libpfm4 for x86 has no others. */
		amd += is_amd;
		intel += !is_amd;
		assert_true(event_names_init_pmu(&names, info.name));
		for (e = 0; e < names.host.count; e++) {
			uint32_t code = names.host.entry[e].code;

			assert_true(is_amd ? code != EVENT_CODE(KVM_VPMU_EVENT_AMD) :
				    (code & 0xff) != KVM_VPMU_EVENT_INTEL);
		}
		event_names_free(&names);
	}
	assert_true(amd > 5 && intel > 20);

	event_names_init(&names);
	is(&names, KVM_VPMU_EVENT_AMD | KVM_VPMU_EVENT_EXITS_CPUID << 8 | UK, "exits-cpuid:u:k");
	event_names_free(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: before this process initializes libpfm */
		cmocka_unit_test(the_host_decides),
		cmocka_unit_test(registers_decide_otherwise),
		cmocka_unit_test(intels),
		cmocka_unit_test(without_libpfm),
		cmocka_unit_test(zen4_by_name),
		cmocka_unit_test(unit_masks),
		cmocka_unit_test(modifiers),
		cmocka_unit_test(other_families),
		cmocka_unit_test(names_are_what_libpfm_takes),
		cmocka_unit_test(no_other_event_is_there),
		cmocka_unit_test(hypervisor),
	};

	/* encode for CPUs that this one isn't */
	setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
