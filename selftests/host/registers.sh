#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: what a guest finds at PMU registers. CPU names the register
# set. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
rawvm=$BUILD/kvm/rawvm

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

case $CPU in
amd-k10) n=4 core='#GP' global='#GP' ;;
amd-zen3) n=6 core=0 global='#GP' ;;
amd-zen4) n=6 core=0 global=0 ;;
esac

hex() {
	printf '%#x' "$1"
}

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
