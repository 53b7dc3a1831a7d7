#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest that the host profiles (selftests/host/profile.sh): a program with two functions, and one with deep call
# graphs, until the machine ends. The names that the host needs are in the file "map" of this folder.

cd "$(dirname "$0")" || exit
./profile 100000000 &
./recursive 50 100000000 &
sleep 1
if ./vpmu-guest-map -o map; then
	echo "# begin"
else
	echo "# no map"
fi
wait
