#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest of two CPUs: perf counts on while one of them goes offline and comes back, and is exact
# on both after that. Needs PROGRAMS.

cd "$(dirname "$0")" || exit
. ../tap.sh

out=$(mktemp)
online=/sys/devices/system/cpu/cpu1/online

# on CPU COUNT: instructions and branches of the loop there
on() {
	taskset -c "$1" perf stat -x, -o "$out" -e instructions:u,branches:u -- \
		"$PROGRAMS/exact" loop "$(printf %08x "$2")"
	awk -F, '$3 ~ /^(instructions|branches)/ { print $1 }' "$out" | paste -sd' '
}

is "CPUs" "$(nproc)" 2
perf stat -a -x, -o "$out.all" -e instructions,branches -- \
	sh -c "while [ ! -e $out.end ]; do sleep 0.1; done" &
for round in 1 2 3; do
	echo 0 >$online
	is "round $round: CPU 1 is away" "$(cat $online)" 0
	echo 1 >$online
	for cpu in 0 1; do
		# Each on its own, as $(( )) has one number
		none=$(on $cpu 0)
		some=$(on $cpu 100000)
		is "round $round: CPU $cpu: instructions" $((${some% *} - ${none% *})) 300000
		is "round $round: CPU $cpu: branches" $((${some#* } - ${none#* })) 100000
	done
done
touch "$out.end"
wait
sed 's/^/# /' "$out.all"
case $(cat "$out.all") in
*[0-9],,instructions*[0-9],,branches*) ok "perf stat -a over all of it" ;;
*) not_ok "perf stat -a over all of it" ;;
esac
finish
