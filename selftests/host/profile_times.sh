#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with deterministic time: what "vpmu report" says of each vCPU's time, on two VMs
# that compute and one that halts, against the kernel's tracepoints. Needs BUILD and PROGRAMS.

. "$(dirname "$0")/../tap.sh"
dir=$(mktemp -d) || exit
cd "$dir" || exit
vpmu=$BUILD/vpmu/vpmu
tracing=/sys/kernel/tracing

pid=()
for mode in "--rounds 1000 count 4000000000" "--rounds 1000 count 4000000001" "halt 1000000"; do
	# shellcheck disable=SC2086 # several words
	"$PROGRAMS/rawvm" $mode >/dev/null 2>&1 &
	pid+=($!)
done
sleep 2
echo x86-tsc >$tracing/trace_clock
echo 32768 >$tracing/buffer_size_kb
for event in kvm/kvm_entry kvm/kvm_exit sched/sched_switch sched/sched_waking; do
	echo 1 >$tracing/events/$event/enable
done
echo >$tracing/trace
echo 1 >$tracing/tracing_on
"$vpmu" record -F 100 -o times.data -- sleep 4 2>log
is "record: status" $? 0
echo 0 >$tracing/tracing_on
kill "${pid[@]}"
wait "${pid[@]}" 2>/dev/null
"$vpmu" --json report -i times.data >report.json
is "the tracer has lost nothing" "$(awk '/overrun:|dropped/ { n += $2 } END { print n }' $tracing/per_cpu/cpu*/stats)" 0

cat >compare.py <<-'END'
	import json, re
	report = json.load(open('report.json'))
	info = report['recording']
	begin, ns = info['begin']['tsc'], report['ns']
	end = begin + report['ticks']
	line = re.compile(r' (?P<task>\S.*)-(?P<tid>\d+) +\[\d+\] \S+ +(?P<tsc>\d+): (?P<event>\w+): (?P<rest>.*)')
	# Of each thread: in guest mode, halted, stolen; ticks
	sums = {v['pid']: {'guest': 0, 'halted': 0, 'stolen': 0} for v in report['vcpus']}
	state = {tid: ('running', begin) for tid in sums}
	def until(tid, tsc, new):
	    old, since = state[tid]
	    if old in sums[tid]:
	        sums[tid][old] += max(0, min(tsc, end) - max(since, begin))
	    state[tid] = (new, tsc)
	for text in open('/sys/kernel/tracing/trace'):
	    m = line.match(' ' + text.strip())
	    if not m:
	        continue
	    tid, tsc, event, rest = int(m['tid']), int(m['tsc']), m['event'], m['rest']
	    if event == 'kvm_entry' and tid in sums:
	        until(tid, tsc, 'guest')
	    elif event == 'kvm_exit' and tid in sums:
	        until(tid, tsc, 'running')
	    elif event == 'sched_waking':
	        woken = int(re.search(r'pid=(\d+)', rest).group(1))
	        if woken in sums and state[woken][0] == 'halted':
	            until(woken, tsc, 'stolen')
	    elif event == 'sched_switch':
	        prev = int(re.search(r'prev_pid=(\d+)', rest).group(1))
	        next = int(re.search(r'next_pid=(\d+)', rest).group(1))
	        if prev in sums:
	            until(prev, tsc, 'stolen' if 'prev_state=R' in rest else 'halted')
	        if next in sums:
	            until(next, tsc, 'running')
	for tid in sums:
	    until(tid, end, 'over')
	for v in report['vcpus']:
	    for what, ticks in sums[v['pid']].items():
	        traced = ticks * ns / (end - begin)
	        print(v['vcpu'], what, round(traced), v[what + '_ns'], round(10000 * abs(traced - v[what + '_ns']) / ns))
END
python3 compare.py >compared || not_ok "the comparison"
# In the order of the VMs' numbers
nth=0
while read -r _ what traced reported difference; do
	within "VM $((nth++ / 3)): $what, $reported ns, traced $traced: difference in ten-thousandths of the time" \
		"$difference" 0 10
done <compared
is "vCPUs' times that were compared" "$nth" 9

echo 0 >$tracing/events/enable
cd / && rm -r "$dir"
finish
