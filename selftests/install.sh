#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In the bench's root: what "make install" puts where, and that "make uninstall" takes all of it away.
# dkms.sh has what DKMS does with it.

cd "$(dirname "$0")" || exit
. ./tap.sh
tmp=$(mktemp -d) || exit
trap 'rm -r "$tmp"' EXIT
to=$tmp/to
# A copy, as the module is built in place
mkdir -p "$tmp/src/tools"
cp -r ../Makefile ../kmod ../include "$tmp/src/"
cp -r ../tools/guest-map ../tools/packaging ../tools/tinyvm ../tools/vpmu "$tmp/src/tools/"
version=$(../tools/packaging/version)
kdir=$(echo /usr/src/linux-headers-6.12.*-amd64)
kver=${kdir#/usr/src/linux-headers-}
# run [VARIABLE=...] TARGET...
run() {
	make -s -C "$tmp/src" KDIR="$kdir" DESTDIR="$to" "$@" >"$tmp/log" 2>&1
	is "make $*: status" $? 0
	sed 's/^/# /' "$tmp/log"
}

# What is there: mode and name, the tree's own sources as one
files() {
	(cd "$to" && find . ! -type d -printf '%m %P\n') | LC_ALL=C sort -k 2
}

# same NAME EXPECTED
same() {
	local got
	got=$(files)
	if [ "$got" = "$2" ]; then
		ok "$1"
	else
		not_ok "$1"
		diff <(echo "$2") <(echo "$got") | sed 's/^/# /'
	fi
}

run install
same "files of make install" "644 lib/modules/$kver/updates/kvm_vpmu.ko
644 lib/modules/$kver/updates/kvm_vpmu_guest.ko
755 usr/local/bin/vpmu
644 usr/local/include/linux/kvm_vpmu.h
644 usr/local/include/linux/kvm_vpmu_probe.h
644 usr/local/include/linux/kvm_vpmu_profile.h
755 usr/local/lib/kvm-vpmu/vpmu-guest-map
644 usr/local/lib/modprobe.d/kvm-vpmu.conf
644 usr/local/lib/systemd/system/vpmu-map@.service
644 usr/local/lib/systemd/system/vpmu-metrics.service
644 usr/local/lib/udev/rules.d/60-kvm-vpmu.rules
644 usr/local/share/bash-completion/completions/vpmu
644 usr/local/share/man/man1/vpmu.1"
is "the module has no debug information" \
	"$(readelf -SW "$to/lib/modules/$kver/updates/kvm_vpmu.ko" | grep -c debug_info)" 0
is "it is for the kernel of KDIR" \
	"$(modinfo -F vermagic "$to/lib/modules/$kver/updates/kvm_vpmu.ko" | cut -d' ' -f1)" "$kver"
is "version" "$("$to/usr/local/bin/vpmu" --version)" "vpmu $version"
is "udev likes the rule" \
	"$(udevadm verify --no-summary "$to/usr/local/lib/udev/rules.d/60-kvm-vpmu.rules" 2>&1)" ""
units=$to/usr/local/lib/systemd/system
unit=$units/vpmu-metrics.service
is "the unit's command" "$(sed -n 's/^ExecStart=//p' "$unit")" "/usr/local/bin/vpmu serve --listen \${LISTEN}"
is "its address is the tool's own" "$(sed -n 's/^Environment=LISTEN=//p' "$unit")" \
	"$("$to/usr/local/bin/vpmu" serve --help | tr -d '\n ' | sed 's/.*default:\([0-9.:]*\)).*/\1/')"
# With the command where it is, as systemd looks for it
mkdir "$tmp/unit"
for unit in vpmu-metrics.service vpmu-map@.service; do
	sed "s|^ExecStart=|&$to|" "$units/$unit" >"$tmp/unit/$unit"
	is "systemd likes $unit" "$(systemd-analyze verify --man=no "$tmp/unit/${unit/@/@a}" 2>&1)" ""
	systemd-analyze security --offline=yes --no-pager --threshold=20 "$tmp/unit/$unit" >"$tmp/log" 2>&1
	is "$unit: its exposure is at most 2.0 of 10" $? 0
	tail -n 1 "$tmp/log" | sed 's/^/# /'
done
is "modprobe likes its file" "$(modprobe -C "$to/usr/local/lib/modprobe.d" -c 2>&1 | grep vpmu)" ""
# What is commented out there has to be right, too.
sed -i 's/^#\([a-z]\)/\1/' "$to/usr/local/lib/modprobe.d/kvm-vpmu.conf"
is "and with all that it offers" \
	"$(modprobe -C "$to/usr/local/lib/modprobe.d" -c 2>&1 | grep -E 'vpmu|mediated' | sort | tr '\n' ';')" \
	"options kvm_amd enable_mediated_pmu=N;options kvm_vpmu allow_untested=Y;options kvm_vpmu attach=explicit;options kvm_vpmu freeze=guest tsc=vcpu;options kvm_vpmu vmrun_counts=N;"
is "a program finds the header" \
	"$(echo 'int x = KVM_VPMU_ABI;' | gcc -I"$to/usr/local/include" -include linux/kvm_vpmu.h \
		-Wall -fsyntax-only -xc - 2>&1)" ""
run uninstall
same "nothing is left" ""
is "nor an empty folder of ours" "$(ls "$to/lib/modules/$kver")" ""

# Once more, elsewhere, and for DKMS
run PREFIX=/usr install-tools install-dkms
same "files with PREFIX, and for DKMS" "755 usr/bin/vpmu
644 usr/include/linux/kvm_vpmu.h
644 usr/include/linux/kvm_vpmu_probe.h
644 usr/include/linux/kvm_vpmu_profile.h
755 usr/lib/kvm-vpmu/vpmu-guest-map
644 usr/lib/modprobe.d/kvm-vpmu.conf
644 usr/lib/systemd/system/vpmu-map@.service
644 usr/lib/systemd/system/vpmu-metrics.service
644 usr/lib/udev/rules.d/60-kvm-vpmu.rules
644 usr/share/bash-completion/completions/vpmu
644 usr/share/man/man1/vpmu.1
$({
	echo dkms.conf
	cd .. && find kmod include \( -name '*.[chS]' ! -name '*.mod.c' \) -o -name '*.mk' -o -name Kbuild
} | LC_ALL=C sort | sed "s|^|644 usr/src/kvm-vpmu-$version/|")"
is "DKMS's version" "$(sed -n 's/^PACKAGE_VERSION=//p' "$to/usr/src/kvm-vpmu-$version/dkms.conf")" "\"$version\""
run PREFIX=/usr uninstall
same "nothing is left again" ""

for dir in /usr/src/linux-headers-*-amd64; do
	is "kernel of ${dir##*/}" "$(make -n -C "$tmp/src" KDIR="$dir" DESTDIR="$to" uninstall-module |
		sed -n 's|^rm -f .*/lib/modules/\(.*\)/updates/.*|\1|p')" "${dir#*headers-}"
done
make -s -C "$tmp/src" KDIR=/nowhere uninstall-module >"$tmp/log" 2>&1
is "without headers: make says what to do" "$(grep -c '/nowhere has no kernel headers' "$tmp/log")" 1
finish
