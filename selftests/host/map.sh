#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host of two sockets, with two CPUs each, and the module: "vpmu map" on VMs of two vCPUs that work.
# Needs BUILD and PROGRAMS.

here=$(dirname "$(readlink -f "$0")")
. "$here/../tap.sh"
vpmu=$BUILD/vpmu/vpmu
dir=$(mktemp -d) || exit
cd "$dir" || exit
. "$here/rawvm.sh"
work=(pages 32 40 100 30 50 60 120 50)

# Where the vCPUs may run, with a blank between them
cpus() {
	local tid
	for tid in "${tids[@]}"; do
		sed -n 's/^Cpus_allowed_list:\t//p' /proc/"$tid"/status
	done | xargs
}

# json EXPRESSION: of the last line of out (d)
json() {
	tail -n 1 out | python3 -c "import json, sys; d = json.load(sys.stdin); print($1)" 2>&1 | tail -n 1
}

# map STATUS TEXT ARGUMENT...: and what the message has
map() {
	local status=$1 text=$2
	shift 2
	"$vpmu" map "$@" >out 2>err
	is "map $*: status" $? "$status"
	is "map $*: the message" "$(grep -cF -- "$text" err)" 1
}

start "${work[@]}"
is "a VM with two vCPUs" ${#tids[@]} 2

"$vpmu" map $pid --dry-run -t 0.05 >out 2>err
is "dry run: status" $? 0
is "dry run: local vCPUs are on one socket" "$(awk 'NR > 1 { print $3 }' out | sort -u | grep -cE '^(0-1|2-3)$')" 1
is "dry run: interleaved ones are not" "$(awk 'NR > 1 { print $4 }' out | sort | xargs)" "0-1 2-3"
is "dry run: nothing is changed" "$(cpus)" "0-3 0-3"

# By the model a socket takes 8.69 W.
"$vpmu" map $pid --for power --once --json -t 0.2 -r 3 >out 2>err
is "for power: status" $? 0
is "for power: by the model" "$(json '(d["power"], d["objective"], d["rounds"], d["was"])')" \
	"('model', 'power', 3, 'none')"
watts='(lambda m: d[m]["joules"] / d[m]["seconds"])'
is "for power: local takes less than interleaved, by most of a socket" \
	"$(json "5 < $watts('interleaved') - $watts('local') < 9")" True
# What it should make of its own figures; how busy CPUs are depends on the emulator's host.
beats='(lambda a, b: d[a]["beats"][b] == 3 and 1.02 * '"$watts(a) < $watts(b))"
mapping=$(json "'none' if not $beats('local', 'interleaved') or $beats('none', 'local') else 'local'")
is "for power: local, if it's better in each round" "$(json 'd["mapping"]')" "$mapping"
if [ "$mapping" = local ]; then
	is "for power: where the vCPUs are" "$(cpus | xargs -n 1 | sort -u | grep -cE '^(0-1|2-3)$')" 1
else
	is "for power: where the vCPUs are" "$(cpus)" "0-3 0-3"
fi
is "for power: what is said of that" "$(json '" ".join("-".join(map(str, (v["cpus"][0], v["cpus"][-1]))) for v in d["vcpu"])')" \
	"$(cpus)"
is "for power: threads" "$(json '*(v["tid"] for v in d["vcpu"])')" "${tids[*]}"

"$vpmu" map $pid --for none >out 2>err
is "for none: status" $? 0
is "for none: the vCPUs may be anywhere" "$(cpus)" "0-3 0-3"

for objective in performance energy; do
	"$vpmu" map $pid --for $objective --once -t 0.05 -r 1 >out 2>err
	is "for $objective: status" $? 0
	is "for $objective: a line" "$(grep -cE "^rawvm: (none|local|interleaved).*\($objective" out)" 1
	"$vpmu" map $pid --for none
done

# What trials teach; whether they teach well, mapping_fit.sh asks.
samples='{name: len(rows) for name, rows in sorted(d["samples"].items())}'
for n in 1 2; do
	"$vpmu" map $pid --once -t 0.05 -r 1 --json --fit="$dir/fit/map.json" >out 2>err
	is "learn, $n: status" $? 0
	is "learn, $n: by a trial" "$(json '(d["by"], d["predicted"], d["band"], d["measured"] is None, d["rounds"])')" \
		"('trial', None, None, False, 1)"
	"$vpmu" map $pid --for none
	cp fit/map.json out
	is "learn, $n: a sample for each mapping" "$(json "$samples")" \
		"{'performance, interleaved': $n, 'performance, local': $n, 'performance, none': $n}"
done
is "learn: how many features" "$(json '{len(row) - 1 for rows in d["samples"].values() for row in rows}')" \
	"$(json '{len(d["machine"]["features"])}')"
is "learn: the file" "$(ls fit; stat -c %a fit/map.json)" "map.json
644"
sed -i 's/"cpu":"/&Other/' fit/map.json
cp fit/map.json before
map 1 "is of another machine" $pid --once --fit="$dir/fit/map.json"
is "another machine's: stays" "$(cmp fit/map.json before 2>&1)" ""
is "another machine's: nothing is changed" "$(cpus)" "0-3 0-3"
rm -r fit

# Who pins vCPUs himself is left alone.
taskset -cp 1 "${tids[1]}" >/dev/null
map 1 "vCPU 1 is pinned by somebody else" $pid --once -t 0.05
is "pinned by somebody else: stays so" "$(cpus)" "0-3 1"
"$vpmu" map $pid --for none
is "pinned by somebody else: until --for none" "$(cpus)" "0-3 0-3"

# follow ARGUMENT...: in the background, up to its first decision
follow() {
	: >out
	"$vpmu" map $pid -i 0.3 -t 0.05 -r 1 --json "$@" >out 2>err &
	map=$!
	for _ in {1..100}; do
		[ ! -s out ] || break
		sleep 0.1
	done
}

follow --for power
kill $map
wait $map
is "until a signal comes: status" $? 0
is "until a signal comes: a decision" "$(json 'd["name"]')" rawvm
is "until a signal comes: the vCPUs may be anywhere again" "$(cpus)" "0-3 0-3"

follow --for power
taskset -cp 1 "${tids[0]}" >/dev/null
wait $map
is "pinned by somebody else meanwhile: status" $? 1
is "pinned by somebody else meanwhile: the message" "$(grep -c "vCPU 0 is pinned by somebody else" err)" 1
is "pinned by somebody else meanwhile: stays so" "$(cpus | cut -d ' ' -f 1)" 1
"$vpmu" map $pid --for none

follow
end
wait $map
is "a VM that ends: status" $? 3
is "a VM that ends: the message" "$(grep -c "rawvm has ended" err)" 1

start "${work[@]}"
taskset -acp 2-3 $pid >/dev/null
map 0 "nothing to choose" $pid
is "a VM of one socket: nothing is changed" "$(cpus)" "2-3 2-3"
taskset -acp 1-3 $pid >/dev/null
"$vpmu" map $pid --once -t 0.05 --for power --json >out 2>err
is "not all CPUs: none but those of the VM" "$(json '{c for v in d["vcpu"] for c in v["cpus"]} <= {1, 2, 3}')" True
"$vpmu" map $pid --dry-run -t 0.05 >out 2>err
is "not all CPUs: local on the socket with more of them" "$(awk 'NR > 1 { print $3 }' out | xargs)" "2-3 2-3"
end

# Another user's VM, with no more rights than vpmu-map@.service has
chmod a+rw /dev/kvm
chmod a+rx "$dir"
chmod a+rw stdin stdout
as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
start "${work[@]}"
rights=("--bounding-set=-all,+perfmon,+sys_nice,+sys_admin" --inh-caps=-all --no-new-privs)
taskset -acp 1 $pid >/dev/null
taskset -cp 0-3 $pid >/dev/null
setpriv "${rights[@]}" "$vpmu" map $pid --for none >out 2>err
is "with the service's rights, for none: status" $? 0
is "with the service's rights, for none: the vCPUs may be anywhere" "$(cpus)" "0-3 0-3"
setpriv "${rights[@]}" "$vpmu" map $pid --once -t 0.05 -r 1 >out 2>err
is "with the service's rights: status" $? 0
setpriv "${rights[@]/,+sys_admin/}" "$vpmu" map $pid --once --for power >out 2>err
is "without CAP_SYS_ADMIN: status" $? 1
is "without CAP_SYS_ADMIN: the message" "$(grep -c "kernel.perf_event_paranoid=3 needs CAP_SYS_ADMIN" err)" 1
end
as=()

start hold
"$vpmu" map $pid --once -t 0.05 >out 2>err
is "an idle VM: status" $? 0
is "an idle VM: left alone" "$(grep -c "rawvm: none (performance): the VM is idle" out)" 1
setpriv --bounding-set -perfmon,-sys_admin --inh-caps -perfmon,-sys_admin "$vpmu" map $pid --once >out 2>err
is "without CAP_PERFMON: status" $? 1
is "without CAP_PERFMON: the message" "$(grep -c "needs CAP_PERFMON" err)" 1
map 3 "no VM" nobody
end
rm -r "$dir"
finish
