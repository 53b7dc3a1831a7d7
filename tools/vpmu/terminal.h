/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What top asks of a terminal; apart from it, as <term.h> takes words like "lines" for itself. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>

/* Can top draw on stdin and stdout?  If not, a message on stderr says why. */
bool terminal_fits(void);

#endif
