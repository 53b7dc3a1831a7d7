#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Run the tests that fit this host, as kselftest does (Documentation/dev-tools/kselftest.rst): -h tells how. What it
# prints is KTAP (Documentation/dev-tools/ktap.rst), each test's own output nested.
#
# "make install" puts this beside the tests and their list. From the source tree, "make run_tests" runs it, with the
# list in KSELFTEST_LIST and what was built in BUILD.

usage() {
	cat <<END
usage: ${0##*/} [OPTION]...

Run the tests that fit this host and harm nobody, as root, with kvm_vpmu loaded.

  -t, --test COLLECTION:TEST   only this one; may be repeated
  -c, --collection COLLECTION  only those of kvm (programs on the KVM API) or host (scripts); may be repeated
  -l, --list                   list the tests
  -d, --dry-run                tell what would run, and what would be skipped and why
  -s, --summary                results only; what the tests say goes to a file
  -o, --override-timeout SEC   time limit of each test, in place of that in COLLECTION/settings
  -h, --help                   this

CHANGE_HOST=1 in the environment adds tests that take a CPU offline, unload the module, or change parameters
or rights: not on a host that others use.

The status is 0, or 1 if a test failed, 2 for a wrong option, 4 if none could run.
END
}

die() {
	echo "${0##*/}: $*" >&2
	exit 2
}

cd "$(dirname "$(readlink -f "$0")")" || exit
: "${BUILD:=$PWD}"
export BUILD PROGRAMS=$BUILD/programs

# ---- which tests

tests=() collections=() list='' dry='' summary='' limit=${KSELFTEST_TIMEOUT:-}
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		usage
		exit
		;;
	-l | --list) list=1 ;;
	-d | --dry-run) dry=1 ;;
	-s | --summary) summary=1 ;;
	-t | --test | -c | --collection | -o | --override-timeout)
		[ $# -ge 2 ] || die "$1 needs a value (-h tells the usage)"
		case $1 in
		-t | --test) tests+=("$2") ;;
		-c | --collection) collections+=("$2") ;;
		*) limit=$2 ;;
		esac
		shift
		;;
	*) die "unknown argument '$1' (-h tells the usage)" ;;
	esac
	shift
done
case $limit in
*[!0-9]* | 0*) die "a time limit is a number of seconds, not '$limit'" ;;
esac

if [ -n "${KSELFTEST_LIST:-}" ]; then
	read -ra available -d '' <<<"$KSELFTEST_LIST"
elif [ -e kselftest-list.txt ]; then
	mapfile -t available <kselftest-list.txt
else
	die "no kselftest-list.txt here; from the source tree: make -C selftests run_tests"
fi
for collection in "${collections[@]}"; do
	mapfile -t found < <(printf '%s\n' "${available[@]}" | grep -x "${collection//[!a-z]/.}:.*")
	[ ${#found[@]} -gt 0 ] || die "no collection '$collection'"
	tests+=("${found[@]}")
done
for t in "${tests[@]}"; do
	[[ " ${available[*]} " == *" $t "* ]] || die "no test '$t' (-l lists them)"
done
[ ${#tests[@]} -gt 0 ] || tests=("${available[@]}")
if [ -n "$list" ]; then
	printf '%s\n' "${tests[@]}"
	exit
fi

# ---- what fits this host

# Is this the bench?  Its PMU tells (docs/emulated-pmu.md, "Oracle").
emulated() {
	modprobe -q msr
	dd if=/dev/cpu/0/msr bs=8 count=1 skip=$((0xc0de0000)) iflag=skip_bytes 2>/dev/null | grep -q KVM_VPMU
}

# Why TEST would harm a host that others use; prints nothing if it wouldn't. Scripts are harmful unless known
# to be harmless.
harm() {
	case $1 in
	kvm:cpu_hotplug) echo "takes a CPU offline" ;;
	kvm:attach) echo "changes which VMs of others get a PMU" ;;
	kvm:defaults) echo "changes settings of VMs of others" ;;
	kvm:open | kvm:reads) echo "changes kernel.nmi_watchdog, and a parameter of the module" ;;
	kvm:watched) echo "sets the NMI watchdog's counter" ;;
	kvm:profile | kvm:stacks | kvm:throttled) echo "changes kernel.perf_event_max_sample_rate" ;;
	kvm:privileges) echo "changes who may open /dev/kvm-vpmu, for a while" ;;
	kvm:* | host:registers.sh | host:kernel_tests.sh | host:bare_guest.sh | host:pages.sh) ;;
	*) echo "may change settings of the host, or unload the module" ;;
	esac
}

