#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host without a PMU: what the module says. Needs MODULE, the module.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./refused.sh

refused "a CPU without a PMU" "No such device" "this CPU has no PMU" "$MODULE"
# Guests go on without.
is "a guest" "$(vpmu-guest -- echo runs)" "runs"

finish
