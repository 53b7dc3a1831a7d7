#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest whose VM has its events on: an unmodified perf counts and samples the hypervisor's events. Needs
# PROGRAMS, with vpmu beside them, and BUILD.

. "$(dirname "$0")/../tap.sh"

exits=$PROGRAMS/exits
dir=$(mktemp -d)
cd "$dir" || exit

# of [-e] NAME:MODIFIER...: events for perf's -e
of() {
	each=''
	[ "$1" != -e ] || {
		each=--each
		shift
	}
	for event; do
		e=$("$PROGRAMS/../vpmu/vpmu" events $each --perf "${event%:*}")
		echo "$e${event##*:}"
	done | paste -sd,
}

# counts COUNT: of user mode, in the order of the events
counts() {
	perf stat -x, -o stat -e "$(of exits-cpuid:u exits-user:u hypercalls:u exits:u)" -e instructions:u \
		-- "$exits" "$1"
	awk -F, '$1 ~ /^[0-9]/ { printf "%s ", $1 }' stat
}

# RDPMC, and as many samples as there are
echo 2 >/sys/devices/cpu/rdpmc
sysctl -q kernel.perf_cpu_time_max_percent=25 kernel.perf_event_max_sample_rate=1000000
sysctl -q kernel.perf_cpu_time_max_percent=0

names=$(perf stat -x, -e "$(of exits:u steal:k)" -- true 2>&1 | awk -F, '{ printf "%s ", $3 }')
is "names" "$names" "exits steal "

# shellcheck disable=SC2046 # numbers
set -- $(counts 0) $(counts 1000)
is "numbers" $# 10
is "1000 CPUIDs" $(($6 - $1)) 1000
is "1000 hypercalls" $(($8 - $3)) 1000
# Those by CPUID, hypercalls and RDPMC; page faults and the host's interrupts, too
within "VM exits" "$9" $(($6 + $8 + 1000)) $(($6 + $8 + 1500))
shift 9
note "instructions:u: $1"

# What has started on a physical counter was multiplexed, the hypervisor's events as well.
perf stat -x, -o stat -e "$(of exits-cpuid:u exits-io:u hypercalls:u exits:u exits:k irqs:u exits-cpuid:k)" \
	-e instructions:u,branches:u -- "$exits" 50000
is "multiplexed: events without a count" "$(grep -c '<not' stat)" 0

# where SYMBOL: its address, as perf has it
where() {
	nm "$exits" | awk -v s="$1" '$3 == s { sub(/^0*/, "", $1); print $1 }'
}

# samples FILE EVENT SYMBOL: of that event there
samples() {
	perf script -i "$1" -F event,ip 2>/dev/null | grep -c "$2.*[^0-9a-f]$(where "$3")\$"
}

hypercall=behind_vmmcall
! grep -q GenuineIntel /proc/cpuinfo || hypercall=behind_vmcall
perf record -q -e "$(of -e exits-cpuid:u hypercalls:u)" -c 1 -o causes.data -- "$exits" 1000 2>log
is "exits-cpuid: samples behind CPUID" "$(samples causes.data exits-cpuid: behind_cpuid)" 1000
is "hypercalls: samples behind the hypercall" "$(samples causes.data hypercalls: $hypercall)" 1000
is "hypercalls: no other samples" "$(perf script -i causes.data -F event | grep -c hypercalls)" 1000

# Interrupts exit there now and then, too.
perf record -q -e "$(of -e exits:u)" -c 1 -o exits.data -- "$exits" 1000 2>log
for symbol in behind_cpuid behind_rdpmc $hypercall; do
	within "exits: samples $symbol" "$(samples exits.data exits: "$symbol")" 1000 1050
done
for data in causes exits; do
	is "$data: samples lost or throttled" "$(perf report -i $data.data --stats 2>/dev/null | grep -cE 'LOST|THROTTLE')" 0
done

# ---- no event of a CPU's own has these encodings, by perf's tables: Zen 1 to 5, Nehalem to Emerald Rapids
for cpu in AuthenticAMD-23-1-2 AuthenticAMD-23-49-0 AuthenticAMD-25-1-1 AuthenticAMD-25-11-1 AuthenticAMD-26-2-1 \
	GenuineIntel-6-1E-5 GenuineIntel-6-2D-7 GenuineIntel-6-3C-3 GenuineIntel-6-55-4 GenuineIntel-6-6A-6 GenuineIntel-6-CF-2; do
	code=e40
	[ "${cpu%%-*}" = AuthenticAMD ] || code=eb
	PERF_CPUID=$cpu perf list -j >table 2>/dev/null
	within "$cpu: events of perf's table" "$(grep -c '"Encoding": "cpu/.*event=' table)" 50 100000
	is "$cpu: events of code $code" "$(grep -ciE "\"Encoding\": \"cpu/(.*,)?event=0x0*${code}[,/]" table)" 0
done

# ---- names in sysfs
insmod "$BUILD/module/$(uname -r)/kvm_vpmu_guest.ko"
is "the module of names: status" $? 0
events=/sys/bus/event_source/devices/kvm_vpmu/events
is "names: those of vpmu events" "$(cd $events && printf '%s\n' * | sort | paste -sd' ')" \
	"$("$PROGRAMS/../vpmu/vpmu" events --json | sed -n 's/^ *"name": "\(.*\)",$/\1/p' | sort | paste -sd' ')"
is "names: unit masks" "$(grep -h . $events/* | sed 's/event=//' | sort | uniq -d)" ""
# named COUNT
named() {
	perf stat -x, -o stat -e kvm_vpmu/exits-cpuid/u -e kvm_vpmu/hypercalls/u -- "$exits" "$1"
	awk -F, '$1 ~ /^[0-9]/ { printf "%s ", $1 }' stat
}
# shellcheck disable=SC2046 # numbers
set -- $(named 0) $(named 1000)
is "kvm_vpmu/exits-cpuid/" $(($3 - $1)) 1000
is "kvm_vpmu/hypercalls/" $(($4 - $2)) 1000
perf record -q -e kvm_vpmu/hypercalls,each/u -c 1 -o names.data -- "$exits" 1000 2>log
is "kvm_vpmu/hypercalls,each/: samples" "$(perf script -i names.data -F ip | grep -c "$(where $hypercall)\$")" 1000
perf stat -e kvm_vpmu/event=0x1,each=2/ -- true 2>log
is "a value that doesn't fit" $((! $?)) 0
rmmod kvm_vpmu_guest
is "it goes" $? 0

cd / && rm -r "$dir"
finish
