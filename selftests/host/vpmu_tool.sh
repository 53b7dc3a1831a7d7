#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: the tool vpmu on VMs of rawvm's and QEMU's. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
rawvm=$BUILD/programs/rawvm
vpmu=$BUILD/vpmu/vpmu
parameters=/sys/module/kvm_vpmu/parameters
tmp=$(mktemp -d) || exit
export TERM=xterm

# What a vendor's CPUs call events, and VMs of rawvm's, with fixed counters where there are any. A second of a busy
# Intel host takes a minute: so short are intervals between looks, and the time that a program has to start.
if grep -q GenuineIntel /proc/cpuinfo; then
	intel=1 instructions=INSTRUCTION_RETIRED branches=BRANCH_INSTRUCTIONS_RETIRED
	[ "$CPU" != intel-v4 ] || branches=BR_INST_RETIRED:ALL_BRANCHES
	hold=("$rawvm" --fixed hold) interval=0.2 start=1.5
else
	intel='' instructions=RETIRED_INSTRUCTIONS branches=RETIRED_BRANCH_INSTRUCTIONS
	hold=("$rawvm" hold) interval=2 start=8
fi

# run STATUS COMMAND...: leaves $out and $err
run() {
	local want=$1 got
	shift
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	got=$?
	out=$(cat "$tmp/out") err=$(cat "$tmp/err")
	is "status of: ${*//"$vpmu"/vpmu}" $got "$want"
	[ $got = "$want" ] || note "stderr: $err"
}

# has NAME TEXT PART
has() {
	case $2 in
	*"$3"*) ok "$1" ;;
	*)
		not_ok "$1"
		note "no '$3' in: $(head -n 20 <<<"$2")"
		;;
	esac
}

# json EXPRESSION: of the document (d) that was printed last
json() {
	python3 -c "import json, sys; d = json.load(open(sys.argv[1])); print($1)" "$tmp/out" 2>&1 | tail -n 1
}

# hold NAME [COMMAND...]: a VM with a running counter, until "release NAME"; its PID is in pid[NAME].
# COMMAND runs it.
declare -A pid
mkfifo "$tmp/stdin" "$tmp/stdout"
hold() {
	local name=$1
	shift
	"$@" "${hold[@]}" <>"$tmp/stdin" >"$tmp/stdout" &
	pid[$name]=$!
	read -r running <"$tmp/stdout"
	[ "$running" = running ] || note "rawvm says '$running'"
}

release() {
	kill "${pid[$1]}"
	wait "${pid[$1]}"
}

# No VMs
run 0 "$vpmu" list
is "no VMs: the header only" "$(wc -l <"$tmp/out")" 1
for c in list stat; do
	run 0 "$vpmu" $c --json
	is "no VMs: $c --json" "$out" "[]"
done
run 0 "$vpmu" stat
has "no VMs: stat" "$out" "no VM"
run 3 "$vpmu" stat nobody
run 3 "$vpmu" stat 1
run 3 "$vpmu" set '#1' --freeze guest

run 0 "$vpmu" info --json
is "info: the host" "$(json '(d["hardware"] != "", d["counters"] > 2, d["abi"] == d["tool_abi"], d["vms"], d["vcpus"])')" \
	"(True, True, True, 0, 0)"
is "info: parameters" "$(json '" ".join(f"{n}={d["parameters"][n]}" for n in d["parameters"])')" \
	"$(cd $parameters && for p in *; do echo "$p=$(cat "$p")"; done | LC_ALL=C sort | xargs)"
accesses=$(json 'd["wrmsr"]')

# One that holds
hold a
run 0 "$vpmu" info --json
is "info: a VM, whose PMU was written" "$(json "(d['vms'], d['vcpus'], d['wrmsr'] > $accesses)")" "(1, 1, True)"
run 0 "$vpmu" list
is "list: a line for the VM" "$(wc -l <"$tmp/out")" 2
run 0 "$vpmu" list --json
is "list: all of it" "$(json '(len(d), d[0]["pid"], d[0]["name"], d[0]["vcpus"], d[0]["freeze"], d[0]["tsc"])')" \
	"(1, ${pid[a]}, 'rawvm', 1, 'hybrid', 'wall')"
