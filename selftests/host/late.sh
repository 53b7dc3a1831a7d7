#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module, one CPU and no NMI watchdog, whose overflow interrupts come SKID instructions late:
# late.sh [expired]. With "expired" they come when the module no longer waits for them. Needs BUILD and SKID.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh

# sync() sends an NMI that nobody knows.
insmod "$BUILD/modules/$(uname -r)/nmis.ko" symbol=__x64_sys_sync claim=0 || exit
relay "$BUILD/kvm/late" "$@"
rmmod nmis
finish
