#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The whole tool on a device that is only made up (fake_open.c): arguments, exit codes, where output
# goes, and top on a terminal. Argument: that tool.

cd "$(dirname "$0")" || exit
. ../../../selftests/tap.sh
vpmu=$1
tmp=$(mktemp -d) || exit
trap 'rm -r "$tmp"' EXIT
export TERM=xterm
# All of the tests' processes are somebody's VM.
export VPMU_FAKE="1:$$:2 2:$$:1 9:4194303:3 77:1:1:ended"

# run STATUS COMMAND...: leaves $out and $err
run() {
	local want=$1 got
	shift
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	got=$?
	out=$(cat "$tmp/out") err=$(cat "$tmp/err")
	is "status of: $(printf '%.60s' "${*//"$vpmu"/vpmu}")" $got "$want"
}

# has NAME TEXT PATTERN
has() {
	case $2 in
	*"$3"*) ok "$1" ;;
	*)
		not_ok "$1"
		note "no '$3' in: $(printf '%.2000s' "$2" | cat -v)"
		;;
	esac
}

run 0 "$vpmu" --version
has "--version" "$out" "vpmu "
for help in "--help" "-?" "help" "help help"; do
	# shellcheck disable=SC2086 # words
	run 0 "$vpmu" $help
	has "$help: commands" "$out" "  stat "
	has "$help: usage" "$out" "Usage: vpmu [OPTION...] COMMAND"
done
for c in check events export info list map pages record report run serve set stat top; do
	run 0 "$vpmu" help $c
	has "help $c" "$out" "Usage: vpmu $c [OPTION...]"
	run 0 "$vpmu" $c --help
	has "$c --help" "$out" "Usage: vpmu $c [OPTION...]"
done

# Usage
for wrong in "" "nothing" "--nothing" "check x" "events x" "events --each" "events --perf" "events --perf exits -j" "events --vendor x" "info x" "list x" "list --nothing" "stat 1 2" "stat -i 0" "stat -i x" "stat -n 0" \
	"stat -n x" "set" "set #1" "set --freeze guest" "set #1 --freeze x" "set #1 --tsc x" \
	"set #1 #2 --tsc wall" "set --all" "set #1 --all --tsc wall" "set --default #1 --tsc wall" "run" "run true" "run --on" "run --on --off true" "run --nothing true" "top 1 2" "top -d 0" "top -d 61" "help nothing" "help list stat" \
	"serve x" "serve --listen" "serve -l x" "serve -l 65536" "serve -l -1" "serve -l :80" "serve -l 127.0.0.1" "serve -l ::1:80" "serve -l [::1]" "serve -l []:80" "serve -l localhost:80" "serve -l 1.2.3.4:" \
	"export" "export -f x" "export -f trace x" "export -f perf" "map" "map a b" "map --for x a" "map -i x a" "map -r 0 a" "map -t 0 a" "map --fit" "map --fills cache=r1 a" "map --fit --dry-run a" "map --fit --for none a" "map --fit --fills disk=r1 a" "map --fit --fills cache=x a" "pages" "pages a b" "pages -c 0 a" "pages -n x a" "pages -t 0 a" "pages -e r1 -f memory a" "pages -e r1 -f disk=r2 a" "pages -e r1 -f memory=x a" "record -c 0" "record -c x" "record -F 0" "record -m 100" "record -m 131072" "record --qga web" "report a b" "report -g map" "report -n 0" "stat -o -j" "stat -o -e" "stat -o -i 1" "stat -o -n 1"; do
	# shellcheck disable=SC2086 # words
	run 2 "$vpmu" $wrong
	is "wrong: nothing on stdout" "$out" ""
	has "wrong: a message" "$err" "vpmu"
done

