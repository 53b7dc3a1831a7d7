// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests that count beside each other, in the placements that Perfctr-Xen was
 * evaluated in (its section 5): each on a CPU of its own, all on one, or moved from
 * one to another at random.  TAP.
 *
 *	placements [own|shared|moving]...
 *
 * Each guest counts a loop whose instructions are known, and reads its TSC
 * before and after.  That is a TSC per vCPU (KVM_VPMU_TSC_VCPU), so the difference
 * is the time that the vCPU was on a CPU, as KVM loads and puts it.  How long tasks
 * run at a time is up to the caller: see host/placements.sh.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <linux/kvm_vpmu.h>

#include "vm.h"
#include "pin.h"
#include "oracle.h"
#include "trace.h"
#include "tap.h"

#define GUESTS		3
#define COUNTERS	4
#define ITERATIONS	8000
#define ROUNDS		60000

#define MOVE_US	100000

/*
 * ESI counters whose selects are in the table; the TSC before and after EBX
 * iterations is left behind them.  Starts at offset 0 of its segment: there the
 * oracle's reference begins anew.
 */
extern const char work_start[], work_end[];
asm(".code16\n"
    ".globl work_start, work_end\n"
    "work_start:\n"
    "	mov %ebx, %ebp\n"
    "	xor %edi, %edi\n"
    "1:	lea 0xc0010200(,%edi,2), %ecx\n"
    "	mov 0x2100(,%edi,8), %eax\n"
    "	mov 0x2104(,%edi,8), %edx\n"
    "	wrmsr\n"
    "	inc %edi\n"
    "	cmp %esi, %edi\n"
    "	jne 1b\n"
    "	out %al, $0x10\n"		/* the host looks at its clock */
    "	rdtsc\n"
    "	mov %eax, 0x2140\n"
    "	mov %edx, 0x2144\n"
    "	test %ebp, %ebp\n"
    "	jz 4f\n"
    "2:	xor %eax, %eax\n"
    "	cpuid\n"
    "	mov 0x2150, %ecx\n"
    "3:	dec %ecx\n"
    "	jnz 3b\n"
    "	dec %ebp\n"
    "	jnz 2b\n"
    "4:	rdtsc\n"
    "	mov %eax, 0x2148\n"
    "	mov %edx, 0x214c\n"
    "	xor %edi, %edi\n"
    "5:	lea 0xc0010200(,%edi,2), %ecx\n"
    "	xor %eax, %eax\n"
    "	xor %edx, %edx\n"
    "	wrmsr\n"
    "	inc %ecx\n"
    "	rdmsr\n"
    "	mov %eax, 0x2100(,%edi,8)\n"
    "	mov %edx, 0x2104(,%edi,8)\n"
    "	inc %edi\n"
    "	cmp %esi, %edi\n"
    "	jne 5b\n"
    "	hlt\n"
    "work_end:\n"
    ".code64\n");

static const struct {
	const char *name;
	uint64_t select;
	uint64_t per_iteration;
	int64_t once;
} event[COUNTERS] = {
	{ "instructions", 0x4300c0, 2 * ROUNDS + 5, 0 },
	{ "branches", 0x4300c2, ROUNDS + 1, 0 },
	/* The last round's jump isn't taken, nor is the last iteration's; that around none is. */
	{ "taken branches", 0x4300c4, ROUNDS, -2 },
	{ "conditional branches", 0x4300d1, ROUNDS + 1, 0 },
};

/* What parent and guests share */
struct guest {
	pid_t pid;
	bool ready, done;
	uint64_t start, end;		/* of the host's TSC */
	uint64_t tsc[2];		/* of the guest's */
	uint64_t none[COUNTERS], count[COUNTERS];
	struct kvm_vpmu_vcpu figures;
};

static struct guest *guests;
static volatile bool *go;
static int msr;
static double khz;

static struct kvm_vpmu_vcpu figures(int device, pid_t pid)
{
	struct kvm_vpmu_vm vms[50];
	struct kvm_vpmu_vms list = { .vms = (uintptr_t)vms, .room = 50 };
	struct kvm_vpmu_vcpu v = { };

	IOCTL(device, KVM_VPMU_GET_VMS, &list);
	for (unsigned int i = 0; i < list.count && i < 50; i++) {
		if (vms[i].pid != pid)
			continue;
		v.vm = vms[i].id;
		IOCTL(device, KVM_VPMU_GET_VCPU, &v);
		return v;
	}
	errx(1, "no figures");
}

