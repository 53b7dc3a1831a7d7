// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A counting guest whose PMU registers userspace saves and restores, in
 * whatever order, into the same VM or a new one.  TAP.
 */
#define _GNU_SOURCE

#include "tap.h"
#include "sampler.h"

#define N		100
#define MAX_REGISTERS	40

struct registers {
	struct kvm_msrs head;
	struct kvm_msr_entry entry[MAX_REGISTERS];
};

/* Of one vendor; no number means something else to the other one. */
static bool is_pmu(uint32_t msr)
{
	return (msr >= LEGACY_SELECT0 && msr < LEGACY_SELECT0 + 2 * NR_LEGACY) ||
	       (msr >= CORE_SELECT0 && msr < CORE_SELECT0 + 2 * NR_CORE) ||
	       (msr >= AMD_STATUS && msr <= STATUS_SET) ||
	       (msr >= INTEL_SELECT0 && msr < INTEL_SELECT0 + MAX_INTEL) ||
	       (msr >= INTEL_COUNTER0_LOW && msr < INTEL_COUNTER0_LOW + MAX_INTEL) ||
	       (msr >= INTEL_FIXED0 && msr < INTEL_FIXED0 + MAX_FIXED) ||
	       (msr >= INTEL_FIXED_CONTROL && msr <= INTEL_STATUS_RESET);
}

/* Those of KVM_GET_MSR_INDEX_LIST, in its order */
static struct registers listed(const struct vm *vm)
{
	struct registers r = { };
	struct kvm_msr_list *list = calloc(1, sizeof(*list) + 1000 * sizeof(list->indices[0]));

	list->nmsrs = 1000;
	IOCTL(vm->kvm, KVM_GET_MSR_INDEX_LIST, list);
	for (unsigned int i = 0; i < list->nmsrs; i++)
		if (is_pmu(list->indices[i])) {
			if (r.head.nmsrs == MAX_REGISTERS)
				errx(1, "KVM_GET_MSR_INDEX_LIST: too many");
			r.entry[r.head.nmsrs++].index = list->indices[i];
		}
	free(list);
	return r;
}

static bool lists(const struct registers *r, uint32_t first, unsigned int nr)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < r->head.nmsrs; i++)
		found += r->entry[i].index >= first && r->entry[i].index < first + nr;
	return found == nr;
}

/* 0 selects, 1 counters, 2 status, 3 control, 4 the registers that change the status */
static int kind(uint32_t msr)
{
	switch (msr) {
	case AMD_STATUS:
	case INTEL_STATUS:
		return 2;
	case AMD_CONTROL:
	case INTEL_CONTROL:
		return 3;
	case STATUS_CLEAR:
	case STATUS_SET:
	case INTEL_STATUS_RESET:
		return 4;
	case INTEL_FIXED_CONTROL:
		return 0;
	}
	if (msr < INTEL_STATUS)
		return msr < INTEL_SELECT0 || msr >= INTEL_FIXED0;
	if (msr >= CORE_SELECT0)
		return msr & 1;
	return msr >= LEGACY_COUNTER0;
}

static int by_kind(const void *a, const void *b)
{
	const struct kvm_msr_entry *x = a, *y = b;

	return kind(x->index) - kind(y->index);
}

static void swap(struct registers *r, unsigned int i, unsigned int j)
{
	struct kvm_msr_entry e = r->entry[i];

	r->entry[i] = r->entry[j];
	r->entry[j] = e;
}

enum order { LISTED, REVERSE, SELECTS_FIRST, CONTROL_FIRST, RANDOM, NR_ORDERS };

static const char * const order_names[] = {
	"as listed", "in reverse", "selects, counters, control", "control, counters, selects",
	"at random",
};

static void sort(struct registers *r, enum order order)
{
	unsigned int nr = r->head.nmsrs;

	switch (order) {
	case SELECTS_FIRST:
	case CONTROL_FIRST:
		qsort(r->entry, nr, sizeof(r->entry[0]), by_kind);
		if (order == SELECTS_FIRST)
			return;
		/* fallthrough */
	case REVERSE:
		for (unsigned int i = 0; i < nr / 2; i++)
			swap(r, i, nr - 1 - i);
		return;
	case RANDOM:
		for (unsigned int i = nr - 1; i > 0; i--)
			swap(r, i, rand() % (i + 1));
		return;
	default:
		return;
	}
}

