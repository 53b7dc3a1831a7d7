#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: vpmu record and vpmu report, on VMs that share a CPU, and on a stock guest with a program of two
# functions, which vpmu-guest-map names. Needs BUILD and PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"
. "$(dirname "$0")/stock_guest.sh"
. "$(dirname "$0")/recordings.sh"
vpmu=$BUILD/vpmu/vpmu
here=$(cd "$(dirname "$0")" && pwd)
cd "$dir" || exit

# whole WHAT: in that report
whole() {
	local times="('guest', 'kvm', 'halted', 'stolen', 'waiting', 'vmm', 'unknown')"
	is "$1: vCPUs whose times aren't all of the time, within 10 ns" \
		"$(json "[v['vm'] for v in d['vcpus'] if abs(sum(v[t + '_ns'] for t in $times) - d['ns']) >= 10]")" "[]"
}

# report ARGUMENT...: as JSON and as text
report() {
	"$vpmu" --json report "$@" >report.json 2>err || not_ok "vpmu --json report $*: $(cat err)"
	"$vpmu" report "$@" >report.txt || not_ok "vpmu report $*"
	sed 's/^/# /' report.txt
}

# spin N COMMAND...: that many VMs that compute, run by COMMAND; PIDs in $pid
spin() {
	local n=$1 i
	shift
	pid=()
	for ((i = 0; i < n; i++)); do
		"$@" "$PROGRAMS/rawvm" --rounds 1000 count 4000000000 >/dev/null 2>&1 &
		pid[i]=$!
	done
}
stop() {
	kill "${pid[@]}" 2>/dev/null
	wait "${pid[@]}" 2>/dev/null
}

# ---- three VMs on one CPU

spin 3 taskset -c 0
sleep 3
# The VMs' run delays, when it has begun and just before the end
cat >delays <<-END
	cat /proc/${pid[0]}/schedstat /proc/${pid[1]}/schedstat /proc/${pid[2]}/schedstat >before
	sleep 3
	cat /proc/${pid[0]}/schedstat /proc/${pid[1]}/schedstat /proc/${pid[2]}/schedstat >behind
END
"$vpmu" record -c 1000003 -o three.data -- sh delays 2>log
is "record: status" $? 0
sed 's/^/# /' log
stop
report -i three.data
"$vpmu" export -f trace -i three.data -o trace.json
is "three VMs: the timeline has all of the vCPUs' time, within 0.01 %" "$(python3 -c "
import json
events = [e for e in json.load(open('trace.json'))['traceEvents'] if e['ph'] == 'X']
wanted = json.load(open('report.json'))['ns'] / 1000
for vm in sorted({e['pid'] for e in events}):
	print(abs(sum(e['dur'] for e in events if e['pid'] == vm) - wanted) < wanted / 10000)
" 2>&1)" "True
True
True"
is "three VMs: records lost" "$(json "d['lost']")" 0
is "three VMs: in the report" "$(json "len(d['vcpus'])")" 3
whole "three VMs"
is "three VMs: more than 0.1 % is unknown" \
	"$(json "[v['vm'] for v in d['vcpus'] if v['unknown_ns'] > d['ns'] / 1000]")" "[]"
within "three VMs: thousandths of a CPU in guest mode" \
	"$(json "int(sum(v['guest_ns'] for v in d['vcpus']) * 1000 / d['ns'])")" 700 1000
for ((i = 0; i < 3; i++)); do
	stolen=$(json "[v['stolen_ns'] for v in d['vcpus']][$i]")
	delay=$(paste -d ' ' before behind | awk -v vm=$i 'NR == vm + 1 { print $5 - $2 }')
	# schedstat has a wait at its end only, and the recording begins earlier and ends later.
	within "three VMs: stolen ns of VM $i, by schedstat $delay" "$stolen" $((delay * 95 / 100)) \
		$((delay * 105 / 100 + $(json "d['ns']") - 3000000000))
done
within "three VMs: hundredths of all samples in the guests, without idle" \
	"$(json "int(100 * sum(w['value'] for w in d['who'] if w['where'].startswith('guest')) /
	sum(w['value'] for w in d['who']))")" 70 100

# ---- what can go wrong

