// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * KVM_SET_PMU_EVENT_FILTER and KVM_PMU_CAP_DISABLE: an event that isn't allowed
 * stands still, one that is counts exactly, whenever that changes.  TAP.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include <linux/kvm_vpmu.h>

#include "tap.h"
#include "guests.h"

#ifndef KVM_PMU_ENCODE_MASKED_ENTRY
#error "kernel headers of 6.2 or later, please"
#endif

#define N	100	/* of the loop */
#define ROUNDS	5

/*
 * The unit mask changes nothing of what these count: AMD's; of Intel's only those of instructions and
 * branches, which are two each.
 */
static const uint64_t amd_selects[] = {
	INSTRUCTIONS, INSTRUCTIONS | 0x100, BRANCHES, INSTRUCTIONS | 0x3100, CONDITIONAL,
	BRANCHES | 0x200,
};
static const uint64_t intel_selects[] = {
	INSTRUCTIONS, INSTRUCTIONS | 0x100, BRANCHES, BRANCHES | 0x400,
};

/* This vendor's, as many as there are counters */
static const uint64_t *selects;
static unsigned int nr_selects;

/*
 * Behind them come fixed counters: of instructions, and two of cycles, of which it isn't known how
 * many there are.
 */
#define FIXED	4	/* Intel's bit in the masks below */
#define MAX	7

static bool is_cycles(unsigned int i)
{
	return i > nr_selects;
}

#define MAX_EVENTS	3
#define MASKED(event, mask, match)	KVM_PMU_ENCODE_MASKED_ENTRY(event, mask, match, 0)
#define BUT(event, mask, match)		KVM_PMU_ENCODE_MASKED_ENTRY(event, mask, match, 1)

/* Event 0x1c0, which shares its lower bits with retired instructions */
#define FAR_EVENT	0x1000000c0ull

struct test {
	const char *name;
	unsigned int action, flags, nr;
	uint64_t events[MAX_EVENTS];
	unsigned int counting;	/* mask of selects, and of fixed counters behind them */
	unsigned int fixed;	/* bitmap */
};

static const struct test amd_filters[] = {
	{ "deny nothing", KVM_PMU_EVENT_DENY, 0, 0, { }, 0x3f, 0 },
	{ "allow nothing", KVM_PMU_EVENT_ALLOW, 0, 0, { }, 0, 0 },
	{ "deny one unit mask", KVM_PMU_EVENT_DENY, 0, 1, { 0xc0 }, 0x3e, 0 },
	{ "deny two", KVM_PMU_EVENT_DENY, 0, 2, { 0xc2, 0x1c0 }, 0x39, 0 },
	{ "allow two", KVM_PMU_EVENT_ALLOW, 0, 2, { 0xd1, 0xc0 }, 0x11, 0 },
	{ "deny an event with a higher number", KVM_PMU_EVENT_DENY, 0, 1, { FAR_EVENT }, 0x3f, 0 },
	{ "allow only that", KVM_PMU_EVENT_ALLOW, 0, 1, { FAR_EVENT }, 0, 0 },
	{ "deny an event with other bits", KVM_PMU_EVENT_DENY, 0, 1, { EN | OS | 0xc0 }, 0x3f, 0 },

	{ "masked: deny an event", KVM_PMU_EVENT_DENY, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1,
	  { MASKED(0xc0, 0, 0) }, 0x34, 0 },
	{ "masked: deny some unit masks", KVM_PMU_EVENT_DENY, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1,
	  { MASKED(0xc0, 0x0f, 1) }, 0x35, 0 },
	{ "masked: deny some but one", KVM_PMU_EVENT_DENY, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 2,
	  { MASKED(0xc0, 0x0f, 1), BUT(0xc0, 0xff, 0x31) }, 0x3d, 0 },
	{ "masked: allow all but one", KVM_PMU_EVENT_ALLOW, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 3,
	  { BUT(0xc0, 0xff, 1), MASKED(0xc2, 0, 0), MASKED(0xc0, 0, 0) }, 0x2d, 0 },
	{ "masked: allow one unit mask", KVM_PMU_EVENT_ALLOW, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1,
	  { MASKED(0xc2, 0xff, 2) }, 0x20, 0 },
	{ "masked: only an exception", KVM_PMU_EVENT_ALLOW, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1,
	  { BUT(0xc0, 0xff, 1) }, 0, 0 },
	{ "masked: deny an event with a higher number", KVM_PMU_EVENT_DENY,
	  KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1, { MASKED(0x1c0, 0, 0) }, 0x3f, 0 },
};

