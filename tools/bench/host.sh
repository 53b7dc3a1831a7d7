# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # for those who source it
#
# Sets kvm, KVM's module for this host's CPU, and kernel: its version, with -intel on Intel's CPUs.

kernel=$(uname -r | cut -d. -f1,2)
kvm=kvm_amd
! grep -qw vmx /proc/cpuinfo || kvm=kvm_intel kernel+=-intel
