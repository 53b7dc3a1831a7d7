#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: the kernel's own tests of KVM's PMU (tools/testing/selftests/kvm),
# as tools/testbed/put kselftests puts them into $BUILD/kernel.

cd "$(dirname "$0")" || exit
. ../tap.sh

for test in pmu_event_filter_test pmu_counters_test; do
	out=$("$BUILD/kernel/$test" 2>&1)
	status=$?
	# "1..0 # SKIP - reason" and status 4: Documentation/dev-tools/kselftest.rst
	reason=$(sed -n 's/^.*# SKIP[ -]*//p' <<<"$out" | head -n 1)
	case $status in
	0) ok "$test" ;;
	4) ok "$test # SKIP ${reason:-no reason given}" ;;
	*) not_ok "$test: status $status" ;;
	esac
	while read -r line; do
		note "$test: $line"
	done <<<"$out"
done
finish
