#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: what a guest finds at PMU registers. CPU names the register
# set; on Intel hosts the module's parameter intel_version does, too. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
rawvm=$BUILD/programs/rawvm

# KVM of Linux 6.1 doesn't offer PerfMonV2 to guests.
case $CPU-$(uname -r) in
amd-zen4-6.1.*) CPU=amd-zen3 ;;
esac

probe() {
	"$rawvm" probe "$1" | sed 's/^[^ ]* //'
}

rdpmc() {
	"$rawvm" rdpmc "$1" | sed 's/^[^ ]* //'
}

write() {
	"$rawvm" write "$1" "$2" | sed 's/^[^ ]* //'
}

hex() {
	printf '%#x' "$1"
}

# each WHAT EXPECTED probe|rdpmc|write ARGUMENT...: rawvm's answer to each is EXPECTED
each() {
	local what=$1 expected=$2 said
	shift 2
	said=$("$rawvm" "$@")
	is "$what" "$(cut -d ' ' -f 2- <<<"$said" | sort -u | paste -sd ' ')" "$expected"
	[ $tap_failed = "${failed:-0}" ] || while read -r line; do note "$line"; done <<<"$said"
	failed=$tap_failed
}

# row FIRST NUMBER [VALUE]: so many registers, for each; with a value to write
row() {
	local i
	for ((i = 0; i < $2; i++)); do
		echo "$(hex $(($1 + i)))" ${3+"$3"}
	done
}

# SDM vol. 3, "Architectural Performance Monitoring" and its versions; Linux's KVM agrees where it
# has the register (arch/x86/kvm/vmx/pmu_intel.c).
# shellcheck disable=SC2046 # rows are words
intel() {
	local v n all bit msr
	v=$(cat /sys/module/kvm_vpmu/parameters/intel_version)
	[ "$v" != 0 ] || v=2
	case $CPU in
	intel-v2) n=4 ;;
	intel-v4) n=8 ;;
	*)
		read -r n _ <<<"$("$rawvm" cpuid 0xa)"
		n=$((n >> 8 & 0xff))
		;;
	esac
	all=$(((1 << n) - 1 | 7 << 32))

	# SDM vol. 2, "CPUID": version, counters, their width, 7 events; AnyThread deprecated. From version 5 on
	# there is a mask of fixed counters, too.
	is "leaf 0AH" "$("$rawvm" cpuid 0xa)" "$(hex $((7 << 24 | 48 << 16 | n << 8 | v))) 0 $(hex $((v >= 5 ? 7 : 0))) $(hex \
		$((1 << 15 | 48 << 5 | 3)))"
	each "counters" 0 probe $(row 0xc1 $n) $(row 0x4c1 $n) $(row 0x309 3)
	each "selects, fixed control" 0 probe $(row 0x186 $n) 0x38d
	each "global status, and what resets it" 0 probe 0x38e 0x390
	each "global control: general counters are on" "$(hex $(((1 << n) - 1)))" probe 0x38f
	each "capabilities: full-width writes" 0x2000 probe 0x345
	each "rdpmc" 0 rdpmc $(row 0 $n) $(row 0x40000000 3)
	# 10000H to 10002H are KVM's own (VMware's backdoor).
	each "rdpmc of what isn't there" '#GP' rdpmc "$n" 15 0x10003 0x20000000 0x3fffffff 0x40000003 0x40010000 \
		0x80000000 0xffffffff

	each "around the counters" '#GP' probe 0xc0 $(row $((0xc1 + n)) $((12 - n))) 0x4c0 $(row $((0x4c1 + n)) $((12 - n)))
	each "around the selects" '#GP' probe 0x185 $(row $((0x186 + n)) $((12 - n)))
	each "around the fixed counters" '#GP' probe 0x308 $(row 0x30c 4)
	each "around the global registers" '#GP' probe 0x38c 0x393
	each "PEBS, debug store, metrics" '#GP' probe 0x3f1 0x3f2 0x600 0x3f6 0x3f7 0x329
	each "offcore responses" '#GP' probe 0x1a6 0x1a7
	each "last branches" '#GP' probe 0x1c8 0x1c9 0x680 0x6c0 0xdc0 0x14ce 0x14cf 0x1200
	each "writes to these" '#GP' write 0x3f1 0 0x600 0 0x329 0 0x1a6 0 0x1c8 0 0x30c 0 "$(hex $((0xc1 + n)))" 0 \
		"$(hex $((0x4c1 + n)))" 0 "$(hex $((0x186 + n)))" 0

	# "Full-Width Writes to Performance Counter Registers"
	each "a legacy write's sign goes on" 0xffff80000000 write $(row 0xc1 $n 0x80000000)
	each "without one" 0x7fffffff write $(row 0xc1 $n 0x7fffffff)
	each "its upper half is ignored" 0x1 write $(row 0xc1 $n 0xffffffff00000001)
	each "a full-width write" 0x8123456789ab write $(row 0x4c1 $n 0x8123456789ab) $(row 0x309 3 0x8123456789ab)
	each "both numbers are one counter" 0xffff80000000 write 0xc1/0x4c1 0x80000000 0x4c1/0xc1 0xffff80000000
	for bit in 48 63; do
		each "a full-width write of bit $bit" '#GP' write $(row 0x4c1 $n "$(hex $((1 << bit)))") \
			$(row 0x309 3 "$(hex $((1 << bit)))")
	done

	# All but EN and AnyThread; pin control isn't kept.
	each "what selects keep" 0xff97ffff write $(row 0x186 $n 0xff9fffff)
	each "an enabled one" 0x5300c0 write $(row 0x186 $n 0x5300c0)
	each "selects' reserved bits" '#GP' write $(row 0x186 $n 0x200000) 0x186 0x100000000 0x186 "$(hex $((1 << 63)))"
	each "what fixed control keeps" 0xbbb write 0x38d 0xbbb
	each "fixed control's reserved bits" '#GP' write 0x38d 0x4 0x38d 0x40 0x38d 0x400 0x38d 0x1000 0x38d 0x100000000
	each "what global control keeps" "$(hex $all)" write 0x38f "$(hex $all)"
	each "global control off" 0 write 0x38f 0
	for msr in 0x38f 0x390; do
		each "reserved bits of $msr" '#GP' write $msr "$(hex $((1 << n)))" $msr 0x800000000 \
			$msr "$(hex $((1 << 48)))" $msr "$(hex $((1 << 55)))" $msr "$(hex $((1 << 57)))"
	done
	each "global control has no bits of others" '#GP' write 0x38f "$(hex $((1 << 62)))" 0x38f "$(hex $((1 << 63)))"
	each "global status is read only" '#GP' write 0x38e 0 0x38e 1
	each "capabilities are read only" '#GP' write 0x345 0 0x345 0x2000

	# "Architectural Performance Monitoring Version 2", "... 3", "... 4": bits of what isn't offered may
	# be cleared all the same, from that version on which defines them.
	each "global status reset reads as 0" 0 write 0x390 0 0x390 "$(hex $all)" 0x390 "$(hex $((all | 3 << 62)))"
	each "global status reset: bit 61" "$([ "$v" -ge 3 ] && echo 0 || echo '#GP')" write 0x390 "$(hex $((1 << 61)))"
	each "global status reset: bits 58 to 60" "$([ "$v" -ge 4 ] && echo 0 || echo '#GP')" \
		write $(for bit in 58 59 60; do echo 0x390 "$(hex $((1 << bit)))"; done)
	if [ "$v" -lt 4 ]; then
		each "registers of version 4" '#GP' probe 0x391 0x392
		each "writes to them" '#GP' write 0x391 0 0x392 0
		return
	fi
	each "global status set, in use" 0 probe 0x391 0x392
	each "global status set reads as 0" 0 write 0x391 0 0x391 "$(hex $all)"
	each "it sets the status" "$(hex $all)" write 0x391/0x38e "$(hex $all)"
	# Freezing isn't offered.
	each "its reserved bits" '#GP' write 0x391 "$(hex $((1 << n)))" 0x391 0x800000000 0x391 "$(hex $((1 << 58)))" \
		0x391 "$(hex $((1 << 59)))" 0x391 "$(hex $((1 << 63)))"
	# "IA32_PERF_GLOBAL_INUSE MSR"
	each "in use is read only" '#GP' write 0x392 0
	each "in use: the first counter's select" 0x1 write 0x186/0x392 0xc0
	each "in use: the last one's, and the interrupt" "$(hex $((1 << 63 | 1 << (n - 1))))" \
		write "$(hex $((0x185 + n)))/0x392" 0x1000c0
	each "in use: fixed counters" 0x500000000 write 0x38d/0x392 0x201
	each "in use: a fixed counter's interrupt" 0x8000000200000000 write 0x38d/0x392 0xa0
}