/* Which fixed counters count doesn't depend on events: KVM's api.rst, "KVM_SET_PMU_EVENT_FILTER". */
static const struct test intel_filters[] = {
	{ "deny nothing", KVM_PMU_EVENT_DENY, 0, 0, { }, 0x7f, 0 },
	{ "allow nothing", KVM_PMU_EVENT_ALLOW, 0, 0, { }, 0, 0 },
	{ "deny one unit mask", KVM_PMU_EVENT_DENY, 0, 1, { 0xc0 }, 0x7e, 0 },
	{ "deny two", KVM_PMU_EVENT_DENY, 0, 2, { 0xc4, 0x1c0 }, 0x79, 0 },
	{ "allow two", KVM_PMU_EVENT_ALLOW, 0, 2, { 0x4c4, 0xc0 }, 0x09, 0 },
	{ "deny an event of AMD's", KVM_PMU_EVENT_DENY, 0, 1, { FAR_EVENT }, 0x7f, 0 },
	{ "allow only that", KVM_PMU_EVENT_ALLOW, 0, 1, { FAR_EVENT }, 0, 0 },
	{ "deny an event with other bits", KVM_PMU_EVENT_DENY, 0, 1, { EN | OS | 0xc0 }, 0x7f, 0 },

	{ "deny a fixed counter", KVM_PMU_EVENT_DENY, 0, 0, { }, 0x6f, 1 },
	{ "deny the others", KVM_PMU_EVENT_DENY, 0, 0, { }, 0x1f, 6 },
	{ "deny fixed counters and an event", KVM_PMU_EVENT_DENY, 0, 1, { 0xc0 }, 0x2e, 5 },
	{ "allow a fixed counter", KVM_PMU_EVENT_ALLOW, 0, 0, { }, 0x10, 1 },
	{ "allow another and an event", KVM_PMU_EVENT_ALLOW, 0, 1, { 0xc4 }, 0x24, 2 },
	{ "allow fixed counters that there aren't", KVM_PMU_EVENT_ALLOW, 0, 0, { }, 0, 0xfff8 },

	{ "masked: deny an event", KVM_PMU_EVENT_DENY, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1,
	  { MASKED(0xc0, 0, 0) }, 0x7c, 0 },
	{ "masked: deny some unit masks", KVM_PMU_EVENT_DENY, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1,
	  { MASKED(0xc0, 0x0f, 1) }, 0x7d, 0 },
	{ "masked: deny all but one", KVM_PMU_EVENT_DENY, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 2,
	  { MASKED(0xc0, 0, 0), BUT(0xc0, 0xff, 1) }, 0x7e, 0 },
	{ "masked: allow all but one", KVM_PMU_EVENT_ALLOW, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 3,
	  { BUT(0xc0, 0xff, 1), MASKED(0xc4, 0, 0), MASKED(0xc0, 0, 0) }, 0x0d, 0 },
	{ "masked: allow one unit mask, and a fixed counter", KVM_PMU_EVENT_ALLOW,
	  KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1, { MASKED(0xc4, 0xff, 4) }, 0x48, 4 },
	{ "masked: only an exception", KVM_PMU_EVENT_ALLOW, KVM_PMU_EVENT_FLAG_MASKED_EVENTS, 1,
	  { BUT(0xc0, 0xff, 1) }, 0, 0 },
};

static const struct test *filters;
static unsigned int nr_filters;

static const struct test none = { "no more", KVM_PMU_EVENT_DENY, 0, 0, { }, ~0u, 0 };

static bool has_masked;
static const char running_untold[] = "KVM before Linux 6.2 tells a running vCPU nothing of a new filter";

struct filter {
	struct kvm_pmu_event_filter head;
	uint64_t events[MAX_EVENTS];
};

