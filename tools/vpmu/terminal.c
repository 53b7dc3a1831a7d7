// SPDX-License-Identifier: GPL-2.0-or-later
#include "terminal.h"

#include <curses.h>
#include <err.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>

#define INSTEAD	"(use vpmu stat -i)"

bool terminal_fits(void)
{
	const char *name = getenv("TERM");
	bool fits;
	int error;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		warnx("top needs a terminal " INSTEAD);
		return false;
	}
	if (!name || !*name) {
		warnx("TERM isn't set: the kind of terminal isn't known " INSTEAD);
		return false;
	}
	if (setupterm(NULL, STDOUT_FILENO, &error) != OK) {
		warnx("the terminal '%s' isn't known " INSTEAD, name);
		return false;
	}
	fits = cursor_address && clear_screen;
	del_curterm(cur_term);
	if (!fits)
		warnx("the terminal '%s' can't move its cursor " INSTEAD, name);
	return fits;
}
