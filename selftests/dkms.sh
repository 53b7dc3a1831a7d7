#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# In the bench's root: what "make install-dkms" and DKMS do, once and again, and for kernels that the module isn't for.
# All that they write is in a mount namespace of this script's own.

cd "$(dirname "$(readlink -f "$0")")" || exit
[ "${1:-}" = inside ] || exec unshare --mount --propagation private "./${0##*/}" inside
. ./tap.sh
export LC_ALL=C

# writable DIR: what is there, and changes that are forgotten
writable() {
	local top=/run/dkms-test$1
	mkdir -p "$top/upper" "$top/work"
	mount -t overlay overlay -o "lowerdir=$1,upperdir=$top/upper,workdir=$top/work" "$1" || exit
}
mkdir -p /run/dkms-test
mount -t tmpfs dkms-test /run/dkms-test || exit
writable /usr/src
writable "$(readlink -f /lib/modules)"
mount -t tmpfs dkms-test /var/lib/dkms || exit
mount -t tmpfs dkms-test /usr/local || exit

src=/run/dkms-test/src log=/run/dkms-test/log
mkdir -p $src/tools
cp -r ../Makefile ../kmod ../include $src/
cp -r ../tools/packaging $src/tools/
version=$(../tools/packaging/version)
kdirs=(/usr/src/linux-headers-*-amd64)
kdir=$(echo /usr/src/linux-headers-6.12.*-amd64)
kver=${kdir#/usr/src/linux-headers-}
other=${kdirs[0]#/usr/src/linux-headers-}

# run NAME STATUS COMMAND...
run() {
	local name=$1 want=$2 got
	shift 2
	"$@" >$log 2>&1 </dev/null
	got=$?
	is "$name: status" $got "$want"
	[ $got = "$want" ] || sed 's/^/# /' $log
}

# make_dkms [COMMAND...]: make $target, by COMMAND
target=install-dkms
# shellcheck disable=SC2317 # by "run"
make_dkms() {
	"$@" make -s -C "$src" KDIR="$kdir" "$target"
}
# built KERNEL...: what DKMS says when that version is built for these
built() {
	local kernel
	for kernel; do
		echo "kvm-vpmu/$version, $kernel, x86_64: installed"
	done
}
description() {
	modinfo -F description -k "$1" kvm_vpmu
}

run "make install-dkms" 0 make_dkms
is "DKMS built it" "$(dkms status)" "$(built "$kver")"
is "the module's version" "$(modinfo -F version -k "$kver" kvm_vpmu)" "$version"
is "the guests' module" "$(modinfo -F license -k "$kver" kvm_vpmu_guest)" GPL

# Modules of one file stand for newer sources: DKMS takes its time for all of them.
rm -r $src/kmod
mkdir $src/kmod
echo 'obj-m := kvm_vpmu.o kvm_vpmu_guest.o' >$src/kmod/Kbuild
newer() {
	cat >$src/kmod/kvm_vpmu.c <<-END
		#include <linux/module.h>
		MODULE_LICENSE("GPL");
		MODULE_DESCRIPTION("$1");
	END
	cp $src/kmod/kvm_vpmu.c $src/kmod/kvm_vpmu_guest.c
}
newer second
run "make install-dkms of the same version" 0 make_dkms
is "DKMS built it" "$(dkms status)" "$(built "$kver")"
is "of the new sources" "$(description "$kver")" second
run "dkms install for another kernel" 0 dkms install "kvm-vpmu/$version" -k "$other"
newer third
run "make install-dkms once more" 0 make_dkms
is "DKMS built it for both" "$(dkms status | sort)" "$(built "$kver" "$other" | sort)"
is "of the new sources" "$(description "$kver") $(description "$other")" "third third"

sed -i "1s/($version)/($version.99)/" $src/tools/packaging/debian/changelog
version=$version.99
run "make install-dkms of a later version" 0 make_dkms
is "DKMS has only that" "$(dkms status | sort)" "$(built "$kver" "$other" | sort)"
is "nor is the earlier source left" "$(echo /usr/src/kvm-vpmu-*)" "/usr/src/kvm-vpmu-$version"

# A package's source is the package's.
mkdir -p /run/dkms-test/bin
cat >/run/dkms-test/bin/dpkg-query <<EOT
#!/bin/sh
[ "\$2" = "/usr/src/kvm-vpmu-$version/dkms.conf" ] && echo "kvm-vpmu-dkms: \$2"
EOT
chmod +x /run/dkms-test/bin/dpkg-query
newer fourth
run "make install-dkms beside the package" 2 make_dkms env PATH="/run/dkms-test/bin:$PATH"
is "it says why" "$(grep -c 'the package kvm-vpmu-dkms has the module; remove it first' $log)" 1
is "it left the source" "$(grep -c third "/usr/src/kvm-vpmu-$version/kmod/kvm_vpmu.c")" 1
target=uninstall-dkms
run "make uninstall-dkms beside the package" 0 make_dkms env PATH="/run/dkms-test/bin:$PATH"
is "it left the source, and what DKMS has" \
	"$(grep -c third "/usr/src/kvm-vpmu-$version/kmod/kvm_vpmu.c") $(dkms status | wc -l)" "1 2"

# Kernels that the module isn't for, by release or by configuration
configured=/run/dkms-test/headers
mkdir -p $configured
cp "$kdir/.config" $configured/
# skips RELEASE [REASON]: a release may be any, with these headers
skips() {
	local got
	dkms build "kvm-vpmu/$version" -k "$1" --kernelsourcedir $configured >$log 2>&1
	got=$?
	if [ -z "${2:-}" ]; then
		is "$1 isn't skipped" "$(grep -cE 'skipped|BUILD_EXCLUSIVE' $log)" 0
	else
		is "$1 is skipped: status" $got 77
		is "$1: the reason" "$(sed -n "s/^kvm-vpmu: kernel $1 is skipped: //p" $log)" "$2"
	fi
	rm -rf "/var/lib/dkms/kvm-vpmu/$version/$1"
}
range="the module is for Linux 6.1 to 7.3"
for release in 6.1.0-1-amd64 6.10.3 6.12.0-55.9.1.el10_0.x86_64 6.19.14 7.2.12+deb13-amd64 7.3.4 \
	5.14.0-570.12.1.el9_6.x86_64; do
	skips $release
done
for release in 5.10.0-30-amd64 6.0.1 7.4.0 7.20.1 8.1.0 4.18.0-553.el8_10.x86_64 5.15.0-309.180.4.el9uek.x86_64; do
	skips $release "$range"
done
# with SETTING... REASON: headers with these settings
with() {
	local settings=("${@:1:$#-1}") s
	cp "$kdir/.config" $configured/.config
	for s in "${settings[@]}"; do
		sed -i "s/^${s%%=*}=.*/$s/" $configured/.config
	done
	note "with ${settings[*]}"
	skips 6.12.1 "${*: -1}"
}
with CONFIG_KVM=y "KVM is built in, and has to be a module (CONFIG_KVM=m)"
with CONFIG_KVM_AMD=y "KVM is built in, and has to be a module (CONFIG_KVM=m)"
with CONFIG_KVM_AMD=n ""
with CONFIG_KVM=n "it lacks CONFIG_KVM=m"
with CONFIG_KVM_AMD=n CONFIG_KVM_INTEL=n "it lacks CONFIG_KVM_(AMD|INTEL)=m"
with CONFIG_KPROBES=n "it lacks CONFIG_KPROBES=y"
with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=n "it lacks CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y"

run "make uninstall-dkms" 0 make_dkms
is "DKMS has forgotten it" "$(dkms status)" ""
is "no source is left" "$(find /usr/src -maxdepth 1 -name 'kvm-vpmu-*')" ""
run "make uninstall-dkms, with nothing there" 0 make_dkms
is "nor is a module" "$(find /lib/modules/ -name 'kvm_vpmu*')" ""
finish
