#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest that the host profiles (selftests/host/profile_processes.sh): processes that come and go, each of which
# computes in a function that no other has (programs/named.c), from when the file "go" is there until "done" is.
# Names are in "map", what each computed in "rounds", what the guest is in "facts".

cd "$(dirname "$0")" || exit
work=$(mktemp -d)
for letter in a b c d e f g h; do
	cp named "$work/w$letter"
done
./vpmu-guest-map --follow -o map 2>"$work/said" &
map=$!
{
	uname -r
	grep -cw -m 1 pti /proc/cpuinfo
	grep -cw -m 1 pcid /proc/cpuinfo
} >facts
# Its name is to be no line of the map, nor the end of it.
odd=$work/$'x\np 1'
cp "$(command -v sleep)" "$odd"
"$odd" 1000 &
named=$!
# In the order in which they need each other
for module in kvm/*.ko; do
	[ ! -e "$module" ] || insmod "$module"
done
until grep -q ready "$work/said"; do
	sleep 0.1
done
echo "# begin"
until [ -e go ]; do
	sleep 0.1
done
cd "$work" || exit

# Long ones, one of which becomes another program, and one that has threads
./wa 1200 &
pids=$!
./wb 600 &
pids+=" $!"
./wc 500 1 ./wd 700 &
pids+=" $!"
./we 800 4 &
pids+=" $!"
# Short ones, two at a time
for ((i = 0; i < 40; i++)); do
	./wf 20
	./wf 50
done &
pids+=" $!"
for ((i = 0; i < 8; i++)); do
	./wg 20
	./wh 200
done &
# shellcheck disable=SC2086 # process ids
wait $pids $!
if [ -c /dev/kvm ]; then
	"$OLDPWD/rawvm" count 200000000 >&2
fi
sleep 0.3
kill -INT $map
wait $map
cat "$work/said" >&2
kill $named
cp rounds "$OLDPWD/"
: >"$OLDPWD/done"
