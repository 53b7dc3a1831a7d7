#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest that the host profiles (selftests/host/profile_kernel.sh): a process that is in the kernel most of the
# time, and afterwards its call graphs by perf in this guest, in the file "perf.txt" of this folder.

cd "$(dirname "$0")" || exit
sysctl -q kernel.perf_cpu_time_max_percent=0
dd if=/dev/zero of=/dev/null bs=1 2>/dev/null &
dd=$!
sleep 0.5
./vpmu-guest-map -o map || echo "# no map"
echo "# begin"
until [ -e go ]; do
	sleep 0.1
done
perf record -q -g -e cycles:k -c 100003 -o /tmp/data -p $dd -- sleep 12 2>perf.err
perf script -i /tmp/data -F ip,sym >perf.txt 2>>perf.err
kill $dd
echo "# end"
