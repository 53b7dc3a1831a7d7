// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of VMs, and which one an argument means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"
#include "sample.h"
#include "util.h"
#include "vm.h"

/* @cmdline is a string constant: its own NUL is there in addition. */
#define NAME_IS(cmdline, expected)						\
	do {									\
		char name[VM_NAME_SIZE];					\
										\
		assert_true(vm_name_from_cmdline(cmdline, sizeof(cmdline) - 1, name));	\
		assert_string_equal(name, expected);				\
	} while (0)

#define NO_NAME(cmdline)							\
	do {									\
		char name[VM_NAME_SIZE];					\
										\
		assert_false(vm_name_from_cmdline(cmdline, sizeof(cmdline) - 1, name));	\
	} while (0)

static void qemus_names(void **state)
{
	NAME_IS("qemu\0-m\0" "384\0-name\0web1\0", "web1");
	NAME_IS("qemu\0--name\0web1\0-smp\0" "2\0", "web1");
	/* libvirt's */
	NAME_IS("qemu\0-name\0guest=web1,debug-threads=on\0", "web1");
	NAME_IS("qemu\0-name\0web1,process=x,debug-threads=on\0", "web1");
	NAME_IS("qemu\0-name\0debug-threads=on,guest=web1\0", "web1");
	NAME_IS("qemu\0-name\0a,,b,debug-threads=on\0", "a,b");
	NAME_IS("qemu\0-name\0guest=a=b\0", "a=b");
	NAME_IS("qemu\0-name\0web 1\0", "web 1");
	/* the last one counts */
	NAME_IS("qemu\0-name\0one\0-name\0two\0", "two");
	NAME_IS("qemu\0-name\0one\0-name\0debug-threads=on\0", "one");
	NAME_IS("qemu\0-name\0guest=one,guest=two\0", "two");
	/* without a NUL at the end */
	NAME_IS("qemu\0-name\0web1", "web1");
}

static void no_names(void **state)
{
	NO_NAME("");
	NO_NAME("qemu\0");
	NO_NAME("-name\0web1\0");
	NO_NAME("qemu\0-name\0");
	NO_NAME("qemu\0-name");
	NO_NAME("qemu\0-name\0\0");
	NO_NAME("qemu\0-name\0debug-threads=on\0");
	NO_NAME("qemu\0-name\0debug-threads=on,web1\0");
	NO_NAME("qemu\0-name\0guest=\0");
	NO_NAME("qemu\0-names\0web1\0");
	NO_NAME("qemu\0---name\0web1\0");
}

static void long_names_are_cut(void **state)
{
	char cmdline[1000], name[VM_NAME_SIZE];

	memset(cmdline, 'x', sizeof(cmdline));
	memcpy(cmdline, "qemu\0-name", 11);
	assert_true(vm_name_from_cmdline(cmdline, sizeof(cmdline), name));
	assert_int_equal(strlen(name), VM_NAME_SIZE - 1);
}

static void put(const char *dir, const char *name, const char *data, size_t len)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void make_dir(const char *dir, const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* A procfs with the processes 1000 (named), 1001 (not), 1003 (hostile) */
static int make_proc(void **state)
{
	static const char qemu[] = "qemu\0-name\0guest=web1,debug-threads=on\0";
	static const char other[] = "vmm\0--api\0";
	static const char hostile[] = "qemu\0-name\0\x1b[2J\xff\xc3\xa4\xc2\x9b\0";
	char *dir = strdup("/tmp/vpmu-test.XXXXXX");

	assert_non_null(mkdtemp(dir));
	make_dir(dir, "self");
	make_dir(dir, "self/ns");
	make_dir(dir, "1000");
	put(dir, "1000/cmdline", qemu, sizeof(qemu) - 1);
	put(dir, "1000/comm", "qemu\n", 5);
	make_dir(dir, "1001");
	put(dir, "1001/cmdline", other, sizeof(other) - 1);
	put(dir, "1001/comm", "some\nvmm\n", 9);
	make_dir(dir, "1003");
	put(dir, "1003/cmdline", hostile, sizeof(hostile) - 1);
	*state = dir;
	return 0;
}

static int remove_proc(void **state)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -r %s", (char *)*state);
	free(*state);
	return system(command);
}

