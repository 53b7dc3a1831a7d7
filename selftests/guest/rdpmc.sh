#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: counters that a program reads by RDPMC in user mode. Needs PROGRAMS.

if grep -q perfctr_core /proc/cpuinfo; then
	counters=6
else
	counters=4
fi
exec "$PROGRAMS/rdpmc" $counters
