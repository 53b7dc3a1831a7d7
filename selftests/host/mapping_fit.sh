#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated Intel host of two sockets, with two CPUs each, whose memory takes time (pmu_sockets=1), and the module:
# does "vpmu map --fit" learn to choose without trials, and does it choose well? mapping_fit.sh [KERNEL...]: these of the
# twelve guests of demand.sh, or all, none of which it has learnt from. Needs BUILD and PROGRAMS.
#
# Each is looked after from where the scheduler has it, for two decisions: the second is made where the first has put it.

here=$(dirname "$(readlink -f "$0")")
. "$here/../tap.sh"
. "$here/lib.sh"
vpmu=$BUILD/vpmu/vpmu
dir=$(mktemp -d) || exit
cd "$dir" || exit
. "$here/rawvm.sh"
. "$here/demand.sh"

# As many events as the host has counters. Loads of what the other CPU of the socket has modified are some of L3_HIT, and
# those of another socket's are some of L3_MISS.
events=cache=MEM_LOAD_RETIRED:L3_HIT,near-cache=MEM_LOAD_L3_HIT_RETIRED:XSNP_HITM
events+=,memory=MEM_LOAD_RETIRED:L3_MISS,far-modified=MEM_LOAD_L3_MISS_RETIRED:REMOTE_HITM
fit=("--fit=$dir/map.json" "--fills=$events")

# Guests to learn from, in the words of demand.sh: of the same kinds, but other ones
lessons=(
	'0 0 16 1 0' '24576 0 0 0 0' '0 0 0 0 3000' '256 0 0 0 100'
	'0 0 32 1 500' '40000 1 0 0 0' '900 1 0 0 0' '2048 0 0 0 0'
	'0 0 256 1 0' '14000 0 0 0 0' '6000 1 0 0 0' '32 1 2 1 100000'
	'0 0 2048 1 2000' '11000 1 0 0 0' '3000 0 0 0 5000' '700 0 0 0 3000'
	'512 0 1024 1 5000' '13000 0 0 0 20000' '0 0 8000 0 0' '128 1 0 0 300000'
	'0 0 6000 1 0' '20000 0 0 0 50000' '5000 1 0 0 20000' '1000 0 0 0 0'
	'2048 0 4096 1 0' '30000 1 0 0 100000' '0 0 128 1 20000' '9500 1 0 0 0'
)

switch 1
echo "# lessons: own lines, written, both's, written, computes: what was chosen, by what, predicted, band, measured"
for lesson in "${lessons[@]}"; do
	# shellcheck disable=SC2086 # numbers
	start demand $lesson
	"$vpmu" map "$pid" --once "${fit[@]}" --json >out 2>err || not_ok "$lesson: status $? ($(cat err))"
	echo "# $lesson: $(sed -nE 's/.*"mapping": *"([a-z]*)".*"by": *"([a-z]*)", *"predicted": *([^,]*), *"band": *([^,]*), *"measured": *([^,]*),.*/\1 \2 \3 \4 \5/p' out)"
	cat out >>lessons
	end
done

echo "# kernel objective: speed local, interleaved, by the scheduler, of what was chosen"
for kernel in "${kernels[@]}"; do
	begins "$kernel" "$@" || continue
	speeds :
	"$vpmu" map "$pid" --for none
	if [ "$kernel" = ping ]; then
		taskset -cp 1 "${tids[0]}" >/dev/null
		"$vpmu" map "$pid" --once "${fit[@]}" >out 2>err
		is "pinned by somebody else: status" $? 1
		is "pinned by somebody else: the message" "$(grep -c "vCPU 0 is pinned by somebody else" err)" 1
		"$vpmu" map "$pid" --for none
	fi
	: >out
	"$vpmu" map "$pid" "${fit[@]}" -i 0.25 --json >out 2>err &
	map=$!
	decided out 2
	# The next one is a second away.
	speed
	kill $map
	wait $map
	status=$?
	mapping=$(sed -n '2s/.*"mapping": *"\([a-z]*\)".*/\1/p' out)
	note performance $status "$mapping"
	head -n 2 out | sed "s/^/$kernel /" >>decisions
	end
done
switch 0

relay python3 - <<'END'
import json

lessons = [json.loads(line) for line in open("lessons")]
tried = sum(lesson["by"] == "trial" for lesson in lessons)
print(f"# {tried} of {len(lessons)} lessons were trials")
counts, outside, lost = [0, 0], 0, 0
decisions = [line.split(" ", 1) for line in open("decisions")]
for i, (kernel, decision) in enumerate(decisions):
    d = json.loads(decision)
    counts[i % 2] += d["by"] == "model"
    lost += d["lost"] or 0
    print(f"# {kernel}: {d['mapping']} instead of {d['was']}, by {d['by']}: "
          f"predicted {d['predicted']} ± {d['band']}, measured {d['measured']}: {d['reason']}")
    if None not in (d["predicted"], d["band"], d["measured"]):
        outside += abs(d["predicted"] - d["measured"]) > d["band"]
kernels = len(decisions) // 2
print(f"# without a trial: of {kernels} first decisions {counts[0]}, of as many second ones {counts[1]}")
print(f"# of those that were tried all the same, {outside} were outside the band; trials cost {lost:.3f} s")
good = 4 * sum(counts) >= len(decisions)
print("ok" if good else "not ok", f"- a quarter of all decisions need no trial: {sum(counts)} of {len(decisions)}")
END
judge
rm -r "$dir"
finish