static void set_namespace(const char *proc, const char *target)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/self/ns/pid", proc);
	unlink(path);
	if (target)
		assert_int_equal(symlink(target, path), 0);
}

static void names_of_processes(void **state)
{
	char name[VM_NAME_SIZE];

	set_namespace(*state, "pid:[4026531836]");
	vm_name(*state, 1000, name);
	assert_string_equal(name, "web1");
	vm_name(*state, 1001, name);
	assert_string_equal(name, "some");
	/* ended */
	vm_name(*state, 1002, name);
	assert_string_equal(name, "?");
	vm_name(*state, 0, name);
	assert_string_equal(name, "?");
	/* nothing gets through that a terminal or JSON minds */
	vm_name(*state, 1003, name);
	assert_string_equal(name, "?[2J?\xc3\xa4?");
}

static void no_names_in_another_pid_namespace(void **state)
{
	char name[VM_NAME_SIZE];

	set_namespace(*state, "pid:[4026532222]");
	vm_name(*state, 1000, name);
	assert_string_equal(name, "?");
	set_namespace(*state, NULL);
	vm_name(*state, 1000, name);
	assert_string_equal(name, "web1");
}

static const char *name_of(struct device *dev, const char *proc, size_t i)
{
	static char name[VM_NAME_SIZE];
	struct vm_list list;

	assert_int_equal(vm_list_get(&list, dev, proc), 0);
	assert_true(i < list.count);
	strcpy(name, list.vm[i].name);
	vm_list_free(&list);
	return name;
}

static void names_are_read_once(void **state)
{
	static const char renamed[] = "qemu\0-name\0other\0";
	struct device dev, again;
	struct fake fake;

	set_namespace(*state, NULL);
	fake_init(&fake, &dev, 3);
	fake_init(&fake, &again, 3);
	assert_string_equal(name_of(&dev, *state, 0), "web1");
	assert_string_equal(name_of(&dev, *state, 2), "?");
	put(*state, "1000/cmdline", renamed, sizeof(renamed) - 1);
	/* its PID is another process's now */
	make_dir(*state, "1002");
	put(*state, "1002/cmdline", renamed, sizeof(renamed) - 1);
	assert_string_equal(name_of(&dev, *state, 0), "web1");
	assert_string_equal(name_of(&dev, *state, 2), "?");
	/* the first VM ends, and its process makes one more: not the same VM */
	fake.vm[0] = fake.vm[1];
	fake.vm[1] = fake.vm[2];
	fake.vm[2].id = 4;
	fake.vm[2].pid = 1000;
	assert_string_equal(name_of(&dev, *state, 0), "some");
	assert_string_equal(name_of(&dev, *state, 1), "?");
	assert_string_equal(name_of(&dev, *state, 2), "other");
	/* nor does another look at the device know */
	assert_string_equal(name_of(&again, *state, 1), "other");
	free(dev.vm);
	free(again.vm);
}

/* A process that doesn't answer is no obstacle to who asks for another's VM. */
static void only_the_name_that_is_needed(void **state)
{
	char path[100], *said;
	struct sample sample;
	struct device dev;
	struct fake fake;
	size_t size;
	FILE *f = open_memstream(&said, &size);
	struct vm vm;

	set_namespace(*state, NULL);
	snprintf(path, sizeof(path), "%s/1001/cmdline", (char *)*state);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	fake_init(&fake, &dev, 3);
	/* rather than wait for a writer */
	alarm(10);
	assert_int_equal(vm_lookup(&dev, *state, "#1", &vm, f), STATUS_OK);
	assert_string_equal(vm.name, "web1");
	assert_int_equal(vm_lookup(&dev, *state, "1000", &vm, f), STATUS_OK);
	assert_int_equal(vm_lookup(&dev, *state, "#9", &vm, f), STATUS_NO_VM);
	assert_int_equal(sample_take(&sample, &dev, *state, 1, SAMPLE_NO_EVENTS), 0);
	assert_int_equal(sample.vms, 1);
	sample_free(&sample);
	assert_int_equal(sample_take(&sample, &dev, *state, 9, SAMPLE_NO_EVENTS), 0);
	assert_int_equal(sample.vms, 0);
	sample_free(&sample);
	/* a name may be anyone's */
	unlink(path);
	assert_int_equal(vm_lookup(&dev, *state, "some", &vm, f), STATUS_OK);
	assert_int_equal(vm.info.id, 2);
	alarm(0);
	free(dev.vm);
	fclose(f);
	free(said);
}

