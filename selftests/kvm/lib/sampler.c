// SPDX-License-Identifier: GPL-2.0-or-later
/* The sampler's interrupts, as tests want them. */
#include <signal.h>
#include <sys/klog.h>
#include <sys/time.h>

#include "tap.h"
#include "sampler.h"

unsigned int skid(void)
{
	const char *text = getenv("SKID");

	return text ? atoi(text) : 0;
}

void check_sampler(struct vm *vm, unsigned int rounds, unsigned int period,
		   const char *name)
{
	uint32_t samples = sampler_samples(rounds, period), got = *word_at(vm, SAMPLES);
	struct pmu pmu = pmu_of(vm);
	uint64_t since = counter(vm, pmu, 0) - NEG(period) - HANDLER_COUNTED, late;

	if (skid()) {
		/* All that is in no period: instructions between an overflow and its interrupt */
		late = SAMPLER_INSTRUCTIONS(rounds) - HANDLER_COUNTED - since -
		       got * (uint64_t)(period - HANDLER_COUNTED);
		check(late > 0 && late <= got * skid(),
		      "%s: instructions until an interrupt came, of %u: %lld", name, got,
		      (long long)late);
		samples = got;
	} else {
		is(got, samples, "%s: interrupts", name);
		is(since, (SAMPLER_INSTRUCTIONS(rounds) - period) % (period - HANDLER_COUNTED),
		   "%s: since the last interrupt", name);
	}
	is(counter(vm, pmu, 1), SAMPLER_INSTRUCTIONS(rounds) +
	   HANDLER_INSTRUCTIONS * (uint64_t)samples, "%s: instructions", name);
}

unsigned int in_log(const char *text)
{
	static char log[1 << 20];
	int length = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);
	unsigned int n = 0;

	if (length < 0)
		err(1, "the kernel's log");
	log[length] = '\0';
	for (const char *p = log; (p = strstr(p, text)); p++)
		n++;
	return n;
}

unsigned int unknown_nmis(void)
{
	return in_log("NMI received for unknown reason");
}

static void on_alarm(int signal)
{
	(void)signal;
}

void signal_after(unsigned int microseconds)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval t = { .it_interval.tv_usec = 20000,
			       .it_value = { microseconds / 1000000, microseconds % 1000000 } };

	if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &t, NULL))
		err(1, "a signal after %u us", microseconds);
}
