#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: perf stat counts a loop exactly on each of its CPUs. Needs PROGRAMS.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./count.sh

cpu=0
while [ $cpu -lt "$(nproc --all)" ]; do
	taskset -cp $cpu $$ >/dev/null
	exactly "CPU $cpu" 00010000 3 1 -- "$PROGRAMS/exact" loop
	cpu=$((cpu + 1))
done
finish