static void lookup_fails(void **state)
{
	struct device dev;
	struct fake fake;
	struct vm vm;

	fake_init(&fake, &dev, 1);
	fake.error = -5;
	assert_int_equal(vm_lookup(&dev, "/nonexistent", "#1", &vm, stderr), STATUS_ERROR);
}

/* ids 1, 2, 30, 4, 5 */
static struct vm some_vms[] = {
	{ .info = { .id = 1, .pid = 100 }, .name = "web" },
	{ .info = { .id = 2, .pid = 200 }, .name = "db" },
	{ .info = { .id = 30, .pid = 300 }, .name = "web" },
	/* one process with two VMs, one of them called as another's PID */
	{ .info = { .id = 4, .pid = 400 }, .name = "100" },
	{ .info = { .id = 5, .pid = 400 }, .name = "777" },
};

static const struct vm_list some_list = { some_vms, sizeof(some_vms) / sizeof(*some_vms) };

/* The number of the VM that @arg means; less than 0: the status; messages in *@said. */
static int find(const char *arg, char **said)
{
	size_t size;
	FILE *f = open_memstream(said, &size);
	enum status status;
	struct vm vm;

	status = vm_find(&some_list, arg, &vm, f);
	fclose(f);
	return status ? -(int)status : (int)vm.info.id;
}

static void found(const char *arg, int id)
{
	char *said;

	assert_int_equal(find(arg, &said), id);
	assert_string_equal(said, "");
	free(said);
}

static void not_found(const char *arg)
{
	char *said;

	assert_int_equal(find(arg, &said), -STATUS_NO_VM);
	assert_non_null(strstr(said, "no VM"));
	free(said);
}

static void vms_by_argument(void **state)
{
	found("#1", 1);
	found("#30", 30);
	found("100", 1);
	found("200", 2);
	found("db", 2);
	found("777", 5);
}

static void no_such_vm(void **state)
{
	not_found("");
	not_found("#3");
	not_found("#0");
	not_found("#");
	not_found("#1x");
	not_found("#100");
	not_found("3");
	not_found("-1");
	not_found("99999999999999999999");
	not_found("we");
	not_found("web1");
	not_found("WEB");
}

static void ambiguous_vms_are_listed(void **state)
{
	char *said;

	assert_int_equal(find("web", &said), -STATUS_USAGE);
	assert_string_equal(said,
			    "vpmu: 'web' is the name of 2 VMs; use the number of one, '#ID':\n"
			    "  #1  PID 100  web\n"
			    "  #30  PID 300  web\n");
	free(said);
	assert_int_equal(find("400", &said), -STATUS_USAGE);
	assert_string_equal(said,
			    "vpmu: '400' is the PID of 2 VMs; use the number of one, '#ID':\n"
			    "  #4  PID 400  100\n"
			    "  #5  PID 400  777\n");
	free(said);
}

/* The list grows while it is asked for: the second time there is room. */
static void lists_of_any_length(void **state)
{
	struct kvm_vpmu_vm *vms;
	struct device dev;
	struct fake fake;
	size_t count, i;

	fake_init(&fake, &dev, 0);
	assert_int_equal(device_vms(&dev, &vms, &count), 0);
	assert_int_equal(count, 0);
	free(vms);

	fake_init(&fake, &dev, 14);
	fake.growing = 3;
	assert_int_equal(device_vms(&dev, &vms, &count), 0);
	assert_int_equal(fake.looks, 2);
	assert_int_equal(count, 20);
	for (i = 0; i < count; i++)
		assert_int_equal(vms[i].id, i + 1);
	free(vms);

	fake.error = -5;
	assert_int_equal(device_vms(&dev, &vms, &count), -5);
}

