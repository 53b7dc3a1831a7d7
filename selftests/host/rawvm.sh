# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests of VMs of selftests/programs/rawvm.c that go on until they are ended: source it after tap.sh, in a folder
# of one's own. Needs PROGRAMS.

mkfifo stdin stdout || exit
# What is in front of rawvm
as=()

# start MODE ARGUMENT...: a VM, which reads stdin, and whose lines come at descriptor 3. Sets pid, and tids to its vCPUs'
# threads. From Linux 6.12 on, KVM has one of its own beside them.
start() {
	"${as[@]}" "$PROGRAMS/rawvm" "$@" <>stdin >stdout &
	pid=$!
	exec 3<stdout
	read -r running <&3
	[ "$running" = running ] || note "rawvm says '$running'"
	# shellcheck disable=SC2034 # for those who source this
	mapfile -t tids < <(grep -lx rawvm /proc/$pid/task/*/comm | cut -d / -f 5 | grep -vx $pid | sort -n)
}

end() {
	kill "$pid"
	wait "$pid" 2>/dev/null
	exec 3<&-
}
