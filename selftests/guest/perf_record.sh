#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: samples of an unmodified perf record. Needs PROGRAMS.

. "$(dirname "$0")/../tap.sh"

dir=$(mktemp -d)
cd "$dir" || exit

# stat NAME: how many events of that kind perf.data holds
stat() {
	perf report -i perf.data --stats 2>/dev/null |
		awk -v e="$1" '$1 == e && $2 == "events:" { print $3; exit }'
}

# floor(N / period) samples, where N is what the program counts by itself
for period in 10000 100000; do
	perf stat -x, -o stat -e instructions:u -- "$PROGRAMS/exact" loop 000f4240
	n=$(awk -F, '$3 ~ /^instructions/ { print $1 }' stat)
	perf record -q -o perf.data -c $period -e instructions:u -- \
		"$PROGRAMS/exact" loop 000f4240 2>log || sed 's/^/# /' log
	within "record -c $period of ${n:-?} instructions: samples" "$(stat SAMPLE)" \
		$((n / period - 1)) $((n / period + 1))
	is "record -c $period: lost or throttled" "$(stat LOST)$(stat THROTTLE)" ""
done

perf record -q -o perf.data -e cycles:u -c 20011 -- "$PROGRAMS/profile" 6000 2>log ||
	sed 's/^/# /' log
perf report -i perf.data --stdio -s symbol -F overhead,sym 2>/dev/null |
	grep -v '^#' | grep -v '^$' | head -5 | sed 's/^/# /'
share() {
	perf report -i perf.data --stdio -s symbol -F overhead,sym 2>/dev/null |
		awk -v s="$1" '$3 == s { sub("%", "", $1); printf "%d\n", $1 * 100 + 0.5 }'
}
note "samples: $(stat SAMPLE)"
within "profile: hundredths of a percent in eighty()" "$(share eighty)" 7900 8100
within "profile: hundredths of a percent in twenty()" "$(share twenty)" 1900 2100

cd / && rm -rf "$dir"
finish
