#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): who takes a VM, and what it finds there. The guest
# knows by itself whether its counters go on exactly (the bare-metal suite's "steady"). Needs BUILD and
# PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"

guest=(-m 64 -kernel "$BUILD/bare/pmu.elf" -append steady)

# goes_on WHAT NAME: the guest of that QEMU
goes_on() {
	if advances "$2"; then
		ok "$1: the guest goes on"
	else
		not_ok "$1: the guest goes on"
	fi
}

# outcome FROM TO: of that move
outcome() {
	move "$1" "$2" && qmp "$1" query-migrate --until status=completed status=failed
}

# refuses NAME TEXT ARGUMENT...: a QEMU with these doesn't take the guest of QEMU "source", says TEXT, and the
# guest goes on
refuses() {
	local name=$1 text=$2
	shift 2
	start_qemu "$name" "${guest[@]}" -incoming defer "$@" || return
	is "$name: the migration" "$(outcome source "$name")" failed
	wait "$(cat "$dir/$name.pid")"
	if grep -q "$text" "$dir/$name.log"; then
		ok "$name: says why ($(grep "$text" "$dir/$name.log" | head -n 1))"
	else
		not_ok "$name: says why"
		sed 's/^/# /' "$dir/$name.log"
	fi
	is "$name: the source" "$(qmp source query-status | grep -o '"status":"[a-z]*"')" '"status":"running"'
	goes_on "$name" source
}

start_qemu source "${guest[@]}" -cpu host,-svm
wait_for "$dir/source.out" 'each round' || not_ok "the guest knows what a round takes"

refuses "without the module" "module kvm_vpmu, which this VM doesn't use here" \
	-cpu host,-svm,vpmu=off
refuses "fewer registers" "counters that this host can't give it" -cpu host,-svm,perfmon-v2=off
good=$vmm vmm=qemu-system-x86_64
refuses "an unpatched QEMU" "kvm-vpmu" -cpu host,-svm
vmm=$good

# Its settings come with it, whatever the target's are.
qmp source x-kvm-vpmu-set '{"freeze": "guest", "tsc": "vcpu"}' >/dev/null
start_qemu target "${guest[@]}" -cpu host,-svm,vpmu=on,vpmu-freeze=vcpu -incoming defer
is "the same host: the migration" "$(outcome source target)" completed
vpmu=$(qmp target x-query-kvm-vpmu)
is "the same host: freeze mode" "$(echo "$vpmu" | grep -o '"freeze":"[a-z]*"')" '"freeze":"guest"'
is "the same host: TSC" "$(echo "$vpmu" | grep -o '"tsc":"[a-z]*"')" '"tsc":"vcpu"'
end_qemu source
goes_on "the same host" target

# TSCs that differ by as much as the second vCPU slept: the target's have to go on from there.
# shellcheck disable=SC2119 # no more arguments
start_clocks
start_qemu clocks2 -m 64 -smp 2 -kernel "$BUILD/bare/pmu.elf" -append clocks -cpu host,-svm -incoming defer
is "virtual TSCs: the migration" "$(outcome clocks clocks2)" completed
qmp clocks2 cont >/dev/null
end_qemu clocks
until_line clocks2 1
last=$(lines clocks)
for cpu in 1 2; do
	within "virtual TSCs: vCPU $cpu went on by" \
		$(($(tsc clocks2 1 $cpu) - $(tsc clocks "$last" $cpu))) 0 $((apart / 2))
done
end_qemu clocks2

# From a QEMU that knows nothing of the module, and has left out the counters
vmm=qemu-system-x86_64
start_qemu old "${guest[@]}" -cpu host,-svm
wait_for "$dir/old.out" '\.\.'
vmm=$good
start_qemu new "${guest[@]}" -cpu host,-svm -incoming defer
is "from an unpatched QEMU: the migration" "$(outcome old new)" completed
end_qemu old
end_qemu new

is "wrong rounds" "$(cat "$dir/source.out" "$dir/target.out" | grep -c wrong)" 0
end_qemu target
rm -rf "$dir"
finish
