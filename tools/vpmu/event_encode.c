// SPDX-License-Identifier: GPL-2.0-or-later
#include "event.h"

#include <errno.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

static bool parse_raw(const char *text, uint64_t *config)
{
	char *end;

	if (*text != 'r' || !strchr("0123456789abcdefABCDEF", text[1]) || !text[1])
		return false;
	errno = 0;
	*config = strtoull(text + 1, &end, 16);
	return !*end && !errno;
}

bool event_encode(const char *name, struct event_code *code, char **why)
{
	struct perf_event_attr attr = { };
	pfm_perf_encode_arg_t arg = { .attr = &attr, .size = sizeof(arg) };
	int r;

	if (parse_raw(name, &code->config)) {
		code->type = PERF_TYPE_RAW;
		return true;
	}
	r = pfm_initialize();
	if (r == PFM_SUCCESS)
		r = pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &arg);
	if (r != PFM_SUCCESS) {
		*why = xasprintf("event '%s': %s", name, pfm_strerror(r));
		return false;
	}
	if (attr.type != PERF_TYPE_HARDWARE && attr.type != PERF_TYPE_RAW) {
		*why = xasprintf("event '%s' isn't one of the CPU's counters", name);
		return false;
	}
	*code = (struct event_code){ attr.type, attr.config };
	return true;
}
