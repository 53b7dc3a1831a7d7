// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Shor's algorithm on libquantum's simulated quantum computer, for a profile of a program that spends
 * its time in a library: shor N X SECONDS looks for the period of X^i mod N, again and again, and is
 * ended by SIGALRM.  N = 1397 and X = 8 are what Yamamoto et al. profiled ("Unified Performance
 * Profiling of an Entire Virtualized Environment").
 */
#include <quantum.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Shor, "Polynomial-Time Algorithms for Prime Factorization and Discrete Logarithms", 5 */
static unsigned long long find_multiple(int n, int x)
{
	int width = quantum_getwidth(n * n), result_width = quantum_getwidth(n), i;
	quantum_reg reg = quantum_new_qureg(0, width);
	unsigned long long found;

	for (i = 0; i < width; i++)
		quantum_hadamard(i, &reg);
	/* X^i mod N, and what computing it takes */
	quantum_addscratch(3 * result_width + 2, &reg);
	quantum_exp_mod_n(n, x, width, result_width, &reg);
	for (i = 0; i < 3 * result_width + 2; i++)
		quantum_bmeasure(0, &reg);
	quantum_qft(width, &reg);
	found = quantum_measure(reg);
	quantum_delete_qureg(&reg);
	return found;
}

int main(int argc, char **argv)
{
	if (argc != 4 || atoi(argv[1]) < 15 || atoi(argv[1]) > 4000 || atoi(argv[2]) < 2) {
		fprintf(stderr, "usage: %s N X SECONDS\n", argv[0]);
		return 2;
	}
	setlinebuf(stdout);
	alarm(atoi(argv[3]));
	for (;;)
		printf("%llu\n", find_multiple(atoi(argv[1]), atoi(argv[2])));
}
