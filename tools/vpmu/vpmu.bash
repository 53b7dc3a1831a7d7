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

_vpmu() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' i words
	COMPREPLY=()

	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-*) ;;
		*)
			command=${COMP_WORDS[i]}
			break
			;;
		esac
	done

	# --freeze=MODE comes as three words.
	if [ "$prev" = = ]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	elif [ "$cur" = = ]; then
		cur=''
	fi
	case $command,$prev in
	set,--freeze | set,-f) words="hybrid guest vcpu" ;;
	set,--tsc | set,-t) words="wall vcpu" ;;
	stat,--interval | stat,-i | stat,--count | stat,-n | top,--delay | top,-d) return ;;
	check,--report | check,-r)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	,*) words="check list run set stat top help --json --help --version" ;;
	*)
		case $command,$cur in
		help,*) words="check list run set stat top" ;;
		check,*) words="--report --json --help" ;;
		list,-*) words="--json --help" ;;
		run,-*) words="--on --off --help" ;;
		set,-*) words="--freeze --tsc --json --help" ;;
		stat,-*) words="--interval --count --json --help" ;;
		top,*) words="--delay --json --help" ;;
		set,* | stat,*) words=$(_vpmu_vms "${COMP_WORDS[0]}") ;;
		*) return ;;
		esac
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "${words//\\/\\\\}" -- "$cur")
}

complete -F _vpmu vpmu
