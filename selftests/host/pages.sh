#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: "vpmu pages" on a VM whose pages are known. Needs BUILD and PROGRAMS.

here=$(dirname "$(readlink -f "$0")")
. "$here/../tap.sh"
vpmu=$BUILD/vpmu/vpmu
dir=$(mktemp -d) || exit
cd "$dir" || exit
. "$here/rawvm.sh"

# An instruction that loads and stores is one memory operation of AMD's event, and two of Intel's. The events of an Intel
# host for where loads are from are more than it has counters.
events=() both=1
grep -q AuthenticAMD /proc/cpuinfo ||
	events=(-f "cache=MEM_LOAD_RETIRED:L3_HIT,memory=MEM_LOAD_RETIRED:L3_MISS") both=2

# is_wrong STATUS TEXT ARGUMENT...: of "vpmu pages", and what the message has
is_wrong() {
	local status=$1 text=$2
	shift 2
	"$vpmu" pages "$@" >out 2>err
	is "pages $*: status" $? "$status"
	is "pages $*: the message" "$(grep -cF -- "$text" err)" 1
}

# json EXPRESSION: of pages.json (d)
json() {
	python3 -c "import json; d = json.load(open('pages.json')); print($1)"
}

# The host doesn't take pages away unasked.
sysctl -q vm.compaction_proactiveness=0

# Of vCPU 0: loads from frames 32 to 71, writes to 100 to 129; of vCPU 1: 50 to 109, and 120 to 169
work=(32 40 100 30 50 60 120 50)
start pages "${work[@]}"
"$vpmu" pages $pid "${events[@]}" -c 100000 -t 60 -s 0.1 --json >pages.json 2>err
is "status" $? 0
is "no messages" "$(cat err)" ""
cat >compare.py <<-'END'
	import json, sys
	d = json.load(open('pages.json'))
	both, *numbers = map(int, sys.argv[1:])
	CODE = 1	# what all vCPUs execute is one page; loads come from there, too
	truth = []
	for i in range(2):
	    first, reads, to, writes = numbers[4 * i:4 * i + 4]
	    written = set(range(to, to + writes))
	    truth.append((set(range(first, first + reads)) | written | {CODE}, written))
	def same(name, got, want):
	    print('%s %s%s' % ('ok' if got == want else 'not ok', name, '' if got == want else ': %r, not %r' % (got, want)))
	same('VM', (d['pid'] > 0, d['vcpus'], len(d['vcpu'])), (True, 2, 2))
	for v, (accessed, written) in zip(d['vcpu'], truth):
	    name = 'vCPU %d: ' % v['vcpu']
	    same(name + 'accessed', v['accessed'], len(accessed))
	    same(name + 'written', v['written'], len(written))
	    same(name + 'windows', (v['windows'], v['whole'], v['fresh']), (3, 3, 0))
	    same(name + 'nothing is missing', (v['replaced'], v['not_counted'], v['beyond']), (False, False, False))
	    # In a pass each page is accessed once, and one word beside the code, too. A window begins and ends somewhere.
	    stores, windows = len(written), v['windows']
	    operations = len(accessed) + (both - 1) * stores
	    same(name + 'operations', v['memory_operations'] >= 300000, True)
	    same(name + 'operations and stores: %d, %d' % (v['memory_operations'], v['stores']),
	         abs(v['memory_operations'] * stores - v['stores'] * operations) <= windows * operations * stores, True)
	for k, use in enumerate(('accessed', 'written')):
	    each = [t[k] for t in truth]
	    pages = {'r': sum(map(len, each)), 's': 2 * len(each[0] & each[1])}
	    for m in 'r', 's':
	        got = d['metrics'][m][use]
	        same('%s, %s: pages' % (m, use), got['pages'], pages[m] / 2)
	        for what, key in ('memory_operations', 'per_million_memory_operations'), ('stores', 'per_million_stores'):
	            events = sum(v[what] / v['windows'] for v in d['vcpu'])
	            same('%s, %s: %s' % (m, use, key), got[key], round(pages[m] / events * 1e6, 6))
