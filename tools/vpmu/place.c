// SPDX-License-Identifier: GPL-2.0-or-later
#include "place.h"

#include <inttypes.h>

#include "unwind.h"

/* CR3's bits that are an address: Intel SDM vol. 3 and AMD APM vol. 2, "CR3" */
#define CR3_ADDRESS	0x000ffffffffff000ull

/* Addresses in the same page are one place. */
static const char *page_of(uint64_t ip, char buffer[PLACE_SIZE])
{
	snprintf(buffer, PLACE_SIZE, "%#" PRIx64 "xxx", ip >> 12);
	return buffer;
}

static struct guest_map *map_of(const struct places *places, const struct vm *vm)
{
	return vm && places->map ? places->map[vm - places->recording->vm] : NULL;
}

/* Whose page table it was then; NULL: not known */
static const struct guest_process *process_of(const struct guest_map *map, const struct vm *vm,
					      const struct kvm_vpmu_record *r)
{
	uint64_t tsc = vm->clock.known ? guest_clock_tsc(&vm->clock, r->tsc) : 0;

	return guest_map_process(map, r->cr3 & CR3_ADDRESS, vm->clock.known ? &tsc : NULL);
}

static void in_guest(const struct places *places, const struct kvm_vpmu_record *r, struct place *p)
{
	const struct guest_map *map = r->mode == KVM_VPMU_MODE_NESTED ? NULL :
				      map_of(places, p->vm);
	const char *function = NULL, *module = NULL, *process = NULL;
	uint64_t offset = r->ip;

	if (r->mode == KVM_VPMU_MODE_NESTED)
		p->kind = PLACE_NESTED;
	else if (r->cpl == KVM_VPMU_CPL_NONE)
		p->kind = PLACE_GUEST;
	else
		p->kind = r->cpl == 3 ? PLACE_USER : PLACE_KERNEL;
	if (map) {
		const struct guest_process *its = process_of(map, p->vm, r);

		process = guest_process_name(its);
		function = guest_map_function(map, its, r->ip, &module, &offset);
	}
	if (!process && r->cr3)
		snprintf(p->buffer[0], PLACE_SIZE, "cr3 %#" PRIx64, (uint64_t)(r->cr3 & CR3_ADDRESS));
	p->process = process ? process : p->buffer[0];
	p->named = function;
	p->function = function ? function : page_of(offset, p->buffer[1]);
	p->module = module ? module : "";
}

/* The VM of process @pid; NULL: it has none, or several. */
static const struct vm *vm_of_process(const struct recording *rec, uint32_t pid)
{
	const struct vm *found = NULL;
	size_t i;

	for (i = 0; i < rec->vms; i++) {
		if (!pid || rec->vm[i].info.pid != (int)pid)
			continue;
		if (found)
			return NULL;
		found = &rec->vm[i];
	}
	return found;
}

static void in_host(const struct places *places, const struct kvm_vpmu_record *r, struct place *p)
{
	const struct recording *rec = places->recording;
	const struct recording_name *process = recording_find(rec, r->pid, 0);
	const struct recording_name *name;

	/* While KVM loads a vCPU or puts it, the record has no VM. */
	if (!p->vm && (r->mode == KVM_VPMU_MODE_HOST_USER || r->vcpu >= 0))
		p->vm = vm_of_process(rec, r->pid);
	if (r->mode == KVM_VPMU_MODE_HOST_USER) {
		if (p->vm)
			p->kind = PLACE_VMM;
		name = recording_find(rec, r->pid, r->ip);
	} else {
		if (r->vcpu >= 0)
			p->kind = PLACE_KVM;
		name = recording_find(rec, 0, r->ip);
	}
	if (!r->pid)
		p->process = "idle";
	else if (process)
		p->process = process->name;
	else
		snprintf(p->buffer[0], PLACE_SIZE, "%" PRIu32, r->pid);
	p->named = name;
	p->function = name ? name->name : page_of(r->ip, p->buffer[1]);
	p->module = name && name->module ? name->module :
		    r->mode == KVM_VPMU_MODE_HOST_KERNEL ? "kernel" : "";
}

void place_of(const struct places *places, const struct recorded *recorded, struct place *p)
{
	const struct kvm_vpmu_record *r = &recorded->r;

	p->kind = PLACE_HOST;
	p->vm = recording_vm(places->recording, r->vm);
	p->buffer[0][0] = p->buffer[1][0] = 0;
	p->process = p->buffer[0];
	if (r->mode == KVM_VPMU_MODE_GUEST || r->mode == KVM_VPMU_MODE_NESTED)
		in_guest(places, r, p);
	else
		in_host(places, r, p);
}

/* Addresses in the calls of @recorded's callers, the innermost first.  Return: how many. */
static unsigned int callers_of(const struct places *places, const struct guest_map *map,
			       const struct recorded *recorded, uint64_t ip[KVM_VPMU_STACK_MAX])
{
	const struct recorded_stack *stack = recording_stack(places->recording, recorded);
	const struct recorded_stack *words = recording_words(places->recording, recorded);
	const uint64_t *address = places->recording->address;
	unsigned int n;

	if (map && recorded->r.cpl != 3 && !guest_map_has_frames(map))
		return words ? unwind_kernel(map, recorded->r.ip, &address[words->first],
					     words->nr, ip) : 0;
	/* In the call, and not behind it, where another function may begin */
	for (n = 0; stack && n < stack->nr && n < KVM_VPMU_STACK_MAX; n++)
		ip[n] = address[stack->first + n] - 1;
	return n;
}

unsigned int place_callers(const struct places *places, const struct recorded *recorded,
			   struct frame *frame)
{
	const struct kvm_vpmu_record *r = &recorded->r;
	const struct vm *vm = recording_vm(places->recording, r->vm);
	const struct guest_map *map = map_of(places, vm);
	const struct guest_process *process = map ? process_of(map, vm, r) : NULL;
	uint64_t ip[KVM_VPMU_STACK_MAX];
	unsigned int callers = callers_of(places, map, recorded, ip), i;

	for (i = 0; i < callers; i++) {
		const char *function = NULL, *module = NULL;
		uint64_t offset = ip[i];

		if (map)
			function = guest_map_function(map, process, ip[i], &module, &offset);
		frame[i].named = function;
		frame[i].function = function ? function : page_of(offset, frame[i].buffer);
		frame[i].module = module ? module : "";
		frame[i].ip = ip[i];
	}
	return i;
}

uint32_t place_guest_pid(const struct places *places, const struct recorded *recorded)
{
	const struct kvm_vpmu_record *r = &recorded->r;
	const struct vm *vm = recording_vm(places->recording, r->vm);
	const struct guest_map *map = map_of(places, vm);

	if (!map || r->mode != KVM_VPMU_MODE_GUEST)
		return 0;
	return guest_process_pid(process_of(map, vm, r));
}

const char *place_kind_name(enum place_kind kind)
{
	static const char *const names[PLACE_KINDS] = {
		"host", "VMM", "KVM", "guest kernel", "guest user", "nested guest", "guest",
	};

	return names[kind];
}

const char *place_vm_name(const struct vm *vm)
{
	return vm ? vm->name : "?";
}
