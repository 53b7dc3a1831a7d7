#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: perf on a program from the guest's own disk, the tar archive on DEVICE, and the counts into the archive,
# as file NAME.
#
#	own_disk.sh NAME DEVICE

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/count.sh"

results=$1 device=$2
dir=$(mktemp -d)
cd "$dir" || exit
tar -xf "$device" || exit
note "$(dmesg | grep -o 'Performance Events: .*')"
note "on the disk: $(tar -tf "$device" | paste -sd' ')"

exactly loop 1000000 3 1 -- ./exact loop
exactly cpuid 10000 4 1 -- ./exact cpuid
echo "cpuid $i $b" >"$results"

# The whole program, from its first instruction to its last
for kind in loop jcc call rep syscall; do
	perf_stat -- ./exact $kind 00001000
	if are_numbers "$kind" "$i" "$b"; then
		echo "$kind $i $b" >>"$results"
	fi
done

sysctl -q kernel.perf_cpu_time_max_percent=0
perf record -q -o data -c 10007 -e instructions:u -- ./exact loop 00100000 2>log || sed 's/^/# /' log
# 0x100000 of three instructions, and a few before them
is "perf record: samples" "$(perf report -i data --stats 2>/dev/null |
	awk '$1 == "SAMPLE" && $2 == "events:" { print $3; exit }')" $((3 * 0x100000 / 10007))

tar -rf "$device" "$results" || not_ok "results are written to the disk"
sync
cd / && rm -rf "$dir" "$out"
finish
