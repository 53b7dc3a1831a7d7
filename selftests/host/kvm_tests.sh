#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module: these of selftests/kvm, and of this folder (.sh), by name. Needs BUILD, and
# what the latter want.

cd "$(dirname "$0")" || exit
. ../tap.sh
. lib.sh

modprobe msr

for test; do
	case $test in
	*.sh) relay "./$test" ;;
	*) relay "$BUILD/kvm/$test" ;;
	esac
done
finish
