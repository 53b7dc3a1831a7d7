# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The emulator's reference for virtual PMUs (docs/emulated-pmu.md), for tests on a host with
# x-pmu-oracle=on: source it after tap.sh.

signature=0xc0de0000 compared=0xc0de0010 mismatches=0xc0de0011
# What guests' counters should have counted in all
# shellcheck disable=SC2034 # for those that source this
instructions=0xc0de0018 branches=0xc0de0019

# msr NUMBER: of the oracle's window
msr() {
	dd if=/dev/cpu/0/msr bs=8 count=1 skip=$(($1)) iflag=skip_bytes status=none | od -An -tu8 |
		tr -d ' '
}

# start: from here on, agree looks at what guests read
start() {
	before=$(msr $compared) before_bad=$(msr $mismatches)
}

# agree NAME
agree() {
	local bad
	bad=$(msr $mismatches)
	is "$1: reads that differ from the truth" "$bad" "$before_bad"
	if [ "$bad" != "$before_bad" ]; then
		for ((i = 2; i < 7; i++)); do
			note "last mismatch $i: $(printf %#x "$(msr $((compared + i)))")"
		done
	fi
	if [ "$(msr $compared)" -gt "$before" ]; then
		ok "$1: $(($(msr $compared) - before)) reads compared"
	else
		not_ok "$1: no read was compared"
	fi
}

modprobe msr
is "the oracle is there" "$(printf %x "$(msr $signature)")" 554d50565f4d564b