case $CPU in
intel*)
	intel
	finish
	;;
amd-k10) n=4 core='#GP' global='#GP' ;;
amd-zen3) n=6 core=0 global='#GP' ;;
amd-zen4) n=6 core=0 global=0 ;;
esac

for ((i = 0; i < 4; i++)); do
	is "legacy select $i" "$(probe "$(hex $((0xc0010000 + i)))")" 0
	is "legacy counter $i" "$(probe "$(hex $((0xc0010004 + i)))")" 0
done
for i in 0 1 2 10 11; do
	is "core register $i" "$(probe "$(hex $((0xc0010200 + i)))")" "$core"
done
is "behind the core registers" "$(probe 0xc001020c)" '#GP'
for r in 0xc0000300 0xc0000302 0xc0000303; do
	is "global register $r" "$(probe $r)" "$global"
done
is "global control" "$(probe 0xc0000301)" "$([ "$CPU" = amd-zen4 ] && echo 0x3f || echo '#GP')"
is "behind the global registers" "$(probe 0xc0000304)" '#GP'

for ((i = 0; i < n; i++)); do
	is "rdpmc $i" "$(rdpmc "$i")" 0
done
for i in $n 15 0x3fffffff 0x40000000 0x80000000 0xffffffff; do
	is "rdpmc $i" "$(rdpmc "$i")" '#GP'
done

# Without EN: what the register keeps of all ones.
is "reserved bits of an event select are dropped" "$(write 0xc0010000 0xffffffffffbfffff)" 0xfff97ffff
is "a counter has 48 bits" "$(write 0xc0010004 0xffff123456789abc)" 0x123456789abc
if [ "$core" = 0 ]; then
	is "the same by the core register" "$(write 0xc0010200 0xffffffffffbfffff)" 0xfff97ffff
	is "the same by the core register" "$(write 0xc0010201 0xffff123456789abc)" 0x123456789abc
	is "the last counter" "$(write 0xc001020b 0x7)" 0x7
fi
if [ "$global" = 0 ]; then
	is "global control keeps its bits" "$(write 0xc0000301 0xffffffffffffffff)" 0x3f
	is "global status is read only" "$(write 0xc0000300 0x3f)" 0
	is "clear reads as 0" "$(write 0xc0000302 0x3f)" 0
	is "set reads as 0" "$(write 0xc0000303 0x3f)" 0
fi
is "a global register that isn't there" "$(write 0xc0000305 1)" '#GP'

finish