# says MESSAGE ARGUMENT...: a usage error
says() {
	local message=$1
	shift
	run 2 "$vpmu" "$@"
	has "the message" "$err" "$message"
}
says "vpmu: missing command"
says "vpmu: unknown command 'nothing' (see vpmu help)" nothing
says "vpmu: unknown command 'nothing' (see vpmu help)" help nothing
says "vpmu: unexpected argument 'stat'" help list stat
says "vpmu list: unexpected argument 'x'" list x
says "vpmu check: unexpected argument 'x'" check x
says "vpmu stat: unexpected argument '2'" stat 1 2
says "vpmu: no event 'x' (see vpmu events)" events --perf exits,x
says "vpmu events: --vendor: 'via' is not amd or intel" events -v via
says "vpmu events: --perf and --json exclude each other" events -p exits -j
says "vpmu stat: --count: '0' is not a number greater than 0" stat -n 0
says "vpmu set: missing VM" set --freeze guest
says "vpmu set: nothing to set: use --freeze, --tsc or --events" set '#1'
says "vpmu set: nothing to set: use --freeze, --tsc or --events" set --all --default
says "vpmu set: unexpected argument '#1': --all and --default take no VM" set '#1' --all --tsc wall
says "vpmu info: unexpected argument 'x'" info x
says "vpmu set: unexpected argument '#2'" set '#1' '#2' --tsc wall
says "vpmu top: unexpected argument '2'" top 1 2
says "vpmu run: missing --on or --off" run true
says "vpmu run: missing COMMAND" run --on
says "vpmu run: --on and --off can't be combined" run --on --off true

# Of no device
run 0 "$vpmu" events --vendor amd -p exits,steal
is "events: AMD's" "$out" "cpu/event=0xe40,umask=0x01,name=exits/,cpu/event=0xe40,umask=0x41,name=steal/"
run 0 "$vpmu" events --vendor intel -p exits-msr
is "events: Intel's" "$out" "cpu/event=0xeb,umask=0x0b,name=exits-msr/"
run 0 "$vpmu" events --vendor amd --each -p exits
is "events: for each" "$out" "cpu/event=0xe40,umask=0x81,name=exits/"
run 0 "$vpmu" events -v amd
has "events: raw" "$out" "re00000140"
run 0 "$vpmu" events -j
is "events: all of the interface" "$(grep -c '"umask"' "$tmp/out")" \
	"$(grep -c '^#define KVM_VPMU_EVENT_[A-Z_]*[[:space:]]*0x[0-9a-f][0-9a-f][[:space:]]' ../../../include/uapi/linux/kvm_vpmu.h)"
is "events: none twice" "$(grep '"name"' "$tmp/out" | sort | uniq -d)" ""

# The device
VPMU_FAKE=absent run 1 "$vpmu" list
has "no device: the hint" "$err" "is kvm_vpmu loaded?"
VPMU_FAKE=denied run 1 "$vpmu" list
has "no permission: the hint" "$err" "group kvm"
VPMU_FAKE=others run 1 "$vpmu" list
has "no capability to look: what is needed" "$err" "needs CAP_PERFMON"
VPMU_FAKE="not-mine 1:1:1" run 1 "$vpmu" set '#1' --freeze guest
has "no capability to set: what is needed" "$err" "needs CAP_SYS_ADMIN"
VPMU_FAKE=old run 1 "$vpmu" list
has "an old interface" "$err" "version 0"
VPMU_FAKE=new run 0 "$vpmu" list
VPMU_FAKE=broken run 1 "$vpmu" stat
for c in info stat "stat #1" "set #1 --tsc wall" "set --all --tsc wall" "set --default --tsc wall" top; do
	# shellcheck disable=SC2086 # words
	VPMU_FAKE=absent run 1 "$vpmu" $c
done
run 1 "$vpmu" top
has "top without a terminal" "$err" "needs a terminal"

# VMs
run 0 "$vpmu" list
is "list: lines" "$(wc -l <"$tmp/out")" 5
VPMU_FAKE=none run 0 "$vpmu" list
has "no VMs: the header" "$out" "NAME"
for c in list stat; do
	VPMU_FAKE=none run 0 "$vpmu" $c --json
	is "no VMs: $c --json" "$out" "[]"
