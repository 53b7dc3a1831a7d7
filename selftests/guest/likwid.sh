#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: likwid-perfctr, which programs the counters' MSRs itself, and reads them by RDPMC. Needs
# PROGRAMS.

. "$(dirname "$0")/../tap.sh"

# likwid asks for that: it shares no counter with the kernel.
sysctl -q kernel.nmi_watchdog=0
# The bench hides the modules of guests.
umount /lib/modules
modprobe msr
mount -t tmpfs none /lib/modules

log=$(mktemp)
is "likwid knows this CPU" "$(likwid-perfctr -i | awk '/^CPU short:/ { print $3 }')" \
	"$(awk '$1 == "model" && $2 == ":" { print ($3 == 17 ? "zen4" : "zen3"); exit }' /proc/cpuinfo)"

# event NAME: its count
event() {
	awk -F, -v name="$1" '$1 == name { print $3 }' "$log"
}

# measured PROGRAM...: what likwid-perfctr, with the options in $options, says of it
measured() {
	# shellcheck disable=SC2086 # options
	likwid-perfctr -O -C 0 $options \
		-g RETIRED_INSTRUCTIONS:PMC0,RETIRED_BRANCH_INSTR:PMC1,RETIRED_COND_BRANCH_INSTR:PMC5 "$@" >"$log"
	i=$(event RETIRED_INSTRUCTIONS) b=$(event RETIRED_BRANCH_INSTR) c=$(event RETIRED_COND_BRANCH_INSTR)
	case $i$b$c in
	'' | *[!0-9]*)
		sed 's/^/# /' "$log"
		i=-1 b=-1 c=-1
		;;
	esac
}

# tries NAME GOT EXPECTED STEP: equal but for up to 5 steps more or less
tries() {
	if [ $((($2 - $3) % $4)) = 0 ] && [ $((($2 - $3) / $4)) -ge -5 ] && [ $((($2 - $3) / $4)) -le 5 ]; then
		ok "$1 ($2)"
	else
		not_ok "$1"
		note "got '$2', expected '$3', or that and some times $4"
	fi
}

# Between marks in the program. likwid's own part isn't always the same, on the bare host neither: it
# talks to its daemon, which is on the same CPU, and tries some times more or less, each of which is 35
# instructions, 11 branches and 3 conditional ones.
options=-m
measured "$PROGRAMS/likwid" 0
i0=$i b0=$b c0=$c
# More than 7 digits would be rounded: they pass through a file as %e.
for n in 1 1000000 3000000; do
	measured "$PROGRAMS/likwid" $n
	tries "marks, loop x $n: instructions" $((i - i0)) $((3 * n)) 35
	tries "marks, loop x $n: branches" $((b - b0)) $n 11
	tries "marks, loop x $n: conditional branches" $((c - c0)) $n 3
done

# Around a program, likwid counts all that runs on the CPU in user mode: its daemon and itself, too,
# which take some 20,000 instructions to start and to wait for it.
options=
measured "$PROGRAMS/exact" loop 01000000
within "around loop x 16777216: instructions" "$i" $((3 * 0x01000000)) $((3 * 0x01000000 + 100000))
within "around loop x 16777216: branches" "$b" $((0x01000000)) $((0x01000000 + 100000))

rm -f "$log"
finish
