# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests of a host's perf beside guests: source it after tap.sh. Needs BUILD and PROGRAMS.

# Addresses in the oracle's window: docs/emulated-pmu.md, "Reference for virtual PMUs"
compared=0xc0de0010 mismatches=0xc0de0011
# shellcheck disable=SC2034 # for those who source this
instructions=0xc0de0018 branches=0xc0de0019

# msr NUMBER: of the oracle's window
msr() {
	dd if=/dev/cpu/0/msr bs=8 count=1 skip=$(($1)) iflag=skip_bytes status=none | od -An -tu8 |
		tr -d ' '
}

# start, agree NAME: what guests read in between, against the truth
start() {
	before=$(msr $compared) before_bad=$(msr $mismatches)
	# shellcheck disable=SC2034 # the same
	before_i=$(msr $instructions) before_b=$(msr $branches)
}
agree() {
	local i
	is "$1: reads that differ from the truth" "$(msr $mismatches)" "$before_bad"
	if [ "$(msr $mismatches)" != "$before_bad" ]; then
		for ((i = 2; i < 7; i++)); do
			note "last mismatch $i: $(printf %#x "$(msr $((compared + i)))")"
		done
	fi
	within "$1: reads compared" $(($(msr $compared) - before)) 1 1000000000
}

# figures NAME...: their sums over all vCPUs, at one look
figures() {
	"$BUILD/programs/figures" vcpus | awk -v names="$*" '
		BEGIN { n = split(names, name) }
		$1 == "vcpu" { for (i = 1; i < NF; i++) sum[$i] += $(i + 1) }
		END { for (i = 1; i <= n; i++) printf "%d ", sum[name[i]] }'
}

# relay COMMAND...: its TAP as part of this one's
relay() {
	local line
	while IFS= read -r line; do
		case $line in
		'ok '*) ok "${line#* - }" ;;
		'not ok '*) not_ok "${line#* - }" ;;
		'1..'*) ;;
		*) note "${line#\# }" ;;
		esac
	done < <("$@" 2>&1 || echo "not ok - $1 failed")
}

# counted FILE EVENT: what perf stat -x, found, if the event ran all the time
counted() {
	awk -F, -v e="$2" 'index($3, e) == 1 && $5 == "100.00" { print $1; exit }' "$1"
}

# events FILE KIND: how many events of that kind a perf.data holds
events() {
	perf report -i "$1" --stats 2>/dev/null | awk -v e="$2" '$1 == e && $2 == "events:" { print $3; exit }'
}
