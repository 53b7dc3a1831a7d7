#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module: these of selftests/kvm, by name. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
. lib.sh

for test; do
	relay "$BUILD/kvm/$test"
done
finish
