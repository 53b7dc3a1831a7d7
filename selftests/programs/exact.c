// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Loops whose instructions and branches are known exactly.
 *
 *	exact KIND COUNT
 *
 * COUNT is 8 hexadecimal digits. Nothing but the loop depends on it: no C
 * library, no start-up code, no parsing that takes longer for larger numbers.
 * So two runs differ by the loop's instructions and nothing else.
 *
 *	loop	nop, dec, jnz: 3 instructions and 1 branch each time
 *	cpuid	the same with CPUID in front: 4 and 1; a hypervisor completes the
 *		CPUID
 *	rep	a REP MOVSB of 64 bytes (one instruction), its 3 set-up
 *		instructions, dec, jnz: 6 and 1
 *	jcc	a conditional branch that isn't taken, one that is, dec, jnz:
 *		5 and 3 (with the compare)
 *	call	call, ret, dec, jnz: 4 and 3
 *	syscall	getppid: mov, syscall, dec, jnz: 4, and in user mode 2 branches
 */

static char from[64], to[64];

__attribute__((noreturn)) static void exit_with(int status)
{
	asm volatile("syscall" : : "a"(60), "D"(status) : "rcx", "r11", "memory");
	__builtin_unreachable();
}

static unsigned long parse(const char *digits)
{
	unsigned long value = 0;
	int i;

	for (i = 0; i < 8; i++) {
		/* '0'..'9' and 'a'..'f' without a branch */
		unsigned long c = (unsigned char)digits[i];

		value = value << 4 | ((c & 0xf) + 9 * (c >> 6));
	}
	return value;
}

/* Only these asm blocks depend on the count. */
static void loop(unsigned long n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tnop\n\tdec %0\n\tjnz 1b\n2:" : "+r"(n) : : "cc");
}

static void cpuid(unsigned long n)
{
	asm volatile("test %%rsi, %%rsi\n\tjz 2f\n"
		     "1:\tcpuid\n\tnop\n\tdec %%rsi\n\tjnz 1b\n2:"
		     : "+S"(n) : : "rax", "rbx", "rcx", "rdx", "cc");
}

static void rep(unsigned long n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tmov %1, %%rsi\n\tmov %2, %%rdi\n\tmov $64, %%ecx\n"
		     "\trep movsb\n\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : "r"(from), "r"(to) : "rsi", "rdi", "rcx", "cc", "memory");
}

static void jcc(unsigned long n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tcmp %0, %0\n\tjne 2f\n\tje 3f\n3:\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : : "cc");
}

static void call(unsigned long n)
{
	asm volatile("jmp 4f\n3:\tret\n"
		     "4:\ttest %0, %0\n\tjz 2f\n"
		     "1:\tcall 3b\n\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : : "cc", "memory");
}

static void syscalls(unsigned long n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tmov $110, %%eax\n\tsyscall\n\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : : "rax", "rcx", "r11", "cc", "memory");
}

__attribute__((used, noreturn)) static void start(long *stack)
{
	char **argv = (char **)(stack + 1);
	unsigned long n;

	if (stack[0] != 3)
		exit_with(2);
	n = parse(argv[2]);
	switch (argv[1][0]) {
	case 'l':
		loop(n);
		break;
	case 'c':
		if (argv[1][1] == 'p')
			cpuid(n);
		else
			call(n);
		break;
	case 'r':
		rep(n);
		break;
	case 'j':
		jcc(n);
		break;
	case 's':
		syscalls(n);
		break;
	default:
		exit_with(2);
	}
	exit_with(0);
}

asm(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tcall start\n");