static void save(struct vm *vm, struct registers *r)
{
	if ((unsigned int)IOCTL(vm->vcpu, KVM_GET_MSRS, r) != r->head.nmsrs)
		errx(1, "KVM_GET_MSRS doesn't know all that are listed");
}

/* At once or one by one, which lets KVM load and put the vCPU between */
static void restore(struct vm *vm, struct registers *r, bool one_by_one)
{
	if (one_by_one) {
		for (unsigned int i = 0; i < r->head.nmsrs; i++)
			set_msr(vm, r->entry[i].index, r->entry[i].data);
		return;
	}
	if ((unsigned int)IOCTL(vm->vcpu, KVM_SET_MSRS, r) != r->head.nmsrs)
		errx(1, "KVM_SET_MSRS doesn't take all that are listed");
}

static const uint64_t events[] = {
	INSTRUCTIONS, BRANCHES, TAKEN, CONDITIONAL, INSTRUCTIONS, BRANCHES,
};

/* Of fixed counters the first one counts instructions. */
static uint64_t event(struct pmu pmu, unsigned int i)
{
	return i < pmu.nr ? events[i % 6] : INSTRUCTIONS;
}

/* Global control keeps these still, where there is global control: of fixed ones those of cycles */
static bool is_still(struct pmu pmu, unsigned int i)
{
	return pmu.v2 && (i == 2 || i > pmu.nr);
}

/* So that they wrap in the fifth iteration */
static bool wraps(struct pmu pmu, unsigned int i)
{
	return i >= 4 && !is_still(pmu, i);
}

static uint64_t first_value(struct pmu pmu, unsigned int i)
{
	if (wraps(pmu, i))
		return NEG(loop_counts(event(pmu, i), N, false) * 4 + 50);
	/* Also what isn't the sign extension of 32 bits */
	return 1000000 * i + (i == 3 ? 0x7a0080000000 : 0);
}

static struct pmu start(struct vm *vm, uint64_t *value)
{
	struct pmu pmu = pmu_of(vm);
	uint64_t on = counter_bits(pmu);

