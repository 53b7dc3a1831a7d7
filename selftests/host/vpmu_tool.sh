#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with the module: the tool vpmu on VMs of rawvm's and QEMU's. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
rawvm=$BUILD/programs/rawvm
vpmu=$BUILD/vpmu/vpmu
tmp=$(mktemp -d) || exit
export TERM=xterm

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
	"$@" "$rawvm" hold <>"$tmp/stdin" >"$tmp/stdout" &
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

# One that holds
hold a
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
case ${CPU:-amd-zen4} in
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
	"('RETIRED_INSTRUCTIONS:k', 1003, True, False)"
is "others: unused" "$(json 'set((c["event"], c["value"], c["enabled"]) for c in d[0]["vcpu"][0]["counter"][1:])')" \
	"{(None, 0, False)}"
is "running as long as enabled" "$(json '(lambda c: c["enabled_ns"] > 0 and c["running_ns"] == c["enabled_ns"])(d[0]["vcpu"][0]["counter"][0])')" True
is "figures" "$(json '(lambda v: (v["exits"] > 0, v["emulated"] > 0, v["writes"] > 0, v["pmis"], v["anomalies"]))(d[0]["vcpu"][0])')" \
	"(True, True, True, 0, 0)"
run 0 "$vpmu" stat "${pid[a]}"
has "stat: the event" "$out" "RETIRED_INSTRUCTIONS:k"
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
member+=(--inh-caps +perfmon --ambient-caps +perfmon)
run 0 "${member[@]}" "$vpmu" stat "${pid[a]}"
run 1 "${member[@]}" "$vpmu" set "${pid[a]}" --freeze guest
has "with CAP_PERFMON only, set: what is needed" "$err" "needs CAP_SYS_ADMIN"
chgrp "$group" /dev/kvm-vpmu
chmod "$mode" /dev/kvm-vpmu

# Which VMs
parameter=/sys/module/kvm_vpmu/parameters/attach
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

# QEMU's, unpatched, by its name
vpmu-guest --guest-arg -name --guest-arg "guest=web,debug-threads=on" -- \
	perf stat -a -e instructions:u,branches,cycles:k -- sh -c 'while :; do /bin/true; done' \
	>"$tmp/guest" 2>&1 &
guest=$!
for ((i = 0; i < 120; i++)); do
	"$vpmu" stat web 2>/dev/null | grep -q 'RETIRED_INSTRUCTIONS:u ' && break
	sleep 1
done
run 0 "$vpmu" stat web
has "the guest's events: instructions" "$out" "RETIRED_INSTRUCTIONS:u "
has "the guest's events: branches" "$out" "RETIRED_BRANCH_INSTRUCTIONS:u:k "
has "that perf's counters interrupt" "$out" " int "
run 0 "$vpmu" list --json
is "the PID is QEMU's" "$(cat /proc/"$(json '[v["pid"] for v in d if v["name"] == "web"][0]')"/comm)" \
	"$(cat /proc/"$(pgrep -o qemu)"/comm)"
run 0 timeout 60 "$vpmu" stat web -i 2 -n 2 --json
is "stat -i --json: lines" "$(wc -l <"$tmp/out")" 2
tail -n 1 "$tmp/out" >"$tmp/last" && mv "$tmp/last" "$tmp/out"
is "rates" "$(json '(lambda v: v["rates"]["exits"] > 0 and v["exits"] > v["rates"]["exits"])(d["vms"][0]["vcpu"][0])')" True
is "a counter's rate" "$(json 'max(c["rate"] or 0 for c in d["vms"][0]["vcpu"][0]["counter"]) > 1000')" True
run 0 timeout 60 "$vpmu" stat web -i 2 -n 1
has "rates as text" "$out" "VALUE/s"

# top
(
	sleep 8
	printf 'v'
	sleep 2
	printf q
	sleep 1
) | timeout 60 script -qec "stty rows 24 cols 120; '$vpmu' top -d 1; echo status \$?; stty -a" "$tmp/top" >/dev/null
has "top: a VM" "$(cat "$tmp/top")" web
has "top: another" "$(cat "$tmp/top")" rawvm
has "top: ended by q" "$(cat "$tmp/top")" "status 0"
is "top: the terminal is as it was" "$(tail -n 8 "$tmp/top" | grep -oE -- '-?(icanon|echo|isig)\b' | tr '\n' ' ')" \
	"isig icanon echo "

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
