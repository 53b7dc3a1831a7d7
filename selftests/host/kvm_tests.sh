#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module: these of selftests/kvm, and of this folder (.sh), by name, each perhaps with arguments
# in the same word. Needs BUILD, and what the latter want.

cd "$(dirname "$0")" || exit
. ../tap.sh
. lib.sh

modprobe msr

for test; do
	read -ra words <<<"$test"
	case $test in
	*.sh*) relay "./${words[0]}" "${words[@]:1}" ;;
	*) relay "$BUILD/kvm/${words[0]}" "${words[@]:1}" ;;
	esac
done
finish
