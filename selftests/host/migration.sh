#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): who takes a VM, and what it finds there. The guest
# knows by itself whether its counters go on exactly (the bare-metal suite's "steady"). Needs BUILD and
# PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"

guest=(-m 64 -kernel "$BUILD/bare/pmu.elf" -append steady)
good=$vmm

# goes_on WHAT NAME: the guest of that QEMU
goes_on() {
	if advances "$2"; then
		ok "$1: the guest goes on"
	else
		not_ok "$1: the guest goes on"
	fi
}

# ended NAME: how its migration did
ended() {
	qmp "$1" query-migrate --until status=completed status=failed
}

# outcome FROM TO: of that move
outcome() {
	move "$1" "$2" && ended "$1"
}

# linger FROM TO: starts the move, which ends only after speed_up
linger() {
	qmp "$1" migrate-set-parameters '{"max-bandwidth": 20000, "downtime-limit": 1}' >/dev/null
	move "$1" "$2" && qmp "$1" query-migrate --until status=active status=failed >/dev/null
}

# settings NAME: freeze mode, TSC and the hypervisor's events, as the module has them
settings() {
	qmp "$1" x-query-kvm-vpmu | sed 's/.*"freeze":"\([a-z]*\)".*/\1/'
	qmp "$1" x-query-kvm-vpmu | sed 's/.*"tsc":"\([a-z]*\)".*/\1/'
	qmp "$1" x-query-kvm-vpmu | grep -o '"events":[a-z]*'
}

# says WHAT NAME TEXT: that QEMU did
says() {
	if grep -q "$3" "$dir/$2.log"; then
		ok "$1: says why ($(grep "$3" "$dir/$2.log" | head -n 1))"
	else
		not_ok "$1: says why"
		sed 's/^/# /' "$dir/$2.log"
	fi
}

# refuses FROM NAME TEXT ARGUMENT...: a QEMU with these doesn't take the guest of that QEMU, says TEXT, and the
# guest goes on
refuses() {
	local from=$1 name=$2 text=$3 how
	shift 3
	start_qemu "$name" "${guest[@]}" -incoming defer "$@" || return
	how=$(outcome "$from" "$name")
	is "$name: the migration" "$how" failed
	[ "$how" = failed ] || end_qemu "$name"
	wait "$(cat "$dir/$name.pid")"
	says "$name" "$name" "$text"
	is "$name: the source" "$(qmp "$from" query-status | grep -o '"status":"[a-z]*"')" '"status":"running"'
	goes_on "$name" "$from"
}

# starts NAME CPU: with a guest that knows what a round takes
starts() {
	start_qemu "$1" "${guest[@]}" -cpu "$2"
	wait_for "$dir/$1.out" 'each round' || not_ok "$1: the guest knows what a round takes"
}

starts source host,-svm,vpmu=on
refuses source "without the module" "module kvm_vpmu, which this VM doesn't use here" \
	-cpu host,-svm,vpmu=off
refuses source "fewer registers" "counters that this host can't give it" -cpu host,-svm,perfmon-v2=off
vmm=qemu-system-x86_64
refuses source "an unpatched QEMU" "kvm-vpmu" -cpu host,-svm
vmm=$good

# Its settings come with it, whatever the target's are, and those that change while it moves.
qmp source x-kvm-vpmu-set '{"freeze": "guest"}' >/dev/null
start_qemu target "${guest[@]}" -cpu host,-svm,vpmu=on,vpmu-freeze=vcpu -incoming defer
linger source target
qmp source x-kvm-vpmu-set '{"freeze": "hybrid", "tsc": "vcpu"}' >/dev/null
speed_up source
is "the same host: the migration" "$(ended source)" completed
is "the same host: settings" "$(settings target)" $'hybrid\nvcpu\n"events":false'
end_qemu source
goes_on "the same host" target

# So do the hypervisor's events, to a module that has them.
qmp target x-kvm-vpmu-set '{"events": true}' >/dev/null
export LD_PRELOAD=$PROGRAMS/old_module.so OLD_ABI=7
refuses target "no events there" "which this host's module kvm_vpmu is too old for" -cpu host,-svm
unset LD_PRELOAD OLD_ABI
start_qemu events "${guest[@]}" -cpu host,-svm -incoming defer
is "events: the migration" "$(outcome target events)" completed
is "events: settings" "$(settings events)" $'hybrid\nvcpu\n"events":true'
end_qemu target
goes_on "events" events
# Off while the VM moves is known there, on isn't.
qmp events x-kvm-vpmu-set '{"events": false}' >/dev/null
start_qemu events-2 "${guest[@]}" -cpu host,-svm -incoming defer
linger events events-2
qmp events x-kvm-vpmu-set '{"events": true}' >/dev/null
speed_up events
is "events while it moves: the migration" "$(ended events)" failed
says "events while it moves" events "were changed while it migrated"
goes_on "events while it moves" events
end_qemu events-2
end_qemu events

# What knows nothing of PerfMonV2 never sets its global control.
starts core host,-svm,vpmu=on,perfmon-v2=off
refuses core "more registers" "counters that this host can't give it" -cpu host,-svm
end_qemu core

