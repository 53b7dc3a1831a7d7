# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests of QEMU itself: source it after tap.sh. Needs BUILD and PROGRAMS.

dir=$(mktemp -d)
vmm=${VMM:-$BUILD/vmm/qemu-system-x86_64}
accel=kvm as=''

# run_qemu ARGUMENT...
run_qemu() {
	# shellcheck disable=SC2086 # a command, or none
	$as "$vmm" -nodefaults -no-user-config -display none -no-reboot -machine q35 -accel "$accel" \
		-L /usr/share/seabios -L /usr/share/qemu "$@"
}

# start_qemu NAME ARGUMENT...: in the background, with its guest's port 0xe9 to NAME.out
start_qemu() {
	local name=$1 n
	shift
	run_qemu -qmp "unix:$dir/$name.qmp,server=on,wait=off" -debugcon "file:$dir/$name.out" \
		"$@" >"$dir/$name.log" 2>&1 &
	echo $! >"$dir/$name.pid"
	for ((n = 0; n < 1800; n++)); do
		[ ! -S "$dir/$name.qmp" ] || return 0
		kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null || break
		sleep 0.1
	done
	not_ok "QEMU $name starts"
	sed 's/^/# /' "$dir/$name.log"
	return 1
}

# qmp NAME COMMAND [ARGUMENTS] [--until MEMBER=VALUE...]
qmp() {
	local name=$1
	shift
	"$PROGRAMS/qmp" "$dir/$name.qmp" "$@"
}

# end_qemu NAME
end_qemu() {
	qmp "$1" quit >"$dir/quit" 2>&1
	wait "$(cat "$dir/$1.pid")"
}

# migrated NAME: waits until it is, or fails
migrated() {
	[ "$(qmp "$1" query-migrate --until status=completed status=failed)" = completed ] || {
		qmp "$1" query-migrate | sed 's/^/# /'
		return 1
	}
}

# speed_up NAME: its migration
speed_up() {
	qmp "$1" migrate-set-parameters '{"max-bandwidth": 4000000000, "downtime-limit": 2000}' >/dev/null
}

# move FROM TO: starts the live migration to a QEMU that was started with -incoming defer
move() {
	rm -f "$dir/migration"
	qmp "$2" migrate-incoming "{\"uri\": \"unix:$dir/migration\"}" >/dev/null &&
		qmp "$1" migrate "{\"uri\": \"unix:$dir/migration\"}" >/dev/null
}

# save_qemu NAME FILE: ends it
save_qemu() {
	qmp "$1" migrate "{\"uri\": \"file:$2\"}" >/dev/null && migrated "$1" && end_qemu "$1"
}

# snapshot NAME savevm|loadvm: QEMU says nothing if it could
snapshot() {
	is "$1: $2" "$(qmp "$1" human-monitor-command "{\"command-line\": \"$2 s\"}")" '""'
}

# disk NAME: what takes the snapshots
disk() {
	qemu-img create -q -f qcow2 "$dir/$1.qcow2" 1M
	echo "file=$dir/$1.qcow2,if=none,format=qcow2"
}

# wait_for FILE TEXT: for five minutes, as a guest that boots may take two on a busy machine
wait_for() {
	local end=$((SECONDS + 300))
	while [ $SECONDS -lt $end ]; do
		! grep -q "$2" "$1" 2>/dev/null || return 0
		sleep 0.1
	done
	note "$1: $(tail -n 1 "$1")"
	return 1
}

# For the bare-metal suite's "steady". dots NAME: rounds in that QEMU's output, 0 while it isn't there yet
dots() {
	{ tr -cd . <"$dir/$1.out" | wc -c; } 2>/dev/null
}
# advances NAME: by two rounds, in a minute and a half
advances() {
	local before n
	before=$(dots "$1")
	for ((n = 0; n < 900; n++)); do
		[ "$(dots "$1")" -le $((before + 1)) ] || return 0
		sleep 0.1
	done
	return 1
}

# For its "clocks". lines NAME: whole ones that it wrote
lines() {
	echo $(($(grep -c '^tsc' "$dir/$1.out") - 1))
}
# tsc NAME LINE 1|2: of that vCPU
tsc() {
	sed -n 's/^tsc //p' "$dir/$1.out" | awk -v line="$2" -v n="$3" 'NR == line { print $n }'
}
# until_line NAME LINE: it was written
until_line() {
	local n
	for ((n = 0; n < 1800; n++)); do
		[ "$(lines "$1")" -lt "$2" ] || return 0
		sleep 0.1
	done
	not_ok "$1: the guest goes on"
}
# start_clocks ARGUMENT...: QEMU "clocks", stopped when its TSCs are some 500,000 thousands of ticks apart: what its
# second CPU slept, and then as the host's scheduler divides its CPU between the two. KVM takes TSCs that are
# less than a second apart, 2,000,000 here, for the same.
start_clocks() {
	start_qemu clocks -m 64 -smp 2 -kernel "$BUILD/bare/pmu.elf" -append clocks \
		-cpu host,-svm,vpmu-tsc=vcpu "$@"
	until_line clocks 1
	qmp clocks stop >/dev/null
	apart=$(($(tsc clocks "$(lines clocks)" 1) - $(tsc clocks "$(lines clocks)" 2)))
	within "clocks: thousands of ticks that the second one is behind" $apart 200000 1000000
}