static void set_filter(const struct vm *vm, const struct test *t)
{
	struct filter f = { .head = { .action = t->action, .flags = t->flags, .nevents = t->nr,
				  .fixed_counter_bitmap = t->fixed } };

	memcpy(f.head.events, t->events, t->nr * sizeof(t->events[0]));
	IOCTL(vm->fd, KVM_SET_PMU_EVENT_FILTER, &f);
}

static bool skipped(const struct test *t, const char *how)
{
	if (!(t->flags & KVM_PMU_EVENT_FLAG_MASKED_EVENTS) || has_masked)
		return false;
	skip("no masked events before Linux 6.2", "%s, %s", t->name, how);
	return true;
}

/* All counters, from 0; the loop is at its start. */
static struct pmu start(struct vm *vm)
{
	struct pmu pmu = pmu_of(vm);

	load_code(vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	for (unsigned int i = 0; i < nr_selects; i++)
		put_counter(vm, pmu, i, selects[i] | OS | EN, 0);
	for (unsigned int n = 0; n < pmu.fixed; n++)
		put_fixed(vm, n, FIXED_OS, 0);
	if (pmu.fixed)
		set_msr(vm, GLOBAL_CONTROL, counter_bits(pmu));
	return pmu;
}

/* Counter @i of the masks, where fixed ones come right behind as many as there are selects */
static unsigned int place(struct pmu pmu, unsigned int i)
{
	return i < nr_selects ? i : i - nr_selects + pmu.nr;
}

/* Run on, and see that the counters of mask @counting did what the guest did, and the others nothing. */
static bool runs(struct vm *vm, struct pmu pmu, unsigned int counting, uint64_t *value, bool first)
{
	bool good = true;

	for (int round = 0; round < ROUNDS; round++) {
		run_until(vm, KVM_EXIT_IO);
		for (unsigned int i = 0; i < nr_selects + pmu.fixed; i++) {
			uint64_t now = counter(vm, pmu, place(pmu, i));

			if (counting & 1 << i && is_cycles(i))
				/* No cycle less than instructions: that's all there is to know. */
				value[i] = now - value[i] >= 2 * N ? now : ~0ull;
			else if (is_cycles(i) && !first && !round)
				/* Until KVM heard of the filter its own work for the vCPU went on counting. */
				value[i] = now;
			else if (counting & 1 << i)
				value[i] += loop_counts(i < nr_selects ? selects[i] : INSTRUCTIONS, N,
							first && !round);
			if (now != value[i]) {
				printf("# counter %u, round %d: %llu, expected %llu\n", i, round,
				       (unsigned long long)now, (unsigned long long)value[i]);
				value[i] = now;
				good = false;
			}
		}
	}
	return good;
}

static void set_before(const struct test *t)
{
	struct vm vm = make_vm(true);
	uint64_t value[MAX] = { };
	struct pmu pmu;

	set_filter(&vm, t);
	pmu = start(&vm);
	check(runs(&vm, pmu, t->counting, value, true), "%s, set before", t->name);
	free_vm(&vm);
}

/* One VM for all, each filter after the other while the counters run */
static void set_between(void)
{
	struct vm vm = make_vm(true);
	uint64_t value[MAX] = { };
	struct pmu pmu = start(&vm);

	check(runs(&vm, pmu, ~0, value, true), "without a filter");
	for (unsigned int i = 0; i < nr_filters; i++) {
		const struct test *t = &filters[i];

		if (skipped(t, "set between"))
			continue;
		set_filter(&vm, t);
		check(runs(&vm, pmu, t->counting, value, false), "%s, set between", t->name);
		if (i % 4)
			continue;
		set_filter(&vm, &none);
		check(runs(&vm, pmu, ~0, value, false), "%s, and taken away", t->name);
	}
	free_vm(&vm);
}

/* What a counter has stays when it is denied, and it takes new values. */
static void write_denied(void)
{
	struct vm vm = make_vm(true);
	uint64_t value[MAX] = { };
	struct pmu pmu = start(&vm);

	set_filter(&vm, &filters[1]);
	for (unsigned int i = 0; i < nr_selects + pmu.fixed; i++) {
		value[i] = 1000 * i + 5;
		set_msr(&vm, counter_msr(pmu, place(pmu, i)), value[i]);
	}
	check(runs(&vm, pmu, 0, value, true), "denied counters keep what is written to them");
	for (unsigned int i = 0; i < nr_selects; i++)
		if (get_msr(&vm, pmu.select + i * pmu.stride) != event_here(selects[i] | OS | EN))
			value[i] = ~0ull;
	if (pmu.fixed && get_msr(&vm, INTEL_FIXED_CONTROL) != 0x111)
		value[nr_selects] = ~0ull;
	set_filter(&vm, &none);
	check(runs(&vm, pmu, ~0, value, false), "and go on from there, as their selects say");
	free_vm(&vm);
}

#define LONG_N		200000
#define ITERATIONS	150

static atomic_bool toggling = true;
static struct vm toggled;

static void *toggle(void *toggles)
{
	static const struct test deny = { "", KVM_PMU_EVENT_DENY, 0, 1, { 0x1c0 }, 0, 0 };

	while (toggling) {
		set_filter(&toggled, ++*(int *)toggles % 2 ? &deny : &none);
		usleep(1000 + *(int *)toggles % 7 * 500);
	}
	return NULL;
}

/* By another thread, while the guest executes: the loop takes some milliseconds. */
static void set_while_running(void)
{
	unsigned int full = 0, still = 0, part = 0, wrong = 0;
	uint64_t last[2] = { }, now[2];
	int toggles = 0;
	pthread_t thread;
	struct pmu pmu;

	toggled = make_vm(true);
	pmu = pmu_of(&toggled);
	load_code(&toggled, loop_start, loop_end, (struct kvm_regs){ .rsi = LONG_N });
	for (unsigned int i = 0; i < 2; i++)
		put_counter(&toggled, pmu, i, selects[i] | OS | EN, 0);
	pthread_create(&thread, NULL, toggle, &toggles);
	for (int round = 0; round < ITERATIONS; round++) {
		uint64_t wanted = loop_counts(INSTRUCTIONS, LONG_N, !round);

		run_until(&toggled, KVM_EXIT_IO);
		for (unsigned int i = 0; i < 2; i++)
			now[i] = counter(&toggled, pmu, i);
		wrong += now[0] - last[0] != wanted || now[1] - last[1] > wanted;
		if (now[1] == last[1])
			still++;
		else if (now[1] - last[1] == wanted)
			full++;
		else
			part++;
		memcpy(last, now, sizeof(now));
	}
	toggling = false;
	pthread_join(thread, NULL);
	printf("# %d filters in %d iterations: %u with all, %u with nothing, %u with a part\n",
	       toggles, ITERATIONS, full, still, part);
	is(wrong, 0, "set while the guest executes: wrong counts");
	check(full && still, "both had their turns");
	if (has_masked)
		check(part > 0, "some of them in the middle of an iteration");
	else
		skip(running_untold, "some of them in the middle of an iteration");
	check(part <= (unsigned int)toggles, "no more than filters were set");
	free_vm(&toggled);
}

/* A guest that never leaves: what it reads itself, by RDPMC, at once stands still. */
extern const char spin_start[], spin_end[];
asm(".code16\n"
    ".globl spin_start, spin_end\n"
    "spin_start:\n"
    "1:	mov $1, %ecx\n"
    "	rdpmc\n"
    "	mov %eax, 0x2100\n"
    "	incl 0x2104\n"
    "	mov $20000, %edi\n"
    "2:	dec %edi\n"
    "	jnz 2b\n"
    "	cmpb $0, 0x2108\n"
    "	je 1b\n"
    "	hlt\n"
    "spin_end:\n"
    ".code64\n");

static void *spin(void *vm)
{
	run_to_hlt(vm);
	return NULL;
}

/* Let the guest get through its loop, twice so that it began after now; what it reads then */
static uint32_t seen(struct vm *vm)
{
	volatile uint32_t *table = word_at(vm, TABLE);
	uint32_t turns = table[1];

	while (table[1] - turns < 2)
		usleep(500);
	return table[0];
}

static void set_inside(void)
{
	static const struct test deny = { "", KVM_PMU_EVENT_DENY, 0, 1, { 0x1c0 }, 0, 0 };
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	unsigned int moved = 0, stuck = 0;
	pthread_t thread;

	if (!has_masked) {
		skip(running_untold, "denied while the guest never leaves");
		free_vm(&vm);
		return;
	}
	load_code(&vm, spin_start, spin_end, (struct kvm_regs){ });
	for (unsigned int i = 0; i < 2; i++)
		put_counter(&vm, pmu, i, selects[i] | OS | EN, 0);
	pthread_create(&thread, NULL, spin, &vm);
	for (int i = 0; i < 20; i++) {
		uint32_t before;

		set_filter(&vm, &deny);
		before = seen(&vm);
		moved += seen(&vm) != before;
		set_filter(&vm, &none);
		before = seen(&vm);
		stuck += seen(&vm) == before;
	}
	vm.memory[TABLE + 8] = 1;
	pthread_join(thread, NULL);
	is(moved, 0, "denied while the guest never leaves: times that it counted");
	is(stuck, 0, "allowed while the guest never leaves: times that it stood still");
	free_vm(&vm);
}

static void refuses(struct vm *vm, void *filter, int error, const char *what)
{
	int got = ioctl(vm->fd, KVM_SET_PMU_EVENT_FILTER, filter) ? errno : 0;

	is(got, error, "refused: %s", what);
}

/* KVM's errors (Documentation/virt/kvm/api.rst, "KVM_SET_PMU_EVENT_FILTER"), which change nothing */
static void errors(void)
{
	struct vm vm = make_vm(true);
	uint64_t value[MAX] = { };
	struct kvm_pmu_event_filter *many = calloc(1, sizeof(*many) + 400 * 8);
	struct filter f = { .head.action = 2 };
	struct pmu pmu;

	set_filter(&vm, &filters[2]);
	refuses(&vm, &f, EINVAL, "an action that isn't one");
	f.head = (struct kvm_pmu_event_filter){ .flags = 1u << 31 };
	refuses(&vm, &f, EINVAL, "a flag that isn't one");
	many->nevents = 301;
	refuses(&vm, many, E2BIG, "301 events");
	refuses(&vm, (void *)8, EFAULT, "an address that isn't there");
	if (has_masked) {
		f.head = (struct kvm_pmu_event_filter){
			.flags = KVM_PMU_EVENT_FLAG_MASKED_EVENTS, .nevents = 1,
		};
		f.head.events[0] = MASKED(0xc0, 0, 0) | 1ull << 40;
		refuses(&vm, &f, EINVAL, "a masked event with reserved bits");
	} else {
		skip("no masked events before Linux 6.2", "refused: reserved bits");
	}
	pmu = start(&vm);
	check(runs(&vm, pmu, filters[2].counting, value, true), "the filter before them is still there");
	many->nevents = 300;
	many->action = KVM_PMU_EVENT_DENY;
	for (int i = 0; i < 300; i++)
		many->events[i] = 0x300 + i;
	many->events[150] = 0xc0;
	many->events[299] = 0x1c0;
	IOCTL(vm.fd, KVM_SET_PMU_EVENT_FILTER, many);
	check(runs(&vm, pmu, ~3, value, false), "as many as KVM takes, 300");
	free(many);
	free_vm(&vm);
}

extern const char access_start[], access_end[];
asm(".code16\n"
    ".globl access_start, access_end\n"
    "access_start:\n"
    "	test %ebx, %ebx\n"
    "	jz 1f\n"
    "	wrmsr\n"
    "	jmp 2f\n"
    "1:	test %esi, %esi\n"
    "	jz 1f\n"
    "	rdpmc\n"
    "	jmp 3f\n"
    "1:	rdmsr\n"
    "3:	mov %eax, 0x2000\n"
    "	mov %edx, 0x2004\n"
    "2:	hlt\n"
    "access_end:\n"
    ".code64\n");

static bool faults(struct vm *vm, uint32_t index, bool write, bool rdpmc)
{
	load_code(vm, access_start, access_end,
		  (struct kvm_regs){ .rcx = index, .rbx = write, .rsi = rdpmc });
	run_to_hlt(vm);
	return vm->memory[RESULT + 8];
}

/* How many accesses of the guest's to any of these don't fault */
static unsigned int accessible(struct vm *vm, uint32_t first, unsigned int nr)
{
	unsigned int n = 0;

	for (uint32_t i = first; i < first + nr; i++)
		n += !faults(vm, i, false, false) + !faults(vm, i, true, false);
	return n;
}

static uint64_t accesses(int device)
{
	struct kvm_vpmu_info info;

	IOCTL(device, KVM_VPMU_GET_INFO, &info);
	return info.rdmsr + info.wrmsr + info.rdpmc;
}

static void disabled(void)
{
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);
	struct kvm_enable_cap cap = { .cap = KVM_CAP_PMU_CAPABILITY, .args[0] = 2 };
	unsigned int allowed = 0;
	uint32_t select;
	uint64_t before;
	struct vm vm;

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	vm = make_vm(true);
	is(ioctl(vm.fd, KVM_ENABLE_CAP, &cap) ? errno : 0, EINVAL, "disable: an unknown bit");
	cap.args[0] = KVM_PMU_CAP_DISABLE;
	is(ioctl(vm.fd, KVM_ENABLE_CAP, &cap) ? errno : 0, EINVAL, "disable: when there is a vCPU");
	before = accesses(device);
	start(&vm);
	run_until(&vm, KVM_EXIT_IO);
	check(accesses(device) > before, "with a PMU: the module accesses the CPU's");
	free_vm(&vm);

