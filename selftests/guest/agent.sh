#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: QEMU's guest agent, by which the host takes names, and perf record of a program, while the host records.

cd "$(dirname "$0")" || exit
sysctl -q kernel.perf_cpu_time_max_percent=0

for port in /sys/class/virtio-ports/*; do
	[ "$(cat "$port/name")" != org.qemu.guest_agent.0 ] || break
done
mount -t tmpfs none /var/tmp || exit
/usr/sbin/qemu-ga -m virtio-serial -p "/dev/${port##*/}" -t /tmp >agent.log 2>&1 &
agent=$!

# The host waits for this, and says when to begin.
echo "# begin"
while [ ! -e go ]; do
	sleep 0.1
done
perf record -q -c 100003 -e cycles:u -o /tmp/perf.data -- ./shor 77 8 "$(cat go)" >/tmp/out 2>&1
perf report -i /tmp/perf.data --stdio --no-children -F overhead,comm,sym >perf.txt 2>perf.err
ls -A /var/tmp >left.during
echo "# end"
while [ -e go ]; do
	sleep 0.1
done
ls -A /var/tmp >left
grep -l vpmu-guest-map /proc/[0-9]*/comm >>left
kill $agent
echo "# left"
sleep 1000
