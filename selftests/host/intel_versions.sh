#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated Intel host: each version of the architectural PMU that the module's parameter
# intel_version can offer. All their registers; then a stock guest for each of the arguments. CPU names the
# host's register set. Needs BUILD and PROGRAMS.

cd "$(dirname "$0")" || exit
. ../tap.sh
. lib.sh
module=$BUILD/module/$(uname -r)/kvm_vpmu.ko

load() {
	note "version $1"
	insmod "$module" intel_version="$1" || exit
}

for version in 2 3 4 5; do
	load $version
	is "version $version: the parameter" "$(cat /sys/module/kvm_vpmu/parameters/intel_version)" $version
	relay ./registers.sh
	relay "$BUILD/kvm/vtune"
	relay "$BUILD/kvm/cpuid"
	rmmod kvm_vpmu || exit
done
# What unmodified Linux makes of it, and what perf counts there
for version; do
	load "$version"
	# shellcheck disable=SC2016 # expands there
	relay vpmu-guest -- env PROGRAMS="$PROGRAMS" sh -c '
		. ../tap.sh
		is "the guest finds version" "$(dmesg | sed -n "s/.*\.\.\. version: *//p")" "$1"
		exec ../guest/perf_exact.sh' sh "$version"
	rmmod kvm_vpmu || exit
done
finish