static void settings_by_name(void **state)
{
	__u32 value;

	assert_true(vm_freeze_parse("hybrid", &value) && value == KVM_VPMU_FREEZE_HYBRID);
	assert_true(vm_freeze_parse("guest", &value) && value == KVM_VPMU_FREEZE_GUEST);
	assert_true(vm_freeze_parse("vcpu", &value) && value == KVM_VPMU_FREEZE_VCPU);
	assert_true(vm_tsc_parse("wall", &value) && value == KVM_VPMU_TSC_WALL);
	assert_true(vm_tsc_parse("vcpu", &value) && value == KVM_VPMU_TSC_VCPU);
	assert_false(vm_freeze_parse("", &value));
	assert_false(vm_freeze_parse("wall", &value));
	assert_false(vm_tsc_parse("Wall", &value));
	assert_true(vm_events_parse("on", &value) && value == KVM_VPMU_EVENTS_ON);
	assert_true(vm_events_parse("off", &value) && value == KVM_VPMU_EVENTS_OFF);
	assert_false(vm_events_parse("1", &value));
	assert_string_equal(vm_freeze_name(KVM_VPMU_FREEZE_VCPU), "vcpu");
	assert_string_equal(vm_tsc_name(KVM_VPMU_TSC_VCPU), "vcpu");
	assert_string_equal(vm_registers_name(KVM_VPMU_REGISTERS_AMD_V2), "amd-v2");
	assert_string_equal(vm_registers_name(KVM_VPMU_REGISTERS_INTEL + 2), "intel-v2");
	assert_string_equal(vm_registers_name(KVM_VPMU_REGISTERS_INTEL + 5), "intel-v5");
	assert_null(vm_registers_name(KVM_VPMU_REGISTERS_INTEL));
	assert_null(vm_freeze_name(3));
	assert_null(vm_tsc_name(2));
	assert_string_equal(vm_events_name(KVM_VPMU_EVENTS_ON), "on");
	assert_null(vm_events_name(2));
	assert_null(vm_registers_name(4));
}

static void numbers_in_arguments(void **state)
{
	uint64_t n;

	assert_true(parse_seconds("1", &n) && n == NS_PER_S);
	assert_true(parse_seconds("0.5", &n) && n == NS_PER_S / 2);
	assert_true(parse_seconds(".01", &n) && n == NS_PER_S / 100);
	assert_true(parse_seconds("86400", &n) && n == 86400 * NS_PER_S);
	assert_false(parse_seconds("", &n));
	assert_false(parse_seconds(".", &n));
	assert_false(parse_seconds("0", &n));
	assert_false(parse_seconds("0.009", &n));
	assert_false(parse_seconds("86401", &n));
	assert_false(parse_seconds("-1", &n));
	assert_false(parse_seconds("1s", &n));
	assert_false(parse_seconds(" 1", &n));
	assert_false(parse_seconds("nan", &n));
	assert_false(parse_seconds("1e3", &n));
	assert_false(parse_seconds("0x10", &n));

	assert_true(parse_number("1", 10, &n) && n == 1);
	assert_true(parse_number("10", 10, &n) && n == 10);
	assert_true(parse_number("18446744073709551615", UINT64_MAX, &n) && n == UINT64_MAX);
	assert_false(parse_number("11", 10, &n));
	assert_false(parse_number("0", 10, &n));
	assert_false(parse_number("", 10, &n));
	assert_false(parse_number("-1", 10, &n));
	assert_false(parse_number("+1", 10, &n));
	assert_false(parse_number("1 ", 10, &n));
	assert_false(parse_number("18446744073709551616", UINT64_MAX, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qemus_names),
		cmocka_unit_test(no_names),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test_setup_teardown(names_of_processes, make_proc, remove_proc),
		cmocka_unit_test_setup_teardown(no_names_in_another_pid_namespace, make_proc,
						remove_proc),
		cmocka_unit_test_setup_teardown(names_are_read_once, make_proc, remove_proc),
		cmocka_unit_test_setup_teardown(only_the_name_that_is_needed, make_proc,
						remove_proc),
		cmocka_unit_test(lookup_fails),
		cmocka_unit_test(vms_by_argument),
		cmocka_unit_test(no_such_vm),
		cmocka_unit_test(ambiguous_vms_are_listed),
		cmocka_unit_test(lists_of_any_length),
		cmocka_unit_test(settings_by_name),
		cmocka_unit_test(numbers_in_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
