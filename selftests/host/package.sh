#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# On an emulated host without the module: the Debian packages, from installing to purging. Needs BUILD, with the
# packages in its folder deb (make deb), and the module as the bench's step testmodules makes it.

cd "$(dirname "$0")" || exit
. ../tap.sh
kernel=$(uname -r)
version=$(../../tools/packaging/version)
rawvm=$BUILD/programs/rawvm
tmp=$(mktemp -d) || exit
packages=(kvm-vpmu-dkms kvm-vpmu-tools)
debs=("kvm-vpmu-dkms_${version}_all.deb" "kvm-vpmu-tools_${version}_amd64.deb")
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# run NAME STATUS COMMAND...: leaves what it says in $tmp/log
run() {
	local name=$1 want=$2 got start=$SECONDS
	shift 2
	"$@" >"$tmp/log" 2>&1 </dev/null
	got=$?
	is "$name: status" $got "$want"
	[ $got = "$want" ] || sed 's/^/# /' "$tmp/log"
	note "$name: $((SECONDS - start)) s"
}

loaded() {
	sed -n 's/^kvm_vpmu [0-9]* \([0-9]*\) .*/\1/p' /proc/modules
}

# All that might be left: but DKMS's key, which is made once and signs all modules
files() {
	{
		find /etc /var/lib/dkms ! -name 'mok.*'
		find /usr/local ! -type d
		find /usr/lib/udev /usr/lib/modprobe.d /usr/lib/systemd /var/lib/systemd -name '*vpmu*'
		find /usr/bin /usr/include/linux /usr/src /usr/share/doc "/lib/modules/$kernel" -maxdepth 1
		find /usr/share/man/man1 /usr/share/bash-completion /var/lib/dpkg/info -name '*vpmu*'
	} | sort
}

# DKMS builds for each kernel that has headers, and here that takes minutes.
for modules in /lib/modules/*; do
	[ "$modules" = "/lib/modules/$kernel" ] || rm "$modules/build"
done
files >"$tmp/before"
/usr/lib/systemd/systemd-udevd --daemon || exit

# Install.
run "dpkg -i" 0 dpkg -i "${debs[@]/#/$BUILD/deb/}"
is "DKMS built it for this kernel" "$(dkms status)" "kvm-vpmu/$version, $kernel, x86_64: installed"
is "the module's place" "$(modinfo -n kvm_vpmu)" "$(echo "/lib/modules/$kernel/updates/dkms/kvm_vpmu.ko"*)"
is "it is signed" "$(modinfo -F signer kvm_vpmu)" "DKMS module signing key"
is "it isn't loaded by itself" "$(loaded)" ""
dpkg -L "${packages[@]}" | sort -u >"$tmp/installed"
is "no files of its own in /etc" "$(grep '^/etc/' "$tmp/installed")" ""

# A kernel that the module isn't for
other=5.10.0-30-amd64
mkdir "/lib/modules/$other"
ln -s "/usr/src/linux-headers-$kernel" "/lib/modules/$other/build"
run "dkms build for $other" 77 dkms build "kvm-vpmu/$version" -k "$other"
is "it says why" "$(sed -n "s/^kvm-vpmu: kernel $other is skipped: //p" "$tmp/log")" \
	"the module is for Linux 6.1 to 7.3"
run "installing kernel $other" 0 /etc/kernel/postinst.d/dkms "$other"
is "nothing was built for it" "$(dkms status)" "kvm-vpmu/$version, $kernel, x86_64: installed"
rm -r "/lib/modules/$other"

# Use.
modprobe -r kvm_amd
run modprobe 0 modprobe kvm_vpmu
is "modprobe loaded kvm_amd before" "$(grep -c '^kvm_amd ' /proc/modules)" 1
udevadm settle
is "device" "$(stat -c '%F, %U:%G, %a' /dev/kvm-vpmu)" "character special file, root:kvm, 660"
is "a guest counts exactly" "$("$rawvm" count 1000)" 2004
is "vpmu is the package's" "$(command -v vpmu) $(vpmu --version)" "/usr/bin/vpmu vpmu $version"
coproc "$rawvm" hold
# shellcheck disable=SC2154 # by coproc
read -r running <&"${COPROC[0]}"
is "a VM runs" "$running" running
is "vpmu list" "$(vpmu list | awk '{ print $2, $3 }' | tail -n +2)" "$COPROC_PID rawvm"
user=(setpriv --reuid=nobody --regid=nogroup --groups=kvm)
is "vpmu list, of group kvm: denied" "$("${user[@]}" vpmu list 2>&1 | grep -c CAP_PERFMON)" 1
is "vpmu list, of group kvm, with CAP_PERFMON" \
	"$("${user[@]}" --inh-caps=+perfmon --ambient-caps=+perfmon vpmu list | wc -l)" 2
setpriv --reuid=nobody --regid=nogroup --clear-groups vpmu list >"$tmp/log" 2>&1
is "vpmu list, of no group: denied" "$(grep -c 'Permission denied' "$tmp/log")" 1
is "man page" "$(man -w vpmu)" /usr/share/man/man1/vpmu.1.gz

# Remove, while a VM uses the module.
run "dpkg -r" 0 dpkg -r "${packages[@]}"
is "DKMS has forgotten it" "$(dkms status)" ""
is "the module isn't found any more" "$(modinfo kvm_vpmu 2>&1 | grep -c 'not found')" 1
is "it stays loaded, with its VM" "$(loaded)" 1
is "guests go on counting exactly" "$("$rawvm" count 1000)" 2004
eval "exec ${COPROC[1]}>&-"
# shellcheck disable=SC2154 # by coproc
wait "$COPROC_PID"
run rmmod 0 rmmod kvm_vpmu
run "modprobe after that" 1 modprobe kvm_vpmu

# Purge.
run "dpkg -P" 0 dpkg -P "${packages[@]}"
is "no package is left" "$(dpkg -l "${packages[@]}" 2>/dev/null | grep -c '^[a-z][a-z]  *kvm-vpmu')" 0
files >"$tmp/after"
is "no file is left" "$(comm -13 "$tmp/before" "$tmp/after" | tr '\n' ' ')" ""
is "no file is missed" "$(comm -23 "$tmp/before" "$tmp/after" | tr '\n' ' ')" ""
is "nothing in depmod's files" "$(grep -ls vpmu "/lib/modules/$kernel"/modules.*)" ""

# make install, of what was built before (-o); selftests/install.sh has more of it.
mkdir -p "$tmp/src/tools"
cp -r ../../Makefile "$tmp/src/"
cp -r ../../tools/packaging "$tmp/src/tools/"
cp -r "$BUILD/module/$kernel" "$tmp/src/kmod"
run "make install" 0 make -C "$tmp/src" -o all install-module install-conf
is "the module's place" "$(modinfo -n kvm_vpmu)" "/lib/modules/$kernel/updates/kvm_vpmu.ko"
modprobe -r kvm_amd
run modprobe 0 modprobe kvm_vpmu
is "modprobe loaded kvm_amd before" "$(grep -c '^kvm_amd ' /proc/modules)" 1
udevadm settle
is "device" "$(stat -c '%F, %U:%G, %a' /dev/kvm-vpmu)" "character special file, root:kvm, 660"
is "a guest counts exactly" "$("$rawvm" count 1000)" 2004
rmmod kvm_vpmu
run "make uninstall" 0 make -C "$tmp/src" uninstall-module uninstall-conf
files >"$tmp/after"
is "no file is left" "$(comm -13 "$tmp/before" "$tmp/after" | tr '\n' ' ')" ""
finish
