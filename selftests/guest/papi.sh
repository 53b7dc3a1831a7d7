#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In a guest: PAPI, its tools and a program that counts itself with it. Needs PROGRAMS.

. "$(dirname "$0")/../tap.sh"

# PAPI doesn't try with Debian's own 3, even as root.
sysctl -q kernel.perf_event_paranoid=2

log=$(mktemp)
papi_avail >"$log"
if grep -q perfctr_core /proc/cpuinfo; then
	counters=6
else
	counters=4
fi
is "papi_avail: counters" "$(sed -n 's/^Number Hardware Counters : *//p' "$log")" $counters
is "papi_avail: RDPMC" "$(sed -n 's/^Fast counter read (rdpmc): *//p' "$log")" yes
for event in PAPI_TOT_INS PAPI_BR_INS PAPI_TOT_CYC; do
	is "papi_avail: $event" "$(awk -v event=$event '$1 == event { print $3 }' "$log")" Yes
done
papi_native_avail >"$log"
is "papi_native_avail: retired instructions" "$(grep -c '^| RETIRED_INSTRUCTIONS ' "$log")" 1

# What a set counts while PAPI's own small program works
of_tool() {
	papi_command_line "$@" >"$log"
	awk -v event="$1" '$1 == event && $2 == ":" { print $3 }' "$log"
}
i1=$(of_tool PAPI_TOT_INS PAPI_BR_INS)
i2=$(of_tool PAPI_TOT_INS PAPI_BR_INS)
within "papi_command_line: instructions" "$i1" 1000 1000000000
is "papi_command_line: the same again" "$i2" "$i1"

# PAPI reads one counter after the other, and each again if an interrupt came in between, which the
# counters still to be read count. So take the least of some runs.
least() {
	for _ in 1 2 3 4; do
		"$PROGRAMS/papi" "$1"
	done | awk '{ for (i = 1; i <= 4; i++) if (NR == 1 || $i < v[i]) v[i] = $i } END { print v[1], v[2], v[3], v[4] }'
}

i0='' b0='' ri0='' rb0=''
for n in 0 1 1000000; do
	read -r i b ri rb <<-EOF
		$(least $n)
	EOF
	case $n$i$b$ri$rb in
	0 | *[!0-9]*)
		not_ok "PAPI counts"
		break
		;;
	esac
	if [ $n = 0 ]; then
		i0=$i b0=$b ri0=$ri rb0=$rb
		continue
	fi
	is "start to stop, loop x $n: instructions" $((i - i0)) $((3 * n))
	is "start to stop, loop x $n: branches" $((b - b0)) $n
	is "read to read, loop x $n: instructions" $((ri - ri0)) $((3 * n))
	is "read to read, loop x $n: branches" $((rb - rb0)) $n
done

rm -f "$log"
finish
