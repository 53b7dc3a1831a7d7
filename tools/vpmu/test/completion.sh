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

offers "check list run set stat top help --json --help --version" ""
offers "set stat" s
offers "stat" --json st
offers "--json --help" list -
offers "--report --json --help" check ""
offers "check list run set stat top" help ""
offers "hybrid guest vcpu" set 1 --freeze ""
offers "hybrid" set 1 --freeze h
offers "hybrid guest vcpu" set --freeze =
offers "guest" set --freeze = g
offers "wall vcpu" set -t ""
offers "--freeze --tsc --json --help" set 1 -
offers "--on --off --help" run -
offers "" stat -i ""
offers "--interval" stat --i
offers "--delay --json --help" top ""
offers '\#1 4194301 \#22 4194302' stat ""
offers '4194302' set 4194302
VPMU_FAKE=absent offers "" stat ""

finish