id=$(json 'd[0]["id"]')
for vm in "${pid[a]}" rawvm "#$id"; do
	run 0 "$vpmu" stat "$vm" --json
	is "stat $vm: the VM" "$(json '(len(d), d[0]["pid"], len(d[0]["vcpu"]))')" "(1, ${pid[a]}, 1)"
done
# Of Intel's, three are fixed counters.
case ${CPU:-amd-zen4} in
intel-v2) registers=intel-v2 n=7 ;;
intel-v4) registers=intel-v2 n=11 ;;
amd-k10) registers=amd-legacy n=4 ;;
amd-zen3) registers=amd-core n=6 ;;
*) registers=amd-v2 n=6 ;;
esac
# KVM of Linux 6.1 doesn't offer PerfMonV2 to guests.
case $registers-$(uname -r) in
amd-v2-6.1.*) registers=amd-core ;;
esac
is "registers" "$(json '(lambda v: (v["registers"], v["counters"], len(v["counter"])))(d[0]["vcpu"][0])')" \
	"('$registers', $n, $n)"
# WRMSR, mov, 1000 times loop, hlt
is "the counter: its event and value" "$(json '(lambda c: (c["event"], c["value"], c["enabled"], c["interrupts"]))(d[0]["vcpu"][0]["counter"][0])')" \
	"('$instructions:k', 1003, True, False)"
others="d[0]['vcpu'][0]['counter'][1:$((intel ? n - 3 : n))]"
is "others: unused" "$(json "set((c['event'], c['value'], c['enabled']) for c in $others)")" "{(None, 0, False)}"
if [ "$intel" ]; then
	fixed="d[0]['vcpu'][0]['counter'][-3:]"
	is "fixed counters: events" "$(json "*(c['event'] for c in $fixed)")" \
		"INSTRUCTION_RETIRED:k UNHALTED_CORE_CYCLES:k UNHALTED_REFERENCE_CYCLES:k"
	is "fixed counters: running" "$(json "{(c['enabled'], c['value'] > 0) for c in $fixed}")" "{(True, True)}"
	# from the guest's start, three instructions earlier
	is "fixed counters: instructions" "$(json "${fixed}[0]['value']")" 1006
fi
is "running as long as enabled" "$(json '(lambda c: c["enabled_ns"] > 0 and c["running_ns"] == c["enabled_ns"])(d[0]["vcpu"][0]["counter"][0])')" True
is "figures" "$(json '(lambda v: (v["exits"] > 0, v["emulated"] > 0, v["writes"] > 0, v["pmis"], v["anomalies"]))(d[0]["vcpu"][0])')" \
	"(True, True, True, 0, 0)"
run 0 "$vpmu" stat "${pid[a]}"
has "stat: the event" "$out" "$instructions:k"
has "stat: its value" "$out" "1,003"

# Settings
for mode in guest vcpu hybrid; do
	run 0 "$vpmu" set rawvm --freeze $mode
	run 0 "$vpmu" list --json
	is "freeze mode" "$(json 'd[0]["freeze"]')" $mode
done
"$vpmu" set rawvm --freeze vcpu --tsc vcpu --json >"$tmp/out" 2>"$tmp/err"
case $? in
0) is "both settings" "$(json '(d["freeze"], d["tsc"])')" "('vcpu', 'vcpu')" ;;
1)
	has "this host's TSC isn't fit" "$(cat "$tmp/err")" "TSC isn't fit"
	run 0 "$vpmu" list --json
	is "nothing was changed" "$(json '(d[0]["freeze"], d[0]["tsc"])')" "('hybrid', 'wall')"
	;;
*) not_ok "set --tsc vcpu" ;;
esac
run 0 "$vpmu" set --all --freeze guest --tsc wall --json
is "set --all" "$(json '(len(d), d[0]["freeze"], d[0]["tsc"])')" "(1, 'guest', 'wall')"
run 2 "$vpmu" set rawvm
run 2 "$vpmu" set rawvm --freeze nothing
run 3 "$vpmu" set nobody --tsc wall