# needs FILE|PROGRAM WHAT: a reason, if it isn't there
needs() {
	[ -e "$1" ] || command -v "$1" >/dev/null || echo "needs ${2:-$1}"
}

# Why TEST can't run here; prints nothing, or a reason a line
obstacles() {
	local reason
	reason=$(harm "$1")
	if [ -n "$reason" ] && [ -z "${CHANGE_HOST:-}" ]; then
		echo "$reason: CHANGE_HOST=1 runs it"
	fi
	case $1 in
	host:module.sh | host:exits.sh | host:package.sh | host:intel_versions.sh | host:creation.sh | host:nmis.sh | \
		host:other_counters.sh)
		echo "loads the module itself"
		;;
	host:mediated.sh | host:unsupported_cpu.sh) echo "needs a host that the module refuses" ;;
	host:shutdown.sh) echo "reboots the host" ;;
	host:oracle.sh | host:lifecycle.sh | host:host_perf.sh | host:placements.sh | host:soak.sh)
		[ -n "${ORACLE:-}" ] ||
			echo "needs an emulated machine with x-pmu-oracle=on, and then ORACLE=1"
		;;
	host:boots.sh | host:perf_test.sh) needs vpmu-guest "the bench's guests" ;;
	host:map.sh)
		[ -n "${TWO_SOCKETS:-}" ] || echo "needs an emulated machine of two sockets, and then TWO_SOCKETS=1"
		;;
	host:pages.sh) needs "$BUILD/vpmu/vpmu" "$BUILD/vpmu/vpmu (make -C tools/vpmu O=$BUILD/vpmu)" ;;
	host:vpmu_tool.sh)
		needs vpmu-guest "the bench's guests"
		needs "$BUILD/vpmu/vpmu" "$BUILD/vpmu/vpmu (make -C tools/vpmu O=$BUILD/vpmu)"
		;;
	host:libvirt.sh)
		needs virt-qemu-run
		needs "$BUILD/vmm/qemu-system-x86_64" "the patched QEMU (tools/testbed/put vmm $BUILD/vmm)"
		;;
	host:*migration.sh | host:*snapshots.sh | host:qemu_options.sh | host:save_restore_stress.sh)
		needs "${VMM:-$BUILD/vmm/qemu-system-x86_64}" "the patched QEMU (tools/testbed/put vmm $BUILD/vmm)"
		needs "$BUILD/bare/pmu.elf" "$BUILD/bare/pmu.elf (make -C tools/testbed/bare O=$BUILD/bare)"
		;;
	kvm:vtsc)
		# Of the bench; others are as steady as they should be.
		[ -n "${ICOUNT:-}" ] || ! emulated ||
			echo "needs an emulated machine with --icount, and then ICOUNT=1"
		;;
	host:kernel_tests.sh) needs "$BUILD/kernel" "tools/testbed/put kselftests $BUILD/kernel" ;;
	host:bare_guest.sh)
		needs "$BUILD/bare/pmu.elf" "$BUILD/bare/pmu.elf (make -C tools/testbed/bare O=$BUILD/bare)"
		needs qemu-system-x86_64
		;;
	esac
}

# The bench's name for this CPU's register set; of an Intel CPU's the guest's leaf 0AH tells the rest
cpu() {
	if grep -q GenuineIntel /proc/cpuinfo; then
		echo intel
		return
	fi
	case $(grep -m 1 '^flags' /proc/cpuinfo) in
	*" perfmon_v2"*) echo amd-zen4 ;;
	*" perfctr_core"*) echo amd-zen3 ;;
	*) echo amd-k10 ;;
	esac
}

