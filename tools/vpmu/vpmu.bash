# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Completion of vpmu's arguments for bash.

# VMs that can be named: PIDs, numbers, and names without characters that would have to be quoted
_vpmu_vms() {
	"$1" list --json 2>/dev/null | sed -n \
		-e 's/^ *"id": \([0-9]*\),$/\\#\1/p' \
		-e 's/^ *"pid": \([0-9]*\),$/\1/p' \
		-e 's/^ *"name": "\([A-Za-z0-9][A-Za-z0-9._:@+-]*\)",$/\1/p'
}

_vpmu_events() {
	"$1" events --json 2>/dev/null | sed -n 's/^ *"name": "\(.*\)",$/\1/p'
}

# The words up to the cursor, in $words. Names with ":" or "@" come in several, as COMP_WORDBREAKS has these.
_vpmu_words() {
	local word join=''
	words=()
	for word in "${COMP_WORDS[@]:0:COMP_CWORD + 1}"; do
		if [ ${#words[@]} -gt 1 ] && { [ "$join" ] || [[ $word == [:@]* ]]; }; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
		join=''
		[[ $word != [:@]* ]] || join=1
	done
}

_vpmu() {
	local words cur prev command='' given='' value='' prefix i offer
	COMPREPLY=()
	_vpmu_words
	cur=${words[-1]} prev=${words[-2]}

	# The command, and whether a VM was given, or an option that stands for VMs
	for ((i = 1; i < ${#words[@]} - 1; i++)); do
		case $value$command,${words[i]} in
		*,=) value='value of ' ;;
		'value of '*) value='' ;;
		set,--freeze | set,-f | set,--tsc | set,-t | set,--events | set,-e) value='value of ' ;;
		events,--perf | events,-p | events,--vendor | events,-v) value='value of ' ;;
		map,-[firt] | map,--fills | map,--for | map,--interval | map,--rounds | map,--trial) value='value of ' ;;
		pages,-[cefnst] | pages,--count | pages,--event | pages,--fills | pages,--seconds | pages,--timeout | pages,--windows) value='value of ' ;;
		record,-[ceFmo] | record,--count | record,--event | record,--frequency) value='value of ' ;;
		record,--records | record,--output | record,--qga | record,--map-program) value='value of ' ;;
		report,-[gin] | report,--guest-map | report,--input | report,--rows) value='value of ' ;;
		export,-[fgio] | export,--format | export,--guest-map) value='value of ' ;;
		export,--input | export,--output) value='value of ' ;;
		serve,--listen | serve,-l) value='value of ' ;;
		stat,--interval | stat,-i | stat,--count | stat,-n) value='value of ' ;;
		top,--delay | top,-d) value='value of ' ;;
		set,--all | set,-a | set,--default | set,-d) given=1 ;;
		*,-*) ;;
		,*) command=${words[i]} ;;
		*) given=1 ;;
		esac
	done

	# --freeze=MODE comes as three words.
	if [ "$prev" = = ]; then
		prev=${words[-3]}
	elif [ "$cur" = = ]; then
		cur=''
	fi
	case $command,$prev in
	set,--freeze | set,-f) offer="hybrid guest vcpu" ;;
	set,--tsc | set,-t) offer="wall vcpu" ;;
	set,--events | set,-e) offer="on off" ;;
	events,--perf | events,-p) offer=$(_vpmu_events "${COMP_WORDS[0]}") ;;
	events,--vendor | events,-v) offer="amd intel" ;;
	serve,--listen | serve,-l) return ;;
	stat,--interval | stat,-i | stat,--count | stat,-n | top,--delay | top,-d) return ;;
	map,--for | map,-f) offer="performance power energy none" ;;
	map,-[irt] | map,--fills | map,--interval | map,--rounds | map,--trial) return ;;
	pages,-[cefnst] | pages,--count | pages,--event | pages,--fills | pages,--seconds | pages,--timeout | pages,--windows) return ;;
	record,-[cFm] | record,--count | record,--frequency | record,--records) return ;;
	record,-e | record,--event | record,--qga | report,-n | report,--rows | report,-g | report,--guest-map) return ;;
	export,-f | export,--format) offer="folded perf pprof svg trace" ;;
	export,-g | export,--guest-map) return ;;
	export,-[io] | export,--input | export,--output | check,--report | check,-r | record,-o | record,--output | \
		record,--map-program | report,-i | report,--input)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	,*) offer="check events export info list map pages record report run serve set stat top help --json --help --version" ;;
	*)
		case $command in
		help) offer="check events export info list map pages record report run serve set stat top" ;;
		check) offer="--report --json --help" ;;
		events) offer="--perf --each --vendor --json --help" ;;
		info | list) offer="--json --help" ;;
		export) offer="--format --guest-map --input --output --help" ;;
		map) offer="--for --dry-run --once --fit --fills --interval --rounds --trial --json --help" ;;
		pages) offer="--count --event --fills --seconds --timeout --windows --json --help" ;;
		record) offer="--call-graph --count --event --frequency --map-program --output --qga --records --help" ;;
		report) offer="--guest-map --input --rows --json --help" ;;
		run) offer="--on --off --help" ;;
		serve) offer="--listen --help" ;;
		set) offer="--freeze --tsc --events --all --default --json --help" ;;
		stat) offer="--events --interval --count --openmetrics --json --help" ;;
		top) offer="--delay --events --json --help" ;;
		*) return ;;
		esac
		case $command,$given,$cur in
		run,,[!-]* | run,1,*) return ;;
		record,*,-* | map,,-* | pages,,-* | set,,-* | stat,,-* | top,,-*) ;;
		record,*) offer=$(_vpmu_vms "${COMP_WORDS[0]}") ;;
		map,,* | pages,,* | set,,* | stat,,* | top,,*) offer=$(_vpmu_vms "${COMP_WORDS[0]}") ;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "${offer//\\/\\\\}" -- "$cur")
	# What bash replaces begins behind the last ":", or with the last "@".
	if [[ $cur == *[:@]* ]]; then
		prefix=${cur%"${cur##*[:@]}"}
		prefix=${prefix%@}
		COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
	fi
}

complete -F _vpmu vpmu
