#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: samples of an unmodified perf record. Needs PROGRAMS.

. "$(dirname "$0")/../tap.sh"

dir=$(mktemp -d)
cd "$dir" || exit

samples() {
	perf script -i perf.data -F event 2>/dev/null | wc -l
}

# floor(N / period) samples, where N is what the program counts by itself
for period in 10000 100000; do
	perf stat -x, -o stat -e instructions:u -- "$PROGRAMS/exact" loop 000f4240
	n=$(awk -F, '$3 ~ /^instructions/ { print $1 }' stat)
	perf record -q -o perf.data -c $period -e instructions:u -- \
		"$PROGRAMS/exact" loop 000f4240 2>log || sed 's/^/# /' log
	within "record -c $period of ${n:-?} instructions: samples" "$(samples)" \
		$((n / period - 1)) $((n / period + 1))
	lost=$(perf report -i perf.data --stats 2>/dev/null | awk '/LOST|THROTTLE/ { n += $3 } END { print n + 0 }')
	is "record -c $period: lost or throttled" "$lost" 0
done

perf record -q -o perf.data -e cycles:u -c 100003 -- "$PROGRAMS/profile" 6000 2>log ||
	sed 's/^/# /' log
perf report -i perf.data --stdio -s symbol -F overhead,sym 2>/dev/null |
	grep -v '^#' | grep -v '^$' | head -5 | sed 's/^/# /'
share() {
	perf report -i perf.data --stdio -s symbol -F overhead,sym 2>/dev/null |
		awk -v s="$1" '$NF == s { sub("%", "", $1); printf "%d\n", $1 * 100 + 0.5 }'
}
note "samples: $(samples)"
within "profile: hundredths of a percent in eighty()" "$(share eighty)" 7900 8100
within "profile: hundredths of a percent in twenty()" "$(share twenty)" 1900 2100

cd / && rm -rf "$dir"
finish