	before = accesses(device);
	vm = make_vm(false);
	set_filter(&vm, &filters[2]);
	if (on_intel()) {
		allowed += accessible(&vm, INTEL_SELECT0 + 2, MAX_INTEL - 2);
		allowed += accessible(&vm, INTEL_COUNTER0_LOW + 2, MAX_INTEL - 2);
		allowed += accessible(&vm, INTEL_COUNTER0, MAX_INTEL);
		allowed += accessible(&vm, INTEL_FIXED0, MAX_FIXED);
		allowed += accessible(&vm, INTEL_FIXED_CONTROL, 4);
	} else {
		allowed += accessible(&vm, CORE_SELECT0, 2 * NR_CORE);
		allowed += accessible(&vm, AMD_STATUS, 4);
	}
	is(allowed, 0, "disabled: accesses to registers without #GP");
	allowed = 0;
	for (uint32_t i = 0; i < NR_CORE; i++)
		allowed += !faults(&vm, i, false, true) && *(uint64_t *)(vm.memory + RESULT);
	/* #GP, or 0 as KVM of Linux 6.1 has it */
	is(allowed, 0, "disabled: RDPMC that reads anything");
	/* KVM has these even so, as they are older than CPUID's word on them; they do nothing. */
	select = on_intel() ? INTEL_SELECT0 : LEGACY_SELECT0;
	if (on_intel())
		/* From the guest: for userspace a write of anything but 0 fails. */
		check(!faults(&vm, select, true, false), "disabled: the first select");
	else
		set_msr(&vm, select, INSTRUCTIONS | OS | EN);
	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	run_until(&vm, KVM_EXIT_IO);
	is(get_msr(&vm, on_intel() ? INTEL_COUNTER0_LOW : LEGACY_COUNTER0), 0,
	   "disabled: a legacy counter");
	is(accesses(device), before, "disabled: accesses of the module to the CPU's PMU, in all");
	free_vm(&vm);
	close(device);
}

int main(void)
{
	struct vm vm = make_vm(true);

	has_masked = ioctl(vm.fd, KVM_CHECK_EXTENSION, KVM_CAP_PMU_EVENT_MASKED_EVENTS) > 0;
	if (ioctl(vm.fd, KVM_CHECK_EXTENSION, KVM_CAP_PMU_EVENT_FILTER) <= 0)
		skip_all("this KVM has no event filters");
	selects = on_intel() ? intel_selects : amd_selects;
	nr_selects = on_intel() ? FIXED : pmu_of(&vm).nr;
	filters = on_intel() ? intel_filters : amd_filters;
	nr_filters = on_intel() ? sizeof(intel_filters) / sizeof(intel_filters[0])
				: sizeof(amd_filters) / sizeof(amd_filters[0]);
	free_vm(&vm);

	for (unsigned int i = 0; i < nr_filters; i++)
		if (!skipped(&filters[i], "set before"))
			set_before(&filters[i]);
	set_between();
	write_denied();
	set_while_running();
	set_inside();
	errors();
	disabled();
	return finish();
}
