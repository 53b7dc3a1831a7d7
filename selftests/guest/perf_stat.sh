#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: the ways that perf stat counts, on programs that fault, fork, are interrupted, have threads.
# Needs PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/count.sh"

loops=$PROGRAMS/os_loops exact=$PROGRAMS/exact

# What happens to a program isn't the program's.
exactly "page fault" 256 5 2 -- "$loops" fault
exactly "signal" 256 7 4 -- "$loops" signal
exactly "fork, with the child" 16 13 6 -- "$loops" fork
exactly "fork, without the child (-i)" 16 8 4 -i -- "$loops" fork
exactly "two processes that hand over the CPU" 64 8 4 -- "$loops" yield

# Each of its generations executes the same.
exec_of() {
	perf_stat -- "$loops" exec "$1"
}
exec_of 00000004
i4=$i b4=$b
exec_of 00000008
i8=$i b8=$b
exec_of 0000000c
if are_numbers exec "$i4" "$b4" "$i8" "$b8" "$i" "$b"; then
	is "4 more times exec: instructions:u" $((i - i8)) $((i8 - i4))
	is "4 more times exec: branches:u" $((b - b8)) $((b8 - b4))
	within "instructions:u of one of these" $(((i8 - i4) / 4)) 100 1000
fi

# A program of Debian's. Addresses change what the C library does.
sysctl -q kernel.randomize_va_space=0
perf_stat -- sha256sum /usr/bin/bash
i1=$i b1=$b
perf_stat -- sha256sum /usr/bin/bash
if are_numbers sha256sum "$i1" "$b1" "$i" "$b"; then
	is "sha256sum, the same again: instructions:u" "$i" "$i1"
	is "sha256sum, the same again: branches:u" "$b" "$b1"
fi

# All intervals together
intervals() {
	perf stat -x, -o "$out" -I 20 -e instructions:u,branches:u -- "$exact" loop "$1"
	i=$(awk -F, '$4 == "instructions:u" { s += $2 } END { printf "%d", s }' "$out")
	b=$(awk -F, '$4 == "branches:u" { s += $2 } END { printf "%d", s }' "$out")
}
intervals 00000000
i0=$i b0=$b
intervals 04000000
within "-I: intervals" "$(grep -c ,instructions:u, "$out")" 3 100000
is "-I: instructions:u, their sum" $((i - i0)) $((3 * 0x04000000))
is "-I: branches:u, their sum" $((b - b0)) $((0x04000000))

# attached KIND COUNT OPTION...: to a program that runs and waits, and is let go then
attached() {
	"$loops" "$1" "$2" <"$fifo" &
	pid=$!
	shift 2
	# Threads are all there, and wait in read(0, ...), when perf comes.
	until [ "$(cat /proc/$pid/task/*/syscall | grep -c '^0 0x0 ')" = "$threads" ]; do
		sleep 0.1
	done
	# shellcheck disable=SC2016 # the inner shell's
	perf stat -x, -o "$out" -e instructions:u,branches:u "$@" $pid -- sh -c '
		printf go >&9
		for task in /proc/'$pid'/task/*; do
			while grep -q "^State:[[:space:]]*[^Z[:space:]]" "$task/status"; do
				sleep 0.1
			done
		done 2>/dev/null'
	wait $pid
	# what nobody read
	dd if="$fifo" of=/dev/null bs=8 count=1 iflag=nonblock 2>/dev/null
}
fifo=$(mktemp -u)
mkfifo "$fifo"
exec 9<>"$fifo"

threads=1
attached gate 00000000 -t
i0=$(counted instructions:u) b0=$(counted branches:u)
attached gate 000f4240 -t
i=$(counted instructions:u) b=$(counted branches:u)
if are_numbers "-t" "$i0" "$b0" "$i" "$b"; then
	is "-t, 1000000 x loop: instructions:u" $((i - i0)) 3000000
	is "-t, 1000000 x loop: branches:u" $((b - b0)) 1000000
fi

# The one that was made first has the lower number.
per_thread() {
	attached threads "$1" --per-thread -p
	awk -F, '$4 == "instructions:u" { split($1, id, "-"); print id[2], $2 }' "$out" | sort -n |
		awk '{ print $2 }'
}
threads=2
per_thread 00000000 >"$fifo.0"
per_thread 000f4240 >"$fifo.n"
# shellcheck disable=SC2046 # numbers
set -- $(cat "$fifo.0" "$fifo.n")
if are_numbers "--per-thread" "$1" "$2" "$3" "${4:-}"; then
	is "--per-thread, 1000000 x loop in the first: instructions:u" $(($3 - $1)) 3000000
	is "--per-thread, 2000000 x loop in the second: instructions:u" $(($4 - $2)) 6000000
fi
exec 9<&-
rm -f "$fifo" "$fifo.0" "$fifo.n"

# -d: L1 accesses too. CALL and RET are one each; the emulator has a model of the misses.
loads() {
	perf stat -x, -o "$out" -e L1-dcache-loads:u -- "$exact" "$1" "$2"
	# perf leaves the modifier out of this name.
	counted L1-dcache-loads
}
# Loads only, on Intel's
per_call=2
! grep -q GenuineIntel /proc/cpuinfo || per_call=1
is "100000 x call: L1-dcache-loads:u" $(($(loads call 000186a0) - $(loads call 00000000))) $((per_call * 100000))
is "100000 x loop: L1-dcache-loads:u" $(($(loads loop 000186a0) - $(loads loop 00000000))) 0

perf stat -x, -o "$out" -d -- "$exact" call 04000000
for event in cycles instructions branches branch-misses L1-dcache-loads L1-dcache-load-misses; do
	within "-d: $event" "$(counted $event)" 1 1000000000000
done
# AMD CPUs offer no such events (arch/x86/events/amd/core.c, amd_hw_cache_event_ids_f17h), and on Intel's they
# need MSRs that guests don't have (offcore responses).
is "-d: not supported" "$(awk -F, '$1 == "<not supported>" { printf "%s ", $3 }' "$out")" \
	"LLC-loads LLC-load-misses "
is "-d: not counted" "$(awk -F, '$1 == "<not counted>" { printf "%s ", $3 }' "$out")" ""

rm -f "$out"
finish
