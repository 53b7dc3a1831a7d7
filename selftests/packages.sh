#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is in the packages, for which the bench's root has builders: Debian's (and lintian's view of them), RPM's, Arch
# Linux's. Run outside of the root; selftests/host/package.sh installs Debian's.

# The builders are called by name.
# shellcheck disable=SC2317
cd "$(dirname "$(readlink -f "$0")")/.." || exit
. selftests/tap.sh
# In the project, as the root sees no other folder
out=$PWD/build/packages
tmp=$out/unpacked
rm -rf "$out"
mkdir -p "$tmp"
version=$(tools/packaging/version)
root=(tools/testbed/chroot --)

# same NAME GOT EXPECTED: files, a line for each
same() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1"
		diff <(echo "$3") <(echo "$2") | sed 's/^/# /'
	fi
}

# The module's source for DKMS, as VERSION; udev's and modprobe's files
dkms_files() {
	echo "usr/lib/modprobe.d/kvm-vpmu.conf"
	echo "usr/lib/udev/rules.d/60-kvm-vpmu.rules"
	echo "usr/src/kvm-vpmu-$1/dkms.conf"
	git ls-files kmod include | sed "s|^|usr/src/kvm-vpmu-$1/|"
}

# The documentation, in folder $1
doc_files() {
	git ls-files ./*.md MAINTAINERS LICENSES/README docs tools/testbed/README.md tools/testbed/bare/README.md |
		sed "s|^|$1/|"
}

# The tool; what a package's builder compresses has .gz
tool_files() {
	printf "%s\n" usr/bin/vpmu usr/lib/kvm-vpmu/vpmu-guest-map usr/lib/systemd/system/vpmu-{map@,metrics}.service \
		usr/share/bash-completion/completions/vpmu usr/share/man/man1/vpmu.1.gz
}

sorted() {
	LC_ALL=C sort
}

# dead_links DIR: in its pages
dead_links() {
	find "$1" -name '*.md' | while read -r page; do
		grep -oE '\]\([^)#]+' "$page" | sed 's/^](//' | while read -r link; do
			case $link in
			*://*) ;;
			*) [ -e "${page%/*}/$link" ] || echo "${page#"$1"/}: $link" ;;
			esac
		done
	done
}

# unpack PACKAGE SCRIPT FILE: SCRIPT unpacks its argument into the working directory, in the root
unpack() {
	mkdir -p "$tmp/$1"
	"${root[@]}" env -C "$tmp/$1" sh -c "$2" sh "$3" || not_ok "$3 can't be unpacked"
}

# files PACKAGE [WITHOUT]: what was unpacked, but for files whose names are like WITHOUT
files() {
	(cd "$tmp/$1" && find . ! -type d ! -path "./${2:--}" -printf '%P\n') | sorted
}

# looks TOOL DKMS DOC VERSION: what is in these packages; VERSION is DKMS's
looks() {
	is "dkms.conf has the version" "$(sed -n 's/^PACKAGE_VERSION=//p' "$tmp/$2/usr/src/kvm-vpmu-$4/dkms.conf")" "\"$4\""
	is "the tool has the version" "$("${root[@]}" "$tmp/$1/usr/bin/vpmu" --version)" "vpmu $version"
	is "pages that are missing" "$(dead_links "$tmp/$3/usr/share/doc")" ""
}

# build FORMAT PROGRAM...: status 1 if there is no such builder, or it failed
build() {
	local program
	for program in "${@:2}"; do
		if ! "${root[@]}" sh -c "command -v $program" >/dev/null; then
			ok "$1 # SKIP the bench's root has no $program"
			return 1
		fi
	done
	if tools/packaging/build --out "$out" "$1" >"$tmp/log" 2>&1; then
		ok "$1 is built"
	else
		not_ok "$1 is built"
		sed 's/^/# /' "$tmp/log"
		return 1
	fi
}

build_deb() {
	local doc=usr/share/doc dkms=deb-dkms tools=deb-tools
	build deb dpkg-buildpackage || return
	# shellcheck disable=SC2016 # expands there
	{
		unpack "$dkms" 'dpkg-deb -x "$1" .' "$out/deb/kvm-vpmu-dkms_${version}_all.deb"
		unpack "$tools" 'dpkg-deb -x "$1" .' "$out/deb/kvm-vpmu-tools_${version}_amd64.deb"
	}
	same "kvm-vpmu-dkms" "$(files "$dkms")" "$({
		dkms_files "$version"
		doc_files "$doc"/kvm-vpmu-dkms
		printf "$doc/kvm-vpmu-dkms/%s\n" changelog.gz copyright
	} | sorted)"
	same "kvm-vpmu-tools" "$(files "$tools")" "$({
		tool_files
		printf "usr/include/linux/%s\n" kvm_vpmu.h kvm_vpmu_probe.h kvm_vpmu_profile.h
		printf "$doc/kvm-vpmu-tools/%s\n" changelog.gz copyright
		echo usr/share/lintian/overrides/kvm-vpmu-tools
	} | sorted)"
	looks "$tools" "$dkms" "$dkms" "$version"
	is "Debian's tests of DKMS's packages" "$(sed -n 's/^Testsuite: //p' "$out"/deb/*.dsc)" autopkgtest-pkg-dkms

	if ! "${root[@]}" sh -c 'command -v lintian' >/dev/null; then
		ok "lintian # SKIP the bench's root has no lintian"
		return
	fi
	is "lintian" "$("${root[@]}" lintian --allow-root --fail-on none --tag-display-limit 0 "$out"/deb/*.changes 2>&1)" ""
}

build_rpm() {
	local package release
	build rpm rpmbuild || return
	release=$(basename "$out"/rpm/RPMS/noarch/kvm-vpmu-dkms-*.noarch.rpm .noarch.rpm)
	release=${release#kvm-vpmu-dkms-}
	# shellcheck disable=SC2016 # expands there
	for package in x86_64/kvm-vpmu noarch/kvm-vpmu-{dkms,devel}; do
		unpack "rpm-${package#*/}" 'rpm2cpio "$1" | cpio -idm --quiet' \
			"$out/rpm/RPMS/$package-$release.${package%/*}.rpm"
	done
	# Debian's rpm has the version in the name of the licence's folder, Fedora's hasn't.
	for package in kvm-vpmu{,-dkms,-devel}; do
		mv "$tmp/rpm-$package/usr/share/licenses/$package"{-"$version",}
	done
	same "kvm-vpmu-dkms" "$(files rpm-kvm-vpmu-dkms)" "$({
		dkms_files "$release"
		echo usr/share/licenses/kvm-vpmu-dkms/GPL-2.0
	} | sorted)"
	same "kvm-vpmu" "$(files rpm-kvm-vpmu)" "$({
		tool_files
		doc_files usr/share/doc/kvm-vpmu
		echo usr/share/licenses/kvm-vpmu/GPL-2.0
	} | sorted)"
	same "kvm-vpmu-devel" "$(files rpm-kvm-vpmu-devel)" "usr/include/linux/kvm_vpmu.h
usr/include/linux/kvm_vpmu_probe.h
usr/include/linux/kvm_vpmu_profile.h
usr/share/licenses/kvm-vpmu-devel/GPL-2.0"
	looks rpm-kvm-vpmu rpm-kvm-vpmu-dkms rpm-kvm-vpmu "$release"
}

build_arch() {
	local package
	build arch makepkg bsdtar || return
	# shellcheck disable=SC2016 # expands there
	for package in kvm-vpmu-dkms kvm-vpmu; do
		unpack "arch-$package" 'bsdtar -xf "$1"' "$(echo "$out/arch/$package-$version-1"-*.pkg.tar*)"
	done
	# makepkg's own are hidden files at the top.
	same "kvm-vpmu-dkms" "$(files arch-kvm-vpmu-dkms '.[A-Z]*')" "$(dkms_files "$version" | sorted)"
	same "kvm-vpmu" "$(files arch-kvm-vpmu '.[A-Z]*')" "$({
		tool_files
		doc_files usr/share/doc/kvm-vpmu
		printf "usr/include/linux/%s\n" kvm_vpmu.h kvm_vpmu_probe.h kvm_vpmu_profile.h
	} | sorted)"
	looks arch-kvm-vpmu arch-kvm-vpmu-dkms arch-kvm-vpmu "$version"
}

[ $# -gt 0 ] || set -- deb rpm arch
for format; do
	"build_$format"
done
finish