done
VPMU_FAKE=none run 0 "$vpmu" --json list
is "--json before the command" "$out" "[]"
run 0 "$vpmu" stat '#9' -j
has "-j" "$out" '"pid": 4194303'
run 0 "$vpmu" stat
is "a VM that ended is left out" "$(grep -c '^VM ' "$tmp/out")" 3
run 3 "$vpmu" stat '#77'
run 3 "$vpmu" stat nobody
has "no such VM: a message" "$err" "no VM 'nobody'"
run 3 "$vpmu" set nobody --tsc wall
run 2 "$vpmu" stat $$
has "a PID of two VMs: candidates" "$err" "#2  PID $$"
run 0 "$vpmu" set '#2' --tsc vcpu --freeze guest
is "set says nothing" "$out$err" ""
run 0 "$vpmu" set '#2' --tsc vcpu --freeze guest --json
has "set --json" "$out" '"freeze": "guest"'
VPMU_FAKE="no-tsc 1:1:1" run 1 "$vpmu" set '#1' --tsc vcpu
has "a TSC that isn't fit" "$err" "TSC isn't fit"

run 0 "$vpmu" set --all --tsc vcpu --json
is "set --all: VMs" "$(grep -c '"tsc": "vcpu"' "$tmp/out")" 3
VPMU_FAKE="1:1:1 2:7:1:fails 3:1:1" run 1 "$vpmu" set --all --freeze guest --json
has "set --all: which VM failed" "$err" "vpmu: VM #2 (PID 7): Input/output error"
is "set --all: others are set" "$(grep -c '"freeze": "guest"' "$tmp/out")" 2
VPMU_FAKE="not-mine 1:1:1 2:1:1" run 1 "$vpmu" set --all --freeze guest
is "set --all without the capability: one message" "$(grep -c CAP_SYS_ADMIN "$tmp/err")" 1

# What vpmu map has learnt
says "vpmu map: --fills needs --fit" map --fills cache=r1 a
says "vpmu map: --fit needs a decision" map --fit --for none a
says "vpmu map: --fit needs a decision" map --fit -n a
LIBPFM_FORCE_PMU=amd64_fam10h_barcelona run 1 "$vpmu" map "--fit=$tmp/map.json" a
has "map --fit: no events" "$err" "name some with --fills"
fit=("--fit=$tmp/fit/map.json" --fills "cache=r1,memory=r2")
run 3 "$vpmu" map "${fit[@]}" nobody
is "map --fit: its folder" "$(ls -A "$tmp/fit" 2>&1)" ""
# wrong TEXT MESSAGE: of such a file, which stays
wrong() {
	printf '%s' "$1" >"$tmp/fit/map.json"
	run 1 "$vpmu" map "${fit[@]}" nobody
	has "map --fit: $1" "$err" "vpmu: $tmp/fit/map.json $2"
	is "map --fit: the file stays" "$(ls -A "$tmp/fit"; cat "$tmp/fit/map.json")" "map.json
$1"
}
wrong '{"vpmu_map": 1, "mach' "isn't JSON: it is left alone, and --fit wants another FILE"
wrong '{"who": "else"}' "isn't a file of vpmu map --fit"
wrong '{"vpmu_map": 2}' "is of another version of vpmu"
wrong '{"vpmu_map": 1, "machine": {"cpu": "GenuineIntel-5-4-3"}, "untried": 0, "samples": {}}' "is of another machine"
run 1 "$vpmu" map --fit="$tmp/none/none/map.json" --fills cache=r1 nobody
has "map --fit: no folder" "$err" "vpmu: $tmp/none/none/map.json: No such file"
run 1 "$vpmu" map --fit="$tmp/fit" --fills cache=r1 nobody
has "map --fit: a folder" "$err" "vpmu: $tmp/fit"
rm -r "$tmp/fit"

# Recordings: the made-up device has no profiles.
VPMU_FAKE="1:1:1" run 1 "$vpmu" record -o "$tmp/none.data" -- true
is "record without a profile: one message" "$(grep -c . "$tmp/err")" 1
VPMU_FAKE="1:1:1" run 3 "$vpmu" record -o "$tmp/none.data" other
VPMU_FAKE="1:1:1" run 2 "$vpmu" record -e no_such_event -o "$tmp/none.data"
VPMU_FAKE="1:1:1" run 3 "$vpmu" record --qga other=none -o "$tmp/none.data"
VPMU_FAKE="1:1:1" run 1 "$vpmu" record --qga "#1=none" --map-program none -o "$tmp/none.data"
has "record: no vpmu-guest-map" "$err" "#1=none: none: No such file"
VPMU_FAKE="1:1:1" run 1 "$vpmu" record --qga "#1=none" --map-program "$vpmu" -o "$tmp/none.data"
has "record: no guest agent" "$err" "#1=none: No such file"
is "record without a profile: no file" "$(ls "$tmp/none.data" 2>&1)" \
	"ls: cannot access '$tmp/none.data': No such file or directory"