	load_code(vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	for (unsigned int i = 0; i < nr_counters(pmu); i++) {
		value[i] = first_value(pmu, i);
		if (i < pmu.nr)
			put_counter(vm, pmu, i, event(pmu, i) | OS | EN, value[i]);
		else
			put_fixed(vm, i - pmu.nr, FIXED_OS, value[i]);
		if (is_still(pmu, i))
			on &= ~counter_bit(pmu, i);
	}
	if (pmu.v2)
		set_msr(vm, GLOBAL_CONTROL, on);
	return pmu;
}

/* Run to the next exit, and see that all is as it should be. */
static bool runs(struct vm *vm, struct pmu pmu, uint64_t *value, unsigned int round)
{
	uint64_t status = 0;
	bool good = true;

	run_until(vm, KVM_EXIT_IO);
	for (unsigned int i = 0; i < nr_counters(pmu); i++) {
		uint64_t now = counter(vm, pmu, i);

		if (!is_still(pmu, i))
			value[i] = (value[i] + loop_counts(event(pmu, i), N, !round)) & COUNTER_MASK;
		if (wraps(pmu, i) && value[i] < COUNTER_MASK / 2)
			status |= counter_bit(pmu, i);
		if (now == value[i])
			continue;
		printf("# round %u, counter %u: %#llx, expected %#llx\n", round, i,
		       (unsigned long long)now, (unsigned long long)value[i]);
		value[i] = now;
		good = false;
	}
	if (pmu.v2 && get_msr(vm, GLOBAL_STATUS) != status) {
		printf("# round %u: status %#llx, expected %#llx\n", round,
		       (unsigned long long)get_msr(vm, GLOBAL_STATUS), (unsigned long long)status);
		good = false;
	}
	return good;
}

/* Something else in all registers, so that nothing is right by having been left alone */
static void spoil(struct vm *vm, struct pmu pmu)
{
	for (unsigned int i = 0; i < pmu.nr; i++)
		put_counter(vm, pmu, i, events[(i + 1) % 6] | OS | EN | USR, 4711 * i);
	for (unsigned int n = 0; n < pmu.fixed; n++)
		put_fixed(vm, n, FIXED_OS | FIXED_USR | FIXED_INT, 4711 * n);
	if (pmu.v2) {
		set_msr(vm, GLOBAL_STATUS, 3);
		set_msr(vm, GLOBAL_CONTROL, 5);
	}
}

static void same_vcpu(enum order order)
{
	struct vm vm = make_vm(true);
	uint64_t value[MOST_COUNTERS];
	struct pmu pmu = start(&vm, value);
	bool good = true;

	for (unsigned int round = 0; round < 12; round++) {
		struct registers r = listed(&vm);

		sort(&r, rand() % NR_ORDERS);
		save(&vm, &r);
		spoil(&vm, pmu);
		sort(&r, order);
		restore(&vm, &r, round % 2);
		good &= runs(&vm, pmu, value, round);
	}
	check(good, "the same vCPU, %s", order_names[order]);
	free_vm(&vm);
}

/*
 * All there is of the vCPU to a new VM: a migration.  Userspace must have let
 * KVM complete an exit's instruction (Documentation/virt/kvm/api.rst, "The
 * kvm_run structure").
 */
static void migrate(struct vm *vm, bool apic, enum order order, bool events_last)
{
	struct vm to = make_vm_with(apic ? VM_APIC : 0, vm->size);
	struct registers r = listed(vm);
	struct kvm_vcpu_events pending;
	struct kvm_lapic_state lapic;
	struct kvm_mp_state state;
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	/* QEMU's way: what is pending first */
	if (!events_last)
		IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &pending);
	if (apic)
		IOCTL(vm->vcpu, KVM_GET_MP_STATE, &state);
	IOCTL(vm->vcpu, KVM_GET_REGS, &regs);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sort(&r, rand() % NR_ORDERS);
	save(vm, &r);
	if (apic)
		IOCTL(vm->vcpu, KVM_GET_LAPIC, &lapic);
	if (events_last)
		IOCTL(vm->vcpu, KVM_GET_VCPU_EVENTS, &pending);

	memcpy(to.memory, vm->memory, vm->size);
	IOCTL(to.vcpu, KVM_SET_SREGS, &sregs);
	IOCTL(to.vcpu, KVM_SET_REGS, &regs);
	sort(&r, order);
	restore(&to, &r, rand() % 2);
	IOCTL(to.vcpu, KVM_SET_VCPU_EVENTS, &pending);
	if (apic) {
		IOCTL(to.vcpu, KVM_SET_MP_STATE, &state);
		IOCTL(to.vcpu, KVM_SET_LAPIC, &lapic);
	}
	free_vm(vm);
	*vm = to;
}

static void new_vm(enum order order)
{
	struct vm vm = make_vm(true);
	uint64_t value[MOST_COUNTERS];
	struct pmu pmu = start(&vm, value);
	bool good = true;

	for (unsigned int round = 0; round < 8; round++) {
		if (round)
			complete(&vm);
		migrate(&vm, false, order, round % 2);
		good &= runs(&vm, pmu, value, round);
	}
	check(good, "a new VM, %s", order_names[order]);
	free_vm(&vm);
}

#define ROUNDS	6000
#define PERIOD	2500
#define MOST_MOVES	200	/* some 100 on the slowest of stock kernels */

