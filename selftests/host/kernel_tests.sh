#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: the kernel's own tests of KVM's PMU (tools/testing/selftests/kvm),
# as tools/testbed/put kselftests puts them into $BUILD/kernel, with all that they say.

cd "$(dirname "$0")" || exit
. ../tap.sh

# may_skip TEST: this host lacks what it needs
may_skip() {
	case $1 in
	# KVM_SET_USER_MEMORY_REGION2, since 6.8
	pmu_counters_test) ! grep -q GenuineIntel /proc/cpuinfo || [[ $(uname -r) == 6.1.* ]] ;;
	# KVM_CAP_PMU_EVENT_MASKED_EVENTS, since 6.3
	pmu_event_filter_test) [[ $(uname -r) == 6.1.* ]] ;;
	esac
}

out=$(mktemp)
for test in pmu_event_filter_test pmu_counters_test; do
	# At once, not at the end: a time limit is no reason to lose it.
	"$BUILD/kernel/$test" 2>&1 | tee "$out" | sed -u "s/^/# $test: /"
	status=${PIPESTATUS[0]}
	# "1..0 # SKIP - reason" and status 4: Documentation/dev-tools/kselftest.rst
	reason=$(sed -n 's/^.*# SKIP[ -]*//p' "$out" | head -n 1)
	case $status in
	0) ok "$test" ;;
	4)
		if may_skip $test; then
			ok "$test # SKIP ${reason:-no reason given}"
		else
			not_ok "$test: skipped: ${reason:-no reason given}"
		fi
		;;
	*)
		not_ok "$test: status $status"
		# Once more, where those who look for failures see it
		tail -n 8 "$out" | sed "s/^/# $test: /"
		;;
	esac
done
rm -f "$out"
finish
