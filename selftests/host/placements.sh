#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with x-pmu-oracle=on: guests that count in the four placements that Perfctr-Xen
# was evaluated in. Each has a CPU of its own; threads share a vCPU; guests share a CPU; all of
# them move about. The first and the last want a host of several CPUs. Needs BUILD and PROGRAMS.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
dir=$(mktemp -d)
tracing=/sys/kernel/tracing

modprobe msr

# The tracer takes some 15 us of an emulated CPU's time between its stamp and the module's hook, and
# more of them when a vCPU is loaded, with cold caches, than when it is put: let tasks run for so long
# that this is less than 0.1 %. Whoever wakes up waits for the slice's end, QEMU's other threads too.
sched=/sys/kernel/debug/sched
slice=$sched/base_slice_ns
[ -e $slice ] || slice=$sched/min_granularity_ns # before Linux 6.6
echo 50000000 >$slice
echo NO_WAKEUP_PREEMPTION >$sched/features

# What a guest's threads count, each by its own perf, and what the TSC of their vCPU is while they and a
# process of the host share a CPU
cat >"$dir/guest" <<'E2'
sysctl -q kernel.perf_cpu_time_max_percent=0
for id in 1 2 3; do
	perf stat -x, -o /tmp/o$id -e instructions:u,branches:u -- \
		"$PROGRAMS/exact" loop "$(printf %08x $((id * 30000000)))" &
	perf stat -x, -o /tmp/n$id -e instructions:u,branches:u -- "$PROGRAMS/exact" loop 00000000 &
	"$PROGRAMS/tsc_loop" $id 300000000 &
done
wait
for id in 1 2 3; do
	awk -F, -v id=$id '$5 == "100.00" { split($3, e, ":"); v[FILENAME, e[1]] = $1 }
		END { o = "/tmp/o" id; n = "/tmp/n" id
			print "counts", id, v[o, "instructions"] - v[n, "instructions"], v[o, "branches"] - v[n, "branches"] }' \
		/tmp/o$id /tmp/n$id
done
E2

threads() {
	local guest rival kind id first second ticks truth pieces ends
	start
	echo x86-tsc >$tracing/trace_clock
	echo 8192 >$tracing/buffer_size_kb
	echo kvm_arch_vcpu_load kvm_arch_vcpu_put >$tracing/set_ftrace_filter
	echo function >$tracing/current_tracer
	echo 'function == 0x4b56504d' >$tracing/events/kvm/kvm_cpuid/filter
	echo 1 >$tracing/events/kvm/kvm_cpuid/enable
	taskset 1 vpmu-guest -- bash -c "PROGRAMS='$PROGRAMS'; $(cat "$dir/guest")" >"$dir/threads" &
	guest=$!
	while kill -0 $guest 2>/dev/null && ! "$BUILD/programs/figures" vcpus | grep -q vcpu; do
		sleep 0.5
	done
	"$BUILD/programs/figures" set all tsc
	# until the guest counts
	while kill -0 $guest 2>/dev/null && [ "$(msr $compared)" = "$before" ]; do
		sleep 0.5
	done
	taskset 1 "$PROGRAMS/profile" 1000000000 &
	rival=$!
	wait $guest
	kill $rival
	cat $tracing/trace >"$dir/trace"
	echo 0 >$tracing/events/enable
	echo nop >$tracing/current_tracer

	pieces=0
	while read -r kind id first second; do
		case $kind in
		counts)
			is "threads on a vCPU: thread $id: instructions and branches" "$first $second" \
				"$((id * 90000000)) $((id * 30000000))"
			;;
		*)
			ticks=$id id=$kind
			read -r truth pieces < <(time_on_cpu "$id")
			within "threads on a vCPU: thread $id: TSC, in thousandths of $((truth / 1000)) ticks, $pieces pieces" \
				$((ticks * 1000 / (truth / 1000))) 999000 1001000
			;;
		esac
	done <"$dir/threads"
	ends=$(wc -l <"$dir/threads")
	is "threads on a vCPU: all ended" "$ends" 6
	agree "threads on a vCPU"
}

# time_on_cpu ID: ticks that the vCPU was on a CPU between the two marks of that program, and in how many pieces
time_on_cpu() {
	# COMMAND-PID [CPU] FLAGS TSC: EVENT: ...
	awk -v first="idx $(printf %x $((2 * $1))) " -v last="idx $(printf %x $((2 * $1 + 1))) " '
		match($0, /-[0-9]+ +\[[0-9]+\] +[^ ]+ +[0-9]+: /) {
			split(substr($0, RSTART + 1, RLENGTH - 1), f, /[ :]+/)
			now = f[4]
		}
		/ kvm_cpuid: / && index($0, first) { pid = f[1]; since = now; sum = 0; pieces = 1 }
		/ kvm_cpuid: / && index($0, last) { truth = sum + now - since; in_pieces = pieces }
		/ kvm_arch_vcpu_put <-/ && pid && f[1] == pid { sum += now - since }
		/ kvm_arch_vcpu_load <-/ && pid && f[1] == pid { since = now; pieces++ }
		END { printf "%d %d\n", truth, in_pieces }
	' "$dir/trace"
}

if [ "$(nproc)" -gt 1 ]; then
	relay "$BUILD/kvm/placements" own shared moving
else
	relay "$BUILD/kvm/placements" own shared
fi
threads
rm -r "$dir"
finish
