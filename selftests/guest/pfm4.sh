#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: the example programs of libpfm4. Needs PROGRAMS, and PFM4, the folder that
# tools/testbed/put pfm4 filled.

. "$(dirname "$0")/../tap.sh"

out=$(mktemp)

# task [OPTION...] PROGRAM...: sets i and b
task() {
	"$PFM4/task" -e instructions:u,branches:u "$@" >"$out" 2>&1
	i=$(awk '$2 == "instructions:u" { print $1 }' "$out")
	b=$(awk '$2 == "branches:u" { print $1 }' "$out")
}

# exactly NAME COUNT INSTRUCTIONS BRANCHES [OPTION...] PROGRAM...: as in count.sh
exactly() {
	name=$1 n=$2 each_i=$3 each_b=$4
	shift 4
	task "$@" 00000000
	i0=$i b0=$b
	task "$@" "$(printf %08x "$n")"
	case $i0$b0$i$b in
	*[!0-9]* | '')
		not_ok "$name: counts"
		sed 's/^/# /' "$out"
		return
		;;
	esac
	is "$name x $n: instructions:u" $((i - i0)) $((n * each_i))
	is "$name x $n: branches:u" $((b - b0)) $((n * each_b))
}

exactly "task: loop" 1000000 3 1 "$PROGRAMS/exact" loop
exactly "task: cpuid" 1000 4 1 "$PROGRAMS/exact" cpuid
exactly "task -i: fork" 16 13 6 -i "$PROGRAMS/os_loops" fork
exactly "task: fork" 16 8 4 "$PROGRAMS/os_loops" fork

# By RDPMC, for 10 s, a longer function each time; the first read is the start, and the second has lazy
# binding in it. The rest differ by what printf() takes for more or fewer digits.
"$PFM4/self_count" instructions:u >"$out"
is "self_count: reads by a system call" "$(grep -c 'using read' "$out")" 0
awk '$2 == "instructions:u" && n++ > 1 { print $1 }' "$out" | sort -n >"$out.n"
within "self_count: reads by RDPMC" "$(wc -l <"$out.n")" 2 1000
least=$(head -n 1 "$out.n")
within "self_count: instructions each time" "$(tail -n 1 "$out.n")" "$least" $((least + 300))

rm -f "$out" "$out.n"
finish