# Two of one name
hold b
run 2 "$vpmu" stat rawvm
has "two of a name: the first" "$err" "PID ${pid[a]}"
has "two of a name: the second" "$err" "PID ${pid[b]}"
run 2 "$vpmu" set rawvm --freeze guest
run 0 "$vpmu" set "${pid[b]}" --freeze guest
run 0 "$vpmu" list --json
is "settings are each VM's own" "$(json 'd[1]["freeze"]')" guest
run 0 "$vpmu" set --all --freeze vcpu --json
is "set --all: both" "$(json '{v["freeze"] for v in d}')" "{'vcpu'}"
is "numbers grow" "$(json 'd[0]["id"] < d[1]["id"]')" True

# A VM that ends
"$vpmu" stat "${pid[b]}" -i 0.2 --json >"$tmp/log" 2>&1 &
stat=$!
sleep 1
release b
wait $stat
is "stat -i of a VM that ends: status" $? 3
has "stat -i of a VM that ends: reports" "$(head -n 1 "$tmp/log")" '"rates"'
has "stat -i of a VM that ends: a message" "$(tail -n 1 "$tmp/log")" "has ended"
run 3 "$vpmu" stat "${pid[b]}"

# Who may
run 1 setpriv --reuid 65534 --regid 65534 --clear-groups "$vpmu" list
has "permission denied: the hint" "$err" "group kvm"
mode=$(stat -c %a /dev/kvm-vpmu) group=$(stat -c %g /dev/kvm-vpmu)
chgrp 65533 /dev/kvm-vpmu
chmod 660 /dev/kvm-vpmu
member=(setpriv --reuid 65534 --regid 65534 --groups 65533)
run 1 "${member[@]}" "$vpmu" list
has "a member of the group lists: what is needed" "$err" "needs CAP_PERFMON"
run 1 "${member[@]}" "$vpmu" stat "${pid[a]}"
has "a member of the group looks: what is needed" "$err" "needs CAP_PERFMON"
run 0 "${member[@]}" "$vpmu" info
has "a member of the group asks for the host" "$out" "physical counters"
has "but doesn't see how many VMs there are" "$out" "VMs                 -"
member+=(--inh-caps +perfmon --ambient-caps +perfmon)
run 0 "${member[@]}" "$vpmu" stat "${pid[a]}"
run 1 "${member[@]}" "$vpmu" set "${pid[a]}" --freeze guest
has "with CAP_PERFMON only, set: what is needed" "$err" "needs CAP_SYS_ADMIN"
run 1 "${member[@]}" "$vpmu" set --all --freeze guest
has "with CAP_PERFMON only, set --all: what is needed" "$err" "needs CAP_SYS_ADMIN"
run 0 "${member[@]}" "$vpmu" info --json
is "with CAP_PERFMON, info" "$(json 'd["vms"]')" 1
if [ -e $parameters/freeze ]; then
	run 1 "${member[@]}" "$vpmu" set --default --freeze vcpu
	has "with CAP_PERFMON only, set --default: what is needed" "$err" "needs root"
fi
chgrp "$group" /dev/kvm-vpmu
chmod "$mode" /dev/kvm-vpmu

# Which VMs
parameter=$parameters/attach
listed() {
	"$vpmu" list --json | grep -c "\"pid\": ${pid[$1]},"
}
hold off "$vpmu" run --off
is "run --off: its VM has no PMU of the module" "$(listed off)" 0
release off
hold off "$vpmu" run --off -- sh -c '"$@"; :' sh
is "run --off: nor has a child's" "$("$vpmu" list --json | grep -c '"name": "rawvm"')" 1
pkill -P "${pid[off]}" rawvm
wait "${pid[off]}"
echo explicit >"$parameter"
hold plain
is "attach=explicit: a VM has none" "$(listed plain)" 0
release plain
hold on "$vpmu" run --on
is "attach=explicit: run --on: its VM has one" "$(listed on)" 1
release on
echo auto >"$parameter"
hold plain
is "attach=auto: a VM has one" "$(listed plain)" 1
release plain

