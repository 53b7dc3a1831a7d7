#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest that is migrated meanwhile, again and again: perf stat and perf record. Needs nothing of the
# bench, which couldn't be migrated. The argument says how often.

# shellcheck source=selftests/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")" || exit
sysctl -q kernel.perf_cpu_time_max_percent=0

times=$1
period=100003
rounds=4000

# counted FILE EVENT
counted() {
	awk -F, -v e="$2" 'index($3, e) == 1 { print $1; exit }' "$1"
}

# What a program counts by itself, before anything moves
perf stat -x, -o stat -e instructions:u,branches:u ./exact loop 00000000
nothing_i=$(counted stat instructions) nothing_b=$(counted stat branches)
perf stat -x, -o stat -e instructions:u ./profile $rounds
profile=$(counted stat instructions)
note "profile: $profile instructions"

# The bench waits for this.
echo "# begin"
i=0
while [ $i -lt "$times" ]; do
	i=$((i + 1))
	perf stat -x, -o stat$i -e instructions:u,branches:u ./exact loop 01000000
	perf record -q -o data$i -c $period -e instructions:u ./profile $rounds 2>log$i || cat log$i
	echo "# done $i"
done
echo "# end"

i=0
while [ $i -lt "$times" ]; do
	i=$((i + 1))
	is "perf stat $i: instructions" $(($(counted stat$i instructions) - nothing_i)) 50331648
	is "perf stat $i: branches" $(($(counted stat$i branches) - nothing_b)) 16777216
	perf report -i data$i --stats >stats 2>/dev/null
	within "perf record $i: samples" \
		"$(awk '$1 == "SAMPLE" && $2 == "events:" { print $3; exit }' stats)" \
		$((profile / period - 1)) $((profile / period + 1))
	is "perf record $i: lost or throttled" "$(grep -E 'LOST|THROTTLE' stats)" ""
	within "perf record $i: hundredths of a percent in eighty()" \
		"$(perf report -i data$i --stdio -s symbol -F overhead,sym 2>/dev/null |
			awk '$3 == "eighty" { sub("%", "", $1); printf "%d", $1 * 100 + 0.5 }')" 7950 8050
done
finish
