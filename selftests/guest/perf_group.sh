#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: perf record of several events at once, and perf top. Needs PROGRAMS.

. "$(dirname "$0")/../tap.sh"

dir=$(mktemp -d)
cd "$dir" || exit

program=("$PROGRAMS/exact" loop 00100000)
perf stat -x, -o stat -e instructions:u,branches:u -- "${program[@]}"
i=$(awk -F, '$3 == "instructions:u" { print $1 }' stat)
b=$(awk -F, '$3 == "branches:u" { print $1 }' stat)

# record NAME OPTION...
record() {
	perf record -q -o perf.data "${@:2}" -- "${program[@]}" 2>log || sed 's/^/# /' log
	perf script -i perf.data -F event,period,ip 2>/dev/null | tr -d : >samples
	is "$1: lost or throttled" "$(perf report -i perf.data --stats 2>/dev/null |
		awk '/(LOST|THROTTLE)/ { print $3; exit }')" ""
}

# samples EVENT
samples() {
	awk -v event="$1" '$2 == event { n++ } END { print n + 0 }' samples
}

# Different periods, each counter with its own overflows
record "two events" -e instructions/period=30000/u -e branches/period=7000/u
head -3 samples | sed 's/^/# /'
is "two events: samples of instructions" "$(awk '$2 ~ /^instructions/' samples | wc -l)" $((i / 30000))
is "two events: samples of branches" "$(awk '$2 ~ /^branches/' samples | wc -l)" $((b / 7000))

# The leader samples, and reads the group at that moment: as no counter counts in between, each third
# instruction was a branch, all the time. The first sample has the program's start in it.
record "group" -e '{instructions:u,branches:u}:S' -c 30000
head -3 samples | sed 's/^/# /'
is "group: samples of instructions" "$(samples instructionsu)" $((i / 30000))
is "group: samples of branches" "$(samples branchesu)" $((i / 30000))
is "group: instructions from sample to sample" \
	"$(awk '$2 == "instructionsu" { print $1 }' samples | sort -u)" 30000
is "group: branches from sample to sample" \
	"$(awk '$2 == "branchesu" && n++ { print $1 }' samples | sort -u)" 10000
is "group: different addresses" "$(awk '{ print $3 }' samples | sort -u | wc -l)" 1

# perf top looks at all of the machine, itself too; how the program's two functions share theirs is known.
"$PROGRAMS/profile" 1000000 &
profile=$!
# shellcheck disable=SC2094 # looks at what is there so far
(
	# until it has shown it twice
	for _ in $(seq 80); do
		sleep 1
		[ "$(grep -ac eighty shown)" -lt 2 ] || break
	done
	echo q
) | timeout 120 stdbuf -oL perf top --stdio -d 4 -e cycles:u -c 1000003 >shown 2>log
kill $profile
grep -aE 'eighty|twenty' shown | tail -n 2 >last
sed 's/^/# /' last
share() {
	awk -v s="$1" '$NF == s { sub("%", "", $1); printf "%d", $1 * 100 + 0.5 }' last
}
eighty=$(share eighty) twenty=$(share twenty)
within "top: hundredths of a percent in both functions" $((${eighty:-0} + ${twenty:-0})) 5000 10000
# as for perf record
within "top: hundredths of a percent of these in eighty()" \
	$((${eighty:-0} * 10000 / (${eighty:-0} + ${twenty:-0} + 1))) 7900 8100

cd / && rm -rf "$dir"
finish
