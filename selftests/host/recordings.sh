# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests of vpmu record and report: source it.

# However many samples: none is one too many.
echo 99 >/proc/sys/kernel/perf_cpu_time_max_percent
echo 1000000 >/proc/sys/kernel/perf_event_max_sample_rate
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent

# json EXPRESSION: of the report (d) in report.json
json() {
	python3 -c "import json; d = json.load(open('report.json')); print($1)" 2>&1 | tail -n 1
}
