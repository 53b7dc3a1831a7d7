#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host of several CPUs: stock guests with as many vCPUs boot, one after the other, count on
# each vCPU and shut down. $1: how many guests (10). Needs PROGRAMS.

cd "$(dirname "$0")" || exit
. ../tap.sh

for ((i = 1; i <= ${1:-10}; i++)); do
	start=$SECONDS
	vpmu-guest --smp "$(nproc)" -- env PROGRAMS="$PROGRAMS" "$PWD/../guest/each_cpu.sh" >/tmp/out 2>&1
	status=$?
	is "boot $i, $(nproc) vCPUs" $status 0
	note "$((SECONDS - start)) s"
	[ $status -eq 0 ] || sed 's/^/# /' /tmp/out
done
finish
