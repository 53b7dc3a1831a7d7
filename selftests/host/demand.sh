# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034,SC2154 # variables of, and for, those who source this
#
# For tests of "vpmu map" on an emulated Intel host of two sockets, with two CPUs each, whose memory takes time
# (pmu_sockets=1): source it after tap.sh, lib.sh and rawvm.sh, in the latter's folder.

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

# begins GUEST NAME...: starts that one of the above, and sets kernel to its name; false if there are NAMEs, of others
begins() {
	local demand
	read -r kernel demand <<<"$1"
	shift
	[ $# = 0 ] || [[ " $* " == *" $kernel "* ]] || return
	# shellcheck disable=SC2086 # numbers
	start demand $demand
}

# speeds CHECK: sets none, with its sockets, local_ and interleaved. Runs CHECK local, and CHECK interleaved, while so.
speeds() {
	pin 0-3 0-3
	speed
	none="$speed $sockets"
	pin 0-1 0-1
	speed
	local_=$speed
	"$1" local
	pin 0-1 2-3
	speed
	interleaved=$speed
	"$1" interleaved
}

# note OBJECTIVE STATUS MAPPING: a line of the file results, behind speeds and speed
note() {
	echo "$kernel $1 $local_ $interleaved $none $speed $sockets $2 $3" | tee -a results | sed 's/^/# /'
}

# decided FILE N: until that has N lines, of "vpmu map --json"; then as ask
decided() {
	until [ "$(wc -l <"$1")" -ge "$2" ]; do
		sleep 0.02
	done
	ask
}

# The regret of a choice is by how much the better one of local and interleaved beats it. The guest's own count of what
# it has done says how fast it was, and a model of power which sockets that took (tools/vpmu/meter.h).
#
# A line of the file results (note) has the guest and what was asked for, its speeds local, interleaved and by the
# scheduler, on how many sockets that was, its speed and sockets as "vpmu map" left it, that one's status and what it
# chose.
judge() {
	relay python3 - <<-'END'
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
}