END
while read -r line; do
	case $line in
	"ok "*) ok "${line#ok }" ;;
	*) not_ok "${line#not ok }" ;;
	esac
done < <(python3 compare.py $both "${work[@]}" 2>&1)

# These emulated CPUs have no such caches, and count nothing (mapping.sh has one that does).
sources="cache memory"
[ $both = 2 ] || sources="cache near-cache memory far-cache far-memory"
is "where loads are from: sources" "$(json '*d["fills"]["from"]')" "$sources"
is "where loads are from: none" "$(json '{f["share"] for f in d["fills"]["from"].values()}')" "{None}"
is "where loads are from: for as long as was asked for" "$(json '0.1 <= d["fills"]["seconds"] < 5')" True

listed=$(json '*(v["tid"] for v in d["vcpu"])')
for tid in $listed; do
	is "thread $tid is one of the VM's" "$(find /proc/$pid/task -maxdepth 1 -name "$tid" | wc -l)" 1
done
is "two threads" "$(wc -w <<<"$listed")" 2

"$vpmu" pages $pid "${events[@]}" -c 100000 -t 60 >out 2>err
is "as a table: status" $? 0
is "as a table: each vCPU" "$(awk '$3 == 3 { print $1, $7, $8 }' out | xargs)" "0 71 30 1 111 50"
is "as a table: the metrics" "$(awk '/^(accessed|written)/ { print $(NF-2) }' out | xargs)" "91.0 40.0 43.0 10.0"

if [ $both = 2 ]; then
	"$vpmu" pages $pid -n 1 -c 1000 -s 0.2 >out 2>err
	is "more events than counters: status" $? 0
	is "more events than counters: the message" "$(grep -c "for [1-9][0-9]% of the time, and is estimated" err)" 1
fi

"$vpmu" pages $pid "${events[@]}" -c 100000000000 -t 0.2 >out 2>err
is "windows that the timeout ends: status" $? 0
is "windows that the timeout ends: the message" "$(grep -c "2 vCPUs ended by the timeout" err)" 1
end

# One that doesn't run
start hold
"$vpmu" pages $pid "${events[@]}" -t 0.1 --json >pages.json 2>err
is "a VM that doesn't run: status" $? 0
is "a VM that doesn't run: the message" "$(grep -c "1 of 1 vCPUs didn't run" err)" 1
is "a VM that doesn't run: no averages" "$(json 'd["metrics"]["r"]["accessed"]["pages"], d["metrics"]["s"]["written"]["per_million_stores"]')" \
	"None None"
"$vpmu" pages $pid "${events[@]}" -t 5 -n 1 >out 2>&1 &
other=$!
sleep 2
is_wrong 1 "another program looks at its pages" $pid "${events[@]}"
kill $other
wait $other 2>/dev/null
"$vpmu" pages $pid "${events[@]}" -t 0.1 >out 2>&1
is "once that one has ended" $? 0

setpriv --bounding-set -perfmon,-sys_admin --inh-caps -perfmon,-sys_admin "$vpmu" pages $pid "${events[@]}" >out 2>err
is "without CAP_PERFMON: status" $? 1
is "without CAP_PERFMON: the message" "$(grep -c "needs CAP_PERFMON" err)" 1
is_wrong 3 "no VM" nobody "${events[@]}"
is_wrong 2 "missing VM"
is_wrong 2 "unexpected argument" $pid $pid
is_wrong 2 "event 'nonsense'" $pid -e nonsense
is_wrong 2 "event 'nonsense'" $pid -e r76,nonsense
is_wrong 2 "count 'x'" $pid -c x
is_wrong 2 "windows '0'" $pid -n 0
is_wrong 2 "timeout '-1'" $pid -t -1
is_wrong 2 "seconds '0'" $pid -s 0
is_wrong 2 "fills from 'disk'" $pid "${events[@]}" -f disk=r1
end
rm -r "$dir"
finish
