#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: vpmu record and vpmu report name the right process of a stock guest, where processes are short,
# call exec(), have threads and get page tables of others that have ended (selftests/guest/processes.sh):
#
#	profile_processes.sh KERNEL[,PROPERTY...][:PARAMETER...]...
#
# For each argument a guest with that kernel, CPU's properties ("-pcid") and the kernel's parameters. With a parameter
# "nested", which the kernel doesn't know, the guest has a guest, too. Needs BUILD and PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"
. "$(dirname "$0")/stock_guest.sh"
. "$(dirname "$0")/recordings.sh"
vpmu=$BUILD/vpmu/vpmu
here=$(cd "$(dirname "$0")" && pwd)
cd "$dir" || exit

# Who computed, by the page of the function, is the truth: a copy of the program has all functions at the same
# addresses, and uses its own only. figures [NAME...]: those named, of report.json
cat >figures.py <<'END'
import collections, json, subprocess, sys

program, want = sys.argv[1], sys.argv[2:]
letter = {}
for line in subprocess.check_output(['nm', program], text=True).splitlines():
    address, kind, name = line.split()[-3:] if len(line.split()) == 3 else ('0', '', '')
    if name.startswith('work_'):
        letter[int(address, 16) >> 12] = letter[name] = name[-1]
# Processes that have a name in the map; page tables by processes
known, roots = set(), collections.defaultdict(set)
for line in open('share/test/map'):
    if line.startswith('p '):
        number, root, pid, begin, name = line[2:].rstrip('\n').split(' ', 4)
        known.add((int(pid, 16), name))
        roots[root].add(pid)
rounds, findable, pids = collections.Counter(), collections.Counter(), collections.defaultdict(set)
for line in open('share/test/rounds'):
    name, pid, count = line.split()
    rounds[name[-1]] += int(count)
    findable[name[-1]] += int(count) * ((int(pid), name) in known)
    pids[name[-1]].add(pid)
total, named, wrong = collections.Counter(), collections.Counter(), []
for f in json.load(open('report.json'))['functions']:
    function = f['function']
    if function.startswith('0x') and function.endswith('xxx'):
        function = int(function[:-3], 16)
    if f['where'] != 'guest user' or function not in letter:
        continue
    who = letter[function]
    total[who] += f['samples']
    if f['process'] == 'w' + who:
        named[who] += f['samples']
    elif not f['process'].startswith('cr3 0x') or isinstance(function, str):
        wrong.append((f['process'], 'work_' + who, f['samples']))
