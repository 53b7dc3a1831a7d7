#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module and a kernel with fault injection: each call in the life of a VM, and the module's init
# function and its unloading, with each of up to N allocations failing: faults.sh N. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
module=$BUILD/module/$(uname -r)/kvm_vpmu.ko

relay "$BUILD/kvm/faults" "$1"
rmmod kvm_vpmu
is "the module can be unloaded" "$(grep -c '^kvm_vpmu ' /proc/modules)" 0
insmod "$BUILD/modules/$(uname -r)/nth.ko" || exit
relay "$BUILD/kvm/faults" "$module" "$1"
rmmod nth
is "no function is left hooked" "$(grep -c . /sys/kernel/tracing/enabled_functions)" 0
finish
