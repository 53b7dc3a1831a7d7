#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host with Linux 7 and nmi_watchdog=0, which KVM's own mediated vPMU demands: where
# that is on, the module steps aside. Needs BUILD.

cd "$(dirname "$0")" || exit
. ../tap.sh
. ./refused.sh

modprobe -r kvm_amd
modprobe kvm_amd enable_mediated_pmu=1
is "KVM's own is on" "$(cat /sys/module/kvm_amd/parameters/enable_mediated_pmu)" Y
refused "mediated" "Device or resource busy" "KVM's own mediated vPMU is on" \
	"$BUILD/module/$(uname -r)/kvm_vpmu.ko"
is "a guest" "$(vpmu-guest -- echo runs)" "runs"

finish
