#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host, with the patched QEMU (BUILD/vmm): who takes a VM, and what it finds there. The guest
# knows by itself whether its counters go on exactly (the bare-metal suite's "steady"). Needs BUILD and
# PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"

guest=(-m 64 -kernel "$BUILD/bare/pmu.elf" -append steady)

dots() {
	tr -cd . <"$dir/$1.out" | wc -c
}

# goes_on WHAT NAME: the guest of that QEMU
goes_on() {
	local before n
	before=$(dots "$2")
	for ((n = 0; n < 300; n++)); do
		if [ "$(dots "$2")" -gt $((before + 1)) ]; then
			ok "$1: the guest goes on"
			return
		fi
		sleep 0.1
	done
	not_ok "$1: the guest goes on"
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

# TSCs that differ by as much as the second vCPU slept: the target's have to go on from there. KVM takes them
# for the same if it's less than a second, some 2,000,000 thousands of ticks here.
# tsc NAME 1|2 first|last: of that vCPU, what that QEMU's guest said first, or in its last whole line
tsc() {
	sed -n 's/^tsc //p' "$dir/$1.out" | awk -v n="$2" -v which="$3" '
		{ before = last; last = $n }
		NR == 1 { first = $n }
		END { print which == "first" ? first : before }'
}
start_qemu clocks -m 64 -smp 2 -kernel "$BUILD/bare/pmu.elf" -append clocks -cpu host,-svm,vpmu-tsc=vcpu
wait_for "$dir/clocks.out" '^tsc' || not_ok "virtual TSCs: the guest begins"
qmp clocks stop >/dev/null
start_qemu clocks2 -m 64 -smp 2 -kernel "$BUILD/bare/pmu.elf" -append clocks -cpu host,-svm -incoming defer
is "virtual TSCs: the migration" "$(outcome clocks clocks2)" completed
qmp clocks2 cont >/dev/null
end_qemu clocks
wait_for "$dir/clocks2.out" '^tsc' || not_ok "virtual TSCs: the guest goes on"
apart=$(($(tsc clocks 1 last) - $(tsc clocks 2 last)))
within "virtual TSCs: thousands of ticks that the second one is behind" $apart 300000 1900000
within "virtual TSCs: the first one went on by" $(($(tsc clocks2 1 first) - $(tsc clocks 1 last))) \
	0 $((apart / 2))
within "virtual TSCs: the second one went on by" $(($(tsc clocks2 2 first) - $(tsc clocks 2 last))) \
	0 $((apart / 2))
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
