#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host of two CPUs with the module: it reboots while a vCPU runs on and borrows counters, after
# kvm_shutdown() has switched virtualization off. The bench ends the machine there, and looks whether the kernel
# complained. Needs BUILD. One test is all there is; more can be said by the bench only.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh

borrowed() {
	figures borrowed
}
"$BUILD/kvm/borrow" forever &
sleep 2
before=$(borrowed)
sleep 1
within "a vCPU borrows counters" $(($(borrowed) - before)) 10 1000000000
echo "1..$tap_n"
sleep 1
# This command's status, which nobody else will write
echo $tap_failed >/run/vpmu/status
sync
exec /run/bed/busybox reboot -f
