#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: call graphs of a stock guest's kernel, which keeps no frame pointers, beside those of perf in
# that guest. Needs BUILD and PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"
. "$(dirname "$0")/stock_guest.sh"
. "$(dirname "$0")/recordings.sh"
vpmu=$BUILD/vpmu/vpmu
here=$(cd "$(dirname "$0")" && pwd)
cd "$dir" || exit

share_with_guest 'exec /run/vpmu/test/kernel_stacks.sh' "$BUILD/guest-map/vpmu-guest-map" \
	"$here/../guest/kernel_stacks.sh"
start_guest web -name web
wait_for "$taps/web.tap" '^# begin' || {
	not_ok "the guest boots"
	sed 's/^/# /' "$dir"/web.{console,err,log}
}
"$vpmu" record -g -c 100003 -o web.data web -- sleep 12 2>log
is "record: status" $? 0
sed 's/^/# /' log
touch "$share/test/go"
wait_for "$taps/web.tap" '^# end'
end_qemu web
sed 's/^/# /' "$dir/web.err" "$share/test/perf.err"
"$vpmu" export --format folded -i web.data -g "web=$share/test/map" -o folded
is "export: status" $? 0
"$vpmu" report -i web.data -n 12 -g "web=$share/test/map" | sed 's/^/# /'

# Stacks of dd in the kernel, as lines COUNT FUNCTION;FUNCTION..., the innermost last
# COUNT is in events.
sed -n 's/^web;guest kernel;dd;\(.*\) \([0-9]*\)$/\2 \1/p' folded | awk '{ print $1 / 100003, $2 }' | sort -k2 >host
awk '
function put() { if (stack) count[stack]++; stack = "" }
/^$/ { put(); next }
$1 ~ /^ffff/ { name = $2; sub(/\+0x.*/, "", name); stack = name (stack ? ";" stack : "") }
END { put(); for (s in count) print count[s], s }' "$share/test/perf.txt" | sort -k2 >guest
for file in host guest; do
	sort -rn $file | head -n 5 | sed "s/^/# $file: /"
done
all() {
	awk '{ n += $1 } END { print n + 0 }' "$1"
}
within "stacks in the kernel: of the host" "$(all host)" 1000 1000000
within "stacks in the kernel: of the guest's perf" "$(all guest)" 1000 1000000

# missing ONE OTHER: stacks that are at least 1 % of those of ONE, and aren't in OTHER
missing() {
	awk -v all="$(all "$1")" '
		FNR == NR { there[$2]; next }
		$1 >= all / 100 && !($2 in there) { print $2 }' "$2" "$1"
}
is "those of the host that the guest's perf hasn't" "$(missing host guest)" ""
is "those of the guest's perf that the host hasn't" "$(missing guest host)" ""
within "of these there are" "$(awk -v all="$(all guest)" '$1 >= all / 100' guest | wc -l)" 10 100
# Entry code has no callers. All else has been entered.
awk '$2 ~ /;/ && $2 !~ /^(entry_|asm_|ret_from_fork)/' host | sed 's/^/# host: /'
is "stacks that don't begin where the kernel was entered" "$(awk -v all="$(all host)" '
	$2 ~ /;/ && $2 !~ /^(entry_|asm_|ret_from_fork)/ { n += $1 } END { print n + 0 }' host)" 0
finish
