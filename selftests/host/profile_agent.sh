#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host: vpmu record --qga, on a stock guest with QEMU's guest agent, and shares of functions beside
# those of perf in that guest. Needs BUILD and PROGRAMS.

. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/qemu.sh"
. "$(dirname "$0")/stock_guest.sh"
. "$(dirname "$0")/recordings.sh"
vpmu=$BUILD/vpmu/vpmu
here=$(cd "$(dirname "$0")" && pwd)
cd "$dir" || exit
seconds=30

share_with_guest 'exec /run/vpmu/test/agent.sh' "$PROGRAMS/shor" "$here/../guest/agent.sh"
start_guest web -name web -chardev "socket,id=qga,path=$dir/web.qga,server=on,wait=off" \
	-device "virtserialport,chardev=qga,name=org.qemu.guest_agent.0"
wait_for "$taps/web.tap" '^# begin' || {
	not_ok "the guest boots"
	sed 's/^/# /' "$dir"/web.{console,err,log}
}

# The guest's perf runs within the recording.
cat >both <<-END
	echo $seconds >go && mv go $share/test/
	for ((n = 0; n < 3000; n++)); do
		! grep -q '^# end' $taps/web.tap || exit 0
		sleep 0.1
	done
	exit 1
END
program=$BUILD/guest-map/vpmu-guest-map
"$vpmu" record -c 100003 --qga "web=$dir/web.qga" --map-program "$program" -o web.data web -- bash both 2>log
is "record: status" $? 0
sed 's/^/# /' log
rm "$share/test/go"
wait_for "$taps/web.tap" '^# left'
is "in the guest meanwhile" "$(sed 's/\..*//' "$share/test/left.during")" kvm-vpmu
is "in the guest at the end" "$(cat "$share/test/left")" ""
sed 's/^/# /' "$share/test/"*.err "$dir/web.err"

"$vpmu" --json report -i web.data >report.json || not_ok "report"
"$vpmu" report -i web.data -n 12 | sed 's/^/# /'
is "records lost" "$(json "d['lost']")" 0
is "the guest kernel's functions without a name" \
	"$(json "[f for f in d['functions'] if f['where'] == 'guest kernel' and f['function'][:2] == '0x']")" "[]"
# share_of FUNCTION: in hundredths of a percent of the program in user mode
share_of() {
	json "round(10000 * sum(f['value'] for f in d['functions'] if f['function'] == '$1' and f['process'] == 'shor'
	and f['where'] == 'guest user') / sum(f['value'] for f in d['functions'] if f['process'] == 'shor' and
	f['where'] == 'guest user'))"
}
# All that has a percent, in perf's report
awk '$2 == "shor" && $3 == "[.]" && $1 + 0 >= 1 { print int($1 * 100 + 0.5), $4 }' "$share/test/perf.txt" >perf.txt
nth=0
while read -r share_in_guest function; do
	within "hundredths of a percent in $function, by the guest's perf $share_in_guest" "$(share_of "$function")" \
		$((share_in_guest - 100)) $((share_in_guest + 100))
	nth=$((nth + 1))
done <perf.txt
within "functions that were compared" "$nth" 3 20

# ---- what can go wrong

# refused WHAT TEXT ARGUMENT...
refused() {
	local what=$1 text=$2
	shift 2
	"$vpmu" record -o none.data "$@" -- true 2>log
	is "$what: status" $? 1
	is "$what: why" "$(grep -c "$text" log)" 1
	is "$what: no recording" "$(ls none.data 2>/dev/null)" ""
}
refused "an agent that has ended" 'no answer' --qga "web=$dir/web.qga" --map-program "$program"
refused "no socket" 'No such file' --qga "web=$dir/none" --map-program "$program"
end_qemu web

cd / && rm -r "$dir"
finish
