#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the completion offers. Argument: the tool on a made-up device.

cd "$(dirname "$0")" || exit
. ../../../selftests/tap.sh
# shellcheck source=tools/vpmu/vpmu.bash
. ../vpmu.bash
export VPMU_FAKE="1:4194301:2 22:4194302:1"

# offers EXPECTED WORD...: for the last of the words
vpmu=$1
offers() {
	local expected=$1
	shift
	COMP_WORDS=("$vpmu" "$@")
	COMP_CWORD=$#
	_vpmu
	is "vpmu $*" "${COMPREPLY[*]}" "$expected"
}

offers "check events export info list map pages record report run serve set stat top help --json --help --version" ""
offers "serve set stat" s
offers "--perf --each --vendor --json --help" events ""
offers "steal" events --perf st
offers "amd intel" events --vendor ""
offers "--call-graph --count --event --frequency --map-program --output --qga --records --help" record -
offers '\#1 4194301 \#22 4194302' record ""
offers '\#1 4194301 \#22 4194302' record -e cycles '#1' ""
offers "" record -c ""
offers "--for --dry-run --once --fit --fills --interval --rounds --trial --json --help" map -
offers "performance power energy none" map --for ""
offers "" map -t ""
offers "" map --fills ""
offers '\#1 4194301 \#22 4194302' map --once --for power ""
offers '\#1 4194301 \#22 4194302' map --fit --fills cache=r1 ""
offers "--count --event --fills --seconds --timeout --windows --json --help" pages -
offers '\#1 4194301 \#22 4194302' pages ""
offers '\#1 4194301 \#22 4194302' pages -c 1000 ""
offers "" pages --event ""
offers "" pages --fills ""
offers "" record --qga ""
offers "--format --guest-map --input --output --help" export ""
offers "folded perf pprof svg trace" export --format ""
offers "--guest-map --input --rows --json --help" report -
offers "" report --rows ""
offers "--listen --help" serve ""
offers "" serve --listen ""
offers "--listen --help" serve -l 80 ""
offers "stat" --json st
offers "--json --help" list -
offers "--report --json --help" check ""
offers "check events export info list map pages record report run serve set stat top" help ""
offers "--json --help" info ""
offers "hybrid guest vcpu" set 1 --freeze ""
offers "hybrid" set 1 --freeze h
offers "hybrid guest vcpu" set --freeze =
offers "guest" set --freeze = g
offers "wall vcpu" set -t ""
offers "--freeze --tsc --events --all --default --json --help" set -
offers "--on --off --help" run -
offers "--on --off --help" run ""
offers "" run --on true --
offers "" stat -i ""
offers "--interval" stat --i
offers "--delay --events --json --help" top -
offers "" top -d ""
offers '\#1 4194301 \#22 4194302' stat ""
offers '4194302' set 4194302
offers '\#1 4194301 \#22 4194302' top ""
offers '\#1 4194301 \#22 4194302' set --freeze guest ""
offers '\#1 4194301 \#22 4194302' set --freeze = guest ""
offers '\#1 4194301 \#22 4194302' stat -i 1 ""
VPMU_FAKE=absent offers "" stat ""

# One VM is enough.
offers "--freeze --tsc --events --all --default --json --help" set web ""
offers "--freeze --tsc --events --all --default --json --help" set --tsc wall web ""
offers "--freeze --tsc --events --all --default --json --help" set --all ""
offers "--freeze --tsc --events --all --default --json --help" set --default ""
offers "--events --interval --count --openmetrics --json --help" stat web ""
offers "--events --interval --count --openmetrics --json --help" stat -i 1 web ""
offers "--delay --events --json --help" top web ""
offers "hybrid guest vcpu" set web --freeze ""

# Names in several words, as bash takes ":" and "@" for breaks
tmp=$(mktemp -d) || exit
mkfifo "$tmp/fifo"
named=()
for name in my:web my:db a@b:c; do
	sh -c 'read -r _; :' qemu -name "$name" <>"$tmp/fifo" &
	named+=($!)
done
export VPMU_FAKE="5:${named[0]}:1 6:${named[1]}:1 7:${named[2]}:1"
# until the shells have their arguments
for ((i = 0; i < 50; i++)); do
	[ "$("$vpmu" list --json | grep -cE '"name": "(my:|a@)')" != 3 ] || break
	sleep 0.1
done
offers "my:web my:db" stat m
offers "web db" stat my :
offers "web" stat my : w
offers "db" stat my : db
offers "c" stat a @ b :
offers "@b:c" stat a @
offers "--events --interval --count --openmetrics --json --help" stat my : web ""

# In a shell that is used by hand
ln -s "$(realpath "$vpmu")" "$tmp/vpmu"
printf '%s\n' "PATH=$tmp:\$PATH" ". $PWD/../vpmu.bash" "PS1='> '" >"$tmp/rc"
{
	sleep 1
	printf 'vpmu stat my:d\t\n'
	sleep 0.5
	printf 'vpmu stat a@b\t\n'
	sleep 0.5
	printf 'exit\n'
	sleep 0.5
} | TERM=dumb timeout -k 1 20 script -qec "bash --rcfile '$tmp/rc' -i" "$tmp/log" >/dev/null
is "by hand: a name with a colon" "$(grep -c '^VM #6  my:db  ' "$tmp/log")" 1
is "by hand: a name with an at sign" "$(grep -c '^VM #7  a@b:c  ' "$tmp/log")" 1
kill "${named[@]}"
wait "${named[@]}" 2>/dev/null
rm -r "$tmp"

finish