# All else goes before these VMs.
spin 1 nice -n 19
sleep 1
"$vpmu" record -c 5003 -m 64 -o full.data -- sleep 1 2>log
is "a full ring: status" $? 0
is "a full ring: record says so" "$(grep -c 'records are lost' log)" 1
"$vpmu" --json report -i full.data >report.json
is "a full ring: and the report" "$(json "d['lost'] > 0 and d['samples'] > 0")" True

"$vpmu" record -o busy.data -- rmmod kvm_vpmu 2>log
is "rmmod meanwhile: refused" $? 1
is "rmmod meanwhile: why" "$(grep -c 'in use' log)" 1

# Its name and all of its time are there.
"$vpmu" record -c 1000003 -o killed.data -- sh -c "sleep 2; kill -KILL ${pid[0]} && sleep 0.5" 2>log
is "a VM that is killed: status" $? 0
wait "${pid[0]}" 2>/dev/null
"$vpmu" --json report -i killed.data >report.json
is "a VM that is killed: its name" "$(json "[v['vm_name'] for v in d['vcpus']]")" "['rawvm']"
whole "a VM that is killed"
"$vpmu" record -o none.data rawvm 2>log
is "a VM that has ended: status" $? 3

spin 64 nice -n 19
for ((n = 0; n < 100 && $("$vpmu" list | wc -l) <= 64; n++)); do
	sleep 0.2
done
sleep 2
"$vpmu" record -c 1000003 -o many.data -- sleep 4 2>log
is "64 VMs: status" $? 0
"$vpmu" --json report -i many.data >report.json
is "64 VMs: in the report" "$(json "len(d['vcpus'])")" 64
is "64 VMs: lost" "$(json "d['lost']")" 0
whole "64 VMs"
within "64 VMs: thousandths of a CPU in guest mode" \
	"$(json "int(sum(v['guest_ns'] for v in d['vcpus']) * 1000 / d['ns'])")" 1000 2000
stop

setpriv --bounding-set -perfmon,-sys_admin --inh-caps -perfmon,-sys_admin "$vpmu" record -o none.data -- true 2>log
is "without CAP_PERFMON: status" $? 1
is "without CAP_PERFMON: why" "$(grep -c CAP_PERFMON log)" 1
"$vpmu" record -e r10000000000000000 -o none.data -- true 2>log
is "no event: status" $? 2
"$vpmu" record -o /nonexistent/none.data -- true 2>log
is "no folder: status" $? 1
"$vpmu" record -o /dev/full -- sleep 0.3 2>log
is "a full disk: status" $? 1
is "a full disk: why" "$(grep -c 'No space' log)" 1
"$vpmu" record -o none.data -- /nonexistent 2>log
is "no such command: status" $? 127
"$vpmu" record -o signal.data 2>log &
sleep 1
kill -INT $!
wait $!
is "SIGINT: status" $? 0
"$vpmu" report -i signal.data >report.txt
is "SIGINT: the recording is whole" "$(grep -c 'was killed' report.txt)" 0
"$vpmu" record -o signal.data 2>log &
sleep 1
kill -KILL $!
wait $! 2>/dev/null
"$vpmu" report -i signal.data >report.txt
is "SIGKILL: the report says so" "$(grep -c 'was killed' report.txt)" 1

# ---- a stock guest

share_with_guest 'exec /run/vpmu/test/profiled.sh' "$PROGRAMS/profile" "$PROGRAMS/recursive" "$BUILD/guest-map/vpmu-guest-map" \
	"$here/../guest/profiled.sh"
start_guest web -name web
if ! wait_for "$taps/web.tap" '^#'; then
	not_ok "the guest boots"
	sed 's/^/# /' "$dir"/web.{console,err,log}