none=''
[ "$(id -u)" = 0 ] || none="needs root"
[ -n "$none" ] || [ -c /dev/kvm-vpmu ] || none="kvm_vpmu isn't loaded"
# for those that compare the host's registers
[ -n "$none" ] || modprobe -q msr
CPU=$(cpu)
export CPU

# ---- run them

# time_limit COLLECTION: in seconds, of its settings; kselftest's own default is 45.
time_limit() {
	local seconds
	seconds=$limit
	[ -n "$seconds" ] || seconds=$(sed -n 's/^timeout=\([1-9][0-9]*\)$/\1/p' "$1/settings" 2>/dev/null)
	echo "${seconds:-45}"
}

# nested NAME: a test's output as a subtest's. What is no TAP becomes a comment.
nested() {
	echo "  KTAP version 1"
	echo "  # Subtest: $1"
	sed -uE '/^K?TAP version [0-9]+$/d; /^ *(ok |not ok |1\.\.[0-9]|#|Bail out!)/!s/^/# /; s/^/  /'
}

# run_one COLLECTION TEST NAME: status is the test's
run_one() {
	local program=$BUILD/$1/$2 seconds
	[ -e "$program" ] || program=$PWD/$1/$2
	if [ ! -x "$program" ]; then
		echo "no program $program" | nested "$3"
		return 1
	fi
	seconds=$(time_limit "$1")
	# The inner one ends all that a test has started, in a process group of its own, where a terminal's ^C
	# comes by the outer one.
	(cd "$1" 2>/dev/null || cd "$BUILD/$1" || exit
		exec timeout --foreground 0 timeout --kill-after=10 "$seconds" "$program") </dev/null 2>&1 | nested "$3"
	return "${PIPESTATUS[0]}"
}

log=/dev/stdout
if [ -n "$summary" ] && [ -z "$dry" ]; then
	log=$BUILD/output.log
	{ : >"$log"; } 2>/dev/null || log=$(mktemp /tmp/kselftest.XXXXXX) || exit
fi

echo "KTAP version 1"
[ "$log" = /dev/stdout ] || echo "# what the tests say is in $log"
echo "1..${#tests[@]}"
n=0 passed=0 failed=0 skipped=0
for t in "${tests[@]}"; do
	n=$((n + 1))
	collection=${t%%:*}
	name="selftests: $collection: ${t#*:}"
	reason=$none
	[ -n "$reason" ] || reason=$(obstacles "$t" | head -n 1)
	if [ -n "$reason" ]; then
		echo "ok $n $name # SKIP $reason"
		skipped=$((skipped + 1))
		continue
	fi
	if [ -n "$dry" ]; then
		echo "# $n $name would run"
		continue
	fi
	start=$SECONDS
	if [ "$log" = /dev/stdout ]; then
		run_one "$collection" "${t#*:}" "$name"
	else
		run_one "$collection" "${t#*:}" "$name" >>"$log"
	fi
	status=$?
	seconds=$(time_limit "$collection")
	# A test that doesn't end at SIGTERM is killed.
	if [ $status = 137 ] && [ $((SECONDS - start)) -ge "$seconds" ]; then
		status=124
	fi
	case $status in
	0)
		echo "ok $n $name"
		passed=$((passed + 1))
		;;
	4)
		echo "ok $n $name # SKIP"
		skipped=$((skipped + 1))
		;;
	124)
		echo "not ok $n $name # TIMEOUT $seconds seconds"
		failed=$((failed + 1))
		;;
	*)
		echo "not ok $n $name # exit=$status"
		failed=$((failed + 1))
		;;
	esac
done
[ -n "$dry" ] || echo "# Totals: pass:$passed fail:$failed xfail:0 xpass:0 skip:$skipped error:0"
[ $failed = 0 ] || exit 1
[ -n "$dry" ] || [ $passed -gt 0 ] || exit 4