run 1 "$vpmu" report -i "$tmp/none.data"
run 1 "$vpmu" export -f trace -i "$tmp/none.data"
script -qec "'$vpmu' export -f pprof -i none.data" /dev/null </dev/null >"$tmp/out"
is "export of a pprof to a terminal: status" $? 2
has "export of a pprof to a terminal: message" "$(cat "$tmp/out")" "missing --output"
echo text >"$tmp/text.data"
run 1 "$vpmu" report -i "$tmp/text.data"
has "report of another file" "$err" "not a recording"

# The module
mkdir -p "$tmp/module/parameters"
echo hybrid >"$tmp/module/parameters/freeze"
echo wall >"$tmp/module/parameters/tsc"
echo 0.9 >"$tmp/module/version"
export VPMU_FAKE_MODULE=$tmp/module
run 0 "$vpmu" info
has "info: the module" "$out" "0.9, ABI 14"
has "info: a parameter" "$out" "  freeze            hybrid"
run 0 "$vpmu" info --json
has "info: VMs" "$out" '"vms": 4'
VPMU_FAKE=others run 0 "$vpmu" info
has "info: not privileged" "$out" "VMs                 -"
run 0 "$vpmu" set --default --freeze guest
is "set --default" "$(cat "$tmp/module/parameters/freeze")" guest
is "set --default: nothing else" "$(cat "$tmp/module/parameters/tsc")" wall
run 0 "$vpmu" set --default --all --freeze vcpu --tsc vcpu --json
is "set --default --all: all" "$(grep -c '"freeze": "vcpu"' "$tmp/out")" 4
for who in no-tsc not-mine; do
	VPMU_FAKE=$who run 1 "$vpmu" set --default --tsc vcpu
done
has "set --default: who may" "$err" "needs root"
rm "$tmp/module/parameters/tsc"
run 1 "$vpmu" set --default --tsc wall
has "set --default: an older module" "$err" "no parameter 'tsc'"
unset VPMU_FAKE_MODULE

# Commands with a choice
# shellcheck disable=SC2016 # expands there
for c in "off no" "on yes"; do
	run 0 "$vpmu" run "--${c% *}" sh -c 'echo "$FAKE_ATTACH $*"' sh --off -x
	is "run --${c% *}: what the command finds" "$out" "${c#* } --off -x"
done
run 7 "$vpmu" run --off -- sh -c 'exit 7'
run 127 "$vpmu" run --off "$tmp/nothing"
has "run: no such command" "$err" "No such file"
run 126 "$vpmu" run --off "$tmp"
VPMU_FAKE=absent run 1 "$vpmu" run --off true
VPMU_FAKE=broken run 1 "$vpmu" run --off true

# A name from a command line, also with blanks
mkfifo "$tmp/fifo"
sh -c 'read -r _; :' qemu -m 384 -name "guest=a vm,debug-threads=on" <>"$tmp/fifo" &
named=$!
VPMU_FAKE="5:$named:1 6:$$:1" run 0 "$vpmu" stat "a vm" --json
has "the name" "$out" '"name": "a vm"'
kill $named
wait $named 2>/dev/null

# Repeated
run 0 "$vpmu" stat '#1' -i 0.05 -n 3 --json
is "stat -i --json: lines" "$(wc -l <"$tmp/out")" 3
is "each an object" "$(grep -c '^{"time":.*}$' "$tmp/out")" 3
run 0 "$vpmu" stat '#1' --events
has "stat --events" "$out" "  exits-io "
run 0 "$vpmu" stat '#1' -n 1
has "stat -n: every second" "$out" "over 1."
# timeout's own status
run 124 timeout -s INT 1 "$vpmu" stat -i 0.1
within "reports come as they are made" "$(grep -c '^===' "$tmp/out")" 2 11
run 124 timeout -s INT 1 "$vpmu" top -d 0.1 --json
within "top --json: lines" "$(grep -c '^{' "$tmp/out")" 2 11
run 124 timeout -s INT 1 "$vpmu" top -e -d 0.1 --json
has "top --events --json" "$out" '"event_rates":'
run 124 timeout -s INT 1 "$vpmu" top '#9' -d 0.1 --json
is "top VM --json: that VM" "$(grep -o '"id":[0-9]*' "$tmp/out" | sort -u)" '"id":9'

