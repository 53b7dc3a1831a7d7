#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated Intel host of two sockets, with two CPUs each, whose memory takes time (pmu_sockets=1), and the module:
# does "vpmu map" choose well? mapping.sh [KERNEL...]: these of the twelve below, or all. Needs BUILD and PROGRAMS.
#
# What "vpmu pages" says of where loads are from is that of the guests whose sources are known.
#
# What a trial costs is what the guest hasn't done meanwhile, and what "vpmu map" says of that.
#
# The regret of a choice is by how much the better one of local and interleaved beats it. The guest's own count of what
# it has done says how fast it was, and a model of power which sockets that took (tools/vpmu/meter.h).

here=$(dirname "$(readlink -f "$0")")
. "$here/../tap.sh"
. "$here/lib.sh"
vpmu=$BUILD/vpmu/vpmu
dir=$(mktemp -d) || exit
cd "$dir" || exit
. "$here/rawvm.sh"

# What each of two vCPUs does (rawvm demand): lines of its own and lines that both have, each with 1 if it writes there,
# and what it computes. A private cache has 1,024 lines, a last-level cache 16,384.
kernels=(
	# They share.
	'ping 0 0 8 1 0'
	'counter 0 0 64 1 2000'
	'table 0 0 4096 1 0'
	'blackboard 1024 0 8192 1 0'
	# They want last-level caches, or ports to memory, of their own.
	'reader 32768 0 0 0 0'
	'writer 32768 1 0 0 0'
	'cached 12288 0 0 0 0'
	'worker 10240 1 0 0 3000'
	# Neither.
	'computer 0 0 0 0 10000'
	'small 512 1 0 0 1000'
	'fitting 4096 0 0 0 0'
	'seldom 64 1 1 1 200000'
)
modprobe msr

# switch VALUE: 1 or 0
switch() {
	printf '%b' "\\x0$1\\0\\0\\0\\0\\0\\0\\0" |
		dd of=/dev/cpu/0/msr bs=8 oflag=seek_bytes seek=$((0xc0de0200)) status=none
}

# Sets now (us) and passes
ask() {
	printf . >stdin
	read -r passes <&3
	now=${EPOCHREALTIME/./}
}

# speed: sets it to passes in a second, and sockets to how many the vCPUs are on
speed() {
	local began from
	sleep 0.02
	ask
	began=$now from=$passes
	sleep 0.05
	ask
	speed=$(((passes - from) * 1000000 / (now - began)))
	sockets=$(for tid in "${tids[@]}"; do
		cut -d ' ' -f 39 /proc/"$pid"/task/"$tid"/stat
	done | awk '{ print int($1 / 2) }' | sort -u | wc -l)
}

# pin CPUS CPUS
pin() {
	taskset -cp "$1" "${tids[0]}" >/dev/null
	taskset -cp "$2" "${tids[1]}" >/dev/null
}

# As many events as the host has counters, so that nothing is estimated
miss=MEM_LOAD_L3_MISS_RETIRED
events=(-f "cache=MEM_LOAD_RETIRED:L3_HIT,memory=$miss:LOCAL_DRAM,far-modified=$miss:REMOTE_HITM,far-memory=$miss:REMOTE_DRAM")

# loads_are_from TEXT SOURCE...: nearly all of the guest's, and of each of these some. KVM and the guest's first pass at
# this place have a few others. Where memory is depends on the host's pages.
loads_are_from() {
	local text=$1
	shift
	"$vpmu" pages $pid "${events[@]}" -n 1 -c 1000 -t 0.1 -s 0.1 --json >pages.json 2>err
	is "$text: loads are from $*" "$(python3 - "$@" <<-'END' 2>&1
		import json, sys
		fills = json.load(open("pages.json"))["fills"]
		shares = [fills["from"][source]["share"] or 0 for source in sys.argv[1:]]
		good = sum(shares) > 0.99 and min(shares) > 0.4 and fills["counted"] == 1
		print(True if good else fills)
	END
	)" True
}

# decided N: until N trials are over; then as ask
decided() {
	until [ "$(wc -l <trials)" -ge "$1" ]; do
		sleep 0.02
	done
	ask
}

# By default, trials of a guest that goes on as it does begin 0, 10, 50 and 210 s behind the first look.
check_cost() {
	local map times
	: >trials
	"$vpmu" map $pid -i 0.25 --json >trials 2>err &
	map=$!
	decided 1
	times="$now $passes"
	decided 3
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
	read -r kernel demand <<<"$kernel"
	[ $# = 0 ] || [[ " $* " == *" $kernel "* ]] || continue
	# shellcheck disable=SC2086 # numbers
	start demand $demand
	pin 0-3 0-3
	speed
	none="$speed $sockets"
	pin 0-1 0-1
	speed
	local_=$speed
	case $kernel in
	ping) loads_are_from "$kernel, local" cache ;;
	reader) loads_are_from "$kernel, local" memory far-memory ;;
	esac
	pin 0-1 2-3
	speed
	interleaved=$speed
	case $kernel in
	ping) loads_are_from "$kernel, interleaved" far-modified ;;
	reader) loads_are_from "$kernel, interleaved" memory far-memory ;;
	fitting) loads_are_from "$kernel, interleaved" cache ;;
	esac
	for objective in performance power energy; do
		"$vpmu" map $pid --for none
		# The model of power has it from /proc/stat, in ticks of 10 ms, how busy sockets are.
		trial=(-t 0.1 -r 2)
		[ $objective != performance ] || trial=(-t 0.02 -r 3)
		"$vpmu" map $pid --once "${trial[@]}" --for $objective --json >out 2>err
		status=$?
		mapping=$(sed -n 's/.*"mapping": *"\([a-z]*\)".*/\1/p' out)
		speed
		echo "$kernel $objective $local_ $interleaved $none $speed $sockets $status $mapping" | tee -a results |
			sed 's/^/# /'
	done
	if [ "$kernel" = table ]; then
		"$vpmu" map $pid --for none
		check_cost
	fi
	end
done
switch 0

relay python3 - <<'END'
import sys

def power(sockets):
    return 104.63 + 8.69 * sockets + 1.62 * 2

def score(objective, speed, sockets):
    watts = power(sockets)
    return {"performance": speed, "power": 1 / watts, "energy": speed / watts}[objective]

sums, worst, rows = {}, {}, 0
for line in open("results"):
    kernel, objective, *numbers, status, mapping = line.split()
    near, far, free, free_sockets, chosen, sockets = map(int, numbers)
    scores = {
        "local": score(objective, near, 1), "interleaved": score(objective, far, 2),
        "scheduler": score(objective, free, free_sockets), "map": score(objective, chosen, sockets),
    }
    best = max(scores["local"], scores["interleaved"])
    rows += 1
    for name in scores:
        regret = max(best / scores[name], 1)
        sums[name] = sums.get(name, 0) + regret
        worst[name] = max(worst.get(name, 1), regret)
        if name == "map":
            print(f"# {kernel}, {objective}: {mapping}, regret {regret:.3f}")
    if status != "0":
        print(f"not ok - {kernel}, {objective}: status {status}")
mean = {name: total / rows for name, total in sums.items()}
for name in mean:
    print(f"# {name}: mean regret {mean[name]:.3f}, worst {worst[name]:.3f}")
print("ok" if mean["map"] <= 1.02 else "not ok", "- mean regret")
print("ok" if worst["map"] <= 1.10 else "not ok", "- worst regret")
for name in "local", "interleaved", "scheduler":
    print("ok" if mean["map"] <= mean[name] else "not ok", f"- no worse than {name} always")
END
rm -r "$dir"
finish
