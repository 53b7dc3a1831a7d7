#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): what its command line and its monitor make of
# the module; without the module, and with an older one. Needs BUILD and PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"

guest=(-S -m 64 -kernel "$BUILD/bare/pmu.elf" -append list)
number=0

# member JSON NAME: a member of the first level
member() {
	echo "$1" | sed -n "s/.*\"$2\":\"\([a-z]*\)\".*/\1/p"
}

# settings WHAT CPU FREEZE TSC [ARGUMENT...]
settings() {
	local what=$1 cpu=$2 freeze=$3 tsc=$4 vpmu
	shift 4
	number=$((number + 1))
	start_qemu $number "${guest[@]}" -cpu "$cpu" "$@" || return
	vpmu=$(qmp $number x-query-kvm-vpmu)
	is "$what" "$(member "$vpmu" freeze) $(member "$vpmu" tsc)" "$freeze $tsc"
	is "$what: QEMU says" "$(cat "$dir/$number.log")" ""
	end_qemu $number
}

# refused WHAT CPU TEXT [ARGUMENT...]: QEMU doesn't start, and says TEXT
refused() {
	local what=$1 cpu=$2 text=$3 as="timeout 60 $as" status
	shift 3
	number=$((number + 1))
	run_qemu "${guest[@]}" -cpu "$cpu" "$@" >"$dir/$number.log" 2>&1
	status=$?
	is "$what: status" $status 1
	if grep -q "$text" "$dir/$number.log"; then
		ok "$what: it says why ($(head -n 1 "$dir/$number.log"))"
	else
		not_ok "$what: it says why"
		sed 's/^/# /' "$dir/$number.log"
	fi
}

# warned WHAT CPU TEXT: QEMU starts, and says TEXT, or nothing
warned() {
	number=$((number + 1))
	start_qemu $number "${guest[@]}" -cpu "$2" || return
	# An answer comes when all is set up.
	qmp $number x-query-kvm-vpmu >"$dir/query" 2>&1
	is "$1: status of a query" $? 1
	is "$1" "$(grep -o "${3:-.*}" "$dir/$number.log" | head -n 1)" "$3"
	end_qemu $number
}

settings "nothing said" host hybrid wall
settings "vpmu=auto" host,vpmu=auto hybrid wall
settings "vpmu=on" host,vpmu=on hybrid wall
for mode in hybrid guest vcpu; do
	settings "vpmu-freeze=$mode" host,vpmu-freeze=$mode $mode wall
done
settings "vpmu-freeze=auto" host,vpmu=on,vpmu-freeze=auto hybrid wall
settings "vpmu-tsc=wall" host,vpmu=on,vpmu-tsc=wall hybrid wall
settings "vpmu-tsc=vcpu" host,vpmu-tsc=vcpu hybrid vcpu
settings "all of them" host,vpmu=on,vpmu-freeze=guest,vpmu-tsc=vcpu guest vcpu
warned "vpmu=off" host,vpmu=off ""

# can_count WHAT CPU true|false: the hypervisor's events
can_count() {
	number=$((number + 1))
	start_qemu $number "${guest[@]}" -cpu "$2" || return
	is "$1" "$(qmp $number x-query-kvm-vpmu | grep -o '"events":[a-z]*')" "\"events\":$3"
	is "$1: QEMU says" "$(cat "$dir/$number.log")" ""
	end_qemu $number
}
can_count "nothing said: events" host false
can_count "vpmu-events=on" host,vpmu-events=on true
can_count "vpmu-events=off" host,vpmu=on,vpmu-events=off false
echo on >/sys/module/kvm_vpmu/parameters/events
can_count "the module's events=on: vpmu-events=auto" host,vpmu-events=auto true
can_count "the module's events=on: vpmu-events=off" host,vpmu-events=off false
echo off >/sys/module/kvm_vpmu/parameters/events

# attached WHAT CPU VCPUS
attached() {
	number=$((number + 1))
	start_qemu $number "${guest[@]}" -cpu "$2" || return
	# An answer comes when all is set up.
	qmp $number x-query-kvm-vpmu >"$dir/query" 2>&1
	is "$1" "$("$BUILD/programs/figures" vcpus | grep -c '^vcpu')" "$3"
	end_qemu $number
}
attached "vpmu=auto: vCPUs with a PMU of the module" host 1
attached "vpmu=off: vCPUs with a PMU of the module" host,vpmu=off 0
echo explicit >/sys/module/kvm_vpmu/parameters/attach
attached "attach=explicit: vCPUs with a PMU of the module" host 0
settings "attach=explicit: vpmu=on" host,vpmu=on hybrid wall
echo auto >/sys/module/kvm_vpmu/parameters/attach
refused "vpmu=perhaps" host,vpmu=perhaps "does not accept value 'perhaps'"
refused "vpmu-freeze=none" host,vpmu-freeze=none "does not accept value 'none'"
refused "vpmu-freeze without a value" host,vpmu-freeze= "does not accept value ''"
refused "vpmu-tsc=host" host,vpmu-tsc=host "does not accept value 'host'"
refused "vpmu-events=perhaps" host,vpmu-events=perhaps "does not accept value 'perhaps'"
refused "events with vpmu=off" host,vpmu=off,vpmu-events=on "need vpmu=on"
refused "settings with vpmu=off" host,vpmu=off,vpmu-freeze=guest "need vpmu=on"
accel=tcg
refused "with TCG" max,vpmu=on "vpmu=on needs KVM"
accel=kvm
refused "a CPU unlike the first" host,vpmu=on "have to be the same" -smp 1,maxcpus=2,sockets=2,cores=1,threads=1 \
	-device host-x86_64-cpu,socket-id=1,core-id=0,thread-id=0,vpmu=off
