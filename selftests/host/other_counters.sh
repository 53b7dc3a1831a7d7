#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an AMD host with the module: guests' RDPMC exits once the host has an event of other counters that RDPMC reads,
# until the module is loaded again. Needs BUILD, whose modules/ has a module that makes such an event.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh

relay "$BUILD/kvm/open" others "$BUILD/modules/$(uname -r)/others.ko"
rmmod kvm_vpmu
insmod "$BUILD/module/$(uname -r)/kvm_vpmu.ko" || exit
relay "$BUILD/kvm/open" reads
finish
