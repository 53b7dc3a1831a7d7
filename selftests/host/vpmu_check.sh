#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: "vpmu check" passes a host that is fit, and names what is wrong with one that
# isn't. Needs BUILD. Arguments: what this host was prepared for (fit, vmrun, no_pmu, wrong).

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
vpmu=$BUILD/vpmu/vpmu
module=$BUILD/module/$(uname -r)/kvm_vpmu.ko
kvm=kvm_amd
! grep -q GenuineIntel /proc/cpuinfo || kvm=kvm_intel

# finds NAME STATUS PATTERN...: the check's status, and a line for each pattern
finds() {
	local name=$1 want=$2 got pattern
	shift 2
	"$vpmu" check >/tmp/check 2>&1
	got=$?
	is "$name: status" $got "$want"
	[ $got = "$want" ] || sed 's/^/# /' /tmp/check
	for pattern; do
		if grep -qE "$pattern" /tmp/check; then
			ok "$name: $pattern"
		else
			not_ok "$name: $pattern"
			sed 's/^/# /' /tmp/check
		fi
	done
}

# Behind any check that fails
only_failure() {
	is "$1: nothing else failed" "$(grep -c '^FAILED' /tmp/check)" "${2:-1}"
}

fit() {
	local events freeze
	finds "a fit host" 0 "^ok +module " "^ok +cpu 0: instructions +2000008$" \
		"^ok +cpu 0: emulated instructions +210000$" "^ok +cpu 0: overflow interrupts" \
		"^ok +cpu 0: overflow interrupt \(vector\) +1$" "^ok +cpu 0: freeze modes: cycles" \
		"^ok +cpu 0: virtual TSC" "^ok +cpu 0: emulated instructions beside host perf" " 0 failed"
	sed 's/^/# /' /tmp/check
	"$vpmu" check --json --report /tmp/report >/tmp/json
	is "JSON" "$(python3 -c '
import json
d = json.load(open("/tmp/json")); r = json.load(open("/tmp/report"))
print(len(d) == len(r["checks"]), {c["outcome"] for c in d} <= {"ok", "note"}, "0x1" in r["cpuid"])')" \
		"True True True"

	perf stat -a -x, -e instructions:D,cycles:D,branches:D,cache-references:D,cache-misses:D \
		sleep infinity 2>/tmp/stat &
	events=$!
	# perf executes the program when all events are there.
	until grep -qsx sleep /proc/[0-9]*/comm; do
		sleep 0.2
	done
	# With the NMI watchdog's these are all that AMD CPUs have; Intel's have more.
	freeze="^note +cpu 0: freeze modes +host perf holds all counters"
	[ $kvm = kvm_amd ] || freeze="^ok +cpu 0: freeze modes: cycles"
	finds "host perf has five counters" 0 "^ok +cpu 0: emulated instructions +210000$" "$freeze"
	kill "$(pgrep -x -P $events sleep)"
	wait $events
	is "host perf's events counted" "$(grep -cE '^[0-9]+,' /tmp/stat)" 5

	rmmod kvm_vpmu
	finds "no module" 1 "^FAILED +module +not loaded"
	only_failure "no module"
	insmod "$module" attach=explicit
	finds "attach=explicit" 0 "^note +attach"
	rmmod kvm_vpmu

	modprobe -r $kvm kvm
	modprobe kvm enable_pmu=0
	modprobe $kvm
	finds "enable_pmu=0" 1 "^FAILED +enable_pmu +KVM's PMU is off"
	modprobe -r $kvm kvm
	if modinfo $kvm | grep -q enable_mediated_pmu; then
		modprobe $kvm enable_mediated_pmu=1
		if [ "$(cat /sys/module/$kvm/parameters/enable_mediated_pmu)" = Y ]; then
			finds "mediated" 1 "^FAILED +enable_mediated_pmu +KVM's own mediated"
		fi
		modprobe -r $kvm
	fi
	finds "no KVM" 1 "^FAILED +kvm +no /dev/kvm: modprobe $kvm"
}

# A CPU that doesn't count VMRUN: the module measures that, unless told otherwise
vmrun() {
	finds "VMRUN isn't counted" 0 "^ok +cpu 0: emulated instructions +210000$"
	is "dmesg" "$(dmesg | grep -c "kvm_vpmu: this CPU doesn't count VM entries")" 1
	rmmod kvm_vpmu
	insmod "$module"
	is "a counter that runs at the first VM entry: exact" "$("$BUILD/programs/rawvm" restored 1000)" 2003
	# VMs to come know that already.
	finds "the same again" 0 "^ok +cpu 0: emulated instructions +210000$"
	rmmod kvm_vpmu
	insmod "$module" vmrun_counts=N
	finds "vmrun_counts=N" 0 "^note +vmrun_counts" "^ok +cpu 0: emulated instructions +210000$"
	rmmod kvm_vpmu
	insmod "$module" vmrun_counts=Y
	finds "vmrun_counts=Y" 1 "^note +vmrun_counts" \
		"^FAILED +cpu 0: emulated instructions .*vmrun_counts is wrong"
}

# An emulator that counts one in 10,000 events twice
wrong() {
	finds "wrong counters" 1 "^FAILED +cpu 0: instructions +2000208, should be 2000008" \
		"^FAILED +cpu 0: branches" "^FAILED +cpu 0: emulated instructions " \
		"^FAILED +cpu 0: instructions among interrupts"
}

no_pmu() {
	finds "a CPU without a PMU" 1 "^FAILED +module +not loaded"
}

for test; do
	case $test in
	fit) fit ;;
	vmrun) vmrun ;;
	no_pmu) no_pmu ;;
	wrong) wrong ;;
	*) not_ok "no test $test" ;;
	esac
done
finish
