#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: perf's own tests, those that use hardware counters, natively and then in a guest.
# What passes natively has to pass in the guest. Arguments select tests, by parts of names.
#
# "Track with sched_switch" is for deterministic time (--icount), and so not in the list: by the wall clock
# its 4000 samples a second are more than an emulated guest can take. "Number of exit events" fails
# there in a guest: perf polls a thousand times for the end of a child, which doesn't get the only CPU
# meanwhile, and in deterministic time that is less than a time slice.

. "$(dirname "$0")/../tap.sh"

# Not among them, as they don't pass on the bare emulated host (perf 6.12), and can't:
#	perf record, perf diff, annotate, pipe recording	need perf's symbols, which Debian strips
#	Event groups			needs an uncore PMU
#	perf record sideband		needs a second CPU
#	branch stack sampling, perf record LBR	need a PMU that stores branches
#	data symbol			needs a PMU that samples memory accesses
#	libpfm4 support, libpfm4 events	not compiled in
#	metrics value validation	for Intel's CPUs
#	AMD IBS via core pmu, Intel PT	need these PMUs
# and one that does pass there, but not in a guest, as its perf takes the time from kvmclock:
#	Perf time to TSC
# and these, which count nothing more than the others, take an hour in a guest:
#	perf all metrics, metricgroups, PMU	each event that perf knows, one after the other
#	Setup struct perf_event_attr	some hundred starts of perf under a Python program
#	perftool-testsuite_report, perf script	mostly what comes after counting
tests=(
	"User space counter reading"
	"PERF_RECORD_"
	"Number of exit events"
	"Object code reading"
	"Use a dummy software event"
	"Zstd perf.data"
	"perf stat CSV output linter"
	"perf stat csv summary"
	"perf stat JSON output linter"
	"perf stat metrics"
	"perf stat STD output linter"
	"perf stat tests"
	"perf data convert --to-json"
)

[ $# = 0 ] || tests=("$@")

# RESULT|NAME; perf leaves the result of a test that has subtests empty.
# shellcheck disable=SC2016 # the inner shell's
run='perf test -S "$@" 2>&1 | sed -un "s/^ *[0-9.]*: \(.*[^ ]\)  *: \([A-Z].*\)/\2|\1/p"'
native=$(mktemp) guest=$(mktemp)
bash -c "$run" perf_test "${tests[@]}" >"$native"
sed 's/^/# natively: /' "$native"
vpmu-guest -- bash -c "$run" perf_test "${tests[@]}" | tee "$guest" | sed -u 's/^/# in the guest: /'

# in_guest NAME: its result there
in_guest() {
	awk -F'|' -v name="$1" '$2 == name { print $1 }' "$guest"
}

passed=0
while IFS='|' read -r result name; do
	if [ "$result" = Ok ]; then
		is "$name" "$(in_guest "$name")" Ok
		passed=$((passed + 1))
	else
		not_ok "natively: $name: $result"
	fi
done <"$native"
# some have subtests
within "tests that passed natively" $passed ${#tests[@]} 100
for name in "User space counter reading of instructions" "User space counter reading of cycles"; do
	[ $# -gt 0 ] || is "in the guest, whatever the host: $name" "$(in_guest "$name")" Ok
done

rm -f "$native" "$guest"
finish
