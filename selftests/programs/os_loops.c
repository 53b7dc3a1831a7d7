// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an operating system does for a program, with user-mode instructions and
 * branches that are known exactly, as in exact.c.
 *
 *	os_loops KIND COUNT
 *
 * COUNT is 8 hexadecimal digits. Per count:
 *
 *	fault	a page fault: touch a page, give it back by madvise(), dec, jnz:
 *		5 instructions and 2 branches
 *	signal	kill() itself; its handler, ret, sigreturn(); dec, jnz: 7 and 4
 *	fork	fork(), wait for the child; dec, jnz: 8 and 4, and the child's 5
 *		and 2
 *	exec	execute itself with a count of one less: always the same
 *	yield	two processes that hand the CPU to each other by sched_yield():
 *		4 and 2 in each
 *	gate	wait until a byte comes at standard input, then run the loop of
 *		exact.c: 3 and 1
 *	threads	the same with two threads, each for a byte of its own: 3 and 1,
 *		in the second one twice
 */

static char stack[4096] __attribute__((aligned(16)));
static char page[4096] __attribute__((aligned(4096)));

static long call(long nr, long a, long b, long c, long d)
{
	register long r10 asm("r10") = d;
	long result;

	asm volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
		     : "rcx", "r11", "memory");
	return result;
}

__attribute__((noreturn)) static void exit_with(int status)
{
	call(60, status, 0, 0, 0);
	__builtin_unreachable();
}

/* Without a branch that depends on the digits */
static unsigned long parse(const char *digits)
{
	unsigned long value = 0;
	int i;

	for (i = 0; i < 8; i++) {
		unsigned long c = (unsigned char)digits[i];

		value = value << 4 | ((c & 0xf) + 9 * (c >> 6));
	}
	return value;
}

static void unparse(char *digits, unsigned long value)
{
	int i;

	for (i = 8; i-- > 0; value >>= 4)
		digits[i] = "0123456789abcdef"[value & 0xf];
}

static void fault(unsigned long n)
{
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tmovb $1, (%%rdi)\n\tmov $28, %%eax\n\tsyscall\n\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : "D"(page), "S"(4096), "d"(4) : "rax", "rcx", "r11", "cc", "memory");
}

/* struct sigaction as the kernel has it */
static struct {
	void *handler;
	unsigned long flags;
	void *restorer;
	unsigned long mask;
} action;

extern char handler[], restorer[];
asm("handler:\n\tret\n"
    "restorer:\n\tmov $15, %eax\n\tsyscall\n");

static void signals(unsigned long n)
{
	long pid = call(39, 0, 0, 0, 0);

	action.handler = handler;
	action.flags = 0x04000000;	/* SA_RESTORER */
	action.restorer = restorer;
	call(13, 10, (long)&action, 0, 8);
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tmov $62, %%eax\n\tsyscall\n\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : "D"(pid), "S"(10) : "rax", "rcx", "r11", "cc", "memory");
}

static void forks(unsigned long n)
{
	register long r10 asm("r10") = 0;

	asm volatile("jmp 4f\n"
		     "3:\tmov $60, %%eax\n\txor %%edi, %%edi\n\tsyscall\n"
		     "4:\ttest %0, %0\n\tjz 2f\n"
		     "1:\tmov $57, %%eax\n\tsyscall\n\ttest %%eax, %%eax\n\tjz 3b\n\t"
		     "mov $61, %%eax\n\tsyscall\n\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : "D"(-1L), "S"(0L), "d"(0L), "r"(r10)
		     : "rax", "rcx", "r11", "cc", "memory");
}

static void yields(unsigned long n)
{
	long pid = call(57, 0, 0, 0, 0);

	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tmov $24, %%eax\n\tsyscall\n\tdec %0\n\tjnz 1b\n2:"
		     : "+r"(n) : : "rax", "rcx", "r11", "cc", "memory");
	if (pid)
		call(61, -1, 0, 0, 0);
}

static void gate(unsigned long n)
{
	char byte;

	call(0, 0, (long)&byte, 1, 0);
	asm volatile("test %0, %0\n\tjz 2f\n"
		     "1:\tnop\n\tdec %0\n\tjnz 1b\n2:" : "+r"(n) : : "cc");
}

static void threads(unsigned long n)
{
	/* CLONE_VM | _FS | _FILES | _SIGHAND | _THREAD | _SYSVSEM */
	long flags = 0x50f00;

	/* The second thread: read(0, page, 1), the loop 2 * N times, exit() */
	asm volatile("syscall\n\ttest %%eax, %%eax\n\tjnz 4f\n\t"
		     "xor %%edi, %%edi\n\tmov %2, %%rsi\n\tmov $1, %%edx\n\txor %%eax, %%eax\n\tsyscall\n\t"
		     "lea (%1,%1), %%rbx\n\ttest %%rbx, %%rbx\n\tjz 2f\n"
		     "1:\tnop\n\tdec %%rbx\n\tjnz 1b\n"
		     "2:\tmov $60, %%eax\n\txor %%edi, %%edi\n\tsyscall\n4:"
		     : "+&a"((long){ 56 })
		     : "r"(n), "r"(page), "D"(flags), "S"(stack + sizeof(stack)), "d"(0L)
		     : "rbx", "rcx", "r11", "cc", "memory");
	gate(n);
}

__attribute__((used, noreturn)) static void start(long *top)
{
	char **argv = (char **)(top + 1);
	unsigned long n;

	if (top[0] != 3)
		exit_with(2);
	n = parse(argv[2]);
	switch (argv[1][0]) {
	case 'f':
		if (argv[1][1] == 'a')
			fault(n);
		else
			forks(n);
		break;
	case 's':
		signals(n);
		break;
	case 'e':
		if (n) {
			unparse(argv[2], n - 1);
			call(59, (long)argv[0], (long)argv, 0, 0);
			exit_with(3);
		}
		break;
	case 'y':
		yields(n);
		break;
	case 'g':
		gate(n);
		break;
	case 't':
		threads(n);
		break;
	default:
		exit_with(2);
	}
	exit_with(0);
}

asm(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tcall start\n");
