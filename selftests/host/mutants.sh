#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host of the bench without the module: mutants.sh MODULES TEST NAME... loads MODULES/NAME.ko, one after the
# other, and runs TEST with each, as kvm_tests.sh has it. Does it notice? "control" is the module as it should be. It
# comes first, behind each few that were noticed, and last. ../mutants judges what all this means.
#
# stdout has a line for each event:
#
#	mutant NAME	its turn begins; NAME may be control
#	passed
#	failed WHY
#	ended WHY	this host can't try any more
#
# Needs BUILD, and what TEST wants. PARAMETERS are for insmod; with UNLOADED=1 it is TEST that loads the module.

cd "$(dirname "$0")" || exit
modules=$1 test=$2
shift 2
# A control costs as much as a mutant. Those that were noticed since the last one are tried again if it fails.
few=4
noticed=0
mine=/tmp/build
module=$mine/module/$(uname -r)/kvm_vpmu.ko
mark="mutants.sh: the next one"
clear_once=/sys/kernel/debug/clear_warn_once
kvm=kvm_amd
! grep -q GenuineIntel /proc/cpuinfo || kvm=kvm_intel

# BUILD for TEST, with the mutant in the module's place
own_build() {
	mkdir -p "$mine" && ln -s "$BUILD"/* "$mine/" && rm "$mine/module" && mkdir -p "${module%/*}" || exit
	export BUILD=$mine
}

load() {
	modprobe "$kvm" && cp "$modules/$1.ko" "$module" || return
	# shellcheck disable=SC2086 # words
	[ -n "${UNLOADED:-}" ] || insmod "$module" ${PARAMETERS:-}
}

# What a test left behind may need a moment to go away.
unload() {
	local i
	for ((i = 0; i < 20; i++)); do
		grep -q '^kvm_vpmu ' /proc/modules || return 0
		rmmod kvm_vpmu 2>/dev/null || sleep 0.5
	done
	return 1
}

# Tests that look at the log find nothing of those before.
new_log() {
	echo "$mark" >/dev/kmsg
	dmesg -C
}

# The kernel's first complaint since new_log. /dev/kmsg still has what tests have cleared.
complaint() {
	dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null |
		awk -v mark="$mark" 'index($0, mark) { said = ""; next } { said = said $0 "\n" } END { printf "%s", said }' |
		grep -m 1 -E -f ../../tools/testbed/machine/trouble | sed 's/^[^;]*;//'
}

# goes_on COMPLAINT: a warning harms nothing by itself. What is said once only may be said again.
goes_on() {
	case $1 in
	*WARNING:* | *'unchecked MSR access error'* | *'azed and confused'*) echo 1 >"$clear_once" ;;
	*) return 1 ;;
	esac
}

# try NAME: false if it was noticed
try() {
	local said why=''
	echo "mutant $1"
	new_log
	if ! said=$(load "$1" 2>&1); then
		why="not loaded: ${said##*$'\n'}"
	elif ! ./kvm_tests.sh "$test" >/tmp/output 2>&1; then
		why=$(grep -m 1 '^not ok' /tmp/output || tail -n 1 /tmp/output)
	fi
	if ! unload; then
		said="the module can't be unloaded"
		echo "failed ${why:-$said}"
		echo "ended $said"
		exit
	fi
	said=$(complaint)
	if [ -n "$said" ]; then
		echo "failed the kernel: $said"
		if ! goes_on "$said"; then
			echo "ended the kernel: $said"
			exit
		fi
		return 1
	fi
	if [ -n "$why" ]; then
		echo "failed $why"
		return 1
	fi
	echo passed
}

control() {
	noticed=0
	try control || {
		echo "ended the control failed"
		sed 's/^/# /' /tmp/output
		exit
	}
}

own_build
control
for name; do
	try "$name" || noticed=$((noticed + 1))
	[ "$noticed" -lt $few ] || control
done
[ "$noticed" = 0 ] || control
echo "ended no more"
