#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated Intel host of two sockets, with two CPUs each, whose memory takes time (pmu_sockets=1), and the module:
# does "vpmu map" choose well? mapping.sh [KERNEL...]: these of the twelve of demand.sh, or all. Needs BUILD and PROGRAMS.
#
# What "vpmu pages" says of where loads are from is that of the guests whose sources are known.
#
# What a trial costs is what the guest hasn't done meanwhile, and what "vpmu map" says of that.

here=$(dirname "$(readlink -f "$0")")
. "$here/../tap.sh"
. "$here/lib.sh"
vpmu=$BUILD/vpmu/vpmu
dir=$(mktemp -d) || exit
cd "$dir" || exit
. "$here/rawvm.sh"
. "$here/demand.sh"

# As many events as the host has counters, so that nothing is estimated
miss=MEM_LOAD_L3_MISS_RETIRED
events=(-f "cache=MEM_LOAD_RETIRED:L3_HIT,memory=$miss:LOCAL_DRAM,far-modified=$miss:REMOTE_HITM,far-memory=$miss:REMOTE_DRAM")

# loads_are_from TEXT SOURCE...: nearly all of the guest's, and of each of these some. KVM and the guest's first pass at
# this place have a few others. Where memory is depends on the host's pages.
# shellcheck disable=SC2317 # check_loads calls it
loads_are_from() {
	local text=$1
	shift
	"$vpmu" pages "$pid" "${events[@]}" -n 1 -c 1000 -t 0.1 -s 0.1 --json >pages.json 2>err
	is "$text: loads are from $*" "$(python3 - "$@" <<-'END' 2>&1
		import json, sys
		fills = json.load(open("pages.json"))["fills"]
		shares = [fills["from"][source]["share"] or 0 for source in sys.argv[1:]]
		good = sum(shares) > 0.99 and min(shares) > 0.4 and fills["counted"] == 1
		print(True if good else fills)
	END
	)" True
}

# check_loads local|interleaved
# shellcheck disable=SC2317 # called by another name
check_loads() {
	case $kernel-$1 in
	ping-local | fitting-interleaved) loads_are_from "$kernel, $1" cache ;;
	ping-interleaved) loads_are_from "$kernel, $1" far-modified ;;
	reader-*) loads_are_from "$kernel, $1" memory far-memory ;;
	esac
}

# By default, trials of a guest that goes on as it does begin 0, 10, 50 and 210 s behind the first look.
check_cost() {
	local map times
	: >trials
	"$vpmu" map "$pid" -i 0.25 --json >trials 2>err &
	map=$!
	decided trials 1
	times="$now $passes"
	decided trials 3
	times+=" $now $passes"
	# The next one is 4 s away.
	sleep 0.3
	ask
	times+=" $now $passes"
	kill $map
	wait $map
	# shellcheck disable=SC2086 # numbers
	relay python3 - $times <<-'END'
		import json, sys
		began, from_, over, to, later, last = map(int, sys.argv[1:])
		trials = [json.loads(line) for line in open("trials")]
		said = [trial["lost"] for trial in trials]
		speed = (last - to) / (later - over)
		lost = (over - began - (to - from_) / speed) / 1e6
		whole = said[0] + 3 * (said[1] + said[2]) / 2
		print(f"# trials cost {' '.join(map(str, said[:3]))} s; the last two by the guest's passes {lost:.6f} s")
		print("ok" if abs(lost - said[1] - said[2]) < 0.01 else "not ok", "- what the guest lost by two trials")
		rounds = [trial["rounds"] for trial in trials[:3]]
		print("ok" if rounds == [3, 1, 1] else "not ok", "- trials end as soon as nothing is better:", *rounds)
		print("ok" if whole < 0.0005 * 600 else "not ok", f"- ten minutes: trials cost {whole / 6:.4f} %")
	END
}

switch 1
echo "# kernel objective: speed local, interleaved, by the scheduler, of what was chosen"
for kernel in "${kernels[@]}"; do
	begins "$kernel" "$@" || continue
	speeds check_loads
	for objective in performance power energy; do
		"$vpmu" map "$pid" --for none
		# The model of power has it from /proc/stat, in ticks of 10 ms, how busy sockets are.
		trial=(-t 0.1 -r 2)
		[ $objective != performance ] || trial=(-t 0.02 -r 3)
		"$vpmu" map "$pid" --once "${trial[@]}" --for $objective --json >out 2>err
		status=$?
		mapping=$(sed -n 's/.*"mapping": *"\([a-z]*\)".*/\1/p' out)
		speed
		note $objective $status "$mapping"
	done
	if [ "$kernel" = table ]; then
		"$vpmu" map "$pid" --for none
		check_cost
	fi
	end
done
switch 0

judge
rm -r "$dir"
finish
