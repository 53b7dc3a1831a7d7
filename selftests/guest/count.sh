# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
#
# Counting with an unmodified perf stat, for the tests of this folder: source it after tap.sh.

out=$(mktemp)

# counted EVENT: what the last perf stat -x, -o "$out" counted of it; one line for each such event
counted() {
	awk -F, -v event="$1" '$3 == event { print $1 }' "$out"
}

# perf_stat [OPTION...] -- PROGRAM...: sets i and b to its instructions and branches
perf_stat() {
	perf stat -x, -o "$out" -e instructions:u,branches:u "$@" >/dev/null
	i=$(counted instructions:u) b=$(counted branches:u)
}

# are_numbers NAME NUMBER...: else a failure
are_numbers() {
	name=$1
	shift
	for number; do
		case $number in
		'' | *[!0-9]*)
			not_ok "$name: counts"
			sed 's/^/# /' "$out"
			return 1
			;;
		esac
	done
}

# exactly NAME COUNT INSTRUCTIONS BRANCHES [OPTION...] -- PROGRAM...: for each of COUNT, which is the
# program's last argument. What else the program does is the same with a COUNT of 0.
exactly() {
	name=$1 n=$2 each_i=$3 each_b=$4
	shift 4
	perf_stat "$@" 00000000
	i0=$i b0=$b
	perf_stat "$@" "$(printf %08x "$n")"
	are_numbers "$name" "$i0" "$b0" "$i" "$b" || return
	is "$name x $n: instructions:u" $((i - i0)) $((n * each_i))
	is "$name x $n: branches:u" $((b - b0)) $((n * each_b))
}