print('samples', sum(total.values()))
print('wrong', wrong)
print('shared_roots', sum(len(p) > 1 for p in roots.values()))
for who in sorted(rounds):
    print('share_' + who, 1000 * total[who] // sum(total.values()))
    print('rounds_' + who, 1000 * rounds[who] // sum(rounds.values()))
    print('named_' + who, 1000 * named[who] // max(total[who], 1))
    print('findable_' + who, 1000 * findable[who] // rounds[who])
nested = [f for f in json.load(open('report.json'))['functions'] if f['where'] == 'nested guest']
# rawvm's loop has 200,000,000 times 2 instructions, a round 50,000 times 3
expected = total.total() * 400e6 / (sum(rounds.values()) * 150e3)
print('nested', int(1000 * sum(f['samples'] for f in nested) / expected))
print('nested_named', [f['process'] for f in nested if f['process'] and not f['process'].startswith('cr3 0x')])
print('exec', pids['c'] == pids['d'])
END

figure() {
	sed -n "s/^$1 //p" figures
}

# put_kvm KERNEL: its modules for the guest, in the order in which they need each other
put_kvm() {
	local vendor=amd n=0 file
	! grep -q GenuineIntel /proc/cpuinfo || vendor=intel
	mkdir "$share/test/kvm"
	modprobe -S "$1" -d /run/lower --show-depends "kvm-$vendor" | while read -r _ file _; do
		n=$((n + 1))
		xz -dc "$file" >"$share/test/kvm/$n.ko"
	done
}

# guest KERNEL CPU PARAMETERS
guest() {
	local kernel initrd who
	for initrd in /run/vpmu/initramfs/"$1".*-amd64; do
		kernel=${initrd##*/}
	done
	share_with_guest 'exec /run/vpmu/test/processes.sh' "$PROGRAMS/named" "$BUILD/guest-map/vpmu-guest-map" \
		"$here/../guest/processes.sh" "$PROGRAMS/rawvm"
	rm -rf "$share/test/kvm"
	[[ $3 != *nested* ]] || put_kvm "$kernel"
	rm -f "$share"/test/{map,rounds,go,done,facts}
	# The last ones count.
	start_guest web -name web -kernel "/run/lower/boot/vmlinuz-$kernel" -initrd "$initrd" -append "$cmdline $3" \
		-cpu "host$2"
	if ! wait_for "$taps/web.tap" '^# begin'; then
		not_ok "the guest boots"
		sed 's/^/# /' "$dir"/web.{console,err,log}
		end_qemu web
		return
	fi
	sed 's/^/# /' "$dir/web.err"
	is "its kernel" "$(sed -n 1p "$share/test/facts")" "$kernel"
	note "pti: $(sed -n 2p "$share/test/facts"), pcid: $(sed -n 3p "$share/test/facts")"
	# AMD's emulator has no PCID.
	case $2$3 in
	*-pcid* | *nopcid*) is "PCID" "$(sed -n 3p "$share/test/facts")" 0 ;;
	*) is "PCID, as the host's CPU" "$(sed -n 3p "$share/test/facts")" "$(grep -cw -m 1 pcid /proc/cpuinfo)" ;;
	esac
	case $3 in
	*pti=on*) is "two page tables for a process" "$(sed -n 2p "$share/test/facts")" 1 ;;
	*nopti*) is "two page tables for a process" "$(sed -n 2p "$share/test/facts")" 0 ;;
	esac
	cat >until_done <<-END
		: >$share/test/go
		until [ -e $share/test/done ]; do sleep 0.1; done
	END
	timeout 300 "$vpmu" record -c 100003 -m 65536 -o web.data web -- sh until_done 2>log
	is "record: status" $? 0
	sed 's/^/# /' log
	end_qemu web
	"$vpmu" --json report -i web.data -g "web=$share/test/map" >report.json
	"$vpmu" report -i web.data -g "web=$share/test/map" -n 40 | sed 's/^/# /'
	python3 figures.py "$PROGRAMS/named" >figures 2>&1
	sed 's/^/# /' figures
	is "records lost" "$(python3 -c "import json; print(json.load(open('report.json'))['lost'])")" 0
	is "samples of functions under a process that hasn't them" "$(figure wrong)" "[]"
	within "page tables that several processes had" "$(figure shared_roots)" 1 1000
	is "programs c and d were one process" "$(figure exec)" True
	for who in a b c d e f g h; do
		# An NMI that comes with another VM exit is the host's (svm_vcpu_run), which are some 2 % of the guest's.
		# They are more while this machine is slow.
		within "program $who: thousandths of all samples, by rounds $(figure "rounds_$who")" \
			"$(figure "share_$who")" $(($(figure "rounds_$who") - 15)) $(($(figure "rounds_$who") + 15))
		# The shortest processes have 50 samples.
		within "program $who: thousandths with its name, by processes that are in the map" \
			"$(figure "named_$who")" $(($(figure "findable_$who") - 20)) $(($(figure "findable_$who") + 20))
	done
	if [[ $3 == *nested* ]]; then
		# By the rounds of all programs: the cycles of what the guest's KVM takes aren't nested.
		within "nested guest: thousandths of its samples" "$(figure nested)" 950 1050
		is "nested guest: processes that its samples are taken for" "$(figure nested_named)" "[]"
	fi
	# Those that live for longer than from one look to the next
	for who in a b c d e h; do
		is "program $who: thousandths whose processes are in the map" "$(figure "findable_$who")" 1000
	done
}

for case; do
	parameters=''
	[[ $case != *:* ]] || parameters=${case#*:}
	cpu=${case%%:*}
	kernel=${cpu%%,*}
	cpu=${cpu#"$kernel"}
	echo "# --- $case"
	guest "$kernel" "$cpu" "$parameters"
done

cd / && rm -rf "$dir"
finish
