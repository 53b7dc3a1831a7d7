/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Redirection of kernel functions by ftrace, as livepatch does it.
 *
 * A redirected function is entered at our handler instead.  The handler
 * reaches the original through a static call to the address behind the
 * function's fentry call: calling the function itself would come back to the
 * handler, and that address has no ENDBR, so that an indirect call would be a
 * control protection fault where kernel IBT is on.
 */
#ifndef VPMU_HOOK_H
#define VPMU_HOOK_H

#include <linux/ftrace.h>
#include <linux/types.h>

/**
 * struct hook - one function that we care about
 * @symbol: its name
 * @handler: goes in its place, with the same prototype; NULL to only watch
 * @when: whether to redirect a call, by its first argument
 * @entry: called before the function runs, with its first argument, by
 *	hooks without a @handler; must not be traceable
 * @bind: points the static call for the original to its argument
 * @without: what doesn't work if the symbol is missing; NULL if we can't
 *	work at all then
 */
struct hook {
	const char *symbol;
	void *handler;
	bool (*when)(void *arg);
	void (*entry)(void *arg);
	void (*bind)(void *original);
	const char *without;

	/* private */
	struct ftrace_ops ops;
	unsigned long ip;
	bool active;
};

/**
 * hooks_enable() - hook all functions of a table, in its order
 * @hooks: the table
 * @nr: its length
 *
 * Either all are hooked (but for optional ones that are missing) or none.
 *
 * Return: 0; -ENOENT if a symbol is missing, -EBUSY if another IPMODIFY user
 * (a livepatch, say) has taken a function, or what ftrace returned.  A message
 * names the function.
 */
int hooks_enable(struct hook *hooks, unsigned int nr);

/* Unhook, in reverse order; no call of a handler is under way afterwards
 * unless it sleeps, which the callers exclude by module references.
 */
void hooks_disable(struct hook *hooks, unsigned int nr);

/* The hooks of this module. */
extern struct hook vpmu_hooks[];
extern const unsigned int vpmu_nr_hooks;

#endif