# A VM that nobody promised the module to goes anywhere, and its counters with it where they can.
starts free-0 host,-svm
start_qemu own-1 "${guest[@]}" -cpu host,-svm,vpmu=off -incoming defer
is "not bound, to KVM's own PMU: the migration" "$(outcome free-0 own-1)" completed
end_qemu free-0
goes_on "not bound, to KVM's own PMU" own-1
start_qemu own-2 "${guest[@]}" -cpu host,-svm -incoming defer
is "not bound, and back: the migration" "$(outcome own-1 own-2)" completed
end_qemu own-1
goes_on "not bound, and back" own-2
end_qemu own-2
# Unless its settings are others than the module's own. Who moves already has to begin anew.
starts free-2 host,-svm
start_qemu late "${guest[@]}" -cpu host,-svm -incoming defer
linger free-2 late
qmp free-2 x-kvm-vpmu-set '{"freeze": "guest"}' >/dev/null
speed_up free-2
is "set while it moves: the migration" "$(ended free-2)" failed
says "set while it moves" free-2 "were changed while it migrated"
goes_on "set while it moves" free-2
end_qemu late
refuses free-2 "set: without the module" "which this VM doesn't use here" -cpu host,-svm,vpmu=off
start_qemu free-3 "${guest[@]}" -cpu host,-svm -incoming defer
is "set: the migration" "$(outcome free-2 free-3)" completed
is "set: settings" "$(settings free-3)" $'guest\nwall\n"events":false'
end_qemu free-2
vmm=qemu-system-x86_64
start_qemu unpatched "${guest[@]}" -cpu host,-svm -incoming defer
vmm=$good
qmp free-3 x-kvm-vpmu-set '{"freeze": "hybrid"}' >/dev/null
is "not bound any more, an unpatched QEMU: the migration" "$(outcome free-3 unpatched)" completed
end_qemu free-3
end_qemu unpatched

# Hygon's PMU is AMD's.
starts hygon Dhyana,pmu=on,-svm
start_qemu hygon-2 "${guest[@]}" -cpu Dhyana,pmu=on,-svm -incoming defer
is "Dhyana: the migration" "$(outcome hygon hygon-2)" completed
end_qemu hygon
goes_on "Dhyana" hygon-2
end_qemu hygon-2

# What KVM doesn't take there is an error of the target's, and no abort.
starts bad host,-svm,perfmon-v2=off
export LD_PRELOAD=$PROGRAMS/no_counter.so
start_qemu bad-2 "${guest[@]}" -cpu host,-svm,perfmon-v2=off -incoming defer
unset LD_PRELOAD
outcome bad bad-2 >"$dir/outcome"
wait "$(cat "$dir/bad-2.pid")"
is "a counter that KVM doesn't take: status" $? 1
says "a counter that KVM doesn't take" bad-2 "doesn't take the performance counter MSR 0xc0010200"
end_qemu bad

# TSCs that differ by as much as the second vCPU slept: the target's have to go on from there.
# went_on WHAT FROM TO: after the move
went_on() {
	local last cpu
	qmp "$3" cont >/dev/null
	end_qemu "$2"
	until_line "$3" 1
	last=$(lines "$2")
	for cpu in 1 2; do
		within "$1: vCPU $cpu went on by" $(($(tsc "$3" 1 $cpu) - $(tsc "$2" "$last" $cpu))) 0 $((apart / 2))
	done
	end_qemu "$3"
}
clocks=(-m 64 -smp 2 -kernel "$BUILD/bare/pmu.elf" -append clocks -incoming defer)
# shellcheck disable=SC2119 # no more arguments
start_clocks
start_qemu clocks2 "${clocks[@]}" -cpu host,-svm
is "virtual TSCs: the migration" "$(outcome clocks clocks2)" completed
went_on "virtual TSCs" clocks clocks2

# Those that become virtual only while the VM moves
start_qemu clocks3 -S -m 64 -smp 2 -kernel "$BUILD/bare/pmu.elf" -append clocks -cpu host,-svm,vpmu=on
start_qemu clocks4 "${clocks[@]}" -cpu host,-svm
linger clocks3 clocks4
qmp clocks3 x-kvm-vpmu-set '{"tsc": "vcpu"}' >/dev/null
qmp clocks3 cont >/dev/null
until_line clocks3 1
qmp clocks3 stop >/dev/null
apart=$(($(tsc clocks3 "$(lines clocks3)" 1) - $(tsc clocks3 "$(lines clocks3)" 2)))
within "virtual TSCs since then: thousands of ticks that the second one is behind" $apart 200000 1000000
speed_up clocks3
is "virtual TSCs since then: the migration" "$(ended clocks3)" completed
went_on "virtual TSCs since then" clocks3 clocks4

# From a QEMU that knows nothing of the module, and has left out the counters
vmm=qemu-system-x86_64
start_qemu old "${guest[@]}" -cpu host,-svm
wait_for "$dir/old.out" '\.\.'
vmm=$good
start_qemu new "${guest[@]}" -cpu host,-svm -incoming defer
is "from an unpatched QEMU: the migration" "$(outcome old new)" completed
end_qemu old
end_qemu new

end_qemu target
# Those of VMs that lost no counters on their way, and had none of KVM's own PMU, which counts VM entries
is "wrong rounds" "$(cat "$dir"/{source,target,free-[023],hygon,hygon-2}.out | grep -c wrong)" 0
rm -rf "$dir"
finish
