// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * In a guest that lets user mode use RDPMC: COUNT times each of three instructions that cause VM
 * exits.  The symbols behind_... are where each continues.
 *
 *	exits COUNT
 */
#include <cpuid.h>
#include <stdlib.h>

/* No such hypercall, and KVM has none for user mode */
#define HYPERCALL	1000

static void cpuids(unsigned long n)
{
	asm volatile("1:	xor %%eax, %%eax\n"
		     "	cpuid\n"
		     ".globl behind_cpuid\n"
		     "behind_cpuid:	dec %%rsi\n"
		     "	jnz 1b\n" : "+S"(n) : : "rax", "rbx", "rcx", "rdx", "cc");
}

static void rdpmcs(unsigned long n)
{
	asm volatile("1:	xor %%ecx, %%ecx\n"
		     "	rdpmc\n"
		     ".globl behind_rdpmc\n"
		     "behind_rdpmc:	dec %0\n"
		     "	jnz 1b\n" : "+S"(n) : : "rax", "rcx", "rdx", "cc");
}

static void hypercalls_of_amd(unsigned long n)
{
	asm volatile("1:	mov %1, %%eax\n"
		     "	vmmcall\n"
		     ".globl behind_vmmcall\n"
		     "behind_vmmcall:	dec %0\n"
		     "	jnz 1b\n" : "+r"(n) : "i"(HYPERCALL) : "rax", "cc");
}

static void hypercalls_of_intel(unsigned long n)
{
	asm volatile("1:	mov %1, %%eax\n"
		     "	vmcall\n"
		     ".globl behind_vmcall\n"
		     "behind_vmcall:	dec %0\n"
		     "	jnz 1b\n" : "+r"(n) : "i"(HYPERCALL) : "rax", "cc");
}

int main(int argc, char **argv)
{
	unsigned long n = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned int a, b = 0, c, d;

	__get_cpuid(0, &a, &b, &c, &d);
	if (!n)
		return 0;
	cpuids(n);
	rdpmcs(n);
	if (b == signature_INTEL_ebx)
		hypercalls_of_intel(n);
	else
		hypercalls_of_amd(n);
	return 0;
}