settings "by -global" host guest wall -global x86_64-cpu.vpmu=on \
	-global x86_64-cpu.vpmu-freeze=guest

# At run time
start_qemu live "${guest[@]}" -cpu host -smp 2
qmp live x-kvm-vpmu-set '{"freeze": "vcpu"}' >"$dir/set"
vpmu=$(qmp live x-query-kvm-vpmu)
is "set at run time: freeze mode" "$(member "$vpmu" freeze) $(member "$vpmu" tsc)" "vcpu wall"
qmp live x-kvm-vpmu-set '{"tsc": "vcpu"}' >"$dir/set"
vpmu=$(qmp live x-query-kvm-vpmu)
is "set at run time: TSC" "$(member "$vpmu" freeze) $(member "$vpmu" tsc)" "vcpu vcpu"
qmp live x-kvm-vpmu-set '{"events": true}' >"$dir/set"
vpmu=$(qmp live x-query-kvm-vpmu)
is "set at run time: events" "$(echo "$vpmu" | grep -o '"events":[a-z]*') $(member "$vpmu" freeze)" '"events":true vcpu'
qmp live x-kvm-vpmu-set '{"events": false}' >"$dir/set"
vpmu=$(qmp live x-query-kvm-vpmu)
is "set at run time: no events" "$(echo "$vpmu" | grep -o '"events":[a-z]*')" '"events":false'
is "vCPUs" "$(echo "$vpmu" | grep -o '"vcpu-id"' | wc -l)" 2
is "counters of each" "$(echo "$vpmu" | grep -o '"select"' | wc -l)" 12
qmp live x-kvm-vpmu-set '{"freeze": "sometimes"}' 2>"$dir/error"
is "a mode that isn't one" $? 1
qmp live x-kvm-vpmu-set '{}' >"$dir/set"
is "nothing to set" $? 0
end_qemu live

# says WHAT CPU SED TEXT: the guest's own words, of which sed -n SED picks some
says() {
	number=$((number + 1))
	start_qemu $number -m 64 -kernel "$BUILD/bare/pmu.elf" -append list -cpu "$2" \
		-device isa-debug-exit,iobase=0xf4,iosize=4 || return
	wait "$(cat "$dir/$number.pid")"
	is "$1" "$(sed -n "$3" "$dir/$number.out")" "$4"
}
# sees WHAT CPU COUNTERS
sees() {
	says "$1" "$2" 's/^# 1 CPUs, \(.* counters\),.*/\1/p' "$3"
}
# finds WHAT CPU LEAF: what the guest's CPUID has of the hypervisor's events
finds() {
	says "$1" "$2" 's/^# leaf //p' "$3"
}
finds "no leaf without events" host,vpmu=on ""
finds "a leaf behind KVM's" host,vpmu-events=on "40000100: last 40000101, features 1"
finds "a leaf behind Hyper-V's" host,vpmu-events=on,hv-relaxed "40000200: last 40000201, features 1"
finds "no leaf where KVM is hidden" host,vpmu-events=on,kvm=off ""
v2="PerfMonV2, 6 counters" core="core extension, 6 counters" none="legacy counters only, 0 counters"
sees "-cpu host" host "$v2"
sees "-cpu host,pmu=off" host,pmu=off "$none"
# Nothing in a model depends on the host.
sees "-cpu EPYC-Genoa,pmu=on" EPYC-Genoa,pmu=on "$core"
sees "-cpu EPYC-Genoa,pmu=on,perfmon-v2=on" EPYC-Genoa,pmu=on,perfmon-v2=on "$v2"
sees "-cpu EPYC-Genoa" EPYC-Genoa "$core"
sees "-cpu EPYC-Genoa,pmu=off" EPYC-Genoa,pmu=off "$none"
sees "-cpu Dhyana,pmu=on" Dhyana,pmu=on "legacy counters only, 4 counters"
sees "-cpu EPYC-Milan,pmu=on" EPYC-Milan,pmu=on "$core"
sees "-cpu EPYC-Milan,pmu=on,perfmon-v2=on" EPYC-Milan,pmu=on,perfmon-v2=on "$v2"
sees "-cpu EPYC,pmu=on" EPYC,pmu=on "legacy counters only, 4 counters"
sees "-cpu EPYC,pmu=off" EPYC,pmu=off "$none"
refused "vpmu=on with pmu=off" host,pmu=off,vpmu=on "have no performance counters"

# Not everybody may
chmod 666 /dev/kvm
user="setpriv --reuid 65534 --regid 65534 --clear-groups"
chmod 777 "$dir"
as=$user
refused "vpmu=on without access" host,vpmu=on "group kvm"
warned "a setting without access" host,vpmu-freeze=guest "have no effect"
as=''

# An older module, to QEMU
export LD_PRELOAD=$PROGRAMS/old_module.so
refused "vpmu=on with an older module" host,vpmu=on "too old: its interface is version 1, not 4"
warned "a setting with an older module" host,vpmu-tsc=vcpu "have no effect: module kvm_vpmu is too old"
warned "an older module" host ""
export OLD_ABI=7
refused "events of an older module" host,vpmu=on,vpmu-events=on "too old for vpmu-events=on: its interface is version 7, not 8"
warned "events of an older module" host,vpmu-events=on "have no effect: module kvm_vpmu is too old for vpmu-events=on"
unset LD_PRELOAD OLD_ABI

rmmod kvm_vpmu
refused "vpmu=on without the module" host,vpmu=on "Is the module kvm_vpmu loaded"
warned "a setting without the module" host,vpmu-freeze=guest "have no effect"
warned "vpmu=auto without the module" host ""

finish
