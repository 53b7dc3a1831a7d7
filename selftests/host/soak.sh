#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with x-pmu-oracle=on: for ten minutes, or as many seconds as the argument says, two
# stock guests count and sample in a loop, while the host counts and samples all that it does, with
# its NMI watchdog on. Needs BUILD and PROGRAMS.

seconds=${1:-600}
cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
dir=$(mktemp -d)
period=10007

modprobe msr
is "the NMI watchdog is on" "$(cat /proc/sys/kernel/nmi_watchdog)" 1
# An emulated CPU takes long for each interrupt, by the wall clock; don't let perf sample less then.
sysctl -q kernel.perf_cpu_time_max_percent=0

# Each round: "count" and what N more iterations of 3 instructions counted more, "samples" and how many
# instructions, samples, and lost ones.
cat >"$dir/guest" <<'E2'
sysctl -q kernel.nmi_watchdog=0 kernel.perf_cpu_time_max_percent=0
end=$((SECONDS + seconds))
counts() {
	perf stat -x, -o /tmp/o -e instructions:u,branches:u -- "$PROGRAMS/exact" loop "$(printf %08x "$1")"
	awk -F, '$5 == "100.00" { printf "%s ", $1 }' /tmp/o
}
read -r i0 b0 <<<"$(counts 0)"
while [ $SECONDS -lt $end ]; do
	n=$((RANDOM * 64 + 100000))
	read -r i b <<<"$(counts $n)"
	echo "count $n $((i - i0)) $((b - b0))"
	perf record -q -o /tmp/data -c $period -e instructions:u -- "$PROGRAMS/exact" loop "$(printf %08x $n)" 2>/dev/null
	perf report -i /tmp/data --stats 2>/dev/null | awk -v i="$i" '
		$2 == "events:" { v[$1] = $3 } END { print "samples", i, v["SAMPLE"] + 0, v["LOST"] + 0 }'
done
echo "end"
E2

start
for g in 1 2; do
	vpmu-guest --timeout $((seconds + 300)) -- bash -c \
		"PROGRAMS='$PROGRAMS' seconds=$seconds period=$period; $(cat "$dir/guest")" >"$dir/guest$g" &
	guests[g]=$!
done
# until they count
while kill -0 "${guests[1]}" 2>/dev/null && [ ! -s "$dir/guest1" ]; do
	sleep 1
done

# The host counts for as long as the guests do, and the same beside the oracle.
mkfifo "$dir/until"
"$BUILD/kvm/host_perf" watch <"$dir/until" >"$dir/watch" &
watch=$!
exec 5>"$dir/until"
perf stat -a -x, -o "$dir/stat" -e instructions:u,branches:u -- sleep "$seconds" &
stat=$!
perf record -q -a -o "$dir/data" -c 10000019 -e instructions -- sleep "$seconds" 2>/dev/null &
record=$!
overflows=0 pmis=0 anomalies=0 evicted=0 borrowed=0
while kill -0 $stat 2>/dev/null; do
	sleep 5
	# All at one look; one that ended is missing from the next.
	read -r now rest <<<"$(figures overflows pmis anomalies evicted borrowed)"
	[ "$now" -lt "$overflows" ] || read -r overflows pmis anomalies evicted borrowed <<<"$now $rest"
done
wait $stat $record
exec 5>&-
wait $watch
is "the host's count beside the oracle: ended well" $? 0
for g in 1 2; do
	wait "${guests[g]}"
	is "guest $g: ended well" "$? $(tail -n 1 "$dir/guest$g")" "0 end"
	rounds=$(grep -c '^count' "$dir/guest$g")
	within "guest $g: rounds" "$rounds" $((1 + seconds / 120)) 1000000
	is "guest $g: rounds that counted wrong" \
		"$(awk '$1 == "count" && ($3 != 3 * $2 || $4 != $2)' "$dir/guest$g")" ""
	is "guest $g: rounds with a sample too many or too few" \
		"$(awk -v p=$period '$1 == "samples" { d = $3 - int($2 / p); if (d < -1 || d > 1 || $4) print }' "$dir/guest$g")" ""
	note "guest $g: $(awk '$1 == "samples" { s += $3 } END { print s }' "$dir/guest$g") samples"
done
agree "guests"
relay cat "$dir/watch"

# perf's own is a bit shorter than that of the program above.
note "the host's perf stat: $(awk -F, '/:u/ { printf "%s %s, %s %%; ", $1, $3, $5 }' "$dir/stat")"
is "the host's perf stat: events that ran all the time" "$(grep -c ',100.00,' "$dir/stat")" 2
within "the host's perf record: samples" "$(events "$dir/data" SAMPLE)" 10 1000000000
is "the host's perf record: lost" "$(events "$dir/data" LOST)" ""
is "unknown NMIs" "$(dmesg | grep -c 'NMI received for unknown reason')" 0
within "overflows of guests' counters" "$overflows" 100 1000000000
is "interrupts for them" "$pmis" "$overflows"
is "anomalies" "$anomalies" 0
note "evicted: $evicted, borrowed: $borrowed"
rm -r "$dir"
finish