static void prepare(struct vm *vm, uint32_t iterations)
{
	struct kvm_regs regs = { .rbx = iterations, .rsi = COUNTERS, .rsp = STACK, .rflags = 2 };
	uint32_t rounds = ROUNDS;
	struct kvm_sregs sregs;

	load_code(vm, work_start, work_end, regs);
	IOCTL(vm->vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = CODE;
	sregs.cs.selector = CODE >> 4;
	IOCTL(vm->vcpu, KVM_SET_SREGS, &sregs);
	IOCTL(vm->vcpu, KVM_SET_REGS, &regs);
	for (unsigned int i = 0; i < COUNTERS; i++)
		memcpy(vm->memory + TABLE + 8 * i, &event[i].select, 8);
	memcpy(vm->memory + TABLE + 0x50, &rounds, 4);
	for (unsigned int i = 0; i < COUNTERS; i++) {
		struct {
			struct kvm_msrs head;
			struct kvm_msr_entry entry;
		} zero = { .head.nmsrs = 1, .entry.index = 0xc0010201 + 2 * i };

		if (ioctl(vm->vcpu, KVM_SET_MSRS, &zero) != 1)
			err(1, "KVM_SET_MSRS");
	}
	IOCTL(vm->vcpu, KVM_RUN, NULL);
	if (vm->run->exit_reason != KVM_EXIT_IO)
		errx(1, "the guest ended with exit reason %u", vm->run->exit_reason);
}

/* A process */
static void be_guest(struct guest *g)
{
	struct vm vm = make_vm(true);
	struct kvm_vpmu_settings s = {
		.fd = vm.fd, .fields = KVM_VPMU_SET_TSC, .tsc = KVM_VPMU_TSC_VCPU,
	};
	int device = open("/dev/kvm-vpmu", O_RDWR | O_CLOEXEC);

	if (device < 0)
		err(1, "/dev/kvm-vpmu");
	IOCTL(device, KVM_VPMU_SET, &s);
	prepare(&vm, 0);
	run_to_hlt(&vm);
	memcpy(g->none, vm.memory + TABLE, sizeof(g->none));
	prepare(&vm, ITERATIONS);
	g->ready = true;
	while (!*go)
		sched_yield();
	g->start = __builtin_ia32_rdtsc();
	run_to_hlt(&vm);
	g->end = __builtin_ia32_rdtsc();
	memcpy(g->count, vm.memory + TABLE, sizeof(g->count));
	memcpy(g->tsc, vm.memory + TABLE + 0x40, sizeof(g->tsc));
	g->figures = figures(device, getpid());
	g->done = true;
	_exit(0);
}

enum placement { OWN, SHARED, MOVING };

static void run(const char *name, enum placement placement, unsigned int cpus)
{
	unsigned int nr = placement == OWN && cpus < GUESTS ? cpus : GUESTS;
	uint64_t compared = oracle_msr(msr, ORACLE_COMPARISONS);
	uint64_t mismatches = oracle_msr(msr, ORACLE_MISMATCHES);
	unsigned int moved = 0, seed = 1;

	memset(guests, 0, GUESTS * sizeof(*guests));
	*go = false;
	for (unsigned int i = 0; i < nr; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid) {
			pin(0, placement == OWN ? i : 0);
			be_guest(&guests[i]);
		}
		guests[i].pid = pid;
	}
	for (unsigned int i = 0; i < nr; i++)
		while (!guests[i].ready)
			usleep(1000);
	clear_trace();
	*go = true;
	for (unsigned int i = 0; i < nr; i++) {
		while (!guests[i].done) {
			usleep(MOVE_US);
			if (placement != MOVING)
				continue;
			pin(guests[rand_r(&seed) % nr].pid, rand_r(&seed) % cpus);
			moved++;
		}
	}
	for (unsigned int i = 0; i < nr; i++)
		waitpid(guests[i].pid, NULL, 0);

	for (unsigned int i = 0; i < nr; i++) {
		const struct guest *g = &guests[i];
		unsigned int pieces;
		double seen, truth = on_cpu(g->pid, g->start, g->end, &pieces) / khz;

		for (unsigned int n = 0; n < COUNTERS; n++) {
			uint64_t wanted = ITERATIONS * event[n].per_iteration + event[n].once;
			uint64_t got = g->count[n] - g->none[n];

			check(got == wanted, "%s: guest %u: %s (%lld, wanted %lld)", name, i,
			       event[n].name, (long long)got, (long long)wanted);
		}
		seen = (g->tsc[1] - g->tsc[0]) / khz;
		check(seen > 0.999 * truth && seen < 1.001 * truth,
		       "%s: guest %u: TSC: %.3f ms, on a CPU %.3f ms (%+.3f %%), of %.3f ms", name,
		       i, seen, truth, 100 * (seen - truth) / truth, (g->end - g->start) / khz);
		check(placement == OWN || pieces >= 5, "%s: guest %u: in pieces (%u)", name, i,
		       pieces);
		check(!g->figures.anomalies, "%s: guest %u: anomalies (%llu)", name, i,
		       g->figures.anomalies);
		printf("# %s: guest %u: %llu VM exits, %llu borrowed, %llu evicted\n", name, i,
		       g->figures.exits, g->figures.borrowed, g->figures.evicted);
	}
	if (placement == MOVING)
		printf("# %s: moved %u times\n", name, moved);
	check(oracle_msr(msr, ORACLE_MISMATCHES) == mismatches,
	       "%s: no read differs from the truth", name);
	/* Of both runs of each */
	compared = oracle_msr(msr, ORACLE_COMPARISONS) - compared;
	check(compared == 2 * COUNTERS * nr, "%s: reads compared (%llu)", name,
	       (unsigned long long)compared);
}

int main(int argc, char **argv)
{
	static const char * const placements[] = { "own", "shared", "moving" };
	unsigned int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct vm vm;

	guests = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (guests == MAP_FAILED || go == MAP_FAILED)
		err(1, "mmap");
	msr = open_oracle(0);
	vm = make_vm(true);
	khz = ioctl(vm.vcpu, KVM_GET_TSC_KHZ, 0);
	free_vm(&vm);
	start_tracing();
	put_string(TRACING "buffer_size_kb", "8192");
	for (int i = 1; i < argc; i++) {
		int n;

		for (n = 0; n < 3 && strcmp(argv[i], placements[n]); n++)
			;
		if (n == 3)
			errx(2, "no placement '%s'", argv[i]);
		run(argv[i], n, cpus);
	}
	stop_tracing();
	return finish();
}