fi
is "vpmu-guest-map in the guest" "$(head -c 7 "$taps/web.tap")" "# begin"
sed 's/^/# /' "$dir/web.err"
# The program's two functions take turns of 30,000 cycles together. A period of a third of a turn, say, would hit
# the same three places of a thousand turns.
period=108571
"$vpmu" record -g -c $period -o web.data web -- sleep 5 2>log
is "record of one VM: status" $? 0
sed 's/^/# /' log
end_qemu web
report -i web.data -n 15 -g "web=$share/test/map"
is "one VM: records lost" "$(json "d['lost']")" 0
is "one VM: of another" "$(json "[w for w in d['who'] if w['vm_name'] != 'web']")" "[]"
# samples_of FUNCTION: of the process in user mode; "" for all
samples_of() {
	json "sum(f['value'] for f in d['functions'] if f['process'] == 'profile' and f['where'] == 'guest user'
	and '$1' in ('', f['function'])) // $period"
}
# The guest's other process takes turns with this one, so where a turn's samples are is chance: within five standard
# deviations of as many draws
all=$(samples_of "")
chance=$(awk -v n="$all" 'BEGIN { print int(5 * sqrt(n * 0.8 * 0.2)) }')
within "one VM: samples of the program in user mode" "$all" 1000 100000
within "one VM: of them in eighty()" "$(samples_of eighty)" $((all * 8 / 10 - chance)) $((all * 8 / 10 + chance))
within "one VM: and in twenty()" "$(samples_of twenty)" $((all * 2 / 10 - chance)) $((all * 2 / 10 + chance))
is "one VM: the module of eighty()" \
	"$(json "[f['module'].split('/')[-1] for f in d['functions'] if f['function'] == 'eighty'][0]")" profile
is "one VM: the guest kernel's functions without a name" \
	"$(json "[f for f in d['functions'] if f['where'] == 'guest kernel' and f['function'][:2] == '0x']")" "[]"
is "one VM: KVM's functions without a name" \
	"$(json "[f for f in d['functions'] if f['where'] == 'KVM' and f['function'][:2] == '0x']")" "[]"

# Stock perf has the same shares, under the same names.
"$vpmu" export -f perf -i web.data -g "web=$share/test/map" -o perf || not_ok "vpmu export -f perf"
perf report -i perf --stdio --no-children -g none -F overhead,comm,dso,sym >perf.txt 2>&1
grep -v '^#' perf.txt | head -20 | sed 's/^/# /'
perf_share() {
	awk -v comm="$1" -v sym="$2" '$2 == comm && $NF == sym { print int($1 * 100 + 0.5); exit }' perf.txt
}
share_of_all() {
	json "int(10000 * sum(f['value'] for f in d['functions'] if f['function'] == '$1') / sum(f['value'] for f in d['functions']) + 0.5)"
}
for f in profile:eighty profile:twenty recursive:spin; do
	of=$(share_of_all "${f#*:}")
	within "perf report: ten-thousandths in ${f#*:}(), by vpmu $of" "$(perf_share "web:${f%:*}" "${f#*:}")" \
		$((of - 1)) $((of + 1))
done
is "perf report: KVM's functions" "$(grep -c ' kvm_amd .*\[k\] svm_vcpu_run' perf.txt)" 1
within "perf report: functions of the guest's kernel" "$(grep -c 'kernel .*\[g\] [a-z_]' perf.txt)" 5 1000
is "perf script: samples of another machine than the VM or the host" "$(perf script -i perf -F event,comm,ip,machine_pid,vcpu 2>/dev/null |
	awk '/ cycles: / && ($0 ~ / web:/) != ($0 ~ /^VM: .* VCPU:000/)' | wc -l)" 0
within "perf script: samples of the guest" "$(perf script -i perf -F event,comm,machine_pid,vcpu 2>/dev/null | grep -c '^VM: .* cycles:')" 1000 100000

# Each stack of the program with deep ones is complete: main(), 50 times down(), spin().
"$vpmu" export -f folded -i web.data -g "web=$share/test/map" -o web.folded
grep -F 'web;guest user;recursive;' web.folded | sed 's/^/# /; s/\(down;\)\{50\}/down (50);/'
is "call graphs: of spin(), complete ones, and others" "$(python3 - <<-'END'
	found = {True: 0, False: 0}
	for line in open('web.folded'):
	    stack, value = line.rsplit(' ', 1)
	    frames = stack.split(';')
	    if frames[2:3] == ['recursive'] and frames[-1] == 'spin':
	        complete = 'main' in frames and frames[frames.index('main') + 1:] == 50 * ['down'] + ['spin']
	        found[complete] += int(value)
	print(found[True] > 0, found[False])
	END
)" "True 0"
within "call graphs: thousandths of recursive's time that are below main()" \
	"$(json "int(1000 * sum(f['total'] for f in d['functions'] if f['function'] == 'main' and f['process'] == 'recursive') /
	sum(f['value'] for f in d['functions'] if f['process'] == 'recursive' and f['where'] == 'guest user'))")" 990 1000

cd / && rm -rf "$dir"
finish