# Where stdout goes
for c in "list" "--help" "--version" "help" "help set" "list --help" "stat -n 1"; do
	# shellcheck disable=SC2016,SC2086 # expands there
	run 1 sh -c '"$@" >/dev/full' sh "$vpmu" $c
	has "a full disk" "$err" "stdout: "
done
# shellcheck disable=SC2016 # expands there
run 1 sh -c '"$@" >&-' sh "$vpmu" list
has "stdout closed" "$err" "stdout: "
# shellcheck disable=SC2016 # expands there
run 1 bash -c 'trap "" PIPE; { sleep 0.3; "$@"; } | true; exit "${PIPESTATUS[0]}"' bash "$vpmu" stat -i 0.1
has "a closed pipe" "$err" "stdout: "

# top on a terminal: screen FILE ROWS COLUMNS SECONDS KEYS [COMMAND...]; in KEYS blanks are time to draw
screen() {
	local file=$1 rows=$2 columns=$3 seconds=$4 keys=$5 key
	shift 5
	[ $# -gt 0 ] || set -- "'$vpmu' top -d 0.1"
	{
		sleep "$seconds"
		for key in $keys; do
			printf '%b' "$key"
			sleep 0.3
		done
		[ -n "$keys" ] || sleep 0.3
	} | timeout -k 1 20 script -qec "stty rows $rows cols $columns; $*; echo status \$?; stty -a" "$file" >/dev/null
}

# sane FILE NAME: the screen was left, and the terminal's modes are as they were
sane() {
	has "$2: back from the alternate screen" "$(cat "$1")" $'\e[?1049l'
	has "$2: the cursor is back" "$(cat "$1")" $'\e[?25h'
	is "$2: modes" "$(tail -n 8 "$1" | grep -oE -- '-?(icanon|echo|isig)\b' | tr '\n' ' ')" "isig icanon echo "
}

screen "$tmp/top" 24 80 1 q
has "top: a VM" "$(cat "$tmp/top")" "4194303"
has "top: rates" "$(cat "$tmp/top")" "EXITS"
has "top: help" "$(cat "$tmp/top")" "q quit"
has "top: q ends it" "$(cat "$tmp/top")" "status 0"
sane "$tmp/top" "q"

up='\x1bOA' down='\x1bOB' right='\x1bOC' left='\x1bOD' home='\x1bOH' end='\x1bOF' escape='\x1b'
page_up='\x1b[5~' page_down='\x1b[6~'
screen "$tmp/top" 24 200 0.5 "<>>>>rv+-r$down$up$page_down$page_up$home$end$left$right\x0c\x20\x20q"
has "top: all keys" "$(cat "$tmp/top")" "status 0"
has "top: wide" "$(cat "$tmp/top")" "ANOM/s"
screen "$tmp/top" 24 200 0.5 "> N P R E M B G A q"
for title in NAME PID RUN% EXITS/s MSRS/s BORROW/s GAPS/s ANOM/s; do
	has "top: sorted by $title" "$(cat "$tmp/top")" $'\e[0;1;4;7m'"$title"
done
screen "$tmp/top" 24 80 0.5 'h q q'
has "top: help" "$(cat "$tmp/top")" "KEYS"
has "top: help: any key leaves it" "$(cat "$tmp/top")" "status 0"
screen "$tmp/top" 24 80 0.5 "h${end} x q"
has "top: help: its end" "$(cat "$tmp/top")" "counts are wrong"

# top of one VM
screen "$tmp/top" 24 120 0.5 q "'$vpmu' top -d 0.1 '#9'"
has "top VM: the VM" "$(cat "$tmp/top")" "PID 4194303  freeze hybrid"
has "top VM: its counters" "$(cat "$tmp/top")" "VALUE/s"
has "top VM: its rates" "$(cat "$tmp/top")" "! ran 50.0%, borrows"
has "top VM: status" "$(cat "$tmp/top")" "status 0"
is "top VM: no others" "$(grep -c "PID $$" "$tmp/top")" 0
screen "$tmp/top" 6 40 0.5 "$page_down$page_down$right$right q" "'$vpmu' top -d 0.1 '#9'"
has "top VM: further down, and right" "$(cat "$tmp/top")" "VALUE/s"
screen "$tmp/top" 12 100 0.5 "$end \n $escape N q"
has "top: Enter: the VM of the row" "$(cat "$tmp/top")" "PID 4194303  freeze hybrid"
has "top: Esc: back, to what can be sorted" "$(cat "$tmp/top")" $'\e[0;1;4;7mNAME'
screen "$tmp/top" 12 100 0.5 q "'$vpmu' top nobody"
has "top VM: nobody: a message" "$(cat "$tmp/top")" "no VM 'nobody'"
has "top VM: nobody: status" "$(cat "$tmp/top")" "status 3"
VPMU_FAKE="1:1:1:ends" screen "$tmp/top" 24 100 1 '' "'$vpmu' top '#1' -d 0.1"
has "top VM: it ends: a message" "$(cat "$tmp/top")" "has ended"
has "top VM: it ends: status" "$(cat "$tmp/top")" "status 3"
sane "$tmp/top" "a VM that ended"
# It would end at the fourth look.
{
	sleep 0.5
	printf ' '
	sleep 2.5
	printf q
	sleep 0.2
} | VPMU_FAKE="1:1:1:ends" timeout -k 1 20 script -qec "'$vpmu' top '#1' -d 0.5; echo status \$?" "$tmp/top" >/dev/null
has "top: space: paused" "$(cat "$tmp/top")" "PAUSED"
has "top: space: it doesn't look" "$(cat "$tmp/top")" "status 0"

for size in "1 1" "1 80" "2 10" "3 5" "4 40" "24 20" "500 500"; do
	# shellcheck disable=SC2086 # two numbers
	screen "$tmp/top" $size 0.5 'v>rq'
	has "top: $size" "$(cat "$tmp/top")" "status 0"
done

screen "$tmp/top" 24 80 2 q "(sleep 0.7; stty rows 5 cols 30 <\$(tty <&0); sleep 0.5; stty rows 50 cols 150) <\$(tty) & '$vpmu' top -d 0.1"
has "top: resized" "$(cat "$tmp/top")" "status 0"
has "top: resized: the short help" "$(cat "$tmp/top")" "q quit <> sort"

for signal in INT TERM HUP QUIT; do
	case $signal in INT) n=130 ;; TERM) n=143 ;; HUP) n=129 ;; QUIT) n=131 ;; esac
	screen "$tmp/top" 24 80 1.5 '' "ulimit -c 0; sh -c '(sleep 0.7; kill -$signal \$\$) & exec \"\$0\" top -d 0.1' '$vpmu'"
	has "top: SIG$signal: status" "$(cat "$tmp/top")" "status $n"
	sane "$tmp/top" "SIG$signal"
done
screen "$tmp/top" 24 80 0.5 '\x03' "trap : INT; '$vpmu' top -d 0.1"
has "top: Ctrl-C: status" "$(cat "$tmp/top")" "status 130"
sane "$tmp/top" "Ctrl-C"

for kind in "TERM=nothing isn't known" "TERM=dumb can't move" "TERM= TERM isn't set" "-uTERM TERM isn't set"; do
	screen "$tmp/top" 24 80 1 q "env ${kind%% *} '$vpmu' top"
	has "top: ${kind%% *}: a message" "$(cat "$tmp/top")" "${kind#* }"
	has "top: ${kind%% *}: what to do" "$(cat "$tmp/top")" "use vpmu stat -i"
	is "top: ${kind%% *}: nothing is drawn" "$(grep -c $'\e' "$tmp/top")" 0
done
VPMU_FAKE=none screen "$tmp/top" 24 80 0.5 q
has "top: no VMs" "$(cat "$tmp/top")" "no VM has"
VPMU_FAKE=broken screen "$tmp/top" 24 80 0.5 q
has "top: the device fails" "$(cat "$tmp/top")" "status 1"
sane "$tmp/top" "an error"

finish
