#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host without a PMU: what the module says, and "vpmu check". Needs BUILD, the folder of
# built tests.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
. ./refused.sh

refused "a CPU without a PMU" "No such device" "this CPU has no PMU" "$BUILD/module/$(uname -r)/kvm_vpmu.ko"
# Guests go on without.
is "a guest" "$(vpmu-guest -- echo runs)" "runs"
relay ./vpmu_check.sh no_pmu

finish