# What VMs begin with
if [ -e $parameters/freeze ]; then
	run 0 "$vpmu" set --default --freeze guest
	is "set --default" "$(cat $parameters/freeze)" guest
	hold plain
	run 0 "$vpmu" list --json
	is "set --default: VMs that were there, and one that wasn't" "$(json '[v["freeze"] for v in d]')" \
		"['vcpu', 'guest']"
	release plain
	run 0 "$vpmu" set --default --freeze hybrid
else
	run 1 "$vpmu" set --default --freeze guest
	has "set --default: the module has none" "$err" "no parameter 'freeze'"
fi

# QEMU's, unpatched, by its name
events=instructions:u,branches,cycles:k${intel:+,ref-cycles}
vpmu-guest --guest-arg -name --guest-arg "guest=web,debug-threads=on" -- \
	perf stat -a -e "$events" -- sh -c 'while :; do /bin/true; done' \
	>"$tmp/guest" 2>&1 &
guest=$!
for ((i = 0; i < 120; i++)); do
	"$vpmu" stat web 2>/dev/null | grep -q "$instructions:u " && break
	sleep 1
done
run 0 "$vpmu" stat web
has "the guest's events: instructions" "$out" "$instructions:u "
has "the guest's events: branches" "$out" "$branches:u:k "
if [ "$intel" ]; then
	# perf has these on fixed counters, and branches on another one.
	i=$((n - 3))
	for event in INSTRUCTION_RETIRED:u UNHALTED_CORE_CYCLES:k UNHALTED_REFERENCE_CYCLES:u:k; do
		has "the guest's counter $i: $event" "$(tr -s ' ' <<<"$out")" " $i $event int on"
		i=$((i + 1))
	done
fi
has "that perf's counters interrupt" "$out" " int "
run 0 "$vpmu" list --json
is "the PID is QEMU's" "$(cat /proc/"$(json '[v["pid"] for v in d if v["name"] == "web"][0]')"/comm)" \
	"$(cat /proc/"$(pgrep -o qemu)"/comm)"
run 0 timeout 60 "$vpmu" stat web -i $interval -n 2 --json
is "stat -i --json: lines" "$(wc -l <"$tmp/out")" 2
tail -n 1 "$tmp/out" >"$tmp/last" && mv "$tmp/last" "$tmp/out"
is "rates" "$(json '(lambda v: v["rates"]["exits"] > 0 and v["exits"] > v["rates"]["exits"])(d["vms"][0]["vcpu"][0])')" True
is "a counter's rate" "$(json 'max(c["rate"] or 0 for c in d["vms"][0]["vcpu"][0]["counter"]) > 1000')" True
run 0 timeout 60 "$vpmu" stat web -i $interval -n 1
has "rates as text" "$out" "VALUE/s"

# top: screen KEYS [ARGUMENT...]
screen() {
	local key keys=$1
	shift
	(
		sleep $start
		for key in $keys; do
			printf '%b' "$key"
			sleep $interval
		done
	) | timeout 60 script -qec "stty rows 24 cols 120; '$vpmu' top -d $interval $*; echo status \$?; stty -a" \
		"$tmp/top" >/dev/null
}
screen 'v q'
has "top: a VM" "$(cat "$tmp/top")" web
has "top: another" "$(cat "$tmp/top")" rawvm
has "top: ended by q" "$(cat "$tmp/top")" "status 0"
is "top: the terminal is as it was" "$(tail -n 8 "$tmp/top" | grep -oE -- '-?(icanon|echo|isig)\b' | tr '\n' ' ')" \
	"isig icanon echo "
screen q web
has "top web: the event" "$(cat "$tmp/top")" "$instructions:u"
has "top web: ended by q" "$(cat "$tmp/top")" "status 0"

kill $guest
wait $guest
release a
for ((i = 0; i < 20; i++)); do
	[ "$("$vpmu" list --json)" = "[]" ] && break
	sleep 0.5
done
run 0 "$vpmu" list --json
is "all VMs have ended" "$out" "[]"
rmmod kvm_vpmu
run 1 "$vpmu" list
has "no module: the hint" "$err" "is kvm_vpmu loaded?"

rm -r "$tmp"
finish