/* At whatever instruction a signal finds it, interrupts and their handlers included */
static void anywhere(void)
{
	struct vm vm = make_sampler(ROUNDS, PERIOD);
	unsigned int moves = 0, patience = 0;
	uint32_t samples = 0;

	signal_after(scaled(7000));
	while (ioctl(vm.vcpu, KVM_RUN, NULL)) {
		if (errno != EINTR)
			err(1, "KVM_RUN");
		signal_after(0);
		migrate(&vm, true, rand() % NR_ORDERS, moves++ % 2);
		if (moves == MOST_MOVES)
			continue;
		/* On a slow host the guest must get somewhere, too. */
		patience = *word_at(&vm, SAMPLES) == samples ? 2 * patience + 1000 : 0;
		samples = *word_at(&vm, SAMPLES);
		/* At once now and then, where the new VM has just begun */
		signal_after(scaled(moves % 4 ? 3000 + rand() % 7000 : 300) + patience);
	}
	signal_after(0);
	if (vm.run->exit_reason != KVM_EXIT_IO)
		errx(1, "the guest ended with exit reason %u", vm.run->exit_reason);
	printf("# migrated %u times\n", moves);
	check(moves >= 20, "migrated often enough");
	check_sampler(&vm, ROUNDS, PERIOD, "migrated anywhere");
	free_vm(&vm);
}

/* What overflowed when the vCPU left for good comes in the new VM, in its place. */
static void pending_interrupt(bool events_last)
{
	struct vm vm = make_vm_with(VM_APIC, MEMORY);
	struct pmu pmu = pmu_of(&vm);
	const char *name = events_last ? "events saved last" : "events saved first";

	load_code(&vm, loop_start, loop_end, (struct kvm_regs){ .rsi = N });
	handle_nmis(&vm, 0);
	put_counter(&vm, pmu, 0, INSTRUCTIONS | OS | INT | EN,
		    NEG(loop_counts(INSTRUCTIONS, N, true) + 1));
	run_until(&vm, KVM_EXIT_IO);
	complete(&vm);		/* the OUT, which overflows */
	is(counter(&vm, pmu, 0), 0, "overflow at the exit, %s: counter", name);
	if (pmu.v2)
		is(get_msr(&vm, GLOBAL_STATUS), 1, "overflow at the exit, %s: status", name);
	migrate(&vm, true, LISTED, events_last);
	run_until(&vm, KVM_EXIT_IO);
	is(*word_at(&vm, SAMPLES), 1, "overflow at the exit, %s: interrupts in the new VM", name);
	is(*word_at(&vm, LAST_IP) & 0xffff, CODE + (loop_behind_out - loop_start),
	   "overflow at the exit, %s: its place", name);
	free_vm(&vm);
}

int main(void)
{
	struct vm vm = make_vm(true);
	struct pmu pmu = pmu_of(&vm);
	struct registers r = listed(&vm);

	srand(20);
	if (on_intel()) {
		check(lists(&r, INTEL_SELECT0, pmu.nr), "KVM_GET_MSR_INDEX_LIST: selects");
		check(lists(&r, INTEL_COUNTER0_LOW, pmu.nr), "KVM_GET_MSR_INDEX_LIST: counters");
		check(lists(&r, INTEL_FIXED0, pmu.fixed), "KVM_GET_MSR_INDEX_LIST: fixed counters");
		check(lists(&r, INTEL_FIXED_CONTROL, 3), "KVM_GET_MSR_INDEX_LIST: global registers");
	} else {
		check(lists(&r, LEGACY_SELECT0, 2 * NR_LEGACY),
		      "KVM_GET_MSR_INDEX_LIST: legacy registers");
		if (pmu.nr == NR_CORE)
			check(lists(&r, CORE_SELECT0, 2 * NR_CORE),
			      "KVM_GET_MSR_INDEX_LIST: core registers");
		if (pmu.v2)
			check(lists(&r, AMD_STATUS, 3), "KVM_GET_MSR_INDEX_LIST: global registers");
	}
	free_vm(&vm);

	for (enum order order = 0; order < NR_ORDERS; order++)
		same_vcpu(order);
	for (enum order order = 0; order < NR_ORDERS; order++)
		new_vm(order);
	vm = make_sampler(ROUNDS, PERIOD);
	run_until(&vm, KVM_EXIT_IO);
	check_sampler(&vm, ROUNDS, PERIOD, "left alone");
	free_vm(&vm);
	anywhere();
	pending_interrupt(false);
	pending_interrupt(true);
	return finish();
}
