#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On a host with the module: vCPUs whose creation fails in KVM, by whatever reason, leave nothing behind. Nor do those
# that aren't the module's. Needs BUILD, whose modules/ lets functions fail, and "vpmu" in it.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./lib.sh
modules=$BUILD/modules/$(uname -r)
create=svm_vcpu_create
! grep -q GenuineIntel /proc/cpuinfo || create=vmx_vcpu_create

relay "$BUILD/kvm/creation"
for symbol in $create kvm_create_lapic kvm_mmu_create; do
	insmod "$modules/fail.ko" symbol="$symbol" || exit
	relay "$BUILD/kvm/creation" fails 12
	rmmod fail
	is "$symbol failed: VMs that the tool lists" "$("$BUILD/vpmu/vpmu" list | tail -n +2 | wc -l)" 0
done
insmod "$modules/protect.ko" || exit
relay "$BUILD/kvm/creation" unlisted
rmmod protect
is "a guest whose state is encrypted: the log says so" "$(dmesg | grep -c 'kvm_vpmu: guests whose state is encrypted')" 1
insmod "$modules/protect.ko" late=1 || exit
relay "$BUILD/kvm/creation" uncounted
rmmod protect
is "a guest whose state was encrypted: the log says so" "$(dmesg | grep -c "a guest's state was encrypted")" 1
relay "$BUILD/kvm/creation"
rmmod kvm_vpmu
is "the module can be unloaded" "$(grep -c '^kvm_vpmu ' /proc/modules)" 0
finish
