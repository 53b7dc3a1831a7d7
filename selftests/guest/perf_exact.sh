#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: what an unmodified perf stat counts for loops whose instructions
# are known, against the truth. Needs PROGRAMS, the folder of the built ones.

. "$(dirname "$0")/../tap.sh"

out=$(mktemp)

# counts PROGRAM-ARGS...: sets i and b to what perf stat counted
counts() {
	perf stat -x, -o "$out" -e instructions:u,branches:u -- "$PROGRAMS/exact" "$@"
	i=$(awk -F, '$3 ~ /^instructions/ { print $1 }' "$out")
	b=$(awk -F, '$3 ~ /^branches/ { print $1 }' "$out")
}

# exactly KIND COUNT INSTRUCTIONS BRANCHES: per iteration
exactly() {
	counts "$1" 00000000
	i0=$i b0=$b
	counts "$1" "$(printf %08x "$2")"
	case $i0$b0$i$b in
	*[!0-9]*)
		not_ok "$1: perf counts"
		sed 's/^/# /' "$out"
		return
		;;
	esac
	is "$1 x $2: instructions:u" $((i - i0)) $(($2 * $3))
	is "$1 x $2: branches:u" $((b - b0)) $(($2 * $4))
}

exactly loop 1000000 3 1
exactly loop 1 3 1
exactly jcc 100000 5 3
exactly call 100000 4 3
exactly rep 10000 6 1
exactly cpuid 10000 4 1
exactly syscall 10000 4 2

# The same program twice counts the same.
counts loop 00001000
i1=$i b1=$b
counts loop 00001000
is "the same again: instructions:u" "$i" "$i1"
is "the same again: branches:u" "$b" "$b1"

rm -f "$out"
finish
